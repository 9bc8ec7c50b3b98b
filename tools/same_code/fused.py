"""The functions that `fuse` writes for the examples and for the realistic programs of the benchmarks."""

from __future__ import annotations

import contextlib
import io
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tl_dpnp
from asv_bench.benchmarks.namespaces import make, names
from tl_dpnp.graph import kernels, plan, planning
from tl_dpnp.language.printer import print_module
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

__all__ = ["sources", "written"]

_EXAMPLES = Path(__file__).parents[2] / "examples"
_BATCH = 3


def sources() -> dict[str, list[str]]:
    """Return the texts of the functions of each program, in the order in which they are written.

    Kernels of the realistic programs are neither compiled nor run: their results are zero, and no program asks for
    them.  Raises RuntimeError for a program that leaves no function.
    """
    found = {name: written(name, ("f32", "f64")[number % 2]) for number, name in enumerate(sorted(names()))}
    for path in sorted(_EXAMPLES.glob("fused_*.py")):
        if "@tl_dpnp.fuse" in path.read_text(encoding="utf-8"):
            with _written() as texts, contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path(str(path), run_name="__main__")
            found[f"examples/{path.stem}"] = texts
    empty = [name for name, texts in found.items() if not texts]
    if empty:
        raise RuntimeError(f"fuse wrote no function for {', '.join(empty)}")
    return found


def written(name: str, element: str) -> list[str]:
    """Return the texts of the functions of a realistic program on arrays of an element type."""
    call = make("dpnp", name, _BATCH, element)
    with _written() as texts, _not_run():
        tl_dpnp.fuse(call.function)(*call.arguments)
    return texts


@contextlib.contextmanager
def _written() -> Iterator[list[str]]:
    """Give a list that gets the text of each function that is compiled meanwhile."""
    texts: list[str] = []
    compile = kernels.compile

    def recorded(module: Any, target: Any = "auto") -> Any:
        texts.append(print_module(module))
        return compile(module, target=target, cache=False)

    kernels.clear_kernels()
    with _replaced(kernels, "compile", recorded):
        yield texts


class _NotRun:
    """Stands for the launch of a kernel."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue

    def run(self, _scalars: Any, _addresses: Any) -> None:
        """Do nothing."""


@contextlib.contextmanager
def _not_run() -> Iterator[None]:
    """Launch no kernels; new arrays are zero, so that what a program reads of them is no matter of chance."""
    def zeros(result: plan.Allocation, queue: Any) -> Any:
        return dpt.zeros(result.shape, dtype=result.dtype, usm_type=result.usm_type, sycl_queue=queue)

    with _replaced(planning, "prepare", lambda _kernel, _shapes, _groups, queue: _NotRun(queue)), \
            _replaced(plan.Allocation, "made", zeros):
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
