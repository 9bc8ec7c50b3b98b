"""Constants of the tensor language: what a literal is worth in a type, and how a value is written.

`convert` and `format_constant` are inverse to each other: the text of a constant converts back to the same value,
bit for bit (of NaNs there is one).  A constant of c32 or c64 is written ``[re, im]`` (an extension); a real literal
is accepted for a complex type as well.

Source: tensor language reference, section "Constants".
"""

from __future__ import annotations

import math

from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.scalars import C32, C64, F32, F64, ScalarType

__all__ = ["LARGEST_INTEGER", "convert", "format_constant", "largest_float", "parse_float", "parse_integer", "round_to"]

#: Integer constants, sizes, strides and offsets lie in ±`LARGEST_INTEGER`.
LARGEST_INTEGER = 2**63 - 1
_LARGEST_DIGITS = len(str(LARGEST_INTEGER))
#: Integers of more bits, which programs that build operations may give, are not written out.
_MOST_BITS = 128


def parse_integer(text: str) -> int:
    """Return the value of an integer literal.

    Raises `RuleError` outside −(2⁶³ − 1) … 2⁶³ − 1.
    """
    digits = text.lstrip("+-").lstrip("0") or "0"
    value = int(digits) if len(digits) <= _LARGEST_DIGITS else LARGEST_INTEGER + 1
    if value > LARGEST_INTEGER:
        raise RuleError(f"the integer {_shorten(text)} is out of range", f"write a value within ±{LARGEST_INTEGER}")
    return -value if text.startswith("-") else value


def parse_float(text: str) -> float:
    """Return the value of a decimal or hexadecimal floating-point literal, ``inf`` or ``nan``, in double precision.

    Raises `RuleError` where a finite literal overflows.
    """
    try:
        value = float.fromhex(text) if "0x" in text else float(text)
    except OverflowError:
        value = math.inf
    if math.isinf(value) and not text.endswith("inf"):
        raise RuleError(f"the constant {_shorten(text)} overflows double precision", "write inf if infinity is meant")
    return math.nan if math.isnan(value) else value


def largest_float(scalar: ScalarType) -> float:
    """Return the largest finite value of a real or complex floating-point type (of one part)."""
    return math.ldexp(2.0 - math.ldexp(1.0, 1 - scalar.mantissa), 2 ** (scalar.exponent - 1) - 1)


def round_to(value: float, scalar: ScalarType) -> float:
    """Return `value` rounded to the nearest value of a floating-point type, ties to even; overflow gives infinity."""
    if value == 0.0 or not math.isfinite(value):
        return math.nan if math.isnan(value) else value
    _, exponent = math.frexp(value)
    smallest_normal = 3 - 2 ** (scalar.exponent - 1)  # exponent of the smallest normal number, as frexp counts
    unit = max(exponent, smallest_normal) - scalar.mantissa
    try:
        rounded = math.ldexp(round(math.ldexp(value, -unit)), unit)
    except OverflowError:
        return math.copysign(math.inf, value)
    if abs(rounded) > largest_float(scalar):
        return math.copysign(math.inf, value)
    return math.copysign(rounded, value)


def convert(value: bool | int | float | complex, scalar: ScalarType) -> bool | int | float | complex:
    """Return the value of a literal in the type that its instruction annotates.

    Floats are rounded; everything else must be exact.  Raises `RuleError` where the type has no such value.
    """
    match scalar.kind:
        case "boolean":
            return _to_boolean(value)
        case "signed" | "unsigned":
            return _to_integer(value, scalar)
        case "float":
            return _to_float(value, scalar)
    if isinstance(value, complex):
        return complex(_to_float(value.real, scalar), _to_float(value.imag, scalar))
    return complex(_to_float(value, scalar), 0.0)


def _to_boolean(value: bool | int | float | complex) -> bool:
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    raise RuleError(f"{_literal(value)} is no value of i1", "write true or false")


def _to_integer(value: bool | int | float | complex, scalar: ScalarType) -> int:
    if isinstance(value, bool):
        raise RuleError(f"{_literal(value)} is no value of {scalar}", f"write {int(value)}, or use the type i1")
    if isinstance(value, complex) or (isinstance(value, float) and not value.is_integer()):
        others = "c32 or c64" if isinstance(value, complex) else "a floating-point type"
        raise RuleError(
            f"{_literal(value)} is no value of {scalar}", f"write an integer, or use {others} instead of {scalar}"
        )
    smallest, largest = max(scalar.minimum, -LARGEST_INTEGER), min(scalar.maximum, LARGEST_INTEGER)
    if not smallest <= value <= largest:
        raise RuleError(
            f"the constant {_literal(value)} is out of range of {scalar}", f"{scalar} holds {smallest} to {largest}"
        )
    return int(value)


def _to_float(value: bool | int | float | complex, scalar: ScalarType) -> float:
    if isinstance(value, bool):
        raise RuleError(f"{_literal(value)} is no value of {scalar}", f"write {int(value)}.0, or use the type i1")
    if isinstance(value, complex):
        raise RuleError(f"the complex constant {_literal(value)} is no value of {scalar}", "use the type c32 or c64")
    try:
        rounded = round_to(float(value), scalar)
    except OverflowError:  # an integer that is larger than any float
        rounded = math.inf
    if math.isinf(rounded) and not (isinstance(value, float) and math.isinf(value)):
        raise RuleError(
            f"the constant {_literal(value)} is out of range of {scalar}",
            f"the largest value of {scalar} is {format_constant(largest_float(scalar), scalar)}",
        )
    return rounded


def _literal(value: bool | int | float | complex) -> str:
    """Return how a value of no particular type is written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= _MOST_BITS else f"of {value.bit_length()} bits"
    return format_constant(value, C64 if isinstance(value, complex) else F64)


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


def format_constant(value: bool | int | float | complex, scalar: ScalarType) -> str:
    """Return the text of a constant of a type: the shortest that converts back to the same value."""
    if isinstance(value, complex):
        part = F32 if scalar == C32 else F64
        return f"[{_format_float(value.real, part)}, {_format_float(value.imag, part)}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return _format_float(value, scalar)


def _format_float(value: float, scalar: ScalarType) -> str:
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    text = repr(value)
    if scalar != F64:
        candidates = (f"{value:.{digits}g}" for digits in range(1, 18))
        text = next((text for text in candidates if round_to(float(text), scalar) == value), text)
    return text if "." in text or "e" in text else f"{text}.0"
