"""Records of launches for machine code: what the arguments of a call must be, and where the kernel takes them.

Imports LLVM, as `tl_dpnp.runtime.sycl.host_functions` does.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.flattening import FlatArguments
from tl_dpnp.runtime.call.scalar_arguments import carrying_type
from tl_dpnp.runtime.native_calls import ARRAY, LIST, OBJECT, native_function
from tl_dpnp.runtime.sycl.arrays import view_of
from tl_dpnp.runtime.sycl.batches import Batch
from tl_dpnp.runtime.sycl.dpctl_adapter import native_interface
from tl_dpnp.runtime.sycl.dpnp_adapter import ARRAY_ATTRIBUTE, is_plain_dpnp_array, usm_array_of
from tl_dpnp.runtime.sycl.host_call_code import ANY_SIZE, HostEmitter, HostParameter, HostRecord
from tl_dpnp.runtime.sycl.host_code_adapter import HostCode, argument_offsets
from tl_dpnp.runtime.sycl.memory_pool import MEMORY_TYPES
from tl_dpnp.runtime.sycl.overlap_code import Beside, Pair
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray

__all__ = ["NAMES", "argument_types", "describe_array", "describe_fully", "describe_list", "launch_function"]

#: Names that machine code looks attributes up by; they live as long as the process.
NAMES = tuple(map(sys.intern, ("acquire", "release", ARRAY_ATTRIBUTE)))


def argument_types(flat: FlatArguments) -> list[Any]:
    """Return the ctypes types of a kernel's arguments."""
    types = [ctypes.c_longlong if value is None else type(value) for value in flat.values]
    for scalar in flat.scalars:
        types[scalar.place] = carrying_type(scalar.type)
    return types


def launch_function(
    launch: Any, code: HostCode, longest: float, parameters: Any, pairs: Sequence[tuple[int, ...]], keep: list[Any],
    beside: Sequence[tuple[Any, ...]] = (), *, fixed: Mapping[int, Any] = MappingProxyType({}), more_values: int = 0,
    listed: int = 0, batch: Batch | None = None, **fields: int,
) -> tuple[HostRecord, Callable[[tuple[Any, ...]], Any]]:
    """Return the record of a launch, and the function for it.

    `pairs` are the fields of each `Pair`; `beside` those of each `Beside`, with lists in the place of addresses.
    `fixed` are values of ctypes for scalars, by their places among the arguments.  There is room for `more_values`
    behind what the kernel takes, and `listed` arrays are in lists.  With a `batch`, calls may have another size of it.
    `fields` are others of the record.
    """
    flat = launch.flat
    offsets, size = argument_offsets(argument_types(flat))
    values = (ctypes.c_int64 * (size // 8 + more_values))()
    for place, (offset, value) in enumerate(zip(offsets, flat.values, strict=True)):
        value = fixed.get(place, value)
        if value is not None:
            ctypes.memmove(ctypes.addressof(values) + offset, ctypes.addressof(value), ctypes.sizeof(value))
    apart = (Pair * len(pairs))(*(Pair(*pair) for pair in pairs))
    tables = [tuple((ctypes.c_int64 * len(table))(*table) for table in entry[-2:]) for entry in beside]
    near = (Beside * len(beside))(*(
        Beside(*entry[:-2], len(both[0]), *map(ctypes.addressof, both))
        for entry, both in zip(beside, tables, strict=True)))
    sizes = (ctypes.c_int64 * (0 if batch is None else len(batch.places)))(
        *(() if batch is None else [offsets[place] for place in batch.places]))
    record = HostRecord(
        ctypes.addressof(parameters), len(parameters), ctypes.addressof(values), len(values),
        launch.queue.addressof_ref(), id(launch.turn.lock), ctypes.addressof(launch.turn.counts), *map(id, NAMES),
        id(usm_ndarray), ctypes.addressof(apart), len(apart), code.address, *_batch_fields(launch, batch),
        ctypes.addressof(sizes), len(sizes), offsets[-2], round(longest * 1e9),
        beside=ctypes.addressof(near), beside_count=len(near), listed=listed, **fields,
    )
    alive = (parameters, values, sizes, apart, near, tables, keep, code, launch.queue, launch.turn, launch.keep)
    return record, native_function(HostEmitter, record, alive)


def _batch_fields(launch: Any, batch: Batch | None) -> tuple[int, int, int, int]:
    """Return the batch, the least and the most that it may be, and how many work-groups each of it is."""
    return (launch.groups,) * 3 + (1,) if batch is None else (ANY_SIZE, batch.least, batch.most, batch.parts)


def describe_array(
    entry: HostParameter, array: Any, view: ArrayView, keep: list[Any], batch_axis: int | None = None
) -> bool:
    """Write what an array looks like, as its view has it; returns False for one of a class of the user's.

    Along the axis of the batch it may have any size.
    """
    entry.type = id(type(array))
    if type(array) is not usm_ndarray and not is_plain_dpnp_array(array):
        return False
    entry.kind = ARRAY if type(array) is usm_ndarray else OBJECT
    shape, strides = tuple(view.shape), tuple(view.strides)
    shapes = [shape]
    dims = (ctypes.c_int64 * (2 * len(shape)))(*shape, *strides)
    if batch_axis is not None:
        dims[batch_axis] = ANY_SIZE
        shapes.append((*shape[:batch_axis], shape[batch_axis] + 1, *shape[batch_axis + 1 :]))
    keep.append(dims)
    entry.form, entry.dims, entry.modes = view.dtype.num, ctypes.addressof(dims), len(shape)
    in_c, in_fortran = native_interface().orders
    entry.orders = (in_c * all(strides == _in_order(each[::-1])[::-1] for each in shapes)
                    | in_fortran * all(strides == _in_order(each) for each in shapes))
    return True


def describe_list(
    entry: HostParameter, arrays: Sequence[Any], views: Sequence[ArrayView], flags: int, keep: list[Any]
) -> bool:
    """Write what the arrays of a list look like, as their views have it, all of which have some `flags`.

    Arrays that look alike are described once.  Returns False for one of a class of the user's, and for a list of such a
    class, whose methods would run while it is looked at.
    """
    if type(arrays) not in (list, tuple):
        return False
    looks = [(type(array), view.shape, view.strides, view.dtype) for array, view in zip(arrays, views, strict=True)]
    count = 1 if looks and looks.count(looks[0]) == len(looks) else len(looks)
    elements = (HostParameter * count)()
    keep.append(elements)
    entry.kind, entry.type, entry.length = LIST, id(type(arrays)), len(arrays)
    entry.elements, entry.step = ctypes.addressof(elements), 0 if count == 1 else ctypes.sizeof(HostParameter)
    for element, array, view in zip(elements, arrays, views, strict=False):
        element.flags = element.mask = flags
        if not describe_array(element, array, view, keep):
            return False
    return True


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of an array whose first mode is contiguous, as dpctl gives them where it keeps none."""
    return tuple(itertools.accumulate(shape[:-1], operator.mul, initial=1)) if shape else ()


def describe_fully(entry: HostParameter, array: Any, queue: Any, keep: list[Any]) -> bool:
    """Write what an array looks like, USM type and whether it is writable included; returns False for one that is on
    another queue, or in memory of a class that does not say its type.
    """
    view = view_of(array)
    describe_array(entry, array, view, keep)
    writable = native_interface().writable
    entry.mask, entry.flags = writable, writable * view.writable
    memory = type((array if type(array) is usm_ndarray else usm_array_of(array)).usm_data)
    entry.memory = id(memory)
    return memory in MEMORY_TYPES.values() and bool(view.queue == queue)
