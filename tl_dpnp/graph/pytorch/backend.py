"""The backend of `torch.compile`: graphs of ATen operations become programs of kernels.

``torch.compile(function, backend="tl_dpnp")`` finds it by its entry point.  PyTorch's own tracing, Dynamo, sees to it
that a program runs only where it is right: it guards everything that the function has read.
"""

from __future__ import annotations

import copy
import functools
import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
from torch import fx

from tl_dpnp.errors import FusionWarning, TLTypeError, UnsupportedError
from tl_dpnp.graph.pytorch.overlaps import Sharing, sharing
from tl_dpnp.graph.pytorch.planning import plan
from tl_dpnp.graph.pytorch.program import CudaKernels, Kernels, Program, ReferenceKernels
from tl_dpnp.graph.pytorch.torch_adapter import (
    backend_of,
    changes_arguments,
    derives_forward,
    is_only_called,
    symbols_of,
    writes_arguments,
)
from tl_dpnp.graph.pytorch.whole_products import keep_products
from tl_dpnp.records import dataclass

__all__ = ["Backend", "Compilation", "CompiledGraph", "backend"]

_LOGGER = logging.getLogger("tl_dpnp.fusion")
#: By target, the type of its tensors' devices, and what runs kernels there.
_TARGETS: dict[str, tuple[str, Callable[[Any], Kernels]]] = {
    "cuda": ("cuda", CudaKernels), "reference": ("cpu", ReferenceKernels),
}

#: Programs that a graph keeps, at most: the first ones go.
PROGRAMS = 256


