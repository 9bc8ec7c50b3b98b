"""The result of a traced function: how a plan makes it again."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from tl_dpnp.graph.keys import BY_VALUE
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.observation import Observer
from tl_dpnp.graph.plan import Call, Make, Place, array_at
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import TRACED
from tl_dpnp.runtime.sycl.dpnp_adapter import dpnp_array_of

__all__ = ["MadeArray", "MadeOnce", "MadeTuple", "new_arrays", "result_of"]


@dataclass(frozen=True)
class MadeArray:
    """Makes an array of dpnp that the steps have computed."""

    place: Place

    def __call__(self, call: Call) -> Any:
        """See `Make`."""
        return dpnp_array_of(array_at(self.place, call.registers))


@dataclass(frozen=True)
class MadeTuple:
    """Makes a tuple of what its parts make."""

    parts: tuple[Make, ...]

    def __call__(self, call: Call) -> Any:
        """See `Make`."""
        return tuple([part(call) for part in self.parts])


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


def new_arrays(make: Make) -> tuple[tuple[int, ...], bool] | None:
    """Return the registers of the arrays that a result consists of, and whether they are in a tuple; None where there
    is something else in it, or one of them twice."""
    made = _within(make)
    places = [_within(part) for part in made.parts] if isinstance(made, MadeTuple) else [made]
    slots = tuple(part.place.slot for part in places if isinstance(part, MadeArray) and part.place.dtype is None)
    if not slots or len(set(slots)) < len(places):
        return None
    return slots, isinstance(made, MadeTuple)


def _within(make: Make) -> Make:
    return make.make if isinstance(make, MadeOnce) else make


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
            parts = tuple([self.made(part) for part in value])
            return MadeTuple(parts) if kind is tuple else lambda call: [part(call) for part in parts]
        if kind is dict:
            if not all(type(key) in BY_VALUE for key in value):
                raise _Unknown
            entries = [(key, self.made(part)) for key, part in value.items()]
            return lambda call: {key: part(call) for key, part in entries}
        if issubclass(kind, tuple) and hasattr(kind, "_make"):
            fields = [self.made(part) for part in value]
            return lambda call: kind._make([part(call) for part in fields])
        if kind is SimpleNamespace:
            named = {name: self.made(part) for name, part in vars(value).items()}
            return lambda call: SimpleNamespace(**{name: part(call) for name, part in named.items()})
        if kind.__module__ == "builtins" or kind.__new__ is not object.__new__ or not hasattr(value, "__dict__") \
                or any("__slots__" in vars(base) and vars(base)["__slots__"] for base in kind.__mro__):
            raise _Unknown
        return self._instance(kind, {name: self.made(part) for name, part in vars(value).items()})

    def array(self, value: Any) -> Make:
        """Return what makes the array that a lazy one stands for."""
        own = self.own.get(id(value))
        if own is not None:
            return lambda call: call.originals[own]
        return MadeArray(self.trace.place_of(value))

    def _instance(self, kind: type, parts: dict[str, Make]) -> Make:
        def make(call: Call) -> Any:
            made: Any = object.__new__(kind)
            made.__dict__.update({name: part(call) for name, part in parts.items()})
            return made

        return make
