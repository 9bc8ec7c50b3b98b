"""Operands of a work-group in local memory, packed there as DPAS takes them.

A piece is what an iteration of the loop over k multiplies.  It lies in local memory as fragments, each an image of the
registers that hold it (`rows`): a sub-group reads a fragment with one block read.  Rows of A and columns of B are both
called lines here: a fragment of A has its words line after line within each word of k, one of B the other way around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Loader, Matrix, Size, size_value
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.llvm import I32, I64, builtin, constant, counted_loop, index, lanes, undefined, vector_of
from tl_dpnp.scalars import F32

__all__ = [
    "LocalTile", "Piece", "Unit", "needed_for_words", "piece_words", "packed_bytes", "packed_registers", "unit_of",
]

_WORD_BITS = 32
#: Words that one load takes at most.
_MOST_WORDS = 4
#: What block reads of local memory are called, by the bits of an element, and its letter in mangled names.
_BLOCK_READS = {8: ("_uc", "h"), 16: ("_us", "t"), 32: ("", "j")}


@dataclass(frozen=True)
class Piece:
    """The lines of an operand in local memory, and how its fragments lie there.

    A fragment has `lines` lines of `words` 32-bit words, the lines of a word next to each other if it is `across`, as
    those of A, else the words of a line.  There are `blocks` fragments along the lines, `steps` along k, and `terms`.
    """

    lines: int
    words: int
    across: bool
    blocks: int
    steps: int
    terms: int
    bits: int

    @property
    def per_word(self) -> int:
        """Elements in a word."""
        return _WORD_BITS // self.bits

    @property
    def fragment(self) -> int:
        """Words of a fragment."""
        return self.lines * self.words

    @property
    def size(self) -> int:
        """Words of all fragments."""
        return self.fragment * self.blocks * self.steps * self.terms

    @property
    def all_lines(self) -> int:
        """Lines of all fragments."""
        return self.lines * self.blocks

    @property
    def all_words(self) -> int:
        """Words of a line, of one term."""
        return self.words * self.steps

    def first(self, block: int, step: int, term: int) -> int:
        """Return the first word of a fragment."""
        return ((block * self.steps + step) * self.terms + term) * self.fragment


def piece_words(kernel: MicroKernel, rows: int, columns: int) -> tuple[Piece, Piece]:
    """Return how pieces of A and B lie in local memory for so many rows and columns of sub-groups."""
    row, terms = kernel.row, max(1, kernel.terms)
    b_words = row.k * row.source2.bits // _WORD_BITS
    return (
        Piece(row.execution_size, row.b_elements, True, rows * kernel.lane_blocks, kernel.steps, terms,
              row.source1.bits),
        Piece(row.repeat, b_words, False, columns * kernel.column_blocks, kernel.steps, terms, row.source2.bits),
    )


def packed_bytes(kernel: MicroKernel, rows: int, columns: int) -> int:
    """Return the local memory that a packed micro-kernel takes: one piece is filled while the other is multiplied."""
    return 2 * sum(piece.size for piece in piece_words(kernel, rows, columns)) * _WORD_BITS // 8


def needed_for_words(strides: tuple[object, ...], lines: object, piece: Piece) -> list[tuple[object, int]] | None:
    """Return what must be so that narrow elements can be loaded by words: values and what they are multiples of.

    None where that cannot be.  Strides are along lines and along k.
    """
    match strides:
        case (pitch, 1):
            needed = [(pitch, piece.per_word)]
        case (1, pitch) if piece.lines % piece.per_word == 0:
            # What is known at compile time decides how many lines a load takes, else it takes most.
            most = math.gcd(_MOST_WORDS * piece.per_word, piece.lines)
            needed = [(pitch, piece.per_word), (lines, piece.per_word if isinstance(lines, int) else most)]
        case _:
            return None
    return None if any(isinstance(value, int) and value % divisor for value, divisor in needed) else needed


def packed_registers(
    kernel: MicroKernel, rows: int, columns: int, operands: Sequence[tuple[tuple[object, ...], object]]
) -> int:
    """Return the registers that values of a packed micro-kernel take: sums, fragments, what is loaded, and addresses.

    Both operands are given by their strides, along lines and along k, and the number of their lines; anything but an
    int is not known.
    """
    row, is_f32 = kernel.row, kernel.terms > 0
    items = row.execution_size * rows * columns
    sums = kernel.lane_blocks * kernel.column_blocks * row.repeat * len(kernel.products)
    words_of_a_lane = kernel.lane_blocks * row.b_elements + row.a_elements * row.a_width // _WORD_BITS
    total = sums + max(1, kernel.terms) * words_of_a_lane
    for piece, (strides, lines) in zip(piece_words(kernel, rows, columns), operands, strict=True):
        by_words = not is_f32 and needed_for_words(strides, lines, piece) is not None
        unit = unit_of(piece, strides, lines, items, is_f32, by_words)
        words = unit.lines * unit.words
        units = -(-piece.all_lines * piece.all_words // (words * items))
        # An address in global memory takes two registers, one in local memory one.
        stores = unit.words if piece.across else unit.lines
        total += units * (words * (1 if by_words else piece.per_word) + 2 + stores)
    return total


@dataclass(frozen=True)
class Unit:
    """What a work-item loads and packs at a time: neighbouring lines and words; `along` k if a load is."""

    lines: int
    words: int
    along: bool


def unit_of(
    piece: Piece, strides: tuple[object, ...], lines: object, items: int, is_f32: bool, by_words: bool
) -> Unit:
    """Return the largest unit that strides along lines and k allow and that leaves something to do for all items.

    Narrow elements are loaded `by_words` or one by one.
    """
    share = 1 << (max(1, piece.all_lines * piece.all_words // items).bit_length() - 1)
    if strides[1] == 1 and (by_words or is_f32):
        # A load of f32 takes as many elements as words, which are packed afterwards.
        words = max(1, _MOST_WORDS // piece.per_word) if is_f32 else _MOST_WORDS
        return Unit(1, math.gcd(words, piece.words, share), True)
    if strides[0] == 1 and is_f32:
        return Unit(math.gcd(_MOST_WORDS, piece.lines, share, lines if isinstance(lines, int) else 1), 1, False)
    if strides[0] == 1 and by_words:
        size = lines if isinstance(lines, int) else piece.lines
        most = math.gcd(_MOST_WORDS * piece.per_word, piece.lines, size)
        return Unit(math.gcd(most, max(piece.per_word, share)), 1, False)
    return Unit(1, 1, strides[1] == 1)


@dataclass
class LocalTile:
    """The lines of an operand that a work-group needs, from `first_line` on, of `size` in all.

    `item` is the work-item's number among `items`.  `base` points to the words of the first of two pieces; an offset,
    in words, says which one is meant.  The matrix has strides along lines and along k; `wide` allows loads of whole
    words of it.
    """

    builder: ir.IRBuilder
    loader: Loader
    piece: Piece
    matrix: Matrix
    first_line: ir.Value
    size: Size
    item: ir.Value
    items: int
    base: ir.Value
    wide: bool

    # --- what each work-item does ------------------------------------------------------------------------------------

    @cached_property
    def unit(self) -> Unit:
        """What the strides allow to load at a time."""
        return unit_of(self.piece, self.matrix.strides, self.size, self.items, self.matrix.element == F32, self.wide)

    @property
    def by_line(self) -> bool:
        """Whether neighbouring work-items take neighbouring lines, rather than words of a line."""
        return self.piece.across or self.matrix.strides[1] != 1

    @cached_property
    def places(self) -> list[tuple[ir.Value, ir.Value]]:
        """The first line and word of each unit of this work-item.

        Where units run out, some are done twice: equal words are stored, which takes no branches.
        """
        unit, piece, builder = self.unit, self.piece, self.builder
        lines, words = piece.all_lines // unit.lines, piece.all_words // unit.words
        fast, slow = (lines, words) if self.by_line else (words, lines)
        count = -(-fast * slow // self.items)
        result = []
        for number in range(count):
            # Where one number divides the other, the units of a work-item are at constant distances.
            if count * self.items == fast * slow and self.items % fast == 0:
                late, quick = self.divided(self.item, fast)
                late = builder.add(late, index(number * (self.items // fast)))
            elif fast % self.items == 0:
                rows, rest = divmod(number, fast // self.items)
                quick, late = builder.add(self.item, index(rest * self.items)), index(rows)
            else:
                one = builder.add(self.item, index(number * self.items))
                late, quick = self.divided(self.divided(one, fast * slow)[1], fast)
            line, word = (quick, late) if self.by_line else (late, quick)
            result.append((self.times(line, unit.lines), self.times(word, unit.words)))
        return result

    def times(self, value: ir.Value, factor: int) -> ir.Value:
        return value if factor == 1 else self.builder.mul(value, index(factor))

    def divided(self, value: ir.Value, divisor: int) -> tuple[ir.Value, ir.Value]:
        """Return a small number's quotient and rest: a division of 64 bits takes GPUs long."""
        builder, narrow = self.builder, self.builder.trunc(value, I32)
        parts = (builder.udiv(narrow, constant(I32, divisor)), builder.urem(narrow, constant(I32, divisor)))
        return builder.zext(parts[0], I64), builder.zext(parts[1], I64)

    @cached_property
    def sources(self) -> list[ir.Value]:
        """The pointer to each unit of the first piece."""
        result = []
        for line, word in self.places:
            place = self.times(word, self.piece.per_word)
            start = self.loader.moved(self.matrix.pointer, place, self.matrix.strides[1])
            result.append(self.loader.moved(start, self.present(line, self.unit.lines), self.matrix.strides[0]))
        return result

    def present(self, line: ir.Value, count: int) -> ir.Value:
        """Return the line of the matrix for one of the tile: lines beyond the last one are copies."""
        line = self.builder.add(self.first_line, line)
        if isinstance(self.size, int) and self.size % self.piece.all_lines == 0:
            return line
        last = self.builder.sub(size_value(self.size), index(count))
        return self.builder.select(self.builder.icmp_signed("<", line, last), line, last)

    # --- from the matrix to local memory -----------------------------------------------------------------------------

    def fetch(self, k: ir.Value) -> list[list[ir.Value]]:
        """Load this work-item's share of the piece that starts at k, all of which is inside of the matrix."""
        unit, matrix = self.unit, self.matrix
        result = []
        for pointer in self.sources:
            start = self.loader.moved(pointer, k, matrix.strides[1])
            if unit.along and (self.wide or matrix.element == F32):
                result.append([self.load(start, unit.words * self.piece.per_word)])
            else:
                result.append([
                    self.load(self.loader.moved(start, place, matrix.strides[1]), unit.lines)
                    for place in range(self.piece.per_word)
                ])
        return result

    def load(self, pointer: ir.Value, count: int) -> ir.Value:
        """Load neighbouring elements, in words where they fill some; a single narrow one as its bits."""
        element = self.matrix.element
        if element == F32:
            type_ = vector_of(ir.FloatType(), count)
        elif count * element.bits % _WORD_BITS == 0:
            type_ = vector_of(I32, count * element.bits // _WORD_BITS)
        else:
            type_ = ir.IntType(element.bits)
        return self.builder.load(self.loader.cast(pointer, type_), align=min(4, element.bytes * count))

    def commit(self, fetched: Sequence[Sequence[ir.Value]], offset: ir.Value) -> None:
        """Pack what was fetched and store it, `offset` words behind the base."""
        for loads, (line, word) in zip(fetched, self.places, strict=True):
            for term, grid in enumerate(self.packed(loads)):
                self.store(grid, line, word, term, offset)

    def packed(self, loads: Sequence[ir.Value]) -> list[list[list[ir.Value]]]:
        """Return the words of a unit, for each term, line and word."""
        unit, per_word = self.unit, self.piece.per_word
        if self.matrix.element == F32:
            values = [self.elements(value) for value in loads]
            # One load along k, or one for each element along it.
            grid = values if unit.along and len(loads) == 1 else [list(line) for line in zip(*values, strict=True)]
            split = [[self.loader.terms(value) for value in line] for line in grid]
            return [
                [[self.loader.packed([bits[term] for bits in line[place : place + per_word]], self.piece.bits)
                  for place in range(0, len(line), per_word)] for line in split]
                for term in range(self.piece.terms)
            ]
        if len(loads) == 1:
            return [[self.elements(loads[0])]]
        if loads[0].type != I32 and lanes(loads[0].type) == 1:
            return [[[self.loader.packed(loads, self.piece.bits)]]]
        columns = self.transposed(list(loads))
        parts = [self.elements(column) for column in columns]
        return [[[parts[line % per_word][line // per_word]] for line in range(unit.lines)]]

    def elements(self, value: ir.Value) -> list[ir.Value]:
        if lanes(value.type) == 1:
            return [value]
        return [self.builder.extract_element(value, constant(I32, place)) for place in range(lanes(value.type))]

    def transposed(self, loads: list[ir.Value]) -> list[ir.Value]:
        """Transpose the elements of words: element i of word j of the result is element j of word i."""
        builder, type_ = self.builder, loads[0].type
        distance = self.piece.per_word // 2
        while distance:
            width = distance * self.piece.bits
            low = sum(((1 << width) - 1) << start for start in range(0, _WORD_BITS, 2 * width))
            low_bits, high_bits = constant(type_, low), constant(type_, low << width)
            shift = constant(type_, width)
            result = list(loads)
            for number in range(len(loads)):
                if number & distance:
                    continue
                first, second = loads[number], loads[number + distance]
                result[number] = builder.or_(
                    builder.and_(first, low_bits), builder.and_(builder.shl(second, shift), high_bits))
                result[number + distance] = builder.or_(
                    builder.and_(builder.lshr(first, shift), low_bits), builder.and_(second, high_bits))
            loads = result
            distance //= 2
        return loads

    def store(
        self, grid: list[list[ir.Value]], line: ir.Value, word: ir.Value, term: int, offset: ir.Value
    ) -> None:
        """Store the words of some lines, whose first line and word these are."""
        across = self.piece.across
        for number, values in enumerate(zip(*grid, strict=True) if across else grid):
            if across:
                place = self.place(line, self.builder.add(word, index(number)) if number else word, term)
            else:
                place = self.place(self.builder.add(line, index(number)) if number else line, word, term)
            pointer = self.builder.gep(self.builder.gep(self.base, [place]), [offset])
            value = self.joined(list(values))
            type_ = value.type.as_pointer(pointer.type.addrspace)
            self.builder.store(value, self.builder.bitcast(pointer, type_), align=4 * lanes(value.type))

    def joined(self, values: list[ir.Value]) -> ir.Value:
        if len(values) == 1:
            return values[0]
        result = undefined(vector_of(I32, len(values)))
        for number, value in enumerate(values):
            result = self.builder.insert_element(result, value, constant(I32, number))
        return result

    def place(self, line: ir.Value, word: ir.Value, term: int) -> ir.Value:
        """Return where a word of a line is, in words."""
        piece, builder = self.piece, self.builder
        (block, inner), (step, own) = self.divided(line, piece.lines), self.divided(word, piece.words)
        fragment = builder.add(self.times(block, piece.steps), step)
        start = builder.add(self.times(fragment, piece.terms * piece.fragment), index(term * piece.fragment))
        within = (builder.add(self.times(own, piece.lines), inner) if piece.across
                  else builder.add(self.times(inner, piece.words), own))
        return builder.add(start, within)

    def fill(self, k: ir.Value, end: ir.Value, offset: ir.Value) -> None:
        """Load and store the piece that starts at k, with zeros from `end` on; one word after the other."""
        piece, builder, matrix = self.piece, self.builder, self.matrix
        fast = piece.all_lines if self.by_line else piece.all_words

        def one(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            late, quick = self.divided(number, fast)
            line, word = (quick, late) if self.by_line else (late, quick)
            first = builder.add(k, self.times(word, piece.per_word))
            bits = self.loader.elements_at(matrix, self.present(line, 1), first, piece.per_word, end)
            for term in range(piece.terms):
                value = self.loader.packed([parts[term] for parts in bits], piece.bits)
                self.store([[value]], line, word, term, offset)
            return []

        counted_loop(builder, self.item, index(piece.all_lines * piece.all_words), index(self.items), [], one,
                     unrolled=False)

    # --- from local memory to registers ------------------------------------------------------------------------------

    def fragment(self, first_block: ir.Value, block: int, step: int, offset: ir.Value) -> list[ir.Value]:
        """Return the terms of the fragment of a block, counted from the sub-group's first one."""
        piece, builder = self.piece, self.builder
        own = builder.gep(self.base, [self.times(first_block, piece.first(1, 0, 0))])
        own = builder.gep(own, [offset])
        return [self.read(builder.gep(own, [index(piece.first(block, step, term))])) for term in range(piece.terms)]

    def read(self, pointer: ir.Value) -> ir.Value:
        builder = self.builder
        type_ = operand_types(self.loader.kernel.row)[1 if self.piece.across else 0]
        element, count = getattr(type_, "element", type_), lanes(type_)
        pointer = self.loader.cast(pointer, element)
        if not self.loader.emulated:
            suffix, letter = _BLOCK_READS[element.width]
            name = f"intel_sub_group_block_read{suffix}{count if count > 1 else ''}"
            name = f"_Z{len(name)}{name}PU3AS{pointer.type.addrspace}K{letter}"
            return builtin(builder, name, type_, [pointer], ("nounwind", "convergent"))
        own = builder.gep(pointer, [self.loader.lane])
        lanes_of = self.loader.kernel.row.execution_size
        values = [builder.load(builder.gep(own, [index(number * lanes_of)]), align=element.width // 8)
                  for number in range(count)]
        if count == 1:
            return values[0]
        result = undefined(type_)
        for number, value in enumerate(values):
            result = builder.insert_element(result, value, constant(I32, number))
        return result
