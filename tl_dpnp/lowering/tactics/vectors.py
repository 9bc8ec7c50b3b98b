"""One work-item computes with vectors: a tile of C in registers, rows in lanes."""

from __future__ import annotations

from tl_dpnp.lowering.contraction import JAM, OUTPUT, Contraction, only_sets
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.packing import count, pack, strided_along
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.inner_products import inner_product_schedule, inner_tile
from tl_dpnp.lowering.tactics.strided import (
    needs_panels,
    panel_schedule,
    strided_cycles,
    strided_tiling,
    tiling_across,
    transposed_schedule,
)
from tl_dpnp.lowering.tactics.tactic import Place, TiledTactic
from tl_dpnp.lowering.tactics.tiles import SMALL_TILE, tile_columns
from tl_dpnp.lowering.tactics.vector_tiles import finish_tile, tile_rows
from tl_dpnp.lowering.tile_cycles import TileCycles, begins_inside_lines, vector_width
from tl_dpnp.lowering.tiling import Tiling, memory_tiling
from tl_dpnp.target.core import Core

__all__ = ["Vectors", "vector_schedule"]

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
        return strided_tiling(self.contraction, self.place.device.core)

    def room(self, rows: int) -> tuple[int, int]:
        core = self.place.device.core
        return -(-rows // vector_width(self.contraction, core)), core.registers // self.contraction.sums


def vector_schedule(contraction: Contraction, core: Core, tiling: Tiling | None = None) -> Schedule:
    """Schedule a nest for the vector form: one work-item, rows in vectors, a tile of C in registers.

    `tiling` is by default `strided_tiling`, the `vector_tiling` of most products.
    """
    width = vector_width(contraction, core)
    across = tiling_across(contraction, core)
    inner = inner_tile(contraction, core) if tiling is None else None
    enough = 1 - core.tiles.doubt_along_sum
    if inner is not None and inner.cycles < enough * strided_cycles(contraction, core, across):
        return inner_product_schedule(contraction, inner, core)
    if tiling is None and across is not None:
        return transposed_schedule(contraction, across, core)
    tiling = tiling or strided_tiling(contraction, core)
    schedule = Schedule(contraction.nest)
    if _sums_in_lanes(contraction, width):
        _sum_in_lanes(schedule, contraction, width)
        return schedule
    strided = strided_along(contraction, "m")
    if needs_panels(contraction, tiling, width, strided):
        return panel_schedule(contraction, tiling, core)
    for buffer, modes in strided:
        pack(schedule, buffer, modes, width)
    schedule.reorder("n", "m", *([JAM] if contraction.jam > 1 else []))
    estimate = TileCycles.of(contraction, core)
    shares = estimate.shares((tiling.vectors, tiling.columns))
    # What reads C would wait for the last store to the line that it begins in.
    by_columns = begins_inside_lines(contraction) and only_sets(contraction)
    reductions, others = [], []
    predicated = not isinstance(contraction.rows, int) and core.masks and _have_rows_in_order(contraction)
    least = _PAIR if predicated else SMALL_TILE
    for part in tile_columns(schedule, contraction, tiling.columns, least=least):
        if part.columns is not None:
            schedule.reorder(part.rows, part.columns)
        for tile in tile_rows(schedule, part, contraction.rows, tiling.vectors, width, predicated):
            reduction = finish_tile(schedule, tile, contraction.depth, tiling.unroll, width, shares=shares,
                                    in_blocks=shares and estimate.across is not None, by_columns=by_columns)
            single = schedule.is_static(part.outer) and count(schedule, part.outer) == 1
            reductions += [reduction] if reduction is not None else []
            others += [tile.outer if single else part.outer]
    if contraction.jam == 1:
        # Spread over all tiles, where their sums have loops; else over the first one, which runs most often.
        for loop in reductions or others[:1]:
            if schedule.is_static(loop):
                schedule.prefetch(loop)
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
