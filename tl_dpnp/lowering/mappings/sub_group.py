"""The sub-group form, for GPUs: rows over the lanes of a sub-group, tiles over sub-groups, barriers and local memory.

How large a work-group is, attributes of the function say first, then the instructions, then the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tl_dpnp.kernels import intrinsics
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.building import GROUP, call
from tl_dpnp.lowering.contraction import contractions_of
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings.mapping import LoopMapping
from tl_dpnp.lowering.tactics.blocks import blocks_of
from tl_dpnp.lowering.tactics.dpas import MOST_SUBGROUPS, extent_of_tiles
from tl_dpnp.records import dataclass

if TYPE_CHECKING:
    from tl_dpnp.lowering.body.writer import BodyWriter

__all__ = ["SubGroups"]

#: Sub-group sizes in the order of preference where the function leaves the choice.
_PREFERRED_SIZES = (16, 8, 32, 4, 64)


@dataclass(frozen=True, kw_only=True)
class SubGroups(LoopMapping):
    """See the module."""

    form = "subgroup"

    @classmethod
    def of(cls, analysis: Analysis) -> SubGroups:
        """Return the mapping of a program.

        Raises LoweringError where attributes and device disagree.
        The micro-kernels of a matrix engine set the size of a sub-group and, with their tiles, that of the work-group.
        """
        function, device, products = analysis.parsed, analysis.device, analysis.products
        best = next((block for operation, contraction in contractions_of(analysis.canonical)
                     for block in blocks_of(contraction, device, analysis.engine.at(operation.precision))), None)
        size = _subgroup_size(analysis)
        if function.work_group_size is not None:
            rows, columns = function.work_group_size[0] // size, function.work_group_size[1]
        elif any(guard is not None for guard in analysis.fragments.kept.values()) and not any(
            isinstance(operation, ops.LinearAlgebra) for operation in function.body.walk()
        ):
            items = ops.work_items_of(function)  # more would have nothing to do
            rows, columns = items.rows, items.columns
        elif products and products[0][1].row.execution_size == size:
            rows, columns = extent_of_tiles([(nest.rows, nest.columns, kernel) for nest, kernel in products])
        elif best is not None and best.layout.lanes == size:
            rows, columns = best.layout.rows, best.layout.columns
        else:
            rows, columns = _default_extent(function, size, device.max_work_group_size)
        layout = SubgroupLayout(size, rows, columns)
        if layout.subgroups * size > device.max_work_group_size:
            raise analysis.refusal(
                f"work_group_size({rows * size},{columns}) has {layout.subgroups * size} work-items; "
                f"{device.name} allows {device.max_work_group_size}",
                "make it smaller",
            )
        return cls(layout=layout, is_given=function.has_attributes)

    def __str__(self) -> str:
        layout = self.layout
        size = f"work_group_size({layout.lanes * layout.rows},{layout.columns}) subgroup_size({layout.lanes})"
        return f"sub-group form: {size}"

    def write_groups(self, writer: BodyWriter) -> None:
        writer.assign(GROUP, call(intrinsics.group_id()))
        writer.region(writer.function.body)


def _subgroup_size(analysis: Analysis) -> int:
    function, device = analysis.parsed, analysis.device
    supported = ", ".join(map(str, device.subgroup_sizes))
    wanted = function.subgroup_size
    if wanted is not None:
        if wanted not in device.subgroup_sizes:
            raise analysis.refusal(f"subgroup_size({wanted}) is not supported by {device.name}",
                                   f"it supports {supported}")
        return wanted
    rows = function.work_group_size[0] if function.work_group_size is not None else None
    for size in (*(kernel.row.execution_size for _, kernel in analysis.products[:1]), *_PREFERRED_SIZES):
        if size in device.subgroup_sizes and (rows is None or rows % size == 0):
            return size
    raise analysis.refusal(f"no sub-group size of {device.name} divides the first mode of work_group_size, {rows}",
                           f"make it a multiple of one of {supported}")


def _default_extent(function: ops.Function, size: int, limit: int) -> tuple[int, int]:
    """Return rows and columns of sub-groups such that the largest output has a tile for each."""
    rows, columns = 1, 1
    for operation in function.body.walk():
        if isinstance(operation, ops.LinearAlgebra):
            shape = (*ops.memref_type(operation.output).shape, 1, 1)
            rows = max(rows, -(-(shape[0] or size) // size))
            columns = max(columns, -(-(shape[1] or 1) // 8))
    rows, columns = (min(pair) for pair in zip((rows, columns), MOST_SUBGROUPS, strict=True))
    while rows * columns * size > limit:
        columns, rows = max(1, columns // 2), rows if columns > 1 else rows // 2
    return rows, columns
