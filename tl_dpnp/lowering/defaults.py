"""The default schedules: for each form of a kernel, a short function of the nest, the device and a `Tiling`.

The tilings that are chosen where none is given follow what was measured on AVX-512 CPUs: a tile of C in 8 to 21 vector
registers, two vectors high, so that one broadcast element of B serves two multiply-adds and loads do not outnumber
them; the K loop kept as a loop, full unrolling only where K is short, and tails by smaller vectors, not by masks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import Bound
from tl_dpnp.lowering.schedule import Schedule

__all__ = [
    "Tiling", "even_tile", "subgroup_schedule", "subgroup_tiling", "unrolling", "vector_operations",
    "vector_schedule", "vector_tiling", "vector_width",
]

#: Vector registers that a tile of C may take, by vector size in bytes: of the 32 of AVX-512, the 16 of AVX2 and SSE.
_ACCUMULATORS = {64: 21, 32: 10, 16: 10}
#: Vectors that a tile is high, and the number of columns up to which it may be twice as high.
_TILE_VECTORS, _FEW_COLUMNS = 2, 10
#: Columns of a tile at most: more where a tile is one vector high, since it then has registers to spare.
_MOST_COLUMNS, _MOST_COLUMNS_OF_A_ROW = 8, 12
#: Columns of a tile of C in the sub-group form.
_SUBGROUP_COLUMNS = 8
#: Products that one iteration of the K loop may hold after unrolling.
_PRODUCTS_PER_ITERATION = 16
#: K loops up to this length are unrolled whole.
_SHORT_REDUCTION = 7


@dataclass(frozen=True)
class Tiling:
    """What is left to choose for an instruction when the form of the kernel is known.

    A tile of C is `vectors` vectors high (of one element for each lane in the sub-group form, where it is 1) and
    `columns` wide, and stays in registers; an iteration of its K loop does `unroll` steps of the sum, and all of them
    where there are no more.
    """

    vectors: int
    columns: int
    unroll: int

    def __str__(self) -> str:
        return f"{self.vectors} vectors x {self.columns} columns, k by {self.unroll}"


@dataclass(frozen=True)
class _Part:
    """One part of a nest whose columns were tiled: its loops, None where the part has none."""

    rows: str
    columns: str | None
    reduction: str | None
    outer: str


def vector_width(contraction: Contraction, vector_bytes: int) -> int:
    """Return the number of lanes of a vector of the nest's element type; SPIR-V allows 16 at most."""
    return min(16, vector_bytes // contraction.element.bytes)


def vector_tiling(contraction: Contraction, vector_bytes: int) -> Tiling:
    """Return the default tiling for the vector form."""
    vectors = _tile_height(contraction, vector_width(contraction, vector_bytes))
    most = _MOST_COLUMNS_OF_A_ROW if vectors == 1 else _MOST_COLUMNS
    columns = even_tile(contraction.columns, min(most, _ACCUMULATORS[vector_bytes] // vectors))
    return Tiling(vectors, columns, unrolling(contraction.depth, columns * vectors))


def subgroup_tiling(contraction: Contraction) -> Tiling:
    """Return the default tiling for the sub-group form."""
    columns = even_tile(contraction.columns, _SUBGROUP_COLUMNS)
    return Tiling(1, columns, unrolling(contraction.depth, columns))


def vector_schedule(contraction: Contraction, vector_bytes: int, tiling: Tiling | None = None) -> Schedule:
    """Schedule a nest for the vector form: one work-item, rows in vectors, a tile of C in registers.

    `tiling` is by default `vector_tiling`.
    """
    tiling = tiling or vector_tiling(contraction, vector_bytes)
    schedule = Schedule(contraction.nest)
    width = vector_width(contraction, vector_bytes)
    schedule.reorder("n", "m")
    prefetched = False
    for part in _tile_columns(schedule, contraction, tiling.columns):
        if part.columns is not None:
            schedule.reorder(part.rows, part.columns)
        for tile in _tile_rows(schedule, part, contraction.rows, tiling.vectors, width):
            reduction = _finish_tile(schedule, tile, contraction.depth, tiling.unroll)
            loop = reduction or part.outer
            if not prefetched and contraction.depth is not None and schedule.is_static(loop):
                # The first tile is the one that runs most often.
                schedule.prefetch(loop)
                prefetched = True
    return schedule


def subgroup_schedule(contraction: Contraction, layout: SubgroupLayout, tiling: Tiling | None = None) -> Schedule:
    """Schedule a nest for the sub-group form: rows over lanes, tiles over sub-groups, columns in registers.

    `tiling` is by default `subgroup_tiling`.
    """
    tiling = tiling or subgroup_tiling(contraction)
    schedule = Schedule(contraction.nest)
    rows = schedule.split("m", layout.lanes, tail="guard")
    schedule.bind(rows.outer, "rows")
    schedule.bind(rows.inner, "lanes")
    for part in _tile_columns(schedule, contraction, tiling.columns, deal=True):
        if part.columns is not None:
            schedule.unroll(part.columns)
        if part.reduction is not None:
            if part.columns is not None:
                schedule.decompose_reduction(part.reduction, above=part.columns)
            _unroll_reduction(schedule, part.reduction, contraction.depth, tiling.unroll)
    return schedule


def vector_operations(contraction: Contraction, vector_bytes: int) -> int:
    """Estimate the vector operations of one nest; an unknown size counts as 16."""
    sizes = [size if isinstance(size, int) else 16 for size in (contraction.rows, contraction.columns)]
    depth = contraction.depth if isinstance(contraction.depth, int) else 16 if contraction.depth is not None else 1
    vectors = -(-sizes[0] // vector_width(contraction, vector_bytes))
    return vectors * sizes[1] * depth


def even_tile(size: Bound, largest: int) -> int:
    """Return the tile size that cuts `size` into the fewest tiles, as even as possible."""
    if not isinstance(size, int):
        return min(largest, 4)
    tiles = -(-size // largest)
    return -(-size // tiles)


def _tile_height(contraction: Contraction, width: int) -> int:
    """Return how many vectors high a tile of C is."""
    rows, columns = contraction.rows, contraction.columns
    if not isinstance(rows, int):
        return 1
    vectors = -(-rows // width)
    if vectors == _TILE_VECTORS + 1:
        return vectors  # rather than a tile and a half
    few = isinstance(columns, int) and columns <= _FEW_COLUMNS
    return even_tile(vectors, 2 * _TILE_VECTORS if few else _TILE_VECTORS)


def unrolling(depth: Bound | None, products: int) -> int:
    """Return how many steps of a sum an iteration does whose tile has `products` vectors."""
    if isinstance(depth, int) and depth <= _SHORT_REDUCTION and depth * products <= 4 * _PRODUCTS_PER_ITERATION:
        return depth
    return max(1, min(4, _PRODUCTS_PER_ITERATION // products))


def _tile_columns(schedule: Schedule, contraction: Contraction, tile: int, deal: bool = False) -> list[_Part]:
    """Tile the columns; the parts are the full tiles and, where the tile does not divide them, the rest.

    With `deal`, the tiles are dealt out to the sub-groups.
    """
    reduction = None if contraction.depth is None else "k"
    rows = "m.1" if deal else "m"
    split = schedule.split("n", tile)
    parts = [_Part(rows, split.inner, reduction, split.outer)]
    if split.remainder is not None:
        rest = _Part(
            split.renamed.get(rows, rows), None, reduction and split.renamed[reduction], split.remainder
        )
        if isinstance(contraction.columns, int):
            again = schedule.split(split.remainder, contraction.columns % tile)
            parts.append(_Part(rest.rows, again.inner, rest.reduction, again.outer))
        else:
            parts.append(rest)
    if deal:
        for part in parts:
            schedule.bind(part.outer, "columns")
    return parts


def _tile_rows(schedule: Schedule, part: _Part, rows: Bound, vectors: int, width: int) -> list[_Part]:
    """Tile the rows; where their number is unknown, the rest runs in smaller tiles and then one by one."""
    factors = [vectors * width] if isinstance(rows, int) else _decreasing(vectors * width, width, 4)
    tiles: list[_Part] = []
    rest = part
    for factor in factors:
        if isinstance(rows, int) and rows <= factor:
            break
        split = schedule.split(rest.rows, factor)
        tiles.append(_Part(split.inner, rest.columns, rest.reduction, rest.outer))
        if split.remainder is None:
            return tiles
        rest = _Part(
            split.remainder,
            rest.columns and split.renamed[rest.columns],
            rest.reduction and split.renamed[rest.reduction],
            rest.outer,
        )
    return [*tiles, rest]


def _decreasing(*factors: int) -> list[int]:
    """Return the factors that are smaller than all before them."""
    return [factor for i, factor in enumerate(factors) if all(factor < before for before in factors[:i])]


def _finish_tile(schedule: Schedule, tile: _Part, depth: Bound | None, unroll: int) -> str | None:
    """Vectorize the rows and unroll the columns of a tile, and hoist its reduction out of both.

    Returns the loop that the reduction runs in, or None if it has none or is unrolled.
    """
    inner: list[str] = []
    range_ = schedule.range_of(tile.rows)
    if range_ is not None:
        # A single row needs no vector, and the one element of an order-0 result has no index to vectorize.
        (schedule.vectorize if len(range_) > 1 else schedule.unroll)(tile.rows)
        inner.append(tile.rows)
    if tile.columns is not None:
        schedule.unroll(tile.columns)
        inner.append(tile.columns)
    if tile.reduction is not None:
        if inner:
            schedule.decompose_reduction(tile.reduction, above=inner[0])
        return _unroll_reduction(schedule, tile.reduction, depth, unroll)
    return None


def _unroll_reduction(schedule: Schedule, reduction: str, depth: Bound | None, factor: int) -> str | None:
    """Unroll a reduction by `factor`, and return the loop that is left, if any."""
    if isinstance(depth, int) and depth <= factor:
        schedule.unroll(reduction)
        return None
    if factor == 1:
        return reduction
    split = schedule.split(reduction, factor)
    schedule.unroll(split.inner)
    if split.remainder is not None and schedule.range_of(split.remainder) is not None:
        schedule.unroll(split.remainder)
    return split.outer
