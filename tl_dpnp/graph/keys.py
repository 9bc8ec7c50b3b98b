"""The key of a call: everything that a specialisation depends on, and the arrays and scalars that it does not.

Arrays count by shape, strides, dtype, USM type and queue; Python floats by their type, unless a trace has used the
value; other simple values by value.  Objects count by those of their attributes that the function names.
"""

from __future__ import annotations

import types
from operator import attrgetter
from typing import Any

import dpnp
import numpy as np
from dpctl.tensor import usm_ndarray

from tl_dpnp.runtime.dpnp_adapter import usm_array_of

__all__ = ["CallKey", "array_facts"]

array_facts = attrgetter("shape", "strides", "dtype.num", "usm_type", "sycl_queue", "flags.writable")
_BY_VALUE = (bool, int, str, bytes, complex, type(None), type(Ellipsis), np.dtype, np.generic, type)
_BY_IDENTITY = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType)
_DEPTH = 4


class CallKey:
    """Collects the key of one call; `opaque` names what cannot be part of a key."""

    __slots__ = ("arrays", "attributes", "opaque", "originals", "parts", "scalars")

    def __init__(self, attributes: frozenset[str]) -> None:
        self.parts: list[Any] = []
        self.arrays: list[Any] = []
        self.originals: list[Any] = []
        self.scalars: list[float] = []
        self.attributes = attributes
        self.opaque: list[str] = []

    def finish(self) -> None:
        """Add which arrays are the same object."""
        seen = {id(array): place for place, array in reversed(list(enumerate(self.originals)))}
        if len(seen) < len(self.originals):
            self.parts.append(("same", tuple(seen[id(array)] for array in self.originals)))

    def add(self, value: Any, argument: bool = True, depth: int = 0) -> None:
        """Take in one value; floats that are no `argument` count by value."""
        kind = type(value)
        if kind is dpnp.ndarray:
            usm = usm_array_of(value)
            self.arrays.append(usm)
            self.originals.append(value)
            self.parts.append(array_facts(usm))
        elif kind is float:
            if argument:
                self.scalars.append(value)
                self.parts.append(float)
            else:
                self.parts.append(repr(value))
        elif isinstance(value, _BY_VALUE):
            self.parts.append((kind, value))
        elif kind is usm_ndarray:
            self.arrays.append(value)
            self.originals.append(value)
            self.parts.append((kind, array_facts(value)))
        elif kind is list or isinstance(value, tuple):
            self.parts.append((kind, len(value)))
            for part in value:
                self.add(part, argument, depth + 1)
        elif kind is dict:
            self.parts.append((kind, tuple(value)))
            for part in value.values():
                self.add(part, argument, depth + 1)
        elif kind is slice:
            self.parts.append(slice)
            for part in (value.start, value.stop, value.step):
                self.add(part, False, depth + 1)
        elif isinstance(value, _BY_IDENTITY) or (callable(value) and not hasattr(value, "__dict__")):
            self.parts.append(("is", id(value)))
        else:
            self._object(value, depth)

    def _object(self, value: Any, depth: int) -> None:
        kind = type(value)
        self.parts.append(kind)
        own = getattr(value, "__dict__", None)
        if own is None or depth > _DEPTH or isinstance(value, np.ndarray):
            self.opaque.append(kind.__name__)
            return
        for name in sorted(self.attributes):
            if name in own:
                self.parts.append(name)
                self.add(own[name], False, depth + 1)
                continue
            inherited = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
            if isinstance(inherited, property) or hasattr(inherited, "__set__"):
                self.opaque.append(f"{kind.__name__}.{name}")
            elif isinstance(inherited, bool | int | float | str | dpnp.ndarray):
                self.parts.append(name)
                self.add(inherited, False, depth + 1)
