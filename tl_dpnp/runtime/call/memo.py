"""The launches that a kernel remembers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from tl_dpnp.runtime.call.overlap import Footprint
from tl_dpnp.runtime.platforms import Launch

__all__ = ["LaunchMemo", "Remembered"]


class Remembered(NamedTuple):
    """A launch, and where its arguments lie, None where nobody asks."""

    launch: Launch
    footprint: Footprint | None


class LaunchMemo:
    """The launches that a kernel remembers, by the key of their arguments.

    It forgets them all when they become too many, or the arrays that their keys describe.  Safe to use from several
    threads: what one of them forgets, another prepares again.
    """

    MOST_LAUNCHES = 256
    MOST_ARRAYS = 1 << 16

    def __init__(self) -> None:
        self._launches: dict[Hashable, Remembered] = {}
        self._arrays = 0
        self.get = self._launches.get

    def put(self, key: Hashable, launch: Remembered, arrays: int) -> None:
        """Remember a launch whose key describes `arrays` arrays."""
        if len(self._launches) >= self.MOST_LAUNCHES or self._arrays + arrays > self.MOST_ARRAYS:
            self.clear()
        self._launches[key] = launch
        self._arrays += arrays

    def clear(self) -> None:
        """Forget all launches."""
        self._launches.clear()
        self._arrays = 0
