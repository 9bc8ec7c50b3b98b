"""Where the registers of a nest live: as values where they can, else in the work-item's private memory.

An accumulator can be a value where the loops between its first and last use that index it are unrolled or vectorized
alike: then every use names it at compile time.  Otherwise it is an element of an array; LLVM makes values of those
that turn out to be constant after all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

from tl_dpnp.errors import ScheduleError
from tl_dpnp.kernels.simd_rows import SimdRow
from tl_dpnp.lowering.instructions import instruction_of
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Buffer,
    Derived,
    Index,
    Leaf,
    Loop,
    Nest,
    Node,
    Stage,
    leaves,
    map_assigns,
    predicate_of,
    stages_of,
)

__all__ = ["place_accumulators"]

#: Bytes of private memory that one nest may take in each work-item.
_MOST_PRIVATE = 1 << 17
_DEALT = ("lanes", "rows", "columns", "subgroups")


def place_accumulators(nest: Nest, layout: SubgroupLayout) -> Nest:
    """Return the nest with every buffer in registers either a value or in private memory.

    Raises ScheduleError where a work-item would need a register of another, and where registers take more private
    memory than there is.
    """
    placement = _Placement(nest, layout)
    return replace(nest, body=placement.copies(placement.nodes(nest.body)))


class _Placement:
    def __init__(self, nest: Nest, layout: SubgroupLayout) -> None:
        self.nest = nest
        self.shares = {"lanes": layout.lanes, "rows": layout.rows, "columns": layout.columns,
                       "subgroups": layout.subgroups}
        self.stages = {stage.buffer for stage in stages_of(nest.body)}
        self.written_back = {stage.buffer for stage in stages_of(nest.body) if stage.write_back}
        self.count = 0
        self.private = 0

    # --- copies ------------------------------------------------------------------------------------------------------

    def copies(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """Give the copies that stages keep in registers private memory."""
        buffers = {b.name: b for b in self.nest.buffers.values() if b.name in self.stages and b.scope == "registers"}
        for name, buffer in buffers.items():
            if name in self.written_back:
                # A copy that is read only is made whole by each work-item.
                self.require_own([(leaf, access) for leaf in leaves(nodes) for access in _accesses(leaf, name)], name)
            self.reserve(buffer)

        def change(access: Access) -> Access:
            if access.buffer.name not in buffers:
                return access
            return replace(access, buffer=replace(access.buffer, scope="private"))

        return map_assigns(nodes, change)

    def reserve(self, buffer: Buffer) -> None:
        self.private += buffer.room * buffer.element.bytes
        if self.private > _MOST_PRIVATE:
            raise ScheduleError(
                f"{self.nest.name}: its registers take more than {_MOST_PRIVATE} bytes in each work-item, "
                f"{buffer.name} alone {buffer.room * buffer.element.bytes}: keep smaller tiles"
            )

    # --- accumulators ------------------------------------------------------------------------------------------------

    def nodes(self, nodes: tuple[Node, ...], vectors: tuple[Loop, ...] = ()) -> tuple[Node, ...]:
        """Place the accumulators of a body: find the runs of nodes from a first use to a last.

        `vectors` are the vectorized loops around the body.
        """
        result: list[Node] = []
        run: list[Node] = []
        finished = False
        for node in nodes:
            uses = [leaf.assign for leaf in leaves((node,)) if self.accumulators(leaf)]
            if finished and (not uses or uses[0].part == "init"):
                result += self.run(tuple(run), vectors)
                run, finished = [], False
            if run:
                run.append(node)
            elif not uses:
                result.append(node)
            elif isinstance(node, Loop) and uses[0].part == "init" and uses[-1].part == "finish":
                inner = (*vectors, node) if node.kind == "vectorized" else vectors
                result.append(node.with_body(*self.nodes(node.body, inner)))
            else:
                run.append(node)
            finished = bool(run) and (finished or (bool(uses) and uses[-1].part == "finish"))
        return (*result, *(self.run(tuple(run), vectors) if run else ()))

    def accumulators(self, leaf: Leaf) -> list[Access]:
        """Return the accesses to accumulators."""
        return [access for access in (*leaf.assign.reads, leaf.assign.target)
                if access.buffer.scope == "registers" and access.buffer.name not in self.stages]

    def run(self, nodes: tuple[Node, ...], vectors: tuple[Loop, ...]) -> tuple[Node, ...]:
        """Place the accumulators that live from the first of these nodes to the last.

        The lanes of vectorized loops around them need accumulators of their own, unlike the iterations of others.
        """
        names = [access.buffer.name for leaf in leaves(nodes) for access in self.accumulators(leaf)]
        for name in dict.fromkeys(names):
            nodes = self.placed_in(nodes, vectors, name)
        return nodes

    def placed_in(self, nodes: tuple[Node, ...], vectors: tuple[Loop, ...], name: str) -> tuple[Node, ...]:
        """Place the accumulators of one name."""
        uses = [(leaf, access) for leaf in leaves(nodes, vectors) for access in self.accumulators(leaf)
                if access.buffer.name == name]
        if all(_is_value(*use) for use in uses) and _are_apart(uses):
            return nodes
        self.require_own(uses, name)
        modes = range(len(uses[0][1].indices))
        shape = [max(self.extent(leaf, access.indices[mode]) for leaf, access in uses) for mode in modes]
        order = tuple(sorted(modes, key=lambda mode: not any(_vectors(*use)[mode] for use in uses)))
        element = uses[0][1].buffer.element
        buffer = Buffer(f"{name}.{self.count}", element, scope="private", order=order).reshaped(tuple(shape))
        self.count += 1
        self.reserve(buffer)

        def rewrite(inner: tuple[Node, ...], around: tuple[Loop | Stage, ...]) -> tuple[Node, ...]:
            changed: list[Node] = []
            for node in inner:
                if isinstance(node, Assign):
                    changed += map_assigns((node,), partial(self.placed, Leaf(node, around), name, buffer))
                elif isinstance(node, (Loop, Stage)):
                    changed.append(node.with_body(*rewrite(node.body, (*around, node))))
                else:
                    changed.append(node)
            return tuple(changed)

        return rewrite(nodes, vectors)

    def placed(self, leaf: Leaf, name: str, buffer: Buffer, access: Access) -> Access:
        if access.buffer.name != name:
            return access
        return Access(buffer, tuple(self.kept(leaf, index) for index in access.indices))

    def kept(self, leaf: Leaf, index: Index) -> Index:
        """Return the variables that tell the accumulators of one work-item apart within the run."""
        by_name = _by_name(leaf)
        return tuple(v for v in index if v in by_name and not self.is_fixed(by_name[v]))

    def is_fixed(self, source: Loop | Derived) -> bool:
        """Whether each work-item runs at most one iteration of a loop."""
        if not isinstance(source, Loop) or source.kind not in self.shares or source.static_range is None:
            return False
        return len(source.static_range) <= self.shares[source.kind]

    def extent(self, leaf: Leaf, index: Index) -> int:
        by_name = _by_name(leaf)
        last = 0
        for variable in self.kept(leaf, index):
            values = by_name[variable].static_range
            if values is None:
                raise ScheduleError(f"{self.nest.name}: {leaf.assign} keeps an accumulator for each iteration of "
                                    f"{variable}, whose range is not known: decompose the reduction further inside")
            last += max(values, default=0)
        return last + 1

    def require_own(self, uses: Sequence[tuple[Leaf, Access]], name: str) -> None:
        """Raise ScheduleError unless the loops of all uses deal the registers out to work-items alike."""
        owners: dict[object, Leaf] = {}
        for leaf, access in uses:
            owners.setdefault(tuple(frozenset(_owners(leaf, index).items()) for index in access.indices), leaf)
        if len(owners) > 1:
            one, other, *_ = (leaf.assign for leaf in owners.values())
            raise ScheduleError(
                f"{self.nest.name}: {name} is kept in the registers of each work-item, but the loops of `{one}` and "
                f"`{other}` are bound differently: bind them alike"
            )


def _accesses(leaf: Leaf, name: str) -> Iterator[Access]:
    return (access for access in (*leaf.assign.reads, leaf.assign.target) if access.buffer.name == name)


def _by_name(leaf: Leaf) -> dict[str, Loop | Derived]:
    found: dict[str, Loop | Derived] = {}
    for loop in leaf.loops:
        found[loop.variable] = loop
        found.update((derived.variable, derived) for derived in loop.derived)
    return found


def _is_value(leaf: Leaf, access: Access) -> bool:
    """Whether the loops of the run around a use keep its accumulator a value."""
    variables = {variable for index in access.indices for variable in index}
    by_name = _by_name(leaf)
    for loop in leaf.loops:
        if (loop.guards and loop.guards != (predicate_of(loop),)) or loop.kind in _DEALT:
            return False
        if loop.variable in variables and loop.kind == "serial":
            return False
    for variable in variables & by_name.keys():
        source = by_name[variable]
        if isinstance(source, Derived) and not all(_is_known(by_name.get(v)) for v in source.index):
            return False
    return True


def _is_known(source: Loop | Derived | None) -> bool:
    """Whether the iterations of a loop are told apart at compile time."""
    return isinstance(source, Loop) and source.kind in ("unrolled", "vectorized")


def _are_apart(uses: Sequence[tuple[Leaf, Access]]) -> bool:
    """Whether accumulators that are cut into different vectors are different accumulators."""
    alike: dict[object, list[tuple[Leaf, Access]]] = {}
    for use in uses:
        alike.setdefault(_vectors(*use), []).append(use)
    groups = [[_region(*use) for use in group] for group in alike.values()]
    return all(_disjoint(one, other) for first, second in combinations(groups, 2) for one in first for other in second)


#: For each mode of an access: the variables from outside the run, and the first and last value of the rest.
_Region = tuple[tuple[frozenset[str], int, int] | None, ...]


def _region(leaf: Leaf, access: Access) -> _Region:
    by_name = _by_name(leaf)
    modes: list[tuple[frozenset[str], int, int] | None] = []
    for index in access.indices:
        ranges = [by_name[v].static_range for v in index if v in by_name]
        known = [r for r in ranges if r]
        outside = frozenset(v for v in index if v not in by_name)
        ends = (sum(min(r) for r in known), sum(max(r) for r in known))
        modes.append((outside, *ends) if len(known) == len(ranges) else None)
    return tuple(modes)


def _disjoint(first: _Region, second: _Region) -> bool:
    """Whether two regions share no element: in some mode they are at a known distance and do not meet."""
    return any(
        a is not None and b is not None and a[0] == b[0] and (a[2] < b[1] or b[2] < a[1])
        for a, b in zip(first, second, strict=True)
    )


def _vectors(leaf: Leaf, access: Access) -> tuple[tuple[tuple[object, object], ...], ...]:
    """Return for each mode the ranges of the loops that make vectors of it, and how it is computed from them.

    Of two vectorized loops inside one another the inner one makes the vectors, for each lane of the outer one.
    """
    by_name = _by_name(leaf)
    used = {variable for index in access.indices for variable in index}
    inner = next((loop for loop in reversed(leaf.loops) if loop.kind == "vectorized" and loop.variable in used), None)

    def vectors(variable: str) -> Iterator[tuple[object, object]]:
        source = by_name.get(variable)
        if isinstance(source, Loop) and source.kind == "vectorized" and inner not in (None, source):
            return
        if isinstance(source, Loop) and _is_vector(source):
            yield (source.start, source.stop), None
        if isinstance(source, Derived):
            how = (source.divisor, source.modulus, source.scale, source.start)
            yield from ((loop, how) for part in source.index for loop, _ in vectors(part))

    return tuple(tuple(vector for v in index for vector in vectors(v)) for index in access.indices)


def _is_vector(loop: Loop) -> bool:
    return loop.kind == "vectorized" or instruction_of(loop, SimdRow) is not None


def _owners(leaf: Leaf, index: Index) -> Counter[object]:
    """Return how an index is dealt out to work-items by the loops of the run."""
    by_name = _by_name(leaf)
    found: Counter[object] = Counter()
    for variable in index:
        source = by_name.get(variable)
        parts = source.index if isinstance(source, Derived) else (variable,)
        how = (source.divisor, source.modulus, source.scale, source.start) if isinstance(source, Derived) else ()
        for part in parts:
            loop = by_name.get(part)
            if isinstance(loop, Loop) and loop.kind in _DEALT:
                found[(loop.kind, loop.start, loop.stop, loop.step, how)] += 1
    return found
