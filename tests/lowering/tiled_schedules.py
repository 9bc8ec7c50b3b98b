"""Random tiled schedules of a product, in the shape that the tutorial's last stages have.

Every choice is drawn: tile sizes that need not divide, which operands are copied where, cooperative copies, double
buffers, layouts, virtual threads, how results are written back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from hypothesis import strategies as st

from tl_dpnp.errors import ScheduleError
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.schedule import Schedule

__all__ = ["apply_random_tiling"]


def apply_random_tiling(data: st.DataObject, schedule: Schedule, layout: SubgroupLayout) -> None:
    """Schedule ``C[m, n] = A[m, k] · B[k, n]`` for a work-group of the given layout."""
    rows = schedule.split("m", layout.lanes if layout.lanes > 1 else data.draw(st.sampled_from([4, 8])), tail="guard")
    columns = schedule.split("n", data.draw(st.integers(1, 4), label="columns"), tail="guard")
    schedule.reorder(rows.outer, columns.outer, rows.inner, columns.inner)
    written = data.draw(st.none() | st.sampled_from(["local", "registers"]), label="cache_write")
    back = schedule.cache_write("C", written) if written else None
    if back and written == "registers":
        schedule.reverse_compute_at(back, rows.inner if data.draw(st.booleans()) else columns.inner)
    outside = data.draw(st.booleans(), label="reduction outside")
    schedule.decompose_reduction("k", above=rows.outer if outside else columns.inner)
    bound = [("rows", rows.outer), ("columns", columns.outer), ("lanes", rows.inner)]
    reduction = "k"
    if data.draw(st.booleans(), label="split k"):
        split = schedule.split("k", data.draw(st.integers(1, 3), label="depth"), tail="guard")
        reduction = split.outer
    stages = [_copied(data, schedule, buffer, reduction if outside else rows.outer) for buffer in "AB"]
    copies = [loop for loop in schedule.loops if loop.rstrip("'") in (name for _, name in bound)]
    if layout.lanes > 1:
        for kind, name in bound:
            for loop in copies:
                if loop.rstrip("'") == name:
                    schedule.bind(loop, kind)
    if layout.lanes > 1 or data.draw(st.booleans(), label="bind copies"):
        for stage in stages:
            _shared(data, schedule, stage, layout)
    if back and written == "local":
        _dealt(schedule, back, layout)
    for stage in stages:
        if stage is not None and outside and data.draw(st.booleans(), label="double"):
            _attempt(lambda stage=stage: schedule.double_buffer(stage))
    for loop in schedule.loops:
        if loop.rstrip("'") == columns.inner and data.draw(st.booleans(), label="virtual or unrolled"):
            kind = data.draw(st.sampled_from(["virtual", "unroll"]), label="kind")
            _attempt(lambda loop=loop, kind=kind: (
                schedule.bind(loop, "virtual") if kind == "virtual" else schedule.unroll(loop)))


def _attempt(step: Callable[[], object]) -> None:
    """Apply a primitive where it is legal."""
    with contextlib.suppress(ScheduleError):
        step()


def _copied(data: st.DataObject, schedule: Schedule, buffer: str, loop: str) -> str | None:
    scope = data.draw(st.none() | st.sampled_from(["local", "local", "registers"]), label=f"copy {buffer}")
    if scope is None:
        return None
    stage = schedule.cache_read(buffer, scope)
    if scope == "local" and data.draw(st.booleans(), label="copy again"):
        schedule.cache_read(stage, "registers")
    if data.draw(st.booleans(), label="move"):
        # Refused where the copy is copied again further outside.
        _attempt(lambda: schedule.compute_at(stage, loop))
    if data.draw(st.booleans(), label="transpose"):
        schedule.transform_layout(stage, 1, 0)
    if data.draw(st.booleans(), label="pad"):
        _attempt(lambda: schedule.storage_align(stage, data.draw(st.integers(0, 1)), 4, 1))
    return stage


def _shared(data: st.DataObject, schedule: Schedule, stage: str | None, layout: SubgroupLayout) -> None:
    """Deal a copy in local memory out to the work-items."""
    if stage is not None and stage.endswith("local") and data.draw(st.booleans(), label="share"):
        _dealt(schedule, stage, layout)


def _dealt(schedule: Schedule, stage: str, layout: SubgroupLayout) -> None:
    outer, inner = schedule.loops_of(stage)
    if layout.lanes > 1:
        schedule.bind(schedule.split(inner, layout.lanes, tail="guard").inner, "lanes")
    schedule.bind(outer, "subgroups")
