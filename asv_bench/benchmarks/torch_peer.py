"""PyTorch as a peer, in a process of its own.

dpnp and PyTorch each bring oneMKL, with integers of different sizes.  In one process the calls of PyTorch reach the
other's, which refuses them and computes nothing.

``python -m benchmarks.torch_peer`` answers lines of JSON: ``{"shape": …, "element": …, "batch": …}`` with null once
the batch was multiplied and compared with NumPy, ``{"program": …, "sizes": …, "batch": …}`` with null once there are
the operands of a program in bf16, and ``{"calls": …, "clock": …}`` with the seconds that they took.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tables import Shape
from .timing import Contestant

__all__ = ["TorchProducts", "TorchProgram"]


@functools.cache
def _process() -> subprocess.Popen[str]:
    folder = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.torch_peer"], env={**os.environ, "PYTHONPATH": path}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )


def _ask(question: dict[str, Any]) -> Any:
    process = _process()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"PyTorch's process ended with {process.wait()}; its message is above")
    return json.loads(line)


@dataclass(frozen=True)
class TorchProducts(Contestant):
    """A batch of products by ``torch.bmm``; it holds until the next one is made.  It keeps to the same cores."""

    @classmethod
    def of(cls, shape: Shape, element: str, batch: int) -> TorchProducts:
        """Make the batch in the other process, multiply it and compare it with NumPy."""
        _ask({"shape": shape, "element": element, "batch": batch})
        return cls(lambda: _ask({"calls": 1, "clock": "perf_counter"}))

    def time(self, calls: int, clock: Callable[[], float]) -> float:
        """Return the seconds of so many calls by the same clock of the other process."""
        seconds: float = _ask({"calls": calls, "clock": clock.__name__})
        return seconds


class TorchProgram(TorchProducts):
    """A program in bf16 by PyTorch; it holds until the next one is made."""

    @classmethod
    def of(cls, name: str, sizes: Sequence[int], batch: int) -> TorchProgram:  # type: ignore[override]
        """Make its operands in the other process."""
        _ask({"program": name, "sizes": list(sizes), "batch": batch})
        return cls(lambda: _ask({"calls": 1, "clock": "perf_counter"}))


def _program(name: str, sizes: Sequence[int], batch: int) -> Callable[[], object]:
    """Return the call of a program of ``tile_programs``."""
    import torch

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(batch, *shape, dtype=torch.bfloat16)

    torch.set_num_threads(1)
    if name == "attention":
        length, components = sizes
        q, k, v = (numbers(1, length, components) for _ in range(3))
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    m, first, second, n = sizes
    a, b, c = numbers(first, m), numbers(second, first), numbers(n, second)
    return lambda: torch.bmm(c, torch.bmm(b, a))


def _serve() -> None:
    import numpy as np
    import torch

    left = right = product = torch.empty(0)

    def multiply() -> object:
        return torch.bmm(left, right, out=product)

    call: Callable[[], object] = multiply
    for line in sys.stdin:
        question = json.loads(line)
        answer = None
        if "program" in question:
            call = _program(question["program"], question["sizes"], question["batch"])
        elif "shape" in question:
            call = multiply
            m, n, k = question["shape"]
            random = np.random.default_rng(0)
            kind = question["element"].replace("f32", "float32").replace("f64", "float64")
            left, right = (
                torch.from_numpy(random.uniform(-1, 1, (question["batch"], *size)).astype(kind))
                for size in ((n, k), (k, m))
            )
            product = torch.full((question["batch"], n, m), float("nan"), dtype=left.dtype)
            torch.bmm(left, right, out=product)
            np.testing.assert_allclose(product.numpy(), left.numpy() @ right.numpy(), rtol=1e-3, atol=1e-3)
        else:
            clock = getattr(time, question["clock"])
            call()
            start = clock()
            for _ in range(question["calls"]):
                call()
            answer = clock() - start
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
