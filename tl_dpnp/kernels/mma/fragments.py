"""Fragments: matrices in the registers of a warp, as ``mma.sync`` takes and gives them; as data.

A fragment is a grid of blocks of 8 x 8 elements.  Lane 4 g + t holds two elements of each block: those at 2 t and
2 t + 1 of row g, or where the fragment goes by columns, of column g.  All forms of the instruction have A and the sums
by rows and B by columns.  Their words have other elements of the sum for each type, but a sum may be taken in any
order, as long as that is the same for A and B: whatever elements a lane has along the sum, two of each block, are
dealt to the words one after another.  So there is one layout for all types, and sums may become factors as they lie.
"""

from __future__ import annotations

from dataclasses import dataclass

from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow, Operand
from tl_dpnp.scalars import ScalarType

__all__ = ["BLOCK", "FACTORS", "Fragment", "rows_of", "word_elements"]

#: Rows and columns of a block, and the elements of it that a lane has.
BLOCK, _PAIR = 8, 2
#: What the elements of A and B are in the forms for fragments.
FACTORS = ("f16", "bf16", "tf32", "f64", "s8", "u8")
_SUMS = ("f32", "f64", "s32")


@dataclass(frozen=True)
class Fragment:
    """A matrix of whole blocks in registers, by its name in the function; two of one name are the same registers."""

    name: str
    element: ScalarType
    rows: int
    columns: int
    by_columns: bool = False

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The blocks by their rows and columns in the grid."""
        return [(i, j) for j in range(self.columns // BLOCK) for i in range(self.rows // BLOCK)]

    @property
    def registers(self) -> int:
        """How many registers of 32 bits a lane has for it."""
        return -(-self.rows * self.columns * self.element.bits // (32 * LANES))

    def place(self, lane: int, block: tuple[int, int], part: int) -> tuple[int, int]:
        """Return row and column of an element that a lane holds."""
        g, t = divmod(lane, 4)
        down, across = (_PAIR * t + part, g) if self.by_columns else (g, _PAIR * t + part)
        return BLOCK * block[0] + down, BLOCK * block[1] + across


def word_elements(row: MmaRow, operand: Operand, word: int, step: int = 0) -> list[tuple[int, int, int]]:
    """Return the elements of a word: row and column of the block, counted from the operand's first, and the part of it.

    `step` counts instructions along the sum: those whose sum is half a block take one of two steps each.
    """
    count = row.parts(operand)
    if operand in ("c", "d"):
        places = (divmod(word * count + part, _PAIR) for part in range(count))
        return [(half, 0, part) for half, part in places]
    chunk, half = divmod(word, row.m // BLOCK) if operand == "a" else (word, 0)
    first = step * row.k * _PAIR // BLOCK + chunk * count
    along = (divmod(number, _PAIR) for number in range(first, first + count))
    return [(half, block, part) if operand == "a" else (block, 0, part) for block, part in along]


def rows_of(types: tuple[str, str, str], rows: int, depth: int) -> list[MmaRow]:
    """Return the forms for factors and sums of these types, by the names in PTX, the best first.

    They are those that divide the rows of the result, of 8 at least, and the sum.  Where there is none, those with
    more rows: what is beyond the result is computed for nothing.
    """
    fitting = [row for row in ROWS.values()
               if (row.a.name, row.b.name, row.c.name) == types and row.a.name in FACTORS and row.c.name in _SUMS
               and not row.sparse and depth % max(row.k, BLOCK) == 0]
    dividing = [row for row in fitting if rows % row.m == 0]
    return sorted(dividing or fitting, key=lambda row: -row.m * row.k)
