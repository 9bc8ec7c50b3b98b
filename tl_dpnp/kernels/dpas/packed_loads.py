"""Fragments of matrices whose elements share bytes: integers of 4 and 2 bits.

DPAS takes such elements as they lie in memory, the first one in the lowest bits, if they follow one another along k:
a lane's part is then loaded at once.  Along the other mode each element is taken out of its byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Loader, Matrix, Size, size_value
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.llvm import I32, constant, index, lanes, undefined
from tl_dpnp.records import dataclass

__all__ = ["PackedLoader"]


@dataclass(frozen=True)
class PackedLoader(Loader):
    """Loads fragments of a matrix, `per_byte` elements of which share a byte; each is one term."""

    per_byte: int = 1

    def a(self, matrix: Matrix, row: ir.Value, k: ir.Value, end: ir.Value | None) -> list[ir.Value]:
        """Load DPAS's B: this lane's row of A from k on.  Elements from `end` on are zero; all are there for None."""
        type_ = operand_types(self.kernel.row)[1]
        return [self.along_k(matrix, (matrix.strides[1], matrix.strides[0]), k, row, type_, end)]

    def b(self, matrix: Matrix, columns: Sequence[ir.Value], k: ir.Value, end: ir.Value | None) -> list[ir.Value]:
        """Load DPAS's A: for each of the columns of B, this lane's elements from k on."""
        builder, dpas = self.builder, self.kernel.row
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
        value = undefined(type_)
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
            start = builder.gep(matrix.pointer, [self.in_bytes(other, strides[1])])
            if end is None:
                pointer = builder.gep(start, [self.in_bytes(k, 1)])
                return builder.load(builder.bitcast(pointer, type_.as_pointer(pointer.type.addrspace)), align=1)
            # K fills whole bytes here: these are zero from the end on.
            step, width, shift = element.per_byte, 8, None
        else:
            start = builder.gep(matrix.pointer, [self.in_bytes(other, 1)])
            step, width, shift = 1, element.bits, self.field(other)
        parts = []
        for number in range(bits // width):
            place = builder.add(k, index(number * step)) if number else k
            inside = None if end is None else builder.icmp_signed("<", place, end)
            if inside is not None:
                place = builder.select(inside, place, builder.sub(end, index(step)))
            part = self.part(builder.gep(start, [self.in_bytes(place, strides[0])]), shift)
            parts.append(part if inside is None else builder.select(inside, part, constant(I32, 0)))
        return self.joined(parts, width, type_)

    def elements_at(
        self, matrix: Matrix, line: ir.Value, k: ir.Value, count: int, end: ir.Value
    ) -> list[list[ir.Value]]:
        """Load elements from k on, zeros from `end` on; the matrix has strides along lines and along k."""
        builder, result = self.builder, []
        for number in range(count):
            place = builder.add(k, index(number))
            inside = builder.icmp_signed("<", place, end)
            place = builder.select(inside, place, builder.sub(end, index(1)))
            pointer = matrix.pointer
            for where, stride in zip((line, place), matrix.strides, strict=True):
                pointer = builder.gep(pointer, [self.in_bytes(where, stride)])
            part = self.part(pointer, self.field(place if matrix.strides[1] == 1 else line))
            result.append([builder.select(inside, part, constant(I32, 0))])
        return result

    def part(self, pointer: ir.Value, shift: ir.Value | None) -> ir.Value:
        """Load the element of a byte from a bit on, or the whole byte for None, as 32 bits."""
        byte = self.builder.zext(self.builder.load(pointer, align=1), I32)
        if shift is None:
            return byte
        return self.builder.and_(self.builder.lshr(byte, shift), constant(I32, (1 << 8 // self.per_byte) - 1))

    def field(self, place: ir.Value) -> ir.Value:
        """Return the bit of its byte where an element starts, from its place along the packed mode."""
        field = self.builder.trunc(self.builder.and_(place, index(self.per_byte - 1)), I32)
        return self.builder.mul(field, constant(I32, 8 // self.per_byte))

    def moved(self, pointer: ir.Value, count: Size, stride: Size) -> ir.Value:
        """Return a pointer moved by some strides, which are whole bytes together."""
        return self.builder.gep(pointer, [self.in_bytes(size_value(count), stride)])

    def in_bytes(self, count: ir.Value, stride: Size) -> ir.Value:
        """Return a distance of some strides, which are whole bytes or end in one, in bytes."""
        shift = index(self.per_byte.bit_length() - 1)
        if stride == 1:
            return self.builder.lshr(count, shift)
        known = isinstance(stride, int)
        step = index(stride // self.per_byte) if known else self.builder.lshr(size_value(stride), shift)
        return self.builder.mul(count, step)

    def joined(self, parts: Sequence[ir.Value], width: int, type_: ir.Type) -> ir.Value:
        """Return parts of some bits side by side, the first one lowest, as a number or a vector of numbers."""
        builder = self.builder
        word_type = getattr(type_, "element", type_)
        per_word = word_type.width // width
        result = undefined(type_)
        for number in range(lanes(type_)):
            word: ir.Value = constant(I32, 0)
            for place, part in enumerate(parts[number * per_word : (number + 1) * per_word]):
                word = builder.or_(word, builder.shl(part, constant(I32, place * width)))
            word = word if word_type == I32 else builder.trunc(word, word_type)
            result = word if lanes(type_) == 1 else builder.insert_element(result, word, constant(I32, number))
        return result
