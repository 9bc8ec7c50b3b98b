"""Arrays of all kinds as the runtime sees them: address, sizes, strides, dtype and queue."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tl_dpnp.errors import TLTypeError

__all__ = [
    "HOST_ARRAYS", "JAX", "ON_CUDA", "ON_SYCL", "ArrayKind", "ArrayView", "DeviceTable", "NotAnArray", "ReversedArray",
    "describe_value", "dlpack_place", "host_view", "place_name", "rev",
]

#: ``DLDeviceType`` (``dlpack.h``): memory of a CUDA device, and such that its driver moves; memory of a SYCL device.
ON_CUDA, ON_SYCL = (2, 13), 14
#: The packages that classes of JAX's arrays are in.  Their ``transpose`` copies, and though they have
#: ``__cuda_array_interface__``, that does not say when their values are there.
JAX = ("jax", "jaxlib")
#: What arrays are on, for messages.
_PLACES = {1: "a CPU", 2: "a CUDA device", 3: "the host, in pinned memory", 10: "a ROCm device",
           13: "a CUDA device", ON_SYCL: "a SYCL device"}


class ArrayView(NamedTuple):
    """What a call has to know of an array; `strides` are in elements, `queue` is None for a NumPy array."""

    array: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    queue: Any
    writable: bool

    @property
    def nbytes(self) -> int:
        """Size of all elements together, in bytes."""
        return math.prod(self.shape) * int(self.dtype.itemsize)


class DeviceTable(NamedTuple):
    """A table of 64-bit integers in the device's memory; `address` is 0 for an empty one."""

    memory: Any
    address: int


def _module_of(array: Any) -> str:
    return type(array).__module__.partition(".")[0]


class ArrayKind(NamedTuple):
    """What binding needs to know of a kind of arrays.

    `view_of` raises `NotAnArray`, `common_queue` takes pairs of a description and a queue.  `upload` copies integers
    (any shape, row after row) to the device of a queue and waits until they are there.  The others are a quick way
    to what `view_of` gives: `arrays_of` to what holds the data of arguments, `facts` of such an array to all but its
    address, `placed_facts` to that as well, `address_of` to that alone.  They may raise `AttributeError`, `TypeError`
    or `ValueError` for other arguments.

    `takes_repeats` says that modes that are only indexed and read may have the stride 0.  `package_of` gives the name
    under which `layout_advice` has the words of an array's package.  `views_of` gives the views of a list of arrays.
    A list stands among the arrays of a call as what `arrays_of` makes of it: its address is that of a table with the
    addresses of its arrays, which it has as `addresses`, and its facts are all else.  With `takes_pointers`, an array
    of pointers may be given for a group.
    """

    view_of: Callable[[object], ArrayView]
    arrays_of: Callable[[Sequence[Any]], list[Any]]
    facts: Callable[[Any], Hashable]
    placed_facts: Callable[[Any], Hashable]
    address_of: Callable[[Any], int]
    common_queue: Callable[[Sequence[tuple[str, Any]]], Any]
    upload: Callable[[Any, Any], DeviceTable]
    takes_repeats: bool = False
    package_of: Callable[[Any], str] = _module_of
    views_of: Callable[[Sequence[Any]], tuple[ArrayView, ...]] | None = None
    takes_pointers: bool = False

    def list_views(self, arrays: Sequence[Any]) -> tuple[ArrayView, ...]:
        """Return the views of a list of arrays; raises `NotAnArray`."""
        return tuple(map(self.view_of, arrays)) if self.views_of is None else self.views_of(arrays)


