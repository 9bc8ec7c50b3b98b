"""The result of a traced function: how a plan makes it again."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from tl_dpnp.graph.keys import BY_VALUE
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.observation import Observer
from tl_dpnp.graph.plan import Call, Make, Place, array_at
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import TRACED
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import Content, array_around, xp

__all__ = ["MadeArray", "MadeOfParts", "MadeOnce", "NewArrays", "new_arrays", "result_of"]


@dataclass(frozen=True)
class MadeArray:
    """Makes an array of dpnp that the steps have computed."""

    place: Place

    def __call__(self, call: Call) -> Any:
        """See `Make`."""
        return array_around(array_at(self.place, call.registers))


@dataclass(frozen=True)
class MadeOfParts:
    """Makes an object of what its parts make, which `build` is given as a list."""

    build: Callable[[list[Any]], Any]
    parts: tuple[Make, ...]

    def __call__(self, call: Call) -> Any:
        """See `Make`."""
        return self.build([part(call) for part in self.parts])


@dataclass(frozen=True)
class MadeOnce:
    """Makes an object the first time, and returns the same one wherever it occurs in a result; `number` is its own."""

    number: int
    make: Make

    def __call__(self, call: Call) -> Any:
        """See `Make`."""
        if self.number not in call.made:
            call.made[self.number] = self.make(call)
        return call.made[self.number]


class NewArrays(NamedTuple):
    """The registers of new arrays that a result consists of, and the numbers of the arrays as objects of it.

    A result `is_array` if it is one of them by itself, and `is_tuple` if it is a tuple of them in this order.
    """

    slots: tuple[int, ...]
    numbers: tuple[int, ...]
    is_array: bool
    is_tuple: bool

    def completed(self, make: Make, call: Call, arrays: Sequence[Any]) -> Any:
        """Return the result of a call from its new arrays."""
        call.made.update(zip(self.numbers, arrays, strict=True))
        return make(call)


def new_arrays(make: Make) -> NewArrays | None:
    """Return the new arrays that a result has; None where it has none, or parts or other views of them."""
    made = _within(make)
    if isinstance(made, MadeArray):
        number = make.number if isinstance(make, MadeOnce) else 0
        return None if made.place.dtype is not None else NewArrays((made.place.slot,), (number,), True, False)
    found: dict[int, int] = {}
    if not _collect(make, found) or not found or len({*found.values()}) < len(found):
        return None
    is_tuple = isinstance(made, MadeOfParts) and made.build is tuple and len(made.parts) == len(found) and all(
        isinstance(_within(part), MadeArray) for part in made.parts)
    return NewArrays((*found.values(),), (*found,), False, is_tuple)


def _within(make: Make) -> Make:
    return make.make if isinstance(make, MadeOnce) else make


def _collect(make: Make, found: dict[int, int]) -> bool:
    """Find the new arrays of a result, their registers by their numbers; returns whether all are registers."""
    if isinstance(make, MadeOnce) and isinstance(make.make, MadeArray):
        found[make.number] = make.make.place.slot
        return make.make.place.dtype is None
    made = _within(make)
    return not isinstance(made, MadeOfParts) or all(_collect(part, found) for part in made.parts)


class _Unknown(Exception):
    """A result holds something that a plan cannot make."""


def result_of(trace: Trace, observer: Observer, raw: Any) -> Make | None:
    """Return a function that makes the result of another call, None if it holds what cannot be made.

    Arrays and objects that existed before are the caller's own; objects that occur twice are the same one twice.
    """
    maker = _Maker(trace, observer)
    if type(raw) is LazyArray:  # nothing else can be the same object
        return maker.array(raw)
    try:
        return maker.made(raw)
    except _Unknown:
        return None


class _Maker:
    def __init__(self, trace: Trace, observer: Observer) -> None:
        self.trace = trace
        self.observer = observer
        self.own = {number: observer.place_of(array) for number, array in trace.known.by_lazy().items()}
        self.shared: dict[int, Make] = {}
        self.open: set[int] = set()
        self.given: set[int] = set()

    def made(self, value: Any) -> Make:
        """Return what makes a value; raises `_Unknown`."""
        if type(value) in TRACED and value.tape is self.trace.tape:
            place = value.position
            return lambda call: call.scalars[place]
        if type(value) in BY_VALUE or isinstance(value, float | complex | np.generic | np.dtype | type | enum.Enum):
            return lambda call: value
        if id(value) not in self.shared:
            if id(value) in self.open:
                raise _Unknown
            self.open.add(id(value))
            make = self._object(value)
            self.shared[id(value)] = MadeOnce(len(self.shared), make)
        return self.shared[id(value)]

    def _object(self, value: Any) -> Make:
        kind: Any = type(value)
        if kind is LazyArray:
            return self.array(value)
        path = self.observer.path_of(value)
        if path is not None:
            return lambda call: path.evaluate(call.arguments, call.keywords)
        if kind in (list, tuple):
            return self._of(tuple if kind is tuple else _itself, value)
        if kind is dict:
            if not all(type(key) in BY_VALUE for key in value):
                raise _Unknown
            keys = tuple(value)
            return self._of(lambda parts: dict(zip(keys, parts, strict=True)), value.values())
        if issubclass(kind, tuple) and hasattr(kind, "_make"):
            return self._of(kind._make, value)
        if kind is SimpleNamespace:
            names = tuple(vars(value))
            return self._of(lambda parts: SimpleNamespace(**dict(zip(names, parts, strict=True))), vars(value).values())
        if kind.__module__ == "builtins" or kind.__new__ is not object.__new__ or not hasattr(value, "__dict__") \
                or any("__slots__" in vars(base) and vars(base)["__slots__"] for base in kind.__mro__):
            raise _Unknown
        return self._instance(kind, vars(value))

    def array(self, value: Any) -> Make:
        """Return what makes the array that a lazy one stands for."""
        own = self.own.get(id(value))
        if own is not None:
            return lambda call: call.originals[own]
        place = self.trace.place_of(value)
        if place.dtype is None and Content is xp.ndarray:  # which is to be the result itself, and only once
            if place.slot in self.given or self.trace.known.lazy_of(self.trace.registers[place.slot]) is not None:
                place = self.trace.view_of(value)
            self.given.add(place.slot)
        return MadeArray(place)

    def _instance(self, kind: type, attributes: dict[str, Any]) -> Make:
        names = tuple(attributes)

        def build(parts: list[Any]) -> Any:
            made: Any = object.__new__(kind)
            made.__dict__.update(zip(names, parts, strict=True))
            return made

        return self._of(build, attributes.values())

    def _of(self, build: Callable[[list[Any]], Any], parts: Iterable[Any]) -> Make:
        return MadeOfParts(build, tuple([self.made(part) for part in parts]))


def _itself(parts: list[Any]) -> list[Any]:
    return parts
