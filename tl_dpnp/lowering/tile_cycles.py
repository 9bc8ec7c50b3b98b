"""How many cycles and registers the tiles of a product take: what the choice of a tile is derived from.

Rows that are left over by whole vectors have one of their own, or share vectors, those of several columns in each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tl_dpnp.kernels.llvm import MOST_LANES, power_of_two
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.nest import Bound, Nest, leaves
from tl_dpnp.lowering.packing import strided_along
from tl_dpnp.scalars import F32, F64
from tl_dpnp.target.core import CACHE_LINE, Across, Core, Shared

__all__ = ["TileCycles", "begins_inside_lines", "cut", "cycles", "even_tile", "is_plain", "most_columns",
           "vector_width"]

#: Vectors of B that the elements for one step are taken out of.
_VECTORS_OF_B = 2
#: Broadcasts that are loaded while others are used.
_BROADCASTS = 2
#: What sums may take of the registers where a column of A is in others: of more, LLVM 18 writes some to memory where
#: several steps are one iteration.  BLIS and libxsmm have 24 of 32, too.
_SHARE_OF_SUMS = 3, 4
#: Part of the estimated time that vectors across columns must save in most cases.
_DOUBT_ACROSS = 0.1
#: The same of short sums with steps that are left over by blocks.
_DOUBT_OF_REST = 0.25


def vector_width(contraction: Contraction, core: Core) -> int:
    """Return the number of lanes of a vector of the nest's element type; SPIR-V allows 16 at most.

    Half a vector where the rows of a matrix fill more than that and less than a whole one: the others share vectors.
    Cores with masks leave lanes of a whole vector empty instead.
    """
    width = min(MOST_LANES, core.vector_bytes // contraction.element.bytes)
    rows = contraction.rows
    halves = isinstance(rows, int) and width // 2 < rows < width and contraction.columns != 1
    return width // 2 if halves and not core.masks else width


def even_tile(size: Bound, largest: int) -> int:
    """Return the tile size that cuts `size` into the fewest tiles, as even as possible."""
    if not isinstance(size, int):
        return largest
    tiles = -(-size // largest)
    return -(-size // tiles)


def cut(size: int, tile: int) -> list[tuple[int, int]]:
    """Return the sizes of the tiles that `size` is cut into, and how many there are of each."""
    return [(length, count) for length, count in ((tile, size // tile), (size % tile, 1)) if length and count]


def most_columns(height: int, core: Core, spare: int = 0) -> int:
    """Return how many columns a tile may have: with its sums, a column of A and broadcasts on their way, or a vector
    of A and a broadcast for each column, are in registers.

    So many are to `spare` besides.
    """
    registers = core.registers - spare
    if height == 1:
        # AVX-512 multiplies by an element that is in memory; others have a vector of A, and broadcasts on their way.
        most = core.registers if core.stores_lines else core.registers - 1 - _BROADCASTS
    else:
        columns = min(registers - height - _BROADCASTS, registers * _SHARE_OF_SUMS[0] // _SHARE_OF_SUMS[1]) // height
        most = columns if columns >= height else (registers - 1) // (height + 1)
    return min(most, core.tiles.columns_of_a_row)


def cycles(vectors: int, columns: int, tile: tuple[int, int], core: Core) -> float:
    """Estimate the cycles of one step of the sum of all tiles of whole vectors."""
    return _cycles([(height, None, times) for height, times in cut(vectors, tile[0])], columns, tile[1], core, False)


def _cycles(
    rows: Iterable[tuple[int, Shared | None, int]], columns: int, wide: int, core: Core, splits: bool
) -> float:
    parts = cut(columns, wide)
    return sum(times * count * core.cycles(height, width, shared, splits=splits)
               for height, shared, times in rows for width, count in parts)


class TileCycles(NamedTuple):
    """What decides how many cycles the tiles of one product take on a core.

    Where its columns are `neighbours`, the elements of B for one step lie side by side; where a column of A may begin
    anywhere in a cache line, a load `splits`: those of a copy begin at whole vectors.
    """

    rows: Bound
    columns: Bound
    depth: Bound | None
    width: int
    core: Core
    neighbours: bool
    splits: bool
    sums: int
    is_plain: bool

    @classmethod
    def of(cls, contraction: Contraction, core: Core) -> TileCycles:
        """Return what decides for one instruction."""
        rows, sums = contraction.rows, contraction.sums
        columns = sums * contraction.columns if isinstance(contraction.columns, int) else contraction.columns
        splits = begins_inside_lines(contraction) and not strided_along(contraction, "m")
        return cls(rows, columns, contraction.depth, vector_width(contraction, core), core,
                   _are_neighbours(contraction), splits, sums, is_plain(contraction.nest))

    def shares(self, tile: tuple[int, int]) -> bool:
        """Whether rows that are left over share vectors in tiles of this height and width.

        They do where the cycles say so, and in doubt where it is a single row, for which a vector has most lanes to
        fill.  Without a sum there are only loads and stores: what has no whole vectors shares them.
        """
        rows, width = self.rows, self.width
        rest = rows % width if isinstance(rows, int) else 0
        if not isinstance(rows, int) or not 0 < rest <= width // 2 or tile[1] == 1:
            return False
        if self.depth is None:
            return rest == 1 or rows < width or not self.core.masks
        if self.across is not None:
            return self.gains_across(tile)
        if not self.fits(tile):
            return False
        shared, own = self.cycles(tile, shares=True), self.cycles(tile, shares=False)
        return shared <= own if rest == 1 else shared < own

    @property
    def across(self) -> Across | None:
        """How vectors hold the rows of several columns where the result is lower than half of one."""
        rows, width = self.rows, self.width
        if not (isinstance(rows, int) and isinstance(self.columns, int) and isinstance(self.depth, int)):
            return None
        return Across(rows, width) if self.is_plain and 1 < rows <= width // 2 and self.columns > 1 else None

    def gains_across(self, tile: tuple[int, int]) -> bool:
        """Whether vectors across columns take fewer cycles than one for each column."""
        across = self.across
        assert across is not None
        if tile[0] > 1 or self.core.registers_across(tile[1], across) > self.core.registers:
            return False
        own = even_tile(self.columns, self.most_columns(1))
        return self.cycles_across(tile[1]) < (1 - self._doubt(across)) * self.cycles_of_columns(own)

    def _doubt(self, across: Across) -> float:
        """Return the part of the time that vectors across columns must save: none where one load has all of a block."""
        assert isinstance(self.depth, int)
        if self.depth <= across.steps:
            return 0.0
        is_even = self.neighbours or self.depth % across.steps == 0
        return _DOUBT_ACROSS if is_even or self.depth >= self.core.tiles.deep_sum else _DOUBT_OF_REST

    def cycles_across(self, wide: int) -> float:
        """Estimate the cycles of a product with vectors across columns, in tiles of so many."""
        across, core, depth = self.across, self.core, self.depth
        assert across is not None
        assert isinstance(depth, int)
        assert isinstance(self.columns, int)
        together = self.neighbours or depth <= across.steps
        single = 0 if together else depth % across.steps
        vectors = -(-self.columns // across.columns)
        # What is between columns has to be taken out before a result is stored, which then takes two.
        stores = 1.0 if across.rows == across.place else 2.0 + core.shuffle * 3
        return vectors * stores + sum(
            count * ((depth - single) * core.across(columns, across, together=together)
                     + single * core.across(columns, across, single=True))
            for columns, count in cut(self.columns, wide))

    def cycles_of_columns(self, wide: int) -> float:
        """Estimate the same for tiles of so many columns with vectors of their own."""
        assert isinstance(self.depth, int)
        assert isinstance(self.columns, int)
        assert isinstance(self.rows, int)
        stores = 1 if self.core.masks else self.rows.bit_count()
        return self.columns * stores + self.depth * self.cycles((1, wide), shares=False)

    def most_columns(self, height: int) -> int:
        """Return how many columns a tile may have; LLVM loads those of B that are neighbours in vectors first."""
        return most_columns(height, self.core, _VECTORS_OF_B if self.neighbours else 0)

    def fits(self, tile: tuple[int, int]) -> bool:
        """Whether tiles of this height and width fit the registers if rows that are left over share vectors."""
        columns = self.sums * tile[1]
        return all(
            columns <= self.most_columns(height) if shared is None else
            self.core.registers_shared(height, columns, shared) <= self.core.registers - _VECTORS_OF_B * self.neighbours
            for height, shared, _ in self._heights(tile, shares=True))

    def cycles(self, tile: tuple[int, int], *, shares: bool) -> float:
        """Estimate the cycles of one step of the sum of all tiles, with rows left over that share vectors or do not."""
        wide = self.sums * tile[1]
        columns = self.columns if isinstance(self.columns, int) else wide
        return _cycles(self._heights(tile, shares), columns, wide, self.core, self.splits)

    def _heights(self, tile: tuple[int, int], shares: bool) -> list[tuple[int, Shared | None, int]]:
        """Return the heights of the tiles that rows are cut into in vectors, what shares, and how many there are."""
        assert isinstance(self.rows, int)
        found: list[tuple[int, Shared | None, int]] = []
        for count, times in cut(self.rows, tile[0] * self.width):
            whole, rest = divmod(count, self.width)
            if rest and shares:
                found.append((whole, Shared(rest, self.width, self._are_together(tile)), times))
            else:
                own = 1 if self.core.masks or power_of_two(rest) <= self.rows else rest.bit_count()
                found.append((whole + (own if rest else 0), None, times))
        return found

    def _are_together(self, tile: tuple[int, int]) -> bool:
        """Whether the elements of B for one step and the columns of a vector lie in few vectors.

        Neighbours do; others are taken out of vectors along the columns of B, which serve many steps if all of the sum
        is unrolled.
        """
        rows, columns, depth = self.rows, self.columns, self.depth
        if self.neighbours or not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)):
            return self.neighbours
        among = min(columns, -(-self.width // (rows % self.width)))
        return columns <= tile[1] and depth <= self.core.tiles.short_sum and among * depth <= _VECTORS_OF_B * self.width


def begins_inside_lines(contraction: Contraction) -> bool:
    """Whether columns of the result, and of a first factor as high, may begin anywhere in a cache line."""
    rows = contraction.rows
    return isinstance(rows, int) and bool(rows * contraction.element.bytes % CACHE_LINE)


def is_plain(nest: Nest) -> bool:
    """Whether a nest computes with f32 or f64 and nothing else, which its arrays have."""
    assigns = [leaf.assign for leaf in leaves(nest.body)]
    elements = {access.buffer.element for assign in assigns for access in (assign.target, *assign.reads)}
    return elements in ({F32}, {F64})


def _are_neighbours(contraction: Contraction) -> bool:
    """Whether the columns of B are side by side in memory."""
    return any(
        access.buffer.strides[access.indices.index(("n",))] == 1
        for leaf in leaves(contraction.nest.body) for access in leaf.assign.reads
        if ("n",) in access.indices and ("m",) not in access.indices and not access.buffer.in_registers)
