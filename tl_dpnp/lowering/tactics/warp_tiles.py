"""The sub-groups of a work-group share tiles of a product, each of which a warp computes on tensor cores.

Operands are read where they lie: temporaries, as those of cooperative matrices, are in shared memory.  That is for
products which tiles divide, and which are too small for blocks with copies of their operands (`blocks.py`).
"""

from __future__ import annotations

from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.rounding import rounding
from tl_dpnp.lowering.tactics.tactic import Place, Tactic
from tl_dpnp.records import dataclass
from tl_dpnp.target.catalog import TENSOR_CORES

__all__ = ["WarpTiles"]

#: Rows of a block of the instructions, columns of a lane, and instructions along the sum that are written out.
_BLOCK, _PAIR, _UNROLLED = 8, 2, 8


@dataclass(frozen=True)
class WarpTiles(Tactic):
    """See the module; a tile is what one instruction computes."""

    leaves_tuning = True
    row: MmaRow

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> WarpTiles | None:
        rows = _rows_of(contraction, place)
        return None if not rows else cls(contraction, place, max(rows, key=lambda row: row.m * row.k))

    def schedule(self) -> Schedule:
        schedule, row = Schedule(self.contraction.nest), self.row
        rows, columns = schedule.split("m", row.m), schedule.split("n", row.n)
        pairs, lanes = schedule.split(columns.inner, _PAIR), rows.inner
        own: list[str] = []
        if row.m > _BLOCK:
            blocks = schedule.split(rows.inner, _BLOCK)
            lanes = blocks.inner
            own.append(blocks.outer)
        own.append(pairs.inner)
        schedule.reorder(rows.outer, columns.outer, lanes, pairs.outer, *own)
        parts = schedule.decompose_reduction("k", above=own[0])
        steps = schedule.split("k", row.k)
        schedule.reorder(steps.outer, *own, steps.inner)
        schedule.bind(rows.outer, "rows")
        schedule.bind(columns.outer, "columns")
        schedule.bind(schedule.fuse(lanes, pairs.outer), "lanes")
        for loop in own:
            schedule.unroll(parts.init[loop])
            schedule.unroll(parts.finish[loop])
        schedule.tensorize(own[0], row.name)
        if len(schedule.range_of(steps.outer) or ()) <= _UNROLLED:
            schedule.unroll(steps.outer)
        return schedule


def _rows_of(contraction: Contraction, place: Place) -> list[MmaRow]:
    """Return the instructions whose tiles divide a product, and whose types are those of its operands."""
    sizes = contraction.rows, contraction.columns, contraction.depth
    buffers = contraction.nest.buffers
    is_product = "B" in buffers and all(len(buffers[name].shape) == 2 for name in "ABC")
    if place.device.capability < TENSOR_CORES or place.layout.lanes != LANES or not is_product:
        return []
    types = (*(buffers[name].element.name for name in "AB"), contraction.element.name)
    rounded = rounding(types, place.engine.precision, "mma.sync")
    if rounded is None or rounded.terms > 1:
        return []
    return [row for row in ROWS.values()
            if row.unused is None and (row.a.name, row.b.name, row.types[2]) == (rounded.a, rounded.b, types[2])
            and all(isinstance(size, int) and size % part == 0
                    for size, part in zip(sizes, (row.m, row.n, row.k), strict=True))]
