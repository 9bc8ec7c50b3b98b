"""The devices that can be compiled for without being there, as a table.

Sizes follow Intel's "oneAPI GPU Optimization Guide", section "Intel Xe GPU Architecture": work-group limits, shared
local memory of a work-group, register files.  Clocks are derived from published peaks for 16-bit floats: 512 operations
for each clock and vector engine on Xe-HPC (Hot Chips 34), 128 on Xe-HPG (2048 for each Xe-core of 16).
"""

from __future__ import annotations

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.records import dataclass
from tl_dpnp.target.catalog import GPU
from tl_dpnp.target.device import Device

__all__ = ["TARGETS", "OfflineTarget", "target_named"]


@dataclass(frozen=True)
class OfflineTarget:
    """A device of ocloc's list.

    `platform` is iga64's name of its generation, `register_bytes` the size of a register.  `row_clocks` are the clocks
    that a matrix engine takes for one row of D, whatever the types: the depth in bits is the same.
    A Xe-core has `engines` of them, and its first cache gives `cache_bytes` a clock; None where that is not published.
    """

    name: str
    platform: str
    register_bytes: int
    row_clocks: int
    engines: int
    cache_bytes: int | None
    description: Device


def _description(name: str, **sizes: object) -> Device:
    fixed = {"vendor": "Intel", "driver": "offline", "backend": "level_zero", "is_cpu": False, "core": GPU}
    return Device(name=name, **{**fixed, **sizes})  # type: ignore[arg-type]


#: All targets by name.
TARGETS = {
    target.name: target
    for target in (
        OfflineTarget(
            "pvc", "xehpc", 64, 1, 8, 512,
            _description(
                "Intel Data Center GPU Max (offline)", subgroup_sizes=(16, 32), max_work_group_size=1024,
                local_memory=128 << 10, compute_units=1024, has_fp64=True, has_fp16=True, dpas_lanes=16,
            ),
        ),
        OfflineTarget(
            "dg2", "xehpg", 32, 2, 16, None,
            _description(
                "Intel Arc A-series (offline)", subgroup_sizes=(8, 16, 32), max_work_group_size=1024,
                local_memory=64 << 10, compute_units=512, has_fp64=False, has_fp16=True, dpas_lanes=8,
            ),
        ),
    )
}


def target_named(name: str) -> OfflineTarget:
    """Return a target by its name; raises UnsupportedError for others, naming those that there are."""
    if name not in TARGETS:
        raise UnsupportedError(f"there is no offline compilation for {name!r}, only for {', '.join(TARGETS)}")
    return TARGETS[name]
