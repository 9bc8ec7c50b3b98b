"""dpnp, as `tl_dpnp.runtime.array_package` has packages of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from operator import attrgetter
from typing import Any

import dpnp as xp

from tl_dpnp.runtime.preparation import prepare_launch
from tl_dpnp.runtime.sycl.devices import describe as describe_device
from tl_dpnp.runtime.sycl.dpctl_adapter import DEVICE_TYPES, address_of, element_offset
from tl_dpnp.runtime.sycl.dpnp_adapter import (
    become_plain,
    content_slot,
    dpnp_array_of,
    strides_are_bytes,
    usm_array_of,
    usm_arrays_of,
)
from tl_dpnp.runtime.sycl.dpnp_adapter import reverses_floor_division as _reverses_floor_division
from tl_dpnp.runtime.sycl.host_calls import CALLS_BEFORE
from tl_dpnp.runtime.sycl.memory_pool import MemoryPool
from tl_dpnp.runtime.sycl.tensor_adapter import get_coerced_usm_type, usm_ndarray
from tl_dpnp.target.targets import TargetName

__all__ = [
    "BARE_ARRAY", "CALLS_BEFORE", "CONTENT_SLOT", "Content", "DEVICE_TYPES", "LAST_FACT", "LAZY_BASE", "POOL",
    "REVERSES_FLOOR_DIVISION", "RUNS_IN_WARPS", "SETTLES_IN_PLACE", "TARGET", "WHERE", "address_of", "array_around",
    "array_facts", "base_of_addresses", "become_plain", "common_kind", "content_of", "contents_of", "describe",
    "element_strides_of", "first_element", "is_writable", "looks_function", "maker", "new_like", "ones", "prepare",
    "quick_maker", "singular_setting", "strides_are_bytes", "viewed", "xp",
]

TARGET: TargetName = "sycl"  # the setting of the target is for programs of the language
#: What says where `dpnp.empty` puts an array.
WHERE = ("device", "usm_type", "sycl_queue")
#: Memory for the results of plans.
POOL = MemoryPool()

LAZY_BASE: Any = xp.ndarray
SETTLES_IN_PLACE = True
RUNS_IN_WARPS = False
#: Where arrays of dpnp have their data, if they have no room for attributes.
CONTENT_SLOT = content_slot(xp.ndarray)
REVERSES_FLOOR_DIVISION = _reverses_floor_division(xp.ndarray)
BARE_ARRAY = object.__new__(xp.ndarray)

Content: Any = usm_ndarray
content_of, contents_of, array_around = usm_array_of, usm_arrays_of, dpnp_array_of
array_facts = attrgetter("shape", "strides", "dtype.num", "usm_type", "sycl_queue", "flags.writable")
LAST_FACT = "writable"
base_of_addresses = address_of
element_strides_of = attrgetter("strides")
is_writable = attrgetter("flags.writable")


def first_element(facts: tuple[Any, ...]) -> int:
    """Return 0: offsets count from the first element."""
    return 0


def viewed(
    content: Any, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None, offset: int = 0
) -> Any:
    """Return a view of a `usm_ndarray`; strides and offset are in elements of the dtype."""
    parts = content.itemsize // dtype.itemsize  # a view of complex numbers may be of their parts
    first = parts * element_offset(content) + offset if prod(shape) else 0  # what is empty begins anywhere
    return usm_ndarray(shape, dtype=dtype, buffer=content, strides=strides or None, offset=first)


def maker(shape: tuple[int, ...], dtype: Any, kind: str) -> Callable[[Any], Any]:
    """Return what makes a `usm_ndarray` in C order on a queue."""
    nbytes, name = dtype.itemsize * max(prod(shape), 1), dtype.str  # which takes dpctl less time than the dtype
    return lambda queue: usm_ndarray(shape, dtype=name, buffer=POOL.take(nbytes, kind, queue))


def ones(shape: Any, dtype: Any, queue: Any) -> Any:
    """Return an array of ones."""
    return xp.ones(shape, dtype=dtype, sycl_queue=queue)


def new_like(dtype: Any, kind: Any = "device", queue: Any = None) -> tuple[Any, str, Any]:
    """Return the dtype, USM type and queue of a new array."""
    like = xp.empty(0, dtype=dtype, usm_type=kind, sycl_queue=queue)
    return like.dtype, like.usm_type, like.sycl_queue


def common_kind(kinds: Iterable[str]) -> str:
    """Return the USM type of results of operands of several."""
    return get_coerced_usm_type([*kinds])  # type: ignore[no-any-return]


def singular_setting() -> None:
    """Return None: dpnp itself says what becomes of singular matrices."""


def describe(queue: Any) -> Any:
    """Return the device of a queue."""
    return describe_device(queue.sycl_device)


prepare = prepare_launch


#: There are none: `tl_dpnp.graph.short_plans` has quicker ways.
direct_call = quick_maker = None


def looks_function(values: Sequence[Any], queue: Any) -> Any:
    """See `tl_dpnp.runtime.sycl.host_functions.looks_function`."""
    from tl_dpnp.runtime.sycl.host_functions import looks_function  # brings LLVM

    return looks_function(values, queue)
