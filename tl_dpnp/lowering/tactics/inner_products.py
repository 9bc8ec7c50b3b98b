"""Products whose vectors run along the sum: a lane adds up every so many terms, and lanes are added up at the end.

Where the first factor is read across its columns, its rows are consecutive along the sum, so that nothing of it has to
be transposed.  What that takes instead is to add up the lanes of a vector for each element of C, which is done for
several rows together.
"""

from __future__ import annotations

from typing import NamedTuple

from tl_dpnp.lowering.contraction import OUTPUT, Contraction
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.packing import copy_in_vectors, count, pack, strided_along
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.tiles import Part, tile_columns
from tl_dpnp.lowering.tile_cycles import cut, even_tile, is_plain, vector_width
from tl_dpnp.target.core import CACHE_LINE, Core

__all__ = ["InnerTile", "inner_product_schedule", "inner_tile"]

#: Rows of a tile, whose lanes are added up together.
_ROWS = (8, 4, 2)
#: Registers beside the sums and the vectors that are kept of one factor: a vector of the other, and what chooses lanes.
_OTHERS = 2
#: Vectors of terms that one iteration adds up: two, so that loops end less often.
_UNROLLED = 2
#: Cycles of the chain of additions at the end, which nothing overlaps with in a small product.
_START = 25
#: Cycles in which a vector of a copy is loaded and stored.
_MOVES = 2


class InnerTile(NamedTuple):
    """So many rows and columns of C, each element of which has a vector of sums in registers.

    `cycles` are those of the product, as estimated.
    """

    rows: int
    columns: int
    cycles: float


def inner_tile(contraction: Contraction, core: Core) -> InnerTile | None:
    """Return the quickest tile; None where vectors should not run along the sum.

    A is consecutive along it.  Terms that are left over by whole vectors take masks.
    """
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)):
        return None
    if contraction.jam > 1 or contraction.sums > 1 or columns == 1 or not is_plain(contraction.nest):
        return None
    across = {name for name, _ in strided_along(contraction, "m")}
    if not across or across & {name for name, _ in strided_along(contraction, "k")}:
        return None
    width = vector_width(contraction, core)
    if depth % width and not core.masks:
        return None
    tiles = []
    for height in _ROWS:
        for wide in dict.fromkeys(even_tile(columns, most) for most in range(core.registers // height, 0, -1)):
            if height <= min(rows, width) and height * wide + min(height, wide) + _OTHERS <= core.registers:
                tiles.append(InnerTile(height, wide, _cycles(contraction, core, height, wide)))
    return min(tiles, key=lambda tile: tile.cycles, default=None)


def _cycles(contraction: Contraction, core: Core, height: int, wide: int) -> float:
    """Estimate the cycles of copies, of sums, and of adding up the lanes of each."""
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    assert isinstance(depth, int)
    width = vector_width(contraction, core)
    steps, splits = -(-depth // width), _splits(contraction)
    copied = columns * steps * (core.transposition(width) if strided_along(contraction, "k") else _MOVES * splits)
    tiles = [(high, wide_, times * often) for high, times in cut(rows, height) for wide_, often in cut(columns, wide)]
    return _START + copied + sum(
        times * (steps * core.inner(high, wide_, splits=splits) + wide_ * core.lane_sums(high, width))
        for high, wide_, times in tiles)


def _splits(contraction: Contraction) -> bool:
    """Whether rows of A begin inside a cache line."""
    assert isinstance(contraction.depth, int)
    return bool(contraction.depth * contraction.element.bytes % CACHE_LINE)


def inner_product_schedule(contraction: Contraction, tile: InnerTile, core: Core) -> Schedule:
    """Schedule a nest for the vector form: vectors along the sum, tiles of C in registers.

    B is copied where it is read across its columns, and where vectors of it would begin inside a line of the cache:
    those of A do, too, and such a load takes two.
    """
    schedule, width = Schedule(contraction.nest), vector_width(contraction, core)
    for buffer, modes in strided_along(contraction, "k"):
        pack(schedule, buffer, modes, width)
    if _splits(contraction) and not strided_along(contraction, "k"):
        for buffer in _factors_of_columns(contraction):
            copy_in_vectors(schedule, buffer, width)
    split = schedule.split("m", tile.rows)
    schedule.prefetch(split.outer)
    panels = [Part(split.inner, None, "k", "n")]
    if split.remainder is not None:
        last = schedule.split(split.remainder, count(schedule, split.remainder))
        panels.append(Part("m", None, "k", "n").renamed(split.renamed, rows=last.inner))
    for panel in panels:
        schedule.reorder(panel.outer, panel.rows)
        for part in tile_columns(schedule, contraction, tile.columns, part=panel):
            _sum_along(schedule, part, contraction.depth, width)
    return schedule


def _factors_of_columns(contraction: Contraction) -> list[str]:
    """Return the matrices in memory that have columns of C, and no rows."""
    return list(dict.fromkeys(
        access.buffer.name for leaf in leaves(contraction.nest.body) for access in leaf.assign.reads
        if ("n",) in access.indices and ("m",) not in access.indices
        and not access.buffer.in_registers and access.buffer.name != OUTPUT))


def _sum_along(schedule: Schedule, tile: Part, depth: object, width: int) -> None:
    """Make vectors of the terms of a tile's sums, and of the rows of its results."""
    assert tile.reduction is not None
    assert tile.columns is not None
    assert isinstance(depth, int)
    split = schedule.split(tile.reduction, width, tail="guard")
    parts = schedule.rfactor(split.inner)
    around = schedule.decompose_reduction(split.outer, above=tile.columns)
    for renamed, lanes in ((around.init, parts.init), (around.finish, parts.finish)):
        schedule.vectorize(renamed[lanes[split.inner]])
        if count(schedule, renamed[tile.rows]) > 1:
            schedule.vectorize(renamed[tile.rows])
        schedule.unroll(renamed[tile.columns])
    schedule.vectorize(split.inner)
    if count(schedule, tile.rows) > count(schedule, tile.columns):
        # The vectors of fewer columns are kept, those of the rows are read one after the other.
        schedule.reorder(tile.rows, tile.columns)
    schedule.unroll(tile.rows)
    schedule.unroll(tile.columns)
    whole, steps = depth // width, split.outer
    if depth % width and whole:
        # The vectors that are whole need no masks.
        steps = schedule.split(split.outer, whole).inner
    if whole > _UNROLLED:
        pairs = schedule.split(steps, _UNROLLED)
        schedule.unroll(pairs.inner)
