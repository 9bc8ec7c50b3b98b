"""What dpnp computes of complex numbers, written part by part.

The language follows the definition of a product and Smith's quotient, as NumPy does; dpnp's compiler recovers the
infinities that these lose to NaN: ISO C, annex G.5.1.  Exponentials have the special values of its annex G.6.3.1.
There are no branches, so that loops run as vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tl_dpnp.graph.scalars import constant, select
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Constant, Operand, Value
from tl_dpnp.scalars import ScalarType

__all__ = [
    "absolute", "angle", "conjugate", "divide", "divide_parts", "exponential", "imaginary", "is_finite", "is_infinite",
    "is_nan", "multiply", "real", "square",
]

Parts = tuple[Value, Value]


def real(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the real part of a number of any type."""
    return _parts(b, type, x[0])[0] if type.is_complex else x[0]


def imaginary(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the imaginary part of a complex number."""
    return _parts(b, type, x[0])[1]


def conjugate(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the conjugate of a number of any type."""
    return b.conj(x[0], type=type) if type.is_complex else x[0]


def absolute(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the absolute value, which is infinite if a part is, even beside NaN."""
    p, q = _parts(b, type, x[0])
    return b.math("hypot", p, q, type=type.part)


def angle(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write the argument, between −π and π."""
    p, q = _parts(b, type, x[0])
    return b.math("atan2", q, p, type=type.part)


def is_nan(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write whether a part is NaN."""
    return _or(b, *(_part_is_nan(b, part) for part in _parts(b, type, x[0])))


def is_infinite(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write whether a part is infinite."""
    return _or(b, *(_part_is_infinite(b, part) for part in _parts(b, type, x[0])))


def is_finite(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write whether both parts are finite."""
    p, q = (b.cmp("lt", b.math("abs", part), math.inf) for part in _parts(b, type, x[0]))
    return _and(b, p, q)


def multiply(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] * x[1]``; a product of which both parts are NaN is infinite where annex G says so."""
    part = type.part
    (p, q), (r, s) = (_parts(b, type, value) for value in x)
    terms = [b.mul(p, r), b.mul(q, s), b.mul(p, s), b.mul(q, r)]
    parts = b.sub(terms[0], terms[1]), b.add(terms[2], terms[3])
    is_infinite = [_or(b, *(_part_is_infinite(b, value) for value in pair)) for pair in ((p, q), (r, s))]
    is_endless = _or(b, *is_infinite, *(_part_is_infinite(b, term) for term in terms))
    p, q, r, s = (select(b, part, condition, _boxed(b, part, value), _without_nan(b, part, value))
                  for condition, pair in zip(is_infinite, ((p, q), (r, s)), strict=True) for value in pair)
    endless = b.mul(math.inf, b.sub(b.mul(p, r), b.mul(q, s))), b.mul(math.inf, b.add(b.mul(p, s), b.mul(q, r)))
    is_lost = _and(b, _are_nan(b, parts), is_endless)
    return _complex(b, type, [select(b, part, is_lost, *pair) for pair in zip(endless, parts, strict=True)])


def square(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] * x[0]``."""
    return multiply(b, type, [x[0], x[0]])


def divide(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] / x[1]``, with the divisor scaled by its larger part, so that its square does not overflow."""
    part = type.part
    (p, q), (r, s) = (_parts(b, type, value) for value in x)
    larger, smaller = (b.math("abs", value, type=part) for value in (r, s))
    scale = b.math("max", larger, smaller)
    c, d = b.div(r, scale), b.div(s, scale)
    length = b.add(b.mul(c, c), b.mul(d, d))
    over_real, over_imaginary = _over(b, p, q, c, d)
    parts = [b.div(b.div(value, length), scale) for value in (over_real, over_imaginary)]
    is_lost = _are_nan(b, parts)
    endless = b.math("copysign", math.inf, r, type=part)
    first, second = (_or(b, *(_part_is_infinite(b, value) for value in pair)) for pair in ((p, q), (r, s)))
    # What is recovered wrongly is NaN as well: for a NaN in the divisor, or infinities in both numbers.
    for condition, recovered in (
        (second, [b.mul(0, value) for value in _over(b, p, q, _boxed(b, part, r), _boxed(b, part, s))]),
        (first, [b.mul(math.inf, value) for value in _over(b, _boxed(b, part, p), _boxed(b, part, q), c, d)]),
        (_and(b, *(b.cmp("eq", value, 0, type=part) for value in (r, s))), [b.mul(endless, p), b.mul(endless, q)]),
    ):
        is_recovered = _and(b, is_lost, condition)
        parts = [select(b, part, is_recovered, *pair) for pair in zip(recovered, parts, strict=True)]
    return _complex(b, type, parts)


def divide_parts(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``x[0] / x[1]`` for a divisor that is real."""
    divisor = _parts(b, type, x[1])[0]
    return _complex(b, type, [b.div(value, divisor) for value in _parts(b, type, x[0])])


#: The exponent from which on an exponential may overflow though its parts do not, by the bits of a part.
_LARGE = {32: 88.0, 64: 709.0}


def exponential(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    """Write ``exp(p) cos(q) + i exp(p) sin(q)``; of a large exponent, a part is another factor."""
    part = type.part
    p, q = _parts(b, type, x[0])
    limit = _LARGE[part.bits]
    is_large = _and(b, b.cmp("gt", p, limit, type=part), b.cmp("lt", p, math.inf, type=part))
    size = b.math("exp", select(b, part, is_large, b.sub(p, limit), p), type=part)
    more = select(b, part, is_large, constant(b, math.exp(limit), part), constant(b, 1.0, part))
    is_endless = b.cmp("ne", b.sub(q, q), 0, type=part)  # of infinity and NaN there is no direction
    without = _and(b, is_endless, b.cmp("eq", p, -math.inf, type=part))
    only_large = _and(b, is_endless, b.cmp("eq", p, math.inf, type=part))
    parts = [b.mul(b.mul(size, b.math(name, q, type=part)), more) for name in ("cos", "sin")]
    zero = constant(b, 0.0, part)
    first = select(b, part, only_large, p, select(b, part, without, zero, parts[0]))
    second = select(b, part, b.cmp("eq", q, 0, type=part), q, select(b, part, without, zero, parts[1]))
    return b.cmplx(first, second, type)


def _over(b: FunctionBuilder, p: Value, q: Value, r: Value, s: Value) -> Parts:
    """Write the parts of ``(p + q i) (r − s i)``."""
    return b.add(b.mul(p, r), b.mul(q, s)), b.sub(b.mul(q, r), b.mul(p, s))


def _parts(b: FunctionBuilder, type: ScalarType, value: Operand) -> Parts:
    """Write the parts of a number of a complex type; those of a constant are constants."""
    if isinstance(value, Constant):
        number = complex(value.value)
        return constant(b, number.real, type.part), constant(b, number.imag, type.part)
    return b.re(value), b.im(value)


def _complex(b: FunctionBuilder, type: ScalarType, parts: Sequence[Value]) -> Value:
    first, second = parts
    return b.cmplx(first, second, type)


def _and(b: FunctionBuilder, one: Value, other: Value) -> Value:
    return b.arith("and", one, other)


def _or(b: FunctionBuilder, first: Value, *others: Value) -> Value:
    for other in others:
        first = b.arith("or", first, other)
    return first


def _are_nan(b: FunctionBuilder, parts: Sequence[Value]) -> Value:
    return _and(b, _part_is_nan(b, parts[0]), _part_is_nan(b, parts[1]))


def _part_is_nan(b: FunctionBuilder, value: Value) -> Value:
    return b.cmp("ne", value, value)


def _part_is_infinite(b: FunctionBuilder, value: Value) -> Value:
    return b.cmp("eq", b.math("abs", value), math.inf)


def _boxed(b: FunctionBuilder, part: ScalarType, value: Value) -> Value:
    """Write 1 for infinity and 0 for all else, with the sign of the value."""
    one = select(b, part, _part_is_infinite(b, value), constant(b, 1.0, part), constant(b, 0.0, part))
    return b.math("copysign", one, value)


def _without_nan(b: FunctionBuilder, part: ScalarType, value: Value) -> Value:
    zero = b.math("copysign", constant(b, 0.0, part), value)
    return select(b, part, _part_is_nan(b, value), zero, value)
