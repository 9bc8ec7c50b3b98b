"""Operands are fetched ahead of their use: each iteration of the loops that prefetch takes an equal share of them.

They are those of a later work-group.  But where operands exceed all caches, what a loop reads in the order of memory
is fetched shortly before its turn, and on cores that keep it until then so that it does not stay in the caches: each
line is needed once, and soon.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from llvmlite import ir

from tl_dpnp.kernels.llvm import GLOBAL, I8, index
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.lowering.emission.memory import Ahead
from tl_dpnp.lowering.emission.variables import Variables
from tl_dpnp.lowering.nest import Buffer, Loop, LoopKind, Nest, Node, Stage, leaves
from tl_dpnp.records import dataclass
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["Shares"]

#: Kinds of loops whose iterations run one after the other, or on different sub-groups.
_COUNTED: tuple[LoopKind, ...] = ("serial", "unrolled", "rows", "columns", "subgroups")
#: Bytes ahead of its turn that memory is asked for which a loop reads in order; less than a nearest cache holds.
_SHORTLY = 4096


@dataclass(frozen=True)
class Shares:
    """How the operands are divided among the iterations of all loops that prefetch: into `count` shares.

    For each of these loops, by its variable, there are the loops that count its iterations, itself the last one, and
    the number of its first share.
    """

    loops: Mapping[str, tuple[tuple[Loop, ...], int]]
    count: int
    #: The buffers of which an iteration reads its own share, in a nest where one loop alone prefetches.
    in_order: frozenset[str] = frozenset()

    @classmethod
    def of(cls, nest: Nest) -> Shares:
        """Divide the operands of a nest."""
        loops, count = {}, 0
        for path in _prefetching(nest.body, ()):
            loops[path[-1].variable] = path, count
            count += math.prod(len(_range(loop)) for loop in path)
        last = [path[-1] for path, _ in loops.values()]
        alone = len(last) == 1 and len(_range(last[0])) == count
        return cls(loops, count, _read_in_order(last[0]) if alone else frozenset())

    def fetch(
        self, builder: ir.IRBuilder, loop: Loop, value: int | ir.Value, variables: Variables, ahead: Ahead,
        pointers: Mapping[str, ir.Value],
    ) -> None:
        """Fetch the share of the iteration of `loop` in which its variable is `value`."""
        path, first = self.loops[loop.variable]
        number: ir.Value = index(0)
        for around in path:
            counter = value if around is loop else variables.values[around.variable]
            assert isinstance(counter, (int, ir.Value)), "the same for all lanes"
            position = _position(builder, around, counter)
            number = builder.add(builder.mul(number, index(len(_range(around)))), position)
        number = builder.add(number, index(first))
        soon = {name: operand for name, operand in ahead.buffers.items() if name in self.in_order}
        later = {name: operand for name, operand in ahead.buffers.items() if name not in soon}
        if soon:
            with builder.if_else(ahead.streams) as (then, otherwise):
                with then:
                    self._fetch(builder, number, soon, pointers, shortly=True, once=ahead.once)
                with otherwise:
                    self._fetch(builder, number, soon, pointers)
        self._fetch(builder, number, later, pointers)

    def _fetch(
        self, builder: ir.IRBuilder, number: ir.Value, buffers: Mapping[str, tuple[ir.Value, int]],
        pointers: Mapping[str, ir.Value], *, shortly: bool = False, once: bool = False,
    ) -> None:
        """Fetch a share of the operands of a later work-group, or the share whose turn comes `shortly`."""
        for name, (distance, size) in buffers.items():
            share = -(-size // self.count)
            offset = builder.mul(number, index(share))
            if shortly:
                # In the last iterations it is the next operand's.
                offset = builder.add(offset, index(_SHORTLY))
                following = builder.add(distance, builder.sub(offset, index(size)))
                offset = builder.select(builder.icmp_signed("<", offset, index(size)), offset, following)
            else:
                offset = builder.add(distance, offset)
            start = builder.gep(builder.bitcast(pointers[name], I8.as_pointer(GLOBAL)), [offset])
            for line in range(-(-share // CACHE_LINE)):
                target_of(builder).prefetch_line(builder, builder.gep(start, [index(line * CACHE_LINE)]), once)


def _read_in_order(loop: Loop) -> frozenset[str]:
    """Return the buffers of more bytes than are fetched shortly ahead that a loop runs through from end to end."""
    found: dict[Buffer, set[int]] = {}
    for access in (access for leaf in leaves(loop.body) for access in leaf.assign.reads):
        shape, strides = access.buffer.shape, access.buffer.strides
        if access.buffer.scope == "global" and all(isinstance(bound, int) for bound in (*shape, *strides)):
            moves = (step for entry, step in zip(access.indices, strides, strict=True) if loop.variable in entry)
            found.setdefault(access.buffer, set()).add(sum(step for step in moves if isinstance(step, int)))
    return frozenset(
        buffer.name for buffer, steps in found.items()
        if buffer.elements * buffer.element.bytes > _SHORTLY
        and {step * loop.step * len(_range(loop)) for step in steps} == {buffer.elements}
    )


def _prefetching(nodes: Sequence[Node], around: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
    """Yield the loops that count the iterations of each loop that prefetches, outer ones first."""
    for node in nodes:
        if isinstance(node, Stage):
            yield from _prefetching(node.body, around)
        elif isinstance(node, Loop):
            path = (*around, node) if node.kind in _COUNTED else around
            if node.prefetch:
                yield path
            yield from _prefetching(node.body, path)


def _range(loop: Loop) -> range:
    range_ = loop.static_range
    assert range_ is not None, "the schedule saw to it"
    return range_


def _position(builder: ir.IRBuilder, loop: Loop, counter: int | ir.Value) -> ir.Value:
    """Return how many iterations came before the one in which the loop's variable is `counter`."""
    range_ = _range(loop)
    if isinstance(counter, int):
        return index(range_.index(counter))
    passed = builder.sub(counter, index(range_.start))
    return builder.udiv(passed, index(range_.step)) if range_.step > 1 else passed
