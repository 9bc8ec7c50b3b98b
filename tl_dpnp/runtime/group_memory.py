"""Arrays of a group that lie next to one another in memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tl_dpnp.errors import TLTypeError
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.layout import aligned
from tl_dpnp.runtime.forking import check_process
from tl_dpnp.runtime.grouping import group
from tl_dpnp.runtime.missing import needed

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["empty_group"]


def empty_group(
    shapes: Sequence[Sequence[int]], dtype: DTypeLike, *, device: Any = None, usm_type: str = "device",
    sycl_queue: Any = None,
) -> Group:
    """Make a group of new column-major dpnp arrays that share one allocation, one after another.

    `shapes` has a shape for each array, in elements; `dtype` is that of all.  Each array begins at a multiple of 64
    bytes, as ``memref<f32x16x8>`` wants it, and its values are undefined.  `device`, `usm_type` and
    `sycl_queue` are those of ``dpnp.empty``.  The arrays are ``group[i]``, or ``group.arrays``.

    Drivers begin each allocation at a multiple of some kilobytes, so that small arrays allocated one by one use few
    sets of the caches, and a memory page each; a batch of them takes up to 2.4 times as long as a batch in one array
    (docs/benchmarks.md, section "Groups of separate arrays").  The memory is freed with the last of the arrays.

    Raises `TLTypeError` for shapes that are none or a dtype that is none.
    """
    check_process()
    dpnp = needed("dpnp", "tl_dpnp.empty_group")
    from dpctl.memory import as_usm_memory

    from tl_dpnp.runtime.sycl.dpnp_adapter import dpnp_array_of
    from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray

    try:
        element = np.dtype(dtype)
    except TypeError as problem:
        raise TLTypeError(f"dtype={dtype!r} is not understood: {problem}") from None
    if element.kind not in "biufc":
        raise TLTypeError(f"dtype={dtype!r} is not understood: arrays on devices are of numbers, or bool")
    try:
        given = list(shapes)
    except TypeError:
        raise TLTypeError(f"empty_group takes a sequence of shapes, one for each array, not {shapes!r}") from None
    if given and all(isinstance(shape, int | np.integer) for shape in given):
        raise TLTypeError(f"empty_group takes a shape for each array, it was given one: write [{tuple(given)}] for a "
                          "group of one array")
    sizes = [_shape(position, shape) for position, shape in enumerate(given)]
    starts, end = [], 0
    for shape in sizes:  # no two arrays share a cache line
        starts.append(end // element.itemsize)
        end += aligned(math.prod(shape) * element.itemsize)
    memory = dpnp.get_usm_ndarray(dpnp.empty(
        end // element.itemsize, dtype=element, device=device, usm_type=usm_type, sycl_queue=sycl_queue))

    def array(shape: tuple[int, ...], start: int) -> Any:
        part = memory[start : start + math.prod(shape)]
        # dpctl copies all of the memory that an array belongs to when it is copied to the host: so it gets its own.
        owner = as_usm_memory(part) if part.size else memory
        return dpnp_array_of(usm_ndarray(shape, element, buffer=owner, order="F"))

    return group([array(shape, start) for shape, start in zip(sizes, starts, strict=True)])


def _shape(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise TLTypeError(f"shape {position} of the group is {shape!r}, no sequence of sizes")
    return sizes
