"""Which grid a region gets: the axes of its results that are spread over work-groups.

A grid is good if little has to be kept in memory for it, if every product keeps two sides, and if all temporaries of a
work-group fit in local memory; the more work-groups the better, as long as each has a product of matrices and not of
vectors to do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.interleaving import can_be_interleaved, interleaved_axis, is_better_interleaved
from tl_dpnp.graph.nodes import (
    NOT_ELEMENTWISE,
    Accumulate,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Map,
    Node,
    Reduce,
    Reshape,
    Take,
    View,
    reached,
)
from tl_dpnp.graph.placement import GridAxis, Placement, Places, place
from tl_dpnp.graph.storage import copies, stored_nodes, temporaries
from tl_dpnp.graph.symbols import is_dynamic
from tl_dpnp.graph.wide_reductions import LEAST_ELEMENTS
from tl_dpnp.graph.work_groups import WorkGroups

__all__ = ["LargeCopy", "common_placement", "flops_of", "is_elementwise", "placement_of"]


class LargeCopy(Exception):
    """A product has to copy an operand first, which does not fit in local memory: the operand's number."""

    def __init__(self, product: Contract, number: int) -> None:
        super().__init__(product, number)
        self.product, self.number = product, number


Grid = tuple[GridAxis, ...]

#: Elements of results that a single work-group may compute beside others.
_SMALL = 2048
#: Multiply-adds that may be computed again in each work-group rather than once in a kernel before.
_CHEAP = 4096
#: Those of all work-groups together: a launch takes as long as some ten thousand.
_CHEAP_TOGETHER = 1 << 18
#: Multiply-adds of products with vectors that a work-group may do, where only another kernel could make matrices of the
#: vectors.  They take two or three times as long; a kernel of their own reads and computes again what it shares.
_VECTORS = 1024
#: The rows of a tall matrix that a work-group does at least, if its temporaries find room beside one another; and where
#: they have to share it.
_MANY_ROWS, _LEAST_ROWS = 16, 4
#: The chunks that an axis is cut into where its size is dynamic, or where no divisor of it is near.
_CHUNKS = (4, 8, 16, 32, 64, 128)
#: Elements of a vector, and multiply-adds in which an element is collected that does not lie beside the one before.
_LANES, _COLLECTED = 8, 3
#: Columns that a work-group adds up at least, a line of memory of f32, and work-groups that there are to be.
_COLUMNS, _LEAST_CHUNKS = 16, 4
#: How much smaller a divisor of a size may be than a chunk that leaves something over, to be preferred to it.
_NEAR = 4


def flops_of(node: Node) -> int:
    """Return the cost of computing one node from its operands, in multiply-adds."""
    match node:
        case Contract():
            return math.prod(node.sizes.values())
        case Reduce():
            return node.operand.size
        case Map():
            return node.size * FUNCTIONS[node.kind].cost
        case Eliminate(operands=operands):
            return sum(operand.size for operand in operands) * operands[0].shape[-1]
        case Assemble() | Accumulate() | Take():
            return node.size
    return 0


def is_elementwise(root: Node, before: Mapping[Node, str]) -> bool:
    """Return whether a result needs nothing but element-wise functions of arrays and of what is computed `before`."""
    return not any(isinstance(node, NOT_ELEMENTWISE) for node in reached((root,), before))


def placement_of(root: Node, before: Mapping[Node, str], device: WorkGroups) -> Placement:
    """Return the best placement for one result, where the nodes `before` are computed outside."""
    interleaved = _interleaved(root, before, device)
    if interleaved is not None:
        return interleaved
    best: tuple[float, Placement] | None = None
    for vectors in (0, _VECTORS):
        for grid in _grids(root, before, device):
            placement = _legal([root], grid, before, vectors, device)
            if root in placement.cuts:
                continue
            placement = _with_room(placement, root, before, vectors, device)
            cost = sum(_cut_cost(cut) for cut in placement.cuts if cut not in before)
            if best is None or cost < best[0]:
                best = cost, placement
            if cost == 0:
                return placement
    assert best is not None, "without a grid everything can be placed"
    return best[1]


