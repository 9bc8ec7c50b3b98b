"""f16 and bf16: stored in 16 bits, computed in f32, and rounded after every operation.

f32 has more than twice the significand of either, so that sums, products, quotients and square roots rounded twice are
rounded right.  bf16 is the upper half of an f32; integer operations convert it, since LLVM 14 and Intel's CPU runtime
do not know it.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, constant, lanes, vector_of
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.scalars import BF16, F16, ScalarType

__all__ = [
    "NARROW", "bf16_from_f32", "f32_from_bf16", "from_double", "narrowed", "rounded", "tf32_from_f32",
    "widened",
]

#: The types that are computed in f32.
NARROW = (F16, BF16)
_F32, _F64, _I64 = ir.FloatType(), ir.DoubleType(), ir.IntType(64)

_I16 = ir.IntType(16)
#: Half a unit in the last place of bf16, less one: with the last bit kept added, ties go to even.
_HALF_UNIT = 0x7FFF
_QUIET_NAN = 0x40
#: Bits of an f32 that tf32 drops, and those of its exponent.
_TF32_DROPPED, _EXPONENT = 13, 0x7F800000


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


def tf32_from_f32(builder: ir.IRBuilder, word: ir.Value) -> ir.Value:
    """Return the bits of an f32 rounded to the nearest tf32, ties to even; what is not finite stays as it is."""
    last = builder.and_(builder.lshr(word, constant(I32, _TF32_DROPPED)), constant(I32, 1))
    half = builder.add(last, constant(I32, (1 << (_TF32_DROPPED - 1)) - 1))
    rounded = builder.and_(builder.add(word, half), constant(I32, -1 << _TF32_DROPPED))
    exponent = constant(I32, _EXPONENT)
    is_finite = builder.icmp_unsigned("!=", builder.and_(word, exponent), exponent)
    return builder.select(is_finite, rounded, word)


def widened(builder: ir.IRBuilder, scalar: ScalarType, stored: ir.Value) -> ir.Value:
    """Return a stored f16 or bf16 as f32."""
    if scalar == BF16:
        return f32_from_bf16(builder, stored)
    return target_of(builder).widen_half(builder, stored)


def narrowed(builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value) -> ir.Value:
    """Return an f32 rounded to f16 or bf16, as it is stored."""
    if scalar == BF16:
        return bf16_from_f32(builder, value)
    return target_of(builder).narrow_half(builder, value)


def rounded(builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value) -> ir.Value:
    """Return an f32 rounded to `scalar`, as f32; other types than f16 and bf16 are returned as they are."""
    return widened(builder, scalar, narrowed(builder, scalar, value)) if scalar in NARROW else value


def from_double(builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value) -> ir.Value:
    """Return an f64 rounded to f16 or bf16, as f32.

    For f16 the step to f32 rounds to odd (Boldo and Melquiond, "When double rounding is odd", 2005), so that the
    second rounding is right; bf16 rounds through f32, as the interpreter does.
    """
    width = lanes(value.type)
    single = builder.fptrunc(value, vector_of(_F32, width))
    if scalar == F16:
        back = builder.fpext(single, value.type)
        word = builder.bitcast(single, vector_of(I32, width))
        magnitudes = [builder.bitcast(v, vector_of(_I64, width)) for v in (back, value)]
        magnitudes = [builder.and_(m, constant(m.type, (1 << 63) - 1)) for m in magnitudes]
        # As integers, floats of one sign are ordered by magnitude: one step down is one towards zero.
        grew = builder.icmp_unsigned(">", *magnitudes)
        toward_zero = builder.sub(word, builder.zext(grew, word.type))
        odd = builder.bitcast(builder.or_(toward_zero, constant(word.type, 1)), single.type)
        single = builder.select(builder.fcmp_ordered("one", back, value), odd, single)
    return rounded(builder, scalar, single)
