"""Tiles of rows in vectors: how rows are cut, and how vectors are filled and summed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tl_dpnp.lowering.nest import Bound
from tl_dpnp.lowering.packing import count
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.tiles import SMALL_TILE, Part, decreasing, unroll_reduction

__all__ = ["finish_tile", "tile_rows"]


def tile_rows(
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


def finish_tile(
    schedule: Schedule, tile: Part, depth: Bound | None, unroll: int, width: int, *, shares: bool = False,
    in_blocks: bool = False, by_columns: bool = False,
) -> str | None:
    """Vectorize the rows of a tile, by vectors of `width` lanes, unroll its columns, and hoist its sums out of both.

    Rows that are left over share vectors if the tile `shares` them.  Where they are all, these may take several steps
    of the sum `in_blocks`.  Vectors are stored `by_columns` where they meet in lines of the cache, which are then
    written once.
    Returns the loop that the reduction runs in, or None if it has none or is unrolled.
    """
    rows = tile.rows if schedule.range_of(tile.rows) is not None else None
    inner = [loop for loop in (rows, tile.columns) if loop is not None]
    copies: list[tuple[Mapping[str, str], bool]] = [({}, _keeps_a_column(schedule, tile, width, shares))]
    if tile.reduction is not None and inner:
        decomposed = schedule.decompose_reduction(tile.reduction, above=inner[0])
        copies += [(decomposed.init, False), (decomposed.finish, by_columns)]
    vectors = None
    for renamed, column_after_column in copies:
        columns = tile.columns and renamed.get(tile.columns, tile.columns)
        mixed = _fill_vectors(schedule, rows and renamed.get(rows, rows), columns, width if shares else 0,
                              column_after_column)
        vectors = vectors or mixed
        if tile.jam is not None:
            schedule.unroll(renamed.get(tile.jam, tile.jam))
    if tile.reduction is not None:
        if vectors is not None and in_blocks:
            return _in_blocks(schedule, tile.reduction, vectors, depth, unroll)
        return unroll_reduction(schedule, tile.reduction, depth, unroll)
    return None


def _keeps_a_column(schedule: Schedule, tile: Part, width: int, shares: bool) -> bool:
    """Whether a step of the sums multiplies all vectors of a column of A by one element of B after the other.

    What LLVM keeps in registers is then that column and the elements on their way, else the elements for all columns
    and a vector: what is less of both, as `TileCycles.most_columns` has it.  Vectors that are shared need all elements.
    """
    if tile.columns is None or tile.jam is not None or schedule.range_of(tile.rows) is None:
        return False
    rows = count(schedule, tile.rows)
    return not (shares and rows % width) and -(-rows // width) <= count(schedule, tile.columns)


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
