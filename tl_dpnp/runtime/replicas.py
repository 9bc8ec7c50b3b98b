"""Arguments that a kernel may write in place of the user's: copies of the arrays that it writes.

Copies have the strides of the originals and the same place within a cache line.  They lie in one block of memory, so
that what a kernel updates can be restored by one copy of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dpctl.memory
from dpctl.tensor import usm_ndarray

from tl_dpnp.runtime.arguments import BoundCall, GroupArgument
from tl_dpnp.runtime.arrays import ArrayView
from tl_dpnp.runtime.dpctl_adapter import allocation_of, wait_for
from tl_dpnp.runtime.group import Group
from tl_dpnp.runtime.usage import Usage

__all__ = ["Replicas"]

_LINE = 64


class Replicas:
    """The arguments of a checked call, with copies for the arrays that the kernel writes; the rest is shared.

    Takes memory for the arrays that are written, and that much again where their old contents matter: where the kernel
    reads them too.  `arguments` are what to bind; `exact` says that each run must begin with the old contents, because
    they are integers, which may be indices.
    """

    def __init__(self, call: BoundCall, arguments: Sequence[Any], usage: Usage, queue: Any) -> None:
        self._size = 0
        self._places: list[tuple[ArrayView, int, int]] = []
        written = sorted(usage.written)
        counts = [self._reserve(call.arguments[position]) for position in written]
        self._memory = dpctl.memory.MemoryUSMDevice(max(self._size, 1), queue=queue)
        copies = iter([self._copy(*place) for place in self._places])
        self.arguments = list(arguments)
        for position, count in zip(written, counts, strict=True):
            taken = [next(copies) for _ in range(count)]
            bound = call.arguments[position]
            if isinstance(bound, GroupArgument):
                offset = bound.handle.offset if bound.handle is not None else 0
                self.arguments[position] = Group(taken, offset)
            else:
                self.arguments[position] = taken[0]
        wait_for(queue)
        updated = [view for position in usage.written & usage.read for view in call.arguments[position].views]
        self.exact = any(view.dtype.kind in "iub" for view in updated)
        self._saved = None
        if updated:
            self._saved = dpctl.memory.MemoryUSMDevice(self._memory.nbytes, queue=queue)
            self._saved.copy_from_device(self._memory)

    def restore(self) -> None:
        """Give the copies their old contents, where a kernel reads them."""
        if self._saved is not None:
            self._memory.copy_from_device(self._saved)

    def _reserve(self, argument: Any) -> int:
        """Find places for the arrays of an argument and return how many they are."""
        offset = argument.offset // argument.per_byte if isinstance(argument, GroupArgument) else 0
        for view in argument.views:
            extent = sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True) if size) + 1
            margin = abs(offset) * view.dtype.itemsize
            # The group's offset moves what the kernel reaches out of the array.
            start = _aligned(self._size) + _aligned(margin) + view.address % _LINE
            self._places.append((view, start, offset))
            self._size = start + max(extent, 1) * view.dtype.itemsize + margin
        return len(argument.views)

    def _copy(self, view: ArrayView, start: int, offset: int) -> Any:
        """Return a copy of an array at a place in the block; with a group's offset its contents are off by that."""
        memory, distance = allocation_of(view.array)
        size = view.dtype.itemsize

        def at(memory: Any, first: int) -> Any:
            return usm_ndarray(view.shape, dtype=view.dtype, strides=view.strides, buffer=memory, offset=first)

        copy = at(self._memory, start // size)
        if 0 not in view.shape:
            at(self._memory, start // size + offset)[...] = at(memory, distance // size + offset)
        return copy


def _aligned(size: int) -> int:
    return -(-size // _LINE) * _LINE
