"""Factors in the registers of a sub-group with DPAS whose places move by equal distances from an iteration to the next.

The headers of their messages are made in front of the loop and changed in place, one addition for each: what makes a
header of a counter takes several instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, Block
from tl_dpnp.kernels.dpas.sums import LANES
from tl_dpnp.kernels.dpas.tile_blocks import TileLoads
from tl_dpnp.language import ops
from tl_dpnp.lowering.dpas_fragments import deferred_loads, limits_in, lines_along, registers_needed
from tl_dpnp.lowering.fragment_choice import regions_of
from tl_dpnp.lowering.matrix_spreads import Spreads
from tl_dpnp.target.catalog import DPAS

__all__ = ["MovingLoad", "moving_loads"]


class MovingLoad(NamedTuple):
    """A load of a factor, its messages, and by how many elements of a `mode` of the memref it moves in each iteration.
    """

    operation: ops.CooperativeMatrixLoad
    loads: TileLoads
    mode: int
    elements: int

    @property
    def field(self) -> int:
        """The field of a header that changes."""
        return COLUMN if self.mode == lines_along(self.operation) else ROW

    def distance(self, block: Block) -> int:
        """Return by how much it does."""
        return self.elements // (self.per_word(block) if self.field == COLUMN else 1)

    def is_whole(self, block: Block) -> bool:
        """Whether that is a whole number, of what the message of a block takes for elements."""
        return self.field == ROW or self.elements % self.per_word(block) == 0

    def per_word(self, block: Block) -> int:
        """Return how many elements of the memref the message of a block takes for one."""
        return block.word_bits // ops.memref_type(self.operation.memref).element.bits


def moving_loads(
    function: ops.Function, spreads: Spreads, loads_of: Callable[[ops.CooperativeMatrixLoad], TileLoads | None]
) -> dict[str, list[MovingLoad]]:
    """Return the loads of factors that move in loops, by the variables of these loops, as far as registers suffice.

    `loads_of` returns the messages of a factor that is loaded, None for other matrices.
    """
    found: dict[str, list[MovingLoad]] = {}

    def visit(region: ops.Region, room: int) -> None:
        """Look at loops, those inside of others in the registers that these leave."""
        for operation in region:
            left = room
            if isinstance(operation, ops.For) and operation.variable.name in limits:
                for load in _moving_in(operation, loads_of):
                    more = len(load.loads.loads) - 1  # a register is counted for each load
                    if more <= left:
                        left -= more
                        found.setdefault(operation.variable.name, []).append(load)
            for inner in operation.regions:
                visit(inner, left)

    for region in regions_of(function):
        limits = limits_in(region.body)
        needed = registers_needed(region.body, spreads, deferred_loads(region.body, spreads))
        visit(region.body, DPAS[LANES].by_blocks.registers - needed)
    return found


def _moving_in(
    loop: ops.For, loads_of: Callable[[ops.CooperativeMatrixLoad], TileLoads | None]
) -> Iterator[MovingLoad]:
    """Yield the loads that are run once in each iteration of a loop and move with its counter alone."""
    if isinstance(loop.step, ops.Value):
        return
    elements = int(loop.step.value.real)
    inside = {value.name for operation in loop.body.walk() for value in (*operation.results, *operation.loop_variables)}
    for operation in loop.body:
        if not isinstance(operation, ops.CooperativeMatrixLoad) or (loads := loads_of(operation)) is None:
            continue
        names = [index.name if isinstance(index, ops.Value) else None for index in operation.indices]
        if names.count(loop.variable.name) != 1 or inside & {*names}:
            continue
        load = MovingLoad(operation, loads, names.index(loop.variable.name), elements)
        if all(load.is_whole(each.block) for each in loads.loads):
            yield load
