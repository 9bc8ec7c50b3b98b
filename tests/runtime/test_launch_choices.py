"""What a launch decides from the sizes of its arguments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lowering.support import CPU
from tl_dpnp.lowering.plan import EXCEEDS_ALL, EXCEEDS_ONE
from tl_dpnp.runtime.call.arguments import BoundCall, GroupArgument, MemrefArgument
from tl_dpnp.runtime.call.arrays import host_view
from tl_dpnp.runtime.sycl.launch import exceeded_caches

DEVICE = replace(CPU, caches=(1000, 4000, 100_000), last_cache=100_000, compute_units=2)


def call(*sizes: int) -> BoundCall:
    """Return a call with one array and one group of arrays, of so many bytes."""
    first, *others = (host_view(np.zeros(size, np.int8)) for size in sizes)
    group = GroupArgument(tuple(others), ((1,),) * len(others), 0, None)
    return BoundCall((MemrefArgument(first, (1,)), None, group), None, 1)


@pytest.mark.parametrize(("sizes", "expected"), [
    ((4000,), 0), ((4001,), EXCEEDS_ONE), ((2000, 2000), 0), ((2000, 1000, 1001), EXCEEDS_ONE),
    ((75_000,), EXCEEDS_ONE), ((75_001,), EXCEEDS_ALL), ((4000, 30_000, 42_000), EXCEEDS_ALL),
])
def test_results_are_stored_past_the_caches_where_the_arrays_exceed_the_last(sizes, expected):
    """Before that operands are fetched ahead, once they exceed the second-level cache of one core."""
    assert exceeded_caches(call(*sizes), DEVICE) == expected


def test_several_last_caches_count_together():
    assert exceeded_caches(call(100_000), replace(DEVICE, last_cache=200_000)) == EXCEEDS_ONE


def test_of_a_cache_that_other_programs_share_no_more_counts_than_the_cores_may_take():
    device = replace(DEVICE, last_cache=504 << 20)
    assert [exceeded_caches(call(size), device) for size in (128 << 20, (128 << 20) + 1)] == [EXCEEDS_ONE, EXCEEDS_ALL]


def test_where_the_device_has_no_third_cache_those_of_all_cores_count():
    device = replace(DEVICE, caches=(1000, 4000), last_cache=8000)
    assert [exceeded_caches(call(size), device) for size in (4000, 8000, 8001)] == [0, EXCEEDS_ONE, EXCEEDS_ALL]


def test_cache_sizes_are_assumed_where_the_device_does_not_tell():
    device = replace(DEVICE, caches=(), last_cache=0)
    assert exceeded_caches(call(1 << 21), device) == EXCEEDS_ONE
    assert exceeded_caches(call((1 << 21) + 1), device) == EXCEEDS_ALL


def test_what_a_group_holds_twice_counts_once():
    one = host_view(np.zeros(3000, np.int8))
    group = GroupArgument((one,) * 3, ((1,),) * 3, 0, None)
    assert not exceeded_caches(BoundCall((group,), None, 3), DEVICE)
