"""Arguments that a kernel may write in place of the user's: copies of the arrays that it writes.

Copies have the strides of the originals and the same place within a cache line.  They lie in one block of memory, so
that what a kernel updates can be restored by one copy of memory.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.runtime.call.arguments import BoundCall, GroupArgument, PointersArgument
from tl_dpnp.runtime.call.arrays import ArrayKind, ArrayView
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.interface import Usage
from tl_dpnp.runtime.call.layout import aligned
from tl_dpnp.runtime.call.overlap import extent
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["Replicas"]


class Replicas(abc.ABC):
    """The arguments of a checked call, with copies for the arrays that the kernel writes; the rest is shared.

    Takes memory for the arrays that are written, and that much again where their old contents matter: where the kernel
    reads them too.  `arguments` are what to bind; `exact` says that each run must begin with the old contents, because
    they are integers, which may be indices.  How memory is taken and copied is up to the platform, as is the `kind` of
    the copies.
    """

    kind: ClassVar[ArrayKind]

    def __init__(self, call: BoundCall, arguments: Sequence[Any], usage: Usage, queue: Any) -> None:
        self._size = 0
        self._places: list[tuple[ArrayView, int, int]] = []
        written = sorted(usage.written)
        counts = [self._reserve(call.arguments[position]) for position in written]
        size = max(self._size, 1)
        self._memory = self.allocate(size, queue)
        copies = iter([self.replica(self._memory, *place) for place in self._places])
        self.arguments = list(arguments)
        for position, count in zip(written, counts, strict=True):
            taken = [next(copies) for _ in range(count)]
            bound = call.arguments[position]
            if isinstance(bound, GroupArgument):
                offset = bound.handle.offset if bound.handle is not None else 0
                self.arguments[position] = Group(taken, self.kind, offset)
            else:
                self.arguments[position] = taken[0]
        self.finish(queue)
        updated = [view for position in usage.written & usage.read for view in call.arguments[position].views]
        self.exact = any(view.dtype.kind in "iub" for view in updated)
        self._saved = None
        if updated:
            self._saved = self.allocate(size, queue)
            self.duplicate(self._memory, self._saved)

    def restore(self) -> None:
        """Give the copies their old contents, where a kernel reads them."""
        if self._saved is not None:
            self.duplicate(self._saved, self._memory)

    @abc.abstractmethod
    def allocate(self, size: int, queue: Any) -> Any:
        """Return so many bytes of memory on the device of a queue."""

    @abc.abstractmethod
    def replica(self, memory: Any, view: ArrayView, start: int, offset: int) -> Any:
        """Return a copy of an array, from a byte of memory on; with a group's offset its contents are off by that."""

    @abc.abstractmethod
    def duplicate(self, source: Any, target: Any) -> None:
        """Copy all of one memory to another of the same size."""

    @abc.abstractmethod
    def finish(self, queue: Any) -> None:
        """Wait until all copies are made."""

    def _reserve(self, argument: Any) -> int:
        """Find places for the arrays of an argument and return how many they are."""
        if isinstance(argument, PointersArgument):
            raise UnsupportedError("what a kernel writes is copied, and where an array of pointers points to is known "
                                   "to the device alone: give a list of arrays")
        offset = argument.offset // argument.per_byte if isinstance(argument, GroupArgument) else 0
        for view in argument.views:
            below, above = extent(view)
            margin = abs(offset) * view.dtype.itemsize
            # The group's offset moves what the kernel reaches out of the array.
            start = aligned(self._size) + aligned(margin - below) + view.address % CACHE_LINE
            self._places.append((view, start, offset))
            self._size = start + max(above, view.dtype.itemsize) + margin
        return len(argument.views)
