"""What a work-group keeps in memory of its own, and how much that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.nodes import (
    Accumulate,
    Arange,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Map,
    Node,
    Number,
    Parameter,
    Reduce,
    Reshape,
    View,
    operands_of,
    reached,
)
from tl_dpnp.graph.placement import Placement, local_shape
from tl_dpnp.graph.sums import needs_accumulator

__all__ = ["stored_nodes", "temporaries"]


def stored_nodes(placement: Placement, roots: Sequence[Node]) -> list[Node]:
    """Return the nodes that a work-group keeps in memory, operands first; all others are computed where they are used.

    Products and reductions are stored, and what a product or a reshape reads unless that is a view of something stored;
    of element-wise functions, those that would be computed several times.
    """
    stored: set[Node] = set(roots)
    uses: dict[Node, int] = {}
    costs: dict[Node, int] = {}
    order = [node for node in reached(roots, placement.cuts) if node in placement.places]
    for node in order:
        if isinstance(node, Contract | Reduce | Reshape | Assemble | Accumulate | Eliminate):  # a reshape is a view
            stored.add(node)
        for operand in operands_of(node):
            uses[operand] = uses.get(operand, 0) + (1 if operand.size >= node.size else 2)
    for node in order:
        if isinstance(node, Contract | Reshape):
            for operand in operands_of(node):
                base = operand
                while isinstance(base, View) and isinstance(node, Contract):
                    base = base.operand
                if not isinstance(base, Arange | Array | Number | Parameter) and base not in placement.cuts:
                    stored.add(base)
                    if base is not operand and not _readable(operand):
                        stored.add(operand)
    for node in order:
        costs[node] = _inline_cost(node, stored, costs)
        if isinstance(node, Map) and uses.get(node, 0) > 1 and costs[node] > 2:
            stored.add(node)
    return [node for node in order if node in stored]


def _readable(node: Node) -> bool:
    """Return whether a product can read a view as it is: nothing is repeated, reversed or skipped."""
    while isinstance(node, View):
        if any(step != 1 for _, step, out in node.axes if out is not None):
            return False
        kept = {out for _, _, out in node.axes}
        if any(size > 1 and axis not in kept for axis, size in enumerate(node.shape)):
            return False
        node = node.operand
    return True


def _inline_cost(node: Node, stored: set[Node], costs: dict[Node, int]) -> int:
    """Return the cost of one element of a node, with that of all that is not stored below it, as `costs` has it."""
    own = FUNCTIONS[node.kind].cost if isinstance(node, Map) else 0
    return own + sum(costs.get(operand, 0) for operand in operands_of(node) if operand not in stored)


def temporaries(placement: Placement, roots: Sequence[Node]) -> int:
    """Return the bytes of all temporaries of a work-group; those whose lives do not overlap are counted all."""
    shapes = {node: local_shape(node.shape, placement.places[node], placement.grid)
              for node in stored_nodes(placement, roots) if not isinstance(node, Reshape)}
    return sum(math.prod(shape) * node.dtype.itemsize + 64 for node, shape in shapes.items()
               if node not in roots or needs_accumulator(node, shape))
