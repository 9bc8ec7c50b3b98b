"""A stand-in for CuPy on NumPy, for machines without a GPU: its arrays are in the memory of the host.

It has what `tl_dpnp.runtime.cuda.cupy_adapter` and the tests ask for: arrays that are not NumPy's and are not converted
to them unasked, 0-d arrays instead of scalars, pointers, one device and its stream.  Functions are NumPy's, by the same
rules of promotion as CuPy has from version 14 on (NEP 50).
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import sys
import types

import numpy as np

__all__ = ["module"]

_ALIGNMENT = 256


class MemoryPointer:
    """An address in memory that something keeps alive."""

    device_id = 0

    def __init__(self, ptr, owner):
        self.ptr, self.owner = ptr, owner

    def __add__(self, offset):
        return MemoryPointer(self.ptr + offset, self.owner)


def _allocate(nbytes):
    memory = np.empty(nbytes + _ALIGNMENT, np.uint8)
    return MemoryPointer(memory.ctypes.data + -memory.ctypes.data % _ALIGNMENT, memory)


def _span(shape, strides, itemsize):
    ways = [(size - 1) * step for size, step in zip(shape, strides, strict=True)]
    return sum(way for way in ways if way < 0), sum(way for way in ways if way > 0) + itemsize


def _plain(value):
    """Return NumPy's arrays for those of the stand-in; others of NumPy's are refused, as by CuPy."""
    if isinstance(value, ndarray):
        # What only claims to be one, and is none in memory, is asked for its content, as by CuPy.
        return value._held if type(value) is ndarray else value.__cupy_get_ndarray__()._held
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, list | tuple):
        parts = [_plain(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def _wrapped(value):
    if isinstance(value, np.ndarray | np.generic):
        return ndarray._of(np.asarray(value))
    if isinstance(value, list | tuple):
        parts = [_wrapped(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


class _Function:
    """A function, or a ufunc, of NumPy's on the stand-in's arrays."""

    def __init__(self, function):
        self._function = function
        self.__name__ = self.name = function.__name__
        self.__doc__ = function.__doc__

    def __call__(self, *arguments, **keywords):
        out = keywords.get("out")
        arguments, keywords = _plain(arguments), _plain(keywords)
        if self.name == "take":
            keywords.setdefault("mode", "wrap")
        try:
            result = self._function(*arguments, **keywords)
        except np.linalg.LinAlgError:  # CuPy does not look for singular matrices
            result = np.full_like(arguments[-1], np.nan)
        if isinstance(result, tuple) and self.name.startswith("atleast"):
            result = list(result)
        if self.name == "diag":
            result = result.copy()
        return _wrapped(result) if out is None else out


class ndarray:  # noqa: N801  # CuPy's name
    """An array, with NumPy's attributes and methods, and what CuPy has beside them."""

    __array_priority__ = 100
    __hash__ = None

    def __new__(cls, shape=None, dtype=float, memptr=None, strides=None, order="C"):
        self = object.__new__(cls)
        if shape is None:
            return self
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = np.dtype(dtype)
        if dtype.hasobject:
            raise ValueError(f"Unsupported dtype {dtype}")
        if strides is None:
            strides = np.empty(shape, dtype, order).strides if np.prod(shape) else [dtype.itemsize] * len(shape)
        if not np.prod(shape):
            self._held, self.data = np.empty(shape, dtype), memptr or _allocate(0)
            return self
        low, high = _span(shape, strides, dtype.itemsize)
        self.data = _allocate(high - low) if memptr is None else memptr
        memory = (ctypes.c_uint8 * (high - low)).from_address(self.data.ptr + low)
        memory.owner = self.data  # which all views of the NumPy array keep
        self._held = np.ndarray(shape, dtype, memory, -low, strides)
        return self

    @classmethod
    def _of(cls, held):
        """Return the array of one of NumPy's: a view of its memory where that is CuPy's, else a copy."""
        base = held
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        if isinstance(base, ctypes.Array) and held.size:
            return cls(held.shape, held.dtype, MemoryPointer(held.ctypes.data, held), held.strides)
        order = "F" if held.flags.f_contiguous and not held.flags.c_contiguous else "C"
        steps = np.argsort([-abs(step) for step in held.strides], kind="stable") if held.ndim > 1 else None
        if steps is not None and held.size:  # in the same order of axes
            moved = cls([held.shape[axis] for axis in steps], held.dtype)
            result = cls._of(moved._held.transpose(np.argsort(steps)))
        else:
            result = cls(held.shape, held.dtype, order=order)
        result._held[...] = held
        return result

    shape = property(lambda self: self._held.shape,
                     lambda self, shape: setattr(self, "_held", self._held.reshape(shape, copy=False)))
    strides = property(lambda self: self._held.strides)
    dtype = property(lambda self: self._held.dtype)
    ndim = property(lambda self: self._held.ndim)
    size = property(lambda self: self._held.size)
    itemsize = property(lambda self: self._held.itemsize)
    nbytes = property(lambda self: self._held.nbytes)
    flags = property(lambda self: self._held.flags)
    base = property(lambda self: None)
    T = property(lambda self: ndarray._of(self._held.T))
    mT = property(lambda self: ndarray._of(self._held.mT))  # noqa: N815
    real = property(lambda self: ndarray._of(self._held.real) if self.dtype.kind == "c" else self,
                    lambda self, value: self._set("real", value))
    imag = property(lambda self: ndarray._of(self._held.imag), lambda self, value: self._set("imag", value))

    def _set(self, name, value):
        setattr(self._held, name, _plain(value))

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False),
                "strides": self.strides}

    def get(self):
        return self._held.copy()

    def __array__(self, *_arguments, **_keywords):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy "
                        "array explicitly.")

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        return getattr(module, ufunc.__name__)(*inputs, **keywords) if method == "__call__" else NotImplemented

    def __array_function__(self, function, _types, arguments, keywords):
        of = module.linalg if function.__module__ == "numpy.linalg" else module
        return getattr(of, function.__name__)(*arguments, **keywords)

    def __dlpack__(self, **keywords):
        return self._held.__dlpack__(**keywords)

    def __repr__(self):
        return repr(self._held)

    def __iter__(self):
        return (self[place] for place in range(len(self)))

    def __getitem__(self, key):
        return _wrapped(self._held[_plain(key)])

    def __setitem__(self, key, value):
        self._held[_plain(key)] = _plain(value)


