"""The divided form: several work-items of a CPU share the one product of a work-group, where there are few of those.

It is the vector form of another function, in which a work-group computes some of the columns of the result, or where
these are few, some of its rows.
"""

from __future__ import annotations

from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.division import in_parts, static_product
from tl_dpnp.lowering.mappings.mapping import Mapping, OfParts
from tl_dpnp.lowering.mappings.work_item import WorkItem
from tl_dpnp.lowering.schedules import schedule_instructions, work_of
from tl_dpnp.lowering.variants import FewGroups
from tl_dpnp.records import dataclass
from tl_dpnp.target.device import Device

__all__ = ["Divided", "divide"]


@dataclass(frozen=True, kw_only=True)
class Divided(OfParts, WorkItem):
    """The vector form of a function whose work-groups are `parts` of those of another, in order."""

    form = "divided"
    purpose = "one product of known sizes on CPUs, without schedules,"

    @property
    def awaits_call(self) -> bool:
        return True

    @classmethod
    def over(cls, other: Mapping, analysis: Analysis) -> Divided | None:
        options = analysis.options
        if not isinstance(other, WorkItem) or options.debug or options.schedules:
            return None
        return divide(analysis.canonical, analysis.device)

    def condition(self, analysis: Analysis) -> FewGroups | None:
        if analysis.options.form is not None:
            return None
        return FewGroups(work_of(schedule_instructions(analysis, WorkItem()), analysis.device.core))


def divide(function: ops.Function, device: Device) -> Divided | None:
    """Return the divided form of a canonical function of one product of known size, None for others."""
    product = static_product(function)
    if product is None:
        return None
    rows, columns = ops.memref_type(product.output).shape
    a, b = (ops.memref_type(value) for value in product.inputs)
    if any(type_.element.is_subbyte for type_ in (a, b, ops.memref_type(product.output))):
        return None
    assert rows is not None
    assert columns is not None
    numbers = device.launches
    most = numbers.parts * device.compute_units
    vector = device.vector_bytes // ops.memref_type(product.output).element.bytes
    for mode, size, step in ((1, columns, 1), (0, rows, vector)):
        least = numbers.columns_of_a_part if mode == 1 else numbers.vectors_of_a_part * vector
        parts = max((p for p in range(1, most + 1) if size % (p * step) == 0 and size // p >= least), default=1)
        if parts > 1:
            return Divided(function=in_parts(function, product, mode, parts).function, parts=parts)
    return None
