"""One work-item computes with vectors: a tile of C in registers, rows in lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tl_dpnp.lowering.contraction import JAM, OUTPUT, Contraction, only_sets
from tl_dpnp.lowering.nest import Bound, leaves
from tl_dpnp.lowering.packing import count, pack, strided_along, transpose
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.tactic import Place, TiledTactic
from tl_dpnp.lowering.tactics.tiles import SMALL_TILE, Part, decreasing, tile_columns, unroll_reduction
from tl_dpnp.lowering.tile_cycles import TileCycles, vector_width
from tl_dpnp.lowering.tiling import Tiling, memory_tiling, vector_tiling
from tl_dpnp.target.core import Core

__all__ = ["Vectors", "vector_schedule"]

#: Bytes of such a copy that is made at once where tiles of rows can have their own.
_LARGEST_COPY = 1 << 14
#: Columns of the smallest tile where parts of vectors need no tiles of their own.
_PAIR = 2
#: Vectors that one iteration of a loop sums whose lanes are summed apart.
_SUMS_PER_ITERATION = 4


class Vectors(TiledTactic):
    """See the module."""

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> Vectors | None:
        return cls(contraction, place) if place.frame.is_alone else None

    def schedule(self) -> Schedule:
        return vector_schedule(self.contraction, self.place.device.core, self.tiling)

    def schedule_out_of_cache(self) -> Schedule | None:
        core = self.place.device.core
        tiling = None if strided_along(self.contraction, "m") else memory_tiling(self.contraction, core)
        return None if tiling is None else vector_schedule(self.contraction, core, tiling)

    @property
    def default_tiling(self) -> Tiling:
        return vector_tiling(self.contraction, self.place.device.core)

    def room(self, rows: int) -> tuple[int, int]:
        core = self.place.device.core
        return -(-rows // vector_width(self.contraction, core)), core.registers // self.contraction.sums


def vector_schedule(contraction: Contraction, core: Core, tiling: Tiling | None = None) -> Schedule:
    """Schedule a nest for the vector form: one work-item, rows in vectors, a tile of C in registers.

    `tiling` is by default `vector_tiling`.
    """
    width = vector_width(contraction, core)
    across = _across(contraction, core)
    if tiling is None and across is not None:
        return _transposed_schedule(contraction, across, width, core)
    tiling = tiling or vector_tiling(contraction, core)
    schedule = Schedule(contraction.nest)
    if _sums_in_lanes(contraction, width):
        _sum_in_lanes(schedule, contraction, width)
        return schedule
    strided = strided_along(contraction, "m")
    panels = _in_panels(contraction, tiling, width, strided)
    for buffer, modes in strided if not panels else ():
        pack(schedule, buffer, modes, width)
    schedule.reorder("n", "m", *([JAM] if contraction.jam > 1 else []))
    estimate = TileCycles.of(contraction, core)
    shares = estimate.shares((tiling.vectors, tiling.columns))
    # What reads C would wait for the last store to the line that it begins in.
    by_columns = estimate.splits and only_sets(contraction)
    reductions, others = [], []
    predicated = not isinstance(contraction.rows, int) and core.masks and _have_rows_in_order(contraction)
    least = _PAIR if predicated else SMALL_TILE
    for part in tile_columns(schedule, contraction, tiling.columns, least=least):
        if part.columns is not None:
            schedule.reorder(part.rows, part.columns)
        for tile in _tile_rows(schedule, part, contraction.rows, tiling.vectors, width, predicated):
            reduction = _finish_tile(schedule, tile, contraction.depth, tiling.unroll, width if shares else 0,
                                     shares and estimate.across is not None, by_columns=by_columns)
            single = schedule.is_static(part.outer) and count(schedule, part.outer) == 1
            reductions += [reduction] if reduction is not None else []
            others += [tile.outer if single else part.outer]
    if contraction.jam == 1:
        # Spread over all tiles, where their sums have loops; else over the first one, which runs most often.
        for loop in reductions or others[:1]:
            if schedule.is_static(loop):
                schedule.prefetch(loop)
    if panels:
        # A copy of all rows would not stay in the nearest cache; that of a tile of rows serves all tiles of columns.
        schedule.reorder("m.0", "n.0")
        for buffer, modes in strided:
            pack(schedule, buffer, modes, width, "n.0")
    return schedule


def _in_panels(contraction: Contraction, tiling: Tiling, width: int, strided: Sequence[tuple[str, object]]) -> bool:
    """Whether matrices that are read across their columns are copied for one tile of rows after the other."""
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int) and strided):
        return False
    whole = rows % (tiling.vectors * width) == 0 and columns % tiling.columns == 0
    return whole and rows > tiling.vectors * width and rows * depth * contraction.element.bytes > _LARGEST_COPY


def _across(contraction: Contraction, core: Core) -> Tiling | None:
    """Return the tiling of C with vectors along its columns, if that leaves half as much to transpose, or less.

    Such a C is narrow: its whole vectors are stored across its columns, instead of an A that is read across its own.
    """
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)) or contraction.jam > 1:
        return None
    if not only_sets(contraction):
        return None
    across = depth * columns if strided_along(contraction, "n") else 0
    if not strided_along(contraction, "m") or 2 * (rows * columns + across) > rows * depth:
        return None
    tiling = vector_tiling(replace(contraction, rows=columns, columns=rows), core)
    divides = columns % (tiling.vectors * vector_width(contraction, core)) == 0 == rows % tiling.columns
    return tiling if divides else None


def _transposed_schedule(contraction: Contraction, tiling: Tiling, width: int, core: Core) -> Schedule:
    """Schedule a nest for the vector form: columns in vectors, a tile of C in registers, written back transposed."""
    schedule = Schedule(contraction.nest)
    for buffer, modes in strided_along(contraction, "n"):
        pack(schedule, buffer, modes, width)
    result = schedule.cache_write(OUTPUT, "registers")
    rows, columns = schedule.split("m", tiling.columns), schedule.split("n", tiling.vectors * width)
    schedule.reorder(rows.outer, columns.outer, columns.inner, rows.inner)
    tile = Part(columns.inner, rows.inner, "k", rows.outer)
    loop = _finish_tile(schedule, tile, contraction.depth, tiling.unroll)
    if loop is not None:
        schedule.prefetch(loop)
    transpose(schedule, result, (1, 0), width, rows.outer)
    return schedule


def _sums_in_lanes(contraction: Contraction, width: int) -> bool:
    """Whether the lanes of vectors sum along k: one column of C, whose operands are consecutive along k only."""
    depth = contraction.depth
    if depth is None or contraction.columns != 1 or (isinstance(depth, int) and depth < width):
        return False
    buffers = [(access.buffer, access.indices) for leaf in leaves(contraction.nest.body)
               for access in leaf.assign.reads if not access.buffer.in_registers and access.buffer.name != OUTPUT]
    strides = [dict(zip((index[0] for index in indices), buffer.strides, strict=True)) for buffer, indices in buffers]
    return all(along.get("k", 1) == 1 and along.get("m") != 1 for along in strides)


def _sum_in_lanes(schedule: Schedule, contraction: Contraction, width: int) -> None:
    split = schedule.split("k", width)
    parts = schedule.rfactor(split.inner)
    for loop in (parts.init[split.inner], split.inner, parts.finish[split.inner]):
        schedule.vectorize(loop)
    rounds = schedule.split(split.outer, _SUMS_PER_ITERATION) if (
        not isinstance(contraction.depth, int) or contraction.depth >= _SUMS_PER_ITERATION * width) else None
    if rounds is not None:
        schedule.unroll(rounds.inner)
        if schedule.is_static(rounds.outer):
            schedule.prefetch(rounds.outer)


def _tile_rows(
    schedule: Schedule, part: Part, rows: Bound, vectors: int, width: int, predicated: bool
) -> list[Part]:
    """Tile the rows; where their number is unknown, the rest runs in smaller tiles and then one by one.

    Where tiles may be `predicated` it runs in tiles of one vector, whose last one has a mask.
    """
    factors = [vectors * width] if isinstance(rows, int) or predicated else decreasing(
        vectors * width, width, width // 2, SMALL_TILE)
    tiles: list[Part] = []
    rest = part
    for factor in factors:
        if isinstance(rows, int) and rows <= factor:
            break
        split = schedule.split(rest.rows, factor)
        tiles.append(replace(rest, rows=split.inner, outer=split.outer))
        if split.remainder is None:
            return tiles
        rest = rest.renamed(split.renamed, rows=split.remainder)
    if predicated:
        split = schedule.split(rest.rows, width, tail="guard")
        rest = replace(rest, rows=split.inner, outer=split.outer)
    return [*tiles, rest]


def _have_rows_in_order(contraction: Contraction) -> bool:
    """Whether all that has rows has them side by side in memory, as lanes of a vector with a mask must be."""
    for leaf in leaves(contraction.nest.body):
        if leaf.assign.update != "set":
            return False
        for access in (leaf.assign.target, *leaf.assign.reads):
            if access.buffer.in_registers:
                continue
            strides = [stride for index, stride in zip(access.indices, access.buffer.strides, strict=True)
                       if "m" in index]
            if strides and (strides != [1] or access.buffer.element.is_subbyte):
                return False
    return True


def _finish_tile(
    schedule: Schedule, tile: Part, depth: Bound | None, unroll: int, shared: int = 0, in_blocks: bool = False,
    by_columns: bool = False,
) -> str | None:
    """Vectorize the rows and unroll the columns of a tile, and hoist its reduction out of both.

    Rows that are left over share vectors of `shared` lanes; 0 where they do not.  Where they are all, these may take
    several steps of the sum `in_blocks`.  Vectors are stored `by_columns` where they meet in lines of the cache, which
    are then written once.
    Returns the loop that the reduction runs in, or None if it has none or is unrolled.
    """
    rows = tile.rows if schedule.range_of(tile.rows) is not None else None
    inner = [loop for loop in (rows, tile.columns) if loop is not None]
    copies: list[Mapping[str, str]] = [{}]
    stores: Mapping[str, str] | None = None
    if tile.reduction is not None and inner:
        decomposed = schedule.decompose_reduction(tile.reduction, above=inner[0])
        stores = decomposed.finish
        copies += [decomposed.init, stores]
    vectors = None
    for renamed in copies:
        columns = tile.columns and renamed.get(tile.columns, tile.columns)
        mixed = _fill_vectors(schedule, rows and renamed.get(rows, rows), columns, shared,
                              by_columns and renamed is stores)
        vectors = vectors or mixed
        if tile.jam is not None:
            schedule.unroll(renamed.get(tile.jam, tile.jam))
    if tile.reduction is not None:
        if vectors is not None and in_blocks:
            return _in_blocks(schedule, tile.reduction, vectors, depth, unroll)
        return unroll_reduction(schedule, tile.reduction, depth, unroll)
    return None


def _in_blocks(schedule: Schedule, reduction: str, vectors: str, depth: Bound | None, unroll: int) -> str | None:
    """Unroll a reduction by `unroll`; one vector after the other takes all of these steps, so that few wait for theirs.

    Returns the loop that the reduction runs in, or None if it is unrolled.
    """
    if isinstance(depth, int) and depth <= unroll:
        schedule.reorder(vectors, reduction)
        schedule.unroll(reduction)
        return None
    split = schedule.split(reduction, unroll)
    schedule.reorder(vectors, split.inner)
    schedule.unroll(split.inner)
    if split.remainder is not None:
        schedule.reorder(split.renamed[vectors], split.remainder)
        schedule.unroll(split.remainder)
    return split.outer


def _fill_vectors(
    schedule: Schedule, rows: str | None, columns: str | None, shared: int, by_columns: bool = False
) -> str | None:
    """Make whole vectors of the rows of a tile; rows that are left over by those of `shared` lanes share vectors.

    These have the rows of several columns.  Vectors of one column follow one another `by_columns`, else those of one
    row do.  Returns the loop of shared vectors where no others are.
    """
    range_ = None if rows is None else schedule.range_of(rows)
    rest = len(range_) % shared if range_ is not None and shared else 0
    if rows is not None and range_ is not None and columns is not None and rest and count(schedule, columns) > 1:
        alone = len(range_) < shared
        if not alone:
            split = schedule.split(rows, len(range_) - rest)
            assert split.remainder is not None
            if by_columns:
                schedule.reorder(columns, split.outer, split.inner)
            schedule.unroll(split.outer)
            schedule.vectorize(split.inner)
            schedule.unroll(columns)
            rows, columns = split.remainder, split.renamed[columns]
        schedule.reorder(columns, rows)
        fused = schedule.fuse(columns, rows)
        schedule.vectorize(fused)
        return fused if alone else None
    if by_columns and rows is not None and columns is not None:
        schedule.reorder(columns, rows)
    if rows is not None and range_ is not None:
        # A single row needs no vector, and the one element of an order-0 result has no index to vectorize.
        (schedule.vectorize if len(range_) > 1 else schedule.unroll)(rows)
    if columns is not None:
        schedule.unroll(columns)
    return None
