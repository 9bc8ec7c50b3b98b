"""What a mapping answers for: whether it is for a program, and everything in which its kernels differ from others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Body, Expression
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings.frames import FRAMES, Form, Frame
from tl_dpnp.lowering.memory import Placement
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.tactics.tactic import Place
from tl_dpnp.lowering.variants import Condition
from tl_dpnp.records import dataclass
from tl_dpnp.target.core import Core

if TYPE_CHECKING:
    from tl_dpnp.lowering.body.writer import BodyWriter
    from tl_dpnp.lowering.product_plans import BlockPlan, TilePlan
    from tl_dpnp.lowering.tactics.team_products import TeamProduct

__all__ = ["LoopMapping", "Mapping", "OfParts", "OfProduct"]


@dataclass(frozen=True, kw_only=True)
class Mapping(ABC):
    """A mapping as it is for one program on one device; as text it is what a kernel's source begins with.

    `layout` says how the work-items share loops, and `is_given` that attributes chose it.  `purpose` is what error
    messages say that it is for, where it is not for all programs; "attributes and debug=True" follow.  `cycles` are
    those of a multiprocessor for a work-group of very many, None where there is no estimate.
    """

    form: ClassVar[Form]
    purpose: ClassVar[str] = ""
    layout: SubgroupLayout = field(default_factory=SubgroupLayout)
    is_given: bool = False
    cycles: float | None = None

    @property
    def frame(self) -> Frame:
        """How kernels are launched."""
        return FRAMES[self.form]

    @property
    def awaits_call(self) -> bool:
        """Whether a kernel that is made before there is a call has another mapping."""
        return False

    @classmethod
    def over(cls, other: Mapping, analysis: Analysis) -> Mapping | None:
        """Return the mapping for a program that has another one for all calls, None where it is not for the program."""
        return None

    def condition(self, analysis: Analysis) -> Condition | None:
        """Return which calls of a program it is for; None for all."""
        return None

    def rewritten(self, analysis: Analysis) -> Analysis:
        """Return the analysis of the function that work-groups of the device run in place of the given one."""
        return analysis

    def whole(self, name: str) -> tuple[LaunchPlan, Body] | None:
        """Return the kernel with a name that the mapping makes by itself, None where it is made of loop nests."""
        return None


@dataclass(frozen=True, kw_only=True)
class LoopMapping(Mapping):
    """A mapping whose kernels are made of the instructions of the function, each with a scheduled loop nest.

    `teams` and `parts` are those of the launch plan.  `products` compute instructions in place of loop nests, None is
    for those that have one.  Work-items store the results in `direct` to global memory, where others are in local one,
    and have so many `registers` at most on CUDA devices; 0 leaves that to the compiler.
    """

    teams: int = 1
    parts: int = 1
    registers: int = 0
    products: tuple[TeamProduct | None, ...] = ()
    direct: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a user should know of what computes the instructions."""
        return ()

    def place(self, analysis: Analysis, operation: ops.LinearAlgebra) -> Place:
        """Return what there is to compute an instruction with."""
        return Place(analysis.device, self.frame, self.layout, analysis.engine.at(operation.precision),
                     dict(analysis.options.schedules))

    def moving_values(self, function: ops.Function, core: Core) -> frozenset[str]:
        """Return the memrefs that differ between two work-groups which had better be done at once; else none."""
        return frozenset()

    @property
    def local_memory(self) -> int | None:
        """Bytes of local memory, None where temporaries and the copies of the loop nests decide."""
        return None

    def memref(self, value: ops.Value) -> MemrefDescriptor | None:
        """Return where a view or an element of a group is, None where it is in global memory."""
        return None

    def temporary(self, placement: Placement) -> tuple[Expression, int]:
        """Return the address of a temporary and what that is a multiple of."""
        return placement.offset, 1

    @abstractmethod
    def write_groups(self, writer: BodyWriter) -> None:
        """Write what gives work-items their work-groups, with the instructions of the function inside."""

    @property
    def barrier(self) -> Intrinsic | None:
        """What waits for the other work-items of a work-group, None where there are none."""
        return None if self.frame.is_alone else intrinsics.barrier()


@dataclass(frozen=True, kw_only=True)
class OfProduct(Mapping):
    """A mapping for functions that are one product, whose tiles blocks compute whatever work-groups there are.

    `raised` is the analysis of the ``gemm`` that a function was raised to, None where the function is that itself.
    """

    plan: TilePlan | BlockPlan
    raised: Analysis | None = None

    def of_raised(self, raised: Analysis) -> OfProduct:
        """Return the mapping of a function that was raised to the one which has this mapping."""
        return replace(self, raised=raised, plan=replace(self.plan, is_raised=True))

    @property
    def awaits_call(self) -> bool:
        return self.raised is not None

    def condition(self, analysis: Analysis) -> Condition:
        return self.plan

    def rewritten(self, analysis: Analysis) -> Analysis:
        return analysis if self.raised is None else replace(self.raised, parsed=analysis.parsed)

    @property
    def whose(self) -> str:
        """What is computed, in words, where it is not the function as it is written."""
        return "" if self.raised is None else " of the gemm that all tiles are"


@dataclass(frozen=True, kw_only=True)
class OfParts:
    """What a mapping has whose work-groups run another canonical `function`, as parts of those of a program."""

    function: ops.Function

    def rewritten(self, analysis: Analysis) -> Analysis:
        """See `Mapping`."""
        return replace(analysis, canonical=self.function)