def _method(name):
    def method(self, *arguments, **keywords):
        out = keywords.get("out")
        result = getattr(self._held, name)(*_plain(arguments), **_plain(keywords))
        return _wrapped(result) if out is None else out

    method.__name__ = name
    return method


def _plain_method(name):
    def method(self, *arguments):
        return getattr(self._held, name)(*arguments)

    method.__name__ = name
    return method


def _operator(name):
    def method(self, other):
        try:
            result = getattr(self._held, name)(_plain(other))
        except TypeError:
            if isinstance(other, np.ndarray):
                raise
            return NotImplemented
        return result if result is NotImplemented else (self if name.startswith("__i") else _wrapped(result))

    method.__name__ = name
    return method


for _name in ("all any argmax argmin argsort astype clip conj conjugate copy cumprod cumsum diagonal dot fill flatten "
              "max mean min nonzero prod ravel repeat reshape round sort squeeze std sum swapaxes take trace transpose "
              "var view __neg__ __pos__ __abs__ __invert__").split():
    setattr(ndarray, _name, _method(_name))
for _name in "__len__ __bool__ __int__ __float__ __complex__ __index__ __str__ tolist item tobytes".split():
    setattr(ndarray, _name, _plain_method(_name))
for _name in "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift".split():
    for _how in ("", "r", "i") if _name not in ("divmod", "matmul") else ("", "r"):
        setattr(ndarray, f"__{_how}{_name}__", _operator(f"__{_how}{_name}__"))
def _power(self, other):
    return module.power(self, other)  # NumPy's operator is `square`, of another dtype, for 2


def _variance(name):
    def method(self, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
        held = self._held
        result = np.asarray(getattr(held, name)(axis, dtype, None, ddof, keepdims=keepdims))
        if held.size and held.size // max(result.size, 1) - ddof <= 0:  # and not infinite, as in NumPy
            result = np.full_like(result, np.nan)
        if out is not None:
            out._held[...] = result
        return _wrapped(result) if out is None else out

    return method


ndarray.__pow__ = _power
ndarray.std, ndarray.var = _variance("std"), _variance("var")
for _name in "eq ne lt le gt ge".split():
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))


class _Stream:
    ptr = 0


class _Device:
    def __init__(self, number=0):
        self.id = number

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        return None


def _module(name, **members):
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    vars(made).update(members)
    return made


def _functions(of):
    """Return the functions of one of NumPy's modules."""
    return {name: _Function(value) for name, value in vars(of).items() if not name.startswith("_")
            and callable(value) and not isinstance(value, type) and hasattr(value, "__name__")}


def asarray(a, dtype=None, order=None):
    """Return an array, itself if it is one with that dtype."""
    if isinstance(a, ndarray) and (dtype is None or a.dtype == dtype):
        return a
    return ndarray._of(np.array(a if isinstance(a, np.ndarray) else _plain(a), dtype=dtype, order=order or "K"))


def array(a, dtype=None, copy=True, order="K"):
    """Return a new array."""
    return ndarray._of(np.array(a if isinstance(a, np.ndarray) else _plain(a), dtype=dtype, order=order))


def _build():
    made = _module("cupy", **_functions(np))
    for name in "float16 float32 float64 complex64 complex128 bool_ int8 int16 int32 int64 uint8 uint16 uint32 " \
                "uint64 dtype newaxis nan inf pi e integer floating".split():
        setattr(made, name, getattr(np, name))
    made.real = lambda a: a.real
    made.imag = lambda a: a.imag
    made.std = lambda a, *arguments, **keywords: a.std(*arguments, **keywords)
    made.var = lambda a, *arguments, **keywords: a.var(*arguments, **keywords)
    made.ndarray, made.asarray, made.array = ndarray, asarray, array
    made.asnumpy = lambda a, **_keywords: a.get() if isinstance(a, ndarray) else np.asarray(a)
    made.ascontiguousarray = lambda a, dtype=None: ndarray._of(np.array(_plain(a), dtype=dtype, order="C"))
    made.linalg = _module("cupy.linalg", **_functions(np.linalg))
    made.fft, made.random = _module("cupy.fft"), _module("cupy.random")
    device = types.SimpleNamespace(get_device_id=lambda: 0)
    made.cuda = _module("cupy.cuda", Device=_Device, device=device, get_current_stream=lambda _device=None: _Stream)
    ndarray.__module__ = "cupy"
    return made


module = _build()


def is_needed():
    """Return whether there is no CuPy here, or no device for it."""
    try:
        import cupy

        return cupy.cuda.runtime.getDeviceCount() == 0
    except Exception:
        sys.modules.pop("cupy", None)
        return True
