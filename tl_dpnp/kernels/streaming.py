"""Results that bypass the caches: computed in the work-item's own memory, stored from there by whole cache lines.

A core has no more than some 10 lines on their way to memory, and waits when it stores another.  So lines are to be
stored a few at a time, between what is computed.  Lines that are shared with a neighbour are stored as usual.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.elements import load_element, store_element
from tl_dpnp.kernels.llvm import (
    GLOBAL,
    I8,
    I32,
    I64,
    counted_loop,
    if_then,
    index,
    private_array,
    storage_type,
)
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["LineWriter"]


@dataclass(frozen=True)
class LineWriter:
    """Stores `count` consecutive elements to `target`, tile after tile, from memory of the work-item's own.

    What a tile leaves of a line is moved to the front of that memory, where the next tile completes it.  `place` is
    that of the target in a cache line, in bytes.
    """

    builder: ir.IRBuilder
    scalar: ScalarType
    target: ir.Value
    count: int
    memory: ir.Value
    place: ir.Value

    @staticmethod
    def start(builder: ir.IRBuilder, scalar: ScalarType, target: ir.Value, count: int, tile: int) -> LineWriter:
        """Return the writer of a result with memory for tiles of up to `tile` elements.

        The first tile takes a line or more.
        """
        memory = private_array(builder, scalar, tile + 2 * CACHE_LINE // scalar.bytes)
        place = builder.and_(builder.ptrtoint(target, I64), index(CACHE_LINE - 1))
        return LineWriter(builder, scalar, target, count, memory, place)

    def area(self, begin: ir.Value) -> ir.Value:
        """Return what stands for the target while the tile is computed that begins with an element.

        A CPU has one address space, so that it is of the target's type.
        """
        builder = self.builder
        begins = builder.mul(begin, index(self.scalar.bytes))
        place = builder.and_(builder.add(self.place, begins), index(CACHE_LINE - 1))
        address = builder.sub(builder.add(builder.ptrtoint(self.memory, I64), place), begins)
        return builder.inttoptr(address, storage_type(self.scalar).as_pointer(GLOBAL))

    def write(self, begin: ir.Value, end: ir.Value) -> None:
        """Store the whole lines of the tile from one element to another."""
        builder, line = self.builder, self._line
        front = self._lines(begin)
        stop = self._lines(end)
        is_first = builder.icmp_signed("==", begin, index(0))
        # The line that the target begins in is not whole, unless they begin together.
        lead = builder.zext(builder.icmp_signed("!=", self.place, index(0)), I64)
        first = builder.select(is_first, lead, front)

        def kept(number: ir.Value) -> ir.Value:
            offset = builder.shl(builder.sub(number, front), index(6))
            return builder.load(_at(builder, self.memory, offset, line.as_pointer()), align=CACHE_LINE)

        def store(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            offset = builder.sub(builder.shl(number, index(6)), self.place)
            target = _at(builder, self.target, offset, line.as_pointer(GLOBAL))
            target_of(builder).stream_line(builder, kept(number), target)
            return []

        def begin_target() -> None:
            rest = builder.and_(builder.neg(self.place), index(CACHE_LINE - 1))
            self._store_elements(index(0), rest, self.place)

        if_then(builder, is_first, begin_target)
        counted_loop(builder, first, stop, index(1), [], store, unrolled=False)
        builder.store(kept(stop), builder.bitcast(self.memory, line.as_pointer()), align=CACHE_LINE)

    def finish(self) -> None:
        """Store the elements behind the last whole line."""
        last = self.builder.sub(self.builder.shl(self._lines(index(self.count)), index(6)), self.place)
        self._store_elements(last, index(self.count * self.scalar.bytes), index(0))

    def fetch(self, distance: ir.Value) -> None:
        """Fetch the lines that will not be whole for the result at a distance in bytes."""
        for offset in (0, self.count * self.scalar.bytes):
            where = self.builder.add(distance, index(offset))
            line = _at(self.builder, self.target, where, I8.as_pointer(GLOBAL))
            target_of(self.builder).prefetch_line(self.builder, line)

    @property
    def _line(self) -> ir.Type:
        return ir.VectorType(I32, CACHE_LINE // 4)  # of any type: SPIR-V has no vectors of more than 16 elements

    def _lines(self, elements: ir.Value) -> ir.Value:
        """Return how many lines end with some elements, counted from the one that the target begins in."""
        size = self.builder.mul(elements, index(self.scalar.bytes))
        return self.builder.lshr(self.builder.add(self.place, size), index(6))

    def _store_elements(self, begin: ir.Value, end: ir.Value, kept: ir.Value) -> None:
        """Store elements one by one, between two places of the target and from a place of the memory on, in bytes."""
        builder, element = self.builder, storage_type(self.scalar)

        def store(offset: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            source = _at(builder, self.memory, builder.add(kept, builder.sub(offset, begin)), element.as_pointer())
            target = _at(builder, self.target, offset, element.as_pointer(GLOBAL))
            store_element(builder, self.scalar, load_element(builder, self.scalar, source), target)
            return []

        counted_loop(builder, begin, end, index(self.scalar.bytes), [], store, unrolled=False)


def _at(builder: ir.IRBuilder, pointer: ir.Value, offset: ir.Value, type_: ir.PointerType) -> ir.Value:
    start = builder.bitcast(pointer, I8.as_pointer(pointer.type.addrspace))
    return builder.bitcast(builder.gep(start, [offset]), type_)
