"""Vectors of several whole columns, for results that are lower than half a vector.

Each column has a power of two of lanes; those behind its last row repeat that.  What such a vector takes of the second
factor lies in several columns, where the elements for some steps of the sum are neighbours: these are loaded together,
as a block of columns and steps, out of which a shuffle makes the vector of each step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tl_dpnp.kernels.llvm import power_of_two
from tl_dpnp.lowering.emission.patterns import Offset
from tl_dpnp.lowering.emission.variables import Narrowest
from tl_dpnp.lowering.nest import Loop, Nest, leaves
from tl_dpnp.lowering.tile_cycles import is_plain
from tl_dpnp.target.core import Across

__all__ = ["Blocks", "cut_fused", "without_repeats"]


class Blocks(NamedTuple):
    """How the vectors of a product hold several columns, where all of its tiles are of such vectors."""

    across: Across

    @classmethod
    def of(cls, nest: Nest, width: int) -> Blocks | None:
        """Return those of a nest; None where its vectors are others."""
        # Copies have vectors of their own.
        sums = [leaf for leaf in leaves(nest.body) if leaf.assign.part != "copy"]
        vectors = [loop for leaf in sums for loop in leaf.loops if loop.kind == "vectorized"]
        rows = {found for loop in vectors if (found := _rows(loop)) is not None}
        is_sum = any(leaf.assign.part == "update" for leaf in sums)
        if len(rows) != 1 or rows == {1} or not is_sum or not is_plain(nest):
            return None
        across = Across(rows.pop(), width)
        # Columns that are left over are vectors by themselves.
        alone = all(_rows(loop) or len(loop.static_range or ()) == across.rows for loop in vectors)
        return cls(across) if alone and across.columns > 1 else None

    def cut(self, loop: Loop, narrowest: Narrowest) -> list[tuple[int, ...]]:
        """Cut the iterations of a vectorized loop into vectors of whole columns; the last one may have fewer."""
        assert loop.static_range is not None
        rows, place = self.across.rows, self.across.place
        columns = [loop.static_range[first : first + rows] for first in range(0, len(loop.static_range), rows)]
        result = []
        for first in range(0, len(columns), self.across.columns):
            some = columns[first : first + self.across.columns]
            some += [some[-1]] * (max(power_of_two(len(some)), narrowest.lanes // place) - len(some))
            result.append(tuple(column[min(row, rows - 1)] for column in some for row in range(place)))
        return result

    def steps(self, loop: Loop, value: int) -> Sequence[int]:
        """Return the iterations of an unrolled loop whose elements are loaded together with those of one of them."""
        assert loop.static_range is not None
        first = loop.static_range.index(value) // self.across.steps * self.across.steps
        return loop.static_range[first : first + self.across.steps]


def cut_fused(loop: Loop, blocks: Blocks | None, width: int, narrowest: Narrowest) -> list[tuple[int, ...]]:
    """Cut the iterations of a fused loop into vectors of as many lanes, or as its columns are in `blocks`.

    The last vector repeats its last iteration, which is cheaper than several small vectors of shuffled lanes; it has
    the `narrowest` at least.
    """
    iterations = loop.static_range
    assert iterations is not None
    if blocks is not None:
        return blocks.cut(loop, narrowest)
    width = min(width, max(power_of_two(len(iterations)), narrowest.lanes))
    starts = range(iterations.start, iterations.stop, width)
    return [tuple(min(start + lane, iterations.stop - 1) for lane in range(width)) for start in starts]


def without_repeats(offsets: Sequence[Offset]) -> list[int]:
    """Return the lanes that are not the element of one before, and the last of them again up to a power of two."""
    kept = [lane for lane, offset in enumerate(offsets) if offset not in offsets[:lane]]
    return kept + [kept[-1]] * (power_of_two(len(kept)) - len(kept))


def _rows(loop: Loop) -> int | None:
    """Return the rows of a loop that was fused of columns and rows; None for another."""
    match loop.derived:
        case (column, row) if row.divisor == 1 and row.modulus == column.divisor and {column.index, row.index} == {
                (loop.variable,)}:
            return row.modulus
    return None
