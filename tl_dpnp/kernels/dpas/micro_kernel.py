"""Micro-kernels: how one sub-group computes a tile of a product with DPAS, and their names.

The languages' matrices are column-major, so that DPAS computes the transposed product: its lanes run along the rows of
the language's C and A, its rows (the repeat count) along the columns of C and B.  Then lanes are neighbours in memory.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias

from tl_dpnp.kernels.dpas.rows import EXECUTION_SIZES, DpasRow, rows
from tl_dpnp.records import dataclass

__all__ = ["MicroKernel", "micro_kernel_named"]


#: Operands that messages load to be packed in local memory, or that are packed beside one that messages load.
Packs: TypeAlias = Literal["", "a", "b", "ab"]
#: Registers that the sums of a small tile take.
_SMALL_TILE = 64


@dataclass(frozen=True)
class MicroKernel:
    """A tile of C of ``lane_blocks * row.execution_size`` rows and ``column_blocks * row.repeat`` columns.

    An iteration of the loop over k does `steps` DPAS along it.  `terms` is the number of 16-bit floats whose sum
    stands for one f32 operand: 1 rounds it; it is 0 where the operands are of the row's own types.
    If it is `packed`, the sub-groups of a work-group share their operands: they pack them in local memory, those of
    `steps` DPAS at a time.  Its name, which users keep in schedules, ends in ``_staged`` then.  One that is not packed
    loads large blocks where addresses, sizes and strides allow it; with `other`, blocks and steps of a tile, it is
    packed elsewhere and has that tile.
    With `shared` the sub-groups of a work-group load these blocks together, of `steps` DPAS along k, and pass them
    through local memory, rounded.  One that `packs` an operand, "a" or "b", has messages load the other one, and the
    sub-groups pack panels of `steps` DPAS along k of this one; one that packs "ab" has messages load both that pack
    them.  Where these messages cannot be, both are packed from single elements or words, and the tile is `other`.
    One that is `exchanged` computes the transposed product: its rows are the columns of the language's C.
    """

    engine: ClassVar[str] = "DPAS"
    row: DpasRow
    lane_blocks: int
    column_blocks: int
    steps: int = 1
    terms: int = 0
    packed: bool = False
    other: tuple[int, int, int] | None = None
    exchanged: bool = False
    shared: bool = False
    packs: Packs = ""

    @property
    def takes_blocks(self) -> bool:
        """Whether both operands are loaded by blocks where messages can.

        One f32 is rounded behind its message.  Where such a message cannot be, operands are packed: the compiler
        (Graphics Compiler 1.0.12504) fails on some kernels that round single elements there.
        """
        is_rounded = self.terms == 0 or (self.terms == 1 and self.other is not None)
        return self.row.execution_size == 16 and not self.packed and not self.packs and is_rounded

    @property
    def alternative(self) -> MicroKernel:
        """The micro-kernel where operands cannot be loaded by blocks."""
        if self.packed:
            return self
        if self.other is None:
            return replace(self, steps=1)
        rows, columns, steps = self.other
        return replace(
            self, lane_blocks=rows, column_blocks=columns, steps=steps, packed=True, other=None, shared=False, packs="")

    @property
    def name(self) -> str:
        """The row, the blocks of the tile, the steps, the terms of an f32 operand, and how operands are loaded."""
        terms = f"_from_f32_by_{self.terms}" if self.terms else ""
        packed = "_staged" if self.packed else ""
        if self.other is not None:
            packed = "_or_{}x{}x{}_staged".format(*self.other)
        roles = ("_exchanged" if self.exchanged else "") + ("_shared" if self.shared else "")
        roles += f"_{self.packs}_staged" if self.packs else ""
        return f"{self.row.name}_tile_{self.lane_blocks}x{self.column_blocks}x{self.steps}{terms}{roles}{packed}"

    @property
    def tile_rows(self) -> int:
        """Rows of the tile, along the lanes."""
        return self.lane_blocks * self.row.execution_size

    @property
    def tile_columns(self) -> int:
        """Columns of the tile."""
        return self.column_blocks * self.row.repeat

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the tile in the language's C."""
        return (self.tile_columns, self.tile_rows) if self.exchanged else (self.tile_rows, self.tile_columns)

    @property
    def depth(self) -> int:
        """Elements along k that an iteration takes."""
        return self.steps * self.row.k

    @property
    def is_large(self) -> bool:
        """Whether the tile leaves too few of 128 registers for ordinary loads and their addresses."""
        return self.lane_blocks * self.column_blocks * self.row.repeat > _SMALL_TILE

    @property
    def registers(self) -> int:
        """Registers of a thread that the tile is made for; small integers take most, one by one, to be packed."""
        # Registers of Xe-HPG are half as long, and what is loaded takes more of them.
        sums = self.lane_blocks * self.column_blocks * self.row.repeat
        if self.row.execution_size == 8:
            is_large = self.is_large or sums > _SMALL_TILE // 4
        else:
            # Operands that messages load have half as many as they have in small integers.
            operands = self.lane_blocks * self.row.b_elements + self.column_blocks * self.row.repeat // 2
            is_large = sums + (0 if self.packed else self.steps * operands) > _SMALL_TILE * 3 // 2
        has_panels = self.packed or self.shared or self.packs
        return 256 if is_large or has_panels or self.terms > 1 or self.row.source1.bits <= 8 else 128

    @property
    def products(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The terms of A and of B that are multiplied, for each sum that is kept of an element of C.

        The leading terms have a sum of their own: it is rounded as often as one of f32 products, and the others, which
        are smaller, lose less.  Products of terms that lie together more than two terms behind the leading ones are
        below the rounding.
        """
        terms = range(max(self.terms, 1))
        smaller = sorted(((i, j) for i in terms for j in terms if 0 < i + j <= terms[-1]), key=sum, reverse=True)
        return (((0, 0),), tuple(smaller)) if smaller else (((0, 0),),)


_PACKS: dict[str | None, Packs] = {None: "", "a": "a", "b": "b", "ab": "ab"}
_NAME = re.compile(
    r"(dpas_\w+?)_tile_(\d+)x(\d+)x(\d+)(?:_from_f32_by_([1-3]))?(_exchanged)?"
    r"(?:(_staged)|(?:(_shared)|_(ab|a|b)_staged)?_or_(\d+)x(\d+)x(\d+)_staged)?")


def micro_kernel_named(name: str) -> MicroKernel | None:
    """Return the micro-kernel of a name, or None for a name that is none; its row may be out of reach."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    found = {row.name: row for size in EXECUTION_SIZES for row in rows(size)}.get(match[1])
    m, n, k = (int(text) for text in match.groups()[1:4])
    other = None if match[10] is None else (int(match[10]), int(match[11]), int(match[12]))
    packs = _PACKS[match[9]]
    if found is None or 0 in (m, n, k, *(other or ())):
        return None
    return MicroKernel(found, m, n, k, int(match[5] or 0), match[7] is not None, other, match[6] is not None,
                       match[8] is not None, packs)
