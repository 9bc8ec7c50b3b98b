"""Which intrinsic does a scalar instruction: on scalars in the body, on vectors in loops of them."""

from __future__ import annotations

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.language import ops

__all__ = ["scalar_intrinsic"]


def scalar_intrinsic(operation: ops.Operation) -> Intrinsic:
    """Return the intrinsic of arithmetic, mathematics, a comparison, a cast, a part or a bitcast."""
    type_ = ops.scalar_type(operation.operands[0])
    match operation:
        case ops.Arith(kind=kind):
            return intrinsics.arithmetic(kind, type_)
        case ops.Unary(kind=kind):
            return intrinsics.unary(kind, type_)
        case ops.Math(function=function, arguments=arguments):
            return intrinsics.mathematics(function, type_, len(arguments))
        case ops.Compare(kind=kind):
            return intrinsics.comparison(kind, type_)
        case ops.Cast(result=result):
            return intrinsics.conversion(type_.in_registers, ops.scalar_type(result))
        case ops.Part(part=part):
            return intrinsics.part(part, type_)
        case ops.Cmplx(result=result):
            return intrinsics.complex_of(ops.scalar_type(result))
        case ops.Bitcast(result=result):
            return intrinsics.reinterpretation(type_, ops.scalar_type(result))
    raise AssertionError(operation)
