"""Which bytes arrays occupy, and which memory views are views of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tl_dpnp.graph.nodes import Array, Node, Part, Reshape, View, operands_of
from tl_dpnp.runtime.array_package import address_of, base_of_addresses, element_strides_of

__all__ = ["base_of", "extent_in", "extent_of", "is_reversed", "location", "reach"]

_VIEWS = (View, Reshape, Part)


def reach(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Return how far the elements of an array lie before its first one, as a number below 0, and behind it."""
    ways = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(way for way in ways if way < 0), sum(way for way in ways if way > 0)


def _span(first: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    low, high = reach(shape, strides)
    return first + low * itemsize, first + (high + 1) * itemsize


def extent_of(array: Any) -> tuple[int, int]:
    """Return the first byte of the content of an array and the one behind its last."""
    return _span(address_of(array), array.shape, element_strides_of(array), array.itemsize)


def extent_in(array: Array, held: Any) -> tuple[int, int]:
    """Return the first byte of a node in memory, `held` or not allocated yet, and the one behind its last."""
    first = base_of_addresses(held) if held is not None else 0
    return _span(first + array.offset * array.dtype.itemsize, array.shape, array.strides, array.dtype.itemsize)


def location(array: Array) -> tuple[Any, ...]:
    """Return where the elements of a node in memory are: equal for nodes that are the same array."""
    return array.slot, array.dtype, array.shape, array.strides, array.offset


def base_of(node: Node) -> Node:
    """Return the node whose memory a node is a view of."""
    while isinstance(node, _VIEWS):
        (node,) = operands_of(node)
    return node


def is_reversed(array: Array) -> bool:
    """Return whether an axis runs backwards in memory; only kernels of element-wise functions write such arrays."""
    return any(stride < 0 and size > 1 for size, stride in zip(array.shape, array.strides, strict=True))
