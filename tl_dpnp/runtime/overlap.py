"""Whether arguments of a call share memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tl_dpnp.runtime.arrays import ArrayView

__all__ = ["extent", "overlapping"]

#: Bound on the search for a common element; beyond it arrays whose ranges overlap count as overlapping.
_MAX_WORK = 100_000


def overlapping(arguments: Sequence[Sequence[ArrayView]], written: Collection[int]) -> tuple[int, int] | None:
    """Return the positions of an argument that is `written` and of another that shares memory with it, or None.

    Each argument is a sequence of views: one for a memref, one for each element of a group.  Views within one
    argument may overlap.
    """
    ranges = sorted(
        ((*_byte_range(view), position, view) for position, views in enumerate(arguments) for view in views
         if 0 not in view.shape),
        key=lambda entry: entry[:3],
    )
    active: list[tuple[int, int, int, ArrayView]] = []
    for entry in ranges:
        start, _, position, view = entry
        active = [other for other in active if other[1] > start]
        for _, _, other_position, other_view in active:
            if position == other_position or not {position, other_position} & set(written):
                continue
            if _share_memory(view, other_view):
                return (position, other_position) if position in written else (other_position, position)
        active.append(entry)
    return None


def extent(view: ArrayView) -> tuple[int, int]:
    """Return where the memory of a view begins and ends, in bytes from its first element; both are 0 if it is empty."""
    if 0 in view.shape:
        return 0, 0
    steps = [stride * (size - 1) for size, stride in zip(view.shape, view.strides, strict=True)]
    below, above = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    return below * view.dtype.itemsize, (above + 1) * view.dtype.itemsize


def _byte_range(view: ArrayView) -> tuple[int, int]:
    """Return the addresses where the memory of a view begins and ends."""
    below, above = extent(view)
    return view.address + below, view.address + above


class _Shadow:
    """An array that NumPy can compare by address, but that is never read."""

    def __init__(self, view: ArrayView) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (view.address, True),
            "shape": view.shape,
            "strides": tuple(stride * view.dtype.itemsize for stride in view.strides),
            "typestr": view.dtype.str,
        }


def _share_memory(first: ArrayView, second: ArrayView) -> bool:
    try:
        return np.shares_memory(np.asarray(_Shadow(first)), np.asarray(_Shadow(second)), max_work=_MAX_WORK)
    except np.exceptions.TooHardError:
        return True
