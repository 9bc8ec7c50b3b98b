"""Which parts of a graph become one kernel.

From the results backwards, a region takes in all that can be computed per work-group.  For a region the grid is chosen
so that every product keeps two sides and all temporaries of a work-group fit in local memory; the more work-groups
the better, as long as each has a product of matrices and not of vectors to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.nodes import (
    Array,
    Contract,
    Map,
    Node,
    Number,
    Parameter,
    Reduce,
    Reshape,
    View,
    operands_of,
    topological,
)
from tl_dpnp.graph.placement import GridAxis, Placement, Places, front_places, local_shape, place
from tl_dpnp.graph.sums import needs_accumulator
from tl_dpnp.graph.views import reshape, view

__all__ = ["Region", "flops_of", "partition", "stored_nodes", "substitute"]

#: Elements of results that a single work-group may compute beside others.
_SMALL = 2048
#: Multiply-adds that may be computed again in each work-group rather than once in a kernel before.
_CHEAP = 4096


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the graph that becomes one kernel.

    `roots` are what it computes and `outputs` the arrays that they are written to; `inputs` are the arrays that other
    regions compute for it, `reasons` why it does not compute them itself.
    """

    roots: tuple[Node, ...]
    placement: Placement
    outputs: tuple[Array, ...]
    inputs: tuple[Array, ...]
    reasons: tuple[str, ...]

    @property
    def groups(self) -> int:
        """The number of work-groups."""
        return self.placement.groups


def flops_of(node: Node) -> int:
    """Return the cost of computing one node from its operands, in multiply-adds."""
    match node:
        case Contract():
            sizes = {letter: size for operand, letters in zip(node.operands, node.operand_letters, strict=True)
                     for letter, size in zip(letters, operand.shape, strict=True)}
            return math.prod(sizes.values())
        case Reduce():
            return node.operand.size
        case Map():
            return node.size * FUNCTIONS[node.kind].cost
    return 0


def partition(
    roots: Mapping[Node, Array], new_array: Callable[[Node], Array], local_memory: int,
    renamed: Callable[[Node, Node], None] = lambda old, new: None,
) -> list[Region]:
    """Return the regions that compute `roots`, in an order in which they can run.

    `roots` maps each result to the array that it is written to.  What one region needs of another becomes a result of
    that, in an array that `new_array` gives.  `renamed` is told of nodes that are replaced because what they read is in
    memory.
    """
    arrays = dict(roots)
    try:
        return _in_order(_regions(arrays, new_array, local_memory, renamed, siblings=True))
    except _Cycle:
        return _in_order(_regions(dict(roots), new_array, local_memory, renamed, siblings=False))


def _regions(
    arrays: dict[Node, Array], new_array: Callable[[Node], Array], local_memory: int,
    renamed: Callable[[Node, Node], None], siblings: bool,
) -> list[Region]:
    """Return the regions for all nodes of `arrays`; what they need of one another is added to it."""
    regions: list[Region] = []
    pending = list(arrays)
    while pending:
        order = {node: position for position, node in enumerate(topological(tuple(pending)))}
        last = max(pending, key=order.__getitem__)
        pending.remove(last)
        placement = _placed(last, local_memory)
        roots = [last]
        if siblings:
            placement, roots = _with_siblings(placement, roots, pending, local_memory)
        pending = [node for node in pending if node not in roots]
        cuts = dict(placement.cuts)
        cuts |= {node: "it is a result itself" for node in pending if node in placement.places}
        for cut in cuts:
            if cut not in arrays:
                arrays[cut] = new_array(cut)
                pending.append(cut)
        known = {cut: arrays[cut] for cut in cuts}
        rewritten = tuple(substitute(root, known, renamed) for root in roots)
        regions.append(Region(
            rewritten, place(rewritten, placement.grid), tuple(arrays[root] for root in roots),
            tuple(known.values()), tuple(cuts.values()),
        ))
    return regions


def _with_siblings(
    placement: Placement, roots: list[Node], pending: list[Node], local_memory: int
) -> tuple[Placement, list[Node]]:
    """Take in further results with the same grid: what the region computes anyway, and what stands beside it."""
    elementwise = _is_elementwise(roots[0])
    for node in pending:
        grid = placement.grid
        if [axis.size for axis in grid] != list(node.shape[: len(grid)]):
            continue
        if elementwise != _is_elementwise(node) or (elementwise and node.shape != roots[0].shape):
            continue
        inside = placement.places.get(node)
        if inside is not None and inside != front_places(node, grid):
            continue
        if inside is None:
            below = set(topological((node,)))
            small = bool(grid) or max(node.size, *(root.size for root in roots)) <= _SMALL
            if not small or below.intersection(roots) or any(node in set(topological((c,))) for c in placement.cuts):
                continue
        more = _legal(place([*roots, node], grid, placement.cuts), [*roots, node])
        if set(more.cuts) <= set(placement.cuts) and _temporaries(more, [*roots, node]) <= local_memory:
            placement, roots = more, [*roots, node]
    return placement, roots


