"""What a kernel remembers of its calls."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from tl_dpnp.runtime.call.overlap import Footprint
from tl_dpnp.runtime.platforms import Launch

__all__ = ["CallMemo", "Remembered"]

Kept = TypeVar("Kept")


class Remembered(NamedTuple):
    """A launch, and where its arguments lie, None where nobody asks."""

    launch: Launch
    footprint: Footprint | None


class CallMemo(Generic[Kept]):
    """What a kernel remembers, such as launches, by the key of the arguments.

    It forgets all when that becomes too much, or the arrays that the keys describe.  Safe to use from several
    threads: what one of them forgets, another prepares again.
    """

    MOST_CALLS = 256
    MOST_ARRAYS = 1 << 16

    def __init__(self) -> None:
        self._kept: dict[Hashable, Kept] = {}
        self._arrays = 0
        self.get = self._kept.get

    def put(self, key: Hashable, kept: Kept, arrays: int) -> None:
        """Remember something whose key describes `arrays` arrays."""
        if len(self._kept) >= self.MOST_CALLS or self._arrays + arrays > self.MOST_ARRAYS:
            self.clear()
        self._kept[key] = kept
        self._arrays += arrays

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self._arrays = 0
