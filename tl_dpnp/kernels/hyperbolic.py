"""The hyperbolic tangent, for scalars and vectors, without branches: what a driver's own would spend on special cases.

With y = 2·|x|, tanh |x| is e / (e + 2) for e = exp y − 1.  y is k·ln 2 + r with |r| ≤ ln 2 / 2, so that e is
2ᵏ·(exp r − 1) + (2ᵏ − 1); where k is 0, that is exp r − 1 itself, whose relative error stays small where y does
(J.-M. Muller, Elementary Functions, 3rd edition, sections 3.2 and 11.2: reduction by Cody and Waite, and expm1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import constant, lanes, vector_of
from tl_dpnp.scalars import F32, F64, ScalarType

__all__ = ["tanh"]


class _Format(NamedTuple):
    """A format of floats: `bits` of a number, `mantissa` of which are stored of it, and what its precision asks for.

    `saturated` is a y from which on the result rounds to 1.  `degree` is that of the Taylor polynomial of exp r − 1:
    what it leaves out is r ^ degree / (degree + 1)! of the result, less than a fifth of its last place.  The upper part
    of ln 2 has `upper_bits` bits, so that its product with k is exact.
    """

    bits: int
    mantissa: int
    saturated: float
    degree: int
    upper_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.mantissa - 2)) - 1

    @property
    def rounding(self) -> float:
        """The number that moves the whole part of a small number into the last bits of a sum with it."""
        return 1.5 * 2.0**self.mantissa

    @property
    def logarithm(self) -> tuple[float, float]:
        """The natural logarithm of 2 in two parts."""
        upper = math.floor(math.ldexp(math.log(2.0), self.upper_bits)) * math.ldexp(1.0, -self.upper_bits)
        return upper, _LOG2_TAIL + (math.log(2.0) - upper)


#: What the f64 next to ln 2 lacks of it (its 54th bit on).
_LOG2_TAIL = 2.3190468138462996e-17
_FORMATS = {F32: _Format(32, 23, 19.0, 8, 18), F64: _Format(64, 52, 39.0, 13, 42)}


def tanh(
    builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value, multiply_add: Callable[..., ir.Value]
) -> ir.Value:
    """Emit the hyperbolic tangent of f32 or f64, within 2.5 units of the last place; NaN stays NaN, −0 is −0.

    `multiply_add(a, b, c)` emits a·b + c with one rounding.
    """
    format_, type_ = _FORMATS[scalar], value.type
    words = vector_of(ir.IntType(format_.bits), lanes(type_))
    sign = builder.and_(builder.bitcast(value, words), constant(words, -(1 << format_.bits - 1)))
    magnitude = builder.bitcast(builder.xor(builder.bitcast(value, words), sign), type_)
    doubled = builder.fadd(magnitude, magnitude)
    saturated = constant(type_, format_.saturated)
    y = builder.select(builder.fcmp_ordered(">", doubled, saturated), saturated, doubled)

    rounding = constant(type_, format_.rounding)
    shifted = multiply_add(y, constant(type_, 1 / math.log(2.0)), rounding)
    k = builder.fsub(rounding, shifted)  # its negative
    upper, lower = (constant(type_, part) for part in format_.logarithm)
    r = multiply_add(k, lower, multiply_add(k, upper, y))

    exponent = builder.add(builder.bitcast(shifted, words), constant(words, format_.bias))
    power = builder.bitcast(builder.shl(exponent, constant(words, format_.mantissa)), type_)
    polynomial = constant(type_, 1 / math.factorial(format_.degree))
    for order in range(format_.degree - 1, 1, -1):
        polynomial = multiply_add(polynomial, r, constant(type_, 1 / math.factorial(order)))
    reduced = multiply_add(builder.fmul(r, r), polynomial, r)
    e = multiply_add(power, reduced, builder.fsub(power, constant(type_, 1.0)))
    result = builder.fdiv(e, builder.fadd(e, constant(type_, 2.0)))
    return builder.bitcast(builder.or_(builder.bitcast(result, words), sign), type_)
