"""Repeated calls of a fused function: the code that Dynamo has made of it is run where Dynamo's own guards hold.

A call of what `torch.compile` returns enters and leaves Dynamo, which takes longer than all else of a call.
Here the same guards are asked, by the same machine code, and the same code is run, without what lies in between.
Whatever they do not answer for takes the usual way.
"""

from __future__ import annotations

import inspect
import logging
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tl_dpnp.graph.pytorch.program import getter
from tl_dpnp.graph.pytorch.short_calls import ShortCall, short_call
from tl_dpnp.graph.pytorch.torch_adapter import CompiledFrame, compiled_frames, is_plain_call, passing

if TYPE_CHECKING:
    from tl_dpnp.graph.pytorch.backend import Backend
    from tl_dpnp.graph.pytorch.program import Program

__all__ = ["RepeatedCalls"]

_LOGGER = logging.getLogger("tl_dpnp.fusion")

_NOT_PLAIN = (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
              | inspect.CO_ASYNC_GENERATOR)


_NONE: Mapping[str, Any] = types.MappingProxyType({})


def _not_short(arguments: tuple[Any, ...]) -> Any:
    return NotImplemented


class _Known(NamedTuple):
    """A frame: its guards, the method that asks them, what runs its code, and what does both for calls by position."""

    guards: Any
    hold: Callable[[dict[str, Any]], bool]
    run: Callable[..., Any]
    short: ShortCall = _not_short


class RepeatedCalls:
    """What Dynamo has compiled of a function with a fixed number of arguments.

    Those count whose graphs the `backend` has made, and write to no argument.  Where a graph does write, its code is
    right only for arguments that share memory as those of its first call did.
    """

    #: Frames that are kept, at most: each whose guards do not hold takes up to a microsecond of a call.
    MOST = 8

    def __init__(self, function: Callable[..., Any], backend: Backend) -> None:
        self._function: Any = function
        self._backend = backend
        self._known: tuple[_Known, ...] = ()
        #: For calls of the frame that ran last.
        self.short: ShortCall = _not_short
        self._seen = self._count = 0
        self._names: tuple[str, ...] = ()
        self._cells: tuple[types.CellType, ...] = ()
        self._code: types.CodeType | None = None

    def find(
        self, arguments: tuple[Any, ...], keywords: Mapping[str, Any] = _NONE
    ) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
        """Return what may be called in place of the function, and with which arguments; None for the usual way."""
        known = self._known
        if not known or not is_plain_call() or self._function.__code__ is not self._code:
            return None
        if len(arguments) != self._count or keywords:
            bound = self._bound(arguments, keywords)
            if bound is None:
                return None
            arguments = bound
        values = dict(zip(self._names, arguments))  # noqa: B905 (names go on, and to say so takes time)
        if self._cells:
            try:
                values |= zip(self._names[self._count :], [cell.cell_contents for cell in self._cells], strict=True)
            except ValueError:  # a variable without a value yet
                return None
        for frame in known:
            if frame.guards.cache_entry is not None and frame.hold(values):  # one that was given up has no guards
                if frame is not known[0]:  # it comes first in the next call
                    self._known = (frame, *[other for other in known if other is not frame])
                    self.short = frame.short
                return frame.run, arguments
        return None

    def _bound(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the arguments in order, with those by keyword and defaults; None where they do not fit."""
        if keywords and self._function.__code__.co_posonlyargcount:  # which the function itself looks at
            return None
        names = self._names[len(arguments) : self._count]
        defaults = self._function.__defaults__ or ()
        given = {**dict(zip(self._names[self._count - len(defaults) : self._count], defaults, strict=True)), **keywords}
        if len(arguments) > self._count or not keywords.keys() <= set(names) <= given.keys():
            return None
        return (*arguments, *[given[name] for name in names])

    def notice(self) -> None:
        """Take in what has been compiled since; called after a call that took the usual way."""
        function, compiled = self._function, self._backend.compiled
        if compiled == self._seen or not isinstance(function, types.FunctionType):
            return
        code = function.__code__
        if code.co_flags & _NOT_PLAIN or code.co_kwonlyargcount:
            return
        self._known, self.short = (), _not_short
        self._seen, self._code, self._count = compiled, code, code.co_argcount
        self._names = (*code.co_varnames[: code.co_argcount], *code.co_freevars)
        self._cells = function.__closure__ or ()
        reading = self._backend.reading
        try:
            compiled_ones = compiled_frames(function)
        except AttributeError as error:
            _LOGGER.info("calls go by way of Dynamo, which this version of PyTorch does not tell of: %s", error)
            return
        frames = [frame for frame in compiled_ones
                  if frame.is_whole and frame.graphs and all(graph in reading for graph in frame.graphs)]
        self._known = tuple([_known(frame, function) for frame in frames[: self.MOST]])
        if self._known:
            self.short = self._known[0].short


def _known(frame: CompiledFrame, function: types.FunctionType) -> _Known:
    """Return what does at a call what the code of a frame does: as a rule, that is to call one graph."""
    (graph, *others) = frame.graphs
    program: Program | None = None if graph.sole is None else graph.sole.program
    passed = None
    if program is not None and not others and frame.code.co_freevars == function.__code__.co_freevars:
        passed = passing(frame.code, len(program.planned.results))
    if program is None or passed is None:
        return _Known(frame.guards, frame.check, types.FunctionType(
            frame.code, function.__globals__, function.__name__, function.__defaults__, function.__closure__))
    call, of_graph, (_, kind, returned), cells = (
        program.call, getter(passed.given), passed, function.__closure__ or ())

    def run(*arguments: Any) -> Any:
        values = (*arguments, *[cell.cell_contents for cell in cells]) if cells else arguments
        pool = (*call(of_graph(values)), *values)
        return pool[returned[0]] if kind is None else kind([pool[place] for place in returned])

    return _Known(frame.guards, frame.check, run, short_call(frame, function, program, passed) or _not_short)
