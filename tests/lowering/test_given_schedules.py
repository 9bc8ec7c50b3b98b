"""Schedules as values, and the schedules that a user gives for the instructions of a function."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest

from tests.lowering.support import CPU, gemm
from tl_dpnp.errors import ScheduleError, TLTypeError, UnsupportedError
from tl_dpnp.language import ops, parse
from tl_dpnp.lowering import LoweringOptions, lower
from tl_dpnp.lowering.schedule import Schedule, Step
from tl_dpnp.lowering.schedules import resolve_schedules

SOURCE = dedent("""\
    func @f(%A: memref<f32x32x24>, %B: memref<f32x24x8>, %C: memref<f32x32x8>, %y: memref<f32x32>) {
      gemm.n.n 1.0, %A, %B, 0.0, %C : f32, memref<f32x32x24>, memref<f32x24x8>, f32, memref<f32x32x8>
      sum.n 1.0, %A, 0.0, %y : f32, memref<f32x32x24>, f32, memref<f32x32>
    }""")


def function() -> ops.Function:
    (found,) = parse(SOURCE)
    return found


def tiled(schedule: Schedule) -> None:
    schedule.split("m", 16)
    schedule.vectorize("m.1")


# --- values ----------------------------------------------------------------------------------------------------------


def test_equal_steps_on_equal_nests_are_equal():
    one, other = Schedule(gemm(32, 8, 8).nest), Schedule(gemm(32, 8, 8).nest)
    tiled(one)
    assert one != other
    tiled(other)
    assert one == other
    larger = Schedule(gemm(48, 8, 8).nest)
    tiled(larger)
    assert one != larger


def test_a_copy_goes_its_own_way():
    schedule = Schedule(gemm(32, 8, 8).nest)
    copy = schedule.copy()
    tiled(copy)
    assert schedule.trace == ()
    assert schedule.loops == ("m", "n", "k")
    assert copy.fresh() == schedule
    tiled(schedule)
    assert copy == schedule


def test_steps_replay_through_json():
    schedule = Schedule(gemm(32, 8, 8).nest)
    tiled(schedule)
    schedule.decompose_reduction("k", above="n")
    schedule.transform_layout(schedule.cache_read("B", "local", within="m.0"), 1, 0)
    text = json.dumps(schedule.to_json())
    again = Schedule.from_json(text, Schedule(gemm(32, 8, 8).nest))
    assert again == schedule
    assert str(again) == str(schedule)
    assert again.nest == schedule.nest


def test_a_schedule_of_another_nest_is_refused():
    data = Schedule(gemm(32, 8, 8).nest).to_json()
    with pytest.raises(ScheduleError, match=r"for gemm f32 32x8 := 32x8 · 8x8, but the operation is gemm f32 16x8"):
        Schedule.from_json(data, gemm(16, 8, 8).nest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": [["split", ["x", 4], {}]]}, "there is no loop x"),
        ({"steps": [["explode", ["m"], {}]]}, "there is no primitive explode; there are split"),
        ({"steps": [["split", ["m"], {}]]}, "split.*missing"),
        ({"steps": [["split", ["m", "4"], {}]]}, "the factor must be"),
        ({"steps": [["split", [["m"], 4], {}]]}, "is not a step"),
        ({"steps": ["split"]}, "is not a step"),
        ({"steps": None}, "no schedule of format"),
        ({"format": 99}, "no schedule of format"),
    ],
)
def test_bad_json_is_refused(change, message):
    data = {**Schedule(gemm(32, 8, 8).nest).to_json(), **change}
    with pytest.raises(ScheduleError, match=message):
        Schedule.from_json(data, gemm(32, 8, 8).nest)


def test_text_that_is_no_json_is_refused():
    with pytest.raises(ScheduleError, match="is not JSON"):
        Schedule.from_json("{", gemm(32, 8, 8).nest)


def test_a_step_prints_as_a_call():
    assert str(Step("split", ("m", 16), (("tail", "guard"),))) == "split(m, 16, tail=guard)"


# --- schedules of a function -----------------------------------------------------------------------------------------


def test_a_given_schedule_replaces_the_default_of_its_instruction():
    given = resolve_schedules(function(), {"gemm_0": tiled})
    default = lower(function(), CPU, LoweringOptions()).schedules
    lowered = lower(function(), CPU, LoweringOptions(schedules=given)).schedules
    assert [str(step) for step in lowered[0].trace] == ["split(m, 16, tail=remainder)", "vectorize(m.1)"]
    assert lowered[1] == default[1]


def test_all_ways_to_give_a_schedule_mean_the_same():
    schedule = lower(function(), CPU, LoweringOptions()).schedules[0].fresh()
    tiled(schedule)

    def returns(fresh: Schedule) -> Schedule:
        assert fresh.trace == ()
        return schedule

    ways = [tiled, schedule, schedule.to_json(), json.dumps(schedule.to_json()), returns]
    assert len({resolve_schedules(function(), {"gemm_0": way}) for way in ways}) == 1


def test_an_unknown_instruction_is_named_with_those_that_exist():
    with pytest.raises(ScheduleError, match=r"@f has no instruction 'gemm_1' to schedule; it has gemm_0, sum_1"):
        resolve_schedules(function(), {"gemm_1": tiled})


def test_an_illegal_schedule_names_the_instruction_and_its_place():
    with pytest.raises(ScheduleError, match=r"gemm_0: vectorize\(k\) is not legal: k is a reduction") as caught:
        resolve_schedules(function(), {"gemm_0": lambda schedule: schedule.vectorize("k")})
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.line == 2


def test_what_is_no_schedule_is_refused():
    with pytest.raises(TLTypeError, match=r"gemm_0: a schedule is a Schedule.*not a int"):
        resolve_schedules(function(), {"gemm_0": 3})  # type: ignore[dict-item]


def test_a_schedule_without_bound_loops_does_not_fit_the_subgroup_form():
    given = resolve_schedules(function(), {"gemm_0": tiled})
    with pytest.raises(ScheduleError, match="done by several work-items: bind a loop around it to lanes"):
        lower(function(), CPU, LoweringOptions(form="subgroup", schedules=given))


def test_a_device_that_does_not_copy_asynchronously_is_named():
    given = resolve_schedules(function(), {"gemm_0": lambda s: s.copy_async(s.cache_read("A", "local"))})
    with pytest.raises(ScheduleError, match="gemm_0: A_local is copied asynchronously, which the device") as error:
        lower(function(), CPU, LoweringOptions(schedules=given))
    assert "2:3" in str(error.value)


def test_copies_take_local_memory_behind_the_temporaries():
    def cached(schedule: Schedule) -> None:
        schedule.decompose_reduction("k", above="m")
        split = schedule.split("k", 8)
        schedule.compute_at(schedule.cache_read("A", "local"), split.outer)

    given = resolve_schedules(function(), {"gemm_0": cached})
    assert lower(function(), CPU, LoweringOptions(schedules=given)).plan.local_memory == 32 * 8 * 4


def test_copies_that_do_not_fit_local_memory_are_refused():
    (large,) = parse(SOURCE.replace("x32x", "x3200x").replace("x32>", "x3200>"))
    given = resolve_schedules(large, {"gemm_0": lambda schedule: [schedule.cache_read("A", "local"), None][1]})
    with pytest.raises(UnsupportedError, match="gemm_0 keeps 307200 bytes of copies in local memory"):
        lower(large, CPU, LoweringOptions(schedules=given))
