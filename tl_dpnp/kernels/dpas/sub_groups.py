"""Sub-groups: the place of one among those of a work-group, and values that are the same in all of its lanes."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, Intrinsic, builtin, value_type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = ["REDUCED", "SubGroup", "broadcast", "subgroup_reduction", "uniform"]

#: The types that sub-groups reduce, and their letters in names of OpenCL's functions.
REDUCED = {"f32": "f", "i32": "i"}


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


def subgroup_reduction(kind: str, scalar: ScalarType) -> Intrinsic:
    """``subgroup_reduce_<kind>_<type>(a)``: the sum, the largest or the smallest value of all lanes, in each."""
    name = f"sub_group_reduce_{kind}"

    def emit(b: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
        mangled = f"_Z{len(name)}{name}{REDUCED[scalar.name]}"
        return builtin(b, mangled, value_type(scalar), list(values), ("nounwind", "convergent"))

    return Intrinsic(f"subgroup_reduce_{kind}_{scalar}", (scalar,), scalar, emit)
