"""Recorders of functions that return views (`tl_dpnp.graph.operations`)."""

from __future__ import annotations

import functools
import math
from types import EllipsisType
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.dpnp_rules import indices_wrap, kind_of_several
from tl_dpnp.graph.lazy import LazyArray, memory_of
from tl_dpnp.graph.nodes import Array, AxisMap, Map, Node, Number, Reshape, Take
from tl_dpnp.graph.recorders import (
    RECORDERS,
    array_axis,
    check_arrays,
    only_defaults,
    records,
    result_array,
    static_integer,
    viewed,
)
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.views import broadcast, broadcasts, part, permute, reshape, slice_axes, view
from tl_dpnp.runtime.array_package import xp
from tl_dpnp.runtime.package_name import NAME

__all__ = ["basic_entries", "diagonal_axes"]


# --- views -----------------------------------------------------------------------------------------------------------


@records("transpose")
def _transpose(trace: Trace, a: Any, axes: Any = None) -> Any:
    if type(a) is LazyArray and a.ndim < 2:
        return a

    def make(node: Node) -> Node:
        ndim = len(node.shape)
        if axes is None:
            return permute(node, tuple(reversed(range(ndim))))
        if not isinstance(axes, tuple | list):
            raise NotFused("axes= is no tuple")
        order = [array_axis(axis, ndim) for axis in axes]
        if sorted(order) != list(range(ndim)):
            raise NotFused("axes= is no permutation")
        return permute(node, order)

    return viewed(trace, a, make)


@records("swapaxes")
def _swapaxes(trace: Trace, a: Any, axis1: Any, axis2: Any) -> Any:
    def make(node: Node) -> Node:
        order = list(range(len(node.shape)))
        first, second = array_axis(axis1, len(order)), array_axis(axis2, len(order))
        order[first], order[second] = order[second], order[first]
        return permute(node, order)

    return viewed(trace, a, make)


@records("moveaxis")
def _moveaxis(trace: Trace, a: Any, source: Any, destination: Any) -> Any:
    def make(node: Node) -> Node:
        ndim = len(node.shape)
        given = [axes if isinstance(axes, tuple | list) else (axes,) for axes in (source, destination)]
        origins, places = ([array_axis(axis, ndim) for axis in axes] for axes in given)
        if len(origins) != len(places) or len(set(origins)) != len(origins) or len(set(places)) != len(places):
            raise NotFused("source and destination do not fit")
        order = [axis for axis in range(ndim) if axis not in origins]
        for place, origin in sorted(zip(places, origins, strict=True)):
            order.insert(place, origin)
        return permute(node, order)

    return viewed(trace, a, make)


