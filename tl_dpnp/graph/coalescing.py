"""Reductions over axes that lie one after another in memory as reductions over one axis.

Rows of several axes become long rows, which fill vectors, and so do rows of results: ``x.sum(0)`` of ``n × 100 × 2``
numbers adds up rows of 200.  What is computed element by element is coalesced with the arrays that it is computed from,
unless something else needs it too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from tl_dpnp.graph.nodes import Arange, Array, Map, Node, Part, Reduce, operands_of, topological
from tl_dpnp.graph.partition import substitute
from tl_dpnp.graph.views import part, permute, slice_axes

__all__ = ["coalesced", "with_fewer_summed_axes"]


#: Who needs the results, beside other nodes.
_THE_CALL = Node((), np.dtype("b1"))
#: Nodes with one axis for two, by the first of these.
Joined = dict[tuple[Node, int], Node | None]


def coalesced(
    roots: Mapping[Node, Array], renamed: Callable[[Node, Node], None] = lambda old, new: None
) -> dict[Node, Array]:
    """Return `roots`, each with the array that it is written to, with reductions over as few axes as can be.

    The axes of results are coalesced as well where nothing but their array has them.
    """
    nodes = topological(tuple(roots))
    if not any(isinstance(node, Reduce) for node in nodes):
        return dict(roots)
    users: dict[Node, set[Node]] = {node: set() for node in nodes}
    for node in roots:
        users[node].add(_THE_CALL)
    for node in nodes:
        for operand in operands_of(node):
            users[operand].add(node)
    memo: dict[Node, Node] = {}
    arrays: dict[Node, Array] = {}
    for node in nodes:
        made = substitute(node, memo, renamed)
        array = roots.get(node)
        if isinstance(made, Reduce):
            made = with_fewer_summed_axes(made, {memo[each] for each in _own(node, users, Map)})
        if array is not None and users[node] == {_THE_CALL} and isinstance(made, Map | Reduce):
            memo[node] = made
            own = {memo[each] for each in _own(node, users, (Map, Reduce))}
            if any(isinstance(each, Reduce) for each in own):
                made, array = _with_fewer_axes(made, array, own)
        if made is not memo[node]:
            renamed(memo[node], made)
            memo[node] = made
        if array is not None:
            arrays[made] = array
    return arrays


def _own(node: Node, users: Mapping[Node, Collection[Node]], kinds: type | tuple[type, ...]) -> set[Node]:
    """Return a node and those of some kinds that nothing but it needs."""
    own = {node}
    waiting = list(operands_of(node))
    while waiting:
        each = waiting.pop()
        if isinstance(each, kinds) and each not in own and own.issuperset(users[each]):
            own.add(each)
            waiting += operands_of(each)
    return own


def _in_order_of_memory(node: Reduce) -> Reduce:
    """Return the reduction of an array with its axes in the order of its memory, where the result has them so."""
    array = node.operand
    if not isinstance(array, Array) or 0 in array.strides:
        return node
    order = sorted(range(len(array.shape)), key=lambda axis: -abs(array.strides[axis]))
    kept = [axis for axis in order if axis not in node.axes]
    if kept != sorted(kept) or order == sorted(order):
        return node
    axes = tuple(place for place, axis in enumerate(order) if axis in node.axes)
    return replace(node, operand=permute(array, order), axes=axes)


def with_fewer_summed_axes(node: Reduce, own: set[Node]) -> Reduce:
    """Return a reduction over fewer axes, for which its `own` element-wise functions may be written anew.

    Arrays are read in the order of their memory.
    """
    node = _in_order_of_memory(node)
    for axis in reversed(range(len(node.operand.shape) - 1)):
        joined: Joined = {}
        operand = _joined(node.operand, axis, own, joined) if {axis, axis + 1}.issubset(node.axes) else None
        if operand is not None:
            own.update(filter(None, joined.values()))
            axes = tuple(each - (each > axis) for each in node.axes if each != axis + 1)
            node = replace(node, operand=operand, axes=axes)
    return node


def _with_fewer_axes(node: Node, array: Array, own: set[Node]) -> tuple[Node, Array]:
    """Return a result of fewer axes, and the array that it is written to."""
    for axis in reversed(range(len(node.shape) - 1)):
        joined: Joined = {}
        made, written = (_joined(each, axis, own, joined) for each in (node, array))
        if made is not None and isinstance(written, Array):
            own.update(filter(None, joined.values()))
            node, array = made, written
    return node, array


def _joined(node: Node, axis: int, own: Collection[Node], memo: Joined) -> Node | None:
    """Return a node with one axis for two, the first of which is given; None if that is not to be had."""
    if (node, axis) not in memo:
        memo[node, axis] = _one_axis_for_two(node, axis, own, memo)
    return memo[node, axis]


def _one_axis_for_two(node: Node, axis: int, own: Collection[Node], memo: Joined) -> Node | None:
    first, second = node.shape[axis : axis + 2]
    shape = *node.shape[:axis], first * second, *node.shape[axis + 2 :]
    if type(first) is not int or type(second) is not int:  # a kernel is given the size
        return None
    if isinstance(node, Array | Arange):
        outer, inner = node.strides[axis : axis + 2]
        if first != 1 and second != 1 and outer != second * inner:
            return None
        strides = *node.strides[:axis], outer if second == 1 else inner, *node.strides[axis + 2 :]
        return replace(node, shape=shape, strides=strides)
    if isinstance(node, Map) and node in own:
        operands = [_operand(each, axis - len(node.shape) + len(each.shape), node.shape[axis : axis + 2], own, memo)
                    for each in node.operands]
        if any(each is None for each in operands):
            return None
        known = tuple(each for each in operands if each is not None)
        return part(known[0], node.kind) if isinstance(node, Part) else replace(node, shape=shape, operands=known)
    if isinstance(node, Reduce) and node in own:
        place, other = [each for each in range(len(node.operand.shape)) if each not in node.axes][axis : axis + 2]
        operand = _joined(node.operand, place, own, memo) if other == place + 1 else None
        axes = tuple(each - (each > place) for each in node.axes)
        return None if operand is None else replace(node, shape=shape, operand=operand, axes=axes)
    return _without_axis(node, axis) if first == second == 1 else None


def _operand(
    node: Node, axis: int, sizes: tuple[int, ...], own: Collection[Node], memo: Joined
) -> Node | None:
    """Return an operand of an element-wise function whose two axes of these sizes become one; it may be broadcast."""
    if axis < -1:
        return node
    if axis == -1:
        return node if node.shape[0] == 1 or sizes[0] == 1 else None
    if node.shape[axis : axis + 2] == sizes:
        return _joined(node, axis, own, memo)
    return _without_axis(node, axis) if node.shape[axis : axis + 2] == (1, 1) else None


def _without_axis(node: Node, axis: int) -> Node:
    """Return a view without an axis of size 1."""
    entries: list[tuple[int, int, int] | int | None] = [(0, 1, size) for size in node.shape]
    return slice_axes(node, [*entries[:axis], 0, *entries[axis + 1 :]])
