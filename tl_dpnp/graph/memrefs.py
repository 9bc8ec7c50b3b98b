"""How the arrays of a region are bound to memrefs.

A memref is column-major and its strides grow from mode to mode, so the modes of an array are its axes sorted by stride.
Axes of size 1 and broadcast axes are no modes; a reversed axis is bound from its other end.  Grid axes that lie evenly
in all arrays are seen as one.  Sizes of grid axes are dynamic, so that a kernel serves every batch.

An array whose axes interleave, such as the diagonals of matrices, is bound flat: as all elements from its first to its
last, which are read at computed places.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tl_dpnp.graph.nodes import Array
from tl_dpnp.graph.placement import GridAxis, Places
from tl_dpnp.graph.symbols import DynamicSize, DynamicStride, actual
from tl_dpnp.language.types import MemrefType
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

__all__ = ["Bound", "Mode", "bind_arrays", "fits_memref", "lies_evenly", "scalar_type_of"]

_SCALARS = {np.dtype(t.storage): t for t in SCALAR_TYPES.values()
            if t.name not in ("bf16", "index") and not t.is_subbyte}


def scalar_type_of(dtype: np.dtype[Any]) -> ScalarType:
    """Return the scalar type of a NumPy dtype; raises KeyError where there is none."""
    return _SCALARS[dtype]


def lies_evenly(type_: MemrefType, first: int, last: int) -> bool:
    """Return whether modes of a memref can be fused: each, up to `last`, begins where the one before it ends."""
    modes = list(zip(type_.shape, type_.strides, strict=True))[first : last + 1]
    return all(size is not None and stride is not None and size * stride == following
               for (size, stride), (_, following) in pairwise(modes))


@dataclass(frozen=True)
class Mode:
    """A mode of a bound array: the local axis, or the grid axis, that it is.

    Generated code does not know a size that is `dynamic`, nor a stride that is.  Of a mode with `part`, a work-group
    does the part that it has of that grid axis.
    """

    axis: int
    is_grid: bool
    size: int
    stride: int
    flipped: bool
    dynamic: bool = False
    dynamic_stride: bool = False
    part: int | None = None


@dataclass(frozen=True)
class Bound:
    """An array bound to a memref: `offset` elements behind the array's first.

    With `flat`, the memref is one mode of all elements in between, and `modes` say where those of the array are.
    """

    array: Array
    type: MemrefType
    modes: tuple[Mode, ...]
    offset: int
    flat: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the memref's modes in this call."""
        return (_span(self.modes),) if self.flat else tuple(mode.size for mode in self.modes)

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of the memref's modes in this call, in elements."""
        return (1,) if self.flat else tuple(mode.stride for mode in self.modes)

    @property
    def signature(self) -> tuple[object, ...]:
        """What generated code depends on."""
        steps = tuple((mode.stride, mode.size if mode.flipped else 0) for mode in self.modes) if self.flat else None
        return self.type, tuple((mode.axis, mode.is_grid, mode.flipped, mode.part) for mode in self.modes), steps


def fits_memref(array: Array) -> bool:
    """Return whether a memref can describe an array: its axes nest in memory, but for those that broadcast."""
    axes = sorted((abs(stride), size) for size, stride in zip(array.shape, array.strides, strict=True)
                  if size > 1 and stride)
    return all(outer >= inner * size for (inner, size), (outer, _) in pairwise(axes))


def _span(modes: Sequence[Mode]) -> int:
    """Return the number of elements from the first one of an array to its last."""
    return 1 + sum((mode.size - 1) * mode.stride for mode in modes)


