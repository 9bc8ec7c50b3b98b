"""Words of operands that were packed in shared memory for a product by warps: a few instructions load them."""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, index
from tl_dpnp.kernels.mma.emit import ldmatrix
from tl_dpnp.kernels.mma.moves import MatrixLoad
from tl_dpnp.kernels.mma.operands import Matrix
from tl_dpnp.kernels.targets.nvvm import special_register

__all__ = ["PackedWords"]

#: Rows and columns of a tile.
_ROWS, _COLUMNS = 16, 8


class PackedWords:
    """The words of packed operands that a warp has in a step along the sum, by ``ldmatrix``.

    It has `counts` tiles below and beside one another, `parts` apart, the first of which is the one at a `place`.
    """

    def __init__(
        self, b: ir.IRBuilder, left: Matrix, right: Matrix, place: tuple[ir.Value, ir.Value], parts: tuple[int, int],
        counts: tuple[int, int],
    ) -> None:
        self.b, self.parts, self.counts = b, parts, counts
        lane = special_register(b, "tid.x")
        self.within, number = b.and_(lane, index(7)), b.lshr(lane, index(3))
        low, high = b.and_(number, index(1)), b.lshr(number, index(1))
        row, column = (b.zext(each, I64) for each in place)
        # Matrices of A are the halves of the rows, then those of k; of B the halves of k, then two tiles.
        line = b.add(b.mul(row, index(_ROWS)), b.mul(low, index(_COLUMNS)))
        self.left, self.is_left_turned = self.first(left, line, high)
        line = b.mul(b.add(column, b.mul(high, index(parts[1]))), index(_COLUMNS))
        self.right, self.is_right_turned = self.first(right.transposed, line, low)

    def first(self, matrix: Matrix, line: ir.Value, half: ir.Value) -> tuple[Matrix, bool]:
        """Return a matrix from this lane's first row of it on, and whether that is along the lines of the operand."""
        b = self.b
        k = b.mul(half, index(_COLUMNS))
        is_turned = matrix.strides[1] != 1
        if is_turned:
            k = b.add(k, self.within)
        else:
            line = b.add(line, self.within)
        return matrix.at(b, line, k), is_turned

    def load(self, matrix: Matrix, is_turned: bool, count: int, line: int, start: int) -> list[ir.Value]:
        b = self.b
        return ldmatrix(b, MatrixLoad(count, is_turned), b.ptrtoint(matrix.element(b, line, start), I32))

    def of_left(self, start: int) -> list[list[list[ir.Value]]]:
        """Return the words of each half of the rows of each tile, in a step along the sum."""
        words: list[list[list[ir.Value]]] = []
        for tile in range(self.counts[0]):
            line = tile * self.parts[0] * _ROWS
            found = self.load(self.left, self.is_left_turned, 4, line, start)
            words += [[[found[half]], [found[2 + half]]] for half in range(2)]
        return words

    def of_right(self, start: int) -> list[list[list[ir.Value]]]:
        """Return the words of each tile, two of which are loaded together."""
        words: list[list[list[ir.Value]]] = []
        for tile in range(0, self.counts[1], 2):
            count = 4 if tile + 1 < self.counts[1] else 2
            line = tile * self.parts[1] * _COLUMNS
            found = self.load(self.right, self.is_right_turned, count, line, start)
            words += [[[found[first]], [found[first + 1]]] for first in range(0, count, 2)]
        return words
