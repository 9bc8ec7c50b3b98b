"""From a scheduled nest to one that can be emitted: its memory is placed and its barriers are set.

What depends on the work-group's layout is decided here.  The steps are: check that the loops are bound as the layout
needs it; run virtual threads interleaved; find the accumulators that can be values and give the others private
memory; order accesses to local memory by barriers; choose the loads that spare vectors; place the copies in local
memory.
"""

from __future__ import annotations

from typing import NamedTuple

from tl_dpnp.errors import ScheduleError
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.pieces import packed_bytes
from tl_dpnp.lowering.accumulators import place_accumulators
from tl_dpnp.lowering.instructions import whole_instruction
from tl_dpnp.lowering.integer_loads import use_integer_loads
from tl_dpnp.lowering.interleave import interleave
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.memory import aligned
from tl_dpnp.lowering.nest import Buffer, Leaf, Nest, leaves, loops_of, stages_of
from tl_dpnp.lowering.synchronization import synchronize

__all__ = ["Realized", "realize"]


class Realized(NamedTuple):
    """A nest to emit; `offsets` are the places of its copies in the `scratch` bytes of local memory that it takes.

    The pieces of a packed product take all of it.
    """

    nest: Nest
    offsets: dict[str, int]
    scratch: int


def realize(nest: Nest, layout: SubgroupLayout) -> Realized:
    """Return what to emit for a scheduled nest.

    Raises ScheduleError where the loops are not bound as `layout` needs it, where work-items would need the
    registers of others, and for copies of unknown size.
    """
    kernel = whole_instruction(nest, MicroKernel)
    if kernel is not None:
        if kernel.row.execution_size != layout.lanes:
            raise ScheduleError(
                f"{nest.name}: {kernel.name} runs on sub-groups of {kernel.row.execution_size} lanes; the work-group "
                f"has sub-groups of {layout.lanes}"
            )
        extent = (layout.rows, layout.columns)
        extent = extent[::-1] if kernel.exchanged else extent
        panels = [packed_bytes(each, *extent) for each in (kernel, kernel.alternative)
                  if each.packed or each.shared or each.packs]
        return Realized(nest, {}, max(panels, default=0))
    if whole_instruction(nest, TileKernel) is not None:
        if layout.lanes * layout.subgroups > 1:
            raise ScheduleError(f"{nest.name}: tiles are for one work-item, and the work-group has "
                                f"{layout.lanes * layout.subgroups}")
        return Realized(nest, {}, 0)
    _check_lanes(nest, layout)
    if layout.lanes * layout.subgroups > 1:
        for leaf in leaves(nest.body):
            _check_bound(nest, leaf, layout)
    _check_sizes(nest)
    nest = interleave(nest)
    nest = place_accumulators(nest, layout)
    if layout.lanes * layout.subgroups > 1:
        nest = synchronize(nest)
    else:
        nest = use_integer_loads(nest)
    offsets: dict[str, int] = {}
    scratch = 0
    for buffer in nest.buffers.values():
        if buffer.scope == "local":
            offsets[buffer.name] = scratch
            scratch += aligned(buffer.elements * buffer.element.bytes)
    return Realized(nest, offsets, scratch)


def _check_lanes(nest: Nest, layout: SubgroupLayout) -> None:
    for loop in loops_of(nest.body):
        if loop.kind == "lanes" and loop.static_range is not None and len(loop.static_range) > layout.lanes:
            raise ScheduleError(
                f"{nest.name}: the loop {loop.variable} is bound to lanes and has {len(loop.static_range)} iterations; "
                f"a sub-group has {layout.lanes} lanes"
            )


def _check_bound(nest: Nest, leaf: Leaf, layout: SubgroupLayout) -> None:
    """What an operand gets must be stored by one work-item."""
    target = leaf.assign.target.buffer
    if target.scope != "global":
        return
    kinds = {loop.kind for loop in leaf.loops}
    missing = [
        what for what, needed in (
            ("lanes", layout.lanes > 1 and "lanes" not in kinds),
            ("rows", layout.rows > 1 and not kinds & {"rows", "subgroups"}),
            ("columns", layout.columns > 1 and not kinds & {"columns", "subgroups"}),
        ) if needed
    ]
    if missing:
        raise ScheduleError(
            f"{nest.name}: {leaf.assign} would be done by several work-items: bind a loop around it to "
            f"{' and one to '.join(missing)} (the work-group has {layout.rows} x {layout.columns} sub-groups of "
            f"{layout.lanes} lanes)"
        )


def _check_sizes(nest: Nest) -> None:
    buffers: dict[str, Buffer] = nest.buffers
    for stage in stages_of(nest.body):
        shape = buffers[stage.buffer].shape
        if not all(isinstance(size, int) for size in shape):
            raise ScheduleError(
                f"{nest.name}: the copy {stage.buffer} of {' x '.join(map(str, shape))} elements has no size at "
                "compile time: move it into loops over tiles of known size"
            )
