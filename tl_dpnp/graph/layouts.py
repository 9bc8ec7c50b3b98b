"""Which axis of a temporary is the fastest in memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from tl_dpnp.graph.nodes import Array, Contract, Map, Node, Reduce, Reshape, View, operands_of
from tl_dpnp.graph.sums import filled_lanes, has_short_rows

__all__ = ["preferred_layouts"]

#: Operations of whole vectors that it takes to transpose as many elements as a vector has lanes, and how much longer a
#: multiply-add takes in a tile that is one vector high, for which most operands are loaded.  Measured on a Xeon of the
#: Sapphire Rapids class with one to six products of f32, with rows of 4 to 23 elements and columns of 20 to 125.
_TRANSPOSING, _LOADS = 10, 1.75


def preferred_layouts(
    stored: Sequence[Node], shapes: Mapping[Node, tuple[int, ...]], roots: Collection[Node]
) -> dict[Node, tuple[int, ...]]:
    """Return the axes, the fastest first, of temporaries that are better not in C order.

    Matrices whose rows do not fill vectors have their columns fastest if products gain more by that than it takes to
    transpose what is read from and written to memory; so have those whose rows are reduced, because vectors then run
    over different results.  `shapes` are those of the parts in a work-group.
    """
    fixed = {node.operand for node in stored if isinstance(node, Reshape)}
    matrices = {
        node: axes for node in stored
        if node not in fixed and not isinstance(node, Reshape)
        and len(axes := tuple(axis for axis in reversed(range(len(node.shape))) if shapes[node][axis] > 1)) == 2
    }
    short = {node for node in matrices if has_short_rows(shapes[node], node.dtype)}
    if _gain(short, shapes) <= _TRANSPOSING * _crossings(short, shapes, stored, roots):
        short = set()
    return {node: axes[::-1] for node, axes in matrices.items()
            if node in short or _rows_are_reduced(node, axes, stored)}


def _gain(short: Collection[Node], shapes: Mapping[Node, tuple[int, ...]]) -> float:
    """Return the operations of whole vectors that products save, times the lanes of a vector."""
    gain = 0.0
    for node in short:
        if isinstance(node, Contract):
            columns, rows = (filled_lanes(size, node.dtype) for size in shapes[node] if size > 1)
            gain += _matrix_size(node) * _depth(node) * (_LOADS / rows - 1 / columns)
    return gain


def _depth(node: Contract) -> int:
    """Return how many terms each element of a product is the sum of."""
    sizes = zip(node.operand_letters[0], node.operands[0].shape, strict=True)
    return math.prod(size for letter, size in sizes if letter not in node.letters)


def _crossings(
    short: Collection[Node], shapes: Mapping[Node, tuple[int, ...]], stored: Collection[Node], roots: Collection[Node]
) -> int:
    """Return how many elements would be transposed: of what is read, arrays and other temporaries, and of results.

    The operand of a product that has its rows is loaded by vectors, the other one element by element, in any order.
    """
    crossings = 0
    for node in short:
        crossings += _matrix_size(node) if node in roots else 0
        pending = list(operands_of(node))
        if isinstance(node, Contract):
            slow = next(letter for letter, size in zip(node.letters, shapes[node], strict=True) if size > 1)
            pending = [operand for operand, letters in zip(node.operands, node.operand_letters, strict=True)
                       if slow in letters]
        seen = set(short)
        while pending:
            operand = pending.pop()
            if operand not in seen:
                seen.add(operand)
                if isinstance(operand, Map | View) and operand not in stored:
                    pending += operands_of(operand)
                elif isinstance(operand, Array) or operand in stored:
                    crossings += _matrix_size(operand)
    return crossings


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
