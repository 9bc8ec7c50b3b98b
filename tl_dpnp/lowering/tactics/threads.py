"""Each thread of a team in persistent blocks computes a tile of C, in registers."""

from __future__ import annotations

from collections.abc import Mapping

from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.tactic import Place, Tactic
from tl_dpnp.lowering.tactics.tiles import unroll_reduction

__all__ = ["Threads"]

#: Loops over k up to this length are unrolled whole.
_SHORT_SUM = 16
#: Longer ones by the first of these numbers that divides them; the largest is for sums from `_LONG_SUM` on.
_STEPS, _LONG_SUM = (16, 8, 4, 2, 1), 64


class Threads(Tactic):
    """See the module."""

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> Threads | None:
        return cls(contraction, place) if place.frame.is_persistent else None

    def schedule(self) -> Schedule:
        return _schedule(self.contraction, self.place.layout)


def _schedule(contraction: Contraction, layout: SubgroupLayout) -> Schedule:
    """Schedule a nest for the threads of a team.

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
        steps: tuple[int, ...] = (depth, *_STEPS) if depth <= _SHORT_SUM else _STEPS
        if _SHORT_SUM < depth < _LONG_SUM:
            steps = steps[1:]
        unroll_reduction(schedule, "k", depth, next(step for step in steps if depth % step == 0))
    return schedule


def _smallest_tile(size: int, threads: int) -> int:
    return next(tile for tile in range(1, size + 1) if size % tile == 0 and size // tile <= threads)
