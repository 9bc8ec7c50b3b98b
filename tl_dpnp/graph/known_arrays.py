"""The arrays that existed before a trace, and the lazy ones that stand for them."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

from tl_dpnp.graph.held import HOLDS, references

__all__ = ["KnownArrays"]

#: References to a lazy array that its trace alone knows: that of the entry, and those of the trace.
_OWN = 1 + HOLDS
_PAIR = None, object()
#: The count of a lazy array that nobody else refers to, taken from its entry.
_UNHELD = getrefcount(_PAIR[1]) + HOLDS


class KnownArrays:
    """Pairs of an array and its lazy one, found by the array itself."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, tuple[Any, Any]] = {}

    def add(self, array: Any, lazy: Any) -> None:
        """Remember which lazy array stands for an array."""
        self._entries[id(array)] = array, lazy

    def lazy_of(self, array: Any) -> Any:
        """Return the lazy array that stands for an array, None if there is none."""
        entry = self._entries.get(id(array))
        return None if entry is None else entry[1]

    def original(self, value: Any) -> Any:
        """Return the array that a lazy array stands for if it existed before, else the value itself."""
        return next((array for array, lazy in self._entries.values() if lazy is value), value)

    def by_lazy(self) -> dict[int, Any]:
        """Return the arrays by the identity of what stands for them."""
        return {id(lazy): array for array, lazy in self._entries.values()}

    def held(self) -> list[tuple[Any, int]]:
        """Return the lazy arrays that somebody else refers to, with how many references there are."""
        lazies = [lazy for _, lazy in self._entries.values()]
        return [(lazy, count - _OWN) for lazy, count in zip(lazies, references(lazies), strict=True) if count > _OWN]

    def are_held(self) -> bool:
        """Return whether somebody else refers to one of the lazy arrays."""
        for entry in self._entries.values():  # noqa: SIM110  # an expression takes three times as long
            if getrefcount(entry[1]) > _UNHELD:
                return True
        return False

    def forget(self) -> None:
        """Forget all arrays."""
        self._entries.clear()

    def forget_unheld(self) -> None:
        """Forget the arrays whose lazy ones nobody else refers to."""
        held = {id(lazy) for lazy, _ in self.held()}
        self._entries = {number: entry for number, entry in self._entries.items() if id(entry[1]) in held}
