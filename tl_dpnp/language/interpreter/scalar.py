"""Scalar operations, exactly as the language defines them.

A scalar is a NumPy scalar of `compute_dtype` of its type: bf16 is a float32 whose value bf16 holds, all others are
of their storage dtype.  Integers wrap in two's complement.  Source: tensor language reference, sections
"Arithmetic", "Cast" and "Comparison"; the mathematics is this project's extension.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from tl_dpnp.language.interpreter.fault import Fault
from tl_dpnp.scalars import BF16, F16, ScalarType

__all__ = ["Array", "Scalar", "arith", "compare", "compute_dtype", "convert", "decode", "encode", "from_python",
           "is_in_range", "mathematics", "quietly", "reinterpret", "silence", "unary", "unpacked"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: A NumPy scalar; NumPy's own scalar types do not describe arithmetic well enough to say more.
Scalar: TypeAlias = Any
_Function = TypeVar("_Function", bound=Callable[..., Any])
_thread = threading.local()


@contextmanager
def silence() -> Iterator[None]:
    """Keep NumPy from warning of overflows and the like, for all operations inside: setting that takes as long as one.
    """
    before = is_silent()
    with np.errstate(all="ignore"):
        _thread.is_silent = True
        try:
            yield
        finally:
            _thread.is_silent = before


def is_silent() -> bool:
    """Return whether this thread is inside `silence`."""
    return bool(getattr(_thread, "is_silent", False))


def quietly(function: _Function) -> _Function:
    """Make a function one of which NumPy gives no warnings."""
    @functools.wraps(function)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        if is_silent():
            return function(*args, **kwargs)
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return cast(_Function, quiet)


@functools.cache
def compute_dtype(scalar_type: ScalarType) -> np.dtype[Any]:
    """Return the dtype of values of `scalar_type`: float32 for bf16, of 8 bits for integers below, else its storage."""
    return np.dtype("float32" if scalar_type == BF16 else scalar_type.in_registers.storage)


def decode(stored: Any, element: ScalarType) -> Any:
    """Return an array or scalar of storage as one of `compute_dtype`."""
    if element == BF16:
        return (np.asarray(stored).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]
    return stored


def encode(values: Any, element: ScalarType) -> Any:
    """Return an array or scalar of any float or of `compute_dtype` as one of storage; bf16 rounds to nearest even."""
    if element != BF16:
        return np.asarray(values).astype(element.storage)[()]
    single = np.asarray(values).astype(np.float32)
    bits = single.view(np.uint32)
    upper = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (upper & np.uint32(1))) >> np.uint32(16)
    quiet = upper | np.uint32(0x40)
    return np.where(np.isnan(single), quiet, rounded).astype(np.uint16)[()]


def unpacked(stored: Array, element: ScalarType) -> Array:
    """Return the integers below 8 bits that bytes hold, one after another along axis 0, the first in the lowest bits.

    They are of `compute_dtype`, in column-major order.
    """
    fields = [stored >> np.uint8(element.bits * place) & np.uint8((1 << element.bits) - 1)
              for place in range(element.per_byte)]
    result = np.empty((stored.shape[0] * element.per_byte, *stored.shape[1:]), compute_dtype(element), order="F")
    for place, field in enumerate(fields):
        values = field.astype(np.int16)
        result[place :: element.per_byte] = values - ((values > element.maximum) << element.bits)
    return result


def _rounded(value: Any, scalar_type: ScalarType) -> Scalar:
    """Return a float or complex value rounded to `scalar_type`."""
    return decode(encode(value, scalar_type), scalar_type)


def _wrapped(value: int, scalar_type: ScalarType) -> Scalar:
    """Return the integer modulo 2^bits, in the range of `scalar_type`."""
    value &= (1 << scalar_type.bits) - 1
    if value > scalar_type.maximum:
        value -= 1 << scalar_type.bits
    return compute_dtype(scalar_type).type(value)


@quietly
def from_python(value: complex, scalar_type: ScalarType) -> Scalar:
    """Return a Python number, bool and int included, as a scalar: integers must be in range, floats are rounded."""
    if scalar_type.is_boolean:
        return np.bool_(value)
    if scalar_type.is_integer:
        return compute_dtype(scalar_type).type(operator.index(value))  # type: ignore[arg-type]
    return _rounded(value, scalar_type)


def is_in_range(value: Scalar, source: ScalarType, target: ScalarType) -> bool:
    """Return whether the cast of a scalar is defined: it is not for a float that an integer type cannot hold."""
    if not target.is_integer or not (source.is_float or source.is_complex):
        return True
    return bool(np.isfinite(value.real)) and target.minimum <= int(value.real) <= target.maximum


@quietly
def convert(value: Scalar, source: ScalarType, target: ScalarType, strict: bool = False) -> Scalar:
    """Cast a scalar: to i1 asks whether it differs from zero; to integers wraps, or truncates a float.

    A float out of the integer's range gives the nearest end of the range, NaN gives 0 (undefined in C); with `strict`,
    it raises `Fault`.  A complex value gives its real part to a real type.
    """
    if strict and not is_in_range(value, source, target):
        raise Fault(f"cast of {value} to {target}, whose range is {target.minimum} to {target.maximum}")
    if target.is_boolean:
        return np.bool_(value != 0)
    if source.is_complex and not target.is_complex:
        value = value.real
    if not target.is_integer:
        # From an integer, float16 goes through float64: NumPy's own way would round twice.
        return _rounded(value.astype(np.float64) if target == F16 and source.is_integer else value, target)
    if not (source.is_float or source.is_complex):
        return _wrapped(int(value), target)
    if np.isnan(value):
        return _wrapped(0, target)
    if np.isinf(value):
        return _wrapped(target.maximum if value > 0 else target.minimum, target)
    return _wrapped(min(max(int(value), target.minimum), target.maximum), target)


def reinterpret(value: Scalar, source: ScalarType, target: ScalarType) -> Scalar:
    """Return the bits of a scalar as a scalar of another type of the same size."""
    return decode(np.asarray(encode(value, source)).view(target.storage)[()], target)


_WRAPPING: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}

_UNARY: dict[str, Callable[[Any], Any]] = {"neg": np.negative, "not": np.invert, "conj": np.conjugate}


@quietly
def arith(kind: str, scalar_type: ScalarType, lhs: Scalar, rhs: Scalar, strict: bool = False) -> Scalar:
    """Compute ``arith.<kind>``; with `strict`, integer division by zero and over-wide shifts raise `Fault`."""
    if kind in _WRAPPING:
        return _finish(_WRAPPING[kind](lhs, rhs), scalar_type)
    if not scalar_type.is_integer:
        return _finish(np.divide(lhs, rhs) if kind == "div" else np.fmod(lhs, rhs), scalar_type)
    a, b = int(lhs), int(rhs)
    if kind in ("div", "rem"):
        if b == 0:
            if strict:
                raise Fault(f"division of {a} by zero")
            return _wrapped(0, scalar_type)
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return _wrapped(quotient if kind == "div" else a - quotient * b, scalar_type)
    assert kind in ("shl", "shr"), kind
    if not 0 <= b < scalar_type.bits:
        if strict:
            raise Fault(f"shift of a {scalar_type} by {b}", f"shift by 0 to {scalar_type.bits - 1}")
        b = scalar_type.bits
    return _wrapped(a << b if kind == "shl" else a >> b, scalar_type)


@quietly
def unary(kind: str, scalar_type: ScalarType, operand: Scalar) -> Scalar:
    """Compute ``arith.neg``, ``arith.not`` or ``arith.conj``."""
    return _finish(_UNARY[kind](operand), scalar_type)


def cmplx(scalar_type: ScalarType, real: Scalar, imaginary: Scalar) -> Scalar:
    """Compute ``cmplx``."""
    return compute_dtype(scalar_type).type(complex(real, imaginary))


def part(number: int, value: Scalar) -> Scalar:
    """Compute ``re`` (0) or ``im`` (1)."""
    return value.imag if number else value.real


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le,
}


def compare(kind: str, lhs: Scalar, rhs: Scalar) -> Scalar:
    """Compute ``cmp.<kind>``; a comparison with NaN is false, except ``ne``."""
    return np.bool_(_COMPARISONS[kind](lhs, rhs))


@quietly
def mathematics(
    meaning: Callable[..., Any], scalar_type: ScalarType, arguments: tuple[Scalar, ...], is_exact: bool
) -> Scalar:
    """Compute a function of ``math`` in float64 or complex128, then rounded; in the type if it `is_exact`."""
    if is_exact:
        return _finish(meaning(np, *arguments), scalar_type)
    wide = np.complex128 if scalar_type.is_complex else np.float64
    return _rounded(meaning(np, *map(wide, arguments)), scalar_type)


def _finish(value: Any, scalar_type: ScalarType) -> Scalar:
    """Round a bf16 result; the others are already of their type."""
    return _rounded(value, scalar_type) if scalar_type == BF16 else value
