"""What a launch decides from the sizes of its arguments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lowering.support import CPU
from tl_dpnp.runtime.arguments import BoundCall, GroupArgument, MemrefArgument
from tl_dpnp.runtime.arrays import host_view
from tl_dpnp.runtime.launch import exceeds_caches

DEVICE = replace(CPU, caches=(1000, 4000, 100_000), compute_units=2)


def call(*sizes: int) -> BoundCall:
    """Return a call with one array and one group of arrays, of so many bytes."""
    first, *others = (host_view(np.zeros(size, np.int8)) for size in sizes)
    group = GroupArgument(tuple(others), ((1,),) * len(others), 0, None)
    return BoundCall((MemrefArgument(first, (1,)), None, group), None, 1)


@pytest.mark.parametrize(
    ("sizes", "expected"), [((8000,), False), ((8001,), True), ((4000, 4000), False), ((4000, 2000, 2001), True)]
)
def test_operands_are_prefetched_where_they_exceed_the_caches_of_the_cores(sizes, expected):
    assert exceeds_caches(call(*sizes), DEVICE) is expected


def test_a_cache_size_is_assumed_where_the_device_does_not_tell():
    assert not exceeds_caches(call(1 << 21), replace(DEVICE, caches=()))
    assert exceeds_caches(call((1 << 21) + 1), replace(DEVICE, caches=()))


def test_what_a_group_holds_twice_counts_once():
    one = host_view(np.zeros(5000, np.int8))
    group = GroupArgument((one,) * 3, ((1,),) * 3, 0, None)
    assert not exceeds_caches(BoundCall((group,), None, 3), DEVICE)
