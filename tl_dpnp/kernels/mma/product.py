"""A product of small matrices by the warps of a team, from shared memory: C := alpha A B + beta C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, constant, index
from tl_dpnp.kernels.mma.emit import mma
from tl_dpnp.kernels.mma.rows import ROWS, MmaRow
from tl_dpnp.kernels.targets.nvvm import special_register

__all__ = ["Matrix", "WarpProduct", "find_product"]

_I16 = ir.IntType(16)
#: The forms by the type of A and B, the deepest first; sums are in the type that is named last.
_FORMS = {
    "f64": ("m16n8k8_f64_f64_f64", "m16n8k4_f64_f64_f64"),
    "f16": ("m16n8k16_f16_f16_f32", "m16n8k8_f16_f16_f32"),
    "bf16": ("m16n8k16_bf16_bf16_f32", "m16n8k8_bf16_bf16_f32"),
}
#: 32-bit registers that the sums of a lane may take.
_REGISTERS = 64


@dataclass(frozen=True)
class Matrix:
    """A matrix in memory: a pointer to its first element, and its strides along rows and columns, in elements."""

    pointer: ir.Value
    strides: tuple[int, int]


@dataclass(frozen=True)
class WarpProduct:
    """A product of m x k and k x n by `warps` warps, each of which has some columns of C."""

    row: MmaRow
    m: int
    n: int
    k: int
    warps: int

    def emit(
        self, b: ir.IRBuilder, left: Matrix, right: Matrix, result: Matrix,
        finish: Callable[[ir.Value, Callable[[], ir.Value]], ir.Value],
    ) -> None:
        """Append the code; `finish(sum, old)` gives the element to store, where `old()` loads the one before."""
        lane = special_register(b, "tid.x")
        g, t = b.lshr(lane, index(2)), b.and_(lane, index(3))
        columns = self.n // self.warps
        own = b.mul(special_register(b, "tid.y"), index(columns)) if self.warps > 1 else index(0)
        parts = self.row.parts("a")
        along = b.mul(t, index(parts))
        first_a = _moved(b, left, g, along)
        first_b = _moved(b, right, along, b.add(own, g))
        first_c = _moved(b, result, g, b.add(own, b.mul(t, index(2))))
        zero = constant(ir.DoubleType() if self.row.c.bits == 64 else ir.FloatType(), 0.0)
        tiles = [(i, j) for i in range(self.m // 16) for j in range(columns // 8)]
        sums = {tile: [zero] * self.row.words("d") for tile in tiles}
        for start in range(0, self.k, self.row.k):
            a = {i: [self._word(b, first_a, left.strides, 16 * i, start, word, True) for word in
                     range(self.row.words("a"))] for i in range(self.m // 16)}
            for j in range(columns // 8):
                words = [self._word(b, first_b, right.strides, start, 8 * j, word, False)
                         for word in range(self.row.words("b"))]
                for i in range(self.m // 16):
                    sums[i, j] = mma(b, self.row, a[i], words, sums[i, j])
        for (i, j), values in sums.items():
            for number, value in enumerate(values):
                offset = (16 * i + 8 * (number // 2)) * result.strides[0] + (8 * j + number % 2) * result.strides[1]
                place = b.gep(first_c, [index(offset)])
                b.store(finish(value, lambda place=place: b.load(place)), place)  # type: ignore[misc]

    def _word(
        self, b: ir.IRBuilder, first: ir.Value, strides: tuple[int, int], row: int, column: int, word: int,
        is_left: bool,
    ) -> ir.Value:
        """Load a word of A or B; `first` points to what this lane has of the first one."""
        parts = self.row.parts("a")
        chunk, half = divmod(word, 2) if is_left else (word, 0)
        depth = 4 * parts * chunk
        place = (row + 8 * half) * strides[0] + (column + depth) * strides[1] if is_left else (
            (row + depth) * strides[0] + column * strides[1])
        step = strides[1] if is_left else strides[0]
        pointer = b.gep(first, [index(place)])
        if parts == 1:
            return b.load(pointer, align=8)
        space = pointer.type.addrspace
        if step == 1:
            return b.load(b.bitcast(pointer, I32.as_pointer(space)), align=4)
        low, high = (
            b.zext(b.load(b.bitcast(b.gep(pointer, [index(part * step)]), _I16.as_pointer(space)), align=2), I32)
            for part in range(2)
        )
        return b.or_(low, b.shl(high, ir.Constant(I32, 16)))


def _moved(b: ir.IRBuilder, matrix: Matrix, row: ir.Value, column: ir.Value) -> ir.Value:
    offset = b.add(b.mul(row, index(matrix.strides[0])), b.mul(column, index(matrix.strides[1])))
    return b.gep(matrix.pointer, [offset])


def find_product(element: str, m: int, n: int, k: int) -> WarpProduct | None:
    """Return how warps compute a product of matrices of a type, by its name in the language; None if they do not."""
    for name in _FORMS.get(element, ()):
        row = ROWS[name]
        if m % row.m == 0 and n % row.n == 0 and k % row.k == 0:
            tiles = n // row.n
            registers = m * row.n // 32 * row.c.bits // 32
            fitting = [warps for warps in (1, 2, 4, 8)
                       if tiles % warps == 0 and tiles // warps * registers <= _REGISTERS]
            return WarpProduct(row, m, n, k, fitting[0]) if fitting else None
    return None
