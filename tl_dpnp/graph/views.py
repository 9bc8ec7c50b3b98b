"""Index maps: transposes, slices, broadcasts and reshapes of nodes, folded into strides where that is possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tl_dpnp.graph.nodes import Arange, Array, AxisMap, Node, Part, Reshape, View, part_dtype
from tl_dpnp.graph.symbols import actual_shape

__all__ = ["broadcast", "broadcasts", "c_strides", "part", "permute", "reshape", "slice_axes", "view"]


def c_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of an array of `shape` in C order."""
    strides, stride = [], 1
    for size in reversed(actual_shape(shape)):
        strides.append(stride)
        stride *= max(size, 1)
    return tuple(reversed(strides))


def view(node: Node, shape: tuple[int, ...], axes: tuple[AxisMap, ...]) -> Node:
    """Return `node` seen through an index map: an `Array` with other strides, or a `View`."""
    match node:
        case Array() | Arange():
            strides, offset = [0] * len(shape), node.offset
            for stride, (start, step, out) in zip(node.strides, axes, strict=True):
                offset += stride * start
                if out is not None:
                    strides[out] += stride * step
            return replace(node, shape=shape, strides=tuple(strides), offset=offset)
        case View(operand=operand, axes=below):
            node, axes = operand, tuple(_compose(inner, axes) for inner in below)
    identity = tuple((0, 1, axis) for axis in range(len(shape)))
    return node if axes == identity and shape == node.shape else View(shape, node.dtype, node, axes)


def _compose(inner: AxisMap, axes: tuple[AxisMap, ...]) -> AxisMap:
    start, step, out = inner
    if out is None:
        return inner
    outer_start, outer_step, outer_out = axes[out]
    return start + step * outer_start, step * outer_step, outer_out


def permute(node: Node, axes: Sequence[int]) -> Node:
    """Return `node` with axis ``axes[i]`` as axis i."""
    places = {axis: place for place, axis in enumerate(axes)}
    return view(node, tuple(node.shape[axis] for axis in axes),
                tuple((0, 1, places[axis]) for axis in range(len(axes))))


def broadcasts(node: Node, shape: tuple[int, ...]) -> bool:
    """Return whether a node can be broadcast to `shape`."""
    try:
        return np.broadcast_shapes(node.shape, shape) == shape
    except ValueError:
        return False


def broadcast(node: Node, shape: tuple[int, ...]) -> Node:
    """Return `node` broadcast to `shape`, which it must be able to."""
    if node.shape == shape:
        return node
    first = len(shape) - len(node.shape)
    return view(node, shape, tuple(
        (0, 0, None) if size == 1 and shape[first + axis] != 1 else (0, 1, first + axis)
        for axis, size in enumerate(node.shape)
    ))


def slice_axes(node: Node, entries: Sequence[tuple[int, int, int] | int | None]) -> Node:
    """Return a basic slice: for each entry an index, (start, step, length), or None for a new axis."""
    shape: list[int] = []
    axes: list[AxisMap] = []
    for entry in entries:
        match entry:
            case None:
                shape.append(1)
            case int():
                axes.append((entry, 0, None))
            case (start, step, length):
                axes.append((start, step, len(shape)))
                shape.append(length)
    return view(node, tuple(shape), tuple(axes))


def part(node: Node, kind: str) -> Node:
    """Return the parts, ``real`` or ``imag``, of complex numbers as a view; views of `node` are those of its parts."""
    dtype = part_dtype(node.dtype)
    match node:
        case Array():
            strides = tuple(2 * stride for stride in node.strides)
            return replace(node, dtype=dtype, strides=strides, offset=2 * node.offset + (kind == "imag"))
        case View():
            return view(part(node.operand, kind), node.shape, node.axes)
        case Reshape():
            return reshape(part(node.operand, kind), node.shape)
    return Part(node.shape, dtype, kind, (node,), node.dtype)


def reshape(node: Node, shape: tuple[int, ...]) -> Node:
    """Return `node` with another shape of the same size, its elements in C order."""
    if shape == node.shape:
        return node
    if isinstance(node, Array | Arange):
        strides = _strides_without_copy(actual_shape(node.shape), node.strides, actual_shape(shape))
        if strides is not None:
            return replace(node, shape=shape, strides=strides)
    kept = [size for size in shape if size != 1]
    if kept == [size for size in node.shape if size != 1]:  # only axes of size 1 come and go
        places = iter([axis for axis, size in enumerate(shape) if size != 1])
        return view(node, shape, tuple((0, 0, None) if size == 1 else (0, 1, next(places)) for size in node.shape))
    return Reshape(shape, node.dtype, node.operand if isinstance(node, Reshape) else node)


def _strides_without_copy(
    old: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Return the strides of a reshaped view, or None where the elements are not evenly spaced."""
    if math.prod(old) == 0:
        return c_strides(new)
    axes = [(size, stride) for size, stride in zip(old, strides, strict=True) if size != 1]
    result: list[int] = []
    sizes = [size for size in new if size != 1]
    while axes and sizes:
        take_old, take_new = [axes.pop(0)], [sizes.pop(0)]
        while (have := math.prod(size for size, _ in take_old)) != (want := math.prod(take_new)):
            if have < want:
                take_old.append(axes.pop(0))
            else:
                take_new.append(sizes.pop(0))
        if any(outer[1] != inner[0] * inner[1] for outer, inner in pairwise(take_old)):
            return None
        result += [take_old[-1][1] * inner for inner in c_strides(take_new)]
    packed = iter(result)
    return tuple(0 if size == 1 else next(packed) for size in new)
