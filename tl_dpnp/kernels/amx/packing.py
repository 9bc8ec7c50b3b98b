"""Operands of products as images of tiles in the work-item's own memory: 16 words to a row, zeros beyond the matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from llvmlite import ir

from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.rows import MOST
from tl_dpnp.kernels.amx.tiles import Tiles, joined
from tl_dpnp.kernels.dpas.fragments import Matrix, Size, size_value
from tl_dpnp.kernels.llvm import I1, I32, constant, index, masked_load
from tl_dpnp.kernels.narrow_floats import bf16_from_f32
from tl_dpnp.kernels.simd import transpose
from tl_dpnp.records import dataclass

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
    tiles: Tiles
    matrix: Matrix
    operand: Literal["A", "B"]
    size: int
    k: int

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

    def pack(
        self, first: Size, count: int, k: Size, words: int, elements: int, store: Callable[[int, int, ir.Value], None]
    ) -> Iterator[None]:
        """Make an image for each term of an operand: `store` takes the number of a term, that of a row, and the row.

        It has `count` places of the mode of C from `first` on, and `words` along k from `k` on, of which `elements`
        exist.  Rows are vectors of 16 words, and are stored as soon as they are there: those of all terms are more than
        there are registers.  Each step of the iterator emits the rows of all terms at one place, or all rows of a term.
        """
        across = self.lies_across_k if self.operand == "A" else not self.lies_along_k
        if across != (self.operand == "A") and self.kernel.terms > 1:
            yield from self._turned(first, count, k, words, elements, store)
            return
        made = words if across else count
        rows = (self._across(first, count, k, row, words, elements) if across else
                self._along(plus(self.builder, first, row), k, words, elements) for row in range(made))
        if across == (self.operand == "A"):
            for row, terms in enumerate(rows):
                for term, value in enumerate(terms):
                    store(term, row, value)
                yield
            return
        empty = [constant(_WORDS, 0)] * (MOST - made)
        for term, image in enumerate(zip(*rows, strict=True)):
            wanted = words if self.operand == "A" else count
            for row, value in enumerate(transpose(self.builder, [*image, *empty])[:wanted]):
                store(term, row, value)
            yield

    def _turned(
        self, first: Size, count: int, k: Size, words: int, elements: int, store: Callable[[int, int, ir.Value], None]
    ) -> Iterator[None]:
        """Make images of f32 that lie along the other mode: these are transposed, which are fewer than the terms."""
        b, empty = self.builder, constant(ir.VectorType(ir.FloatType(), MOST), 0.0)
        blocks = []
        for start in range(0, elements, words):
            size = min(words, elements - start)
            at = plus(b, k, start)
            if self.operand == "A":
                found = [self._neighbours(self.at(plus(b, first, place), at), size) for place in range(count)]
            else:
                found = [self._neighbours(self.at(first, plus(b, at, place)), count) for place in range(size)]
            blocks.append(transpose(b, [*found, *[empty] * (MOST - len(found))]))
            yield
        for row, pair in enumerate(zip(*blocks, strict=True)):
            if row < (words if self.operand == "A" else count):
                for term, value in enumerate(self._merged(pair)):
                    store(term, row, value)
                yield

    def _across(self, first: Size, count: int, k: Size, word: int, words: int, elements: int) -> list[ir.Value]:
        """Return, for each term, the words at one place along k of neighbours in the mode of C."""
        places = self._places(word, words, elements)
        return self._merged([self._neighbours(self.at(first, plus(self.builder, k, place)), count) for place in places])

    def _along(self, place: Size, k: Size, words: int, elements: int) -> list[ir.Value]:
        """Return, for each term, the words along k at one place in the mode of C."""
        b, per_word = self.builder, self.kernel.row.per_word
        start = self.at(place, k)
        if self.kernel.terms:
            return self._merged([self._neighbours(b.gep(start, [index(first)]), min(words, elements - first))
                                 for first in self._places(0, words, elements)])
        if elements == words * per_word:
            pointer = b.bitcast(start, _WORDS.as_pointer(start.type.addrspace))
            return [self._masked(pointer, words, self.matrix.element.bytes)]
        return [self._joined([self._neighbours(b.gep(start, [index(first)]), min(MOST, elements - first))
                              for first in range(0, elements, MOST)])]

    def _places(self, word: int, words: int, elements: int) -> range:
        """Return the places along k of the elements of a word of a tile.

        They follow one another, but those of f32, which are packed of both operands, so that words are made of whole
        vectors.
        """
        if self.kernel.terms:
            return range(word, elements, words)
        first = word * self.kernel.row.per_word
        return range(first, min(first + self.kernel.row.per_word, elements))

    def _merged(self, found: Sequence[ir.Value]) -> list[ir.Value]:
        """Return words of elements that lie in as many vectors, for each term; without any, zeros."""
        b, width = self.builder, 32 // self.kernel.row.per_word
        if not found:
            return [constant(_WORDS, 0)] * max(1, self.kernel.terms)
        if self.kernel.terms:
            low, *high = (self._terms(value) for value in found)
            if not high:
                return [b.lshr(bits, constant(_WORDS, width)) for bits in low]
            return [self.tiles.upper_halves(*halves) for halves in zip(low, *high, strict=True)]
        missing = self.kernel.row.per_word - len(found)
        return [self.tiles.interleaved([*found, *[constant(found[0].type, 0)] * missing])]

    def _neighbours(self, pointer: ir.Value, count: int) -> ir.Value:
        """Return 16 neighbours as they lie in memory, bits or f32; only `count` of them are read, the others are 0."""
        element = self.matrix.element
        type_ = ir.FloatType() if self.kernel.terms else ir.IntType(element.bits)
        vector = ir.VectorType(type_, MOST).as_pointer(pointer.type.addrspace)
        return self._masked(self.builder.bitcast(pointer, vector), count, element.bytes)

    def _terms(self, value: ir.Value) -> list[ir.Value]:
        """Return the bits of the terms of f32, in the upper halves of words; what is in the lower halves is no part.

        Three are cut off one after the other, each of what the ones before it leave: they have its sign, and the last
        one has no more bits than a bf16.
        """
        b, upper = self.builder, constant(_WORDS, -1 << 16)
        if self.kernel.terms == 1:
            return [b.shl(b.zext(bf16_from_f32(b, value), _WORDS), constant(_WORDS, 16))]
        first = b.bitcast(value, _WORDS)
        rest = b.fsub(value, b.bitcast(b.and_(first, upper), value.type))
        second = b.bitcast(rest, _WORDS)
        last = b.fsub(rest, b.bitcast(b.and_(second, upper), value.type))
        return [first, second, b.bitcast(last, _WORDS)]

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
        return joined(b, [*parts, *[constant(type_, 0)] * (self.kernel.row.per_word - len(parts))])
