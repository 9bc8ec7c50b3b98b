"""Division with remainder and powers of scalar values in generated functions, where the language has neither.

The rules are those of dpnp 0.15, that is of its SYCL kernels.  Integers divide towards minus infinity, and anything
divided by zero is zero.  Floats divide as ``floor(x / y)``.  Powers follow C's ``pow``.
"""

from __future__ import annotations

from tl_dpnp.graph.scalars import constant, converted, select
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Value
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

__all__ = ["floor_divide", "power", "remainder"]

_I32, _I64, _F64 = (SCALAR_TYPES[name] for name in ("i32", "i64", "f64"))
#: Bits of the significand by the width of a type, the first one included: from 2 to that power on all floats are whole.
_PRECISION = {16: 11, 32: 24, 64: 53}
#: Powers with exponents up to 2 to this power are products, as exact as these.
_PRODUCTS = 6


def floor_divide(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] // x[1]``."""
    dividend, divisor = x
    if type.is_float:
        return _floor(b, type, b.div(dividend, divisor))
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
    behind = b.cmp("lt", b.div(constant(b, 1, type), x), 0)
    return b.arith("or", b.cmp("lt", x, 0), b.arith("and", b.cmp("eq", x, 0), behind))


def _truncated(b: FunctionBuilder, type: ScalarType, x: Value) -> Value:
    """Return a float without its fraction."""
    whole = converted(b, b.cast(x, _I64 if type.bits == 64 else _I32), type)
    small = b.cmp("lt", b.math("abs", x), constant(b, float(1 << _PRECISION[type.bits]), type))
    return select(b, type, small, whole, x)


def _floor(b: FunctionBuilder, type: ScalarType, x: Value) -> Value:
    whole = _truncated(b, type, x)
    lower = select(b, type, b.cmp("gt", whole, x), b.sub(whole, 1), whole)
    return select(b, type, b.cmp("eq", whole, x), x, lower)  # zeros keep their sign


def power(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] ** x[1]`` of floats, computed in f64: exactly where a small whole exponent gives an exact result."""
    base, exponent = (converted(b, value, _F64) for value in x)
    size, whole = b.math("abs", base), _truncated(b, _F64, exponent)
    one, zero = constant(b, 1.0, _F64), constant(b, 0.0, _F64)

    near = b.cmp("le", b.math("abs", exponent), float(1 << _PRODUCTS))
    count = select(b, _F64, near, whole, zero)
    rest = b.sub(exponent, count)
    product = _repeated(b, size, b.cast(b.math("abs", count), _I32))
    product = select(b, _F64, b.cmp("lt", count, 0.0), b.div(one, product), product)
    factor = select(b, _F64, b.cmp("eq", rest, 0.0), one, b.math("exp", b.mul(rest, b.math("log", size))))
    result = b.mul(product, factor)

    is_whole = b.cmp("eq", whole, exponent)
    halved = _truncated(b, _F64, b.mul(exponent, 0.5))
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
