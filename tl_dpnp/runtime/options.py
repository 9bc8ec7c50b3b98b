"""The options of a kernel, and what it tells of itself."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.mappings.frames import Form
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.sycl import amx
from tl_dpnp.scalars import Precision
from tl_dpnp.target.targets import TARGETS, TargetName

__all__ = ["KernelOptions", "Signature", "Stats"]


@dataclass(frozen=True)
class KernelOptions:
    """The options of `tl_dpnp.compile`, resolved: nothing is left to settings that may change later."""

    target: TargetName = "sycl"
    form: Form | None = None
    debug: bool = False
    cache: bool = True
    schedules: tuple[tuple[str, str], ...] = ()
    tuned: bool = True
    precision: Precision = "highest"
    emulate_dpas: int = 0
    amx: Literal["auto", "off", "emulate"] = "off"
    core: str = "auto"
    specialize: bool = True

    @property
    def specializes(self) -> bool:
        """Whether calls may have kernels for their sizes: where device and call decide how a work-group runs."""
        is_free = self.form is None and not self.debug and not self.schedules
        return not TARGETS[self.target].is_interpreted and self.specialize and is_free

    @property
    def lowering(self) -> LoweringOptions:
        """The part that the compiler looks at; asks Linux for AMX where that may be used."""
        tiles: Literal["on", "off", "emulate"] = "off" if self.why_no_amx is not None else (
            "on" if self.amx == "auto" else self.amx)
        return LoweringOptions(
            self.form, self.debug, self.schedules, self.precision, self.emulate_dpas, amx=tiles,
            core=None if self.core == "auto" else self.core)

    @property
    def why_no_amx(self) -> str | None:
        """Why the tiles of the processor are neither used nor emulated, None where they are."""
        match self.amx:
            case "emulate":
                return None
            case "off":
                return "TL_DPNP_AMX is off"
        return amx.refusal() if TARGETS[self.target].has_processors else "kernels for other targets run elsewhere"


@dataclass(frozen=True)
class Signature:
    """What a function was compiled for: the types of its parameters, the device, and the form of its kernel."""

    parameters: tuple[str, ...]
    device: str
    form: str

    def __str__(self) -> str:
        return f"({', '.join(self.parameters)}) on {self.device}, {self.form} form"


@dataclass
class Stats:
    """How a kernel came to be: compilations found in and missing from the disk cache, and the time they took.

    `compile_seconds` is wall-clock time, reading from the cache included; `cache_path` is the cache's folder, None
    where it is not used.  `driver_builds` counts how often the driver had to make machine code of SPIR-V, `tuned` the
    compilations in use whose schedules `Kernel.tune` found, `specialized` the sizes of calls that have kernels of their
    own where the function leaves sizes open, `raised` the compilations that are one gemm of whole matrices in place of
    the tiles that the function is written with.
    """

    cache_path: str | None = None
    cache_hits: int = 0
    cache_misses: int = 0
    compile_seconds: float = 0.0
    driver_builds: int = 0
    tuned: int = 0
    specialized: int = 0
    raised: int = 0

    def __add__(self, other: Stats) -> Stats:
        """Return the counts of two kernels together."""
        counts = [field.name for field in fields(self) if field.name != "cache_path"]
        return Stats(self.cache_path or other.cache_path,
                     *(getattr(self, name) + getattr(other, name) for name in counts))
