"""A product of small matrices by the warps of a team, from shared memory: C := alpha A B + beta C.

Columns of A and C that are a multiple of 128 bytes apart lie in the same banks.  The lanes of a warp that access
several columns then start at different blocks of eight rows, and exchange the blocks in registers (`_rotated`).
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, constant, index
from tl_dpnp.kernels.mma.emit import ldmatrix
from tl_dpnp.kernels.mma.moves import MatrixLoad
from tl_dpnp.kernels.mma.operands import FORMS, Finish, Matrix, lane_place, multiply, terms
from tl_dpnp.kernels.mma.rows import ROWS, MmaRow
from tl_dpnp.kernels.targets.nvvm import special_register
from tl_dpnp.records import dataclass

__all__ = ["WarpProduct", "find_product"]

#: 32-bit registers that the sums of a lane may take.
_REGISTERS = 64
#: Rows of a block, and bytes after which the banks of shared memory repeat.
_BLOCK, _BANKS = 8, 128


@dataclass(frozen=True)
class WarpProduct:
    """A product of m x k and k x n by `warps` warps, each of which has some columns of C.

    With `is_split`, operands of f32 are sums of two tf32, and their product is the sum of three.
    """

    row: MmaRow
    m: int
    n: int
    k: int
    warps: int
    is_split: bool = False

    @property
    def panel(self) -> int:
        """Columns of A whose words are loaded together."""
        return 32 if self.row.a.bits == 16 and self.k % 32 == 0 else self.row.k

    def emit(
        self, b: ir.IRBuilder, left: Matrix, right: Matrix, result: Matrix, finish: Finish
    ) -> None:
        """Append the code; `finish(sum, old)` gives the element as it is stored, where `old()` loads the one before."""
        columns = self.n // self.warps
        own = b.mul(special_register(b, "tid.y"), index(columns)) if self.warps > 1 else index(0)
        right, result = (matrix.at(b, index(0), own) for matrix in (right, result))
        zero = constant(ir.DoubleType() if self.row.c.bits == 64 else ir.FloatType(), 0.0)
        tiles = [(i, j) for i in range(self.m // 16) for j in range(columns // 8)]
        sums = {tile: [zero] * self.row.words("d") for tile in tiles}
        load_a, load_b = ((self._matrices_of_a, self._matrices_of_b) if self.row.a.bits == 16 else
                          (self._words_of_a, self._words_of_b))
        for start in range(0, self.k, self.panel):
            words_a = [[terms(b, self.row, word, self.is_split) for word in words] for words in load_a(b, left, start)]
            for j in range(columns // 8):
                words_b = [terms(b, self.row, word, self.is_split) for word in load_b(b, right, start, 8 * j)]
                for step in range(self.panel // self.row.k):
                    for i in range(self.m // 16):
                        a = [words_a[2 * i + word % 2][(step * self.row.words("a") + word) // 2]
                             for word in range(self.row.words("a"))]
                        count = self.row.words("b")
                        some = words_b[step * count : (step + 1) * count]
                        sums[i, j] = multiply(b, self.row, a, some, sums[i, j], self.is_split)
        self._store(b, result, sums, columns, finish)

    def _turn(self, strides: tuple[int, int], size: int) -> int:
        """Return the number of blocks of rows that lanes exchange: 1 where no banks would be used twice."""
        if strides[0] != 1 or strides[1] * size % (_BANKS // 2 if size == 2 else _BANKS):
            return 1
        return 4 if self.m % 32 == 0 and size < 8 else 2

    # --- operands of words -------------------------------------------------------------------------------------------

    def _words_of_a(self, b: ir.IRBuilder, matrix: Matrix, start: int) -> list[list[ir.Value]]:
        """Return the words of each block of eight rows: one for each four columns."""
        g, t = lane_place(b)
        first = matrix.at(b, g, t)
        turn = self._turn(matrix.strides, self.row.a.bits // 8)
        starts = [first.at(b, b.mul(_plus(b, j, t, turn), index(_BLOCK)), index(0)) for j in range(turn)]
        words: list[list[ir.Value]] = [[] for _ in range(self.m // _BLOCK)]
        for column in range(start, start + self.row.k, 4):
            for block in range(0, len(words), turn):
                values = [b.load(starts[j].element(b, _BLOCK * block, column)) for j in range(turn)]
                for j, value in enumerate(_rotated(b, values, t, backwards=True)):
                    words[block + j].append(value)
        return words

    def _words_of_b(self, b: ir.IRBuilder, matrix: Matrix, start: int, column: int) -> list[ir.Value]:
        g, t = lane_place(b)
        first = matrix.at(b, t, g)
        return [b.load(first.element(b, row, column)) for row in range(start, start + self.row.k, 4)]

    # --- operands of 16 bits -----------------------------------------------------------------------------------------

    def _matrices_of_a(self, b: ir.IRBuilder, matrix: Matrix, start: int) -> list[list[ir.Value]]:
        """Return the words of each block of eight rows: one for each eight columns."""
        lane = special_register(b, "tid.x")
        number, row = b.lshr(lane, index(3)), b.and_(lane, index(7))
        transposed = matrix.strides[0] == 1
        turn = self._turn(matrix.strides, 2)
        count = 4 if self.m % 32 == 0 else 2
        block = b.and_(number, index(count - 1))
        if turn > 1:  # a word has elements of two rows
            block = _plus(b, block, b.lshr(row, index(1)), turn)
        below = b.mul(block, index(_BLOCK))
        first = matrix.at(b, below, row) if transposed else matrix.at(b, b.add(below, row), index(0))
        load = MatrixLoad(count, transposed)
        words: list[list[ir.Value]] = [[] for _ in range(self.m // _BLOCK)]
        for column in range(start, start + self.panel, 8):
            for place in range(0, len(words), count):
                values = ldmatrix(b, load, b.ptrtoint(first.element(b, _BLOCK * place, column), I32))
                if turn > 1:
                    values = _rotated(b, values, b.and_(lane, index(3)), backwards=True)
                for j, value in enumerate(values):
                    words[place + j].append(value)
        return words

    def _matrices_of_b(self, b: ir.IRBuilder, matrix: Matrix, start: int, column: int) -> list[ir.Value]:
        lane = special_register(b, "tid.x")
        count = self.panel // 8
        number, row = b.and_(b.lshr(lane, index(3)), index(count - 1)), b.and_(lane, index(7))
        transposed = matrix.strides[1] == 1
        turns = not transposed and count == 4 and matrix.strides[1] * 2 % (_BANKS // 2) == 0
        block = _plus(b, number, b.lshr(row, index(1)), count) if turns else number
        down = b.mul(block, index(8))
        first = matrix.at(b, b.add(down, row), index(0)) if transposed else matrix.at(b, down, row)
        words = ldmatrix(b, MatrixLoad(count, transposed), b.ptrtoint(first.element(b, start, column), I32))
        return _rotated(b, words, b.lshr(lane, index(3)), backwards=True) if turns else words

    # --- the result --------------------------------------------------------------------------------------------------

    def _store(
        self, b: ir.IRBuilder, matrix: Matrix, sums: dict[tuple[int, int], list[ir.Value]], columns: int,
        finish: Finish,
    ) -> None:
        g, t = lane_place(b)
        first = matrix.at(b, g, b.mul(t, index(2)))
        turn = self._turn(matrix.strides, matrix.element_bytes)
        starts = [first.at(b, b.mul(_plus(b, j, t, turn), index(_BLOCK)), index(0)) for j in range(turn)]
        for column in range(columns):
            tile, part = divmod(column, 8)
            if part > 1:
                continue
            blocks = [sums[block // 2, tile][2 * (block % 2) + part] for block in range(self.m // _BLOCK)]
            for block in range(0, len(blocks), turn):
                for j, value in enumerate(_rotated(b, blocks[block : block + turn], t, backwards=False)):
                    place = starts[j].element(b, _BLOCK * block, column)
                    b.store(finish(value, lambda place=place: b.load(place)), place)  # type: ignore[misc]


def _plus(b: ir.IRBuilder, number: int | ir.Value, by: ir.Value, modulus: int) -> ir.Value:
    """Return (number + by) mod a power of 2."""
    return b.and_(b.add(index(number) if isinstance(number, int) else number, by), index(modulus - 1))


def _rotated(b: ir.IRBuilder, values: Sequence[ir.Value], by: ir.Value, backwards: bool) -> list[ir.Value]:
    """Return value (j + by) at place j, or (j - by) if backwards; there are 1, 2 or 4 values."""
    result = list(values)
    count = len(result)
    step = 1
    while step < count:
        odd = b.icmp_unsigned("!=", b.and_(by, index(step)), index(0))
        distance = -step if backwards else step
        result = [b.select(odd, result[(j + distance) % count], result[j]) for j in range(count)]
        step *= 2
    return result


def find_product(element: str, m: int, n: int, k: int, is_split: bool = False) -> WarpProduct | None:
    """Return how warps compute a product with operands rounded to a type, by its name in PTX; None if they do not."""
    for name in FORMS.get(element, ()):
        row = ROWS[name]
        if m % row.m == 0 and n % row.n == 0 and k % row.k == 0:
            tiles = n // row.n
            registers = m * row.n // 32 * row.c.bits // 32
            fitting = [warps for warps in (1, 2, 4, 8)
                       if tiles % warps == 0 and tiles // warps * registers <= _REGISTERS]
            return WarpProduct(row, m, n, k, fitting[0], is_split) if fitting else None
    return None
