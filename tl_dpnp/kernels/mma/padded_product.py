"""A product of matrices of any sizes by warps, from shared memory: C := alpha A B + beta C.

Tiles at the edges are whole to the instruction: lanes beyond the last row or column read the last one and store
nothing, and what lies beyond the end of the sum is zero in both operands.  The instruction may compute the transpose
of C, where its tiles then fit better or its stores are vectors; and if A is the same for several work-groups, whose B
and C follow one another, it computes these as one product (`is_joined`).  The lines of a tile, its rows or columns,
follow one another in the matrix, or are as many apart as there are tiles, if fewer lanes then use the same banks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, LOCAL, constant, if_then, index, int32, undefined
from tl_dpnp.kernels.mma.emit import ldmatrix
from tl_dpnp.kernels.mma.moves import MatrixLoad
from tl_dpnp.kernels.mma.operands import FORMS, Finish, Matrix, lane_place, multiply, terms
from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow
from tl_dpnp.kernels.targets.nvvm import special_register
from tl_dpnp.records import dataclass

__all__ = ["PaddedProduct", "Work", "find_packed_product", "find_padded_product"]

#: Rows and columns of a tile; bytes of shared memory that are accessed at once.
_ROWS, _COLUMNS, _BANKS = 16, 8, 128

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
    accesses: int


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
        self, left: Strides, right: Strides, result: Strides, result_bytes: int = 4
    ) -> tuple[int, int]:
        """Return how far apart the rows of a tile and its columns are, for operands of 16 bits by their bank conflicts.

        The strides are those of what the instruction computes, `result_bytes` the size of its elements.
        """
        size, parts = self.row.a.bits // 8, self.row.parts("a")
        if size != 2 or self.is_joined or self.is_packed:
            return 1, 1
        down, across = self.parts
        rows, columns = 2 * self.tiles[0] // down, -(-self.tiles[1] // across)
        places = [divmod(lane, 4) for lane in range(LANES)]

        def cost(apart: tuple[int, int]) -> int:
            of_a = _conflicts([size * (g * apart[0] * left[0] + t * parts * left[1]) for g, t in places], size)
            of_b = _conflicts([size * (g * apart[1] * right[1] + t * parts * right[0]) for g, t in places], size)
            stored, of_c = self._stores(apart, result, result_bytes)
            return self.k // 4 * (rows * of_a + columns * of_b) + rows * columns * stored * of_c

        return min(((own, other) for own in (1, self.tiles[0]) for other in (1, self.tiles[1])), key=cost)

    def work(
        self, strides: tuple[Strides, Strides, Strides], alignments: tuple[int, int], result_bytes: int, is_read: bool
    ) -> Work:
        """Return what a warp does for operands of 16 bits in shared memory: strides of A, B and C, and alignments."""
        left, right, result = strides
        along = left[1], right[0]
        if self.is_turned:
            (left, right, result), along = (right[::-1], left[::-1], result[::-1]), along[::-1]
            alignments = alignments[::-1]
        size, parts = self.row.a.bits // 8, self.row.parts("a")
        down, across = self.parts
        rows, columns = 2 * self.tiles[0] // down, -(-self.tiles[1] // across)
        apart = self.distances(left, right, result, result_bytes)
        places = [divmod(lane, 4) for lane in range(LANES)]
        loads = packs = accesses = 0
        for count, line, step, distance, alignment in (
            (rows, left[0], along[0], apart[0], alignments[0]), (columns, right[1], along[1], apart[1], alignments[1])
        ):
            together = self._together(step, line, alignment)
            own = count * -(-self.k // (4 * parts)) * parts // together
            addresses = [size * (g * distance * line + t * parts * step) for g, t in places]
            loads, packs = loads + own, packs + (own // 2 if together < parts else 0)
            accesses += own * _conflicts(addresses, size * together)
        stored, of_c = self._stores(apart, result, result_bytes)
        stores = stored * rows * columns
        accesses += (1 + is_read) * stores * of_c
        return Work(loads, packs, rows // 2 * columns * len(self.steps), stores, is_read * stores, accesses)

    def _stores(self, apart: tuple[int, int], result: Strides, size: int) -> tuple[int, int]:
        """Return by how many stores a lane stores its part of half a tile, and how often memory is accessed for each.

        The matrix has elements of `size` bytes and the strides of what the instruction computes.
        """
        together = 2 if self._stores_pairs(apart, result) else 1
        places = [divmod(lane, 4) for lane in range(LANES)]
        addresses = [size * (g * apart[0] * result[0] + 2 * t * apart[1] * result[1]) for g, t in places]
        return 2 // together, _conflicts(addresses, size * together)

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
        apart = self.distances(left.strides, right.strides, result.strides, result.element_bytes)
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
        blocks = [self.inside(self.row_of(block // 2, block % 2), height) for block in range(2 * rows)]
        strips = [self.inside(self.column_of(strip, self.g, _COLUMNS - 1), width) for strip in range(self.columns)]
        zero = constant(ir.DoubleType() if product.row.c.bits == 64 else ir.FloatType(), 0.0)
        sums = {(i, j): [zero] * product.row.words("d") for i in range(rows) for j in range(self.columns)}
        matrices = _Matrices(self, rows) if product.is_packed else None
        for start, row in product.steps:
            if matrices is not None:
                words_a, words_b = matrices.of_left(start), matrices.of_right(start)
            else:
                words_a = [self.words(self.left, line, row, start) for line in blocks]
                words_b = [self.words(self.right.transposed, line, row, start) for line in strips]
            for i in range(rows):
                a = [words_a[2 * i + word % 2][word // 2] for word in range(row.words("a"))]
                for j in range(self.columns):
                    sums[i, j] = multiply(b, row, a, words_b[j], sums[i, j], product.is_split)
        for i in range(rows):
            for half in range(2):
                for j in range(self.columns):
                    self.store(self.row_of(i, half), j, sums[i, j][2 * half : 2 * half + 2])

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
        return 2 * _conflicts([size * (g * line + t * along) for g, t in places], size)
    loads = [size * (g * line + 2 * t * along) for g, t in places]
    if along == 1 and line % 2 == 0:
        return _conflicts(loads, 2 * size)
    return 2 * _conflicts(loads, size)


def _conflicts(addresses: Sequence[int], size: int) -> int:
    """Return how often the banks are accessed for loads of `size` bytes by a warp; wide ones go by parts of a warp."""
    together, total = min(LANES, _BANKS // size), 0
    for first in range(0, LANES, together):
        words: dict[int, set[int]] = defaultdict(set)
        for address in addresses[first : first + together]:
            for word in range(address // 4, (address + size - 1) // 4 + 1):
                words[word % (_BANKS // 4)].add(word)
        total += max(map(len, words.values()))
    return total


class _Matrices:
    """The words of packed operands that a warp has in a step, by ``ldmatrix``, for so many tiles below one another."""

    def __init__(self, part: _Part, rows: int) -> None:
        self.part, self.rows = part, rows
        b = part.b
        lane = special_register(b, "tid.x")
        self.within, number = b.and_(lane, index(7)), b.lshr(lane, index(3))
        low, high = b.and_(number, index(1)), b.lshr(number, index(1))
        row, column = (b.zext(place, I64) for place in (part.row, part.column))
        # Matrices of A are the halves of the rows, then those of k; of B the halves of k, then two tiles.
        line = b.add(b.mul(row, index(_ROWS)), b.mul(low, index(_COLUMNS)))
        self.left, self.is_left_turned = self.first(part.left, line, high)
        across = part.product.parts[1]
        line = b.mul(b.add(column, b.mul(high, index(across))), index(_COLUMNS))
        self.right, self.is_right_turned = self.first(part.right.transposed, line, low)

    def first(self, matrix: Matrix, line: ir.Value, half: ir.Value) -> tuple[Matrix, bool]:
        """Return a matrix from this lane's first row of it on, and whether that is along the lines of the operand."""
        b = self.part.b
        k = b.mul(half, index(_COLUMNS))
        is_turned = matrix.strides[1] != 1
        if is_turned:
            k = b.add(k, self.within)
        else:
            line = b.add(line, self.within)
        return matrix.at(b, line, k), is_turned

    def load(self, matrix: Matrix, is_turned: bool, count: int, line: int, start: int) -> list[ir.Value]:
        b = self.part.b
        return ldmatrix(b, MatrixLoad(count, is_turned), b.ptrtoint(matrix.element(b, line, start), I32))

    def of_left(self, start: int) -> list[list[list[ir.Value]]]:
        """Return the words of each half of the rows of each tile, in a step along the sum."""
        words: list[list[list[ir.Value]]] = []
        for tile in range(self.rows):
            line = tile * self.part.product.parts[0] * _ROWS
            found = self.load(self.left, self.is_left_turned, 4, line, start)
            words += [[[found[half]], [found[2 + half]]] for half in range(2)]
        return words

    def of_right(self, start: int) -> list[list[list[ir.Value]]]:
        """Return the words of each tile, two of which are loaded together."""
        words: list[list[list[ir.Value]]] = []
        for tile in range(0, self.part.columns, 2):
            count = 4 if tile + 1 < self.part.columns else 2
            line = tile * self.part.product.parts[1] * _COLUMNS
            found = self.load(self.right, self.is_right_turned, count, line, start)
            words += [[[found[first]], [found[first + 1]]] for first in range(0, count, 2)]
        return words


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
