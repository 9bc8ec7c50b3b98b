"""Fragments of matrices whose elements share bytes: integers of 4 and 2 bits.

DPAS takes such elements as they lie in memory, the first one in the lowest bits, if they follow one another along k:
a lane's part is then loaded at once.  Along the other mode each element is taken out of its byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Matrix, Size, size_value
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.llvm import I32, constant, index, lanes

__all__ = ["PackedLoader"]


@dataclass(frozen=True)
class PackedLoader:
    """Loads fragments as `tl_dpnp.kernels.dpas.fragments.Loader` does; each is one term."""

    builder: ir.IRBuilder
    row: DpasRow
    lane: ir.Value

    def a(self, matrix: Matrix, row: ir.Value, k: ir.Value, end: ir.Value | None) -> list[ir.Value]:
        """Load DPAS's B: this lane's row of A from k on.  Elements from `end` on are zero; all are there for None."""
        type_ = operand_types(self.row)[1]
        return [self.along_k(matrix, (matrix.strides[1], matrix.strides[0]), k, row, type_, end)]

    def b(self, matrix: Matrix, columns: Sequence[ir.Value], k: ir.Value, end: ir.Value | None) -> list[ir.Value]:
        """Load DPAS's A: for each of the columns of B, this lane's elements from k on."""
        builder, dpas = self.builder, self.row
        type_ = operand_types(dpas)[0]
        element = getattr(type_, "element", type_)
        count = dpas.a_width // dpas.source2.bits
        own = self.lane
        places = list(columns)
        if dpas.a_elements < dpas.repeat:
            # Two rows of DPAS's A share one element of all lanes: the first one is in the lower half of them.
            half = index(dpas.execution_size // 2)
            is_first = builder.icmp_unsigned("<", own, half)
            own = builder.urem(own, half)
            places = [builder.select(is_first, *pair) for pair in zip(columns[::2], columns[1::2], strict=True)]
        place = builder.add(k, builder.mul(own, index(count)))
        value = ir.Constant(type_, ir.Undefined)
        for number, column in enumerate(places):
            part = self.along_k(matrix, matrix.strides, place, column, element, end)
            value = part if len(places) == 1 else builder.insert_element(value, part, constant(I32, number))
        return [value]

    def along_k(
        self, matrix: Matrix, strides: tuple[Size, Size], k: ir.Value, other: ir.Value, type_: ir.Type,
        end: ir.Value | None,
    ) -> ir.Value:
        """Return elements from k on, packed, at one place along the other mode; `strides` are along both, k first."""
        builder, element = self.builder, matrix.element
        bits = getattr(type_, "element", type_).width * lanes(type_)
        if strides[0] == 1:
            start = builder.gep(matrix.pointer, [self.in_bytes(other, strides[1], element.per_byte)])
            if end is None:
                pointer = builder.gep(start, [self.in_bytes(k, 1, element.per_byte)])
                return builder.load(builder.bitcast(pointer, type_.as_pointer(pointer.type.addrspace)), align=1)
            # K fills whole bytes here: these are zero from the end on.
            step, width, shift = element.per_byte, 8, None
        else:
            start = builder.gep(matrix.pointer, [self.in_bytes(other, 1, element.per_byte)])
            field = builder.and_(other, index(element.per_byte - 1))
            step, width = 1, element.bits
            shift = builder.mul(builder.trunc(field, I32), constant(I32, element.bits))
        parts = []
        for number in range(bits // width):
            place = builder.add(k, index(number * step)) if number else k
            inside = None if end is None else builder.icmp_signed("<", place, end)
            if inside is not None:
                place = builder.select(inside, place, builder.sub(end, index(step)))
            part = builder.load(builder.gep(start, [self.in_bytes(place, strides[0], element.per_byte)]), align=1)
            part = builder.zext(part, I32)
            if shift is not None:
                part = builder.and_(builder.lshr(part, shift), constant(I32, (1 << width) - 1))
            parts.append(part if inside is None else builder.select(inside, part, constant(I32, 0)))
        return self.packed(parts, width, type_)

    def in_bytes(self, count: ir.Value, stride: Size, per_byte: int) -> ir.Value:
        """Return a distance of some strides, which are whole bytes or end in one, in bytes."""
        shift = index(per_byte.bit_length() - 1)
        if stride == 1:
            return self.builder.lshr(count, shift)
        step = index(stride // per_byte) if isinstance(stride, int) else self.builder.lshr(size_value(stride), shift)
        return self.builder.mul(count, step)

    def packed(self, parts: Sequence[ir.Value], width: int, type_: ir.Type) -> ir.Value:
        """Return parts of some bits side by side, the first one lowest, as a number or a vector of numbers."""
        builder = self.builder
        word_type = getattr(type_, "element", type_)
        per_word = word_type.width // width
        result = ir.Constant(type_, ir.Undefined)
        for number in range(lanes(type_)):
            word: ir.Value = constant(I32, 0)
            for place, part in enumerate(parts[number * per_word : (number + 1) * per_word]):
                word = builder.or_(word, builder.shl(part, constant(I32, place * width)))
            word = word if word_type == I32 else builder.trunc(word, word_type)
            result = word if lanes(type_) == 1 else builder.insert_element(result, word, constant(I32, number))
        return result
