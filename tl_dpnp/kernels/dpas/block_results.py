"""Tiles of C that messages of blocks store, and load where C is added to."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, Surface
from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, Block
from tl_dpnp.kernels.dpas.fragments import Matrix, Size
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.operands import may_be_surface
from tl_dpnp.kernels.llvm import GLOBAL, I32, constant, index, undefined
from tl_dpnp.records import dataclass

__all__ = ["Result", "TileStores", "result_surface"]


@dataclass(frozen=True)
class Result:
    """C, whose elements are set: `value` returns one as it is stored.

    It takes a row, which differs from lane to lane, a column, the sum, and what C holds there, None where `reads`
    does not say that it is needed.
    """

    matrix: Matrix
    reads: bool
    value: Callable[[ir.Value, ir.Value, ir.Value, ir.Value | None], ir.Value]


def result_surface(result: Result | None, m: Size, n: Size) -> Surface | None:
    """Return C as messages take it, None where what is known of it does not allow them."""
    if result is None:
        return None
    matrix = result.matrix
    bits = matrix.element.bits
    if matrix.pointer.type.addrspace != GLOBAL or matrix.strides[0] != 1 or bits not in (16, 32):
        return None
    return Surface(matrix.pointer, bits, m, n, matrix.strides[1]) if may_be_surface(
        bits, m, n, matrix.strides[1]) else None


@dataclass(frozen=True)
class TileStores:
    """Stores tiles of C, which is `surface`; `order` are the columns of a tile as DPAS makes them, block by block."""

    kernel: MicroKernel
    accumulators: Accumulators
    result: Result
    surface: Surface
    order: Sequence[int]

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.accumulators.builder

    @property
    def messages(self) -> BlockMessages:
        """What moves blocks."""
        return self.accumulators.messages

    def store(self, first_row: ir.Value, first_column: ir.Value, value: Callable[[int], ir.Value]) -> None:
        """Store a tile by a message for each block, whose sums `value` returns by its number, column after column.

        What is outside of C is not written.
        """
        kernel, builder, messages, surface = self.kernel, self.builder, self.messages, self.surface
        row = kernel.row
        block = Block("plain", surface.bits, row.execution_size, row.repeat)
        type_ = ir.IntType(16) if surface.bits == 16 else self.result.matrix.pointer.type.pointee
        below = messages.step(COLUMN, row.execution_size)
        beside = messages.step(ROW, row.repeat)
        first = messages.header(surface, block, first_row, first_column)
        places = [divmod(self.order.index(column), row.repeat) for column in range(kernel.tile_columns)]
        for i in range(kernel.lane_blocks):
            # Each is read once, where it is needed first: all of them again are as many registers as the sums.
            read = functools.cache(lambda j, i=i: value(j * kernel.lane_blocks + i))
            own = builder.add(builder.add(first_row, messages.lane), index(i * row.execution_size))
            header = first
            for j in range(kernel.column_blocks):
                column = builder.add(first_column, index(j * row.repeat))
                totals = [self._element(read(place), number)
                          for place, number in places[j * row.repeat : (j + 1) * row.repeat]]
                self._store_block(block, header, own, column, totals, type_)
                header = builder.add(header, beside)
            first = builder.add(first, below)

    def _element(self, value: ir.Value, number: int) -> ir.Value:
        """Return an element of a value, which may be a single one."""
        if not isinstance(value.type, ir.VectorType):
            return value
        return self.builder.extract_element(value, constant(I32, number))

    def _store_block(
        self, block: Block, header: ir.Value, row: ir.Value, column: ir.Value,
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
            new = result.value(row, builder.add(column, index(number)), one, held)
            new = builder.bitcast(new, type_)
            stored = new if repeat == 1 else builder.insert_element(stored, new, constant(I32, number))
        self.messages.store(header, block, stored)
