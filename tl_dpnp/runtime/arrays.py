"""Arrays of all kinds as the runtime sees them: address, sizes, strides, dtype and queue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from dpctl.tensor import usm_ndarray

from tl_dpnp.runtime.dpctl_adapter import ExecutionPlacementError, address_of
from tl_dpnp.runtime.dpnp_adapter import is_dpnp_array, usm_array_of

__all__ = ["ArrayView", "NotAnArray", "common_queue", "host_view", "rev", "usm_array", "view_of"]


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


class NotAnArray(Exception):
    """The value is no array that a kernel accepts; the arguments are what it is and what to write instead."""

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint


def usm_array(value: object) -> Any | None:
    """Return the `usm_ndarray` of a dpnp or dpctl array, None for anything else."""
    if isinstance(value, usm_ndarray):
        return value
    return usm_array_of(value) if is_dpnp_array(value) else None


def view_of(value: object) -> ArrayView:
    """Return the view of a dpnp or dpctl array; raises `NotAnArray`."""
    array = usm_array(value)
    if array is None:
        raise NotAnArray(*_describe(value))
    return ArrayView(array, address_of(array), array.shape, array.strides, array.dtype, array.sycl_queue,
                     bool(array.flags.writable))


def host_view(value: object) -> ArrayView:
    """Return the view of a NumPy array; raises `NotAnArray`.

    bf16 may come as ``ml_dtypes.bfloat16``; it is seen as uint16.
    """
    if not isinstance(value, np.ndarray):
        raise NotAnArray(*_describe(value))
    array = value.view(np.uint16) if value.dtype.name == "bfloat16" else value
    if any(stride % array.itemsize for stride in array.strides):
        raise NotAnArray("a NumPy array whose strides are no multiples of its elements", "copy it: array.copy()")
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return ArrayView(array, array.ctypes.data, array.shape, strides, array.dtype, None, bool(array.flags.writeable))


def _describe(value: object) -> tuple[str, str | None]:
    match value:
        case np.ndarray():
            return "a NumPy array, which lives in the host's memory", "copy it to the device: dpnp.asarray(array)"
        case list() | tuple():
            return f"a {type(value).__name__}; only a group takes several arrays", "pass one array"
    if hasattr(value, "__sycl_usm_array_interface__"):
        return f"a {type(value).__name__}", "view it as an array: dpnp.asarray(value)"
    return f"a {type(value).__name__}, no array", "pass a dpnp.ndarray or a dpctl.tensor.usm_ndarray"


def common_queue(named: Sequence[tuple[str, Any]]) -> Any | None:
    """Return the queue that all of `named`, pairs of a description and a queue, share; None if there is none.

    Raises `dpctl.utils.ExecutionPlacementError`, as dpctl and dpnp do, naming the first two that differ.
    """
    if not named:
        return None
    first, queue = named[0]
    for name, other in named[1:]:
        if other is not queue and other != queue:
            raise ExecutionPlacementError(
                f"{first} and {name} are on different queues ({_queue_text(queue)}; {_queue_text(other)}): all arrays "
                "of a call must share one, even where the device is the same; copy one to the other's queue: "
                "array.to_device(other.sycl_queue)"
            )
    return queue


def _queue_text(queue: Any) -> str:
    return f"{queue.sycl_device.filter_string} at {id(queue):#x}"


def rev(array: Any) -> Any:
    """Return a view of `array` with its axes reversed; nothing is copied.

    A C-ordered array of shape (n, m) is, reversed, the column-major array of shape (m, n) that ``memref<f32 x m x n>``
    takes.  Accepts dpnp, dpctl and NumPy arrays of any order and returns the same kind; a list or tuple of arrays
    gives a list of views.
    """
    if isinstance(array, list | tuple):
        return [rev(element) for element in array]
    if array.ndim < 2:
        return array
    if isinstance(array, usm_ndarray):
        from dpctl.tensor import permute_dims

        return permute_dims(array, tuple(reversed(range(array.ndim))))
    return array.transpose()
