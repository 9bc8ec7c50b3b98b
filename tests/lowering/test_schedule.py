"""Schedule primitives keep what a nest computes, and refuse what would not."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.lowering.nest_interpreter import run_nest
from tests.lowering.random_schedules import apply_random_primitives
from tests.lowering.support import gemm
from tests.lowering.tiled_schedules import apply_random_tiling
from tl_dpnp.errors import ScheduleError
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import Assign, Loop, Nest, Number, Product, Total, loops_of
from tl_dpnp.lowering.realization import realize
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.lanes import subgroup_schedule
from tl_dpnp.lowering.tactics.vectors import vector_schedule
from tl_dpnp.lowering.tiling import Tiling, memory_tiling
from tl_dpnp.scalars import F32, F64
from tl_dpnp.target.catalog import AVX2, CORES, GPU, INTEL_SERVER, SSE, ZEN4


def check(
    contraction: Contraction, schedule: Schedule, m: int, n: int, k: int, beta: float = 0.0,
    transposes: tuple[bool, bool] = (False, False), nest: Nest | None = None, layout: SubgroupLayout | None = None,
) -> None:
    """Run the scheduled nest on small integers, where every order of summation is exact."""
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (m, k)).astype(float)
    b = rng.integers(-4, 5, (k, n)).astype(float)
    c = rng.integers(-4, 5, (m, n)).astype(float) if beta else np.full((m, n), np.nan)
    expected = a @ b + (beta * c if beta else 0.0)
    buffers = {"A": a.T if transposes[0] else a, "B": b.T if transposes[1] else b, "C": c}
    run_nest(nest or schedule.nest, buffers, {"M": m, "N": n, "K": k}, layout=layout)
    np.testing.assert_array_equal(c, expected)


def test_the_oracle_sees_accesses_outside_and_runs_any_number_of_loops():
    contraction = gemm(None, None, None)
    nest = vector_schedule(contraction, AVX2).nest
    for name in range(40):
        nest = replace(nest, body=(Loop(f"once_{name}", 0, 1, nest.body),))
    check(contraction, Schedule(contraction.nest), 13, 11, 7, nest=nest)
    arrays = {"A": np.ones((13, 7)), "B": np.ones((7, 11)), "C": np.ones((13, 11))}
    with pytest.raises(AssertionError, match=r"C.* is outside: \(13, 0\)"):
        run_nest(nest, arrays | {"A": np.ones((14, 7))}, {"M": 14, "N": 11, "K": 7})
    with pytest.raises(AssertionError, match=r"B.* is outside: \(7, 0\)"):
        run_nest(nest, arrays | {"A": np.ones((13, 8))}, {"M": 13, "N": 11, "K": 8})


size = st.integers(1, 40)


@given(size, size, size, st.sampled_from([*CORES.values()]), st.booleans(), st.sampled_from([0.0, 1.0, 3.0]))
@settings(max_examples=40, deadline=None)
def test_default_vector_schedule_is_right(m, n, k, core, dynamic, beta):
    contraction = gemm(*((None, None, None) if dynamic else (m, n, k)), beta=beta)
    schedule = vector_schedule(contraction, core)
    check(contraction, schedule, m, n, k, beta)
    layout = SubgroupLayout()
    check(contraction, schedule, m, n, k, beta, nest=realize(schedule.nest, layout).nest, layout=layout)


@given(size, size, size, st.sampled_from([4, 8, 16]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_default_subgroup_schedule_is_right(m, n, k, lanes, dynamic):
    contraction = gemm(*((None, None, None) if dynamic else (m, n, k)))
    check(contraction, subgroup_schedule(contraction, SubgroupLayout(lanes, 2, 2), GPU), m, n, k)


@given(size, size, size, st.builds(Tiling, st.integers(1, 4), st.integers(1, 12), st.integers(1, 9)), st.booleans())
@settings(max_examples=40, deadline=None)
def test_schedules_of_any_tiling_are_right(m, n, k, tiling, dynamic):
    contraction = gemm(*((None, None, None) if dynamic else (m, n, k)))
    check(contraction, vector_schedule(contraction, SSE, tiling), m, n, k)
    check(contraction, subgroup_schedule(contraction, SubgroupLayout(8, 2, 2), GPU, tiling), m, n, k)


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_legal_sequence_keeps_the_result(data):
    """Draw primitives at random; those that are refused leave the schedule as it was."""
    m, n, k = (data.draw(st.integers(1, 12), label=name) for name in "mnk")
    dynamic = data.draw(st.booleans(), label="dynamic")
    beta = data.draw(st.sampled_from([0.0, 3.0]), label="beta")
    transposes = data.draw(st.tuples(st.booleans(), st.booleans()), label="transposes")
    contraction = gemm(*((None, None, None) if dynamic else (m, n, k)), beta=beta, transposes=transposes)
    schedule = Schedule(contraction.nest)
    apply_random_primitives(data, schedule)
    check(contraction, schedule, m, n, k, beta, transposes)
    assert Schedule.from_json(json.dumps(schedule.to_json()), schedule) == schedule
    layout = data.draw(st.sampled_from([SubgroupLayout(), SubgroupLayout(4, 2, 2)]), label="layout")
    try:
        realized = realize(schedule.nest, layout)
    except ScheduleError as error:
        event(f"not for the layout: {str(error)[8:30]}")
        return
    event("realized")
    check(contraction, schedule, m, n, k, beta, transposes, realized.nest, layout)


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_tiled_schedules_keep_the_result(data):
    """Copies, barriers and bound loops together, by work-items that run in any order between barriers."""
    m, n, k = (data.draw(st.integers(1, 11), label=name) for name in "mnk")
    dynamic = data.draw(st.integers(0, 4), label="dynamic") == 4
    beta = data.draw(st.sampled_from([0.0, 3.0]), label="beta")
    contraction = gemm(*((None, None, None) if dynamic else (m, n, k)), beta=beta)
    schedule = Schedule(contraction.nest)
    layout = data.draw(st.sampled_from([SubgroupLayout(), SubgroupLayout(4, 1, 1), SubgroupLayout(4, 2, 2)]))
    try:
        apply_random_tiling(data, schedule, layout)
        realized = realize(schedule.nest, layout)
    except ScheduleError as error:
        event("refused: " + "".join(c for c in str(error) if not c.isdigit()))
        return
    event(f"realized for {layout.subgroups} sub-groups of {layout.lanes}")
    check(contraction, schedule, m, n, k, beta, nest=realized.nest, layout=layout)


def refused(schedule: Schedule, reason: str):
    return pytest.raises(ScheduleError, match=f"gemm_0: .*{reason}")


def test_unknown_loop_names_those_that_exist():
    with pytest.raises(ScheduleError, match="there is no loop x; the loops are m, n, k"):
        Schedule(gemm(4, 4, 4).nest).split("x", 2)


def test_split_refuses_a_factor_larger_than_the_loop():
    schedule = Schedule(gemm(4, 4, 4).nest)
    with refused(schedule, "only 4 iterations"):
        schedule.split("m", 8)


def test_vectorize_refuses_a_reduction():
    schedule = Schedule(gemm(4, 4, 4).nest)
    with refused(schedule, "is a reduction"):
        schedule.vectorize("k")


def test_bind_refuses_a_reduction():
    schedule = Schedule(gemm(4, 4, 4).nest)
    with refused(schedule, "is a reduction"):
        schedule.bind("k", "rows")


def test_unroll_refuses_an_unknown_range():
    schedule = Schedule(gemm(None, 4, 4).nest)
    with refused(schedule, "range is not known"):
        schedule.unroll("m")


def test_a_loop_is_marked_once():
    schedule = Schedule(gemm(4, 4, 4).nest)
    schedule.unroll("m")
    with refused(schedule, "unrolled already"):
        schedule.vectorize("m")


def test_reorder_refuses_loops_that_are_not_perfectly_nested():
    schedule = Schedule(gemm(4, 4, 4).nest)
    with refused(schedule, "holds more than a loop"):
        schedule.reorder("k", "n")


def test_reorder_keeps_a_guard_inside_the_loops_that_it_reads():
    schedule = Schedule(gemm(5, 4, 4).nest)
    schedule.split("m", 2, tail="guard")
    with refused(schedule, "needs an outer loop"):
        schedule.reorder("m.1", "m.0")


def test_a_split_leaves_out_guards_that_always_hold():
    schedule = Schedule(gemm(22, 4, 4).nest)
    split = schedule.split("m", 4, tail="guard")
    assert "if m.0 + m.1 < 22" in str(schedule)
    whole = schedule.split(split.outer, 5)
    inner = [loop for loop in loops_of(schedule.nest.body) if loop.variable in ("m.1", whole.renamed["m.1"])]
    assert [bool(loop.guards) for loop in inner] == [False, True]


def test_a_sum_with_a_guard_is_made_apart_without_it():
    schedule = Schedule(gemm(3, 2, 7, transposes=(True, False)).nest)
    split = schedule.split("k", 4, tail="guard")
    parts = schedule.rfactor(split.inner)
    guarded = {loop.variable: bool(loop.guards) for loop in loops_of(schedule.nest.body)}
    assert (guarded[split.inner], guarded[parts.init[split.inner]], guarded[parts.finish[split.inner]]) == (
        True, False, False)
    schedule.vectorize(split.inner)


def test_a_sum_with_a_guard_adds_only_what_it_reads():
    """Beyond the guard what is read is 0, but not its product with what else there is, which may be infinite."""
    contraction = gemm(3, 2, 7)

    def scaled(assign: Assign) -> Assign:
        a, b, _ = assign.reads if assign.part == "update" else (None, None, None)
        value = Total(assign.target, Product(Product(a, b), Number(2.0, F32)))
        return replace(assign, value=value) if a is not None else assign

    schedule = Schedule(replace(contraction.nest, body=tuple(_changed(node, scaled) for node in contraction.nest.body)))
    schedule.split("k", 4, tail="guard")
    with refused(schedule, "is more than a sum of what it reads"):
        schedule.rfactor("k.1")


def _changed(node, change):
    if isinstance(node, Assign):
        return change(node)
    return node.with_body(*(_changed(inner, change) for inner in node.body))


def test_sums_of_lanes_inside_a_vector_are_of_registers():
    """A vectorized loop around another one is a copy, or has lanes of registers set or added up."""
    schedule = Schedule(gemm(8, 2, 16, transposes=(True, False)).nest)
    split = schedule.split("k", 8)
    parts = schedule.rfactor(split.inner)
    schedule.vectorize(parts.finish[split.inner])
    schedule.vectorize(split.inner)
    with refused(schedule, "is vectorized around another vectorized loop"):
        schedule.vectorize("m")


def test_vectors_have_lanes_of_two_loops_where_these_sum_in_registers():
    schedule = Schedule(gemm(4, 4, 16, transposes=(True, False)).nest)
    split = schedule.split("k", 4)
    schedule.reorder("n", "m")
    parts = schedule.rfactor(split.inner)
    copies = schedule.decompose_reduction(split.outer, above="n")
    schedule.reorder("m", "n")
    for loop in (split.inner, "n", copies.finish[parts.finish[split.inner]], copies.finish["m"], copies.finish["n"]):
        schedule.vectorize(loop)
    with refused(schedule, "k.1 is vectorized inside n, whose vectors have lanes of m"):
        schedule.vectorize("m")


def test_lanes_of_two_loops_are_added_up_by_powers_of_two():
    schedule = Schedule(gemm(4, 4, 15, transposes=(True, False)).nest)
    split = schedule.split("k", 3)
    schedule.reorder("n", "m")
    parts = schedule.rfactor(split.inner)
    finish = schedule.decompose_reduction(split.outer, above="n").finish
    for loop in (finish[parts.finish[split.inner]], finish["m"]):
        schedule.vectorize(loop)
    with refused(schedule, "does not set or add up a power of two of lanes"):
        schedule.vectorize(finish["n"])


def test_decompose_reduction_refuses_a_reduction_further_in():
    schedule = Schedule(gemm(5, 4, 4).nest)
    schedule.split("k", 2)
    with refused(schedule, "does not stand directly inside"):
        schedule.decompose_reduction("k.1", above="m")


def test_prefetch_needs_known_ranges():
    schedule = Schedule(gemm(4, None, 4).nest)
    with refused(schedule, "range of the loop, or of one around it, is not known"):
        schedule.prefetch("k")


def test_prefetch_needs_a_serial_loop():
    schedule = Schedule(gemm(4, 4, 4).nest)
    schedule.unroll("k")
    with refused(schedule, "is not serial"):
        schedule.prefetch("k")


def test_the_default_schedule_prefetches_in_the_sums_of_all_tiles():
    nest = vector_schedule(gemm(40, 20, 20), ZEN4).nest
    sums = [loop.variable for loop in loops_of(nest.body) if loop.reduction and loop.kind == "serial"]
    assert [loop.variable for loop in loops_of(nest.body) if loop.prefetch] == sums
    assert len(sums) > 1


def test_the_default_schedule_prefetches_in_one_loop_where_sums_have_none():
    nest = vector_schedule(gemm(9, 9, 4), ZEN4).nest
    assert [loop.variable for loop in loops_of(nest.body) if loop.prefetch] == ["n.0"]


def test_a_schedule_prints_its_steps_and_its_script():
    schedule = Schedule(gemm(4, 2, 3).nest)
    schedule.reorder("n", "m")
    schedule.vectorize("m")
    schedule.decompose_reduction("k", above="m")
    assert str(schedule) == """\
