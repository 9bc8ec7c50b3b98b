"""Which parts of a graph become one kernel.

From the results backwards, a region takes in all that can be computed per work-group on its grid (`grids`), and further
results with the same first axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tl_dpnp.graph.grids import LargeCopy, common_placement, is_elementwise, placement_of
from tl_dpnp.graph.interleaving import overlapped
from tl_dpnp.graph.nodes import (
    Accumulate,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Map,
    Node,
    Part,
    Position,
    Reduce,
    Reshape,
    Take,
    View,
    operands_of,
    reached,
    topological,
)
from tl_dpnp.graph.placement import GridAxis, Placement, place
from tl_dpnp.graph.splitting import Parts, split
from tl_dpnp.graph.symbols import actual_shape, is_dynamic
from tl_dpnp.graph.views import part, reshape, view
from tl_dpnp.graph.work_groups import WorkGroups
from tl_dpnp.records import dataclass

__all__ = ["Region", "part_of", "partition", "region_of", "substitute"]

#: Elements of a result that one work-group puts together.
_SMALL = 2048


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the graph that becomes one kernel.

    `roots` are what it computes and `outputs` the arrays that they are written to; `inputs` are the arrays that other
    regions compute for it, `reasons` why it does not compute them itself.  In the whole graph, roots are `originals`,
    and inputs are `cuts`.
    """

    roots: tuple[Node, ...]
    placement: Placement
    outputs: tuple[Array, ...]
    inputs: tuple[Array, ...]
    reasons: tuple[str, ...]
    originals: tuple[Node, ...] = ()
    cuts: tuple[Node, ...] = ()

    @property
    def groups(self) -> int:
        """The number of work-groups."""
        return self.placement.groups


def partition(
    roots: Mapping[Node, Array], new_array: Callable[[Node], Array], device: WorkGroups,
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
            return _in_order(_Partition(roots, split(tuple(roots)), new_array, device, renamed).regions(siblings))
        except _Cycle:
            siblings = False
        except LargeCopy as copy:
            operands = list(copy.product.operands)
            operands[copy.number] = Map(operands[copy.number].shape, copy.product.dtype, "astype",
                                        (operands[copy.number],), copy.product.dtype)
            other = replace(copy.product, operands=(operands[0], operands[1]))
            renamed(copy.product, other)
            memo: dict[Node, Node] = {copy.product: other}
            roots = {substitute(root, memo, renamed): array for root, array in roots.items()}


class _Partition:
    """One attempt: `arrays` are those of all results, of which regions find more than were asked for."""

    def __init__(
        self, roots: Mapping[Node, Array], parts: Parts, new_array: Callable[[Node], Array], device: WorkGroups,
        renamed: Callable[[Node, Node], None],
    ) -> None:
        self.parts, self.new_array, self.device, self.renamed = parts, new_array, device, renamed
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
            placement = placement_of(last, before, self.device)
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
            regions.append(region_of(roots, placement.grid, cuts, self.arrays, self.renamed))
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
        """Take in further results: what the region computes anyway, and what can stand beside it on one grid."""
        elementwise = is_elementwise(roots[0], before)
        for node in pending:
            if not self.parts.together(node, roots[0]) or elementwise != is_elementwise(node, before):
                continue
            if elementwise and not self.share_loop(node, roots, placement):
                continue
            if node not in placement.places and (
                any(self.needs(node, root) for root in roots) or any(self.needs(cut, node) for cut in placement.cuts)
            ):
                continue
            together = [*roots, node]
            more = common_placement(together, placement, before, self.device)
            if more is not None:
                placement, roots = more, together
        return placement, roots

    def share_loop(self, node: Node, roots: Sequence[Node], placement: Placement) -> bool:
        """Return whether one loop over the elements of two results is better: they share what is read, or are small."""
        if node.shape != roots[0].shape:
            return False
        if node in placement.places or node.size <= _SMALL or self.arrays[node].slot == self.arrays[roots[0]].slot:
            return True
        read = {array.slot for array, _ in placement.leaves}
        return any(isinstance(below, Array) and below.slot in read for below in topological((node,)))

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
    if sum(math.prod(actual_shape(operand.shape)) for operand in node.operands) > math.prod(actual_shape(node.shape)):
        return False
    if any(is_dynamic(size) and (place, part) != ((0, 1), size)
           for operand, position in zip(node.operands, node.positions, strict=True)
           for size, part, place in zip(node.shape, operand.shape, position, strict=True)):
        return True  # where a part begins is no part of a kernel that writes it alone
    shared = 0
    while shared < len(node.shape) and all(
        (position[shared], operand.shape[shared]) == ((0, 1), node.shape[shared])
        for operand, position in zip(node.operands, node.positions, strict=True)
    ):
        shared += 1
    return math.prod(node.shape[shared:]) > _SMALL


class _Cycle(Exception):
    """Two regions need each other."""


def region_of(
    roots: Sequence[Node], grid: tuple[GridAxis, ...], cuts: Mapping[Node, str], arrays: Mapping[Node, Array],
    renamed: Callable[[Node, Node], None],
) -> Region:
    """Return the region that computes `roots` on a grid, and reads the nodes of `cuts`, which have reasons."""
    known = {cut: arrays[cut] for cut in cuts}
    memo: dict[Node, Node] = dict(known)
    rewritten = tuple(substitute(root, memo, renamed) for root in roots)
    outputs = tuple(arrays[root] for root in roots)
    return Region(rewritten, overlapped(place(rewritten, grid), rewritten, outputs), outputs, tuple(known.values()),
                  tuple(cuts.values()), tuple(roots), tuple(known))


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
    node: Node, memo: dict[Node, Node], renamed: Callable[[Node, Node], None] = lambda old, new: None
) -> Node:
    """Return `node` with others in the place of those in `memo`; views of memory are folded into strides.

    `memo` is added to: nodes that have something in common keep it in common only if they are given the same one.
    """
    for current in reached((node,), memo):
        operands = tuple(memo[operand] for operand in operands_of(current))
        if all(new is old for new, old in zip(operands, operands_of(current), strict=True)):
            memo[current] = current
            continue
        match current:
            case Part():
                memo[current] = part(operands[0], current.kind)
            case Map() | Assemble() | Eliminate():
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
