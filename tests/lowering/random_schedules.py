"""Random schedules: sequences of primitives, drawn by hypothesis, of which the refused ones are left out."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from tl_dpnp.errors import ScheduleError
from tl_dpnp.kernels.simd_rows import ROWS
from tl_dpnp.lowering.nest import stages_of, variables_of
from tl_dpnp.lowering.schedule import Schedule

__all__ = ["apply_random_primitives"]

Draw = Callable[..., object]


def apply_random_primitives(data: st.DataObject, schedule: Schedule, most: int = 12) -> list[str]:
    """Apply up to `most` primitives; return the names of those that were legal.

    Whatever is refused must leave the schedule as it was.
    """
    applied = []
    for _ in range(data.draw(st.integers(1, most), label="steps")):
        name = data.draw(st.sampled_from(sorted(_PRIMITIVES)), label="primitive")
        before, trace = schedule.nest, schedule.trace
        try:
            _PRIMITIVES[name](data, schedule)
            applied.append(name)
            assert len(schedule.trace) == len(trace) + 1
        except ScheduleError as error:
            assert schedule.nest is before
            assert schedule.trace == trace
            _check_message(str(error), schedule)
        names = [*variables_of(schedule.nest.body)]
        assert len(names) == len(set(names)), "the names of loops are unique"
    return applied


def _loop(data: st.DataObject, schedule: Schedule) -> str:
    return data.draw(st.sampled_from(schedule.loops), label="loop")


def _stage(data: st.DataObject, schedule: Schedule) -> str:
    return data.draw(st.sampled_from(schedule.stages or ("none",)), label="stage")


def _chain(data: st.DataObject, schedule: Schedule) -> list[str]:
    """Draw neighbours in the list of loops, in any order: they are often perfectly nested."""
    first = data.draw(st.integers(0, len(schedule.loops) - 1), label="first")
    count = data.draw(st.integers(2, 3), label="count")
    return data.draw(st.permutations(schedule.loops[first : first + count]), label="order")


def _fuse(data: st.DataObject, schedule: Schedule) -> None:
    first = data.draw(st.integers(0, max(0, len(schedule.loops) - 2)), label="first")
    schedule.fuse(schedule.loops[first], schedule.loops[min(first + 1, len(schedule.loops) - 1)])


def _decompose(data: st.DataObject, schedule: Schedule) -> None:
    # The reduction's name is known where nobody split it.
    reduction = data.draw(st.sampled_from([loop for loop in schedule.loops if loop.startswith("k")] or ["k"]))
    schedule.decompose_reduction(reduction, above=_loop(data, schedule))


def _cache_read(data: st.DataObject, schedule: Schedule) -> None:
    buffer = data.draw(st.sampled_from(["A", "B", "C", *schedule.stages]), label="buffer")
    within = data.draw(st.none() | st.sampled_from(schedule.loops), label="within")
    schedule.cache_read(buffer, _scope(data), within)


def _scope(data: st.DataObject) -> str:
    return data.draw(st.sampled_from(["local", "registers"]), label="scope")


def _move(data: st.DataObject, schedule: Schedule) -> None:
    stage, loop = _stage(data, schedule), _loop(data, schedule)
    back = any(found.write_back for found in stages_of(schedule.nest.body) if found.buffer == stage)
    (schedule.reverse_compute_at if back else schedule.compute_at)(stage, loop)


def _tensorize(data: st.DataObject, schedule: Schedule) -> None:
    schedule.tensorize(_loop(data, schedule), data.draw(st.sampled_from(sorted(ROWS)), label="instruction"))


_PRIMITIVES: dict[str, Callable[[st.DataObject, Schedule], object]] = {
    "split": lambda d, s: s.split(_loop(d, s), d.draw(st.integers(1, 5), label="factor")),
    "guard": lambda d, s: s.split(_loop(d, s), d.draw(st.integers(1, 5), label="factor"), tail="guard"),
    "fuse": _fuse,
    "reorder": lambda d, s: s.reorder(*_chain(d, s)),
    "unroll": lambda d, s: s.unroll(_loop(d, s)),
    "vectorize": lambda d, s: s.vectorize(_loop(d, s)),
    "bind": lambda d, s: s.bind(_loop(d, s), d.draw(st.sampled_from(["rows", "columns", "lanes", "subgroups"]))),
    "virtual": lambda d, s: s.bind(_loop(d, s), "virtual"),
    "prefetch": lambda d, s: s.prefetch(_loop(d, s)),
    "decompose_reduction": _decompose,
    "rfactor": lambda d, s: s.rfactor(_loop(d, s)),
    "cache_read": _cache_read,
    "cache_write": lambda d, s: s.cache_write("C", _scope(d)),
    "compute_at": _move,
    "move": _move,
    "double_buffer": lambda d, s: s.double_buffer(_stage(d, s), d.draw(st.integers(2, 4), label="buffers")),
    "storage_align": lambda d, s: s.storage_align(
        _stage(d, s), d.draw(st.integers(0, 1)), d.draw(st.integers(1, 8)), d.draw(st.integers(0, 2))
    ),
    "transform_layout": lambda d, s: s.transform_layout(_stage(d, s), *d.draw(st.permutations([0, 1]))),
    "block_layout": lambda d, s: s.block_layout(_stage(d, s), d.draw(st.integers(0, 1)), d.draw(st.integers(1, 4))),
    "tensorize": _tensorize,
}


def _check_message(message: str, schedule: Schedule) -> None:
    """A refusal names the nest."""
    assert message.startswith(f"{schedule.name}: ")
