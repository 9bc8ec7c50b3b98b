"""Tiles of C that messages of blocks store, and load where C is added to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, Surface
from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, RULES, Block
from tl_dpnp.kernels.dpas.fragments import Matrix, Size
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.operands import may_be_surface
from tl_dpnp.kernels.llvm import GLOBAL, I32, constant, index, undefined
from tl_dpnp.records import dataclass

__all__ = ["Result", "TileStores", "result_surfaces"]

#: Matrices that the columns of one are taken for where their distance is no multiple of what messages take.
_APART = 2


@dataclass(frozen=True)
class Result:
    """C, whose elements are set: `value` returns one as it is stored.

    It takes a row, which differs from lane to lane, a column, the sum, and what C holds there, None where `reads`
    does not say that it is needed.  Where that `is_sum` it is the sum as it is.
    """

    matrix: Matrix
    reads: bool
    value: Callable[[ir.Value, ir.Value, ir.Value, ir.Value | None], ir.Value]
    is_sum: bool = False


def result_surfaces(
    builder: ir.IRBuilder, result: Result | None, m: Size, n: Size, repeat: int
) -> tuple[Surface, ...]:
    """Return C as messages take it, none where what is known of it does not allow them.

    Columns whose distance is an odd multiple of 4 bytes are those of two matrices, every second one each; a block of C
    has `repeat` columns.
    """
    if result is None:
        return ()
    matrix = result.matrix
    bits, pitch = matrix.element.bits, matrix.strides[1]
    if matrix.pointer.type.addrspace != GLOBAL or matrix.strides[0] != 1 or bits not in (16, 32):
        return ()
    if may_be_surface(bits, m, n, pitch):
        return (Surface(matrix.pointer, bits, m, n, pitch),)
    if not (isinstance(pitch, int) and isinstance(n, int)) or n < _APART or repeat % _APART or (
            pitch * bits % (8 * RULES.width_multiple)):
        return ()
    heights = [(n - first + 1) // _APART for first in range(_APART)]
    if not all(may_be_surface(bits, m, height, _APART * pitch) for height in heights):
        return ()
    pointers = matrix.pointer, builder.gep(matrix.pointer, [index(pitch)])
    return tuple(Surface(pointer, bits, m, height, _APART * pitch)
                 for pointer, height in zip(pointers, heights, strict=True))


@dataclass(frozen=True)
class TileStores:
    """Stores tiles of C, whose columns take turns on its `surfaces`.

    `order` are the columns of a tile as DPAS makes them, block by block.
    """

    kernel: MicroKernel
    accumulators: Accumulators
    result: Result
    surfaces: tuple[Surface, ...]
    order: Sequence[int]

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.accumulators.builder

    @property
    def messages(self) -> BlockMessages:
        """What moves blocks."""
        return self.accumulators.messages

    @property
    def stores_sums(self) -> bool:
        """Whether messages take sums as they are: their columns follow one another in C."""
        return (self.result.is_sum and self.accumulators.are_in_place and len(self.surfaces) == 1
                and list(self.order) == [*range(self.kernel.tile_columns)])

    def store(self, first_row: ir.Value, first_column: ir.Value, sums: Sequence[Sequence[ir.Value]]) -> None:
        """Store a tile by a message for each block, from sums that are added, column of blocks after column.

        What is outside of C is not written.
        """
        kernel, builder, messages = self.kernel, self.builder, self.messages
        row, apart = kernel.row, len(self.surfaces)
        bits = self.surfaces[0].bits
        block = Block("plain", bits, row.execution_size, row.repeat // apart)
        type_ = ir.IntType(16) if bits == 16 else self.result.matrix.pointer.type.pointee
        below = messages.step(COLUMN, row.execution_size)
        beside = messages.step(ROW, block.height)
        line = first_column if apart == 1 else builder.udiv(first_column, index(apart))
        first = [messages.header(surface, block, first_row, line) for surface in self.surfaces]
        places = [divmod(self.order.index(column), row.repeat) for column in range(kernel.tile_columns)]
        for i in range(kernel.lane_blocks):
            # Each is read once, where it is needed first: all of them again are as many registers as the sums.
            read = functools.cache(lambda j, i=i: self._total(sums[j * kernel.lane_blocks + i]))
            own = builder.add(builder.add(first_row, messages.lane), index(i * row.execution_size))
            headers = list(first)
            for j in range(kernel.column_blocks):
                own_sums = sums[j * kernel.lane_blocks + i]
                if self.stores_sums and len(own_sums) == 1:
                    messages.store(headers[0], block, own_sums[0])
                    headers = [builder.add(headers[0], beside)]
                    continue
                for part in range(apart):
                    columns = range(j * row.repeat + part, (j + 1) * row.repeat, apart)
                    totals = [self._element(read(place), number) for place, number in map(places.__getitem__, columns)]
                    at = [builder.add(first_column, index(column)) for column in columns]
                    self._store_block(block, headers[part], own, at, totals, type_)
                headers = [builder.add(header, beside) for header in headers]
            first = [builder.add(header, below) for header in first]

    def _total(self, sums: Sequence[ir.Value]) -> ir.Value:
        """Return what sums are together, as a value."""
        return functools.reduce(self.builder.fadd, map(self.accumulators.value, sums))

    def _element(self, value: ir.Value, number: int) -> ir.Value:
        """Return an element of a value, which may be a single one."""
        if not isinstance(value.type, ir.VectorType):
            return value
        return self.builder.extract_element(value, constant(I32, number))

    def _store_block(
        self, block: Block, header: ir.Value, row: ir.Value, columns: Sequence[ir.Value],
        totals: Sequence[ir.Value], type_: ir.Type,
    ) -> None:
        """Store a block of C from the sums of its columns."""
        builder, result, repeat = self.builder, self.result, block.height
        vector = type_ if repeat == 1 else ir.VectorType(type_, repeat)
        old = self.accumulators.plain(header, block, vector) if result.reads else None
        stored = undefined(vector)
        for number, one in enumerate(totals):
            held = None
            if old is not None:
                held = builder.bitcast(self._element(old, number), result.matrix.pointer.type.pointee)
            new = result.value(row, columns[number], one, held)
            new = builder.bitcast(new, type_)
            stored = new if repeat == 1 else builder.insert_element(stored, new, constant(I32, number))
        self.messages.store(header, block, stored)
