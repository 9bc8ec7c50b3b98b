"""The vector form, for CPUs: one work-item computes a whole work-group of the language, with explicit vectors.

Barriers vanish, temporaries are private memory, and a work-item does a chunk of the work-groups, one after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tl_dpnp.kernels import intrinsics
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.building import BEYOND, CHUNK, GROUP, GROUPS, MINIMUM, call
from tl_dpnp.lowering.body.tree import And, Comparison, Name, add
from tl_dpnp.lowering.contraction import JAMMED
from tl_dpnp.lowering.mappings.frames import Form
from tl_dpnp.lowering.mappings.jam import moving_values
from tl_dpnp.lowering.mappings.mapping import LoopMapping
from tl_dpnp.target.core import Core

if TYPE_CHECKING:
    from tl_dpnp.lowering.body.writer import BodyWriter

__all__ = ["WorkItem"]

_LAST = Name("last")


class WorkItem(LoopMapping):
    """See the module.  Subclasses are the same for other functions."""

    form: ClassVar[Form] = "vector"

    @classmethod
    def of(cls, analysis: Analysis) -> WorkItem:
        """Return the mapping of a program; raises LoweringError for attributes, and for CUDA devices."""
        if not analysis.device.computes_alone:
            problem, hint = f"which {analysis.device} is not made for", "leave form= away"
        elif analysis.parsed.has_attributes:
            problem = "but the function has attributes"
            hint = "drop work_group_size and subgroup_size, or compile with form='subgroup'"
        else:
            return cls()
        raise analysis.refusal(f"form='vector' runs a work-group as one work-item, {problem}", hint)

    def __str__(self) -> str:
        return "vector form: one work-item computes a work-group"

    def moving_values(self, function: ops.Function, core: Core) -> frozenset[str]:
        return moving_values(function, core)

    def write_groups(self, writer: BodyWriter) -> None:
        writer.assign(GROUP, call(intrinsics.first_group(), CHUNK))
        writer.assign(_LAST, call(MINIMUM, add(GROUP, CHUNK), GROUPS))
        if writer.palette is not None:
            writer.evaluate(call(intrinsics.configure_tiles(writer.palette)))
        if writer.make_jammed is not None:
            writer.jammed = True
            in_caches = Comparison("==", BEYOND, 0)
            with writer.loop(And(in_caches, Comparison("<=", add(GROUP, JAMMED), _LAST))):
                writer.region(writer.function.body)
                writer.count_up(GROUP, JAMMED)
            writer.jammed = False
        with writer.loop(Comparison("<", GROUP, _LAST)):
            writer.region(writer.function.body)
            writer.count_up(GROUP, 1)
        if writer.palette is not None:
            writer.evaluate(call(intrinsics.release_tiles()))
