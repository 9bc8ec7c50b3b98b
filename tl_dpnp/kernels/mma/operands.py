"""What products by warps from shared memory have in common: matrices, the places of lanes, and terms of f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, index
from tl_dpnp.kernels.mma.emit import mma
from tl_dpnp.kernels.mma.rows import MmaRow
from tl_dpnp.kernels.targets.nvvm import asm, special_register

__all__ = ["FORMS", "Finish", "Matrix", "lane_place", "multiply", "terms"]

#: Gives the element as it is stored, from the sum and from a function that loads the element before, as it was stored.
Finish = Callable[[ir.Value, Callable[[], ir.Value]], ir.Value]

#: The forms by the type that A and B are rounded to, the deepest first; sums are in the type that is named last.
FORMS = {
    "f64": ("m16n8k8_f64_f64_f64", "m16n8k4_f64_f64_f64"),
    "tf32": ("m16n8k8_tf32_tf32_f32", "m16n8k4_tf32_tf32_f32"),
    "f16": ("m16n8k16_f16_f16_f32", "m16n8k8_f16_f16_f32"),
    "bf16": ("m16n8k16_bf16_bf16_f32", "m16n8k8_bf16_bf16_f32"),
}
#: Bytes of LLVM's types of floats.
_FLOAT_BYTES = {"half": 2, "float": 4, "double": 8}


class Matrix(NamedTuple):
    """A matrix in memory: a pointer to its first element, and its strides along rows and columns, in elements.

    The pointer is a multiple of `alignment` bytes.
    """

    pointer: ir.Value
    strides: tuple[int, int]
    alignment: int = 1

    def at(self, b: ir.IRBuilder, row: ir.Value, column: ir.Value) -> Matrix:
        """Return the part of the matrix from an element on."""
        offset = b.add(b.mul(row, index(self.strides[0])), b.mul(column, index(self.strides[1])))
        return Matrix(b.gep(self.pointer, [offset]), self.strides)

    def element(self, b: ir.IRBuilder, row: int, column: int) -> ir.Value:
        """Return a pointer to an element."""
        return b.gep(self.pointer, [index(row * self.strides[0] + column * self.strides[1])])

    @property
    def transposed(self) -> Matrix:
        """The transpose, in the same memory."""
        return self._replace(strides=(self.strides[1], self.strides[0]))

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        type_ = self.pointer.type.pointee
        return type_.width // 8 if isinstance(type_, ir.IntType) else _FLOAT_BYTES[str(type_)]


def lane_place(b: ir.IRBuilder) -> tuple[ir.Value, ir.Value]:
    """Return a lane's row and its place in it: g and t of the tables."""
    lane = special_register(b, "tid.x")
    return b.lshr(lane, index(2)), b.and_(lane, index(3))


def terms(b: ir.IRBuilder, row: MmaRow, word: ir.Value, is_split: bool) -> list[ir.Value]:
    """Return what a word is the sum of, as the instruction takes it: itself, or f32 as one or two tf32."""
    if row.a.name != "tf32":
        return [word]
    high = _tf32(b, word)
    return [high, _tf32(b, b.fsub(word, b.bitcast(high, ir.FloatType())))] if is_split else [high]


def multiply(
    b: ir.IRBuilder, row: MmaRow, left: list[list[ir.Value]], right: list[list[ir.Value]], sums: list[ir.Value],
    is_split: bool,
) -> list[ir.Value]:
    """Append the products of terms, the smallest first; that of two low terms is left away."""
    for first, second in ((1, 0), (0, 1), (0, 0)) if is_split else ((0, 0),):
        sums = mma(b, row, [word[first] for word in left], [word[second] for word in right], sums)
    return sums


def _tf32(b: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Round f32 to tf32, to nearest, and return its bits."""
    return asm(b, "cvt.rna.tf32.f32 $0, $1;", "=r,f", I32, [value], side_effect=False)
