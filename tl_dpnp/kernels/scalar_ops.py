"""How each scalar operation of the language is written in LLVM IR, as tables, for scalars and for vectors of them.

Where C leaves a result undefined the device must still not trap: integer division by zero gives 0, and the
smallest integer divided by −1 wraps.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels import complex_numbers
from tl_dpnp.kernels.llvm import constant, lanes, storage_type, value_type, vector_of
from tl_dpnp.kernels.narrow_floats import NARROW, from_double, narrowed, rounded, widened
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.scalars import F32, F64, ScalarType

__all__ = ["arithmetic", "compare", "convert", "fused_multiply_add", "is_in_range", "mathematics", "reinterpret",
           "unary"]

_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTEGER_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "shl": "shl", "and": "and_", "or": "or_", "xor": "xor"}
_PREDICATES = {"eq": "==", "ne": "!=", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def arithmetic(builder: ir.IRBuilder, kind: str, scalar: ScalarType, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """Emit ``arith.<kind>``; both operands have type `scalar` or are vectors of it."""
    if scalar.is_float:
        if kind == "rem":
            return _function(builder, "rem", scalar, (lhs, rhs))
        return rounded(builder, scalar, getattr(builder, _FLOAT_BINARY[kind])(lhs, rhs))
    if scalar.is_complex:
        if kind == "mul":
            return complex_numbers.multiply(builder, lhs, rhs)
        if kind == "div":
            return complex_numbers.divide(builder, scalar.part, lhs, rhs)
        return getattr(builder, _FLOAT_BINARY[kind])(lhs, rhs)
    if kind in ("div", "rem"):
        return _divide(builder, kind, scalar, lhs, rhs)
    if kind == "shr":
        return (builder.ashr if scalar.kind == "signed" else builder.lshr)(lhs, rhs)
    return getattr(builder, _INTEGER_BINARY[kind])(lhs, rhs)


def _function(builder: ir.IRBuilder, kind: str, scalar: ScalarType, arguments: Sequence[ir.Value]) -> ir.Value:
    computed = F32 if scalar in NARROW else scalar
    return rounded(builder, scalar, target_of(builder).mathematics(builder, kind, computed, arguments))


def _divide(builder: ir.IRBuilder, kind: str, scalar: ScalarType, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    zero, one = constant(lhs.type, 0), constant(lhs.type, 1)
    by_zero = builder.icmp_signed("==", rhs, zero)
    if scalar.kind == "unsigned":
        divisor = builder.select(by_zero, one, rhs)
        result = builder.udiv(lhs, divisor) if kind == "div" else builder.urem(lhs, divisor)
        return builder.select(by_zero, zero, result)
    by_minus_one = builder.icmp_signed("==", rhs, constant(lhs.type, -1))
    divisor = builder.select(builder.or_(by_zero, by_minus_one), one, rhs)
    if kind == "rem":
        # The remainder of a division by 1 is 0, which is right for −1 and the defined result for 0.
        return builder.srem(lhs, divisor)
    result = builder.select(by_minus_one, builder.sub(zero, lhs), builder.sdiv(lhs, divisor))
    return builder.select(by_zero, zero, result)


def unary(builder: ir.IRBuilder, kind: str, scalar: ScalarType, operand: ir.Value) -> ir.Value:
    """Emit ``arith.neg``, ``arith.not`` or ``arith.conj``."""
    if kind == "not":
        return builder.not_(operand)
    if scalar.is_float:
        return target_of(builder).negate(builder, operand)
    if scalar.is_complex:
        return (complex_numbers.conjugate if kind == "conj" else complex_numbers.negate)(builder, operand)
    return builder.sub(constant(operand.type, 0), operand)


def compare(builder: ir.IRBuilder, kind: str, scalar: ScalarType, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """Emit ``cmp.<kind>``; a NaN differs from everything and is ordered with nothing."""
    if scalar.is_complex:
        return complex_numbers.compare(builder, kind, lhs, rhs)
    predicate = _PREDICATES[kind]
    if scalar.is_float:
        return (builder.fcmp_unordered if kind == "ne" else builder.fcmp_ordered)(predicate, lhs, rhs)
    return (builder.icmp_signed if scalar.kind == "signed" else builder.icmp_unsigned)(predicate, lhs, rhs)


def convert(builder: ir.IRBuilder, source: ScalarType, target: ScalarType, value: ir.Value) -> ir.Value:
    """Emit ``cast``: C's conversion, and "differs from zero" for i1."""
    source = source.in_registers
    if source == target:
        return value
    if target.is_complex:
        return _to_complex(builder, source, target, value)
    if target in NARROW:
        if source == F64:
            return from_double(builder, target, value)
        # Integers that f32 rounds are beyond f16, or round through f32 as in the interpreter.
        return rounded(builder, target, convert(builder, source, F32, value))
    if source in NARROW:
        source = F32
        if target == F32:
            return value
    type_ = vector_of(value_type(target), lanes(value.type))
    if target.is_boolean:
        return compare(builder, "ne", source, value, constant(value.type, 0))
    if source.is_float:
        if target.is_float:
            return (builder.fptrunc if target.bits < source.bits else builder.fpext)(value, type_)
        return (builder.fptosi if target.kind == "signed" else builder.fptoui)(value, type_)
    if target.is_float:
        return (builder.sitofp if source.kind == "signed" else builder.uitofp)(value, type_)
    if target.bits <= source.bits:
        return value if target.bits == source.bits else builder.trunc(value, type_)
    if source.is_boolean:
        return builder.zext(value, type_)
    return target_of(builder).extend(builder, value, type_, source.kind == "signed")