def bind_arrays(
    arrays: Sequence[tuple[Array, Places]], grid: tuple[GridAxis, ...], counted: Collection[int] = ()
) -> tuple[list[Bound], tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Bind arrays for a grid; returns them, and the sizes of the runs of grid axes that are joined, and the runs.

    Axes in `counted` are joined with none but those of size 1.
    """
    strides = [_group_strides(array, places, grid) for array, places in arrays]
    ragged = [number for number, axis in enumerate(grid) if axis.is_ragged]
    apart = [[int(number == axis) for number in range(len(grid))] for axis in (*counted, *ragged)]
    # A ragged axis is counted through even where it is one work-group, so that a kernel serves any number of them.
    joined = _joined([max(axis.launched, 2) if axis.is_ragged else axis.launched for axis in grid],
                     [*strides, *apart])
    sizes = tuple(math.prod([grid[axis].launched for axis in axes]) for axes in joined)
    bound = [
        _bind(array, places, grid, [None if axes[-1] in ragged else (size, own[axes[-1]])
                                    for size, axes in zip(sizes, joined, strict=True)])
        for (array, places), own in zip(arrays, strides, strict=True)
    ]
    return bound, sizes, tuple(map(tuple, joined))


def _group_strides(array: Array, places: Places, grid: tuple[GridAxis, ...]) -> list[int]:
    """Return the stride from one index of each grid axis to the next; 0 where the array does not have the axis.

    Ragged axes have none: work-groups find their part of the whole.
    """
    strides = [0] * len(grid)
    for stride, place in zip(array.strides, places, strict=True):
        if place is not None and not grid[place].is_ragged:
            strides[place] = stride if grid[place].chunk == 1 else stride * grid[place].chunk
    return strides


def _joined(sizes: list[int], strides: list[list[int]]) -> list[list[int]]:
    """Return the grid axes in runs that can be counted through by one index; axes of size 1 join any run."""
    runs: list[list[int]] = []
    for axis, size in enumerate(sizes):
        if runs and (size == 1 or all(own[runs[-1][-1]] == own[axis] * size for own in strides)):
            if size > 1:
                runs[-1].append(axis)
        elif runs and all(sizes[other] == 1 for other in runs[-1]):
            runs[-1] = [axis]
        else:
            runs.append([axis])
    return runs


def _bind(array: Array, places: Places, grid: tuple[GridAxis, ...], groups: list[tuple[int, int] | None]) -> Bound:
    modes = []
    for axis, (size, stride, place) in enumerate(zip(array.shape, array.strides, places, strict=True)):
        part = place if place is not None and grid[place].is_ragged else None
        local = size if place is None or part is not None else grid[place].chunk
        if local > 1 and stride:
            dynamic = isinstance(local, DynamicSize) or part is not None
            modes.append(Mode(axis, False, actual(local), abs(int(stride)), stride < 0, dynamic,
                              isinstance(stride, DynamicStride), part))
    span = max([_span(modes), *(mode.size * mode.stride for mode in modes)])
    for axis, group in enumerate(groups):
        if group is None:
            continue
        size, stride = group
        if size == 1 and any(place is not None for place in places):
            stride = stride or span  # a batch of one is bound as any other
        if stride:
            step = abs(int(stride)) if size > 1 else max(abs(int(stride)), span)
            modes.append(Mode(axis, True, size, step, stride < 0, True, isinstance(stride, DynamicStride)))
    modes.sort(key=lambda mode: (mode.stride, mode.is_grid, -mode.axis))
    offset = array.offset - sum((mode.size - 1) * mode.stride for mode in modes if mode.flipped)
    element = scalar_type_of(array.dtype)
    if any(outer.stride < inner.stride * inner.size for inner, outer in pairwise(modes)):
        return Bound(array, MemrefType(element, (None,), (1,)), tuple(modes), offset, flat=True)
    shape: list[int | None] = []
    strides: list[int | None] = []
    dynamic = False
    for mode in modes:
        dynamic = dynamic or (mode.dynamic_stride and mode.stride > 1)
        strides.append(None if dynamic else mode.stride)
        shape.append(None if mode.dynamic else mode.size)
        dynamic = dynamic or mode.dynamic
    type_ = MemrefType(element, tuple(shape), tuple(strides))
    return Bound(array, type_, tuple(modes), offset)
