"""Which of the lazy arrays of a trace somebody still holds."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import dpnp

__all__ = ["HOLDS", "Held", "held_arrays", "references"]


class Held(Protocol):
    """Lazy arrays, as long as somebody else holds them."""

    def add(self, lazy: Any) -> None:
        """Add one that was just made."""

    def live(self) -> list[Any]:
        """Return those that somebody holds."""

    def clear(self) -> None:
        """Forget all of them."""


class _Weak:
    """By weak references."""

    def __init__(self) -> None:
        self._references: list[weakref.ref[Any]] = []

    def add(self, lazy: Any) -> None:
        self._references.append(weakref.ref(lazy))

    def live(self) -> list[Any]:
        alive = [lazy for reference in self._references if (lazy := reference()) is not None]
        if len(alive) < len(self._references):
            self._references = [*map(weakref.ref, alive)]
        return alive

    def clear(self) -> None:
        self._references.clear()


class _Counted:
    """By counting references, where arrays have no room for weak ones; the others go when it is asked next."""

    def __init__(self) -> None:
        self._arrays: list[Any] = []

    def add(self, lazy: Any) -> None:
        self._arrays.append(lazy)

    def live(self) -> list[Any]:
        self._arrays = [lazy for lazy, count in zip(self._arrays, references(self._arrays), strict=True) if count > 0]
        return [*self._arrays]

    def clear(self) -> None:
        self._arrays.clear()


def references(objects: Sequence[Any]) -> list[int]:
    """Return how many references there are to objects, beside those of the sequence."""
    return [count - _ALONE for count in _counts(objects)]


def _counts(objects: Sequence[Any]) -> list[int]:
    return [sys.getrefcount(thing) for thing in objects]


#: The count of an object that its list alone holds, which differs between versions of Python.
(_ALONE,) = _counts([object()])
#: Whether there are weak references to arrays of dpnp.
_IS_WEAK = dpnp.ndarray.__weakrefoffset__ != 0
#: How many references to a lazy array its trace holds by itself.
HOLDS = 0 if _IS_WEAK else 1


def held_arrays() -> Held:
    """Return an empty list of lazy arrays."""
    return _Weak() if _IS_WEAK else _Counted()
