"""The sub-groups of a work-group share the tiles of an instruction, and the lanes of each its rows."""

from __future__ import annotations

from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.tactic import Place, TiledTactic
from tl_dpnp.lowering.tactics.tiles import tile_columns, unroll_reduction
from tl_dpnp.lowering.tiling import Tiling, subgroup_tiling
from tl_dpnp.target.core import Core

__all__ = ["Lanes", "subgroup_schedule"]

#: Values that a work-item of a GPU may sum in.
_REGISTERS = 18


class Lanes(TiledTactic):
    """See the module; for all instructions."""

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> Lanes:
        return cls(contraction, place)

    def schedule(self) -> Schedule:
        return subgroup_schedule(self.contraction, self.place.layout, self.place.device.core, self.tiling)

    @property
    def default_tiling(self) -> Tiling:
        return subgroup_tiling(self.contraction, self.place.device.core)

    def room(self, rows: int) -> tuple[int, int]:
        return 1, _REGISTERS // self.contraction.sums


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
    for part in tile_columns(schedule, contraction, tiling.columns, deal=True):
        if part.columns is not None:
            schedule.unroll(part.columns)
        if part.reduction is not None:
            if part.columns is not None:
                schedule.decompose_reduction(part.reduction, above=part.columns)
            unroll_reduction(schedule, part.reduction, contraction.depth, tiling.unroll)
    return schedule
