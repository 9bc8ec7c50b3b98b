"""What is fetched into the nearest cache while a product is computed on tiles.

Tiles are stored by lines at once, each of which the core must have; it waits for those that are elsewhere, and has no
more than some 16 of them on their way.  So lines of C are asked for before the sums of their tiles are computed, and
those of the operands of a later work-group a few at a time in between.  Where operands exceed the caches of a core that
is too late for C: it is then fetched as the other operands are, and they are fetched even if they leave the nearest
cache before they are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.amx.packing import plus, times
from tl_dpnp.kernels.dpas.fragments import Matrix, Size, size_value
from tl_dpnp.kernels.llvm import I8, if_then, index
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.records import dataclass
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["Fetching", "Later", "Run"]


class Run(NamedTuple):
    """A piece of memory of C: the offset of its first element, and its bytes."""

    first: Size
    size: int


class Later(NamedTuple):
    """An operand of a later work-group: a pointer to its first byte, and its bytes."""

    pointer: ir.Value
    size: int


@dataclass(frozen=True)
class Fetching:
    """Fetches lines of `result`, C, whose rows are neighbours, and of later operands, `read` and `written` ones.

    The former are fetched if operands are not `beyond` the caches of a core, which is not known if that is None, and
    the `written` ones if they are.  Those that are `read` are fetched in both cases if they `have_room` in the nearest
    cache beside the present ones.  What `streams` past the caches is not fetched.
    """

    builder: ir.IRBuilder
    result: Matrix | None
    read: Sequence[Later] = ()
    written: Sequence[Later] = ()
    have_room: bool = True
    beyond: ir.Value | None = None
    streams: ir.Value | None = None

    def block(self, row: Size, column: Size, rows: int, columns: int) -> None:
        """Fetch what a block of C is stored to."""
        self.runs(self.runs_of(row, column, rows, columns))

    def runs_of(self, row: Size, column: Size, rows: int, columns: int) -> list[Run]:
        """Return the pieces of memory that a block of C is stored to."""
        builder, result = self.builder, self.result
        if result is None:
            return []
        start = plus(builder, row, times(builder, column, result.strides[1]))
        return [Run(plus(builder, start, first), size) for first, size in self._runs(result, rows, columns)]

    def runs(self, runs: Sequence[Run]) -> None:
        """Fetch pieces of memory of C, none or more."""
        builder, result = self.builder, self.result
        if result is None or not runs:
            return

        def fetch() -> None:
            for first, size in runs:
                start = builder.gep(result.pointer, [size_value(first)])
                for place in _places(result, size):
                    target_of(builder).prefetch_line(builder, start, offset=place)

        if self.beyond is None:
            fetch()
        else:
            if_then(builder, builder.not_(self.beyond), fetch)

    def _runs(self, result: Matrix, rows: int, columns: int) -> Iterable[tuple[Size, int]]:
        """Return the first element of each piece of memory of a block, counted from its own, and the bytes."""
        element, stride = result.element.bytes, result.strides[1]
        if stride == rows:
            return [(0, rows * columns * element)]
        return [(times(self.builder, stride, column), rows * element) for column in range(columns)]

    def share(self, number: Size, count: int) -> None:
        """Fetch one of so many shares of the later operands."""
        builder, always = self.builder, self.have_room or self.beyond is None
        if always:
            self._share(self.read, number, count)
        if self.beyond is None:
            return
        read = () if always else self.read

        def fetch() -> None:
            self._share(read, number, count)
            if self.written and self.streams is not None:
                if_then(builder, builder.not_(self.streams), lambda: self._share(self.written, number, count))

        if read or self.written:
            if_then(builder, self.beyond, fetch)

    def _share(self, operands: Sequence[Later], number: Size, count: int) -> None:
        builder = self.builder
        for pointer, size in operands:
            lines = -(-size // CACHE_LINE)
            each = -(-lines // count)
            if isinstance(number, int):
                places = range(number * each, min(lines, (number + 1) * each))
                start = pointer
            else:
                # The last shares may be of the same lines.
                first, last = builder.mul(number, index(each)), index(lines - each)
                first = builder.select(builder.icmp_signed("<", first, last), first, last)
                start, places = builder.gep(pointer, [builder.mul(first, index(CACHE_LINE))]), range(each)
            for place in places:
                target_of(builder).prefetch_line(builder, start, offset=place * CACHE_LINE)

    @staticmethod
    def later(builder: ir.IRBuilder, pointer: ir.Value, distance: ir.Value, size: int) -> Later:
        """Return the operand at a distance in bytes from a present one."""
        start = builder.bitcast(pointer, I8.as_pointer(pointer.type.addrspace))
        return Later(builder.gep(start, [distance]), size)


def _places(result: Matrix, size: int) -> Iterable[int]:
    """Return one place of each line of a piece of memory, in bytes: of one line twice if it may begin within a line."""
    stride = result.strides[1]
    begins_with_lines = isinstance(stride, int) and stride * result.element.bytes % CACHE_LINE == 0
    if begins_with_lines and size % CACHE_LINE == 0:
        return range(0, size, CACHE_LINE)
    return sorted({*range(0, size, CACHE_LINE), size - result.element.bytes})
