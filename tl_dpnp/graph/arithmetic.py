"""Division with remainder, shifts, powers and sums of exponentials of scalar values, where the language has none.

The rules are those of dpnp 0.15, that is of its SYCL kernels.  Integers divide towards minus infinity, and anything
divided by zero is zero.  Floats divide as ``floor(x / y)``.  Powers follow C's ``pow``.  A shift by all bits of a type
or more leaves the sign, one by less than none nothing.
"""

from __future__ import annotations

from tl_dpnp.graph.scalars import constant, converted, select
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Value
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

__all__ = ["floor_divide", "left_shift", "log_add_exp", "power", "remainder", "right_shift"]

_I32, _F64 = SCALAR_TYPES["i32"], SCALAR_TYPES["f64"]
#: Powers with exponents up to 2 to this power are products, as exact as these.
_PRODUCTS = 6


def floor_divide(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] // x[1]``."""
    dividend, divisor = x
    if type.is_float:
        return b.math("floor", b.div(dividend, divisor))
    quotient, rest = _divided(b, type, dividend, divisor)
    if type.kind != "unsigned":
        below = b.arith("and", b.cmp("ne", rest, 0), _differ_in_sign(b, rest, divisor))
        quotient = b.sub(quotient, b.cast(below, type))
    return select(b, type, b.cmp("eq", divisor, 0), constant(b, 0, type), quotient)


def remainder(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] % x[1]``, which has the sign of the divisor."""
    dividend, divisor = x
    zero = constant(b, 0, type)
    if type.is_float:
        rest = b.rem(dividend, divisor)
        moved = select(b, type, _differ_in_sign(b, rest, divisor), b.add(rest, divisor), rest)
        signed = select(b, type, _is_negative(b, type, divisor), b.neg(zero), zero)
        return select(b, type, b.cmp("eq", rest, 0), signed, moved)
    _, rest = _divided(b, type, dividend, divisor)
    if type.kind != "unsigned":
        below = b.arith("and", b.cmp("ne", rest, 0), _differ_in_sign(b, rest, divisor))
        rest = select(b, type, below, b.add(rest, divisor), rest)
    return select(b, type, b.cmp("eq", divisor, 0), zero, rest)


def _divided(b: FunctionBuilder, type: ScalarType, dividend: Value, divisor: Value) -> tuple[Value, Value]:
    """Return quotient and remainder of integers, rounded towards zero; no divisor makes the division fail."""
    one = constant(b, 1, type)
    if type.kind == "unsigned":
        safe = select(b, type, b.cmp("eq", divisor, 0), one, divisor)
        return b.div(dividend, safe), b.rem(dividend, safe)
    negates = b.cmp("eq", divisor, -1)  # the least integer has no opposite, and processors trap
    safe = select(b, type, b.arith("or", negates, b.cmp("eq", divisor, 0)), one, divisor)
    quotient = select(b, type, negates, b.neg(dividend), b.div(dividend, safe))
    return quotient, b.rem(dividend, safe)


def _differ_in_sign(b: FunctionBuilder, x: Value, y: Value) -> Value:
    return b.arith("xor", b.cmp("lt", x, 0), b.cmp("lt", y, 0))


def _is_negative(b: FunctionBuilder, type: ScalarType, x: Value) -> Value:
    """Return whether a float is below zero, or the zero with a minus."""
    return b.cmp("lt", b.math("copysign", constant(b, 1.0, type), x), 0)


def left_shift(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] << x[1]``."""
    return _shifted(b, "shl", type, x, constant(b, 0, type))


def right_shift(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] >> x[1]``."""
    result = zero = constant(b, 0, type)
    if type.kind == "signed":
        result = select(b, type, b.cmp("ge", x[1], 0), b.arith("shr", x[0], type.bits - 1), zero)
    return _shifted(b, "shr", type, x, result)


def _shifted(b: FunctionBuilder, kind: str, type: ScalarType, x: list[Value], beyond: Value) -> Value:
    value, count = x
    within = b.arith("and", b.cmp("ge", count, 0), b.cmp("lt", count, type.bits))
    safe = select(b, type, within, count, constant(b, 0, type))
    return select(b, type, within, b.arith(kind, value, safe), beyond)


def log_add_exp(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``log(exp(x[0]) + exp(x[1]))``, relative to the larger one."""
    larger, smaller = (select(b, type, b.cmp("gt", x[0], x[1]), *pair) for pair in (x, x[::-1]))
    distance = select(b, type, b.cmp("eq", x[0], x[1]), constant(b, 0.0, type), b.sub(smaller, larger))
    return b.add(larger, b.math("log1p", b.math("exp", distance)))


def power(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] ** x[1]`` of floats, computed in f64: exactly where a small whole exponent gives an exact result."""
    base, exponent = (converted(b, value, _F64) for value in x)
    size, whole = b.math("abs", base), b.math("trunc", exponent)
    one, zero = constant(b, 1.0, _F64), constant(b, 0.0, _F64)

    near = b.cmp("le", b.math("abs", exponent), float(1 << _PRODUCTS))
    count = select(b, _F64, near, whole, zero)
    rest = b.sub(exponent, count)
    product = _repeated(b, size, b.cast(b.math("abs", count), _I32))
    product = select(b, _F64, b.cmp("lt", count, 0.0), b.div(one, product), product)
    factor = select(b, _F64, b.cmp("eq", rest, 0.0), one, b.math("exp", b.mul(rest, b.math("log", size))))
    result = b.mul(product, factor)

    is_whole = b.cmp("eq", whole, exponent)
    halved = b.math("trunc", b.mul(exponent, 0.5))
    odd = b.arith("and", is_whole, b.cmp("ne", b.add(halved, halved), exponent))
    result = select(b, _F64, b.arith("and", odd, _is_negative(b, _F64, base)), b.neg(result), result)
    below = b.arith("and", b.cmp("lt", base, 0.0), b.cmp("gt", base, float("-inf")))
    undefined = b.arith("and", below, b.arith("xor", is_whole, b.cmp("eq", exponent, exponent)))
    result = select(b, _F64, undefined, constant(b, float("nan"), _F64), result)
    endless = b.cmp("eq", b.math("abs", exponent), float("inf"))
    unit = b.arith("or", b.cmp("eq", base, 1.0), b.arith("and", b.cmp("eq", size, 1.0), endless))
    return converted(b, select(b, _F64, unit, one, result), type)


def _repeated(b: FunctionBuilder, x: Value, count: Value) -> Value:
    """Return the product of `count` times `x`, by squaring."""
    product = constant(b, 1.0, _F64)
    for bit in range(_PRODUCTS + 1):
        used = b.cmp("ne", b.arith("and", count, 1 << bit), 0)
        product = select(b, _F64, used, b.mul(product, x), product)
        x = b.mul(x, x)
    return product
