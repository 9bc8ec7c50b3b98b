"""Loads of several rows, or of several elements along k, at a time: for devices that have no loads of blocks (Xe-HPG).

Two freedoms make packing cheap.  The rows of a tile may go to its blocks in any order: lane l takes neighbouring rows,
one for each block, with one load.  And k may be summed in any order that is the same for both operands: lane l takes
neighbouring elements of a column of B, which belong to DPAS after DPAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Matrix, Size
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.llvm import I32, I64, constant, index, undefined, vector_of

__all__ = ["WideLoader", "is_aligned"]

_I16 = ir.IntType(16)
_WORD_BYTES = 4


def is_aligned(builder: ir.IRBuilder, *pointers: ir.Value) -> ir.Value:
    """Whether addresses are multiples of those of words."""
    bits = index(0)
    for pointer in pointers:
        bits = builder.or_(bits, builder.ptrtoint(pointer, I64))
    return builder.icmp_unsigned("==", builder.and_(bits, index(_WORD_BYTES - 1)), index(0))


@dataclass(frozen=True)
class WideLoader:
    """Loads the fragments of all steps of an iteration; row i of lane l is row ``l * lane_blocks + i`` of the tile."""

    builder: ir.IRBuilder
    kernel: MicroKernel
    lane: ir.Value

    def a(self, matrix: Matrix, row: ir.Value, k: ir.Value, step: int) -> list[ir.Value]:
        """Return the fragment of each block for a step; `row` is this lane's first row."""
        builder, kernel = self.builder, self.kernel
        pitch: Size = matrix.strides[1]
        assert isinstance(pitch, int)
        start = builder.gep(matrix.pointer, [builder.add(builder.mul(k, index(pitch)), row)])
        rows: list[ir.Value] = []
        for place in range(kernel.row.k):
            # Word d of a fragment holds the elements 2 d and 2 d + 1 of its step.
            number = 2 * kernel.steps * (place // 2) + 2 * step + place % 2
            pointer = builder.gep(start, [index(number * pitch)])
            wide = vector_of(I32, kernel.lane_blocks // 2)
            words = builder.load(builder.bitcast(pointer, wide.as_pointer(pointer.type.addrspace)), align=4)
            rows.append(builder.bitcast(words, vector_of(_I16, kernel.lane_blocks)))
        fragments = []
        for block in range(kernel.lane_blocks):
            value = undefined(vector_of(_I16, kernel.row.k))
            for place, loaded in enumerate(rows):
                element = builder.extract_element(loaded, constant(I32, block))
                value = builder.insert_element(value, element, constant(I32, place))
            fragments.append(builder.bitcast(value, operand_types(kernel.row)[1]))
        return fragments

    def b(self, matrix: Matrix, columns: Sequence[ir.Value], k: ir.Value) -> list[ir.Value]:
        """Return the fragment of some columns for each step."""
        builder, kernel = self.builder, self.kernel
        pitch: Size = matrix.strides[1]
        assert isinstance(pitch, int)
        own = builder.add(k, builder.mul(self.lane, index(2 * kernel.steps)))
        wide = vector_of(I32, kernel.steps)
        type_ = operand_types(kernel.row)[0]
        fragments: list[ir.Value] = [undefined(type_)] * kernel.steps
        for number, column in enumerate(columns):
            pointer = builder.gep(matrix.pointer, [builder.add(builder.mul(column, index(pitch)), own)])
            words = builder.load(builder.bitcast(pointer, wide.as_pointer(pointer.type.addrspace)), align=4)
            for step in range(kernel.steps):
                word = words if kernel.steps == 1 else builder.extract_element(words, constant(I32, step))
                fragments[step] = word if len(columns) == 1 else builder.insert_element(
                    fragments[step], word, constant(I32, number))
        return fragments
