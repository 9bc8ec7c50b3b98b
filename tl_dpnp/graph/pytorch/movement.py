"""Translations of operations that move elements: views, and tensors put together (`tl_dpnp.graph.pytorch.reading`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import fx

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.nodes import Array, Assemble, Map, Node, Position, Reshape, View, number_node
from tl_dpnp.graph.pytorch.reading import Reading, check_numbers, translates
from tl_dpnp.graph.views import broadcast, permute, reshape, slice_axes, view

__all__ = ["reshaped"]


def reshaped(node: Node, shape: tuple[int, ...]) -> Node:
    """Return a node with another shape; what is a view of memory, or of a result, is copied where it has to be."""
    if isinstance(node, Reshape) and node.operand.shape == shape:
        return node.operand
    result = reshape(node, shape)
    if isinstance(result, Reshape) and isinstance(result.operand, Array | View):
        below = result.operand
        return Reshape(shape, node.dtype, Map(below.shape, below.dtype, "positive", (below,), below.dtype))
    return result


def _axis(reading: Reading, axis: Any, ndim: int) -> int:
    place = reading.size(axis)
    return place + ndim if place < 0 else place


@translates("view.default", "_unsafe_view.default", "reshape.default", "squeeze.default", "squeeze.dim", "squeeze.dims",
            "unsqueeze.default", "alias.default", "detach.default", "_reshape_alias.default")
def _reshaped(reading: Reading, result: fx.Node, x: Any, *_rest: Any) -> Node:
    node = reading.array(x)
    if reading.dtype_of(result) != node.dtype:
        raise NotFused("it sees the elements as others")
    return reshaped(node, reading.shape_of(result))


@translates("permute.default")
def _permuted(reading: Reading, result: fx.Node, x: Any, axes: Any) -> Node:
    node = reading.array(x)
    return permute(node, [_axis(reading, axis, len(node.shape)) for axis in axes])


@translates("transpose.int")
def _transposed(reading: Reading, result: fx.Node, x: Any, first: Any, second: Any) -> Node:
    node = reading.array(x)
    axes = list(range(len(node.shape)))
    if axes:
        one, other = (_axis(reading, axis, len(axes)) for axis in (first, second))
        axes[one], axes[other] = axes[other], axes[one]
    return permute(node, axes)


@translates("t.default")
def _turned(reading: Reading, result: fx.Node, x: Any) -> Node:
    node = reading.array(x)
    return permute(node, list(reversed(range(len(node.shape)))))


@translates("expand.default")
def _expanded(reading: Reading, result: fx.Node, x: Any, _sizes: Any, **_named: Any) -> Node:
    return broadcast(reading.array(x), reading.shape_of(result))


@translates("slice.Tensor")
def _sliced(reading: Reading, result: fx.Node, x: Any, axis: Any = 0, start: Any = None, stop: Any = None,
            step: Any = 1) -> Node:
    node = reading.array(x)
    place = _axis(reading, axis, len(node.shape))
    first, end = (None if value is None else reading.size(value) for value in (start, stop))
    first, _, distance = slice(first, end, reading.size(step)).indices(node.shape[place])
    length = reading.shape_of(result)[place]
    return slice_axes(node, [(first, distance, length) if other == place else (0, 1, size)
                             for other, size in enumerate(node.shape)])


@translates("select.int")
def _selected(reading: Reading, result: fx.Node, x: Any, axis: Any, index: Any) -> Node:
    node = reading.array(x)
    place = _axis(reading, axis, len(node.shape))
    at = _axis(reading, index, node.shape[place])
    return slice_axes(node, [at if other == place else (0, 1, size) for other, size in enumerate(node.shape)])


@translates("diagonal.default")
def _diagonal(reading: Reading, result: fx.Node, x: Any, offset: Any = 0, dim1: Any = 0, dim2: Any = 1) -> Node:
    node = reading.array(x)
    ndim, distance = len(node.shape), reading.size(offset)
    row, column = (_axis(reading, axis, ndim) for axis in (dim1, dim2))
    starts = {row: max(-distance, 0), column: max(distance, 0)}
    others = [axis for axis in range(ndim) if axis not in starts]
    return view(node, reading.shape_of(result), tuple(
        (starts[axis], 1, ndim - 2) if axis in starts else (0, 1, others.index(axis)) for axis in range(ndim)))


@translates("flip.default")
def _flipped(reading: Reading, result: fx.Node, x: Any, axes: Any) -> Node:
    """Translate a copy in another order: PyTorch has no negative strides."""
    node = reading.array(x)
    places = {_axis(reading, axis, len(node.shape)) for axis in axes}
    seen = slice_axes(node, [(size - 1, -1, size) if place in places else (0, 1, size)
                             for place, size in enumerate(node.shape)])
    return Map(seen.shape, seen.dtype, "positive", (seen,), seen.dtype)


@translates("split.Tensor", "split_with_sizes.default", "unbind.int")
def _parts(reading: Reading, result: fx.Node, x: Any, sizes: Any = 0, axis: Any = 0) -> list[Node]:
    node = reading.array(x)
    unbound = "unbind" in str(result.target)
    place = _axis(reading, sizes if unbound else axis, len(node.shape))
    parts: list[Node] = []
    start = 0
    for value in result.meta["val"]:
        length = 1 if unbound else reading.sizes(value.shape)[place]
        entry: Any = start if unbound else (start, 1, length)
        if length == 0:
            raise NotFused("a part has no elements")
        parts.append(slice_axes(node, [entry if other == place else (0, 1, size)
                                       for other, size in enumerate(node.shape)]))
        start += length
    return parts


@translates("cat.default")
def _joined(reading: Reading, result: fx.Node, tensors: Any, axis: Any = 0) -> Node:
    dtype, shape = reading.dtype_of(result), reading.shape_of(result)
    place = _axis(reading, axis, len(shape))
    nodes = [reading.array(tensor) for tensor in tensors if reading.shape_of(tensor) != (0,)]
    positions: list[Position] = []
    end = 0
    for node in nodes:
        positions.append(tuple((end if other == place else 0, 1) for other in range(len(shape))))
        end += node.shape[place]
    return _assembled(nodes, positions, shape, dtype)


@translates("constant_pad_nd.default")
def _padded(reading: Reading, result: fx.Node, x: Any, widths: Any, value: Any = 0) -> Node:
    """Translate padding: the elements lie over a constant."""
    node, dtype, shape = reading.array(x), reading.dtype_of(result), reading.shape_of(result)
    amounts = reading.sizes(widths)
    if min(amounts, default=0) < 0:
        raise NotFused("a negative width cuts off")
    before = [amounts[2 * (len(shape) - 1 - axis)] if 2 * (len(shape) - 1 - axis) < len(amounts) else 0
              for axis in range(len(shape))]
    filling = number_node(value)
    check_numbers([filling], dtype)
    around = Map(shape, dtype, "astype", (filling,), dtype)
    positions = [tuple((0, 1) for _ in shape), tuple((start, 1) for start in before)]
    return _assembled([around, node], positions, shape, dtype)


def _assembled(
    nodes: Sequence[Node], positions: Sequence[Position], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Node:
    if len(nodes) == 1:
        return Map(shape, dtype, "astype", (nodes[0],), dtype)
    return Assemble(shape, dtype, tuple(nodes), tuple(positions))
