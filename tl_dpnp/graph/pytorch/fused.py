"""`fuse` and `explain` where there is no dpnp: functions of PyTorch's tensors on CUDA devices."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tl_dpnp import config
from tl_dpnp.errors import TLTypeError, UnsupportedError
from tl_dpnp.graph.fuse_options import check_options
from tl_dpnp.runtime.watching import door
from tl_dpnp.target.targets import TARGETS

if TYPE_CHECKING:
    from tl_dpnp.graph.pytorch.backend import Backend
    from tl_dpnp.graph.pytorch.explanation import Explanation
    from tl_dpnp.graph.pytorch.overlaps import Sharing
    from tl_dpnp.graph.pytorch.repeated_calls import RepeatedCalls

__all__ = ["FusedFunction", "fuse"]

#: Ways in which arguments share memory that a function is kept compiled for, at most: the first ones go.
WAYS = 64


class FusedFunction:
    """A function that is fused; made by `tl_dpnp.fuse`."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool, on_break: str, dynamic: bool | None) -> None:
        if not callable(function) or isinstance(function, type):
            raise TLTypeError(f"fuse takes a function, not a {type(function).__name__}"
                              + ("; tl_dpnp.compile takes source text" if isinstance(function, str) else ""))
        functools.update_wrapper(self, function, updated=())
        self.function, self.fullgraph, self.on_break, self.dynamic = function, fullgraph, on_break, dynamic
        self._apart: dict[Sharing, Callable[..., Any]] = {}
        self._repeated: RepeatedCalls | None = None

    def __repr__(self) -> str:
        return f"<tl_dpnp.fuse of {self._name}>"

    @property
    def _name(self) -> str:
        return getattr(self.function, "__qualname__", repr(self.function))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function; results are PyTorch's tensors."""
        repeated = self._repeated
        if repeated is not None:
            if not keywords:
                result = repeated.short(arguments)
                if result is not NotImplemented:
                    return result
            found = repeated.find(arguments, keywords)
            if found is not None:
                run, given = found
                return run(*given)
        return self._traced(arguments, keywords)

    def _traced(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the function by way of Dynamo, which compiles it where that is due."""
        given = (*arguments, *keywords.values()) if keywords else arguments
        compiled = self._compiled
        if shared := self._sharing(given):
            compiled = self._compiled_for(shared)
        result = compiled(*arguments, **keywords)
        if self._repeated is not None:
            self._repeated.notice()
        return result

    @functools.cached_property
    def _compiled(self) -> Callable[..., Any]:
        backend = self._backend()
        from tl_dpnp.graph.pytorch.repeated_calls import RepeatedCalls

        self._repeated = RepeatedCalls(self.function, backend)
        return self._compiled_with(backend)

    @functools.cached_property
    def _sharing(self) -> Callable[[tuple[Any, ...]], Sharing]:
        from tl_dpnp.graph.pytorch.overlaps import sharing  # which imports PyTorch

        return sharing

    def _compiled_for(self, shared: Sharing) -> Callable[..., Any]:
        """Return what is compiled for arguments that share memory in one way."""
        compiled = self._apart.get(shared)
        if compiled is None:
            while len(self._apart) >= WAYS:  # views that move on from call to call share memory in ever new ways
                self._apart.pop(next(iter(self._apart)), None)
            compiled = self._apart.setdefault(shared, self._compiled_with(self._backend()))
        return compiled

    def _backend(self) -> Backend:
        try:
            from tl_dpnp.graph.pytorch.backend import Backend
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "torch":
                raise
            raise UnsupportedError("fuse needs dpnp or PyTorch, and neither is installed here: docs/installing.md and "
                                   "docs/pytorch.md say how") from None
        wanted = config.get("TARGET")
        target = wanted if TARGETS[wanted].is_interpreted else "cuda"
        return Backend(target, "error" if self.fullgraph else self.on_break)

    def _compiled_with(self, backend: Backend) -> Callable[..., Any]:
        import torch

        strict = self.fullgraph or self.on_break == "error"
        compiled: Callable[..., Any] = torch.compile(
            self.function, backend=backend, fullgraph=strict, dynamic=self.dynamic)
        return compiled

    def explain(self, *arguments: Any, **keywords: Any) -> Explanation:
        """Compile the function anew, call it and return what became of it."""
        backend = self._backend()
        from tl_dpnp.graph.pytorch.explanation import Explanation

        self._compiled_with(backend)(*arguments, **keywords)
        return Explanation.of(self._name, backend.compilations)


door(FusedFunction, "__call__", lambda fused: (fused._name, "", {}))


def fuse(
    function: Callable[..., Any] | None = None, *, fullgraph: bool = False, on_break: str = "quiet",
    recompile_limit: int = 8, dynamic: bool | None = None,
) -> Any:
    """Run a function of PyTorch's tensors on a CUDA device fused into kernels; a decorator, with or without options.

    It is ``torch.compile(function, backend="tl_dpnp")``: PyTorch traces the function, and guards what it has read.
    What has no kernel is left to PyTorch.  `on_break` says what happens then: nothing, a `FusionWarning`, or an
    `UnsupportedError`; `fullgraph=True` is the last one.  `dynamic` is that of `torch.compile`.

    Raises `TLTypeError` for options that are not understood, and `UnsupportedError` for a `recompile_limit`, which is
    one of PyTorch's settings: ``torch._dynamo.config.recompile_limit``.
    """
    check_options(fullgraph, on_break, recompile_limit, dynamic)
    if recompile_limit != 8:
        raise UnsupportedError("recompile_limit= is for functions of dpnp's; for those of PyTorch, set "
                               "torch._dynamo.config.recompile_limit")

    def decorate(function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(decorate(function.__func__))
        return FusedFunction(function, fullgraph, on_break, dynamic)

    return decorate if function is None else decorate(function)
