"""Operands are fetched ahead of their use: each iteration of the loops that prefetch takes an equal share of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tl_dpnp.kernels.llvm import CACHE_LINE, GLOBAL, I8, index
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.lowering.emission.memory import Ahead
from tl_dpnp.lowering.emission.variables import Variables
from tl_dpnp.lowering.nest import Loop, LoopKind, Nest, Node, Stage

__all__ = ["Shares"]

#: Kinds of loops whose iterations run one after the other, or on different sub-groups.
_COUNTED: tuple[LoopKind, ...] = ("serial", "unrolled", "rows", "columns", "subgroups")


@dataclass(frozen=True)
class Shares:
    """How the operands are divided among the iterations of all loops that prefetch: into `count` shares.

    For each of these loops, by its variable, there are the loops that count its iterations, itself the last one, and
    the number of its first share.
    """

    loops: Mapping[str, tuple[tuple[Loop, ...], int]]
    count: int

    @classmethod
    def of(cls, nest: Nest) -> Shares:
        """Divide the operands of a nest."""
        loops, count = {}, 0
        for path in _prefetching(nest.body, ()):
            loops[path[-1].variable] = path, count
            count += math.prod(len(_range(loop)) for loop in path)
        return cls(loops, count)

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
        for name, (distance, size) in ahead.buffers.items():
            share = -(-size // self.count)
            start = builder.bitcast(pointers[name], I8.as_pointer(GLOBAL))
            start = builder.gep(start, [builder.add(distance, builder.mul(number, index(share)))])
            for line in range(-(-share // CACHE_LINE)):
                target_of(builder).prefetch_line(builder, builder.gep(start, [index(line * CACHE_LINE)]))


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