def _interleaved(root: Node, before: Mapping[Node, str], device: WorkGroups) -> Placement | None:
    """Return the placement of a result whose matrices are computed side by side, None where they are better apart."""
    axis = interleaved_axis(root, device.interleaved)
    if axis is None:
        return None
    placement = _legal([root], (axis,), before, 0, device)
    is_whole = set(placement.cuts) <= set(before) and can_be_interleaved(placement)
    if not is_whole or temporaries(placement, [root]) > device.local_memory:
        return None
    return placement if is_better_interleaved(placement, [root], device.lanes) else None


def common_placement(
    roots: Sequence[Node], placement: Placement, before: Mapping[Node, str], device: WorkGroups
) -> Placement | None:
    """Return the placement of several results in one region, None where they are better apart.

    `placement` is that of all but the last one; nothing more than there is computed outside.
    """
    outside = {**before, **placement.cuts}
    elementwise = is_elementwise(roots[0], before)
    for grid, vectors in [(placement.grid, 0)] if elementwise else _common_grids(roots, placement.grid, device):
        sizes = tuple(axis.size for axis in grid)
        if any(root.shape[: len(grid)] != sizes for root in roots):
            continue
        alone = not grid and not elementwise  # one work-group does it all
        if alone and roots[-1] not in placement.places and max(root.size for root in roots) > _SMALL:
            continue
        legal = _legal(roots, grid, outside, vectors, device)
        if legal.is_interleaved and not can_be_interleaved(legal):
            continue
        # Loops over elements keep nothing.
        more = legal if elementwise else _fitted(legal, roots, outside, vectors, device)
        if more is not None and set(more.cuts) <= set(outside):
            return more
    return None


def _cut_cost(node: Node) -> float:
    """Return what it costs to keep a node in memory: a launch, and a write and a read of each element.

    What a reduction reads may have to be kept as well.
    """
    return 1000 + 2 * (node.size + (node.operand.size if isinstance(node, Reduce) else 0))


def _grids(root: Node, before: Mapping[Node, str], device: WorkGroups) -> list[Grid]:
    """Return the grids to try for a result, the likeliest first; the last one has no grid axis."""
    if is_elementwise(root, before):
        return [()]  # kernels of element-wise functions spread their loops themselves
    ndim = len(root.shape)
    likely = [ndim - 2] if ndim > 2 else [1] if ndim == 2 else []
    if isinstance(root, Reduce) and _has_long_rows(root, root.size):
        likely = [ndim]
    elif device.lanes and isinstance(root, Reduce) and root.is_partial:
        likely = [max(1, ndim - 1)]  # a warp for each piece
    depths = dict.fromkeys([*likely, ndim - 1, *range(ndim - 2, 0, -1), ndim])
    whole = [_whole(root, depth) for depth in depths if depth > 0]
    chunks = _row_grid(root, device) or _column_grid(root, before, device)
    return [*chunks, *whole, ()] if chunks and _has_short_rows(root, before, device) else [*whole, *chunks, ()]


