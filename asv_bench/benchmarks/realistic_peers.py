"""JAX and PyTorch as peers of fused programs, each in a process of its own, in an environment of their own.

``python -m benchmarks.realistic_peers PEER`` answers lines of JSON: a program, ``{"name": …, "batch": …, "element": …,
"seed": …}``, with the seconds of its first call once its results were compared with NumPy's; ``{"calls": …, "clock":
…}`` with the seconds that so many calls took.  What went wrong is answered as ``{"error": …}``.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .namespaces import Call, agree, arrays_of, classes, in_turn, make, varied
from .timing import Contestant

__all__ = ["ENVIRONMENT", "PEERS", "PeerError", "Process"]

#: The Python of the peers; ``ASV_BENCH_PEERS`` names another one.
ENVIRONMENT = Path(__file__).parents[2] / ".venv-peers" / "bin" / "python"


class PeerError(Exception):
    """A peer is missing, or cannot do what it was asked for."""


@dataclass(frozen=True)
class Process:
    """The process of a peer; it holds one program at a time."""

    process: subprocess.Popen[str]

    @classmethod
    @functools.cache
    def of(cls, peer: str) -> Process:
        """Start the process of a peer; raises `PeerError` where its environment is missing."""
        python = Path(os.environ.get("ASV_BENCH_PEERS", ENVIRONMENT))
        if not python.exists():
            raise PeerError(f"{python} is missing: `make .venv-peers/.installed` makes it, or name another Python "
                            "with JAX and PyTorch in ASV_BENCH_PEERS")
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        return cls(subprocess.Popen([python, "-m", f"{__package__.rpartition('.')[2]}.realistic_peers", peer],
                                    env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))

    def prepared(self, name: str, batch: int, element: str, seed: int) -> Contestant:
        """Compile a program and check its results; raises `PeerError` where that fails."""
        self.ask({"name": name, "batch": batch, "element": element, "seed": seed})
        return _Elsewhere(lambda: self.ask({"calls": 1, "clock": "perf_counter"}), process=self)

    def ask(self, question: dict[str, Any]) -> float:
        """Return the answer to a question; raises `PeerError` for an error or where the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise PeerError(f"the peer's process ended with {self.process.wait()}; its message is above")
        answer = json.loads(line)
        if isinstance(answer, dict):
            raise PeerError(f"{question}: {answer['error']}")
        return float(answer)


@dataclass(frozen=True)
class _Elsewhere(Contestant):
    """Calls in another process, timed there."""

    process: Process | None = None

    def time(self, calls: int, clock: Callable[[], float]) -> float:
        """Return the seconds of so many calls by the same clock of the other process."""
        assert self.process is not None
        return self.process.ask({"calls": calls, "clock": clock.__name__})


#: The classes that JAX knows.
_known: set[type] = set()


def _jax(call: Call, name: str, element: str) -> Callable[..., Any]:
    """Compile a program with JAX; objects of its classes are pytrees, and integers at the top are static."""
    import jax

    for kind in classes("jax", name):
        _register(jax.tree_util, kind)
    static = [place for place, value in enumerate(call.arguments) if isinstance(value, int | str)]
    compiled = jax.jit(call.function, static_argnums=static)
    return lambda *arguments: jax.block_until_ready(compiled(*arguments))


def _register(tree_util: Any, kind: type) -> None:
    """Make a class known to JAX: attributes that are simple, or functions, are static."""

    def is_static(value: Any) -> bool:
        return isinstance(value, int | str | type(None)) or (callable(value) and type(value) not in _known)

    def flatten(value: Any) -> Any:
        parts = vars(value)
        static = tuple((name, part) for name, part in parts.items() if is_static(part))
        rest = [name for name in parts if name not in dict(static)]
        return [parts[name] for name in rest], (tuple(rest), static)

    def unflatten(described: Any, parts: Any) -> Any:
        names, static = described
        value = object.__new__(kind)
        vars(value).update(dict(static), **dict(zip(names, parts, strict=True)))
        return value

    if kind not in _known:
        _known.add(kind)
        tree_util.register_pytree_node(kind, flatten, unflatten)


def _eager(call: Call, name: str, element: str) -> Callable[..., Any]:
    return call.function


def _compiled(call: Call, name: str, element: str) -> Callable[..., Any]:
    import torch

    torch._dynamo.reset()  # otherwise sizes that differ from those of the case before are dynamic
    return torch.compile(call.function)


#: How each peer compiles a program, and its namespace.
PEERS: dict[str, tuple[str, Callable[[Call, str, str], Callable[..., Any]]]] = {
    "jax.jit": ("jax", _jax), "torch": ("torch", _eager), "torch.compile": ("torch", _compiled),
}


class _Server:
    def __init__(self, peer: str) -> None:
        self.namespace, self.compile = PEERS[peer]
        self.call: Callable[[], Any] = lambda: None
        if self.namespace == "jax":
            import jax

            jax.config.update("jax_platforms", "cpu")

    def prepare(self, name: str, batch: int, element: str, seed: int) -> float:
        """Compile a program and compare its results with NumPy's; return the seconds of the first call."""
        if self.namespace == "jax":
            import jax

            jax.config.update("jax_enable_x64", element == "f64")
        call, host = (make(which, name, batch, element, seed) for which in (self.namespace, "numpy"))
        function, calls = self.compile(call, name, element), varied(call)
        start = time.perf_counter()
        function(*calls[0])
        seconds = time.perf_counter() - start
        for arguments, host_arguments in zip(calls, varied(host), strict=True):
            expected = arrays_of(host.function(*host_arguments))
            agree(f"{name} in {self.namespace}", arrays_of(function(*arguments)), expected, element)
        self.call = in_turn(function, calls)
        return seconds

    def time(self, calls: int, clock: str) -> float:
        """Return the seconds of so many calls; one before them warms up."""
        now = getattr(time, clock)
        self.call()
        start = now()
        for _ in range(calls):
            self.call()
        return float(now() - start)

    def answer(self, question: dict[str, Any]) -> float:
        return self.prepare(**question) if "name" in question else self.time(**question)


def _serve(peer: str) -> None:
    server = _Server(peer)
    answers, sys.stdout = sys.stdout, sys.stderr  # what a compiler prints is no answer
    for line in sys.stdin:
        try:
            answer: Any = server.answer(json.loads(line))
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
