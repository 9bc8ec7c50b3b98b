"""What the compiler knows about a device, as plain data."""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any, Literal

from tl_dpnp.records import dataclass
from tl_dpnp.target.core import Core
from tl_dpnp.target.launches import LaunchNumbers, PersistentNumbers
from tl_dpnp.target.multiprocessor import Multiprocessor

__all__ = ["Device"]


@dataclass(frozen=True)
class Device:
    """One device, without a handle to it: kernels can be compiled for devices that are not there.

    `backend` is "opencl", "level_zero" or "cuda".  `core` is what one core of a CPU, or one work-item of a GPU,
    does with vectors, `launches` how its cores share the work of a call, `persistent` how blocks of threads do that
    stay on a CUDA device.  `local_memory` is in bytes for each work-group, `caches` in bytes, the one nearest to
    the core first; it is empty where they are not known.  `last_cache` is the size of all caches of the last level
    together, of which each may serve some cores only, or 0.  `dpas_lanes` is the execution size of the matrix
    instruction DPAS, 0 for devices without it; `amx` are the flags of the processor that say which products its
    tiles compute: "amx_bf16" and so on.  `architecture` is what the compiler is told to compile for, where it has
    to be told: "sm_90a".  `asynchronous_copies` says whether work-items can copy to local memory without waiting,
    `copy_engine` whether there are bulk copies, which PTX has from Hopper on, `warpgroup_products` whether there is
    ``wgmma``, which is Hopper's alone.  `multiprocessor` is what one of the `compute_units` of a CUDA device does
    in a cycle.
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
    core: Core
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
    launches: LaunchNumbers = field(default_factory=LaunchNumbers)
    persistent: PersistentNumbers = field(default_factory=PersistentNumbers)
    multiprocessor: Multiprocessor | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.backend} {'cpu' if self.is_cpu else 'gpu'}, driver {self.driver})"

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector of a CPU: 64 with AVX-512, 32 with AVX2; of a load of one work-item of a GPU."""
        return self.core.vector_bytes

    @property
    def core_cache(self) -> int:
        """Bytes that the caches of one core hold: its second level."""
        return self.caches[1] if len(self.caches) > 1 else self.launches.cache

    @property
    def last_cache_for_arrays(self) -> int:
        """Bytes that arrays may take of the last-level caches before their results are stored past these."""
        numbers = self.launches
        return min(int(numbers.share_of_cache * self.last_cache), numbers.cache_of_a_core * self.compute_units)

    @property
    def family(self) -> Literal["sycl", "cuda"]:
        """The target that the device is of."""
        return "cuda" if self.backend == "cuda" else "sycl"

    @property
    def computes_alone(self) -> bool:
        """Whether one work-item may compute a whole work-group, with vectors: not those of CUDA devices."""
        return self.family != "cuda"

    @property
    def has_persistent_blocks(self) -> bool:
        """Whether blocks of threads may stay for a whole launch: while they compute, what comes next is copied."""
        return self.copy_engine or self.asynchronous_copies

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability of a CUDA device, (0, 0) of others: that of "sm_90a" is (9, 0)."""
        number = "".join(filter(str.isdigit, self.architecture))
        return (int(number[:-1]), int(number[-1])) if number else (0, 0)

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-serialisable data."""
        return asdict(self)
