"""How arrays are looked at by C functions: DLPack's exchange of PyTorch, or where a package has none, attributes.

Source: DLPack 1.3, dlpack.h, ``DLTensor`` and ``DLPackExchangeAPI``.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, NamedTuple

__all__ = ["Exchange", "Tensor", "exchange_of", "interned"]

_VERSION = 1
_API_NAME = b"dlpack_exchange_api"
#: Packages whose arrays are never read-only, which ``DLTensor`` does not say, and what must be false of an array: an
#: attribute, a method without arguments, and another one where it has complex numbers.
_FALSE = {"torch": ("requires_grad", "is_neg", "is_conj"), "cupy": (None, None, None)}
#: Packages without DLPack's C functions: the attributes of their arrays that are compared, that of the memory, and
#: those that it has as device and address.
_ATTRIBUTES = {"cupy": (("shape", "strides", "dtype"), "data", "device_id", "ptr")}


class Tensor(ctypes.Structure):
    """``DLTensor``, its number of modes and element type also as one word."""

    _fields_ = [
        ("data", ctypes.c_int64), ("device", ctypes.c_int64), ("form", ctypes.c_int64), ("sizes", ctypes.c_int64),
        ("strides", ctypes.c_int64), ("offset", ctypes.c_int64),
    ]


class _ExchangeAPI(ctypes.Structure):
    """``DLPackExchangeAPI``."""

    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
        ("allocator", ctypes.c_void_p), ("managed_of", ctypes.c_void_p), ("object_of", ctypes.c_void_p),
        ("tensor_of", ctypes.c_void_p), ("stream_of", ctypes.c_void_p),
    ]


class Exchange(NamedTuple):
    """The functions of a package that look at an array and find the current stream; what must be `false` of an array.

    That is an attribute, a method, and a method of arrays of complex numbers.  Without functions, which are 0 then,
    there are the attributes of an array that are compared, that of its memory, and those of that.
    """

    tensor_of: int
    stream_of: int
    false: tuple[str | None, str | None, str | None]
    compared: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()


@functools.cache
def exchange_of(kind: type) -> Exchange | None:
    """Return how arrays of a class are looked at, None where there is no way, or where they may be read-only."""
    package = kind.__module__.partition(".")[0]
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_IsValid", ctypes.pythonapi))(capsule, _API_NAME)
    if package not in _FALSE or not (is_valid or package in _ATTRIBUTES):
        return None
    if not is_valid:
        compared, *memory = _ATTRIBUTES[package]
        return Exchange(0, 0, _FALSE[package], compared, tuple(memory))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, _API_NAME)
    api = _ExchangeAPI.from_address(pointer)
    if api.major != _VERSION or not api.tensor_of or not api.stream_of:
        return None
    return Exchange(api.tensor_of, api.stream_of, _FALSE[package])


def interned(name: str | None, keep: list[Any]) -> int:
    """Return the address of a name as attributes have it, which is kept in `keep`; 0 for None."""
    if name is None:
        return 0
    name = sys.intern(name)
    keep.append(name)
    return id(name)
