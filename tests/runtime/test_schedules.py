"""Kernels with the schedules that a user gives."""

from __future__ import annotations

import pickle

import dpnp
import numpy as np
import pytest

import tl_dpnp

SOURCE = """
func @f(%A: group<memref<f32x32x24>>, %B: memref<f32x24x8>, %C: group<memref<f32x32x8>>) {
  %g = group_id
  %a = load %A[%g] : group<memref<f32x32x24>>
  %c = load %C[%g] : group<memref<f32x32x8>>
  gemm.n.n 1.0, %a, %B, 0.0, %c : f32, memref<f32x32x24>, memref<f32x24x8>, f32, memref<f32x32x8>
}
"""


def cached(schedule: tl_dpnp.Schedule) -> None:
    schedule.decompose_reduction("k", above="m")
    split = schedule.split("k", 8)
    schedule.compute_at(schedule.cache_read("A", "local"), split.outer)


def check(kernel: tl_dpnp.Kernel) -> None:
    random = np.random.default_rng(1)
    a, b = random.standard_normal((3, 32, 24), "f4"), random.standard_normal((24, 8), "f4")
    c = [dpnp.empty((32, 8), dtype="f4", order="F") for _ in a]
    kernel([dpnp.asarray(one, order="F") for one in a], dpnp.asarray(b, order="F"), c)
    np.testing.assert_allclose(np.stack([dpnp.asnumpy(one) for one in c]), a @ b, rtol=1e-5, atol=1e-5)


def test_a_given_schedule_is_used_and_pickled():
    kernel = tl_dpnp.compile(SOURCE, schedule={"gemm_0": cached})
    check(kernel)
    again = pickle.loads(pickle.dumps(kernel))
    assert again.schedules() == kernel.schedules()
    assert [step.primitive for step in again.schedules()["gemm_0"].trace][-1] == "compute_at"
    check(again)


def test_a_schedule_makes_another_cache_entry():
    def unlike_others(schedule: tl_dpnp.Schedule) -> None:
        cached(schedule)
        schedule.storage_align("A_local", 1, 8, 1)

    plain, scheduled = tl_dpnp.compile(SOURCE), tl_dpnp.compile(SOURCE, schedule={"gemm_0": unlike_others})
    check(plain)
    check(scheduled)
    assert scheduled.stats.cache_misses == 1
    again = tl_dpnp.compile(SOURCE, schedule={"gemm_0": unlike_others})
    check(again)
    assert (again.stats.cache_hits, again.stats.cache_misses) == (1, 0)
    assert again.diagnostics() != plain.diagnostics()


def test_schedules_of_a_kernel_are_copies():
    kernel = tl_dpnp.compile(SOURCE)
    schedule = kernel.schedules()["gemm_0"].fresh()
    cached(schedule)
    assert kernel.schedules()["gemm_0"] != schedule
    check(tl_dpnp.compile(SOURCE, schedule={"gemm_0": schedule}))


def test_the_reference_target_takes_no_schedule():
    with pytest.raises(tl_dpnp.TLTypeError, match="schedule= says how a device runs a kernel"):
        tl_dpnp.compile(SOURCE, target="reference", schedule={})


def test_a_schedule_belongs_to_one_function():
    two = SOURCE + SOURCE.replace("@f", "@g")
    with pytest.raises(tl_dpnp.TLTypeError, match="the source has 2: name= picks one"):
        tl_dpnp.compile(two, schedule={"gemm_0": cached})
    check(tl_dpnp.compile(two, name="g", schedule={"gemm_0": cached}))


def test_a_schedule_must_be_given_by_name():
    with pytest.raises(tl_dpnp.TLTypeError, match="a mapping from names of instructions"):
        tl_dpnp.compile(SOURCE, schedule=cached)
