"""dpnp and dpctl arrays, and others on SYCL devices, as the runtime sees them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tl_dpnp.runtime.call.arrays import ArrayKind, ArrayView, NotAnArray
from tl_dpnp.runtime.sycl.dpctl_adapter import (
    ExecutionPlacementError,
    address_of,
    array_facts,
    placed_array_facts,
    upload,
)
from tl_dpnp.runtime.sycl.dpnp_adapter import is_dpnp_array, usm_array_of, usm_arrays_of
from tl_dpnp.runtime.sycl.imports import imported_array
from tl_dpnp.runtime.sycl.lists import ArrayList
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray

__all__ = ["USM_ARRAYS", "common_queue", "usm_array", "view_of"]


def usm_array(value: object) -> Any | None:
    """Return the `usm_ndarray` of a dpnp or dpctl array, None for anything else."""
    if isinstance(value, usm_ndarray):
        return value
    return usm_array_of(value) if is_dpnp_array(value) else None


def view_of(value: object) -> ArrayView:
    """Return the view of a dpnp or dpctl array, or of another one on a SYCL device; raises `NotAnArray`."""
    array = usm_array(value)
    if array is None:
        array = imported_array(value)
    return ArrayView(array, address_of(array), array.shape, array.strides, array.dtype, array.sycl_queue,
                     bool(array.flags.writable))


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
                "dpnp.asarray(array, sycl_queue=other.sycl_queue)"  # dpnp's to_device takes C order only
            )
    return queue


def _queue_text(queue: Any) -> str:
    device, part = queue.sycl_device, ""
    while device.parent_device is not None:  # only root devices have filters
        device, part = device.parent_device, f"{part}a part of "
    return f"{part}{device.filter_string} at {id(queue):#x}"


def _arrays_of(arguments: Sequence[Any]) -> list[Any]:
    """Return the `usm_ndarray` of each array, and what stands for each list of arrays.

    Raises `TypeError` for anything else, which binding has words for.
    """
    try:
        return usm_arrays_of(arguments)
    except AttributeError:
        pass
    try:
        return [ArrayList(_arrays_of(argument)) if isinstance(argument, list | tuple) else
                imported_array(argument) if (array := usm_array(argument)) is None else array
                for argument in arguments]
    except NotAnArray:
        raise TypeError from None


def _address_of(array: Any) -> int:
    return array.address if type(array) is ArrayList else address_of(array)


def _facts(array: Any) -> Hashable:
    return array.facts if type(array) is ArrayList else array_facts(array)


def _placed_facts(array: Any) -> Hashable:
    return (array.facts, array.addresses.tobytes()) if type(array) is ArrayList else placed_array_facts(array)


USM_ARRAYS = ArrayKind(view_of, _arrays_of, _facts, _placed_facts, _address_of, common_queue, upload)
