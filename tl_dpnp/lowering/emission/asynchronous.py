"""Copies to local memory that go on while the work-item computes, up to the next barrier."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import pairwise
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, index
from tl_dpnp.kernels.mma.emit import create_group, device_async_copy, wait, wait_all
from tl_dpnp.kernels.mma.moves import COPIES, AsyncCopy
from tl_dpnp.lowering.emission.memory import ALIGNED, Memory
from tl_dpnp.lowering.emission.patterns import Offset
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import Access, Assign, Buffer, Loop, Nest, Node, Stage, leaves, loops_of, stages_of
from tl_dpnp.records import dataclass

__all__ = ["AsynchronousCopies"]

_Branch = Callable[[ir.Value, Callable[[], None]], None]
#: Of the iterations of a loop with load_ahead, the part among which copies are spread: they need time to arrive.
_SPREAD = 0.75
#: Copies that follow one another, since ptxas lets each such run cost three more instructions.
_TOGETHER = 4


class _Copy(NamedTuple):
    """A copy that is made later: its addresses in local and in global memory, and the condition for it."""

    instruction: AsyncCopy
    target: ir.Value
    source: ir.Value
    condition: ir.Value | None


@dataclass
class AsynchronousCopies:
    """The asynchronous stages of a nest: their copies and the waiting for them.

    Many copies one after the other fill the queues of the memory, and the work-item waits.  Those of stages that
    `are_spread` are therefore made in between what is computed next, in a loop with load_ahead.
    """

    memory: Memory
    sources: dict[str, Buffer]
    #: The lanes and sub-groups of the work-group, and whether a loop loads ahead.
    layout: SubgroupLayout
    has_loop: bool
    #: The stages around the present place.
    inside: list[str] = field(default_factory=list)
    #: The buffers of each copy in the loop around the present place.
    buffers: int = 2
    #: Whether copies are made later now, and the conditions for them.
    later: bool = False
    conditions: list[ir.Value] = field(default_factory=list)
    pending: list[_Copy] = field(default_factory=list)

    @classmethod
    def of(cls, nest: Nest, memory: Memory, layout: SubgroupLayout) -> AsynchronousCopies:
        """Return those of a nest."""
        stages = [stage for stage in stages_of(nest.body) if stage.asynchronous]
        buffers = nest.buffers
        has_loop = any(loop.loads_ahead for loop in loops_of(nest.body))
        return cls(memory, {stage.source: buffers[stage.source] for stage in stages}, layout, has_loop)

    def wait(self) -> None:
        """Wait for the copies of this work-item."""
        self.start()
        if self.buffers > 2:
            # The latest group is that of the iteration before, the first one that of all iterations' first copies.
            create_group(self.memory.builder)
            wait(self.memory.builder, self.buffers - 2)
        elif self.sources:
            wait_all(self.memory.builder)

    @contextmanager
    def pipelined(self, loop: Loop) -> Iterator[None]:
        """Emit a loop whose first copies were made: with more than two buffers it leaves later copies under way.

        Every barrier makes a group of the copies before it.  Those of the pieces that are filled ahead count as if
        they had been made in as many iterations.
        """
        around = self.buffers
        self.start()
        if loop.pipelined:
            targets = {leaf.assign.target.buffer.name: leaf.assign.target.buffer for leaf in leaves(loop.body)}
            copies = [targets[stage.buffer] for stage in stages_of(loop.body) if stage.asynchronous]
            counts = {buffer.shape[-1] if buffer.doubled else 2 for buffer in copies}
            match [*counts]:
                case [int(count)] if count > 2:
                    self.buffers = count
                    for _ in range(count - 1):
                        create_group(self.memory.builder)
        yield
        self.buffers = around

    def start(self, count: int | None = None) -> None:
        """Start some of the copies that were to be made later, or all of them."""
        now, self.pending = self.pending[:count], [] if count is None else self.pending[count:]
        for copy in now:
            device_async_copy(self.memory.builder, copy.instruction, copy.target, copy.source,
                              condition=copy.condition)

    def shares(self, iterations: int) -> list[int]:
        """Return how many copies each iteration of a loop starts that computes what comes next."""
        groups = -(-len(self.pending) // _TOGETHER)
        every = max(1.0, iterations * _SPREAD / max(1, groups))
        starts = [int(number * every) for number in range(groups)]
        return [_TOGETHER * starts.count(number) for number in range(iterations)]

    def are_spread(self, nodes: Sequence[Node]) -> bool:
        """Whether nodes are a stage whose copies are made later: each work-item must make all of its own."""
        match nodes:
            case (Stage(asynchronous=True, buffer=name) as stage,) if self.has_loop:
                all_of = {"lanes": self.layout.lanes, "subgroups": self.layout.subgroups}
                sizes = {leaf.assign.target.buffer.element.bytes for leaf in leaves((stage,))
                         if leaf.assign.target.buffer.name == name}
                return min(sizes) >= min(copy.bytes for copy in COPIES.values()) and all(
                    not loop.guards and loop.static_range is not None
                    and len(loop.static_range) == all_of.get(loop.kind, len(loop.static_range))
                    and loop.kind in (*all_of, "unrolled", "vectorized") for loop in loops_of(stage.body))
        return False

    def make_later(self, conditions: Sequence[ir.Value], nodes: Callable[[], None]) -> None:
        """Emit a stage for which `are_spread` holds, under some conditions."""
        self.later, self.conditions = True, [*conditions]
        nodes()
        self.later, self.conditions = False, []

    def stage(self, stage: Stage, branch: _Branch, nodes: Callable[[Sequence[Node]], None]) -> None:
        """Emit the copies of a stage: by as many bytes as its addresses turn out to allow."""
        builder = self.memory.builder
        self.inside.append(stage.buffer)
        has_vectors = any(loop.kind == "vectorized" for leaf in leaves(stage.body) for loop in leaf.loops)
        if not has_vectors:
            nodes(stage.body)
        else:
            is_aligned = self.is_aligned(self.sources[stage.source])
            others = functools.reduce(builder.and_, self.conditions, builder.not_(is_aligned))
            self.memory.aligned.add(stage.source)
            if self.later:
                self.conditions.append(is_aligned)
                nodes(stage.body)
                self.later = False
            else:
                branch(is_aligned, lambda: nodes(stage.body))
            self.memory.aligned.remove(stage.source)
            branch(others, lambda: nodes(stage.body))
        self.inside.pop()

    def is_aligned(self, buffer: Buffer) -> ir.Value:
        """Return whether the address of an operand, and its strides but for 1, are multiples of 16 bytes."""
        builder, arguments = self.memory.builder, self.memory.arguments
        bits = builder.ptrtoint(arguments.pointers[buffer.name], I64)
        for stride in buffer.strides:
            if stride != 1:
                step = index(stride) if isinstance(stride, int) else arguments.dimensions[stride.name]
                bits = builder.or_(bits, builder.mul(step, index(buffer.element.bytes)))
        return builder.icmp_unsigned("==", builder.and_(bits, index(ALIGNED - 1)), index(0))

    def take(self, assign: Assign) -> bool:
        """Start the copies of an assignment if it belongs to a stage around; say whether they were."""
        if not self.inside or not isinstance(assign.value, Access) or assign.target.buffer.name != self.inside[-1]:
            return False
        target, source = assign.target, assign.value
        memory, element = self.memory, target.buffer.element
        width = memory.width(target)
        pairs = list(zip(memory.offsets(target, width), memory.offsets(source, width), strict=True))
        runs = [0, *(lane for lane in range(1, width) if not _follow(pairs[lane - 1], pairs[lane])), width]
        copies: list[tuple[Offset, Offset, AsyncCopy]] = []
        for first, stop in pairwise(runs):
            to, start = pairs[first]
            bytes_ = math.gcd(
                memory.alignment(target, to), memory.alignment(source, start), (stop - first) * element.bytes, ALIGNED)
            if bytes_ < min(copy.bytes for copy in COPIES.values()):
                return False  # the work-item copies elements that are too small
            copy = COPIES[f"copy_{bytes_}{'_bypass' * (bytes_ == ALIGNED)}"]
            copies += [(*pairs[lane], copy) for lane in range(first, stop, bytes_ // element.bytes)]
        builder = memory.builder
        condition = functools.reduce(builder.and_, self.conditions) if self.later and self.conditions else None
        for to, start, copy in copies:
            self.pending.append(_Copy(
                copy, builder.ptrtoint(memory.pointer(target, to), I32),
                builder.ptrtoint(memory.pointer(source, start), I64), condition))
            if not self.later:
                self.start()
        memory.changed(target)
        return True


def _follow(first: tuple[Offset, Offset], second: tuple[Offset, Offset]) -> bool:
    """Whether elements are neighbours in both buffers."""
    return all(a.strides == b.strides and b.known == a.known + 1 for a, b in zip(first, second, strict=True))
