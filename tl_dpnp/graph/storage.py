"""What a work-group keeps in memory of its own, and how much that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.memrefs import bind_arrays, scalar_type_of
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
from tl_dpnp.graph.placement import Placement, Places, local_shape
from tl_dpnp.graph.sums import needs_accumulator, terms_of
from tl_dpnp.graph.wide_reductions import PARTIAL_RESULTS
from tl_dpnp.lowering.memory import aligned, places_of
from tl_dpnp.scalars import is_lossless

__all__ = ["copies", "staged_arrays", "stored_nodes", "temporaries"]


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


def staged_arrays(placement: Placement) -> list[tuple[Array, Places]]:
    """Return the arrays that an interleaved region transposes before all else: those that have matrices or vectors."""
    if not placement.is_interleaved:
        return []
    return [(array, places) for array, places in placement.leaves
            if 0 in places and math.prod(local_shape(array.shape, places, placement.grid)) > placement.grid[0].chunk]


def temporaries(placement: Placement, roots: Sequence[Node], shared: bool = True) -> int:
    """Return the most bytes of all temporaries of a work-group; those whose lives do not overlap may share memory."""
    in_order = stored_nodes(placement, roots)
    stored = set(in_order)
    copied: dict[Node, list[tuple[int, ...]]] = {}
    for product, _, part in copies(placement, in_order):
        copied.setdefault(product, []).append(part)
    kept = {node for node in stored if not isinstance(node, Contract)}
    order, entered = _in_time(roots, placement)
    last = _last_uses(order, stored)
    lifetimes: list[tuple[int, int, int]] = []
    for position, node in enumerate(order):
        if node not in stored:
            continue
        shape = local_shape(node.shape, placement.places[node], placement.grid)
        size = math.prod(shape) * node.dtype.itemsize
        first = position
        if _may_be_sum(node, shape, kept):  # there is memory for it, and beside that, before its terms are computed
            first = entered[node]
            lifetimes.append((size, first, position))
        if (node not in roots or placement.is_interleaved) and not isinstance(node, Reshape):
            lifetimes.append((size, first, last.get(node, position)))
        lifetimes += [(math.prod(part) * node.dtype.itemsize, position, position) for part in copied.get(node, ())]
        if isinstance(node, Reduce) and math.prod(shape) == 1:
            lifetimes.append((PARTIAL_RESULTS * node.dtype.itemsize, position, position))
    for array, places in staged_arrays(placement):
        size = math.prod(local_shape(array.shape, places, placement.grid)) * array.dtype.itemsize
        lifetimes.append((size, 0, len(order)))
    if not shared:
        return sum(aligned(size) for size, _, _ in lifetimes)
    return max((aligned(place + size) for place, (size, _, _) in zip(places_of(lifetimes), lifetimes, strict=True)),
               default=0)


def _in_time(roots: Sequence[Node], placement: Placement) -> tuple[list[Node], dict[Node, int]]:
    """Return the nodes of a region in the order in which they are written, and when the writing of each begins."""
    order: list[Node] = []
    entered: dict[Node, int] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in entered and node in placement.places and node not in placement.cuts:
            entered[node] = len(order)
            stack.append((node, True))
            stack.extend((operand, False) for operand in reversed(operands_of(node)))
    return order, entered


def _last_uses(order: Sequence[Node], stored: set[Node]) -> dict[Node, int]:
    """Return where each stored node is read last, itself or through nodes that are not stored, or its reshapes."""
    last: dict[Node, int] = {}
    for position in range(len(order) - 1, -1, -1):
        node = order[position]
        read = position if node in stored and not isinstance(node, Reshape) else last.get(node, position)
        for operand in operands_of(node):
            last[operand] = max(last.get(operand, 0), read, position)
    return last


def _may_be_sum(node: Node, shape: tuple[int, ...], kept: set[Node]) -> bool:
    """Return whether the writer may accumulate a node beside its place (`writer._Writer._sums`)."""
    if needs_accumulator(node, shape):
        return True
    terms = terms_of(node, kept) if sum(size > 1 for size in shape) == 2 else None
    return terms is not None and any(isinstance(term.node, Contract) for term in terms)


def copies(placement: Placement, stored: Sequence[Node]) -> list[tuple[Contract, int, tuple[int, ...]]]:
    """Return the operands of products that a work-group copies first: the product, the operand's number and its part.

    They are of another dtype, or lie so that no memref of them is what a product reads.
    """
    found = []
    for node in stored:
        if isinstance(node, Contract):
            of = dict(zip(node.letters, placement.places[node], strict=True))
            for number, (operand, letters) in enumerate(zip(node.operands, node.operand_letters, strict=True)):
                places = tuple(of.get(letter) for letter in letters)
                if not is_lossless(scalar_type_of(operand.dtype), scalar_type_of(node.dtype)) or (
                    not _is_addressable(operand, places, placement)
                ):
                    found.append((node, number, local_shape(operand.shape, places, placement.grid)))
    return found


def _is_addressable(operand: Node, places: Places, placement: Placement) -> bool:
    """Return whether there is a memref of what a work-group reads of an operand of a product."""
    if isinstance(operand, Array):
        bound = bind_arrays([(operand, places)], placement.grid)[0][0]
        shape = local_shape(operand.shape, places, placement.grid)
        axes = {mode.axis for mode in bound.modes if not mode.is_grid and not mode.flipped}
        return not bound.flat and all(axis in axes for axis, size in enumerate(shape) if size > 1)
    base = operand
    while isinstance(base, View):
        base = base.operand
    return base not in placement.cuts or _readable(operand)
