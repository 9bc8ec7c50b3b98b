"""Arguments and results of calls that go to dpnp itself, remembered so that the call can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.plan import Registers, array_at
from tl_dpnp.graph.traced_scalars import TRACED
from tl_dpnp.runtime.array_package import Content, array_around, content_of, xp

if TYPE_CHECKING:
    from tl_dpnp.graph.trace import Trace

__all__ = ["Template", "builder_of"]

Build = Callable[[Sequence[Any], Sequence[float]], Any]


def builder_of(trace: Trace, value: Any, arrays: dict[int, int]) -> Build:
    """Return a function that makes `value` again from the arrays and scalars of a call.

    For lazy arrays in lists, tuples and dicts it takes arrays at the places that `arrays` has by their identity;
    everything else stays what it is.
    """
    if type(value) is LazyArray:
        place = arrays[id(value)]
        return lambda given, scalars: given[place]
    if type(value) in TRACED and value.tape is trace.tape:
        position = trace.tape.operand(value)
        if position is None:
            fixed = trace.tape.fix(value)
            return lambda given, scalars: fixed
        return lambda given, scalars: scalars[position]
    if type(value) in (list, tuple):
        parts = [builder_of(trace, part, arrays) for part in value]
        kind = type(value)
        return lambda given, scalars: kind([part(given, scalars) for part in parts])
    if type(value) is dict:
        entries = [(key, builder_of(trace, part, arrays)) for key, part in value.items()]
        return lambda given, scalars: {key: part(given, scalars) for key, part in entries}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        parts, named = [builder_of(trace, part, arrays) for part in value], type(value)
        return lambda given, scalars: named(*[part(given, scalars) for part in parts])
    if isinstance(value, slice):
        ends = [builder_of(trace, part, arrays) for part in (value.start, value.stop, value.step)]
        return lambda given, scalars: slice(*[end(given, scalars) for end in ends])
    return lambda given, scalars: value


def arrays_in(value: Any) -> list[Any]:
    """Return the lazy arrays in a value, in order."""
    match value:
        case LazyArray():
            return [value]
        case list() | tuple():
            return [lazy for part in value for lazy in arrays_in(part)]
        case dict():
            return [lazy for part in value.values() for lazy in arrays_in(part)]
        case slice():
            return arrays_in((value.start, value.stop, value.step))
    return []


#: Functions for which a number is one operand of an arithmetic operation: it may change from call to call.
_NUMERIC = frozenset((*FUNCTIONS, "power", "float_power", "remainder", "floor_divide", "fmod", "arctan2", "hypot"))


class Template:
    """One call of dpnp: where its arguments come from, and where its results go."""

    def __init__(self, trace: Trace, name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> None:
        if name not in _NUMERIC:  # the shape of the result may depend on a number
            arguments = trace.tape.fix_all(tuple(arguments), TRACED)
            keywords = trace.tape.fix_all(keywords, TRACED)
        arguments = [_captured(trace, argument) for argument in arguments]
        keywords = {name: _captured(trace, value) for name, value in keywords.items()}
        self.lazies = arrays_in([arguments, keywords])
        self._trace: Any = trace
        trace.materialize(self.lazies)
        unique = {id(lazy): lazy for lazy in self.lazies}  # dpnp may ask whether an operand is ``out=`` itself
        self._places = [trace.place_of(lazy) for lazy in unique.values()]
        arrays = {identity: place for place, identity in enumerate(unique)}
        self._arguments = builder_of(trace, list(arguments), arrays)
        self._keywords = builder_of(trace, keywords, arrays)
        self._slots: list[int] | None = None
        self._result: Any = None
        self._structure: Any = None

    def build(self, registers: Registers, scalars: Sequence[float]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments and keywords of a call."""
        given = [array_around(array_at(place, registers)) for place in self._places]
        return self._arguments(given, scalars), self._keywords(given, scalars)

    def keep(self, result: Any, registers: Registers) -> None:
        """Put the arrays of a result into registers; the first time, find out which there are."""
        found = _plain_arrays(result)
        if self._slots is None:
            self._slots = []
            self._structure = result
            for array in found:
                self._slots.append(len(registers))
                registers.append(array)
        else:
            for slot, array in zip(self._slots, found, strict=True):
                registers[slot] = array

    def result(self) -> Any:
        """Return the result of the first call, with lazy arrays for arrays."""
        assert self._slots is not None
        trace, structure, lazies = self._trace, self._structure, self.lazies
        self._trace = self._structure = None  # a plan that keeps the call must not keep its arrays
        self.lazies = []
        slots = iter(self._slots)
        for lazy in lazies:  # a function that returns an argument, such as one with out=
            if isinstance(structure, xp.ndarray):
                held = trace.registers[lazy._node.slot]
                if held is content_of(structure):
                    return lazy
        return _lazy(trace, structure, slots)


def _lazy(trace: Trace, value: Any, slots: Iterator[int]) -> Any:
    """Return a result with lazy arrays for arrays of dpnp, which are in registers."""
    if isinstance(value, xp.ndarray | Content):
        slot = next(slots)
        return trace.register(slot) if isinstance(value, xp.ndarray) else value
    if type(value) in (list, tuple):
        return type(value)([_lazy(trace, part, slots) for part in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[_lazy(trace, part, slots) for part in value])
    return value


def _captured(trace: Trace, value: Any) -> Any:
    if isinstance(value, xp.ndarray) and type(value) is not LazyArray:
        return trace.capture(value)
    if type(value) in (list, tuple):
        return type(value)([_captured(trace, part) for part in value])
    return value


def _plain_arrays(value: Any) -> list[Any]:
    if isinstance(value, xp.ndarray):
        return [content_of(value)]
    if isinstance(value, Content):
        return [value]
    if isinstance(value, list | tuple):
        return [array for part in value for array in _plain_arrays(part)]
    return []
