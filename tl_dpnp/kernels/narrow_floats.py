"""bf16 by integer operations: a bf16 value is the upper half of an f32.

No CPU runtime and no LLVM 14 knows the type; shifts and additions give the correctly rounded result everywhere.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, constant, lanes, vector_of

__all__ = ["bf16_from_f32", "f32_from_bf16"]

_I16 = ir.IntType(16)
#: Half a unit in the last place of bf16, less one: with the last bit kept added, ties go to even.
_HALF_UNIT = 0x7FFF
_QUIET_NAN = 0x40


def f32_from_bf16(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return the f32 equal to a bf16 (16-bit integers, scalar or vector)."""
    width = lanes(value.type)
    word = builder.zext(value, vector_of(I32, width))
    return builder.bitcast(builder.shl(word, constant(word.type, 16)), vector_of(ir.FloatType(), width))


def bf16_from_f32(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return an f32, scalar or vector, rounded to the nearest bf16, ties to even; a NaN stays one, made quiet."""
    width = lanes(value.type)
    word = builder.bitcast(value, vector_of(I32, width))
    sixteen = constant(word.type, 16)
    kept = builder.and_(builder.lshr(word, sixteen), constant(word.type, 1))
    rounded = builder.add(word, builder.add(kept, constant(word.type, _HALF_UNIT)))
    quiet = builder.or_(word, constant(word.type, _QUIET_NAN << 16))
    is_nan = builder.fcmp_unordered("uno", value, value)
    word = builder.select(is_nan, quiet, rounded)
    return builder.trunc(builder.lshr(word, sixteen), vector_of(_I16, width))
