"""Complex numbers: pairs of floats, side by side in memory and in vectors, the real part of each in front.

A value of n lanes is a vector of 2 n floats (`PairsType`).  Sums, differences and factors that are real then need no
shuffle, and a product takes three.  Products follow the definition, without the recovery of infinities that C's Annex G
describes; quotients are Smith's (Communications of the ACM 5, 1962, algorithm 116), which do not overflow in between.
Both are what NumPy computes, and so the interpreter.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.llvm import PairsType, constant, get_lane, lanes, numbers_of, select, shuffle, splat
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.scalars import ScalarType

__all__ = ["compare", "complex_of", "conjugate", "divide", "from_real", "multiply", "multiply_add", "negate", "part_of",
           "times_i", "to_both_parts"]


def complex_of(builder: ir.IRBuilder, real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """Return the numbers with these parts, which are floats or vectors of them."""
    count = lanes(real.type)
    if count == 1:
        real, imaginary = splat(builder, real, 2), splat(builder, imaginary, 2)
    both = shuffle(builder, real, [imaginary], [side + lane for lane in range(count) for side in (0, max(2, count))])
    return _pairs(builder, both)


def from_real(builder: ir.IRBuilder, real: ir.Value) -> ir.Value:
    """Return floats as complex numbers, whose imaginary part is 0."""
    return complex_of(builder, real, constant(real.type, 0.0))


def part_of(builder: ir.IRBuilder, value: ir.Value, part: int) -> ir.Value:
    """Return the real (0) or the imaginary part (1) of complex numbers."""
    numbers, count = numbers_of(builder, value), lanes(value.type)
    if count == 1:
        return get_lane(builder, numbers, part)
    return shuffle(builder, numbers, [], [2 * lane + part for lane in range(count)])


def to_both_parts(builder: ir.IRBuilder, real: ir.Value, width: int) -> ir.Value:
    """Return floats as what multiplies the parts of `width` complex numbers: a plain vector, each number twice.

    They are as many, or a single one for all.
    """
    if lanes(real.type) == 1:
        return splat(builder, real, 2 * width)
    return shuffle(builder, real, [], [lane for lane in range(width) for _ in range(2)])


def negate(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return −value."""
    return _pairs(builder, target_of(builder).negate(builder, numbers_of(builder, value)))


def conjugate(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return re − i im."""
    numbers = numbers_of(builder, value)
    return _pairs(builder, _alternating(builder, numbers, target_of(builder).negate(builder, numbers)))


def times_i(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return i · value: −im + i re, exactly."""
    swapped = _swapped(builder, numbers_of(builder, value))
    return _pairs(builder, _alternating(builder, target_of(builder).negate(builder, swapped), swapped))


def multiply(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return a · b; one of them may be a factor of both parts (`to_both_parts`)."""
    x, y = numbers_of(builder, a), numbers_of(builder, b)
    if not (isinstance(a.type, PairsType) and isinstance(b.type, PairsType)):
        return _pairs(builder, builder.fmul(x, y))
    first = builder.fmul(x, _parts_twice(builder, y, 0))
    second = builder.fmul(_swapped(builder, x), _parts_twice(builder, y, 1))
    return _pairs(builder, _alternating(builder, builder.fsub(first, second), builder.fadd(first, second)))


def multiply_add(builder: ir.IRBuilder, part: ScalarType, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Return a · b + c by fused multiply-adds; a or b may be a factor of both parts."""
    x, y, total = (numbers_of(builder, value) for value in (a, b, c))
    if not (isinstance(a.type, PairsType) and isinstance(b.type, PairsType)):
        return _pairs(builder, _fma(builder, part, x, y, total))
    total = _fma(builder, part, x, _parts_twice(builder, y, 0), total)
    turned = numbers_of(builder, times_i(builder, a))
    return _pairs(builder, _fma(builder, part, turned, _parts_twice(builder, y, 1), total))


def divide(builder: ir.IRBuilder, part: ScalarType, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return a / b; a divisor of 0 divides both parts by 0."""
    x, y = numbers_of(builder, a), numbers_of(builder, b)
    real, imaginary = (_parts_twice(builder, y, number) for number in (0, 1))
    sizes = [target_of(builder).mathematics(builder, "abs", part, [value]) for value in (real, imaginary)]
    is_real_larger = builder.fcmp_ordered(">=", *sizes)
    larger, smaller = (select(builder, is_real_larger, *pair) for pair in ((real, imaginary), (imaginary, real)))
    ratio = builder.fdiv(smaller, larger)
    scale = builder.fdiv(constant(larger.type, 1.0), builder.fadd(larger, builder.fmul(smaller, ratio)))
    swapped = _swapped(builder, x)
    first = select(builder, is_real_larger, x, builder.fmul(x, ratio))
    second = select(builder, is_real_larger, builder.fmul(swapped, ratio), swapped)
    quotient = builder.fmul(_alternating(builder, builder.fadd(first, second), builder.fsub(first, second)), scale)
    is_zero = builder.fcmp_ordered("==", builder.fadd(*sizes), constant(real.type, 0.0))
    return _pairs(builder, select(builder, is_zero, builder.fdiv(x, sizes[0]), quotient))


def compare(builder: ir.IRBuilder, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return whether numbers are equal (``eq``), which both parts are then, or not (``ne``)."""
    count, x, y = lanes(a.type), numbers_of(builder, a), numbers_of(builder, b)
    found = builder.fcmp_ordered("==", x, y) if kind == "eq" else builder.fcmp_unordered("!=", x, y)
    if count == 1:
        parts = [get_lane(builder, found, part) for part in (0, 1)]
    else:
        parts = [shuffle(builder, found, [], range(part, 2 * count, 2)) for part in (0, 1)]
    return (builder.and_ if kind == "eq" else builder.or_)(*parts)


# --- vectors of parts ------------------------------------------------------------------------------------------------


def _pairs(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    return builder.bitcast(numbers, PairsType(numbers.type.element, numbers.type.count // 2))


def _swapped(builder: ir.IRBuilder, numbers: ir.Value) -> ir.Value:
    return shuffle(builder, numbers, [], [place ^ 1 for place in range(numbers.type.count)])


def _parts_twice(builder: ir.IRBuilder, numbers: ir.Value, part: int) -> ir.Value:
    """Return the real or the imaginary parts, each in both places of its number."""
    return shuffle(builder, numbers, [], [place & ~1 | part for place in range(numbers.type.count)])


def _alternating(builder: ir.IRBuilder, even: ir.Value, odd: ir.Value) -> ir.Value:
    """Return the places of real parts of one vector, and those of imaginary parts of the other."""
    count = even.type.count
    return shuffle(builder, even, [odd], [place + count * (place & 1) for place in range(count)])


def _fma(builder: ir.IRBuilder, part: ScalarType, *values: ir.Value) -> ir.Value:
    terms: Sequence[ir.Value] = values
    return target_of(builder).mathematics(builder, "fma", part, terms)
