"""Operands of products as images of tiles in the work-item's own memory: 16 words to a row, zeros beyond the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from llvmlite import ir

from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.rows import MOST
from tl_dpnp.kernels.dpas.fragments import Matrix, Size, size_value
from tl_dpnp.kernels.llvm import I1, I32, constant, index, masked_load, shuffle
from tl_dpnp.kernels.narrow_floats import bf16_from_f32, f32_from_bf16
from tl_dpnp.kernels.simd import transpose

__all__ = ["Packer", "plus", "times"]

_WORDS = ir.VectorType(I32, MOST)


def plus(builder: ir.IRBuilder, a: Size, b: Size) -> Size:
    """Return the sum of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return a if b == 0 else b if a == 0 else builder.add(size_value(a), size_value(b))


def times(builder: ir.IRBuilder, a: Size, b: Size) -> Size:
    """Return the product of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return a if b == 1 else b if a == 1 else builder.mul(size_value(a), size_value(b))


@dataclass(frozen=True)
class Packer:
    """Makes images of one operand: A, whose tiles have words along k as rows, or B, whose rows run along k.

    `size` is its extent along the mode that C has, too, and `k` along the other one.
    """

    builder: ir.IRBuilder
    kernel: TileKernel
    matrix: Matrix
    operand: Literal["A", "B"]
    size: int
    k: int
    emulated: bool

    @property
    def strides(self) -> tuple[Size, Size]:
        """The strides along the mode of C and along k."""
        first, second = self.matrix.strides
        return (first, second) if self.operand == "A" else (second, first)

    @property
    def lies_along_k(self) -> bool:
        """Whether elements along k follow one another in memory."""
        return self.strides[1] == 1 or self.k == 1

    @property
    def lies_across_k(self) -> bool:
        """Whether elements along the mode of C follow one another in memory."""
        return self.strides[0] == 1 or self.size == 1

    def at(self, place: Size, k: Size) -> ir.Value:
        """Return a pointer to an element."""
        b, (across, along) = self.builder, self.strides
        offset = plus(b, times(b, place, across), times(b, k, along))
        return b.gep(self.matrix.pointer, [size_value(offset)])

    def image(self, first: Size, count: int, k: Size, words: int, elements: int) -> list[list[ir.Value]]:
        """Return the rows of an image for each term of an operand, as vectors of 16 words.

        It has `count` places of the mode of C from `first` on, and `words` along k from `k` on, of which `elements`
        exist.
        """
        across = self.lies_across_k if self.operand == "A" else not self.lies_along_k
        if across:
            rows = [self._across(first, count, k, word, elements) for word in range(words)]
        else:
            rows = [self._along(plus(self.builder, first, place), k, words, elements) for place in range(count)]
        images = [list(image) for image in zip(*rows, strict=True)]
        if across == (self.operand == "A"):
            return images
        empty = constant(_WORDS, 0)
        wanted = words if self.operand == "A" else count
        return [transpose(self.builder, image + [empty] * (MOST - len(image)))[:wanted] for image in images]

    def _across(self, first: Size, count: int, k: Size, word: int, elements: int) -> list[ir.Value]:
        """Return, for each term, the words at one place along k of neighbours in the mode of C."""
        b, per_word = self.builder, self.kernel.row.per_word
        terms: list[ir.Value] = [constant(_WORDS, 0)] * max(1, self.kernel.terms)
        for part in range(per_word):
            place = word * per_word + part
            if place >= elements:
                break
            for term, bits in enumerate(self._elements(self.at(first, plus(b, k, place)), count)):
                wide = b.zext(bits, _WORDS)
                if part:
                    wide = b.or_(terms[term], b.shl(wide, constant(_WORDS, 32 // per_word * part)))
                terms[term] = wide
        return terms

    def _along(self, place: Size, k: Size, words: int, elements: int) -> list[ir.Value]:
        """Return, for each term, the words along k at one place in the mode of C."""
        b, per_word = self.builder, self.kernel.row.per_word
        start = self.at(place, k)
        if not self.kernel.terms and elements == words * per_word:
            pointer = b.bitcast(start, _WORDS.as_pointer(start.type.addrspace))
            return [self._masked(pointer, words, self.matrix.element.bytes)]
        pieces = []
        for part in range(per_word):
            count = min(MOST, elements - part * MOST)
            if count <= 0:
                break
            pieces.append(self._elements(b.gep(start, [index(part * MOST)]), count))
        return [self._joined(list(of_term)) for of_term in zip(*pieces, strict=True)]

    def _elements(self, pointer: ir.Value, count: int) -> list[ir.Value]:
        """Return the bits of 16 neighbours, of each term; only `count` of them are read, the others are 0."""
        b, element = self.builder, self.matrix.element
        if not self.kernel.terms:
            type_ = ir.VectorType(ir.IntType(element.bits), MOST)
            return [self._masked(b.bitcast(pointer, type_.as_pointer(pointer.type.addrspace)), count, element.bytes)]
        type_ = ir.VectorType(ir.FloatType(), MOST)
        value = self._masked(b.bitcast(pointer, type_.as_pointer(pointer.type.addrspace)), count, element.bytes)
        result = []
        for term in range(self.kernel.terms):
            bits = self._rounded(value)
            result.append(bits)
            if term + 1 < self.kernel.terms:
                value = b.fsub(value, f32_from_bf16(b, bits))
        return result

    def _rounded(self, value: ir.Value) -> ir.Value:
        """Return f32 as bf16; processors with tiles have an instruction, which takes subnormals for 0 as tiles do."""
        if self.emulated:
            return bf16_from_f32(self.builder, value)
        type_ = ir.FunctionType(ir.VectorType(ir.IntType(16), MOST), [value.type])
        return self.builder.asm(type_, "vcvtneps2bf16 $1, $0", "=v,v", [value], False)

    def _masked(self, pointer: ir.Value, count: int, alignment: int) -> ir.Value:
        if count == MOST:
            return self.builder.load(pointer, align=alignment)
        active = ir.Constant(ir.VectorType(I1, MOST), [ir.Constant(I1, lane < count) for lane in range(MOST)])
        return masked_load(self.builder, pointer, active, alignment)

    def _joined(self, pieces: Sequence[ir.Value]) -> ir.Value:
        """Return vectors of 16 elements side by side as 16 words; those that are missing are 0."""
        b = self.builder
        type_ = ir.VectorType(I32, MOST // self.kernel.row.per_word)
        parts = [b.bitcast(piece, type_) for piece in pieces]
        parts += [constant(type_, 0)] * (self.kernel.row.per_word - len(parts))
        while len(parts) > 1:
            lanes = parts[0].type.count
            parts = [shuffle(b, low, [high], range(2 * lanes))
                     for low, high in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]
