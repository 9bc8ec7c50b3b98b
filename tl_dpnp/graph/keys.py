"""The key of a call: what a plan depends on of its arguments, and the arrays and numbers that it does not.

Arrays count by shape, strides, dtype, USM type and queue; floats and ints of Python and NumPy by their type, unless a
trace has used the value; other simple values by value, lists, tuples and dicts by what is in them.  Of other objects
only the type counts: guards (`tl_dpnp.graph.guards`) see to what a function reads of them.
"""

from __future__ import annotations

import enum
import types
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.function_wrapper import FunctionWrapper
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.runtime.array_package import DEVICE_TYPES, Content, array_facts, content_of, xp

__all__ = ["BY_IDENTITY", "BY_VALUE", "CallKey", "without_sizes"]

_FACTS = 6
#: Immutable values, equal where they are of the same type and compare equal.
BY_VALUE = frozenset((
    bool, int, str, bytes, type(None), type(Ellipsis), np.dtype, types.UnionType, types.GenericAlias, *DEVICE_TYPES,
))
#: Values that may compare equal though they differ, as zeros of different signs do, or differ from themselves: NaN.
_BY_TEXT = (complex, range)
#: What is the same only if it is the same object: functions, those of dpnp and NumPy among them, modules and classes.
BY_IDENTITY: tuple[type, ...] = (
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, enum.Enum, FunctionWrapper, np.ufunc,
    types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    *{type(member) for member in vars(xp).values() if callable(member) and not isinstance(member, type)},
)


class CallKey:
    """Collects the key of one call; `held` are the objects whose identity is a part of it, `facts` what `array_facts`
    gives of the arrays; `unknown` says of what it does not have all that a plan might depend on, and `within` are the
    containers that the value now taken in is in."""

    __slots__ = ("arrays", "facts", "held", "originals", "parts", "scalars", "unknown", "within")

    def __init__(self) -> None:
        self.unknown: list[tuple[str, str]] = []
        self.within: set[int] = set()
        self.parts: list[Any] = []
        self.arrays: list[Any] = []
        self.facts: list[Any] = []
        self.originals: list[Any] = []
        self.scalars: list[float] = []
        self.held: list[Any] = []

    @classmethod
    def like(
        cls, parts: list[Any], facts: list[Any], arrays: list[Any], originals: list[Any], scalars: list[float]
    ) -> CallKey:
        """Return the key of a call of which it is known that it has such parts and facts."""
        key = cls.__new__(cls)
        key.parts, key.facts, key.arrays, key.originals, key.scalars = parts, facts, arrays, originals, scalars
        key.held, key.unknown, key.within = [], [], set()
        return key

    def finish(self) -> None:
        """Add which arrays are the same object."""
        seen = {id(array): place for place, array in reversed(list(enumerate(self.originals)))}
        if len(seen) < len(self.originals):
            self.parts.append(("same", tuple(seen[id(array)] for array in self.originals)))

    def add(self, value: Any) -> None:
        """Take in one value."""
        kind = type(value)
        if kind is xp.ndarray:
            usm = content_of(value)
            self.arrays.append(usm)
            self.originals.append(value)
            facts = array_facts(usm)
            self.facts.append(facts)
            self.parts.append(facts)
        elif kind in TRACED_KINDS:
            self.scalars.append(value)
            self.parts.append(kind)
        elif kind in BY_VALUE:
            self.parts.append((kind, value))
        elif kind is Content:
            self.arrays.append(value)
            self.originals.append(value)
            self.facts.append(array_facts(value))
            self.parts.append((kind, self.facts[-1]))
        elif kind is list or kind is tuple:
            self.parts.append((kind, len(value)))
            self._add_all(value, value)
        elif kind is dict:
            self.parts.append((kind, tuple(map(self._key_of_dict, value))))
            self._add_all(value, value.values())
        elif isinstance(value, BY_IDENTITY):
            self.held.append(value)
            self.parts.append(("is", id(value)))
        elif kind in _BY_TEXT or isinstance(value, np.generic | np.dtype):
            self.parts.append((kind, repr(value)))
        elif kind is slice:
            # Those that hold something else have no plan in any case (`tl_dpnp.graph.reading`).
            self.parts.append((slice, *(part if part is None or type(part) is int else type(part)
                                        for part in (value.start, value.stop, value.step))))
        else:
            self.parts.append(kind)

    def _add_all(self, container: Any, values: Iterable[Any]) -> None:
        if id(container) in self.within:
            self.parts.append(self._unknown(f"a {type(container).__name__}", "it is in itself"))
            return
        self.within.add(id(container))
        for part in values:
            self.add(part)
        self.within.remove(id(container))

    def _key_of_dict(self, key: Any) -> Any:
        """Return a key of a dict as a part."""
        if type(key) in BY_VALUE:
            return type(key), key
        if type(key) is tuple:
            return tuple, tuple(map(self._key_of_dict, key))
        if isinstance(key, BY_IDENTITY):
            self.held.append(key)
            return "is", id(key)
        return self._unknown("a dict", "its keys are not simple values")

    def _unknown(self, what: str, reason: str) -> str:
        self.unknown.append((what, reason))
        return what


def without_sizes(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the parts of a key with the number of axes and those of size 0 and 1 in the place of shapes."""
    return tuple(_without_sizes(part) for part in parts)


def _without_sizes(part: Any) -> Any:
    if type(part) is not tuple:
        return part
    if part and part[0] is Content:
        return part[0], _without_sizes(part[1])
    if len(part) == _FACTS and type(part[0]) is tuple:
        return (tuple(min(size, 2) for size in part[0]), *part[2:])
    return part
