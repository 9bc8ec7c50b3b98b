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
    NOT_ELEMENTWISE,
    Accumulate,
    Array,
    Assemble,
    Contract,
    Map,
    Node,
    Position,
    Reduce,
    Reshape,
    Take,
    View,
    operands_of,
    reached,
    topological,
)
from tl_dpnp.graph.placement import GridAxis, Placement, Places, front_places, place
from tl_dpnp.graph.splitting import Parts, split
from tl_dpnp.graph.storage import copies, stored_nodes, temporaries
from tl_dpnp.graph.views import reshape, view

__all__ = ["Region", "flops_of", "part_of", "partition", "substitute"]

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
        case Assemble() | Accumulate() | Take():
            return node.size
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
    siblings = True
    while True:
        try:
            return _in_order(_Partition(roots, split(tuple(roots)), new_array, local_memory, renamed).regions(siblings))
        except _Cycle:
            siblings = False
        except _LargeCopy as copy:
            operands = list(copy.product.operands)
            operands[copy.number] = Map(operands[copy.number].shape, copy.product.dtype, "astype",
                                        (operands[copy.number],), copy.product.dtype)
            other = replace(copy.product, operands=(operands[0], operands[1]))
            renamed(copy.product, other)
            roots = {substitute(root, {copy.product: other}, renamed): array for root, array in roots.items()}


class _Partition:
    """One attempt: `arrays` are those of all results, of which regions find more than were asked for."""

    def __init__(
        self, roots: Mapping[Node, Array], parts: Parts, new_array: Callable[[Node], Array], local_memory: int,
        renamed: Callable[[Node, Node], None],
    ) -> None:
        self.parts, self.new_array, self.local_memory, self.renamed = parts, new_array, local_memory, renamed
        self.arrays = {**{node: new_array(node) for node in parts.kept if node not in roots}, **roots}
        self.order = {node: position for position, node in enumerate(topological(tuple(roots)))}
        self.below: dict[Node, int] = {}  # the nodes that each needs, as bits
        for node, position in self.order.items():
            bits = 1 << position
            for operand in operands_of(node):
                bits |= self.below[operand]
            self.below[node] = bits

    def regions(self, siblings: bool) -> list[Region]:
        """Return the regions for all nodes of `arrays`; what they need of one another is added to it."""
        regions: list[Region] = []
        pending = list(self.arrays)
        while pending:
            last = max(pending, key=self.order.__getitem__)
            pending.remove(last)
            if isinstance(last, Assemble) and _is_better_apart(last):
                pending += self.apart(last)
                continue
            before = self.parts.before(last)
            placement = _placed(last, before, self.local_memory)
            roots = [last]
            if siblings:
                placement, roots = self.with_siblings(placement, roots, pending, before)
            pending = [node for node in pending if node not in roots]
            cuts = dict(placement.cuts)
            cuts |= {node: "it is a result itself" for node in pending if node in placement.places}
            for cut in cuts:
                if cut not in self.arrays:
                    self.arrays[cut] = self.new_array(cut)
                    pending.append(cut)
            known = {cut: self.arrays[cut] for cut in cuts}
            rewritten = tuple(substitute(root, known, self.renamed) for root in roots)
            regions.append(Region(
                rewritten, place(rewritten, placement.grid), tuple(self.arrays[root] for root in roots),
                tuple(known.values()), tuple(cuts.values()),
            ))
        return regions

    def apart(self, node: Assemble) -> list[Node]:
        """Return the operands as results of their own, which are written to their places in the result."""
        whole = self.arrays[node]
        parts: list[Node] = []
        for operand, position in zip(node.operands, node.positions, strict=True):
            part = Map(operand.shape, node.dtype, "astype", (operand,), node.dtype)
            self.renamed(node, part)
            self.arrays[part] = part_of(whole, operand.shape, position)
            self.order[part] = self.order[node]
            self.below[part] = self.below.get(operand, 0)
            if node in self.parts.number:
                self.parts.number[part] = self.parts.number[node]
            parts.append(part)
        return parts

    def with_siblings(
        self, placement: Placement, roots: list[Node], pending: Sequence[Node], before: Mapping[Node, str]
    ) -> tuple[Placement, list[Node]]:
        """Take in further results with the same grid: what the region computes anyway, and what stands beside it."""
        elementwise = _is_elementwise(roots[0], before)
        for node in pending:
            grid = placement.grid
            if [axis.size for axis in grid] != list(node.shape[: len(grid)]):
                continue
            if not self.parts.together(node, roots[0]) or elementwise != _is_elementwise(node, before) or (
                elementwise and node.shape != roots[0].shape
            ):
                continue
            inside = placement.places.get(node)
            if inside is not None and inside != front_places(node, grid):
                continue
            if inside is None:
                small = bool(grid) or max(node.size, *(root.size for root in roots)) <= _SMALL or (
                    elementwise and self.arrays[node].slot == self.arrays[roots[0]].slot  # parts of one result
                )
                if not small or any(self.needs(node, root) for root in roots) or any(
                    self.needs(cut, node) for cut in placement.cuts
                ):
                    continue
            together = [*roots, node]
            more = _legal(place(together, grid, {**before, **placement.cuts}), together, before)
            if set(more.cuts) <= {*before, *placement.cuts} and temporaries(more, together) <= self.local_memory:
                placement, roots = more, together
        return placement, roots

    def needs(self, node: Node, other: Node) -> bool:
        """Return whether `node` is computed from `other`, or is it."""
        return bool(self.below[node] >> self.order[other] & 1)


def part_of(whole: Array, shape: tuple[int, ...], position: Position) -> Array:
    """Return the memory of a part of an array."""
    offset = whole.offset + sum(start * stride for (start, _), stride in zip(position, whole.strides, strict=True))
    strides = tuple(step * stride for (_, step), stride in zip(position, whole.strides, strict=True))
    return Array(shape, whole.dtype, whole.slot, strides, offset)


