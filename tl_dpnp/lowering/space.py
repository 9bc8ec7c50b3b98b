"""The schedules that tuning tries: tilings near to those that a processor could run fast.

A tile must fit the registers, and a simple count of what limits a core (multiply-adds, loads, and the latency of a sum
with few accumulators) puts the more promising tiles first, so that a search can take as many as it has time for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import analyse
from tl_dpnp.lowering.contraction import Contraction, contractions_of
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.mappings.choice import base_mapping
from tl_dpnp.lowering.tactics.choice import tunable
from tl_dpnp.lowering.tactics.tactic import TiledTactic
from tl_dpnp.lowering.tile_cycles import cut, cycles, even_tile
from tl_dpnp.lowering.tiling import Tiling, unrolling, vector_operations
from tl_dpnp.records import dataclass
from tl_dpnp.target.core import Core
from tl_dpnp.target.device import Device

__all__ = ["Tunable", "tunables"]

#: Heights of a tile in vectors.
_HEIGHTS = (1, 2, 3, 4, 5, 6, 8)
#: The size that an unknown number of rows or columns counts as.
_ASSUMED_SIZE = 64
#: Tiles of more than so many times the least estimate are not tried.
_HOPELESS = 2
#: Tiles that are tried for an instruction at most, steps of a sum to unroll, and the products of an iteration then.
_MOST_SHAPES = 16
_UNROLLINGS = (1, 2, 3, 4, 6, 8, 16)
_MOST_PRODUCTS = 160


@dataclass(frozen=True)
class Tunable:
    """An instruction whose schedule may be searched."""

    tactic: TiledTactic

    @property
    def name(self) -> str:
        """The name of the instruction's nest."""
        return self.contraction.nest.name

    @property
    def work(self) -> int:
        """An estimate of its vector operations."""
        return vector_operations(self.contraction, self.core)

    @property
    def default(self) -> Tiling:
        """The tiling that it has without a search."""
        return self.tactic.default_tiling

    @property
    def contraction(self) -> Contraction:
        """Its nest before it is scheduled."""
        return self.tactic.contraction

    @property
    def core(self) -> Core:
        """What computes it."""
        return self.tactic.place.device.core

    def schedule(self, tiling: Tiling) -> str:
        """Return the schedule with a tiling, as JSON; raises `ScheduleError` if there is none."""
        schedule = replace(self.tactic, tiling=tiling).schedule()
        return json.dumps(schedule.to_json(), separators=(",", ":"))

    @property
    def steps(self) -> tuple[Callable[[Tiling], list[Tiling]], ...]:
        """The steps of a search: each returns the tilings to compare with the best so far."""
        return (self.shapes,) if self.contraction.depth is None else (self.shapes, self.unrollings)

    def shapes(self, best: Tiling) -> list[Tiling]:
        """Return the tilings with other tiles than `best`, each unrolled as by default, the most promising first."""
        costs = {shape: self._cost(*shape) for shape in self._shapes()}
        hopeless = _HOPELESS * min(costs.values())[0]
        shapes = sorted((s for s in costs if costs[s][0] <= hopeless), key=lambda shape: (costs[shape], shape))
        depth = self.contraction.depth
        tilings = [Tiling(*shape, unrolling(depth, shape[0] * shape[1], self.core.tiles)) for shape in shapes]
        return [tiling for tiling in tilings if tiling != best][:_MOST_SHAPES]

    def unrollings(self, best: Tiling) -> list[Tiling]:
        """Return the tilings with the tile of `best` and another unrolling of the sum."""
        depth = self.contraction.depth
        counts = {count for count in _UNROLLINGS if not isinstance(depth, int) or count < depth}
        if isinstance(depth, int):
            counts.add(depth)
        products = best.vectors * best.columns
        return [
            replace(best, unroll=count) for count in sorted(counts - {best.unroll})
            if count == 1 or count * products <= _MOST_PRODUCTS
        ]

    @property
    def _room(self) -> tuple[int, int]:
        """How many vectors high the result is, and how many a work-item has registers for."""
        rows = self.contraction.rows if isinstance(self.contraction.rows, int) else _ASSUMED_SIZE
        return self.tactic.room(rows)

    @property
    def _columns(self) -> int:
        return self.contraction.columns if isinstance(self.contraction.columns, int) else _ASSUMED_SIZE

    def _shapes(self) -> Iterator[tuple[int, int]]:
        """Yield the tiles that fit the registers, in vectors and columns."""
        vectors, registers = self._room
        for height in [height for height in _HEIGHTS if height <= vectors]:
            # Besides the tile, a column of A and an element of B are in registers.
            for widest in range(1, (registers - height - 1) // height + 1):
                yield height, even_tile(self._columns, widest)

    def _cost(self, height: int, width: int) -> tuple[float, int]:
        """Estimate the cycles of one step of the sum of all tiles, and count its loads."""
        vectors, _ = self._room
        loads = sum(times * count * (rows + columns) for rows, times in cut(vectors, height)
                    for columns, count in cut(self._columns, width))
        return cycles(vectors, self._columns, (height, width), self.core), loads


def tunables(function: ops.Function, device: Device, options: LoweringOptions) -> list[Tunable]:
    """Return the instructions of a verified function that the user gave no schedule for, in the order of the source.

    Products on a matrix engine are not among them: their tiles are not measured.

    Raises LoweringError for a work-group that the device does not allow, UnsupportedError for what it lacks.
    """
    analysis = analyse(function, options.applied_to(device), options)
    mapping = base_mapping(analysis)
    on_engine = {contraction.nest.name for contraction, _ in analysis.products}
    found = [tunable(contraction, mapping.place(analysis, operation))
             for operation, contraction in contractions_of(analysis.canonical)
             if contraction.nest.name not in on_engine]
    return [Tunable(tactic) for tactic in found if tactic is not None]