def _is_elementwise(root: Node) -> bool:
    """Return whether a result needs nothing but element-wise functions of arrays."""
    return not any(isinstance(node, Contract | Reduce | Reshape) for node in topological((root,)))


class _Cycle(Exception):
    """Two regions need each other."""


def _in_order(regions: list[Region]) -> list[Region]:
    """Sort regions so that each comes after those that compute its inputs; raises `_Cycle`."""
    owner = {array: region for region in regions for array in region.outputs}
    result: list[Region] = []
    open_: list[Region] = []

    def visit(region: Region) -> None:
        if region in result:
            return
        if region in open_:
            raise _Cycle
        open_.append(region)
        for array in region.inputs:
            visit(owner[array])
        open_.pop()
        result.append(region)

    for region in reversed(regions):
        visit(region)
    return result


def substitute(
    node: Node, arrays: Mapping[Node, Array], renamed: Callable[[Node, Node], None] = lambda old, new: None
) -> Node:
    """Return `node` with the nodes in `arrays` read from memory; views of them are folded into strides."""
    memo: dict[Node, Node] = dict(arrays)
    for current in topological((node,)):
        if current in memo:
            continue
        operands = tuple(memo[operand] for operand in operands_of(current))
        if all(new is old for new, old in zip(operands, operands_of(current), strict=True)):
            memo[current] = current
            continue
        match current:
            case Map():
                memo[current] = replace(current, operands=operands)
            case Contract():
                memo[current] = replace(current, operands=(operands[0], operands[1]))
            case View():
                memo[current] = view(operands[0], current.shape, current.axes)
            case Reshape():
                memo[current] = reshape(operands[0], current.shape)
            case Reduce():
                memo[current] = replace(current, operand=operands[0])
        renamed(current, memo[current])
    return memo[node]


def _placed(root: Node, local_memory: int) -> Placement:
    """Return the best placement for one result."""
    best: tuple[float, Placement] | None = None
    for grid in _grids(root):
        placement = _legal(place([root], grid), [root])
        if root in placement.cuts:
            continue
        placement = _fitted(placement, root, local_memory)
        cost = sum(_cut_cost(cut) for cut in placement.cuts)
        if best is None or cost < best[0]:
            best = cost, placement
        if cost == 0:
            break
    assert best is not None, "without a grid everything can be placed"
    return best[1]


def _cut_cost(node: Node) -> float:
    """Return what it costs to keep a node in memory: a launch, and a write and a read of each element."""
    return 1000 + 2 * node.size


def _grids(root: Node) -> list[tuple[GridAxis, ...]]:
    """Return the grids to try for a result, the likeliest first; the last one has no grid axis."""
    if _is_elementwise(root):
        return [()]  # kernels of element-wise functions spread their loops themselves
    ndim = len(root.shape)
    likely = [ndim - 2] if ndim > 2 else [1] if ndim == 2 else []
    depths = dict.fromkeys([*likely, ndim - 1, *range(ndim - 2, 0, -1), ndim])
    whole = [tuple(GridAxis(size) for size in root.shape[:depth]) for depth in depths if depth > 0]
    chunks = _row_grid(root)
    return [*chunks, *whole, ()] if ndim == 1 else [*whole, *chunks, ()]


def _row_grid(root: Node) -> list[tuple[GridAxis, ...]]:
    """Return the grid that cuts the rows of a tall matrix, or the elements of a vector, into chunks."""
    if not 1 <= len(root.shape) <= 2 or root.shape[0] < 256:
        return []
    chunks = [c for c in _divisors(root.shape[0]) if 8 <= c <= 128]
    return [(GridAxis(root.shape[0], max(chunks)),)] if chunks else []


def _divisors(size: int) -> list[int]:
    return [c for c in range(1, min(size, 2048) + 1) if size % c == 0]


def _legal(placement: Placement, roots: Sequence[Node]) -> Placement:
    """Add the cuts that costs and the shape of products ask for, and drop what is then not reached."""
    grid = placement.grid
    cuts = dict(placement.cuts)
    for node, places in placement.places.items():
        if node in cuts:
            continue
        if isinstance(node, Contract) and not _keeps_sides(node, places, grid):
            # The product would be one of vectors in each work-group.
            cuts[node] = "its product needs whole matrices in a work-group"
        elif node not in roots:
            used = {axis for axis in places if axis is not None}
            again = math.prod(axis.groups for number, axis in enumerate(grid) if number not in used)
            if again > 1 and flops_of(node) > _CHEAP and isinstance(node, Contract | Reduce):
                cuts[node] = "it is the same for many work-groups"
    return placement if len(cuts) == len(placement.cuts) else place(roots, grid, cuts)


