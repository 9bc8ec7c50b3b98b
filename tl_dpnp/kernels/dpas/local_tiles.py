"""Operands of a work-group in local memory, packed there as DPAS takes them: `pieces` says how they lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Loader, Matrix, Size, size_value
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.pieces import WORD_BITS, Piece, Unit, unit_of
from tl_dpnp.kernels.llvm import I32, I64, builtin, constant, counted_loop, index, lanes, undefined, vector_of
from tl_dpnp.scalars import F32

__all__ = ["LocalTile"]

#: What block reads of local memory are called, by the bits of an element, and its letter in mangled names.
_BLOCK_READS = {8: ("_uc", "h"), 16: ("_us", "t"), 32: ("", "j")}


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
        elif count * element.bits % WORD_BITS == 0:
            type_ = vector_of(I32, count * element.bits // WORD_BITS)
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