class NotAnArray(Exception):
    """The value is no array that a kernel accepts; the arguments are what it is and what to write instead."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint


def host_view(value: object) -> ArrayView:
    """Return the view of a NumPy array; raises `NotAnArray`.

    bf16 may come as ``ml_dtypes.bfloat16``; it is seen as uint16.
    """
    if not isinstance(value, np.ndarray):
        raise NotAnArray(*describe_value(value, "dpnp.asarray(array)", "pass a NumPy array"))
    if isinstance(value, np.ma.MaskedArray):
        raise NotAnArray("a masked array, and kernels know no masks", "pass array.data or array.filled(number)")
    array = value.view(np.uint16) if value.dtype.name == "bfloat16" else value
    if any(stride % array.itemsize for stride in array.strides):
        raise NotAnArray("a NumPy array whose strides are no multiples of its elements", "copy it: array.copy()")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return ArrayView(array, array.ctypes.data, array.shape, strides, array.dtype, None, bool(array.flags.writeable))


def dlpack_place(value: object) -> int | None:
    """Return the ``DLDeviceType`` of what offers DLPack, None for anything else."""
    device = getattr(value, "__dlpack_device__", None)
    return None if device is None or isinstance(value, type) else int(device()[0])


def place_name(place: int) -> str:
    """Return what a ``DLDeviceType`` is, for messages."""
    return _PLACES.get(place, f"a device of DLPack type {place}")


def _no_facts(_array: Any) -> Hashable:
    raise TypeError("calls with arrays of the host are not remembered")


def _no_upload(_values: Any, _queue: Any) -> DeviceTable:
    raise TypeError("arrays of the host are on no device")


#: NumPy arrays, which lie in no queue.
HOST_ARRAYS = ArrayKind(
    host_view, list, _no_facts, _no_facts, lambda array: array.ctypes.data, lambda named: None, _no_upload
)


def describe_value(value: object, copy: str, instead: str) -> tuple[str, str]:
    """Return what a value is that is no array of a device, and what to write instead."""
    match value:
        case np.ndarray():
            return "a NumPy array, which lives in the host's memory", f"copy it to the device: array = {copy}"
        case list() | tuple():
            return f"a {type(value).__name__}; only a group takes several arrays", "pass one array"
        case None:
            return "None, no array", f"{instead}; None is for what the program asks for by `associated`"
    return f"a {type(value).__name__}, no array", instead


def rev(array: Any) -> Any:
    """Return a view of `array` with its axes reversed; nothing is copied.

    A C-ordered array of shape (n, m) is, reversed, the column-major array of shape (m, n) that ``memref<f32 x m x n>``
    takes.  Accepts arrays of dpnp, dpctl, NumPy, CuPy, PyTorch and Numba, of any order, and returns the same kind; a
    list or tuple of arrays gives a list of views.  Arrays on a CUDA device that offer DLPack only, such as JAX's, whose
    package may have no such views, become a `ReversedArray`.  Raises `TLTypeError` for anything else.
    """
    return _reversals[type(array)](array)


class ReversedArray:
    """An array on a CUDA device with its axes reversed, for calls of kernels: each exports `array` anew."""

    __slots__ = ("__weakref__", "array", "ndim")

    def __init__(self, array: Any) -> None:
        self.array, self.ndim = array, array.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(self.array.shape)[::-1]

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the array is, as DLPack says."""
        return self.array.__dlpack_device__()  # type: ignore[no-any-return]


class _Reversals(dict[type, Callable[[Any], Any]]):
    """The function that reverses the axes of what is of a class, found where the class is met first."""

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        package = kind.__module__.partition(".")[0]
        if issubclass(kind, list | tuple):
            found: Callable[[Any], Any] = _reversed_elements
        elif kind is ReversedArray:
            found = attrgetter("array")
        elif package == "torch":
            found = _reversed_tensor
        elif hasattr(kind, "__sycl_usm_array_interface__") and not hasattr(kind, "transpose"):
            found = _permuted
        else:
            found = _reversed_export if package in JAX or _offers_only_dlpack(kind) else _transposed
        self[kind] = found
        return found


def _permuted(array: Any) -> Any:
    return array if array.ndim < 2 else array.__array_namespace__().permute_dims(array, range(array.ndim)[::-1])


def _offers_only_dlpack(kind: type) -> bool:
    return hasattr(kind, "__dlpack_device__") and not any(map(functools.partial(hasattr, kind), _INTERFACES))


def _reversed_elements(arrays: Sequence[Any]) -> list[Any]:
    return [_reversals[type(array)](array) for array in arrays]


def _reversed_tensor(tensor: Any) -> Any:
    # A permutation of many axes takes half a microsecond more.
    match tensor.ndim:
        case 0 | 1:
            return tensor
        case 2 | 3 as modes:
            return tensor.transpose(0, modes - 1)
        case modes:
            return tensor.permute(tuple(reversed(range(modes))))


def _reversed_export(array: Any) -> Any:
    is_reversible = getattr(array, "ndim", 0) > 1 and dlpack_place(array) in ON_CUDA
    return ReversedArray(array) if is_reversible else _transposed(array)


def _transposed(array: Any) -> Any:
    if not hasattr(array, "ndim"):
        raise TLTypeError(f"rev takes an array or a list of arrays, not a {type(array).__name__}")
    return array if array.ndim < 2 else array.transpose()


#: What arrays have whose package can reverse them.
_INTERFACES = ("__array_interface__", "__cuda_array_interface__", "__sycl_usm_array_interface__")
_reversals = _Reversals()
