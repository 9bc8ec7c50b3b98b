"""Sub-groups: the place of one among those of a work-group, and values that are the same in all of its lanes."""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, builtin
from tl_dpnp.records import dataclass

__all__ = ["SubGroup", "broadcast", "uniform"]


@dataclass(frozen=True)
class SubGroup:
    """The place of a work-item: its lane and the position of its sub-group among `rows` x `columns`."""

    lane: ir.Value
    row: ir.Value
    column: ir.Value
    rows: int
    columns: int

    @property
    def exchanged(self) -> SubGroup:
        """The place among the sub-groups for C transposed."""
        return SubGroup(self.lane, self.column, self.row, self.columns, self.rows)


def broadcast(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a value of 32 bits that is the same in all lanes of the sub-group such that the compiler knows it."""
    arguments = [builder.bitcast(value, I32), ir.Constant(I32, 0)]
    first = builtin(builder, "_Z19sub_group_broadcastij", I32, arguments, ("nounwind", "convergent"))
    return builder.bitcast(first, value.type)


def uniform(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return a small 64-bit value that is the same in all lanes of the sub-group such that the compiler knows it."""
    return builder.zext(broadcast(builder, builder.trunc(value, I32)), I64)
