"""A result that is computed in the work-item's own memory and stored past the caches, where that is wanted."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tl_dpnp.kernels.llvm import if_then, index
from tl_dpnp.kernels.streaming import LineWriter
from tl_dpnp.lowering.emission.memory import NestArguments
from tl_dpnp.lowering.emission.variables import Variable
from tl_dpnp.lowering.nest import Loop
from tl_dpnp.lowering.streaming import StreamedResult
from tl_dpnp.records import dataclass

__all__ = ["StreamedStores"]


@dataclass(frozen=True)
class StreamedStores:
    """What stores a streamed result, tile after tile."""

    result: StreamedResult
    wanted: ir.Value
    writer: LineWriter

    @staticmethod
    def start(
        builder: ir.IRBuilder, arguments: NestArguments, pointers: dict[str, ir.Value]
    ) -> StreamedStores | None:
        """Return what stores the result of a nest, None where it is not streamed; `pointers` are those of its code."""
        ahead = arguments.ahead
        if ahead is None or ahead.streamed is None:
            return None
        result, distance = ahead.streamed
        buffer = result.buffer
        target = pointers[buffer.name]
        writer = LineWriter.start(builder, buffer.element, target, buffer.elements, result.tile)
        if_then(builder, ahead.streams, lambda: writer.fetch(distance))
        if not result.loops:
            pointers[buffer.name] = builder.select(ahead.streams, writer.area(index(0)), target)
        return StreamedStores(result, ahead.streams, writer)

    def run(self, loop: Loop, value: Variable, pointers: dict[str, ir.Value], body: Callable[[], None]) -> None:
        """Emit an iteration; if it computes a tile, that lies elsewhere in it and is stored after it."""
        if loop.variable not in self.result.loops:
            body()
            return
        builder, column, name = self.writer.builder, index(self.result.column), self.result.buffer.name
        first = index(value) if isinstance(value, int) else value
        assert isinstance(first, ir.Value)
        begin = builder.mul(first, column)
        end = builder.mul(builder.add(first, index(loop.step)), column)
        pointers[name] = builder.select(self.wanted, self.writer.area(begin), self.writer.target)
        body()
        pointers[name] = self.writer.target
        if_then(builder, self.wanted, lambda: self.writer.write(begin, end))

    def finish(self) -> None:
        """Store what is left."""
        def store() -> None:
            if not self.result.loops:
                self.writer.write(index(0), index(self.result.buffer.elements))
            self.writer.finish()

        if_then(self.writer.builder, self.wanted, store)
