"""Products whose matrices are read across their columns: what is copied, or stored, by transposing squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import mul

from tl_dpnp.lowering.contraction import OUTPUT, Contraction, only_sets
from tl_dpnp.lowering.packing import count, pack, strided_along, transpose
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.tiles import Part, tile_columns
from tl_dpnp.lowering.tactics.vector_tiles import finish_tile, tile_rows
from tl_dpnp.lowering.tile_cycles import TileCycles, begins_inside_lines, vector_width
from tl_dpnp.lowering.tiling import Tiling, vector_tiling
from tl_dpnp.target.core import Core

__all__ = ["needs_panels", "panel_schedule", "strided_cycles", "strided_tiling", "tiling_across", "transposed_schedule"]

#: Bytes of such a copy that is made at once where tiles of rows can have their own.
_LARGEST_COPY = 1 << 14
#: Part of the multiply-adds from which on a copy counts.
_NOTICED = 1 / 8
#: Part of the estimated time that vectors along the columns of C must save.
_DOUBT_ACROSS = 0.1
#: How many times as much there is to transpose where vectors along the columns are taken for faster in any case.
_HALF = 2


def strided_tiling(contraction: Contraction, core: Core) -> Tiling:
    """Return the default tiling of a product, whose tiles are lower where they have copies that count."""
    tiling = vector_tiling(contraction, core)
    if not needs_panels(contraction, tiling, vector_width(contraction, core), strided_along(contraction, "m")):
        return tiling
    assert isinstance(contraction.depth, int)
    assert isinstance(contraction.columns, int)
    width = vector_width(contraction, core)
    if core.transposition(width) * core.multiply_adds < _NOTICED * contraction.columns:
        return tiling
    highest = core.tiles.bytes_of_panel // (contraction.depth * core.vector_bytes)
    return vector_tiling(contraction, core, max(core.tiles.vectors, highest))


def needs_panels(contraction: Contraction, tiling: Tiling, width: int, strided: Sequence[tuple[str, object]]) -> bool:
    """Whether matrices that are read across their columns are copied for one tile of rows after the other.

    A copy of all rows would not stay in the nearest cache; that of a tile of rows serves all tiles of columns.
    """
    return bool(strided) and _exceeds_a_copy(contraction) and (
        isinstance(contraction.rows, int) and contraction.rows > tiling.vectors * width)


def _exceeds_a_copy(contraction: Contraction) -> bool:
    """Whether the first factor of a product of known sizes is larger than what is copied at once."""
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)):
        return False
    return contraction.jam == 1 and rows * depth * contraction.element.bytes > _LARGEST_COPY


def panel_schedule(contraction: Contraction, tiling: Tiling, core: Core) -> Schedule:
    """Schedule a nest for the vector form: tiles of rows, each with copies of its own, around those of columns."""
    schedule, width = Schedule(contraction.nest), vector_width(contraction, core)
    estimate = TileCycles.of(contraction, core)
    shares = estimate.shares((tiling.vectors, tiling.columns))
    strided = strided_along(contraction, "m")
    split = schedule.split("m", tiling.vectors * width)
    panels = [(split.outer, Part(split.inner, None, "k", "n"))]
    if split.remainder is not None:
        last = schedule.split(split.remainder, count(schedule, split.remainder))
        panels.append((last.outer, Part("m", None, "k", "n").renamed(split.renamed, rows=last.inner)))
    for panel, whole in panels:
        schedule.reorder(whole.outer, whole.rows)
        for part in tile_columns(schedule, contraction, tiling.columns, part=whole):
            if part.columns is not None:
                schedule.reorder(part.rows, part.columns)
            loop = finish_tile(schedule, part, contraction.depth, tiling.unroll, width, shares=shares,
                               by_columns=begins_inside_lines(contraction) and only_sets(contraction))
            if loop is not None:
                schedule.prefetch(loop)
        for buffer, modes in strided:
            pack(schedule, buffer, modes, width, panel)
    return schedule


def tiling_across(contraction: Contraction, core: Core) -> Tiling | None:
    """Return the tiling of C with vectors along its columns, if that is faster.

    Then C is stored across its columns, instead of an A that is read across its own.  It is faster by the cycles of
    both, and where whole vectors leave half as much to transpose, or less.
    """
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)) or contraction.jam > 1:
        return None
    if not only_sets(contraction) or not strided_along(contraction, "m") or contraction.sums > 1 or columns == 1:
        return None
    turned = replace(contraction, rows=columns, columns=rows)
    whole = _in_whole_vectors(turned, core)
    width, tiling = vector_width(turned, core), vector_tiling(whole, core)
    divides = _divides(turned, tiling, width)
    assert isinstance(whole.rows, int)
    if not divides and rows * whole.rows * contraction.element.bytes > _LARGEST_COPY:
        return None
    copies = _copies_across(contraction)
    if divides and _HALF * sum(map(mul, copies[::2], copies[1::2])) <= rows * depth:
        return tiling
    faster = _cycles(whole, tiling, core, copies) < (1 - _DOUBT_ACROSS) * _cycles_of_rows(contraction, core)
    return tiling if faster else None


def strided_cycles(contraction: Contraction, core: Core, across: Tiling | None) -> float:
    """Estimate the cycles of a product of known sizes, and of what is transposed for it.

    That is C, and vectors run along its columns, where there is a tiling `across` it, else A.
    """
    if across is None:
        return _cycles_of_rows(contraction, core)
    turned = replace(contraction, rows=contraction.columns, columns=contraction.rows)
    return _cycles(_in_whole_vectors(turned, core), across, core, _copies_across(contraction))


def _in_whole_vectors(contraction: Contraction, core: Core) -> Contraction:
    """Return the product as if all vectors were whole: rows that are left over share none."""
    assert isinstance(contraction.rows, int)
    width = vector_width(contraction, core)
    return replace(contraction, rows=-(-contraction.rows // width) * width)


def _copies_across(contraction: Contraction) -> tuple[int, ...]:
    """Return the sizes of the matrices that are transposed where vectors run along the columns of C."""
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    assert isinstance(depth, int)
    return rows, columns, *((depth, columns) if strided_along(contraction, "n") else ())


def _cycles_of_rows(contraction: Contraction, core: Core) -> float:
    assert isinstance(contraction.rows, int)
    assert isinstance(contraction.depth, int)
    copies = contraction.rows, contraction.depth
    return _cycles(contraction, vector_tiling(contraction, core), core, copies)


def _divides(contraction: Contraction, tiling: Tiling, width: int) -> bool:
    assert isinstance(contraction.rows, int)
    assert isinstance(contraction.columns, int)
    return contraction.rows % (tiling.vectors * width) == 0 == contraction.columns % tiling.columns


def _cycles(contraction: Contraction, tiling: Tiling, core: Core, copies: Sequence[int]) -> float:
    """Estimate the cycles of a product, and of copies of so many rows and columns each that are transposed."""
    estimate, tile = TileCycles.of(contraction, core), (tiling.vectors, tiling.columns)
    assert isinstance(contraction.depth, int)
    shares = estimate.shares(tile)
    product = (estimate.cycles_across(tile[1]) if shares and estimate.across is not None else
               contraction.depth * estimate.cycles(tile, shares=shares))
    width = vector_width(contraction, core)
    vectors = sum(-(-one // width) * other for one, other in zip(copies[::2], copies[1::2], strict=True))
    return product + vectors * core.transposition(width)


def transposed_schedule(contraction: Contraction, tiling: Tiling, core: Core) -> Schedule:
    """Schedule a nest for the vector form: columns in vectors, a tile of C in registers, written back transposed."""
    schedule = Schedule(contraction.nest)
    turned = replace(contraction, rows=contraction.columns, columns=contraction.rows)
    width = vector_width(turned, core)
    for buffer, modes in strided_along(contraction, "n"):
        pack(schedule, buffer, modes, width)
    result = schedule.cache_write(OUTPUT, "registers")
    parts = tile_columns(schedule, turned, tiling.columns, part=Part("n", None, "k", "m"))
    for part in parts:
        assert part.columns is not None
        schedule.reorder(part.rows, part.columns)
        for tile in tile_rows(schedule, part, turned.rows, tiling.vectors, width, False):
            loop = finish_tile(schedule, tile, contraction.depth, tiling.unroll, width)
            if loop is not None:
                schedule.prefetch(loop)
    transpose(schedule, result, (1, 0), width, parts[0].outer if _divides(turned, tiling, width) else None)
    return schedule
