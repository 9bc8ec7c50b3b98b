"""Sizes that a kernel is given at each launch, as part of the shapes of nodes.

A graph is planned for the sizes of one call.  Where some of them are `DynamicSize`, what is decided by them holds for
all sizes up to the room of the kernel, and the kernel reads the size itself from an argument of type index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tl_dpnp.graph.nodes import (
    Accumulate,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Given,
    Map,
    Node,
    Number,
    Reduce,
    Reshape,
    Take,
    View,
    operands_of,
    reached,
)
from tl_dpnp.language.constants import LARGEST_INTEGER

__all__ = [
    "UNLIMITED", "DynamicSize", "DynamicStride", "PartSize", "actual", "actual_shape", "has_dynamic_sizes",
    "is_dynamic", "rebuilt", "room_for", "with_actual_sizes",
]

#: Elements of an axis that a kernel may have room for in temporaries.  Each step is compiled once; what is longer than
#: the last one but unlimited is kept in global memory, because no temporary of it fits in local memory.
_ROOMS = (32, 64, 128, 512)
UNLIMITED = 1 << 24


class DynamicSize(int):
    """The size of an axis that a kernel is given: `actual` in this call.

    As a number it is the most elements that the kernel has room for.  Two are equal if they are the same `symbol`; none
    is equal to a number, so that nothing can be concluded from sizes that happen to be equal.
    """

    symbol: int
    actual: int

    def __new__(cls, room: int, symbol: int, actual: int) -> DynamicSize:
        """Return the size with a symbol."""
        if not 1 < actual <= room:
            raise ValueError(f"a dynamic size is from 2 to {room}, not {actual}")
        self = super().__new__(cls, room)
        self.symbol, self.actual = symbol, actual
        return self

    def _facts(self) -> tuple[int, ...]:
        return int(self), self.symbol, self.actual

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DynamicSize) and self._facts() == other._facts()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._facts())

    def __repr__(self) -> str:
        return f"n{self.symbol}={self.actual}"


class PartSize(DynamicSize):
    """The part of a size that a work-group does: `room` elements, and what is left over in the last one.

    The kernel is given the `whole`, dynamic or not.
    """

    whole: int

    def __new__(cls, room: int, whole: int) -> PartSize:
        """Return the size of the parts of `whole`."""
        symbol = whole.symbol if isinstance(whole, DynamicSize) else 0
        self = super().__new__(cls, room, -1 - symbol, min(room, actual(whole)))
        assert isinstance(self, PartSize)
        self.whole = whole
        return self

    def _facts(self) -> tuple[int, ...]:
        return int(self), self.whole


class DynamicStride(int):
    """A stride that a kernel is given."""

    __slots__ = ()


def room_for(size: int) -> int:
    """Return the room of a kernel for an axis."""
    return next((room for room in _ROOMS if size <= room), UNLIMITED)


def is_dynamic(size: int) -> bool:
    """Return whether a kernel is given a size."""
    return isinstance(size, DynamicSize)


def has_dynamic_sizes(node: Node) -> bool:
    """Return whether a kernel is given a size or a stride of a node."""
    strides = node.strides if isinstance(node, Array) else ()
    return any(isinstance(size, DynamicSize | DynamicStride) for size in (*node.shape, *strides))


def actual(size: int) -> int:
    """Return a size in this call."""
    return size.actual if isinstance(size, DynamicSize) else size


def actual_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape in this call."""
    return tuple(map(actual, shape))


def rebuilt(
    roots: Sequence[Node], shape: Callable[[Node], tuple[int, ...]], strides: Callable[[Array], tuple[int, ...]],
    given: Mapping[Node, Given] | None = None, renamed: Callable[[Node, Node], None] = lambda old, new: None,
) -> dict[Node, Node]:
    """Return, for each node that `roots` need, the same node with another shape.

    Numbers that are `given` are replaced where element-wise functions read them.
    """
    memo: dict[Node, Node] = {}
    for node in reached(roots, ()):
        operands = tuple(memo[operand] for operand in operands_of(node))
        changes: dict[str, Any] = {} if isinstance(node, Number) else {"shape": shape(node)}
        match node:
            case Array():
                changes["strides"] = strides(node)
            case Map(compute=compute) if given:
                changes["operands"] = tuple(
                    given[old] if old in given and may_be_given(old, compute) else new
                    for old, new in zip(node.operands, operands, strict=True))
            case Map() | Assemble() | Eliminate() | Contract():
                changes["operands"] = operands
            case Reduce() | Accumulate() | View() | Reshape():
                changes["operand"] = operands[0]
            case Take():
                changes["operand"], changes["indices"] = operands
        same = all(_is_same(getattr(node, name), value) for name, value in changes.items())
        memo[node] = node if same else replace(node, **changes)
        renamed(node, memo[node])
    return memo


def _is_same(old: Any, new: Any) -> bool:
    """Return whether a part of a node stays as it is: nodes by identity, shapes with their dynamic sizes."""
    if isinstance(old, tuple):
        return len(old) == len(new) and all(map(_is_same, old, new))
    return old is new or (type(old) is type(new) and old == new)


def may_be_given(number: Node, compute: Any) -> bool:
    """Return whether a kernel that computes in a dtype may be given a constant, with the same effect."""
    value = number.value if isinstance(number, Number) else None
    if compute.kind == "f":
        return type(value) in (int, float)
    if compute.kind not in "iu" or not isinstance(value, int) or isinstance(value, bool):
        return False
    return bool(np.iinfo(compute).min <= value <= min(np.iinfo(compute).max, LARGEST_INTEGER))


def with_actual_sizes(roots: Collection[Node]) -> dict[Node, Node]:
    """Return, for each node that `roots` need, the same node with the sizes of this call."""
    return rebuilt(tuple(roots), lambda node: actual_shape(node.shape), lambda array: tuple(map(int, array.strides)))
