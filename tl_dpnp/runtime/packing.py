"""Integers below 8 bits on the host: arrays of bytes that kernels take for them, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from tl_dpnp.errors import TLBindingError, TLTypeError, nearest
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

__all__ = ["pack", "unpack"]

#: Types of ml_dtypes, which NumPy knows by name only.
_NARROW_DTYPES = ("int2", "uint2", "int4", "uint4")


def pack(values: Any, element: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return integers as the bytes that a memref of `element` (``"i4"``, ``"u4"``, ``"i2"`` or ``"u2"``) takes.

    `values` is a NumPy array, or what NumPy makes one of, with mode i as axis i.  A byte holds two elements of 4 bits
    or four of 2 bits that follow one another along axis 0, the first one in its lowest bits.  The result is a new
    column-major array of uint8, whose axis 0 is shorter by that factor; copy it to a device with ``dpnp.asarray``,
    with ``order="F"``.

    Raises `TLTypeError` for other types and for values that are no integers, `TLBindingError` for integers that the
    type does not hold and for an axis 0 that does not fill whole bytes.
    """
    scalar = _type(element)
    array = _on_host("pack", values)
    if array.dtype.kind not in "iub" and array.dtype.name not in _NARROW_DTYPES:
        raise TLTypeError(f"pack takes integers, it was given an array of {array.dtype}: array.astype(int) rounds "
                          "toward 0")
    if array.ndim == 0 or array.shape[0] % scalar.per_byte:
        what = f"{array.shape[0]} elements along axis 0" if array.ndim else "one element"
        raise TLBindingError(f"{what} fill no whole bytes: each holds {scalar.per_byte} elements of {element}")
    wide = array.astype(np.int64) if array.dtype != np.uint64 else np.minimum(array, 1 << 62).astype(np.int64)
    if wide.size and not scalar.minimum <= wide.min() <= wide.max() <= scalar.maximum:
        raise TLBindingError(f"{element} holds {scalar.minimum} to {scalar.maximum}, the values are {wide.min()} to "
                             f"{wide.max()}: numpy.clip(values, {scalar.minimum}, {scalar.maximum}) cuts them off")
    result = np.zeros((array.shape[0] // scalar.per_byte, *array.shape[1:]), np.uint8, order="F")
    for place in range(scalar.per_byte):
        fields = wide[place :: scalar.per_byte] & ((1 << scalar.bits) - 1)
        result |= (fields << scalar.bits * place).astype(np.uint8)
    return result


def unpack(packed: Any, element: str) -> np.ndarray[Any, Any]:
    """Return the integers in an array of bytes, as int8 or uint8 in column-major order: the inverse of `pack`.

    `packed` is on the host: ``dpnp.asnumpy(array)`` copies there what a kernel wrote.  Raises `TLTypeError` for other
    types than those of `pack`, and for what is no array of uint8 with an axis.
    """
    scalar = _type(element)
    array = _on_host("unpack", packed)
    if array.dtype != np.uint8 or array.ndim == 0:
        raise TLTypeError(f"unpack takes an array of uint8 with one axis or more, not one of {array.dtype}, "
                          f"shape {array.shape}")
    shape = (array.shape[0] * scalar.per_byte, *array.shape[1:])
    result = np.empty(shape, scalar.in_registers.storage, order="F")
    for place in range(scalar.per_byte):
        # The field goes to the highest bits; shifting it back extends its sign where the type has one.
        highest = (array << np.uint8(8 - scalar.bits * (place + 1))).view(result.dtype)
        result[place :: scalar.per_byte] = highest >> result.dtype.type(8 - scalar.bits)
    return result


def _on_host(function: str, values: Any) -> np.ndarray[Any, Any]:
    if hasattr(type(values), "__sycl_usm_array_interface__"):
        raise TLTypeError(f"{function} takes integers on the host, it was given an array on a device: "
                          "dpnp.asnumpy(array)")
    return np.asarray(values)


def _type(element: str) -> ScalarType:
    scalar = SCALAR_TYPES.get(element)
    if scalar is None or not scalar.is_subbyte:
        names = [name for name, known in SCALAR_TYPES.items() if known.is_subbyte]
        near = nearest(str(element), names)
        raise TLTypeError(f"{element!r} is no type of integers below 8 bits; there are {', '.join(names)}"
                          + (f": did you mean {near!r}?" if near else ""))
    return scalar
