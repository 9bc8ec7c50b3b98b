"""Copies within shared memory that lay a matrix of 16-bit elements out for ``ldmatrix``, whatever its sizes are.

What the copy engine brings lies as it did in global memory, with columns of any length from any element on; rows of the
matrices that ``ldmatrix`` loads begin at multiples of 16 bytes, and those of a load are in different banks here.
Source: PTX ISA 9.0, section 9.7.14.5.15 (ldmatrix).
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, LOCAL, Intrinsic, counted_loop, if_then, index
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.kernels.targets.nvvm import special_register
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX

__all__ = ["Packing"]

#: Lanes of a warp, elements of a tile along rows and the sum, elements of 16 bytes, and words that a lane loads ahead.
_LANES, _TILE, _ROW, _AHEAD = 32, 16, 8, 8


@dataclass(frozen=True)
class Packing:
    """A copy of a matrix whose columns of `rows` elements are `stride` elements apart, to `place` in local memory.

    Mode `sum_mode` is that of the sum, behind the end of which are zeros.  The element behind the last column may be
    read.  With `in_words` all columns begin at multiples of four bytes.
    """

    rows: int
    columns: int
    stride: int
    sum_mode: int
    in_words: bool
    place: int = 0

    @property
    def pitch(self) -> int:
        """Elements between columns of the copy: an odd multiple of 16 bytes."""
        return self._height + _ROW

    @property
    def bytes(self) -> int:
        """Size of the copy."""
        return 2 * self.pitch * _up(self.columns)

    @property
    def words(self) -> int:
        """Pairs of elements of a column of the copy."""
        return self._height // 2

    @property
    def _height(self) -> int:
        return _up(self.rows)

    def intrinsic(self, local_memory: int, warps: int) -> Intrinsic:
        """``pack(address)``: copy the matrix from a place in local memory, by all warps of a team."""
        words = self.words
        across = -(-words // _LANES)
        together = max(1, _AHEAD // across)
        columns = _up(self.columns) if self.sum_mode == 1 else self.columns

        def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> None:
            memory = target_of(b).local_memory(b, local_memory)
            lane = special_register(b, "tid.x")

            def body(first: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
                found = []
                for column in (b.add(first, index(warps * number)) for number in range(together)):
                    for start in range(0, words, _LANES):
                        row = b.mul(b.add(lane, index(start)), index(2))
                        found.append((column, row, start, self._word(b, memory, a[0], row, column)))
                for column, row, start, word in found:
                    is_there = [b.icmp_unsigned("<", column, index(columns))] if columns % (warps * together) else []
                    if start + _LANES > words:
                        is_there.append(b.icmp_unsigned("<", row, index(self._height)))
                    target = b.add(index(self.place), b.mul(b.add(b.mul(column, index(self.pitch)), row), index(2)))
                    pointer = b.bitcast(b.gep(memory, [target]), I32.as_pointer(LOCAL))
                    if is_there:
                        condition = is_there[0] if len(is_there) == 1 else b.and_(*is_there)
                        if_then(b, condition, lambda word=word, pointer=pointer: b.store(  # type: ignore[misc]
                            word, pointer, align=4))
                    else:
                        b.store(word, pointer, align=4)
                return []

            counted_loop(b, special_register(b, "tid.y"), index(columns), index(warps * together), [], body,
                         unrolled=False)

        return Intrinsic(f"pack_{self.rows}_{self.columns}", (INDEX,), None, emit)

    def _word(
        self, b: ir.IRBuilder, memory: ir.Value, address: ir.Value, row: ir.Value, column: ir.Value
    ) -> ir.Value:
        """Return two elements of a column, zeros behind the end of the sum."""
        inside = _least(b, column, self.columns - 1)
        # What is stored behind the last row, if the sum is along columns, is for rows of the result that are not there.
        first = b.add(b.mul(inside, index(self.stride)), _least(b, row, (self.rows - 1) // 2 * 2))
        place = b.add(address, b.mul(first, index(2)))

        def load(offset: int, bits: int) -> ir.Value:
            pointer = b.gep(memory, [b.add(place, index(offset))])
            return b.load(b.bitcast(pointer, ir.IntType(bits).as_pointer(LOCAL)), align=bits // 8)

        zero = ir.Constant(I32, 0)
        if self.in_words:
            word = load(0, 32)
        else:
            low, high = (b.zext(load(offset, 16), I32) for offset in (0, 2))
            word = b.or_(low, b.shl(high, ir.Constant(I32, 16)))
        if self.sum_mode == 1:
            is_there = b.icmp_unsigned("<", column, index(self.columns))
            return b.select(is_there, word, zero) if self.columns % _TILE else word
        if self.rows % _TILE == 0:
            return word
        if self.rows % 2:
            last = b.icmp_unsigned("==", row, index(self.rows - 1))
            word = b.select(last, b.and_(word, ir.Constant(I32, 0xFFFF)), word)
        return b.select(b.icmp_unsigned("<", row, index(self.rows)), word, zero)


def _up(size: int) -> int:
    return -(-size // _TILE) * _TILE


def _least(b: ir.IRBuilder, value: ir.Value, most: int) -> ir.Value:
    return b.select(b.icmp_unsigned("<", value, index(most)), value, index(most))
