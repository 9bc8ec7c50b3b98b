"""What a tactic answers for: whether it is for an instruction, and how the loops of that are scheduled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings.frames import Frame
from tl_dpnp.lowering.matrix_engine import MatrixEngine
from tl_dpnp.lowering.nest import Nest
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tiling import Tiling
from tl_dpnp.records import dataclass
from tl_dpnp.target.device import Device

__all__ = ["EngineTactic", "Place", "Tactic", "TiledTactic"]

Kernel = TypeVar("Kernel", MicroKernel, TileKernel)


@dataclass(frozen=True)
class Place:
    """What there is to compute an instruction with: the work-items of a mapping on a device.

    `engine` has the precision of the instruction.  `given` are the user's schedules, by the names of nests.
    """

    device: Device
    frame: Frame
    layout: SubgroupLayout
    engine: MatrixEngine
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tactic(ABC):
    """A way to compute an instruction, as it is for one of them.

    What its code takes follows from the nest that it makes, whoever scheduled that: local memory (`realize`), the work
    (`tl_dpnp.lowering.schedules.work_of`) and the registers that an engine needs (`EngineTactic.registers`).
    With `leaves_tuning`, a search of schedules is one of those of a later tactic.
    """

    leaves_tuning: ClassVar[bool] = False
    contraction: Contraction
    place: Place

    @classmethod
    @abstractmethod
    def of(cls, contraction: Contraction, place: Place) -> Tactic | None:
        """Return the tactic for an instruction, None where it is not for that."""

    @abstractmethod
    def schedule(self) -> Schedule:
        """Return the schedule; raises `ScheduleError` where the user gave one that is not legal."""

    def schedule_out_of_cache(self) -> Schedule | None:
        """Return the schedule for operands that exceed all caches, None where it is no other."""
        return None


@dataclass(frozen=True)
class TiledTactic(Tactic):
    """A tactic with tiles in registers, which tuning may choose: `tiling` is None for the default."""

    tiling: Tiling | None = None

    @property
    @abstractmethod
    def default_tiling(self) -> Tiling:
        """The tiling that is the default."""

    @abstractmethod
    def room(self, rows: int) -> tuple[int, int]:
        """Return of how many vectors `rows` are for a work-item, and for how many vectors it has registers."""


@dataclass(frozen=True)
class EngineTactic(Tactic, Generic[Kernel]):
    """A matrix engine computes a whole nest by a micro-kernel, which is of one `kind`.

    The methods of the class are about micro-kernels of schedules, which may be the user's.
    """

    kind: ClassVar[type[Any]]
    kernel: Kernel

    def schedule(self) -> Schedule:
        schedule = Schedule(self.contraction.nest)
        schedule.tensorize("m", self.kernel.name)
        return schedule

    @classmethod
    @abstractmethod
    def remark(cls, plain: Nest, engine: MatrixEngine, used: Kernel | None) -> str | None:
        """Return why the engine does, or does not, compute an instruction; None where nothing is to be said."""

    @classmethod
    @abstractmethod
    def missing(cls, used: Kernel, engine: MatrixEngine) -> str | None:
        """Return what a micro-kernel needs that the engine of the device is not, None where there is nothing."""

    @classmethod
    def work(cls, used: Kernel, scheduled: Nest) -> int | None:
        """Return the vector operations that take as long as a nest, None where the instruction says how many."""
        return None

    @classmethod
    def registers(cls, used: Kernel) -> int:
        """Return the size of a GPU thread's register file that is needed, 0 where that does not matter."""
        return 0