def _has_short_rows(root: Node, before: Mapping[Node, str], device: WorkGroups) -> bool:
    """Return whether there is more to gain from vectors along the first axis of a result than from those of one row.

    So it is where rows are numbers, and where functions of rows that do not fill a vector take longer than to collect
    elements from rows that lie one after another, and to put them back there.  Where lanes are work-items, they read
    from anywhere, and rows are short that leave some of them without work.
    """
    nodes = reached((root,), before)
    if len(root.shape) == 1:
        return not any(isinstance(node, Eliminate) or _has_long_rows(node, root.shape[0])
                       or (device.lanes and _has_many_pieces(node)) for node in nodes)
    if not root.shape or any(isinstance(node, Contract | Eliminate | Accumulate | Take) for node in nodes):
        return False
    rows = root.shape[0]
    if device.lanes:
        computed = [node.operand if isinstance(node, Reduce) else node for node in nodes
                    if isinstance(node, Map | Reduce)]
        return all(node.size < device.lanes * rows for node in computed)
    saved = collected = 0.0
    for node in nodes:
        size = node.size // rows if node.shape[:1] == (rows,) else 0
        if isinstance(node, Map) and size:
            saved += flops_of(node) / rows * (-(-size // _LANES) / size - 1 / _LANES)
        elif isinstance(node, Array | View | Assemble):
            collected += size
        elif isinstance(node, Reduce) and size:
            collected += node.operand.size // rows
    return saved > _COLLECTED * collected


def _has_long_rows(node: Node, rows: int) -> bool:
    """Return whether a node is the reduction of rows that fill vectors, over the last axis, mostly the fastest.

    Vectors along the first axis would read from so many lines of memory at once that caches cannot keep them.
    """
    return isinstance(node, Reduce) and len(node.operand.shape) - 1 in node.axes and (
        node.operand.size >= LEAST_ELEMENTS * rows) and not _is_transposed(node.operand)


def _has_many_pieces(node: Node) -> bool:
    """Return whether a node is the reduction of what the pieces of a longer one are, enough for the lanes of a warp."""
    return isinstance(node, Reduce) and isinstance(node.operand, Reduce) and node.operand.is_partial and (
        node.operand.size >= LEAST_ELEMENTS * node.size)


def _is_transposed(node: Node) -> bool:
    """Return whether the last axis of an array is not the fastest."""
    return isinstance(node, Array) and node.strides[-1] > min(
        (stride for stride, size in zip(node.strides, node.shape, strict=True) if size > 1 and stride), default=1)


def _common_grids(roots: Sequence[Node], current: Grid, device: WorkGroups) -> list[tuple[Grid, int]]:
    """Return the grids to try for several results, each with the multiply-adds that products with vectors may take.

    Where a result has matrices for each index of the first axis, that is better than chunks of it.
    """
    depth = 0
    while all(len(root.shape) > depth + 1 and root.shape[depth] == roots[0].shape[depth] for root in roots):
        depth += 1
    whole = [_whole(roots[0], axes) for axes in range(depth, 0, -1)]  # the deepest first
    matrices = any(len(root.shape) > 2 for root in roots)
    chunks = _row_grid(roots[0], device) if depth or all(len(root.shape) == 1 for root in roots) else []
    tried = [(grid, 0) for grid in (current, *whole)] + [(grid, _VECTORS) for grid in reversed(whole) if matrices]
    return [*tried, *((grid, 0) for grid in chunks)]


def _whole(root: Node, depth: int) -> Grid:
    return tuple(GridAxis(size) for size in root.shape[:depth])


def _row_grid(root: Node, device: WorkGroups) -> list[Grid]:
    """Return the grid that cuts the first axis, that of the rows of a tall matrix, into chunks."""
    if not root.shape or root.shape[0] < 2 * device.most_rows:
        return []
    chunks = [c for c in _chunks(root.shape[0]) if 2 * _LEAST_ROWS <= c <= device.most_rows]
    return [(GridAxis.divided(root.shape[0], max(chunks)),)] if chunks else []


def _column_grid(root: Node, before: Mapping[Node, str], device: WorkGroups) -> list[Grid]:
    """Return the grids for sums of columns that are too few for chunks of `most_rows`: vectors run over some of them,
    and read rows, where each column alone would be read across all of them."""
    if len(root.shape) != 1 or device.lanes or not any(
            _are_columns(node) and node.shape == root.shape for node in reached((root,), before)):
        return []
    most = max(_COLUMNS, root.shape[0] // _LEAST_CHUNKS)
    chunks = [c for c in _chunks(root.shape[0]) if _COLUMNS <= c <= most]
    return [(GridAxis.divided(root.shape[0], max(chunks)),)] if chunks else [()]


def _are_columns(node: Node) -> bool:
    """Return whether a node is a reduction that has the last axis of its operand, mostly the fastest."""
    return isinstance(node, Reduce) and len(node.operand.shape) - 1 not in node.axes and not _is_transposed(
        node.operand)


def _chunks(size: int) -> list[int]:
    """Return the chunks that a size can be cut into, in order.

    Something is left over of a dynamic size, and of one that has no divisor which is not much smaller than the chunk.
    """
    chunks = [c for c in _CHUNKS if c < size]
    if is_dynamic(size):
        return chunks
    divisors = [c for c in range(1, min(size, 2048) + 1) if size % c == 0]
    return sorted([*divisors, *(c for c in chunks if not any(c < _NEAR * d <= _NEAR * c for d in divisors))])


def _legal(
    roots: Sequence[Node], grid: Grid, before: Mapping[Node, str], vectors: int, device: WorkGroups
) -> Placement:
    """Place `roots`, with the cuts that costs and the shape of products ask for, and without what they leave over.

    A work-group may do so many multiply-adds of products with `vectors`.
    """
    placement = place(roots, grid, before)
    cuts = dict(placement.cuts)
    for node, places in placement.places.items():
        if node in cuts:
            continue
        used = {axis for axis in places if axis is not None}
        again = math.prod(axis.groups for number, axis in enumerate(grid) if number not in used)
        costs = 0 if node in roots or not isinstance(node, Contract | Reduce | Eliminate) else flops_of(node)
        if again > 1 and (costs > _CHEAP or costs * again > _CHEAP_TOGETHER):
            cuts[node] = "it is the same for many work-groups"
        elif node not in roots and _is_spread(node, [grid[axis] for axis in used], device):
            cuts[node] = "work-groups of their own reduce so many elements"
        elif isinstance(node, Contract) and not _keeps_sides(node, places, grid):
            vectors -= flops_of(node) // math.prod(grid[axis].groups for axis in used)
            if vectors < 0:  # the product would be one of vectors in each work-group
                cuts[node] = "its product needs whole matrices in a work-group"
    return placement if len(cuts) == len(placement.cuts) else place(roots, grid, {**before, **cuts})


def _is_spread(node: Node, grid: Sequence[GridAxis], device: WorkGroups) -> bool:
    """Return whether a reduction would be long in each work-group, and has results for more of them.

    Processors add up columns in chunks, which they would have by themselves.
    """
    groups = math.prod(axis.groups for axis in grid)
    if not isinstance(node, Reduce) or node.size <= groups:
        return False
    if node.is_partial:
        return True
    are_columns = not device.lanes and any(axis.chunk != 1 for axis in grid) and _are_columns(node)
    return not are_columns and node.operand.size > device.longest_reduction * groups


def _keeps_sides(node: Contract, places: Places, grid: Grid) -> bool:
    """Return whether both operands keep an axis of their own, if they had one, when the grid axes are gone."""
    gone = {letter for letter, axis in zip(node.letters, places, strict=True)
            if axis is not None and grid[axis].chunk == 1}
    for operand, mine, other in zip(node.operands, node.operand_letters, reversed(node.operand_letters), strict=True):
        own = [letter for letter, size in zip(mine, operand.shape, strict=True)
               if letter in node.letters and letter not in other and size > 1]
        if own and all(letter in gone for letter in own):
            return False
    return True


def _fitted(
    placement: Placement, roots: Sequence[Node], before: Mapping[Node, str], vectors: int, device: WorkGroups
) -> Placement | None:
    """Return the placement with temporaries that fit, if need be with the next axis in chunks; None if none do."""
    whole = tuple(axis for axis in placement.grid if axis.chunk == 1)
    depth = len(whole)
    divided = all(root.shape[depth : depth + 1] == roots[0].shape[depth : depth + 1] != () for root in roots)
    size = roots[0].shape[depth] if divided else 0
    largest = placement.grid[depth].chunk if len(placement.grid) > depth else size
    # What is kept for long stays in the caches if all fits beside one another.
    for shared, least in ((False, _MANY_ROWS), (True, _LEAST_ROWS)):
        if temporaries(placement, roots, shared) <= device.local_memory:
            return placement
        if placement.is_interleaved:
            continue
        for chunk in (c for c in reversed(_chunks(size)) if least <= c < largest and c <= device.longest_chunk):
            smaller = _legal(roots, (*whole, GridAxis.divided(size, chunk)), before, vectors, device)
            if set(smaller.cuts) <= {*before, *placement.cuts} and (
                temporaries(smaller, roots, shared) <= device.local_memory
            ):
                return smaller
    return None


def _with_room(
    placement: Placement, root: Node, before: Mapping[Node, str], vectors: int, device: WorkGroups
) -> Placement:
    """Return the placement with temporaries that fit; if chunks are not enough, the largest are kept in memory."""
    fitted = _fitted(placement, [root], before, vectors, device)
    if fitted is not None:
        return fitted
    while temporaries(placement, [root]) > device.local_memory:
        stored = stored_nodes(placement, [root])
        kept = [node for node in stored if node is not root and not isinstance(node, Reshape)]
        if not kept:
            copied = copies(placement, stored)
            if not copied:
                break
            product, number, _ = max(copied, key=lambda copy: math.prod(copy[2]))
            raise LargeCopy(product, number)
        largest = max(kept, key=lambda node: node.size)
        cuts = {**before, **placement.cuts, largest: "it does not fit in local memory"}
        placement = _legal([root], placement.grid, cuts, vectors, device)
    return placement
