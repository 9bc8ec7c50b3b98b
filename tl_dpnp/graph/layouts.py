"""Which axis of a temporary is the fastest in memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.nodes import Array, Contract, Map, Node, Reduce, Reshape, View, operands_of
from tl_dpnp.graph.sums import VECTOR_BYTES, filled_lanes, has_short_rows, terms_of
from tl_dpnp.target.catalog import FUSION

__all__ = ["preferred_layouts"]

#: Elements from which on an axis fills vectors well enough.
_SHORT = 8


def preferred_layouts(
    stored: Sequence[Node], shapes: Mapping[Node, tuple[int, ...]], roots: Collection[Node]
) -> dict[Node, tuple[int, ...]]:
    """Return the axes, the fastest first, of temporaries that are better not in C order.

    Matrices whose rows do not fill vectors have their columns fastest if products and functions gain more by that than
    it takes to transpose what is read from and written to memory; so have those whose rows are reduced, because vectors
    then run over different results.  `shapes` are those of the parts in a work-group.
    """
    fixed = {node.operand for node in stored if isinstance(node, Reshape)}
    matrices = {
        node: axes for node in stored
        if node not in fixed and not isinstance(node, Reshape)
        and len(axes := tuple(axis for axis in reversed(range(len(node.shape))) if shapes[node][axis] > 1)) == 2
    }
    short = {node for node in matrices if has_short_rows(shapes[node], node.dtype)}
    if _gain(short, shapes, stored) <= _crossings(short, shapes, stored, roots):
        short = set()
    layouts = {node: axes[::-1] for node, axes in matrices.items()
               if node in short or _rows_are_reduced(node, axes, stored)}
    for node in stored:
        if isinstance(node, Contract) and node not in fixed and node not in roots:
            order = _axes_of_product(node, shapes[node])
            if order is not None:
                layouts[node] = order
    return layouts


def _axes_of_product(node: Contract, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the axes of a product with more than rows and columns, the fastest first, if not in C order.

    Where its last axis is short, vectors run over the longest axis of its smaller operand, which is cheap to transpose.
    """
    axes = [axis for axis in reversed(range(len(shape))) if shape[axis] > 1]
    if len(axes) < 3 or shape[axes[0]] >= _SHORT:
        return None
    small, large = sorted(zip(node.operands, node.operand_letters, strict=True), key=lambda pair: pair[0].size)
    own = [axis for axis in axes if node.letters[axis] in small[1] and node.letters[axis] not in large[1]]
    longest = max(own, key=lambda axis: shape[axis], default=axes[0])
    if shape[longest] < 2 * shape[axes[0]]:
        return None
    return (longest, *(axis for axis in axes if axis != longest))


def _gain(short: Collection[Node], shapes: Mapping[Node, tuple[int, ...]], stored: Collection[Node]) -> float:
    """Return the operations of whole vectors that products and functions save, times the lanes of a vector."""
    gain = 0.0
    for node in short:
        columns, rows = (filled_lanes(size, node.dtype) for size in shapes[node] if size > 1)
        if isinstance(node, Contract):
            # Where so many rows fill a vector, columns share it.
            shared = 1.0 if (1 / rows).is_integer() else rows
            loads = FUSION.short_tile if max(shapes[node]) * node.dtype.itemsize <= VECTOR_BYTES else 1.0
            gain += _matrix_size(node) * _depth(node) * (FUSION.short_tile / shared - loads / columns)
        else:
            gain += _matrix_size(node) * _cost(node, stored) * (1 / rows - 1 / columns)
    return gain


def _cost(node: Node, stored: Collection[Node]) -> int:
    """Return the multiply-adds of an element of a function or reduction, with those of what is computed with it."""
    cost, pending, seen, times = 0, [node], {node}, 1
    while pending:
        each = pending.pop()
        if isinstance(each, Map):
            cost += times * FUNCTIONS[each.kind].cost
        elif isinstance(each, Reduce):
            times *= math.prod(each.operand.shape[axis] for axis in each.axes)
            cost += times
        below = [other for other in operands_of(each) if other not in seen and other not in stored]
        pending += below
        seen.update(below)
    return cost


def _depth(node: Contract) -> int:
    """Return how many terms each element of a product is the sum of."""
    return math.prod(size for letter, size in node.sizes.items() if letter not in node.letters)


def _crossings(
    short: Collection[Node], shapes: Mapping[Node, tuple[int, ...]], stored: Collection[Node], roots: Collection[Node]
) -> float:
    """Return the operations of whole vectors that it takes to transpose what is read, arrays and other temporaries, and
    results, times the lanes of a vector.

    The operand of a product that has its rows is loaded by vectors, the other one element by element, in any order.
    Functions read elements across their rows as they are computed.
    """
    total = 0.0
    for node in short:
        total += FUSION.transposing * _matrix_size(node) if node in roots else 0
        if isinstance(node, Contract):
            rows = next(letter for letter, size in zip(node.letters, shapes[node], strict=True) if size > 1)
            read = [(operand, _matrix_size(operand))
                    for operand, letters in zip(node.operands, node.operand_letters, strict=True) if rows in letters]
            each = FUSION.transposing
        else:
            read = [(operand, _matrix_size(node)) for operand in operands_of(node)]
            each = FUSION.collecting if terms_of(node, stored) is None else FUSION.transposing
        total += each * _elements_read(read, short, stored)
    return total


def _elements_read(read: list[tuple[Node, int]], short: Collection[Node], stored: Collection[Node]) -> int:
    """Return how many elements of arrays and of temporaries that are not `short` nodes are computed from, of each of
    which so many elements are read at most.
    """
    total, seen, pending = 0, set(short), list(read)
    while pending:
        node, most = pending.pop()
        if node not in seen:
            seen.add(node)
            most = min(most, _matrix_size(node))
            if isinstance(node, Array) or node in stored:
                total += most
            elif isinstance(node, Map | View):
                pending += [(operand, most) for operand in operands_of(node)]
    return total


def _matrix_size(node: Node) -> int:
    """Return the elements of each matrix of a batch, 0 of what has none."""
    return math.prod(node.shape[-2:]) if len(node.shape) > 1 else 0


def _rows_are_reduced(node: Node, axes: tuple[int, ...], stored: Sequence[Node]) -> bool:
    """Return whether a reduction over the first of `axes`, but not the second, reads the node, if through functions."""
    row, column = axes
    for reduction in stored:
        if (
            isinstance(reduction, Reduce) and row in reduction.axes and column not in reduction.axes
            and reduction.operand.shape == node.shape
        ):
            pending = [reduction.operand]
            while pending:
                below = pending.pop()
                if below is node:
                    return True
                if isinstance(below, Map) and below not in stored:
                    pending += [operand for operand in below.operands if operand.shape == node.shape]
    return False
