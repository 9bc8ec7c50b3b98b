"""What a kernel is built from, as plain data: the text of a function, a device, and options of the compiler."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tl_dpnp.kernels.amx.rows import ROWS
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.runtime.offline.targets import TARGETS
from tl_dpnp.target.catalog import AVX2, INTEL_SERVER, ZEN4
from tl_dpnp.target.device import Device

__all__ = ["DEVICES", "Definition"]

_AVX512 = Device(
    name="a processor", vendor="a vendor", driver="1", backend="opencl", is_cpu=True,
    subgroup_sizes=(4, 8, 16, 32, 64), max_work_group_size=8192, local_memory=32 << 10, compute_units=8,
    core=ZEN4, has_fp16=True, caches=(48 << 10, 2 << 20, 32 << 20), last_cache=32 << 20,
)

#: The devices that kernels are built for; none of them need be there, and what is built depends on nothing else.
DEVICES: dict[str, Device] = {
    "avx512": _AVX512,
    "avx2": dataclasses.replace(_AVX512, core=AVX2),
    "amx": dataclasses.replace(_AVX512, core=INTEL_SERVER, amx=tuple(row.flag for row in ROWS)),
    "pvc": TARGETS["pvc"].description,
    "dg2": TARGETS["dg2"].description,
    "sm_90a": H200,
    # Compute capability 8.6 (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    "sm_86": dataclasses.replace(
        H200, name="a graphics card", local_memory=99 << 10, compute_units=84, architecture="sm_86",
        copy_engine=False, warpgroup_products=False,
    ),
}


@dataclass(frozen=True)
class Definition:
    """One kernel: its name in records, the text of its one function, a name in `DEVICES`, and what is not default of
    `LoweringOptions`.  `origin` is the program that `fuse` wrote the text for, empty for others.
    """

    name: str
    source: str
    device: str
    options: tuple[tuple[str, Any], ...] = ()
    origin: str = ""

    @property
    def needs_cuda(self) -> bool:
        """Whether it is built by numba-cuda, which needs an environment of its own."""
        return DEVICES[self.device].backend == "cuda"

    @property
    def lowering_options(self) -> LoweringOptions:
        """The options of the compiler."""
        given = dict(self.options)
        if "schedules" in given:
            given["schedules"] = tuple((name, text) for name, text in given["schedules"])
        return LoweringOptions(**given)

    def to_json(self) -> dict[str, Any]:
        """Return the definition as JSON-serialisable data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Definition:
        """Rebuild the definition that `to_json` returned."""
        return cls(**{**data, "options": tuple((name, value) for name, value in data["options"])})
