"""Fragments: matrices in the registers of a warp, as ``mma.sync`` takes and gives them; as data.

A fragment is a grid of blocks, of each of which lane 4 g + t holds a run of elements: those from `run` t on of row g,
or where the fragment goes by columns, of column g.  All forms of the instruction have A and the sums by rows and B by
columns, and sums in runs of two.  The words of A and B have other elements along the sum for each type, but a sum may
be taken in any order, as long as that is the same for A and B: whatever elements a lane has along the sum are dealt to
the words one after another.  So sums may become factors as they lie, and factors that are loaded lie in runs as long
as a lane's widest access.
"""

from __future__ import annotations

from typing import NamedTuple

from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow, Operand
from tl_dpnp.scalars import ScalarType

__all__ = ["ACROSS", "BY_ROWS", "FACTORS", "Fragment", "Layout", "rows_of", "word_elements"]

#: Rows of a block that goes by rows, and lanes that share one of them.
ACROSS, _SHARING = 8, 4
#: What the elements of A and B are in the forms for fragments, and those of sums.
FACTORS, _SUMS = ("f16", "bf16", "tf32", "f64", "s8", "u8"), ("f32", "f64", "s32")


class Layout(NamedTuple):
    """How blocks are held: by rows or by columns, and how many elements of one of these by a lane."""

    by_columns: bool = False
    run: int = 2

    @property
    def axis(self) -> int:
        """The mode along which a lane's elements of a block lie."""
        return 0 if self.by_columns else 1

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        along = _SHARING * self.run
        return (along, ACROSS) if self.by_columns else (ACROSS, along)


#: The layout of sums.
BY_ROWS = Layout()


class Fragment(NamedTuple):
    """A matrix of whole blocks in registers, by its name in the function; two of one name are the same registers."""

    name: str
    element: ScalarType
    rows: int
    columns: int
    layout: Layout = BY_ROWS

    @property
    def grid(self) -> tuple[int, int]:
        """How many blocks there are along rows and columns."""
        return self.rows // self.layout.block[0], self.columns // self.layout.block[1]

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The blocks by their rows and columns in the grid."""
        return [(i, j) for j in range(self.grid[1]) for i in range(self.grid[0])]

    @property
    def registers(self) -> int:
        """How many registers of 32 bits a lane has for it."""
        return -(-self.rows * self.columns * self.element.bits // (32 * LANES))

    def place(self, lane: int, block: tuple[int, int], part: int) -> tuple[int, int]:
        """Return row and column of an element that a lane holds."""
        g, t = divmod(lane, _SHARING)
        inside = [g, g]
        inside[self.layout.axis] = self.layout.run * t + part
        row, column = (number * size + own
                       for number, size, own in zip(block, self.layout.block, inside, strict=True))
        return row, column


def word_elements(row: MmaRow, operand: Operand, word: int, run: int = 2, step: int = 0) -> list[tuple[int, int, int]]:
    """Return the elements of a word: row and column of the block, counted from the operand's first, and the part of it.

    Blocks have runs of that length, of sums two.  `step` counts the instructions along the sum.
    """
    count = row.parts(operand)
    if operand in ("c", "d"):
        places = (divmod(word * count + part, 2) for part in range(count))
        return [(half, 0, part) for half, part in places]
    chunk, half = divmod(word, row.m // ACROSS) if operand == "a" else (word, 0)
    first = step * row.k // _SHARING + chunk * count
    along = (divmod(number, run) for number in range(first, first + count))
    return [(half, block, part) if operand == "a" else (block, 0, part) for block, part in along]


def rows_of(types: tuple[str, str, str], rows: int, depth: int) -> list[MmaRow]:
    """Return the forms for factors and sums of these types, by the names in PTX, the best first.

    They are those that divide the rows of the result, of 8 at least, and the sum.  Where there is none, those with
    more rows: what is beyond the result is computed for nothing.
    """
    fitting = [row for row in ROWS.values()
               if (row.a.name, row.b.name, row.c.name) == types and row.a.name in FACTORS and row.c.name in _SUMS
               and not row.sparse and depth % max(row.k, 2 * _SHARING) == 0]
    dividing = [row for row in fitting if rows % row.m == 0]
    return sorted(dividing or fitting, key=lambda row: -row.m * row.k)
