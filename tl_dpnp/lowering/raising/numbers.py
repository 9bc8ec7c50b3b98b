"""Integers of all work-groups, sub-groups and iterations at once: arrays, with an axis for each of these.

Axis a of a trace is dimension -(a + 1) of its arrays, so that those of other axes are of size 1 or left out.  None
stands for what is not known before a call, and for all that is no integer.  The arithmetic is the interpreter's.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from tl_dpnp.language.instructions.mathematics import MATHEMATICS
from tl_dpnp.language.interpreter import scalar
from tl_dpnp.scalars import INDEX, ScalarType

__all__ = ["Array", "Number", "Unraised", "along", "arith", "both", "cast", "check_size", "compare", "constant",
           "counts", "length_of", "mathematics", "sequence", "unary"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Number: TypeAlias = "Array | None"

#: Elements of an array, from which on calls are not looked at: it would take longer than it gains.
_MOST_ELEMENTS = 1 << 22


class Unraised(Exception):
    """Why a program, or a call of it, is not raised to one product."""


def along(axis: int, count: int) -> Array:
    """Return the numbers from 0 on along an axis.  Raises `Unraised` for too many."""
    _check_count(count)
    return np.arange(count, dtype=np.int64).reshape((-1, *(1,) * axis))


def length_of(number: Array, axis: int) -> int:
    """Return how many values a number has along an axis."""
    return number.shape[-(axis + 1)] if number.ndim > axis else 1


def check_size(*arrays: Array) -> None:
    """Raise `Unraised` where what is computed of arrays would be too large."""
    _check_count(math.prod(np.broadcast_shapes(*(array.shape for array in arrays))))


def constant(value: Any, type: ScalarType) -> Number:
    """Return a constant."""
    return np.asarray(scalar.from_python(value, type)) if _is_known(type) else None


def arith(kind: str, type: ScalarType, lhs: Number, rhs: Number) -> Number:
    """Compute ``arith.<kind>``.  Raises `Unraised` where that is undefined."""
    if lhs is None or rhs is None or not _is_known(type):
        return None
    check_size(lhs, rhs)
    if kind in ("div", "rem"):
        if not np.all(rhs):
            raise Unraised("an index is divided by zero")
        quotient = lhs // rhs
        quotient = quotient + ((quotient * rhs != lhs) & ((lhs < 0) != (rhs < 0)))  # towards zero
        return np.asarray(quotient if kind == "div" else lhs - quotient * rhs).astype(scalar.compute_dtype(type))
    if kind in ("shl", "shr"):
        if np.any((rhs < 0) | (rhs >= type.bits)):
            raise Unraised("an index is shifted by more bits than it has")
        return np.asarray(lhs << rhs if kind == "shl" else lhs >> rhs)
    return np.asarray(scalar.arith(kind, type, lhs, rhs))


def unary(kind: str, type: ScalarType, operand: Number) -> Number:
    """Compute ``arith.neg`` and ``arith.not``."""
    return None if operand is None or not _is_known(type) else np.asarray(scalar.unary(kind, type, operand))


def mathematics(kind: str, type: ScalarType, arguments: tuple[Number, ...]) -> Number:
    """Compute a function of ``math``."""
    known = [argument for argument in arguments if argument is not None]
    if len(known) < len(arguments) or not _is_known(type) or kind not in MATHEMATICS:
        return None
    check_size(*known)
    return np.asarray(MATHEMATICS[kind].meaning(np, *known))


def cast(source: ScalarType, target: ScalarType, operand: Number) -> Number:
    """Compute ``cast``: integers wrap."""
    if operand is None or not (_is_known(source) and _is_known(target)):
        return None
    return operand != 0 if target.is_boolean else operand.astype(scalar.compute_dtype(target))


def compare(kind: str, lhs: Number, rhs: Number) -> Number:
    """Compute ``cmp.<kind>``."""
    if lhs is None or rhs is None:
        return None
    check_size(lhs, rhs)
    return np.asarray(scalar.compare(kind, lhs, rhs))


def both(mask: Number, other: Number) -> Number:
    """Return the mask of those that are in two."""
    if mask is None or other is None:
        return None
    check_size(mask, other)
    return mask & other


def counts(start: Number, stop: Number, step: Number) -> Number:
    """Return how often loops run.  Raises `Unraised` for steps that are not positive."""
    if start is None or stop is None or step is None:
        return None
    if np.any(step <= 0):
        raise Unraised("the step of a loop is not positive")
    first, last, each = (number.astype(np.int64) for number in (start, stop, step))
    return np.asarray(np.maximum(0, -((first - last) // each)))


def sequence(axis: int, count: int, first: Array, later: Array) -> Array:
    """Return what a loop of so many iterations carries: the first value, and one for each that the iterations yield."""
    # An axis of size 1 stands for values that are all the same.
    dimensions = max(first.ndim, later.ndim, axis + 1)
    first, later = (number.reshape((*(1,) * (dimensions - number.ndim), *number.shape))
                    for number in (first, later))
    place = -(axis + 1)
    if later.shape[place] != count:
        later = np.repeat(later, count, axis=place) if later.shape[place] == 1 else later
    shape = [max(sizes) for sizes in zip(first.shape, later.shape, strict=True)]
    parts = []
    for number, size in ((first, 1), (later, count)):
        shape[place] = size
        check_size(np.broadcast_to(number, shape))
        parts.append(np.broadcast_to(number, shape))
    return np.concatenate(parts, axis=place)


def _check_count(count: int) -> None:
    if count > _MOST_ELEMENTS:
        raise Unraised(f"{count} places of tiles are too many to look at")


def _is_known(type: ScalarType) -> bool:
    """Whether values of a type are computed: all that are indices, which have a sign."""
    return type.is_boolean or (type.is_integer and type.maximum <= INDEX.maximum)