@records("reshape")
def _reshape(trace: Trace, a: Any, newshape: Any = None, order: Any = "C", copy: Any = None, **keywords: Any) -> Any:
    shape = keywords.pop("shape", newshape)
    only_defaults({**keywords, "order": order, "copy": copy}, order="K", copy=None)
    sizes = [static_integer(size) for size in (shape if isinstance(shape, tuple | list) else (shape,))]

    def make(node: Node) -> Node:
        known = math.prod([size for size in sizes if size != -1])
        if sizes.count(-1) == 1 and known:
            full = tuple(node.size // known if size == -1 else size for size in sizes)
        else:
            full = tuple(sizes)
        if min(full, default=0) < 0 or math.prod(full) != node.size:
            raise NotFused("the sizes do not fit")
        result = reshape(node, full)
        if isinstance(result, Reshape):
            place = memory_of(trace, node)
            if not isinstance(place, Array) or not isinstance(reshape(place, full), Array):
                copied = Map(node.shape, node.dtype, "positive", (node,), node.dtype)
                return Reshape(full, node.dtype, copied)
        return result

    return viewed(trace, a, make)


@records("ravel")
def _ravel(trace: Trace, a: Any, order: Any = "C") -> Any:
    return _reshape(trace, a, -1, order)


@records("expand_dims")
def _expand_dims(trace: Trace, a: Any, axis: Any) -> Any:
    def make(node: Node) -> Node:
        axes = axis if isinstance(axis, tuple | list) else (axis,)
        ndim = len(node.shape) + len(axes)
        places = {array_axis(place, ndim) for place in axes}
        if len(places) != len(axes):
            raise NotFused("an axis is repeated")
        old = iter(node.shape)
        return slice_axes(node, [None if place in places else (0, 1, next(old)) for place in range(ndim)])

    return viewed(trace, a, make)


@records("squeeze")
def _squeeze(trace: Trace, a: Any, axis: Any = None) -> Any:
    def make(node: Node) -> Node:
        shape = node.shape
        if axis is None:
            gone = {place for place, size in enumerate(shape) if size == 1}
        else:
            places = [array_axis(place, len(shape)) for place in (axis if isinstance(axis, tuple) else (axis,))]
            gone = set(places)
            if len(gone) < len(places):
                raise NotFused("an axis is repeated")
        if any(shape[place] != 1 for place in gone):
            raise NotFused("an axis is longer than 1")
        return slice_axes(node, [0 if place in gone else (0, 1, size) for place, size in enumerate(shape)])

    return viewed(trace, a, make)


@records("broadcast_to")
def _broadcast_to(trace: Trace, array: Any, shape: Any, **keywords: Any) -> Any:
    only_defaults(keywords, subok=False)
    sizes = tuple(static_integer(size) for size in (shape if isinstance(shape, tuple | list) else (shape,)))

    def make(node: Node) -> Node:
        if not broadcasts(node, sizes):
            raise NotFused("the shapes do not broadcast")
        return broadcast(node, sizes)

    return viewed(trace, array, make)


@records("flip")
def _flip(trace: Trace, m: Any, axis: Any = None) -> Any:
    def make(node: Node) -> Node:
        ndim = len(node.shape)
        axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        flipped = {array_axis(place, ndim) for place in axes}
        if len(flipped) < len(axes):
            raise NotFused("an axis is given twice")
        return slice_axes(node, [(size - 1, -1, size) if place in flipped and size else (0, 1, size)
                                 for place, size in enumerate(node.shape)])

    return viewed(trace, m, make)


for _name, _axis in {"flipud": 0, "fliplr": 1}.items():
    RECORDERS[_name] = functools.partial(lambda axis, trace, m: _flip(trace, m, axis), _axis)


@records("rollaxis")
def _rollaxis(trace: Trace, x: Any, axis: Any, start: Any = 0) -> Any:
    ndim = getattr(x, "ndim", 0)
    origin, place = array_axis(axis, ndim), static_integer(start)
    place += ndim if place < 0 else 0
    if not 0 <= place <= ndim:
        raise NotFused("the start is out of bounds")
    order = [other for other in range(ndim) if other != origin]
    order.insert(place - (origin < place), origin)
    return x if order == list(range(ndim)) else _transpose(trace, x, order)


@records("diagonal")
def _diagonal(trace: Trace, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    return viewed(trace, a, lambda node: view(node, *diagonal_axes(node.shape, offset, axis1, axis2)))


def diagonal_axes(
    shape: tuple[int, ...], offset: Any, axis1: Any, axis2: Any
) -> tuple[tuple[int, ...], tuple[AxisMap, ...]]:
    """Return the shape of a diagonal of matrices, its own axis last, and the index map to what it is seen of."""
    ndim, distance = len(shape), static_integer(offset)
    row, column = array_axis(axis1, ndim), array_axis(axis2, ndim)
    if row == column:
        raise NotFused("the axes are one")
    starts = {row: max(-distance, 0), column: max(distance, 0)}
    length = max(0, min(shape[axis] - start for axis, start in starts.items()))
    others = [axis for axis in range(ndim) if axis not in starts]
    axes = [(starts[axis] if length else 0, 1, ndim - 2) if axis in starts else (0, 1, others.index(axis))
            for axis in range(ndim)]
    return (*(shape[axis] for axis in others), length), tuple(axes)


for _name in ("real", "imag"):  # attributes, which are views; the functions of these names copy
    RECORDERS[f"ndarray.{_name}"] = functools.partial(
        lambda name, trace, a: viewed(trace, a, lambda node: part(node, name)), _name)


#: By the axes that there are to be and those that there are: the index that adds the others.
_MORE_AXES: dict[int, dict[int, tuple[Any, ...]]] = {
    1: {0: (None,)}, 2: {0: (None, None), 1: (None, ...)},
    3: {0: (None, None, None), 1: (None, ..., None), 2: (..., None)},
}


def _at_least(name: str, index: dict[int, tuple[Any, ...]], trace: Trace, *arrays: Any) -> Any:
    check_arrays(*arrays)
    results = [_getitem(trace, array, index[array.ndim]) if array.ndim in index else array for array in arrays]
    return results[0] if len(results) == 1 else kind_of_several(name)(results)


for _least, _index in _MORE_AXES.items():
    RECORDERS[f"atleast_{_least}d"] = functools.partial(_at_least, f"atleast_{_least}d", _index)


@records("__getitem__")
def _getitem(trace: Trace, a: Any, key: Any) -> Any:
    """Record basic indexing: integers, slices, new axes and an ellipsis."""
    keys = key if isinstance(key, tuple) else (key,)
    gathered = [place for place, entry in enumerate(keys) if isinstance(entry, xp.ndarray)]
    others = [entry for entry in keys if not isinstance(entry, xp.ndarray)]
    if len(gathered) == 1 and all(isinstance(entry, slice) and entry == slice(None) for entry in others):
        return _taken(trace, a, keys[gathered[0]], gathered[0], "wrap")
    _look_at_parts(trace, a, keys)
    return viewed(trace, a, lambda node: slice_axes(node, basic_entries(node.shape, keys)))


def _look_at_parts(trace: Trace, a: Any, keys: tuple[Any, ...]) -> None:
    """Note which sizes basic indexing looks at: those of axes of which it takes a part."""
    if type(a) is not LazyArray:
        return
    missing = a.ndim - sum(entry is not None and entry is not Ellipsis for entry in keys)
    axis = 0
    for entry in keys:
        if entry is Ellipsis:
            axis += missing
        elif entry is not None:
            bounds = (entry.start, entry.stop, entry.step) if isinstance(entry, slice) else (entry,)
            if any(bound is not None for bound in bounds) and axis < a.ndim:  # bounds may be objects of the user
                trace.axes_read.append((a._node, axis))
            axis += 1


#: Elements of a vector that are taken in a kernel; few work-groups would share a longer one.
_LONGEST_TAKEN = 1 << 14


@records("take")
def _take(trace: Trace, x: Any, indices: Any, /, *, axis: Any = None, out: Any = None, mode: Any = "wrap") -> Any:
    ndim = getattr(x, "ndim", 0)
    if out is not None or mode not in ("wrap", "clip") or (axis is None and ndim != 1):
        raise NotFused("the arguments are not fused")
    if getattr(indices, "ndim", 0) != 1:
        raise NotFused("the indices are no vector")
    return _taken(trace, x, indices, 0 if axis is None else array_axis(axis, ndim), mode)


def _taken(trace: Trace, x: Any, indices: Any, axis: int, mode: str) -> Any:
    """Record the elements at an array of indices on one axis; those outside are the last, or the first, element."""
    operands = [trace.operand(x), trace.operand(indices)]
    node, where = operands[0][0], operands[1][0]
    if any(queue is None for _, _, queue in operands) or where.dtype.kind not in "iu" or where.dtype == np.uint64:
        raise NotFused("an index is no array of integers", f"use {NAME}.where")
    if axis >= len(node.shape) or not where.shape:
        raise NotFused("the indices do not fit")
    shape = (*node.shape[:axis], *where.shape, *node.shape[axis + 1 :])
    size = node.shape[axis]
    trace.axes_read.append((node, axis))
    if not size or 0 in shape or (len(shape) == 1 and shape[0] > _LONGEST_TAKEN):
        raise NotFused("the indices, or the elements, are none or many")
    place = np.dtype(np.int64)

    def apply(kind: str, *values: Any, dtype: Any = place) -> Node:
        given = [value if isinstance(value, Node) else Number((), place, value) for value in values]
        return Map(where.shape, dtype, kind, tuple(given), place)

    if mode == "wrap" and indices_wrap():
        within = apply("remainder", where, size)
    else:
        within = apply("clip", where, -size if mode == "wrap" else 0, size - 1)
    if mode == "wrap" and not indices_wrap():
        within = apply("where", apply("less", within, 0, dtype=np.dtype(bool)), apply("add", within, size), within)
    return result_array(trace, Take(shape, node.dtype, node, within, axis), operands)


def basic_entries(shape: tuple[int, ...], keys: tuple[Any, ...]) -> list[tuple[int, int, int] | int | None]:
    """Return the entries of basic indexing as `slice_axes` takes them; raises `NotFused` for other indices."""
    entries: list[tuple[int, int, int] | int | None] = []
    if any(isinstance(entry, bool) or not isinstance(entry, slice | int | np.integer | None | EllipsisType)
           for entry in keys):
        raise NotFused("an index is no integer, slice, ellipsis or None", f"use {NAME}.where or {NAME}.take")
    consumed = sum(entry is not None and entry is not Ellipsis for entry in keys)
    missing = len(shape) - consumed
    if missing < 0 or sum(entry is Ellipsis for entry in keys) > 1:
        raise NotFused("there are too many indices")
    sizes = iter(shape)
    for entry in (*keys, Ellipsis) if not any(entry is Ellipsis for entry in keys) else keys:
        if entry is None:
            entries.append(None)
        elif entry is Ellipsis:
            entries += [(0, 1, next(sizes)) for _ in range(missing)]
        elif isinstance(entry, slice):
            size = next(sizes)
            start, stop, step = entry.indices(size)
            length = len(range(start, stop, step))
            entries.append((start if length else 0, step, length))
        else:
            entries.append(array_axis(entry, next(sizes)))
    return entries
