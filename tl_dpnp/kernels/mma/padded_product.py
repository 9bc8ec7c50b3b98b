"""A product of matrices of any sizes by warps, from shared memory: C := alpha A B + beta C.

Tiles at the edges are whole to the instruction: lanes beyond the last row or column read the last one and store
nothing, and what lies beyond the end of the sum is zero in both operands.  The instruction may compute the transpose
of C, where its tiles then fit better or its stores are vectors; and if A is the same for several work-groups, whose B
and C follow one another, it computes these as one product (`is_joined`).  The lines of a tile, its rows or columns,
follow one another in the matrix, or are as many apart as there are tiles, if fewer lanes then use the same banks; and
lanes may read the words of their lines in different orders (`tl_dpnp.kernels.mma.word_order`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, LOCAL, constant, if_then, index, int32, undefined
from tl_dpnp.kernels.mma.operands import FORMS, Finish, Matrix, lane_place, multiply, terms
from tl_dpnp.kernels.mma.packed_words import PackedWords
from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow
from tl_dpnp.kernels.mma.word_order import WordOrder, best_order, conflicts
from tl_dpnp.kernels.targets.nvvm import special_register
from tl_dpnp.records import dataclass

__all__ = ["PaddedProduct", "Work", "find_packed_product", "find_padded_product"]

#: Rows and columns of a tile, and terms of a step with operands of 16 bits.
_ROWS, _COLUMNS, _DEEP = 16, 8, 16

Strides = tuple[int, int]


class Work(NamedTuple):
    """What a warp does for a product: instructions by their kind, and how often it accesses shared memory.

    `packs` make words of two elements, `reads` are loads of what is added to.
    """

    loads: int
    packs: int
    multiplications: int
    stores: int
    reads: int
    accesses: float


@dataclass(frozen=True)
class PaddedProduct:
    """A product of m x k and k x n by `warps` warps; `rows` are the forms of the instruction, the deepest first.

    With `is_turned` the rows of the instruction are the columns of C; with `is_joined` n counts the columns of all
    teams, each of which has `warps` / `teams` warps.  With `is_split`, operands of f32 are sums of two tf32.  Operands
    that are packed lie as `Packing` lays them out, with k rounded up.
    """

    rows: tuple[MmaRow, ...]
    m: int
    n: int
    k: int
    warps: int
    is_turned: bool = False
    is_joined: bool = False
    teams: int = 1
    is_split: bool = False
    is_packed: bool = False

    @property
    def row(self) -> MmaRow:
        """The deepest form."""
        return self.rows[0]

    @property
    def extent(self) -> tuple[int, int]:
        """Rows and columns of what the instruction computes."""
        return (self.n, self.m) if self.is_turned else (self.m, self.n)

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles along the rows and columns of the instruction."""
        height, width = self.extent
        return -(-height // _ROWS), -(-width // _COLUMNS)

    @property
    def parts(self) -> tuple[int, int]:
        """Parts of the rows and columns for as many warps: what leaves the fewest tiles, then the fewest loads."""
        height, width = self.tiles

        def work(parts: tuple[int, int]) -> tuple[int, int]:
            rows, columns = height // parts[0], -(-width // parts[1])
            return rows * columns, 2 * rows + columns

        return min(((down, min(width, self.warps // down)) for down in range(1, self.warps + 1) if height % down == 0),
                   key=work)

    @property
    def registers(self) -> int:
        """32-bit registers that the sums of a lane take."""
        (height, width), (down, across) = self.tiles, self.parts
        return height // down * -(-width // across) * self.row.words("d") * self.row.c.bits // 32

    @property
    def fetched(self) -> int:
        """32-bit registers that operands of 16 bits take in a step, for a lane."""
        rows, columns = self._counts
        return 2 * (rows + columns)

    @property
    def steps(self) -> list[tuple[int, MmaRow]]:
        """The steps along the sum: where each begins, and its form."""
        steps, start = [], 0
        while start < self.k:
            row = next((row for row in self.rows if row.k <= self.k - start), self.rows[-1])
            steps.append((start, row))
            start += row.k
        return steps

    def accesses(self, left: Strides, right: Strides) -> tuple[int, bool]:
        """Return how often a warp accesses shared memory in a deep step, and whether its lanes then read pairs."""
        if self.is_turned:
            left, right = (right[1], right[0]), (left[1], left[0])
        size = self.row.a.bits // 8
        if size == 2:
            return 0, False
        down, across = self.parts
        counts = 2 * self.tiles[0] // down, -(-self.tiles[1] // across)
        operands = [(left[0], left[1], counts[0]), (right[1], right[0], counts[1])]
        costs = {is_paired: sum(count * _accesses(line, along, size, is_paired) for line, along, count in operands)
                 for is_paired in (False, True)}
        is_paired = costs[True] < costs[False]
        return costs[is_paired], is_paired

    def distances(
        self, left: Strides, right: Strides, result: Strides, result_bytes: int = 4,
        alignments: tuple[int, int] = (1, 1),
    ) -> tuple[int, int]:
        """Return how far apart the rows of a tile and its columns are, for operands of 16 bits by their bank conflicts.

        The strides and alignments are those of what the instruction computes, `result_bytes` the size of its elements.
        """
        if self.row.a.bits != 16 or self.is_joined or self.is_packed:
            return 1, 1
        rows, columns = self._counts

        def cost(apart: tuple[int, int]) -> float:
            return sum(count * accesses for count, (_, accesses) in zip(
                (rows * self.k // 4, columns * self.k // 4, rows * columns * self._stored(apart, result)),
                self.orders(left, right, result, result_bytes, alignments, apart), strict=True))

        return min(((own, other) for own in (1, self.tiles[0]) for other in (1, self.tiles[1])), key=cost)

    @property
    def _counts(self) -> tuple[int, int]:
        """Halves of tiles below one another that a warp has, and tiles beside one another, at most."""
        down, across = self.parts
        return 2 * self.tiles[0] // down, -(-self.tiles[1] // across)

    def work(
        self, strides: tuple[Strides, Strides, Strides], alignments: tuple[int, int], result_bytes: int, is_read: bool
    ) -> Work:
        """Return what a warp does for operands of 16 bits in shared memory: strides of A, B and C, and alignments."""
        left, right, result = strides
        if self.is_turned:
            left, right, result, alignments = right[::-1], left[::-1], result[::-1], alignments[::-1]
        parts, (rows, columns) = self.row.parts("a"), self._counts
        apart = self.distances(left, right, result, result_bytes, alignments)
        *orders, (of_c, accesses_of_c) = self.orders(left, right, result, result_bytes, alignments, apart)
        stores = self._stored(apart, result) * rows * columns
        loads, packs = 0, stores * of_c.bits
        accesses = (1 + is_read) * stores * accesses_of_c
        for count, line, along, alignment, (order, of_load) in zip(
            (rows, columns), (left[0], right[1]), (left[1], right[0]), alignments, orders, strict=True
        ):
            together = self._together(along, line, alignment)
            words = count * -(-self.k // (4 * parts))
            own = words * parts // together
            loads, packs = loads + own, packs + (words if together < parts else 0) + words * order.bits
            accesses += own * of_load
        return Work(loads, packs, rows // 2 * columns * len(self.steps), stores, is_read * stores, accesses)

    def orders(
        self, left: Strides, right: Strides, result: Strides, result_bytes: int, alignments: tuple[int, int],
        apart: tuple[int, int],
    ) -> tuple[tuple[WordOrder, float], ...]:
        """Return in which order lanes access words of A, B and C, and how often memory is accessed for each of them.

        Lanes with other lines read terms in another order, where these are words in memory; lanes with other terms or
        columns access lines in another order, those of other halves of tiles, or of B other tiles.
        """
        places = [divmod(lane, 4) for lane in range(LANES)]
        down, across = self.parts
        rows, columns = self._counts
        halves = [_COLUMNS * (number % 2) + _ROWS * down * (number // 2) for number in range(rows)]
        tiles = [_COLUMNS * across * number for number in range(columns)]
        found = []
        for line, along, alignment, lines, distance in (
            (left[0], left[1], alignments[0], halves, apart[0]), (right[1], right[0], alignments[1], tiles, apart[1])
        ):
            parts, together = self.row.parts("a"), self._together(along, line, alignment)
            addresses = [2 * (g * distance * line + t * parts * along) for g, t in places]
            if together == parts:
                words = [2 * 4 * parts * number for number in range(2 * (self.k // _DEEP))]
                found.append(best_order(addresses, 2 * together, words, lambda lane: lane // 4, 3))
            else:
                words = [2 * line * each for each in lines] if distance == 1 else [0]
                found.append(best_order(addresses, 2 * together, words, lambda lane: lane % 4, 2))
        size = result_bytes * (2 if self._stores_pairs(apart, result) else 1)
        addresses = [result_bytes * (g * apart[0] * result[0] + 2 * t * apart[1] * result[1]) for g, t in places]
        words = [result_bytes * result[0] * each for each in halves] if apart[0] == 1 else [0]
        return *found, best_order(addresses, size, words, lambda lane: lane % 4, 2)

    def _stored(self, apart: tuple[int, int], result: Strides) -> int:
        """Return by how many stores a lane stores its part of half a tile."""
        return 1 if self._stores_pairs(apart, result) else 2

    def _stores_pairs(self, apart: tuple[int, int], result: Strides) -> bool:
        """Whether a lane stores two elements at once, where the matrix is aligned for that."""
        return apart[1] == result[1] == 1 and result[0] % 2 == self.extent[1] % 2 == 0

    def _together(self, along: int, line: int, alignment: int) -> int:
        """Return how many elements of 16 bits along the sum are loaded together: pairs, where they are words."""
        is_word = self.row.parts("a") == 2 and along == 1 and line % 2 == self.k % 2 == 0 and alignment % 4 == 0
        return 2 if is_word else 1

    # --- the code ----------------------------------------------------------------------------------------------------

    def emit(self, b: ir.IRBuilder, left: Matrix, right: Matrix, result: Matrix, finish: Finish) -> None:
        """Append the code; `finish(sum, old)` gives the element as it is stored, where `old()` loads the one before."""
        _, is_paired = self.accesses(left.strides, right.strides)
        if self.is_turned:
            left, right, result = right.transposed, left.transposed, result.transposed
        warp = b.trunc(special_register(b, "tid.y"), I32)
        if self.is_joined:
            own = int32(self.warps // self.teams)
            warp = b.add(warp, b.mul(b.trunc(special_register(b, "tid.z"), I32), own))
        apart = self.distances(left.strides, right.strides, result.strides, result.element_bytes,
                               (left.alignment, right.alignment))
        down, across = self.parts
        row, column = b.urem(warp, int32(down)), b.udiv(warp, int32(down))
        most = -(-self.tiles[1] // across)
        # So many parts have `most` tiles across; the others have one less.
        full = self.tiles[1] - (most - 1) * across

        def compute(columns: int) -> None:
            _Part(self, b, left, right, result, finish, row, column, columns, is_paired, apart).emit()

        if full < across or down * across < self.warps:
            if_then(b, b.icmp_unsigned("<", column, int32(full)), partial(compute, most))
        else:
            compute(most)
        if full < across and most > 1:
            others = b.and_(b.icmp_unsigned(">=", column, int32(full)),
                            b.icmp_unsigned("<", column, int32(across)))
            if_then(b, others, partial(compute, most - 1))


class _Order(NamedTuple):
    """In which order lanes access the terms of their lines, or the lines."""

    of_terms: WordOrder = WordOrder()
    of_lines: WordOrder = WordOrder()


@dataclass
class _Part:
    """What one warp computes: tiles `down` apart from tile `row` on, and `columns` tiles `across` apart.

    The rows of a tile, and its columns, are so many `apart` in the matrices.  Numbers of tiles and lines have 32 bits,
    which take half the instructions of 64.
    """

    product: PaddedProduct
    b: ir.IRBuilder
    left: Matrix
    right: Matrix
    result: Matrix
    finish: Finish
    row: ir.Value
    column: ir.Value
    columns: int
    is_paired: bool
    apart: tuple[int, int]
    g: ir.Value = field(init=False)
    t: ir.Value = field(init=False)

    def emit(self) -> None:
        product, b = self.product, self.b
        down, (height, width) = product.parts[0], product.extent
        self.g, self.t = (b.trunc(place, I32) for place in lane_place(b))
        rows = product.tiles[0] // down
        packed = product.is_packed and PackedWords(
            b, self.left, self.right, (self.row, self.column), product.parts, (rows, self.columns))
        of_a, of_b, of_c = self.orders()
        blocks = [self.inside(line, height) for line in self.rows_in(of_a.of_lines)]
        strips = [self.inside(line, width) for line in self.columns_in(of_b.of_lines)]
        zero = constant(ir.DoubleType() if product.row.c.bits == 64 else ir.FloatType(), 0.0)
        sums = {(i, j): [zero] * product.row.words("d") for i in range(rows) for j in range(self.columns)}
        for group in self.groups(of_a, of_b):
            if packed:
                words_a, words_b = ([of(start) for start, _ in group] for of in (packed.of_left, packed.of_right))
            else:
                words_a = self.words_of(self.left, blocks, of_a, group)
                words_b = self.words_of(self.right.transposed, strips, of_b, group)
            for (_, row), words_of_a, words_of_b in zip(group, words_a, words_b, strict=True):
                for i in range(rows):
                    a = [words_of_a[2 * i + word % 2][word // 2] for word in range(row.words("a"))]
                    for j in range(self.columns):
                        sums[i, j] = multiply(b, row, a, words_of_b[j], sums[i, j], product.is_split)
        lines = self.rows_in(of_c.of_lines)
        for j in range(self.columns):
            parts = [[sums[block // 2, j][2 * (block % 2) + part] for block in range(2 * rows)] for part in range(2)]
            first, second = (self.exchanged(of_c.of_lines, each) for each in parts)
            for line, *values in zip(lines, first, second, strict=True):
                self.store(line, j, values)

    def orders(self) -> tuple[_Order, _Order, _Order]:
        """Return in which order lanes access the words of A, B and C."""
        product = self.product
        if product.row.a.bits != 16 or product.is_packed:
            return _Order(), _Order(), _Order()
        left, right = self.left, self.right.transposed
        found = product.orders(left.strides, right.strides[::-1], self.result.strides, self.result.element_bytes,
                               (left.alignment, right.alignment), self.apart)
        a, b, c = (order for order, _ in found)
        of_a, of_b = (
            _Order(of_terms=order) if product._together(matrix.strides[1], matrix.strides[0], matrix.alignment) > 1
            else _Order(of_lines=order) for matrix, order in ((left, a), (right, b)))
        return of_a, of_b, _Order(of_lines=c)

    def rows_in(self, order: WordOrder) -> list[tuple[ir.Value, int]]:
        """Return this lane's rows in the halves of its warp's tiles, and the last ones of all lanes and warps."""
        b, down = self.b, self.product.parts[0]

        def row_of(number: ir.Value) -> ir.Value:
            tile = b.add(self.row, b.mul(b.lshr(number, int32(1)), int32(down)))
            return b.add(b.mul(tile, int32(_ROWS)), b.add(b.mul(b.and_(number, int32(1)), int32(_COLUMNS)), self.g))

        plain = [self.row_of(block // 2, block % 2) for block in range(2 * self.product.tiles[0] // down)]
        return self.lines_in(order, plain, row_of)

    def columns_in(self, order: WordOrder) -> list[tuple[ir.Value, int]]:
        """Return this lane's columns of B in its warp's tiles, and the last ones of all lanes and warps."""
        b, across = self.b, self.product.parts[1]

        def column_of(number: ir.Value) -> ir.Value:
            return b.add(b.mul(b.add(self.column, b.mul(number, int32(across))), int32(_COLUMNS)), self.g)

        plain = [self.column_of(strip, self.g, _COLUMNS - 1) for strip in range(self.columns)]
        return self.lines_in(order, plain, column_of)

    def lines_in(
        self, order: WordOrder, plain: Sequence[tuple[ir.Value, int]], placed: Callable[[ir.Value], ir.Value]
    ) -> list[tuple[ir.Value, int]]:
        """Return lines in the order in which lanes access them: those that are left over are in their own."""
        lines = list(plain)
        if order.bits:
            numbers = order.numbers(self.b, self.t)
            for first in range(0, len(lines) - order.words + 1, order.words):
                last = max(each for _, each in lines[first : first + order.words])
                lines[first : first + order.words] = [
                    (placed(self.b.add(number, int32(first))), last) for number in numbers]
        return lines

    def exchanged(self, order: WordOrder, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Return what lanes have of lines by their numbers, of that in the order of access, or the other way."""
        found = list(values)
        if order.bits:
            for first in range(0, len(found) - order.words + 1, order.words):
                found[first : first + order.words] = order.exchanged(self.b, self.t, found[first : first + order.words])
        return found

    def row_of(self, number: int, half: int) -> tuple[ir.Value, int]:
        """Return this lane's row in a half of one of its warp's tiles, and the last one of all lanes and warps."""
        within = self.b.add(self.g, int32(_COLUMNS * half))
        down, height = self.product.parts[0], self.product.tiles[0]
        return self.line(number, self.row, down, height, _ROWS, within, _COLUMNS * half + _COLUMNS - 1, self.apart[0])

    def column_of(self, number: int, within: ir.Value, last: int) -> tuple[ir.Value, int]:
        """Return a column of one of the warp's tiles, and the last one of all lanes and warps."""
        across, width = self.product.parts[1], self.product.tiles[1]
        return self.line(number, self.column, across, width, _COLUMNS, within, last, self.apart[1])

    def line(
        self, number: int, part: ir.Value, parts: int, tiles: int, size: int, within: ir.Value, last: int, apart: int
    ) -> tuple[ir.Value, int]:
        b = self.b
        tile = b.add(part, int32(number * parts))
        last_tile = number * parts + parts - 1
        if apart == 1:
            return b.add(b.mul(tile, int32(size)), within), last_tile * size + last
        return b.add(b.mul(within, int32(apart)), tile), last * apart + last_tile

    def inside(self, line: tuple[ir.Value, int], end: int) -> ir.Value:
        """Return a line, or the last one where it is beyond the end."""
        value, last = line
        b = self.b
        return value if last < end else b.select(b.icmp_unsigned("<", value, int32(end)), value, int32(end - 1))

    def groups(self, *orders: _Order) -> Iterator[list[tuple[int, MmaRow]]]:
        """Yield the steps whose words are read together."""
        most = max(1, *(order.of_terms.words // 2 for order in orders))
        steps = self.product.steps
        for first in range(0, len(steps), most):
            yield steps[first : first + most]

    def words_of(
        self, matrix: Matrix, lines: Sequence[ir.Value], order: _Order, group: Sequence[tuple[int, MmaRow]]
    ) -> list[list[list[list[ir.Value]]]]:
        """Return the words of all lines, as `words` has them, for each step."""
        whole = max(1, order.of_terms.words // 2)
        steps: list[list[list[list[ir.Value]]]] = []
        for first in range(0, len(group), whole):
            some = group[first : first + whole]
            start, (last, row) = some[0][0], some[-1]
            if order.of_terms.bits and len(some) == whole and row.k == _DEEP and last + row.k <= self.product.k:
                read = [self.ordered_words(matrix, line, order.of_terms, start) for line in lines]
                steps += [[[[word] for word in words[2 * step : 2 * step + 2]] for words in read]
                          for step in range(whole)]
                continue
            for start, row in some:
                found = [self.words(matrix, line, row, start) for line in lines]
                if order.of_lines.bits:
                    by_word = [self.exchanged(order.of_lines, [word for (word,) in words])
                               for words in zip(*found, strict=True)]
                    found = [[[word] for word in words] for words in zip(*by_word, strict=True)]
                steps.append(found)
        return steps

    def ordered_words(self, matrix: Matrix, line: ir.Value, order: WordOrder, start: int) -> list[ir.Value]:
        """Return a lane's words of a row of A, or a column of B, from a term on."""
        b = self.b
        first = b.add(b.mul(line, int32(matrix.strides[0])), b.mul(self.t, int32(2)))
        words = []
        for number in order.numbers(b, self.g):
            place = b.add(first, b.mul(number, int32(_DEEP // 2)))
            pointer = b.gep(b.gep(matrix.pointer, [b.zext(place, I64)]), [index(start)])
            words.append(b.load(b.bitcast(pointer, I32.as_pointer(LOCAL)), align=2 * matrix.element_bytes))
        return order.exchanged(b, self.g, words)

    def words(self, matrix: Matrix, line: ir.Value, row: MmaRow, start: int) -> list[list[ir.Value]]:
        """Return the terms of a lane's words of a row of A, or a column of B, in a step; `matrix` is A, or B turned."""
        b, parts = self.b, row.parts("a")
        stride, along = matrix.strides
        size, k = row.a.bits // 8, self.product.k
        first = b.mul(line, int32(stride))
        if self.is_paired and row.k == 2 * 4 and parts == 1 and start + row.k <= k:
            place = b.add(first, b.mul(self.t, int32(2 * along)))
            values = self.pair(matrix, place, start, size)
            return [terms(b, row, value, self.product.is_split) for value in values]
        words = []
        # Elements that follow one another are a word in memory.
        together = self.product._together(along, stride, matrix.alignment)
        for chunk in range(start, start + row.k, 4 * parts):
            elements = [self.element(matrix, first, chunk + part, parts, k, together)
                        for part in range(0, parts, together)]
            word = elements[0] if parts == together else _packed(b, elements)
            words.append(terms(b, row, word, self.product.is_split))
        return words

    def pair(self, matrix: Matrix, place: ir.Value, start: int, size: int) -> list[ir.Value]:
        """Return the elements `start` and `start` + 1 along the sum from a place on."""
        b, (stride, along) = self.b, matrix.strides
        pointer = b.gep(matrix.pointer, [b.zext(place, I64)])
        if along == 1 and stride % 2 == 0 and matrix.alignment % (2 * size) == 0:
            return _load_pair(b, b.gep(pointer, [index(start)]), size)
        return [b.load(b.gep(pointer, [index((start + part) * along)])) for part in range(2)]

    def element(self, matrix: Matrix, line: ir.Value, k: int, parts: int, end: int, together: int) -> ir.Value:
        """Return the element k + t · parts of a line, or a word of so many from it on; zero from `end` on."""
        b, along = self.b, matrix.strides[1]
        type_ = matrix.pointer.type.pointee if together == 1 else I32
        lanes = -(-(end - k) // parts)
        if lanes <= 0:
            return ir.Constant(type_, None)
        is_there = None if lanes >= 4 else b.icmp_unsigned("<", self.t, int32(lanes))
        t = self.t if is_there is None else b.select(is_there, self.t, int32(0))
        pointer = b.gep(matrix.pointer, [b.zext(b.add(line, b.mul(t, int32(parts * along))), I64)])
        pointer = b.bitcast(b.gep(pointer, [index(k * along)]), type_.as_pointer(LOCAL))
        value = b.load(pointer, align=together * matrix.element_bytes)
        return value if is_there is None else b.select(is_there, value, ir.Constant(value.type, None))

    def store(self, row: tuple[ir.Value, int], number: int, sums: Sequence[ir.Value]) -> None:
        """Store two columns of a lane's row of a tile, as far as they are there."""
        product, b, matrix = self.product, self.b, self.result
        height, width = product.extent
        line, last_row = row
        first = b.mul(self.t, int32(2))
        columns = [self.column_of(number, b.add(first, int32(part)), _COLUMNS - 2 + part) for part in range(2)]
        size = matrix.element_bytes
        stride, along = matrix.strides
        start = b.mul(line, int32(stride))
        pointers = [b.gep(matrix.pointer, [b.zext(b.add(start, b.mul(place, int32(along))), I64)])
                    for place, _ in columns]
        in_pairs = product._stores_pairs(self.apart, matrix.strides) and matrix.alignment % (2 * size) == 0

        def guarded(body: partial[None], part: int) -> None:
            place, last = columns[part]
            conditions = [] if last_row < height else [b.icmp_unsigned("<", line, int32(height))]
            if last >= width:
                conditions.append(b.icmp_unsigned("<", place, int32(width)))
            if conditions:
                condition = conditions[0] if len(conditions) == 1 else b.and_(*conditions)
                if_then(b, condition, body)
            else:
                body()

        if in_pairs:
            guarded(partial(self.store_pair, pointers[0], sums, size), 0)
            return
        for part, value in enumerate(sums):
            guarded(partial(self.store_one, pointers[part], value), part)

    def store_one(self, pointer: ir.Value, value: ir.Value) -> None:
        self.b.store(self.finish(value, lambda: self.b.load(pointer)), pointer)

    def store_pair(self, pointer: ir.Value, sums: Sequence[ir.Value], size: int) -> None:
        b, old = self.b, list[ir.Value]()

        def before(part: int) -> ir.Value:
            if not old:
                old.extend(_load_pair(b, pointer, size))
            return old[part]

        vector: ir.Value = undefined(ir.VectorType(pointer.type.pointee, 2))
        for part, value in enumerate(sums):
            vector = b.insert_element(vector, self.finish(value, partial(before, part)), ir.Constant(I32, part))
        store = b.store(vector, b.bitcast(pointer, vector.type.as_pointer(LOCAL)))
        store.align = 2 * size


def _load_pair(b: ir.IRBuilder, pointer: ir.Value, size: int) -> list[ir.Value]:
    type_ = ir.VectorType(pointer.type.pointee, 2)
    vector = b.load(b.bitcast(pointer, type_.as_pointer(LOCAL)), align=2 * size)
    return [b.extract_element(vector, ir.Constant(I32, part)) for part in range(2)]


def _packed(b: ir.IRBuilder, elements: Sequence[ir.Value]) -> ir.Value:
    """Return a word of two elements of 16 bits."""
    low, high = (b.zext(b.bitcast(element, ir.IntType(16)), I32) for element in elements)
    return b.or_(low, b.shl(high, ir.Constant(I32, 16)))


def _accesses(line: int, along: int, size: int, is_paired: bool) -> int:
    """Return how often shared memory is accessed for the eight lines and eight elements along the sum of a step."""
    places = [divmod(lane, 4) for lane in range(LANES)]
    if not is_paired:
        return 2 * conflicts([size * (g * line + t * along) for g, t in places], size)
    loads = [size * (g * line + 2 * t * along) for g, t in places]
    if along == 1 and line % 2 == 0:
        return conflicts(loads, 2 * size)
    return 2 * conflicts(loads, size)


def find_packed_product(element: str, m: int, n: int, k: int, warps: int) -> PaddedProduct | None:
    """Return how `warps` warps compute a product of packed operands of 16 bits; None for those of other types."""
    row = next((ROWS[name] for name in FORMS.get(element, ()) if ROWS[name].a.bits == 16), None)
    if row is None:
        return None
    found = [PaddedProduct((row,), m, n, -(-k // row.k) * row.k, warps, is_turned, is_packed=True)
             for is_turned in (False, True)]
    return min(found, key=lambda product: product.registers)


def find_padded_product(
    element: str, m: int, n: int, k: int, warps: int, *, joined: int = 1, is_split: bool = False
) -> PaddedProduct | None:
    """Return how `warps` warps compute a product with operands rounded to a type, by its name in PTX; None if not.

    `joined` teams of so many warps compute theirs together, of `n` columns each.
    """
    if element not in FORMS:
        return None
    rows = tuple(ROWS[name] for name in FORMS[element])
    n, warps = n * joined, warps * joined
    found = [PaddedProduct(rows, m, n, k, warps, is_turned, joined > 1, joined, is_split)
             for is_turned in (True, False)]
    return min(found, key=lambda product: product.tiles[0] * product.tiles[1])
