"""Repeated calls of a fused function: the code that Dynamo has made of it is run where Dynamo's own guards hold.

A call of what `torch.compile` returns enters and leaves Dynamo, which takes longer than all else of a call.
Here the same guards are asked, by the same machine code, and the same code is run, without what lies in between.
Whatever they do not answer for takes the usual way.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from tl_dpnp.graph.pytorch.torch_adapter import CompiledFrame, compiled_frames, is_plain_call

if TYPE_CHECKING:
    from tl_dpnp.graph.pytorch.backend import Backend

__all__ = ["RepeatedCalls"]

_NOT_PLAIN = (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
              | inspect.CO_ASYNC_GENERATOR)


class _Known(NamedTuple):
    """What Dynamo has compiled of the function, and a function that runs it."""

    frame: CompiledFrame
    run: Callable[..., Any]


class RepeatedCalls:
    """What Dynamo has compiled of a function, for calls that give all arguments by position.

    Those count whose graphs the `backend` has made, and write to no argument.  Where a graph does write, its code is
    right only for arguments that share memory as those of its first call did.
    """

    #: Frames that are kept, at most: each whose guards do not hold takes up to a microsecond of a call.
    MOST = 8

    def __init__(self, function: Callable[..., Any], backend: Backend) -> None:
        self._function, self._backend = function, backend
        self._known: tuple[_Known, ...] = ()
        self._seen = 0

    def find(self, arguments: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Return what may be called with these arguments in place of the function; None where the usual way is due."""
        if not self._known or not is_plain_call():
            return None
        values = self._locals(arguments)
        if values is None:
            return None
        for place, known in enumerate(self._known):
            if known.frame.holds(values):
                if place:
                    self._known = (known, *[each for each in self._known if each is not known])
                return known.run
        return None

    def notice(self) -> None:
        """Take in what has been compiled since; called after a call that took the usual way."""
        function, compiled = self._function, self._backend.compiled
        if compiled == self._seen or not isinstance(function, types.FunctionType):
            return
        code = function.__code__
        if code.co_flags & _NOT_PLAIN or code.co_kwonlyargcount:
            return
        self._seen, self._code = compiled, code
        self._names = (*code.co_varnames[: code.co_argcount], *code.co_freevars)
        reading = self._backend.reading
        frames = [frame for frame in compiled_frames(function)
                  if frame.is_whole and frame.graphs and all(graph in reading for graph in frame.graphs)]
        self._known = tuple([
            _Known(frame, types.FunctionType(
                frame.code, function.__globals__, function.__name__, function.__defaults__, function.__closure__))
            for frame in frames[: self.MOST]])

    def _locals(self, arguments: tuple[Any, ...]) -> dict[str, Any] | None:
        """Return the variables that a call begins with; None where one is missing, or the function is another one."""
        function: Any = self._function
        if function.__code__ is not self._code:
            return None
        cells = function.__closure__
        if cells is not None:
            try:
                arguments += tuple([cell.cell_contents for cell in cells])
            except ValueError:  # a variable without a value yet
                return None
        if len(arguments) != len(self._names):
            return None
        return dict(zip(self._names, arguments, strict=True))
