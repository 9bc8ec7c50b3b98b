"""Scalar arguments: which Python and NumPy values a parameter takes, and how they travel to the device."""

from __future__ import annotations

import ctypes
import math
import sys
from typing import Any

import numpy as np

from tl_dpnp.scalars import BF16, F16, ScalarType, rounded_number

__all__ = ["carrier_of", "carrying_type", "scalar_value", "usual_values"]

#: Scalars that travel as floats, complex numbers as two of them; every other one is a 64-bit integer.
_CARRIERS: dict[str, Any] = {
    "f32": ctypes.c_float, "f64": ctypes.c_double, "c32": ctypes.c_float, "c64": ctypes.c_double,
}
_LARGEST = {"f16": 65504.0, "bf16": float.fromhex("0x1.fep127"), "f32": float.fromhex("0x1.fffffep127")}


def carrier_of(scalar_type: ScalarType) -> Any:
    """Return what makes the ctypes value that carries a scalar, or a part of a complex one, to a kernel.

    Source: `tl_dpnp.lowering.plan`, calling convention.
    """
    if scalar_type in (F16, BF16):
        return lambda value: ctypes.c_float(rounded_number(scalar_type, value))
    return _CARRIERS.get(scalar_type.name, ctypes.c_longlong)


def carrying_type(scalar_type: ScalarType) -> Any:
    """Return the ctypes type of what carries a scalar, or a part of a complex one, to a kernel."""
    return ctypes.c_float if scalar_type in (F16, BF16) else _CARRIERS.get(scalar_type.name, ctypes.c_longlong)


def usual_values(scalar_type: ScalarType) -> tuple[type, Any, Any]:
    """Return a Python type and the range of its values that `scalar_type` takes as they are."""
    if scalar_type.is_float:
        largest = _LARGEST.get(scalar_type.name, sys.float_info.max)
        return float, -largest, largest
    return (bool, False, True) if scalar_type.is_boolean else (int, scalar_type.minimum, scalar_type.maximum)


def scalar_value(scalar_type: ScalarType, argument: Any) -> Any:
    """Return a Python or NumPy scalar as the Python number that `scalar_type` takes.

    Raises `TypeError` for another kind of value and `OverflowError` for one out of range, each with two arguments:
    what is wrong and what to write instead, or None.
    """
    is_boolean = isinstance(argument, bool | np.bool_)
    if scalar_type.is_boolean:
        if not is_boolean:
            raise TypeError(f"takes True or False, it was given {_short(argument)}", "compare it with zero: x != 0")
        return bool(argument)
    if is_boolean:
        raise TypeError(f"takes a number, it was given {argument}", "convert it: int(x)")
    if isinstance(argument, int | np.integer):
        number: Any = int(argument)
    elif isinstance(argument, float | np.floating):
        number = float(argument)
    elif isinstance(argument, complex | np.complexfloating):
        number = complex(argument)
    else:
        raise TypeError(f"takes a Python or NumPy scalar, it was given {_short(argument)}",
                        _instead(scalar_type, argument))
    if scalar_type.is_integer:
        if not isinstance(number, int):
            raise TypeError(f"takes an integer, it was given {_short(argument)}", "round it yourself: int(x)")
        if not scalar_type.minimum <= number <= scalar_type.maximum:
            raise OverflowError(f"takes values from {scalar_type.minimum} to {scalar_type.maximum}, it was given "
                                f"{_short(number)}", None)
        return number
    if scalar_type.is_complex:
        parts = complex(number)
        return complex(_real(scalar_type.part, parts.real), _real(scalar_type.part, parts.imag))
    if isinstance(number, complex):
        raise TypeError(f"takes a real number, it was given {_short(argument)}", "take its real part: x.real")
    return _real(scalar_type, number)


def _instead(scalar_type: ScalarType, argument: Any) -> str:
    """Return what to write instead of something that is no scalar."""
    if not hasattr(argument, "shape"):
        return "pass a Python or NumPy scalar"
    if getattr(argument, "size", 0) != 1:
        return "is it exchanged with another one? Arguments may be given by name"
    # Not item(), which gives an array for those of dpnp 0.15.
    kind = "int" if scalar_type.is_integer else "complex" if scalar_type.is_complex else "float"
    return f"take its value: {kind}(x)"


def _real(scalar_type: ScalarType, number: int | float) -> float:
    largest = _LARGEST.get(scalar_type.name, sys.float_info.max)
    # Infinity is a value that was asked for; a number that would become infinite is not.
    if abs(number) > largest and not (isinstance(number, float) and math.isinf(number)):
        raise OverflowError(f"cannot hold {_short(number)}", None)
    return float(number)


def _short(argument: Any) -> str:
    if isinstance(argument, int) and argument.bit_length() > 128:
        return f"an integer of {argument.bit_length()} bits"  # Python refuses to print very long ones
    text = repr(argument)
    return f"{text if len(text) <= 40 else text[:37] + '...'} of type {type(argument).__name__}"
