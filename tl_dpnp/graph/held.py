"""Which of the lazy arrays of a trace somebody still holds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

__all__ = ["HOLDS", "HeldArrays", "references"]

#: How many references to a lazy array its trace holds by itself.
HOLDS = 1


class HeldArrays:
    """Lazy arrays; those that nobody else holds go when it is asked next.

    References are counted: there are no weak ones to arrays of dpnp 0.20, and they take longer to make.
    """

    __slots__ = ("_arrays", "add")

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        #: Adds one that was just made.
        self.add = self._arrays.append

    def live(self) -> list[Any]:
        """Return those that somebody holds."""
        arrays = self._arrays
        arrays[:] = [lazy for lazy in arrays if sys.getrefcount(lazy) > _ALONE]
        return arrays.copy()

    def clear(self) -> None:
        """Forget all of them."""
        self._arrays.clear()


def references(objects: Sequence[Any]) -> list[int]:
    """Return how many references there are to objects, beside those of the sequence."""
    return [count - _ALONE for count in _counts(objects)]


def _counts(objects: Sequence[Any]) -> list[int]:
    return [sys.getrefcount(thing) for thing in objects]


#: The count of an object that its list alone holds, which differs between versions of Python.
(_ALONE,) = _counts([object()])