# reorder(n, m)
# vectorize(m)
# decompose_reduction(k, above=m)
# gemm_0: gemm f32 4x2 := 4x3 · 3x2
for n in serial(0, 2):
    for m' in vectorized(0, 4):
        T[m', n] = 0
    for k in serial(0, 3):
        for m in vectorized(0, 4):
            T[m, n] = fma(A[m, k], B[k, n], T[m, n])
    for m'' in vectorized(0, 4):
        C[m'', n] = T[m'', n]"""


@pytest.mark.parametrize("element", [F32, F64])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(64, 16, 80), (48, 8, 64)])
def test_a_narrow_result_is_transposed_rather_than_a_large_operand(element, transposed, shape):
    transposes = (True, transposed)
    contraction = gemm(*shape, transposes=transposes, element=element)
    schedule = vector_schedule(contraction, ZEN4)
    narrow = shape[1] % (64 // element.bytes) == 0
    assert ("C_registers" in str(schedule)) is narrow
    assert ("A_registers" in str(schedule)) is not narrow
    check(contraction, schedule, *shape, transposes=transposes)
    # What is read as well would have to be transposed twice.
    assert "C_registers" not in str(vector_schedule(gemm(*shape, transposes=transposes, beta=1.0), ZEN4))


@pytest.mark.parametrize(("sizes", "element", "expected"), [
    # Most of what is read is the first factor.
    ((56, 9, 56), F32, Tiling(4, 9, 1)), ((120, 9, 120), F32, Tiling(1, 9, 1)), ((64, 16, 64), F32, Tiling(4, 4, 1)),
    ((64, 16, 64), F64, Tiling(1, 8, 1)), ((128, 4, 128), F64, None),
    # The result is no smaller than the factors.
    ((32, 32, 32), F32, Tiling(2, 4, 2)), ((256, 256, 16), F64, Tiling(8, 2, 1)), ((35, 35, 35), F32, None),
    # Arithmetic decides, or nothing is to be chosen.
    ((96, 96, 96), F32, None), ((64, 1, 64), F32, None), ((4, 4, 4), F32, None), ((None, 9, 56), F32, None),
    ((16, 0, 0), F32, None), ((16, 4, 0), F32, None),
])
def test_products_from_memory_have_tiles_of_their_own(sizes, element, expected):
    assert memory_tiling(gemm(*sizes, element=element), ZEN4) == expected


@pytest.mark.parametrize(("sizes", "element", "usual", "expected"), [
    # Whole tiles would have two columns, which take twice the cycles of others.
    ((58, 58, 27), F32, 2, 5), ((25, 86, 36), F32, 2, 5),
    # They take hardly longer, or memory hides that.
    ((96, 85, 13), F32, 5, 5), ((16, 16, 16), F32, 4, 4),
    # No flat tiles are fast enough.
    ((122, 56, 42), F64, 2, None),
])
def test_flat_tiles_take_hardly_more_cycles_where_these_are_not_hidden(sizes, element, usual, expected):
    anyhow = replace(INTEL_SERVER, tiles=replace(INTEL_SERVER.tiles, cost_of_flat=math.inf))
    tilings = [memory_tiling(gemm(*sizes, element=element), core) for core in (anyhow, INTEL_SERVER)]
    assert [tiling and tiling.columns for tiling in tilings] == [usual, expected]


def test_narrow_vectors_have_no_tiles_of_one_where_arithmetic_takes_time():
    assert memory_tiling(gemm(120, 9, 120), AVX2) == Tiling(1, 9, 1)
    assert memory_tiling(gemm(64, 16, 64, element=F64), AVX2) is None


@pytest.mark.parametrize("sizes", [
    (56, 9, 56), (120, 9, 120), (64, 16, 64), (35, 9, 35), (20, 20, 20), (35, 33, 30), (56, 56, 9), (64, 37, 16),
])
def test_the_tiling_for_operands_from_memory_keeps_the_result(sizes):
    contraction = gemm(*sizes)
    tiling = memory_tiling(contraction, ZEN4)
    assert tiling is not None
    check(contraction, vector_schedule(contraction, ZEN4, tiling), *sizes)


def test_what_is_left_over_of_unknown_sizes_runs_in_smaller_tiles():
    contraction = gemm(None, None, None)
    script = str(vector_schedule(contraction, ZEN4, Tiling(2, 8, 1))).splitlines()
    columns = [line for line in script if line.startswith("# split(n")]
    rows = [int(line.split(", ")[1]) for line in script if line.startswith("# split(m")]
    assert columns == ["# split(n, 8, tail=remainder)", "# split(n', 4, tail=remainder)"]
    assert rows == [32, 16, 8, 4] * 3
