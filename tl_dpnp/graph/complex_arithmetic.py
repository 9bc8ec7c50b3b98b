"""How dpnp multiplies and divides complex numbers, where infinities are not lost to NaN: ISO C, annex G.5.1.

The language follows the definition of a product and Smith's quotient, as NumPy does; dpnp's compiler follows annex G.
"""

from __future__ import annotations

import math

from tl_dpnp.graph.scalars import constant, select
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Constant, Value
from tl_dpnp.scalars import ScalarType

__all__ = ["conjugate", "divide", "divide_parts", "imaginary", "multiply", "real"]


def real(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the real part of a number of any type."""
    return _parts(b, x[0])[0] if type.is_complex else x[0]


def imaginary(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the imaginary part of a complex number."""
    return _parts(b, x[0])[1]


def conjugate(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the conjugate of a number of any type."""
    return b.conj(x[0], type=type) if type.is_complex else x[0]


def multiply(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] * x[1]``; a product of which both parts are NaN is infinite where annex G says so."""
    part = type.part
    (p, q), (r, s) = (_parts(b, value) for value in x)
    terms = [b.mul(p, r), b.mul(q, s), b.mul(p, s), b.mul(q, r)]
    parts = b.sub(terms[0], terms[1]), b.add(terms[2], terms[3])
    with b.if_(_and(b, *(_is_nan(b, value) for value in parts)), part, part) as branch:
        is_infinite = [_or(b, *(_is_infinite(b, value) for value in pair)) for pair in ((p, q), (r, s))]
        is_endless = _or(b, *is_infinite, *(_is_infinite(b, term) for term in terms))
        p, q, r, s = (select(b, part, condition, _boxed(b, value), _without_nan(b, value))
                      for condition, pair in zip(is_infinite, ((p, q), (r, s)), strict=True) for value in pair)
        endless = b.mul(math.inf, b.sub(b.mul(p, r), b.mul(q, s))), b.mul(math.inf, b.add(b.mul(p, s), b.mul(q, r)))
        b.yield_(*(select(b, part, is_endless, *pair) for pair in zip(endless, parts, strict=True)))
    with b.else_():
        b.yield_(*parts)
    return b.cmplx(*branch.results, type)


def divide(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] / x[1]``, with the divisor scaled by its larger part, so that its square does not overflow."""
    part = type.part
    (p, q), (r, s) = (_parts(b, value) for value in x)
    scale = b.math("max", *(b.math("abs", value, type=part) for value in (r, s)))
    c, d = b.div(r, scale), b.div(s, scale)
    square = b.add(b.mul(c, c), b.mul(d, d))
    parts = [b.div(b.div(numerator, square), scale) for numerator in _over(b, p, q, c, d)]
    with b.if_(_and(b, *(_is_nan(b, value) for value in parts)), part, part) as branch:
        is_zero = _and(b, *(b.cmp("eq", value, 0, type=part) for value in (r, s)))
        endless = b.math("copysign", math.inf, r, type=part)
        first, second = (_or(b, *(_is_infinite(b, value) for value in pair)) for pair in ((p, q), (r, s)))
        found = zip(
            (b.mul(endless, p), b.mul(endless, q)),
            (b.mul(math.inf, value) for value in _over(b, _boxed(b, p), _boxed(b, q), c, d)),
            (b.mul(0, value) for value in _over(b, p, q, _boxed(b, r), _boxed(b, s))),
            parts, strict=True)
        # What is selected wrongly below is NaN as well: a NaN in the divisor, or infinities in both numbers.
        b.yield_(*(
            select(b, part, is_zero, by_zero, select(b, part, first, infinite, select(b, part, second, none, nan)))
            for by_zero, infinite, none, nan in found))
    with b.else_():
        b.yield_(*parts)
    return b.cmplx(*branch.results, type)


def divide_parts(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] / x[1]`` for a divisor that is real."""
    divisor = _parts(b, x[1])[0]
    return b.cmplx(*(b.div(value, divisor) for value in _parts(b, x[0])), type)


def _over(b: FunctionBuilder, p: Value, q: Value, r: Value, s: Value) -> tuple[Value, Value]:
    """Write the parts of ``(p + q i) (r − s i)``."""
    return b.add(b.mul(p, r), b.mul(q, s)), b.sub(b.mul(q, r), b.mul(p, s))


def _parts(b: FunctionBuilder, value: Value) -> tuple[Value, Value]:
    if isinstance(value, Constant):
        number = complex(value.value)
        return constant(b, number.real, value.type.part), constant(b, number.imag, value.type.part)
    return b.re(value), b.im(value)


def _and(b: FunctionBuilder, one: Value, other: Value) -> Value:
    return b.arith("and", one, other)


def _or(b: FunctionBuilder, first: Value, *others: Value) -> Value:
    for other in others:
        first = b.arith("or", first, other)
    return first


def _is_nan(b: FunctionBuilder, value: Value) -> Value:
    return b.cmp("ne", value, value)


def _is_infinite(b: FunctionBuilder, value: Value) -> Value:
    return b.cmp("eq", b.math("abs", value), math.inf)


def _boxed(b: FunctionBuilder, value: Value) -> Value:
    """Write 1 for infinity and 0 for all else, with the sign of the value."""
    one = select(b, value.type, _is_infinite(b, value), constant(b, 1.0, value.type), constant(b, 0.0, value.type))
    return b.math("copysign", one, value)


def _without_nan(b: FunctionBuilder, value: Value) -> Value:
    zero = b.math("copysign", constant(b, 0.0, value.type), value)
    return select(b, value.type, _is_nan(b, value), zero, value)
