"""Functions of complex numbers, made of functions of their parts: the modulus and powers of e and of 2.

Special values are those of ISO C, annex G.6. A power is the product of its halves, so that neither overflows or loses
digits where the result does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tl_dpnp.language import ops
from tl_dpnp.language.builder import FunctionBuilder
from tl_dpnp.language.instructions.mathematics import Math
from tl_dpnp.scalars import F32, I1, ScalarType

__all__ = ["complex_function"]

_LN2 = 0.693147180559945309417232121458176568
#: ln 2 less the nearest number of a type, which has as many digits again.
_LN2_REST = {24: _LN2 - float(np.float32(_LN2)), 53: 2.3190468138462996e-17}


def complex_function(operation: ops.Operation) -> Callable[[FunctionBuilder, Math], None] | None:
    """Return what builds a function of a complex number of others; None for all other instructions."""
    if isinstance(operation, Math) and any(_is_complex(each) for each in operation.arguments):
        return _BUILT[operation.function]
    return None


def _is_complex(operand: ops.Operand) -> bool:
    return isinstance(operand.type, ScalarType) and operand.type.is_complex


def _parts(b: FunctionBuilder, operation: Math) -> tuple[ops.Value, ops.Value]:
    (number,) = operation.arguments
    whole = ops.scalar_type(number)
    return b.re(number, type=whole), b.im(number, type=whole)


def _modulus(b: FunctionBuilder, operation: Math) -> None:
    b.append(Math(kind="hypot", arguments=_parts(b, operation), result=operation.result))


def _power_of_e(b: FunctionBuilder, operation: Math) -> None:
    real, imaginary = _parts(b, operation)
    _power(b, operation, "exp", real, imaginary, b.math("cos", imaginary), b.math("sin", imaginary))


def _power_of_two(b: FunctionBuilder, operation: Math) -> None:
    """The angle is the imaginary part times ln 2, in twice the digits: the rest turns its cosine and sine."""
    real, imaginary = _parts(b, operation)
    part = ops.scalar_type(imaginary)
    factor = float(np.float32(_LN2)) if part == F32 else _LN2
    angle = b.mul(imaginary, factor)
    rest = b.add(b.math("fma", imaginary, factor, b.neg(angle)), b.mul(imaginary, _LN2_REST[part.mantissa]))
    cosine, sine = b.math("cos", angle), b.math("sin", angle)
    turned = b.math("fma", b.neg(rest), sine, cosine), b.math("fma", rest, cosine, sine)
    _power(b, operation, "exp2", real, imaginary, *turned)


def _power(
    b: FunctionBuilder, operation: Math, function: str, real: ops.Value, imaginary: ops.Value, cosine: ops.Value,
    sine: ops.Value,
) -> None:
    """Build the number of a direction whose modulus is a power with the exponent `real`."""
    part = ops.scalar_type(real)
    half = b.math(function, b.mul(real, 0.5))
    # An infinite modulus in no direction at all is infinity, that of 0 is 0; a real number stays one.
    is_wild = b.arith("not", b.cmp("lt", b.math("abs", imaginary), math.inf))
    is_infinite = b.cmp("eq", b.math("abs", real), math.inf)
    cosine = _chosen(b, b.arith("and", is_wild, is_infinite), 1.0, cosine, part)
    sine = _chosen(b, b.arith("and", is_wild, b.cmp("eq", real, -math.inf)), 0.0, sine, part)
    along, across = (b.mul(b.mul(direction, half), half) for direction in (cosine, sine))
    across = _chosen(b, b.cmp("eq", imaginary, 0.0), imaginary, across, part)
    b.append(ops.Cmplx(real=along, imaginary=across, result=operation.result))


def _chosen(
    b: FunctionBuilder, condition: ops.Value, value: ops.Value | float, otherwise: ops.Value, type: ScalarType
) -> ops.Value:
    assert condition.type == I1
    with b.if_(condition, type) as branch:
        b.yield_(value)
    with b.else_():
        b.yield_(otherwise)
    return branch.results[0]


_BUILT: dict[str, Callable[[FunctionBuilder, Math], None]] = {
    "abs": _modulus, "exp": _power_of_e, "exp2": _power_of_two,
}
