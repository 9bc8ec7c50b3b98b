"""What work-groups have, by the device: what the planner of graphs goes by."""

from __future__ import annotations

from dataclasses import replace

import dpctl
import pytest

from tl_dpnp.graph.work_groups import of_device
from tl_dpnp.runtime.sycl.devices import describe


@pytest.mark.parametrize(("granted", "caches", "is_cpu", "expected"), [
    (1 << 15, (1 << 15, 1 << 19), True, 1 << 15),
    (1 << 18, (1 << 15, 1 << 19), True, 1 << 15),
    (1 << 15, (3 << 14, 1 << 21), True, 1 << 15),
    (1 << 18, (), True, 1 << 18),
    (1 << 17, (1 << 15,), False, 1 << 17),
])
def test_temporaries_of_processors_stay_in_the_nearest_cache(granted, caches, is_cpu, expected):
    """Whatever the runtime grants: that of 2026 grants eight times as much local memory as that of 2024."""
    device = replace(describe(dpctl.SyclDevice()), local_memory=granted, caches=caches, is_cpu=is_cpu)
    assert of_device(device).local_memory == expected