class Compilation:
    """A graph, and its programs: one for each set of values that symbolic sizes have had lately.

    `device` is that of the first tensor on a device of the target; None where there is none, and all is PyTorch's.
    """

    def __init__(self, module: fx.GraphModule, target: str, on_break: str) -> None:
        self.module, self.on_break = module, on_break
        self.placeholders = [node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"]
        kind, kernels = _TARGETS[target]
        self.device = next((value.device for value in self._values() if value.device.type == kind), None)
        self.kernels: Kernels | None = None if self.device is None else kernels(self.device)
        self.programs: dict[tuple[Any, ...], Program] = {}
        self.changes = [str(node.target) for node in module.graph.nodes if changes_arguments(node.target)]
        self.whole = self._reason()
        self._sizes = [place for place, value in enumerate(self.placeholders) if not isinstance(value, torch.Tensor)]
        self._lock = threading.Lock()

    def _values(self) -> list[Any]:
        """Return what FX knows of the tensors: those of the arguments first."""
        found = [node.meta.get("val") for node in self.module.graph.nodes]
        return [value for value in (*self.placeholders, *found) if isinstance(value, torch.Tensor)]

    def _reason(self) -> str:
        """Return why all of the graph is PyTorch's; nothing where it is not."""
        if self.changes:
            return f"{self.changes[0]} changes an argument"
        return "" if self.device is not None else "no tensor is on a CUDA device"

    def __call__(self, arguments: list[Any]) -> Any:
        """Run the graph; the list of arguments is emptied, as compilers of graphs do it."""
        if self.whole:
            given = [*arguments]
            arguments.clear()
            return self.module(*given)
        key = tuple([arguments[place] for place in self._sizes]) if self._sizes else ()
        program = self.programs.get(key)
        if program is None:
            program = self._programmed(key, arguments)
        given = [*arguments]
        arguments.clear()
        return program.call(given)

    @property
    def program(self) -> Program | None:
        """The program of a graph without symbolic sizes, once it has been called."""
        return self.programs.get(()) if not self._sizes and not self.whole else None

    def _programmed(self, key: tuple[Any, ...], arguments: Sequence[Any]) -> Program:
        with self._lock:
            if key not in self.programs:
                assert self.kernels is not None
                symbols = symbols_of(self.placeholders, arguments)
                planned = plan(self.module, self.device, symbols, self.kernels.groups)
                inputs = [place for place, value in enumerate(self.placeholders) if isinstance(value, torch.Tensor)
                          and value.device == self.device and arguments[place] is not None]
                _tell(planned.left, self.on_break)
                while len(self.programs) >= PROGRAMS:  # a size that grows from call to call comes no second time
                    del self.programs[next(iter(self.programs))]
                self.programs[key] = Program.of(planned, inputs, self.device, self.kernels)
            return self.programs[key]


def _tell(left: Sequence[object], on_break: str) -> None:
    """Do what is to be done where operations are left to PyTorch."""
    for each in left:
        _LOGGER.info("left to PyTorch: %s", each)
    if left and on_break != "quiet":
        words = "\n  ".join(["operations are left to PyTorch:", *map(str, left)])
        if on_break == "error":
            raise UnsupportedError(words)
        warnings.warn(words, FusionWarning, stacklevel=2)


@dataclass(eq=False)
class Backend:
    """A backend of `torch.compile`; two are never equal, so that a function is compiled for each anew.

    `on_break` says what happens where operations are left to PyTorch: nothing, ``"warn"`` or ``"error"``.  Graphs that
    are compiled are noted in `compilations`, for as long as PyTorch has them, and what PyTorch calls for those that
    write to no argument in `reading`; `compiled` says how many of these there have been.
    """

    target: str = "cuda"
    on_break: str = "quiet"
    compilations: weakref.WeakSet[Compilation] = field(default_factory=weakref.WeakSet)
    reading: weakref.WeakSet[Callable[..., Any]] = field(default_factory=weakref.WeakSet)
    compiled: int = 0

    def __call__(self, module: fx.GraphModule, examples: Sequence[Any], **_options: Any) -> Any:
        made: list[Compilation] = []
        graph = copy.deepcopy(module.graph)  # which has operations of ours then
        whole = keep_products(module, examples)
        compiled = backend_of(lambda graph, _: self._compiled(graph, made))(whole, examples)
        if writes_arguments():
            return CompiledGraph(compiled, graph, module, self.on_break, True)
        places = sum(node.op == "placeholder" for node in whole.graph.nodes)
        sole = made[0] if is_only_called() and len(made[0].placeholders) == places else None
        called = CompiledGraph(compiled, graph, module, self.on_break, False, sole)
        self.reading.add(called)
        self.compiled += 1
        return called

    def _compiled(self, module: fx.GraphModule, made: list[Compilation]) -> Any:
        compilation = Compilation(module, self.target, self.on_break)
        self.compilations.add(compilation)
        made.append(compilation)

        def run(arguments: list[Any]) -> Any:
            return compilation(arguments)

        run._boxed_call = True  # type: ignore[attr-defined]  # the protocol of AOTAutograd
        return run


class CompiledGraph:
    """What Dynamo calls for a graph: what it was `compiled` to, where that is right for the call.

    PyTorch's tracing takes it in two cases where it is not: for tensors with tangents, of which kernels compute none,
    and, if the graph `writes` to arguments, where these share memory in another way than in the first call.  There
    PyTorch runs the `graph`, as Dynamo has made it for a `module`.  The `sole` compilation is all of it, where
    AOTAutograd has nothing to do beside.
    """

    def __init__(
        self, compiled: Callable[..., Any], graph: fx.Graph, module: fx.GraphModule, on_break: str, writes: bool,
        sole: Compilation | None = None,
    ) -> None:
        self._run: Callable[..., Any] = compiled if sole is None else lambda *arguments: sole([*arguments])
        self._graph, self._module, self._on_break, self._writes = graph, module, on_break, writes
        self._shared: Sharing | None = None
        self.sole = sole

    def __call__(self, *arguments: Any) -> Any:
        reason = self._reason(arguments)
        if not reason:
            return self._run(*arguments)
        _tell([f"the graph: {reason}"], self._on_break)
        return self._plain(*arguments)

    def _reason(self, arguments: Sequence[Any]) -> str:
        """Return why PyTorch runs the graph for arguments; nothing where it does not."""
        if derives_forward():
            return "kernels compute no forward-mode derivatives"
        if self._writes:
            shared = sharing(arguments, True)  # nothing guards that parameters of modules are different ones
            if self._shared is None:
                self._shared = shared
            if shared != self._shared:
                return "tensors, of which it writes to one, share memory in another way than in the first call"
        return ""

    @functools.cached_property
    def _plain(self) -> Callable[..., Any]:
        plain: Callable[..., Any] = fx.GraphModule(self._module, self._graph)
        return plain


@functools.cache
def _backend_for(target: str) -> Backend:
    return Backend(target)


def backend(
    module: fx.GraphModule, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """Compile a graph for `torch.compile`; ``options={"target": "reference"}`` runs kernels in the interpreter.

    Raises `TLTypeError` for other options, targets that tensors cannot be on, and modes, which are Inductor's.
    """
    given = dict(options or {})
    target = given.pop("target", "cuda")
    if given or mode is not None:
        what = f"mode={mode!r}" if mode is not None else f"the option {next(iter(given))!r}"
        raise TLTypeError(f"{what} is not understood: the backend tl_dpnp takes options={{'target': ...}} alone")
    if target not in _TARGETS:
        raise TLTypeError(f"target={target!r} is not understood: for PyTorch it takes {', '.join(map(repr, _TARGETS))}")
    return _backend_for(target)(module, examples)
