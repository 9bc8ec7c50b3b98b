"""Scheduled products on the device, in both forms, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import tl_dpnp
from tests.differential.conftest import counted
from tests.differential.device import queue
from tests.lowering.random_schedules import apply_random_primitives
from tests.lowering.tiled_schedules import apply_random_tiling
from tl_dpnp import config
from tl_dpnp.errors import ScheduleError, UnsupportedError
from tl_dpnp.language import ops, parse
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.runtime.sycl.devices import describe
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.target.catalog import CORES

#: Extents that tiles of the schedules may divide or not.
extents = st.integers(1, 20)


def product(m: int, n: int, k: int, beta: float, dynamic: bool) -> ops.Function:
    """Return a function that multiplies two matrices of f32."""
    a, b, c = ("f32x?x?",) * 3 if dynamic else (f"f32x{m}x{k}", f"f32x{k}x{n}", f"f32x{m}x{n}")
    (function,) = parse(f"""func @f(%A: memref<{a}>, %B: memref<{b}>, %C: memref<{c}>) {{
        gemm.n.n 1.0, %A, %B, {beta}, %C : f32, memref<{a}>, memref<{b}>, f32, memref<{c}>
    }}""")
    return function


def check(function: ops.Function, schedule: Schedule, form: str, m: int, n: int, k: int, beta: float) -> bool:
    """Run small integers, where every order of summation is exact; return whether the schedule fits the form."""
    random = np.random.default_rng(0)
    a, b, c = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
    given = [dpt.asarray(array, order="F", sycl_queue=queue()) for array in (a, b, c)]
    kernel = tl_dpnp.compile(function, form=form, cache=False, schedule={"gemm_0": schedule})
    try:
        kernel(*given, group_size=1)
    except (ScheduleError, UnsupportedError) as error:
        note(str(error))
        return False
    np.testing.assert_array_equal(dpt.asnumpy(given[2]), a @ b + np.float32(beta) * c)
    counted[f"schedules in the {form} form"] += 1
    return True


@pytest.mark.parametrize("form", ["vector", "subgroup"])
def test_tiled_schedules_on_the_device(form: str, differential_programs: int) -> None:
    layout = SubgroupLayout() if form == "vector" else SubgroupLayout(4, 2, 2)

    @given(st.data(), extents, extents, extents, st.sampled_from([0.0, 3.0]), st.integers(0, 4))
    @settings(
        max_examples=max(1, differential_programs // 5), deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )
    def agree(data: st.DataObject, m: int, n: int, k: int, beta: float, dynamic: int) -> None:
        function = product(m, n, k, beta, dynamic == 0)
        if form == "subgroup":
            function = replace(function, work_group_size=(8, 2), subgroup_size=4)
        schedule = fresh(function)
        try:
            apply_random_tiling(data, schedule, layout)
        except ScheduleError as error:
            note(str(error))
        note(str(schedule))
        check(function, schedule, form, m, n, k, beta)

    agree()


@pytest.mark.parametrize(("m", "n", "k", "loops"), [
    (4, 17, 11, ("n.1",)), (8, 38, 13, ("n.1",)), (12, 9, 11, ("n.1",)), (4, 17, 11, ("n.1", "n.1'", "n.1''"))])
@pytest.mark.parametrize("kind", ["virtual", "unroll"])
def test_guarded_virtual_threads(m: int, n: int, k: int, loops: tuple[str, ...], kind: str) -> None:
    """Sums in private memory, in branches that all lanes take alike: the driver's vectorizer lost them."""
    function = replace(product(m, n, k, 0.0, False), work_group_size=(8, 2), subgroup_size=4)
    schedule = fresh(function)
    schedule.split("m", 4, tail="guard")
    schedule.split("n", 4, tail="guard")
    schedule.reorder("m.0", "n.0", "m.1", "n.1")
    schedule.decompose_reduction("k", above="n.1")
    schedule.split("k", 2, tail="guard")
    schedule.cache_read("B", "local")
    for loop, bound in {"m.0": "rows", "n.0": "columns", "m.1": "lanes"}.items():
        schedule.bind(loop, bound)
    for loop in loops:
        if kind == "virtual" and loop == "n.1":
            schedule.bind(loop, kind)
        else:
            schedule.unroll(loop)
    assert check(function, schedule, "subgroup", m, n, k, 0.0)


