"""Packing operands of a work-group in local memory, as DPAS takes them: `pieces` says how they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.dpas.element_loads import joined_elements, load_element
from tl_dpnp.kernels.dpas.fragments import Loader, Matrix, Size, size_value
from tl_dpnp.kernels.dpas.pieces import WORD_BITS, Piece, Unit, unit_of
from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, constant, counted_loop, index, lanes, undefined, vector_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32

__all__ = ["LocalTile"]

#: Words of f32 that a work-item packs all at once where each is loaded by itself.
_MOST_FILLED = 4


class _Place(NamedTuple):
    """A line and a word, which is so many words ahead of a value that several places have."""

    line: ir.Value
    word: ir.Value
    ahead: int = 0


@dataclass
class LocalTile:
    """The lines of an operand that a work-group needs, from `first_line` on, of `size` in all.

    `item` is the work-item's number among `items`.  `base` points to the words of the first piece of a panel; an
    offset, in words, says which one is meant.  The matrix has strides along lines and along k; `wide` allows loads of
    whole words of it.  Units of one that is `single` are a word each, loaded element by element.
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
    single: bool = False

    @property
    def by_elements(self) -> LocalTile:
        """The same with units of a word that is loaded by elements; itself where elements share bytes.

        Each has places of its own, which are computed where they are used first.
        """
        return self if self.shares_bytes else replace(self, wide=False, single=True)

    @property
    def has_room(self) -> bool:
        """Whether single words of a piece may be packed all at once beside the sums, where registers are long."""
        kernel = self.loader.kernel
        return not (self.shares_bytes or kernel.is_large or kernel.row.execution_size == 8)

    @property
    def is_long(self) -> bool:
        """Whether a work-item has so many words of f32 that they would need scratch memory.

        Of sizes that are known compilers compute addresses ahead, one for each word.
        """
        return (self.matrix.element == F32 and isinstance(self.size, int)
                and self.piece.all_words > _MOST_FILLED * self.items)

    @property
    def shares_bytes(self) -> bool:
        """Whether elements share bytes: they are loaded by words, or by `fill`."""
        return self.matrix.element.is_subbyte

    # --- what each work-item does ------------------------------------------------------------------------------------

    @cached_property
    def unit(self) -> Unit:
        """What the strides allow to load at a time."""
        if self.single:
            return Unit(1, 1, self.matrix.strides[1] == 1)
        return unit_of(self.piece, self.matrix.strides, self.size, self.items, self.matrix.element == F32, self.wide)

    @property
    def by_line(self) -> bool:
        """Whether neighbouring work-items take neighbouring lines, rather than words of a line."""
        return self.piece.across or self.matrix.strides[1] != 1

    @cached_property
    def places(self) -> list[_Place]:
        """The first line and word of each unit of this work-item.

        Where units run out, some are done twice: equal words are stored, which takes no branches.
        """
        unit, piece, builder = self.unit, self.piece, self.builder
        lines, words = piece.all_lines // unit.lines, piece.words // unit.words
        fast, slow = (lines, words) if self.by_line else (words, lines)
        count = -(-fast * slow // self.items)
        # Where one number divides the other, the units of a work-item are at constant distances.
        regular, distance = count * self.items == fast * slow and self.items % fast == 0, self.items // fast
        if regular and self.by_line:
            word, line = (self.times(value, size) for value, size in zip(
                self.divided(self.item, fast), (unit.words, unit.lines), strict=True))
            return [_Place(line, word, number * distance * unit.words) for number in range(count)]
        result = []
        for number in range(count):
            if regular:
                late, quick = self.divided(self.item, fast)
                late = builder.add(late, index(number * distance))
            elif fast % self.items == 0:
                rows, rest = divmod(number, fast // self.items)
                quick, late = builder.add(self.item, index(rest * self.items)), index(rows)
            else:
                one = builder.add(self.item, index(number * self.items))
                late, quick = self.divided(self.divided(one, fast * slow)[1], fast)
            line, word = (quick, late) if self.by_line else (late, quick)
            result.append(_Place(self.times(line, unit.lines), self.times(word, unit.words)))
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
        """The pointer to each unit of the first piece, but for what its word is ahead: one for units of a line."""
        result: list[ir.Value] = []
        for number, (line, word, ahead) in enumerate(self.places):
            if ahead:
                result.append(result[number - 1])
                continue
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

    @property
    def loaded(self) -> int:
        """Registers that the loads of a unit fill."""
        by_words = self.wide and self.matrix.element != F32
        return self.unit.lines * self.unit.words * (1 if by_words else self.piece.per_word)

    def along(self, k: ir.Value) -> ir.Value:
        """Return how many strides, or elements where the stride is not known, a place along k is from the first one.

        What a loop adds then, it need not multiply.
        """
        return self.builder.mul(k, size_value(self.matrix.strides[1])) if self.is_open else k

    @property
    def is_open(self) -> bool:
        """Whether the stride along k is not known, of elements that do not share bytes."""
        return not isinstance(self.matrix.strides[1], int) and not self.shares_bytes

    def source(self, number: int, along: ir.Value) -> ir.Value:
        """Return the pointer to a unit of the piece that is so far `along` k."""
        return self.loader.moved(self.sources[number], along, 1 if self.is_open else self.matrix.strides[1])

    def fetch(self, number: int, along: ir.Value) -> list[ir.Value]:
        """Load a unit of this work-item's share of the piece that is so far `along` k, all of it in the matrix."""
        unit, matrix = self.unit, self.matrix
        ahead = self.places[number].ahead * self.piece.per_word
        # Constant distances come last: what a loop changes is added once for all of them, and each takes no register.
        start = self.loader.moved(self.source(number, along), ahead, matrix.strides[1])
        if unit.along and (self.wide or matrix.element == F32):
            return [self.load(start, unit.words * self.piece.per_word)]
        return [self.load(self.loader.moved(start, place, matrix.strides[1]), unit.lines)
                for place in range(self.piece.per_word)]

    def load(self, pointer: ir.Value, count: int) -> ir.Value:
        """Load neighbouring elements, in words where they fill some; a single narrow one as its bits."""
        element = self.matrix.element
        if element == F32:
            type_ = vector_of(ir.FloatType(), count)
        elif count * element.bits % WORD_BITS == 0:
            type_ = vector_of(I32, count * element.bits // WORD_BITS)
        else:
            if self.has_messages and element.bits == 8:
                return load_element(self.builder, pointer, element.bits, self.loader.kernel.row.execution_size)
            type_ = ir.IntType(element.bits)
        return self.builder.load(self.loader.cast(pointer, type_), align=min(4, element.bytes * count))

    @property
    def has_messages(self) -> bool:
        """Whether messages load single elements, as words."""
        return not self.loader.emulated and self.matrix.pointer.type.addrspace == GLOBAL

    def commit(self, number: int, fetched: Sequence[ir.Value], offset: ir.Value) -> None:
        """Pack a unit that was fetched and store it, `offset` words behind the base."""
        for term, grid in enumerate(self.packed(fetched)):
            self.store(grid, self.places[number], term, offset)

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
        if not self.wide:
            lanes_ = self.loader.kernel.row.execution_size
            return [[[joined_elements(self.builder, loads, self.piece.bits, lanes_) if loads[0].type == I32
                      else self.loader.packed(loads, self.piece.bits)]]]
        if len(loads) == 1:
            return [[self.elements(loads[0])]]
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
            low = sum(((1 << width) - 1) << start for start in range(0, WORD_BITS, 2 * width))
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

    def store(self, grid: list[list[ir.Value]], place: _Place, term: int, offset: ir.Value) -> None:
        """Store the words of some lines, from a place on."""
        across, piece, builder = self.piece.across, self.piece, self.builder
        start = builder.gep(builder.gep(self.base, [self.start(place.line, place.word, term)]), [offset])
        for number, values in enumerate(zip(*grid, strict=True) if across else grid):
            # Lines of a unit lie in one block.
            words, below = (place.ahead + number, 0) if across else (place.ahead, number)
            distance = words * piece.lines if across else words + below * piece.words
            pointer = builder.gep(start, [index(distance)]) if distance else start
            value = self.joined(list(values))
            pointer = builder.bitcast(pointer, value.type.as_pointer(pointer.type.addrspace))
            builder.store(value, pointer, align=4 * lanes(value.type))

    def joined(self, values: list[ir.Value]) -> ir.Value:
        if len(values) == 1:
            return values[0]
        result = undefined(vector_of(I32, len(values)))
        for number, value in enumerate(values):
            result = self.builder.insert_element(result, value, constant(I32, number))
        return result

    def start(self, line: ir.Value, word: ir.Value, term: int) -> ir.Value:
        """Return where a word of a line is, in words."""
        piece, builder = self.piece, self.builder
        block, inner = self.divided(line, piece.lines)
        start = builder.add(self.times(block, piece.terms * piece.fragment), index(term * piece.fragment))
        within = (builder.add(self.times(word, piece.lines), inner) if piece.across
                  else builder.add(self.times(inner, piece.words), word))
        return builder.add(start, within)

    def fill(self, k: ir.Value, along: ir.Value, end: ir.Value, offset: ir.Value) -> None:
        """Load and store the piece that starts at k, so far `along` it, with zeros from `end` on, by single words.

        These come one after the other where all of them would take too many registers beside the sums, as bytes do.
        """
        piece, builder = self.piece, self.builder
        if self.has_room and piece.bits > 8 and not self.is_long:
            for place in self.places:
                self.fill_word(place, k, along, end, offset)
            return
        fast = piece.all_lines if self.by_line else piece.words

        def one(number: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            late, quick = self.divided(number, fast)
            line, word = (quick, late) if self.by_line else (late, quick)
            self.fill_word(_Place(line, word), k, along, end, offset)
            return []

        counted_loop(builder, self.item, index(piece.all_words), index(self.items), [], one, unrolled=False)

    def fill_word(self, place: _Place, k: ir.Value, along: ir.Value, end: ir.Value, offset: ir.Value) -> None:
        """Load and store a word of the piece that starts at k, so far `along` it, with zeros from `end` on."""
        piece, builder, line = self.piece, self.builder, self.present(place.line, 1)
        if self.shares_bytes:
            first = builder.add(k, self.times(place.word, piece.per_word))
            bits = self.loader.elements_at(self.matrix, line, first, piece.per_word, end)
            grids = [[[self.loader.packed([parts[term] for parts in bits], piece.bits)]]
                     for term in range(piece.terms)]
        else:
            first = builder.add(place.word, index(place.ahead)) if place.ahead else place.word
            first = self.times(first, piece.per_word)
            grids = self.packed(self.elements_until(builder.sub(end, k), line, first, along))
        for term, grid in enumerate(grids):
            self.store(grid, place, term, offset)

    def elements_until(self, end: ir.Value, line: ir.Value, first: ir.Value, along: ir.Value) -> list[ir.Value]:
        """Load a word's elements from the `first` one of a piece on, which is so far `along` k; zeros from `end` on."""
        builder, element, stride = self.builder, self.matrix.element, self.matrix.strides[1]
        left = builder.trunc(builder.sub(end, first), I32)
        begin = self.loader.moved(self.matrix.pointer, line, self.matrix.strides[0])
        start = self.loader.moved(self.loader.moved(begin, along, 1 if self.is_open else stride), first, stride)
        result = []
        for place in range(self.piece.per_word):
            pointer = self.loader.moved(start, place, stride)
            if self.has_messages:
                word = load_element(
                    builder, pointer, element.bits, self.loader.kernel.row.execution_size, left, place)
                result.append(builder.bitcast(word, ir.FloatType()) if element == F32 else word)
                continue
            # Instead of one that is not there the line's first one is loaded, and dropped.
            inside = builder.icmp_signed(">", left, constant(I32, place))
            value = self.load(builder.select(inside, pointer, begin), 1)
            result.append(builder.select(inside, value, ir.Constant(value.type, 0)))
        return result