def _is_better_apart(node: Assemble) -> bool:
    """Return whether work-groups that put the operands together would have much to do each: few share the result.

    What lies one over another is put together by one kernel, because kernels have no order.
    """
    if sum(operand.size for operand in node.operands) > node.size:
        return False
    shared = 0
    while shared < len(node.shape) and all(
        (position[shared], operand.shape[shared]) == ((0, 1), node.shape[shared])
        for operand, position in zip(node.operands, node.positions, strict=True)
    ):
        shared += 1
    return math.prod(node.shape[shared:]) > _SMALL


def _is_elementwise(root: Node, before: Mapping[Node, str]) -> bool:
    """Return whether a result needs nothing but element-wise functions of arrays and of what is computed `before`."""
    return not any(isinstance(node, NOT_ELEMENTWISE) for node in reached((root,), before))


class _Cycle(Exception):
    """Two regions need each other."""


class _LargeCopy(Exception):
    """A product has to copy an operand first, which does not fit in local memory: the operand's number."""

    def __init__(self, product: Contract, number: int) -> None:
        super().__init__(product, number)
        self.product, self.number = product, number


def _in_order(regions: Sequence[Region]) -> list[Region]:
    """Sort regions so that each comes after those that compute its inputs; raises `_Cycle`."""
    owners: dict[int, list[Region]] = {}  # by register: parts of an array may be written by several regions
    for region in regions:
        for slot in {array.slot for array in region.outputs}:
            owners.setdefault(slot, []).append(region)
    done: dict[Region, None] = {}
    open_: set[Region] = set()
    stack = list(regions)  # the last one found is the first to run
    while stack:
        region = stack[-1]
        missing = [owner for array in region.inputs for owner in owners[array.slot] if owner not in done]
        if region in done or not missing:
            done[region] = None
            open_.discard(region)
            stack.pop()
            continue
        if region in open_:
            raise _Cycle
        open_.add(region)
        stack += missing
    return list(done)


def substitute(
    node: Node, arrays: Mapping[Node, Node], renamed: Callable[[Node, Node], None] = lambda old, new: None
) -> Node:
    """Return `node` with others in the place of those in `arrays`; views of memory are folded into strides."""
    memo: dict[Node, Node] = dict(arrays)
    for current in reached((node,), arrays):
        operands = tuple(memo[operand] for operand in operands_of(current))
        if all(new is old for new, old in zip(operands, operands_of(current), strict=True)):
            memo[current] = current
            continue
        match current:
            case Map() | Assemble():
                memo[current] = replace(current, operands=operands)
            case Contract():
                memo[current] = replace(current, operands=(operands[0], operands[1]))
            case View():
                memo[current] = view(operands[0], current.shape, current.axes)
            case Reshape():
                memo[current] = reshape(operands[0], current.shape)
            case Reduce() | Accumulate():
                memo[current] = replace(current, operand=operands[0])
            case Take():
                memo[current] = replace(current, operand=operands[0], indices=operands[1])
        renamed(current, memo[current])
    return memo[node]


def _placed(root: Node, before: Mapping[Node, str], local_memory: int) -> Placement:
    """Return the best placement for one result, where the nodes `before` are computed outside."""
    best: tuple[float, Placement] | None = None
    for grid in _grids(root, before):
        placement = _legal(place([root], grid, before), [root], before)
        if root in placement.cuts:
            continue
        placement = _fitted(placement, root, before, local_memory)
        cost = sum(_cut_cost(cut) for cut in placement.cuts if cut not in before)
        if best is None or cost < best[0]:
            best = cost, placement
        if cost == 0:
            break
    assert best is not None, "without a grid everything can be placed"
    return best[1]


def _cut_cost(node: Node) -> float:
    """Return what it costs to keep a node in memory: a launch, and a write and a read of each element."""
    return 1000 + 2 * node.size


def _grids(root: Node, before: Mapping[Node, str]) -> list[tuple[GridAxis, ...]]:
    """Return the grids to try for a result, the likeliest first; the last one has no grid axis."""
    if _is_elementwise(root, before):
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


def _legal(placement: Placement, roots: Sequence[Node], before: Mapping[Node, str]) -> Placement:
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
    return placement if len(cuts) == len(placement.cuts) else place(roots, grid, {**before, **cuts})


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


def _fitted(placement: Placement, root: Node, before: Mapping[Node, str], local_memory: int) -> Placement:
    """Return the placement with temporaries that fit: the next axis in chunks, or temporaries kept in memory."""
    grid = placement.grid
    if temporaries(placement, [root]) <= local_memory:
        return placement
    if len(grid) < len(root.shape) and all(axis.chunk == 1 for axis in grid):
        size = root.shape[len(grid)]
        for chunk in (c for c in reversed(_divisors(size)) if 4 <= c < size):
            cut = (*grid, GridAxis(size, chunk))
            smaller = _legal(place([root], cut, before), [root], before)
            if set(smaller.cuts) <= {*before, *placement.cuts} and temporaries(smaller, [root]) <= local_memory:
                return smaller
    while temporaries(placement, [root]) > local_memory:
        stored = stored_nodes(placement, [root])
        largest = max((node for node in stored if node is not root and not isinstance(node, Reshape)),
                      key=lambda n: n.size, default=None)
        if largest is None:
            product, number, _ = max(copies(placement, stored), key=lambda copy: math.prod(copy[2]))
            raise _LargeCopy(product, number)
        cuts = {**before, **placement.cuts, largest: "it does not fit in local memory"}
        placement = _legal(place([root], grid, cuts), [root], before)
    return placement