def _keeps_sides(node: Contract, places: Places, grid: tuple[GridAxis, ...]) -> bool:
    """Return whether both operands keep an axis of their own, if they had one, when the grid axes are gone."""
    gone = {letter for letter, axis in zip(node.letters, places, strict=True)
            if axis is not None and grid[axis].chunk == 1}
    for operand, mine, other in zip(node.operands, node.operand_letters, reversed(node.operand_letters), strict=True):
        own = [letter for letter, size in zip(mine, operand.shape, strict=True)
               if letter in node.letters and letter not in other and size > 1]
        if own and all(letter in gone for letter in own):
            return False
    return True


def stored_nodes(placement: Placement, roots: Sequence[Node]) -> list[Node]:
    """Return the nodes that a work-group keeps in memory, operands first; all others are computed where they are used.

    Products and reductions are stored, and what a product or a reshape reads unless that is a view of something stored;
    of element-wise functions, those that would be computed several times.
    """
    stored: set[Node] = set(roots)
    uses: dict[Node, int] = {}
    order = [node for node in topological(tuple(roots)) if node in placement.places and node not in placement.cuts]
    for node in order:
        if isinstance(node, Contract | Reduce | Reshape):  # a reshape is its operand's memory
            stored.add(node)
        for operand in operands_of(node):
            uses[operand] = uses.get(operand, 0) + (1 if operand.size >= node.size else 2)
    for node in order:
        if isinstance(node, Contract | Reshape):
            for operand in operands_of(node):
                base = operand
                while isinstance(base, View) and isinstance(node, Contract):
                    base = base.operand
                if not isinstance(base, Array | Number | Parameter) and base not in placement.cuts:
                    stored.add(base)
                    if base is not operand and not _readable(operand):
                        stored.add(operand)
        if isinstance(node, Map) and uses.get(node, 0) > 1 and _inline_cost(node, stored) > 2:
            stored.add(node)
    return [node for node in order if node in stored]


def _readable(node: Node) -> bool:
    """Return whether a product can read a view as it is: nothing is repeated, reversed or skipped."""
    while isinstance(node, View):
        if any(step != 1 for _, step, out in node.axes if out is not None):
            return False
        reached = {out for _, _, out in node.axes}
        if any(size > 1 and axis not in reached for axis, size in enumerate(node.shape)):
            return False
        node = node.operand
    return True


def _inline_cost(node: Node, stored: set[Node]) -> int:
    """Return the cost of one element of a node, with that of all that is not stored below it."""
    own = FUNCTIONS[node.kind].cost if isinstance(node, Map) else 0
    return own + sum(_inline_cost(operand, stored) for operand in operands_of(node) if operand not in stored)


def _temporaries(placement: Placement, roots: Sequence[Node]) -> int:
    """Return the bytes of all temporaries of a work-group; those whose lives do not overlap are counted all."""
    shapes = {node: local_shape(node.shape, placement.places[node], placement.grid)
              for node in stored_nodes(placement, roots) if not isinstance(node, Reshape)}
    return sum(math.prod(shape) * node.dtype.itemsize + 64 for node, shape in shapes.items()
               if node not in roots or needs_accumulator(node, shape))


def _fitted(placement: Placement, root: Node, local_memory: int) -> Placement:
    """Return the placement with temporaries that fit: the next axis in chunks, or temporaries kept in memory."""
    grid = placement.grid
    if _temporaries(placement, [root]) <= local_memory:
        return placement
    if len(grid) < len(root.shape) and all(axis.chunk == 1 for axis in grid):
        size = root.shape[len(grid)]
        for chunk in (c for c in reversed(_divisors(size)) if 4 <= c < size):
            cut = (*grid, GridAxis(size, chunk))
            smaller = _legal(place([root], cut), [root])
            if set(smaller.cuts) <= set(placement.cuts) and _temporaries(smaller, [root]) <= local_memory:
                return smaller
    while _temporaries(placement, [root]) > local_memory:
        largest = max((node for node in stored_nodes(placement, [root])
                       if node is not root and not isinstance(node, Reshape)), key=lambda n: n.size)
        cuts = {**placement.cuts, largest: "it does not fit in local memory"}
        placement = _legal(place([root], grid, cuts), [root])
    return placement
