"""Arrays of other packages on SYCL devices, as arrays of dpctl on the same memory.

Sources: dpctl documentation, section "SYCL USM array interface" (``__sycl_usm_array_interface__``); DLPack's Python
specification (``__dlpack__``, ``__dlpack_device__``).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from dpctl import memory

from tl_dpnp.runtime.call.arrays import ON_CUDA, ON_SYCL, NotAnArray, describe_value, dlpack_place, place_name
from tl_dpnp.runtime.sycl.dpctl_adapter import array_at
from tl_dpnp.runtime.sycl.tensor_adapter import tensor

__all__ = ["imported_array"]

_INSTEAD = f"pass a dpnp.ndarray or a {tensor.__name__}.usm_ndarray"


def imported_array(value: object) -> Any:
    """Return a `usm_ndarray` on the memory of an array that is none; it keeps that memory alive.

    Objects with ``__sycl_usm_array_interface__`` say which queue they are on, or which context.  Those that offer
    DLPack are on the queue that dpctl has for their device, and must lie in its default context.  What was submitted
    for them to other queues must be done; tensors of PyTorch are waited for.

    Raises `NotAnArray` for what is no array on a SYCL device, or cannot be used without a copy.
    """
    if hasattr(type(value), "__sycl_usm_array_interface__"):
        return _of_interface(value)
    place = dlpack_place(value)
    if place == ON_SYCL:
        _wait_for_torch(value)
        try:
            return tensor.from_dlpack(value, copy=False)
        except Exception as problem:  # the exporter's own ones among them
            raise _cannot(value, problem) from None
    raise NotAnArray(*_describe(value, place))


def _of_interface(value: Any) -> Any:
    try:
        interface = value.__sycl_usm_array_interface__
        (address, read_only), dtype = interface["data"], np.dtype(interface["typestr"])
        first = address + interface.get("offset", 0) * dtype.itemsize
        array = array_at(memory.as_usm_memory(value), first, interface["shape"], dtype, interface.get("strides"))
        array.flags.writable = not read_only  # which the memory does not say
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as problem:
        raise _cannot(value, problem) from None
    return array


def _wait_for_torch(value: Any) -> None:
    """Wait for what PyTorch has queued for a tensor: its ``__dlpack__`` does not (torch/_tensor.py)."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        torch.xpu.current_stream(value.device).synchronize()


def _cannot(value: object, problem: Exception) -> NotAnArray:
    reason = str(problem).strip() or type(problem).__name__
    return NotAnArray(f"a {type(value).__name__} that dpctl cannot use without a copy: {reason}", _INSTEAD)


def _describe(value: object, place: int | None) -> tuple[str, str]:
    what, hint = describe_value(value, "dpnp.asarray(array)", _INSTEAD)
    if place is None or hint != _INSTEAD:
        return what, hint
    return f"a {type(value).__name__} on {place_name(place)}", (
        'compile the kernel with target="cuda"' if place in ON_CUDA else
        "copy it to the device: dpnp.asarray(numpy.from_dlpack(array))" if place == 1 else _INSTEAD)
