"""The default schedules: for each form of a kernel, a short function of the nest, the device and a `Tiling`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from tl_dpnp.lowering.contraction import JAM, OUTPUT, Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import Bound, leaves
from tl_dpnp.lowering.packing import count, pack, strided_along, transpose
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tiling import Tiling, rest_of_rows, subgroup_tiling, vector_tiling, vector_width
from tl_dpnp.target.core import Core

__all__ = ["staged_schedule", "subgroup_schedule", "vector_schedule"]

#: Bytes of such a copy that is made at once where tiles of rows can have their own.
_LARGEST_COPY = 1 << 14
#: Rows and columns of the smallest tiles of a size that is unknown; what they leave over is done one by one.
_SMALL_TILE = 4
#: Vectors that one iteration of a loop sums whose lanes are summed apart.
_SUMS_PER_ITERATION = 4
#: K loops up to this length are unrolled whole in the staged form.
_SHORT_STAGED_SUM = 16
#: Longer ones by the first of these numbers that divides them; the largest is for sums from `_LONG_STAGED_SUM` on.
_STAGED_STEPS, _LONG_STAGED_SUM = (16, 8, 4, 2, 1), 64


@dataclass(frozen=True)
class _Part:
    """One part of a nest that was tiled: its loops, None where the part has none.

    `outer` is the loop over the tiles: of rows, or of columns where the rows are not tiled; `jam` that over
    work-groups.
    """

    rows: str
    columns: str | None
    reduction: str | None
    outer: str
    jam: str | None = None

    def renamed(self, names: Mapping[str, str], **split: str) -> _Part:
        """Return what a split leaves over: the loops inside the one that was `split` have new names there."""
        copied = {field.name: names.get(loop, loop) for field in fields(self) if (loop := getattr(self, field.name))}
        return replace(self, **(copied | split))


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
    reductions, others = [], []
    for part in _tile_columns(schedule, contraction, tiling.columns):
        if part.columns is not None:
            schedule.reorder(part.rows, part.columns)
        for tile in _tile_rows(schedule, part, contraction.rows, tiling.vectors, width):
            reduction = _finish_tile(schedule, tile, contraction.depth, tiling.unroll, width, core)
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
    assigns = [leaf.assign for leaf in leaves(contraction.nest.body)]
    if any(a.update != "set" or any(access.buffer.name == OUTPUT for access in a.reads) for a in assigns):
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
    tile = _Part(columns.inner, rows.inner, "k", rows.outer)
    loop = _finish_tile(schedule, tile, contraction.depth, tiling.unroll, width, core)
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


def subgroup_schedule(
    contraction: Contraction, layout: SubgroupLayout, core: Core, tiling: Tiling | None = None
) -> Schedule:
    """Schedule a nest for the sub-group form: rows over lanes, tiles over sub-groups, columns in registers.

    `tiling` is by default `subgroup_tiling`.
    """
    tiling = tiling or subgroup_tiling(contraction, core)
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


def staged_schedule(contraction: Contraction, layout: SubgroupLayout) -> Schedule:
    """Schedule a nest for the staged form: a tile of C for each thread of a team, in registers.

    Sizes are known, and a tile divides them: it is the smallest one that leaves no more tiles than there are threads.
    """
    schedule = Schedule(contraction.nest)
    rows, columns = contraction.rows, contraction.columns
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    height, width = _smallest_tile(rows, layout.lanes), _smallest_tile(columns, layout.columns)
    across, along = schedule.split("m", height), schedule.split("n", width)
    schedule.reorder(across.outer, along.outer, across.inner, along.inner)
    schedule.bind(across.outer, "lanes")
    schedule.bind(along.outer, "columns")
    copies: list[Mapping[str, str]] = [{}]
    if contraction.depth is not None:
        decomposed = schedule.decompose_reduction("k", above=across.inner)
        copies += [decomposed.init, decomposed.finish]
    for renamed in copies:
        for loop in (across.inner, along.inner):
            schedule.unroll(renamed.get(loop, loop))
    if contraction.depth is not None:
        depth = contraction.depth
        assert isinstance(depth, int)
        steps: tuple[int, ...] = (depth, *_STAGED_STEPS) if depth <= _SHORT_STAGED_SUM else _STAGED_STEPS
        if _SHORT_STAGED_SUM < depth < _LONG_STAGED_SUM:
            steps = steps[1:]
        _unroll_reduction(schedule, "k", depth, next(step for step in steps if depth % step == 0))
    return schedule


def _smallest_tile(size: int, threads: int) -> int:
    return next(tile for tile in range(1, size + 1) if size % tile == 0 and size // tile <= threads)


def _tile_columns(schedule: Schedule, contraction: Contraction, tile: int, deal: bool = False) -> list[_Part]:
    """Tile the columns; where their number is unknown, the rest runs in smaller tiles and then one by one.

    With `deal`, the tiles are dealt out to the sub-groups, which would share few small ones badly.
    """
    columns = contraction.columns
    if isinstance(columns, int):
        tile = min(tile, columns)
        factors = [tile, columns % tile]
    else:
        factors = [tile] if deal or tile % _SMALL_TILE else _decreasing(tile, _SMALL_TILE)
    rest = _Part("m.1" if deal else "m", None, None if contraction.depth is None else "k", "n",
                 JAM if contraction.jam > 1 else None)
    parts = []
    for factor in factors:
        split = schedule.split(rest.outer, factor)
        parts.append(replace(rest, columns=split.inner, outer=split.outer))
        if split.remainder is None:
            break
        rest = rest.renamed(split.renamed, outer=split.remainder)
    else:
        parts.append(rest)
    if deal:
        for part in parts:
            schedule.bind(part.outer, "columns")
    return parts


def _tile_rows(schedule: Schedule, part: _Part, rows: Bound, vectors: int, width: int) -> list[_Part]:
    """Tile the rows; where their number is unknown, the rest runs in smaller tiles and then one by one."""
    factors = [vectors * width] if isinstance(rows, int) else _decreasing(
        vectors * width, width, width // 2, _SMALL_TILE)
    tiles: list[_Part] = []
    rest = part
    for factor in factors:
        if isinstance(rows, int) and rows <= factor:
            break
        split = schedule.split(rest.rows, factor)
        tiles.append(replace(rest, rows=split.inner, outer=split.outer))
        if split.remainder is None:
            return tiles
        rest = rest.renamed(split.renamed, rows=split.remainder)
    return [*tiles, rest]


def _decreasing(*factors: int) -> list[int]:
    """Return the factors that are smaller than all before them."""
    return [factor for i, factor in enumerate(factors) if all(factor < before for before in factors[:i])]


def _finish_tile(
    schedule: Schedule, tile: _Part, depth: Bound | None, unroll: int, width: int, core: Core
) -> str | None:
    """Vectorize the rows and unroll the columns of a tile, and hoist its reduction out of both.

    Returns the loop that the reduction runs in, or None if it has none or is unrolled.
    """
    rows = tile.rows if schedule.range_of(tile.rows) is not None else None
    inner = [loop for loop in (rows, tile.columns) if loop is not None]
    copies: list[Mapping[str, str]] = [{}]
    if tile.reduction is not None and inner:
        decomposed = schedule.decompose_reduction(tile.reduction, above=inner[0])
        copies += [decomposed.init, decomposed.finish]
    for renamed in copies:
        _fill_vectors(schedule, rows and renamed.get(rows, rows),
                      tile.columns and renamed.get(tile.columns, tile.columns), width, core)
        if tile.jam is not None:
            schedule.unroll(renamed.get(tile.jam, tile.jam))
    if tile.reduction is not None:
        return _unroll_reduction(schedule, tile.reduction, depth, unroll)
    return None


def _fill_vectors(schedule: Schedule, rows: str | None, columns: str | None, width: int, core: Core) -> None:
    """Make whole vectors of the rows of a tile; rows that are left over share vectors with those of other columns."""
    range_ = None if rows is None else schedule.range_of(rows)
    rest = 0 if range_ is None else rest_of_rows(len(range_), width, core)
    if rows is not None and range_ is not None and columns is not None and rest and count(schedule, columns) > 1:
        if len(range_) > width:
            split = schedule.split(rows, len(range_) - rest)
            assert split.remainder is not None
            schedule.unroll(split.outer)
            schedule.vectorize(split.inner)
            schedule.unroll(columns)
            rows, columns = split.remainder, split.renamed[columns]
        schedule.reorder(columns, rows)
        schedule.vectorize(schedule.fuse(columns, rows))
        return
    if rows is not None and range_ is not None:
        # A single row needs no vector, and the one element of an order-0 result has no index to vectorize.
        (schedule.vectorize if len(range_) > 1 else schedule.unroll)(rows)
    if columns is not None:
        schedule.unroll(columns)


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