def _to_complex(builder: ir.IRBuilder, source: ScalarType, target: ScalarType, value: ir.Value) -> ir.Value:
    if not source.is_complex:
        return complex_numbers.from_real(builder, convert(builder, source, target.part, value))
    cast = builder.fptrunc if target.bits < source.bits else builder.fpext
    return cast(value, vector_of(value_type(target), lanes(value.type)))


def reinterpret(builder: ir.IRBuilder, source: ScalarType, target: ScalarType, value: ir.Value) -> ir.Value:
    """Emit ``bitcast``, between an integer and a float of its size."""
    if source in NARROW:
        value = narrowed(builder, source, value)
    width = lanes(value.type)
    if target in NARROW:
        return widened(builder, target, builder.bitcast(value, vector_of(storage_type(target), width)))
    return builder.bitcast(value, vector_of(value_type(target), width))


def is_in_range(builder: ir.IRBuilder, source: ScalarType, target: ScalarType, value: ir.Value) -> ir.Value:
    """Emit whether a float is in the range of an integer type once it is truncated; a NaN is not."""
    # Where a float cannot hold minimum − 1, none lies between that and the minimum.
    least, end = target.minimum - 1, constant(value.type, float(target.maximum + 1))
    is_exact = abs(least).bit_length() <= (F32 if source in NARROW else source).mantissa
    predicate, least = (">", least) if is_exact else (">=", target.minimum)
    is_above = builder.fcmp_ordered(predicate, value, constant(value.type, float(least)))
    return builder.and_(is_above, builder.fcmp_ordered("<", value, end))


def fused_multiply_add(
    builder: ir.IRBuilder, scalar: ScalarType, a: ir.Value, b: ir.Value, c: ir.Value
) -> ir.Value:
    """Emit a · b + c; with one rounding for floats.

    One factor of complex numbers may be one of both parts (`complex_numbers.to_both_parts`).
    """
    if scalar.is_complex:
        return complex_numbers.multiply_add(builder, scalar.part, a, b, c)
    if not scalar.is_float:
        return builder.add(builder.mul(a, b), c)
    return _function(builder, "fma", scalar, (a, b, c))


def mathematics(builder: ir.IRBuilder, kind: str, scalar: ScalarType, arguments: list[ir.Value]) -> ir.Value:
    """Emit ``math.<kind>`` on scalars."""
    if scalar.is_float:
        return _function(builder, kind, scalar, arguments)
    first = arguments[0]
    if kind == "abs":
        if scalar.kind == "unsigned":
            return first
        negative = compare(builder, "lt", scalar, first, constant(first.type, 0))
        return builder.select(negative, unary(builder, "neg", scalar, first), first)
    if kind in ("min", "max"):
        keep = compare(builder, "lt" if kind == "min" else "gt", scalar, first, arguments[1])
        return builder.select(keep, first, arguments[1])
    raise UnsupportedError(f"math.{kind} is not defined for {scalar}")
