"""Which form a kernel takes and how large its work-group is: attributes first, then the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tl_dpnp.errors import Diagnostic, LoweringError
from tl_dpnp.kernels.blocked.product import BlockedProduct
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.mma.tile_product import TileProduct
from tl_dpnp.language import ops
from tl_dpnp.lowering.block_product import Block
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.matrix_engine import MOST_SUBGROUPS, extent_of_tiles
from tl_dpnp.lowering.plan import Form
from tl_dpnp.lowering.staging import Staging

__all__ = ["WorkGroup", "choose_work_group"]

#: Sub-group sizes in the order of preference where the function leaves the choice.
_PREFERRED_SIZES = (16, 8, 32, 4, 64)


@dataclass(frozen=True)
class WorkGroup:
    """The chosen form and layout; `is_given` says that attributes of the function chose it."""

    form: Form
    layout: SubgroupLayout
    is_given: bool = False
    staging: Staging | None = None
    tiles: tuple[TileProduct | BlockedProduct, ...] = ()

    def __str__(self) -> str:
        layout = self.layout
        if self.tiles:
            return f"{self.form} form, by {', or '.join(map(str, self.tiles))}"
        if self.staging is not None:
            return str(self.staging)
        if self.form == "vector":
            return "vector form: one work-item computes a work-group"
        size = f"work_group_size({layout.lanes * layout.rows},{layout.columns}) subgroup_size({layout.lanes})"
        return f"sub-group form: {size}"


def choose_work_group(
    function: ops.Function,
    device: DeviceDescription,
    form: Form | None,
    products: Sequence[tuple[Contraction, MicroKernel]] = (),
    blocks: Sequence[Block] = (),
) -> WorkGroup:
    """Return the form and layout of `function` on `device`; `blocks` are tiles of large products, the best first.

    `products` are the instructions for a matrix engine, whose micro-kernels set the size of a sub-group and, with
    their tiles, that of the work-group.  Without a wish, and without them, a CPU gets the vector form, unless the
    function has attributes, which only the sub-group form can honour.  Raises LoweringError where attributes and
    device, or attributes and `form`, disagree.
    """
    has_attributes = function.work_group_size is not None or function.subgroup_size is not None
    if form == "vector" and device.backend == "cuda":
        raise _error(function, f"form='vector' runs a work-group as one work-item, which {device} is not made for",
                     "leave form= away")
    if form == "vector" or (form is None and device.is_cpu and not has_attributes and not products):
        if has_attributes:
            raise _error(function, "form='vector' runs a work-group as one work-item, but the function has attributes",
                         "drop work_group_size and subgroup_size, or compile with form='subgroup'")
        return WorkGroup("vector", SubgroupLayout())
    size = _subgroup_size(function, device, products[0][1].row.execution_size if products else None)
    if function.work_group_size is not None:
        rows, columns = function.work_group_size[0] // size, function.work_group_size[1]
    elif products and products[0][1].row.execution_size == size:
        rows, columns = extent_of_tiles([(nest.rows, nest.columns, kernel) for nest, kernel in products])
    elif blocks and blocks[0].layout.lanes == size:
        rows, columns = blocks[0].layout.rows, blocks[0].layout.columns
    else:
        rows, columns = _default_extent(function, size, device.max_work_group_size)
    layout = SubgroupLayout(size, rows, columns)
    if layout.subgroups * size > device.max_work_group_size:
        raise _error(
            function,
            f"work_group_size({rows * size},{columns}) has {layout.subgroups * size} work-items; "
            f"{device.name} allows {device.max_work_group_size}",
            "make it smaller",
        )
    return WorkGroup("subgroup", layout, has_attributes)


def _subgroup_size(function: ops.Function, device: DeviceDescription, engine: int | None) -> int:
    supported = ", ".join(map(str, device.subgroup_sizes))
    wanted = function.subgroup_size
    if wanted is not None:
        if wanted not in device.subgroup_sizes:
            raise _error(function, f"subgroup_size({wanted}) is not supported by {device.name}",
                         f"it supports {supported}")
        return wanted
    rows = function.work_group_size[0] if function.work_group_size is not None else None
    for size in ((engine,) if engine else ()) + _PREFERRED_SIZES:
        if size in device.subgroup_sizes and (rows is None or rows % size == 0):
            return size
    raise _error(function, f"no sub-group size of {device.name} divides the first mode of work_group_size, {rows}",
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


def _error(function: ops.Function, message: str, hint: str) -> LoweringError:
    return LoweringError(message, [Diagnostic(message, function.span, hint)])