def test_random_primitives_on_the_device(differential_programs: int) -> None:
    @given(st.data(), extents, extents, extents, st.sampled_from([0.0, 3.0]), st.booleans())
    @settings(
        max_examples=max(1, differential_programs // 5), deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )
    def agree(data: st.DataObject, m: int, n: int, k: int, beta: float, dynamic: bool) -> None:
        function = product(m, n, k, beta, dynamic)
        schedule = fresh(function)
        apply_random_primitives(data, schedule)
        note(str(schedule))
        check(function, schedule, "vector", m, n, k, beta)

    agree()


def fresh(function: ops.Function) -> Schedule:
    """Return a schedule of the plain nest."""
    return tl_dpnp.compile(replace(function, work_group_size=None, subgroup_size=None)).schedules()["gemm_0"].fresh()


@pytest.mark.parametrize("instruction", ["simd_f32_16x4x1", "simd_f32_8x6x1"])
def test_tensorized_products_on_the_device(instruction: str) -> None:
    rows, columns = map(int, instruction.removeprefix("simd_f32_").split("x")[:2])
    m, n, k = 2 * rows, 3 * columns, 5
    schedule = fresh(product(m, n, k, 3.0, False))
    height, width = schedule.split("m", rows), schedule.split("n", columns)
    schedule.reorder(height.outer, width.outer, height.inner, width.inner)
    schedule.decompose_reduction("k", above=height.inner)
    schedule.tensorize(height.inner, instruction)
    for copy in ("'", "''"):
        schedule.vectorize(height.inner + copy)
        schedule.unroll(width.inner + copy)
    assert check(product(m, n, k, 3.0, False), schedule, "vector", m, n, k, 3.0)


def test_accumulators_in_memory_under_a_vectorized_loop() -> None:
    """The guard of the sum keeps its accumulators from being values; each lane of the vectors needs its own."""
    function = product(9, 3, 4, 3.0, False)
    schedule = fresh(function)
    schedule.vectorize("m")
    schedule.split("k", 3, tail="guard")
    assert check(function, schedule, "vector", 9, 3, 4, 3.0)


@pytest.mark.parametrize("factor", [5, 16, 20])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 3, 4), (19, 2, 5), (45, 3, 7)])
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize(("core", "beta"), [("intel-server", 0.0), ("intel-server", 3.0), ("zen4", 0.0)])
def test_vectors_under_a_guard(
    factor: int, m: int, n: int, k: int, dynamic: bool, core: str, beta: float
) -> None:
    """What lies behind the rows of the result stays as it is."""
    size = "f32x?x?" if dynamic else f"f32x{m}x{n}"
    a, b = ("f32x?x?", "f32x?x?") if dynamic else (f"f32x{m}x{k}", f"f32x{k}x{n}")
    (function,) = parse(f"""func @f(%A: memref<{a}>, %B: memref<{b}>, %C: memref<{size},strided<1,?>>) {{
        gemm.n.n 1.0, %A, %B, {beta}, %C
            : f32, memref<{a}>, memref<{b}>, f32, memref<{size},strided<1,?>>
    }}""")
    schedule = fresh(function)
    rows = schedule.split("m", factor, tail="guard")
    schedule.reorder(rows.outer, "n", rows.inner)
    parts = schedule.decompose_reduction("k", above=rows.inner)
    for loop in (rows.inner, parts.init[rows.inner], parts.finish[rows.inner]):
        schedule.vectorize(loop)
    random = np.random.default_rng(m * factor)
    left, right, whole = (np.asfortranarray(random.integers(-4, 5, shape).astype(np.float32))
                          for shape in ((m, k), (k, n), (m + 40, n)))
    given = [dpt.asarray(array, order="F", sycl_queue=queue()) for array in (left, right, whole)]
    if CORES[core].vector_bytes > describe(queue().sycl_device).vector_bytes:
        pytest.skip(f"the processor has no vectors as wide as those of {core}")
    with config.scope(CORE=core):
        kernel = tl_dpnp.compile(function, form="vector", cache=False, schedule={"gemm_0": schedule})
    if not CORES[core].masks and (dynamic or m % factor):
        with pytest.raises(ScheduleError, match='split with tail="remainder" instead'):
            kernel(*given[:2], given[2][:m, :], group_size=1)
        return
    kernel(*given[:2], given[2][:m, :], group_size=1)
    whole[:m] = left @ right + np.float32(beta) * whole[:m]
    np.testing.assert_array_equal(dpt.asnumpy(given[2]), whole)


def test_masks_are_for_the_vector_form() -> None:
    function = product(9, 3, 4, 0.0, True)
    schedule = fresh(function)
    schedule.vectorize(schedule.split("m", 4, tail="guard").inner)
    kernel = tl_dpnp.compile(
        replace(function, work_group_size=(8, 2), subgroup_size=4), form="subgroup", cache=False,
        schedule={"gemm_0": schedule})
    arrays = [dpt.ones(shape, dtype="f4", order="F", sycl_queue=queue()) for shape in ((9, 4), (4, 3), (9, 3))]
    with pytest.raises(ScheduleError, match="is vectorized under its guard, which takes vectors with masks"):
        kernel(*arrays, group_size=1)
