"""Fragments: the part of A or B that one DPAS takes, loaded from matrices with any strides.

A fragment is one value for each lane, laid out as `rows` says, or several where an f32 operand is a sum of terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir

from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.llvm import I32, builtin, constant, index, undefined
from tl_dpnp.kernels.narrow_floats import bf16_from_f32, f32_from_bf16, tf32_from_f32
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, ScalarType

__all__ = ["Loader", "Matrix", "Size", "size_value"]

#: A size or stride: known, or a 64-bit value.
Size: TypeAlias = int | ir.Value
_F32 = ir.FloatType()


@dataclass(frozen=True)
class Matrix:
    """An operand: a pointer to its first element, in its stored type, and its strides in elements."""

    pointer: ir.Value
    element: ScalarType
    strides: tuple[Size, Size]


def size_value(size: Size) -> ir.Value:
    """Return a size as a 64-bit value."""
    return index(size) if isinstance(size, int) else size


@dataclass(frozen=True)
class Loader:
    """Loads fragments of A (rows along lanes) and of B (columns along DPAS's rows) at a lane of the sub-group."""

    builder: ir.IRBuilder
    kernel: MicroKernel
    lane: ir.Value
    emulated: bool

    def a(self, matrix: Matrix, row: ir.Value, k: ir.Value, end: ir.Value | None) -> list[ir.Value]:
        """Load DPAS's B: this lane's row of A from k on.  Elements from `end` on are zero; all are there for None."""
        dpas = self.kernel.row
        start = self.moved(self.moved(matrix.pointer, k, matrix.strides[1]), row, matrix.strides[0])
        if matrix.strides[1] == 1 and end is None and not self.kernel.terms:
            wide = operand_types(dpas)[1]
            return [self.builder.load(self.cast(start, wide), align=matrix.element.bytes)]
        per_word = dpas.operations
        elements = [
            self.element(matrix, start, matrix.strides[1], self.builder.add(k, index(place)), place, end)
            for place in range(dpas.k)
        ]
        result = []
        for term in range(max(self.kernel.terms, 1)):
            value = undefined(operand_types(dpas)[1])
            for number in range(dpas.b_elements):
                parts = [bits[term] for bits in elements[number * per_word : (number + 1) * per_word]]
                word = self.packed(parts, dpas.source1.bits)
                value = self.builder.insert_element(value, word, ir.Constant(I32, number))
            result.append(value)
        return result

    def b(self, matrix: Matrix, columns: Sequence[ir.Value], k: ir.Value, end: ir.Value | None) -> list[ir.Value]:
        """Load DPAS's A: for each of the columns of B, this lane's elements from k on."""
        dpas = self.kernel.row
        bits, width = dpas.source2.bits, dpas.a_width
        # A lane holds some elements of a row, or a part of one.
        count, parts = max(1, width // bits), max(1, bits // width)
        own = self.builder.udiv(self.lane, index(parts)) if parts > 1 else self.builder.mul(self.lane, index(count))
        place = self.builder.add(k, own)
        words: list[list[ir.Value]] = []
        for column in columns:
            start = self.moved(matrix.pointer, column, matrix.strides[1])
            if matrix.strides[0] == 1 and end is None and not self.kernel.terms and parts == 1:
                start = self.builder.gep(start, [place])
                words.append([self.builder.load(self.cast(start, ir.IntType(width)), align=matrix.element.bytes)])
                continue
            start = self.moved(start, place, matrix.strides[0])
            elements = [
                self.element(matrix, start, matrix.strides[0], self.builder.add(place, index(number)), number, end)
                for number in range(count)
            ]
            terms = []
            for term in range(max(self.kernel.terms, 1)):
                word = self.packed([element[term] for element in elements], bits)
                if parts > 1:
                    part = self.builder.trunc(self.builder.urem(self.lane, index(parts)), I32)
                    word = self.builder.lshr(word, self.builder.mul(part, ir.Constant(I32, width)))
                terms.append(word if width == 32 else self.builder.trunc(word, ir.IntType(width)))
            words.append(terms)
        result = []
        for term in range(max(self.kernel.terms, 1)):
            value = undefined(operand_types(dpas)[0])
            for number, word in enumerate(words):
                value = word[term] if len(words) == 1 else self.builder.insert_element(
                    value, word[term], ir.Constant(I32, number))
            result.append(value)
        return result

    def elements_at(
        self, matrix: Matrix, line: ir.Value, k: ir.Value, count: int, end: ir.Value
    ) -> list[list[ir.Value]]:
        """Load elements from k on, each as the bits of its terms, zeros from `end` on.

        The matrix has strides along lines and along k.
        """
        start = self.moved(self.moved(matrix.pointer, line, matrix.strides[0]), k, matrix.strides[1])
        return [self.element(matrix, start, matrix.strides[1], self.builder.add(k, index(place)), place, end)
                for place in range(count)]

    def element(
        self, matrix: Matrix, start: ir.Value, stride: Size, k: ir.Value, place: int, end: ir.Value | None
    ) -> list[ir.Value]:
        """Load one element as the bits of its terms; it is `place` strides behind `start`, at `k` along the sum."""
        inside = None
        distance: Size = place
        if end is not None:
            # An element outside is loaded from the last place inside, and dropped.
            inside = self.builder.icmp_signed("<", k, end)
            beyond = self.builder.sub(self.builder.add(k, index(1)), end)
            distance = self.builder.sub(index(place), self.builder.select(inside, index(0), beyond))
        pointer = self.moved(start, distance, stride)
        if matrix.element == F32:
            value = self.builder.load(pointer, align=4)
            if inside is not None:
                value = self.builder.select(inside, value, ir.Constant(_F32, 0.0))
            return self.terms(value)
        raw = ir.IntType(matrix.element.bits)
        value = self.builder.load(self.cast(pointer, raw), align=matrix.element.bytes)
        return [value if inside is None else self.builder.select(inside, value, constant(raw, 0))]

    def terms(self, value: ir.Value) -> list[ir.Value]:
        """Return the bits of the terms of an f32: each is what the ones before it leave, rounded."""
        if self.kernel.row.source1.name == "tf32":
            if isinstance(value, ir.SelectInstr) and getattr(value.rhs, "constant", None) == 0 and not self.emulated:
                # Zero outside: where that is known the compiler would convert a constant, which vISA does not take.
                return [self.builder.select(value.cond, *self.terms(value.lhs), constant(I32, 0))]
            if not self.emulated:
                return [builtin(self.builder, "_Z25intel_convert_f32_to_tf32f", I32, [value], ("nounwind", "readnone"))]
            return [tf32_from_f32(self.builder, self.builder.bitcast(value, I32))]
        result = []
        for number in range(self.kernel.terms):
            bits = rounded_to_bf16(self.builder, value, self.emulated)
            result.append(bits)
            if number + 1 < self.kernel.terms:
                value = self.builder.fsub(value, f32_from_bf16(self.builder, bits))
        return result

    def packed(self, parts: Sequence[ir.Value], bits: int) -> ir.Value:
        """Return elements side by side in 32 bits, the first one lowest."""
        narrow = ir.IntType(bits)
        fills = bits < I32.width == bits * len(parts)
        if fills and not self.emulated and all(part.type == narrow for part in parts):
            # A move for each: of what is shifted and put together compilers make more.
            vector = undefined(ir.VectorType(narrow, len(parts)))
            for number, part in enumerate(parts):
                vector = self.builder.insert_element(vector, part, constant(I32, number))
            return self.builder.bitcast(vector, I32)
        word: ir.Value | None = None
        for number, part in enumerate(parts):
            wide = part if part.type == I32 else self.builder.zext(part, I32)
            wide = self.builder.shl(wide, constant(I32, number * bits)) if number else wide
            word = wide if word is None else self.builder.or_(word, wide)
        assert word is not None
        return word

    def moved(self, pointer: ir.Value, count: Size, stride: Size) -> ir.Value:
        """Return a pointer moved by some strides."""
        if isinstance(count, int) and isinstance(stride, int):
            return self.builder.gep(pointer, [index(count * stride)]) if count * stride else pointer
        offset = size_value(count) if stride == 1 else self.builder.mul(size_value(count), size_value(stride))
        return self.builder.gep(pointer, [offset])

    def cast(self, pointer: ir.Value, type_: ir.Type) -> ir.Value:
        """Return the pointer as one to another type."""
        return self.builder.bitcast(pointer, type_.as_pointer(pointer.type.addrspace))


def rounded_to_bf16(builder: ir.IRBuilder, value: ir.Value, emulated: bool) -> ir.Value:
    """Return an f32 as bf16, by the instruction of the devices that have DPAS."""
    if emulated:
        return bf16_from_f32(builder, value)
    name = "_Z25intel_convert_f32_to_bf16f"
    return builtin(builder, name, ir.IntType(16), [value], ("nounwind", "readnone"))
