"""The SIMD engine: outer products by fused multiply-adds of vectors, in one work-item."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.instructions import MatrixInstruction
from tl_dpnp.kernels.llvm import splat

__all__ = ["outer_product"]


def outer_product(
    builder: ir.IRBuilder, instruction: MatrixInstruction, a: ir.Value, b: Sequence[ir.Value], c: Sequence[ir.Value]
) -> list[ir.Value]:
    """Emit an instruction with k = 1: `a` is a column of A, `b` a row of B, `c` the columns of C before."""
    assert len(b) == len(c) == instruction.n
    return [
        scalar_ops.fused_multiply_add(
            builder, instruction.element, a, splat(builder, factor, instruction.m), column
        )
        for factor, column in zip(b, c, strict=True)
    ]
