"""Copies to local memory that go on while the work-item computes, up to the next barrier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, index
from tl_dpnp.kernels.mma.emit import device_async_copy, wait_all
from tl_dpnp.kernels.mma.moves import COPIES, AsyncCopy
from tl_dpnp.lowering.emission.memory import ALIGNED, Memory
from tl_dpnp.lowering.emission.patterns import Offset
from tl_dpnp.lowering.nest import Access, Assign, Buffer, Nest, Node, Stage, leaves, stages_of

__all__ = ["AsynchronousCopies"]

_Branch = Callable[[ir.Value, Callable[[], None]], None]


@dataclass
class AsynchronousCopies:
    """The asynchronous stages of a nest: their copies and the waiting for them."""

    memory: Memory
    sources: dict[str, Buffer]
    #: The stages around the present place.
    inside: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, nest: Nest, memory: Memory) -> AsynchronousCopies:
        """Return those of a nest."""
        stages = [stage for stage in stages_of(nest.body) if stage.asynchronous]
        buffers = nest.buffers
        return cls(memory, {stage.source: buffers[stage.source] for stage in stages})

    def wait(self) -> None:
        """Wait for the copies of this work-item."""
        if self.sources:
            wait_all(self.memory.builder)

    def stage(self, stage: Stage, branch: _Branch, nodes: Callable[[Sequence[Node]], None]) -> None:
        """Emit the copies of a stage: by as many bytes as its addresses turn out to allow."""
        self.inside.append(stage.buffer)
        has_vectors = any(loop.kind == "vectorized" for leaf in leaves(stage.body) for loop in leaf.loops)
        if not has_vectors:
            nodes(stage.body)
        else:
            is_aligned = self.is_aligned(self.sources[stage.source])
            self.memory.aligned.add(stage.source)
            branch(is_aligned, lambda: nodes(stage.body))
            self.memory.aligned.remove(stage.source)
            branch(self.memory.builder.not_(is_aligned), lambda: nodes(stage.body))
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
        pairs = [(memory.offset(target, lane), memory.offset(source, lane)) for lane in range(width)]
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
        for to, start, copy in copies:
            address = memory.builder.ptrtoint(memory.pointer(target, to), I32)
            device_async_copy(
                memory.builder, copy, address, memory.builder.ptrtoint(memory.pointer(source, start), I64))
        memory.changed(target)
        return True


def _follow(first: tuple[Offset, Offset], second: tuple[Offset, Offset]) -> bool:
    """Whether elements are neighbours in both buffers."""
    return all(a.strides == b.strides and b.known == a.known + 1 for a, b in zip(first, second, strict=True))
