"""What the compiler knows about a device, and what the user may ask of the compiler, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from tl_dpnp.lowering.plan import Form
from tl_dpnp.scalars import Precision

__all__ = ["H200", "DeviceDescription", "LoweringOptions"]


@dataclass(frozen=True)
class DeviceDescription:
    """One device, without a handle to it: kernels can be compiled for devices that are not there.

    `backend` is "opencl", "level_zero" or "cuda".  `vector_bytes` is the width of a vector register of a CPU (64 with
    AVX-512, 32 with AVX2) and of a load of one work-item of a GPU.  `local_memory` is in bytes for each work-group,
    `caches` in bytes, the one nearest to the core first; it is empty where they are not known.  `last_cache` is the
    size of all caches of the last level together, of which each may serve some cores only, or 0.
    `dpas_lanes` is the execution size of the matrix instruction DPAS, 0 for devices without it; `amx` are the flags of
    the processor that say which products its tiles compute: "amx_bf16" and so on.  `architecture` is what
    the compiler is told to compile for, where it has to be told: "sm_90a".  `asynchronous_copies` says whether
    work-items can copy to local memory without waiting, `copy_engine` whether there are bulk copies, which PTX has from
    Hopper on, `warpgroup_products` whether there is ``wgmma``, which is Hopper's alone.
    """

    name: str
    vendor: str
    driver: str
    backend: str
    is_cpu: bool
    subgroup_sizes: tuple[int, ...]
    max_work_group_size: int
    local_memory: int
    compute_units: int
    vector_bytes: int
    has_fp64: bool = True
    has_fp16: bool = False
    has_atomic64: bool = True
    caches: tuple[int, ...] = ()
    last_cache: int = 0
    dpas_lanes: int = 0
    amx: tuple[str, ...] = ()
    architecture: str = ""
    asynchronous_copies: bool = False
    copy_engine: bool = False
    warpgroup_products: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.backend} {'cpu' if self.is_cpu else 'gpu'}, driver {self.driver})"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-serialisable data."""
        return asdict(self)


@dataclass(frozen=True)
class LoweringOptions:
    """What the user asks of the compiler.

    `form` is None where the device decides.  `debug` compiles bounds checks into every access.  `schedules` are the
    user's, by the name of the instruction's nest, as JSON; the other instructions get the default.
    `precision` is what products of f32 matrices may lose on a matrix engine (`matrix_engine.MatrixEngine`);
    `emulate_dpas` is the execution size, 8 or 16, of the matrix instruction to compute lane by lane, 0 not to.
    `smaller_tiles` is how often the default tiles of the matrix engine are halved, for a compiler that needs it.
    `amx` says whether the tiles of a processor may be used, or are emulated.
    """

    form: Form | None = None
    debug: bool = False
    schedules: tuple[tuple[str, str], ...] = ()
    precision: Precision = "highest"
    emulate_dpas: int = 0
    smaller_tiles: int = 0
    amx: Literal["on", "off", "emulate"] = "off"

    def in_form(self, form: Form | None) -> LoweringOptions:
        """Return the options with a form in place of theirs, which stays where it is None."""
        return self if form is None else replace(self, form=form)


#: An NVIDIA H200 as CUDA's driver describes it (compute capability 9.0; CUDA C++ Programming Guide, section "Technical
#: Specifications per Compute Capability"), so that kernels can be compiled where there is none.
H200 = DeviceDescription(
    name="NVIDIA H200", vendor="NVIDIA", driver="13.0", backend="cuda", is_cpu=False, subgroup_sizes=(32,),
    max_work_group_size=1024, local_memory=227 << 10, compute_units=132, vector_bytes=16, has_fp64=True, has_fp16=True,
    has_atomic64=True, caches=(256 << 10, 60 << 20), architecture="sm_90a",
    asynchronous_copies=True, copy_engine=True, warpgroup_products=True,
)
