"""Frozen dataclasses as plain data, and back: for JSON, exact, and far cheaper to read than text is to parse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

__all__ = ["Codec"]


class Codec:
    """Writes and reads values that consist of dataclasses, the `classes`, of tuples, sets, scalar types and numbers.

    A list holds the name of a class and its fields in order.
    """

    def __init__(self, classes: Iterable[type]) -> None:
        self._classes: dict[str, tuple[Any, tuple[str, ...]]] = {
            kind.__name__: (kind, tuple(field.name for field in fields(kind))) for kind in classes}

    def encode(self, value: Any) -> Any:
        """Return a value as lists, strings and numbers."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case complex():
                return ["complex", value.real, value.imag]
            case ScalarType():
                return ["scalar", value.name]
            case tuple():
                return ["tuple", *map(self.encode, value)]
            case frozenset():
                return ["set", *map(self.encode, sorted(value))]
        name = type(value).__name__
        return [name, *(self.encode(getattr(value, field)) for field in self._classes[name][1])]

    def decode(self, data: Any) -> Any:
        """Return the value that `encode` was given.  Raises `ValueError` for data that is not of that form."""
        try:
            return self._decode(data)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"this was not encoded from {', '.join(self._classes)}: {error}") from None

    def _decode(self, data: Any) -> Any:
        if not isinstance(data, list):
            return data
        tag = data[0]
        if tag == "tuple":
            return tuple(map(self._decode, data[1:]))
        if tag == "set":
            return frozenset(map(self._decode, data[1:]))
        if tag == "scalar":
            return SCALAR_TYPES[data[1]]
        if tag == "complex":
            return complex(data[1], data[2])
        kind, names = self._classes[tag]
        return kind(**dict(zip(names, map(self._decode, data[1:]), strict=True)))
