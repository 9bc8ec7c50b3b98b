"""Functions for short calls: made of the machine code of a kernel, and of that which checks arguments.

Imports LLVM, which a process that only launches what it finds in the cache need not load.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tl_dpnp.errors import TLError
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.flattening import FlatArguments, flatten
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.overlap import Footprint
from tl_dpnp.runtime.call.scalar_arguments import carrying_type
from tl_dpnp.runtime.native_calls import ANY, ARRAY, INTEGER, OBJECT, describe_group, describe_scalar, native_function
from tl_dpnp.runtime.sycl.arrays import view_of
from tl_dpnp.runtime.sycl.dpctl_adapter import ExecutionPlacementError, KernelHandle, native_interface
from tl_dpnp.runtime.sycl.dpnp_adapter import ARRAY_ATTRIBUTE, is_plain_dpnp_array
from tl_dpnp.runtime.sycl.host_call_code import MOST_SLOW, HostEmitter, HostParameter, HostRecord, Pair
from tl_dpnp.runtime.sycl.host_code_adapter import HostCode, HostCodeError, argument_offsets, load
from tl_dpnp.runtime.sycl.opencl_programs_adapter import ProgramError, binary_of
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray

__all__ = ["HostFunctions", "functions_of", "looks_function"]

#: Bytes of its thread's stack that a work-group may take: Python's threads have at least 32 KiB
#: (`threading.stack_size`) and 8 MiB by default.
_MOST_STACK = 1 << 18

Function = Callable[[tuple[Any, ...]], bool]

#: Names that machine code looks attributes up by; they live as long as the process.
_NAMES = tuple(map(sys.intern, ("acquire", "release", ARRAY_ATTRIBUTE)))

_codes_lock = threading.Lock()
_codes: weakref.WeakKeyDictionary[KernelHandle, HostCode | str] = weakref.WeakKeyDictionary()


def _code_of(handle: KernelHandle, entry: str, types: Sequence[Any]) -> HostCode | str:
    """Return the loaded machine code of a kernel, or why there is none."""
    with _codes_lock:
        if handle not in _codes:
            _codes[handle] = _load(handle, entry, types)
        return _codes[handle]


def _load(handle: KernelHandle, entry: str, types: Sequence[Any]) -> HostCode | str:
    stack = handle.kernel.private_mem_size
    if stack > _MOST_STACK:
        return f"a work-group takes {stack} bytes of its thread's stack"
    try:
        return load(binary_of(handle), entry, types)
    except (HostCodeError, ProgramError) as problem:
        return str(problem)


@dataclass(frozen=True)
class HostFunctions:
    """The machine code of a launch and its function, of a tuple of addresses and scalars, with the record of that.

    It takes `longest` seconds at most, on one thread.
    """

    code: HostCode
    plan: LaunchPlan
    longest: float
    record: HostRecord
    of_addresses: Function

    @property
    def are_slow(self) -> bool:
        """Whether the function has taken too long too often, and refuses all calls."""
        return bool(self.record.slow >= MOST_SLOW)

    def of_arguments(self, binding: Binding, launch: Any, arguments: Sequence[Any]) -> Function | None:
        """Return a function of the arguments of a call like this one, of the launch; None where there is none."""
        return _function_of_arguments(self, binding, launch, arguments)


def functions_of(launch: Any, handle: KernelHandle, plan: LaunchPlan, longest: float) -> HostFunctions | str:
    """Return the functions of a launch of a loaded kernel, or why there are none."""
    if native_interface().fields is None:
        return "dpnp's arrays are not as expected"
    code = _code_of(handle, plan.entry, _types(launch.flat))
    if isinstance(code, str):
        return code
    made = _function_of_addresses(launch, code, longest)
    if made is None:
        return "it takes scalars that are rounded or taken apart before"
    return HostFunctions(code, plan, longest, *made)


def _types(flat: FlatArguments) -> list[Any]:
    """Return the ctypes types of a kernel's arguments."""
    types = [ctypes.c_longlong if value is None else type(value) for value in flat.values]
    for scalar in flat.scalars:
        types[scalar.place] = carrying_type(scalar.type)
    return types


def _function_of_addresses(
    launch: Any, code: HostCode, longest: float
) -> tuple[HostRecord, Function] | None:
    flat = launch.flat
    parameters = (HostParameter * (len(flat.addresses) + len(flat.scalars)))()
    offsets, _ = argument_offsets(_types(flat))
    for place, entry in zip(flat.addresses, parameters, strict=False):
        entry.kind, entry.type, entry.place, entry.most = INTEGER, id(int), offsets[place], (1 << 63) - 1
    for scalar, entry in zip(flat.scalars, parameters[len(flat.addresses):], strict=True):
        if not describe_scalar(entry, scalar.type):
            return None
        entry.place = offsets[scalar.place]
    return _function(launch, code, longest, parameters, (), [])


def _function_of_arguments(
    functions: HostFunctions, binding: Binding, launch: Any, arguments: Sequence[Any]
) -> Function | None:
    flat = launch.flat
    keep: list[Any] = []
    if any(isinstance(parameter.type, GroupType) and type(argument) is not Group
           for parameter, argument in zip(binding.parameters, arguments, strict=True)):
        return None  # the next call with a list has tables of its own
    try:
        call = binding.bind(arguments)
    except (TLError, ExecutionPlacementError):  # another thread has changed an argument: the next call says so
        return None
    footprint = Footprint(call, binding.program.usage.written)
    if footprint.is_beside_groups or not _is_for(launch, binding, call, functions.plan.parts):
        return None
    parameters = (HostParameter * len(arguments))()
    offsets, _ = argument_offsets(_types(flat))
    places, scalars = iter(flat.addresses), {scalar.position: scalar for scalar in flat.scalars}
    for position, (argument, parameter, entry) in enumerate(
            zip(arguments, binding.parameters, parameters, strict=True)):
        match parameter.type:
            case MemrefType():
                entry.place = offsets[next(places)]
                view = call.arguments[position].views[0]
                is_known = _describe_array(entry, argument, view, keep)
                if position in binding.program.usage.written:
                    entry.flags = entry.mask = native_interface().writable
            case GroupType():
                is_known = describe_group(entry, argument)
            case _:
                scalar = scalars[position]
                entry.place = offsets[scalar.place]
                is_known = describe_scalar(entry, scalar.type) and entry.type == id(type(argument))
        if not is_known:
            return None
    pairs = [(offsets[flat.addresses[first]], offsets[flat.addresses[second]], *extents)
             for first, second, *extents in footprint.pairs]
    return _function(launch, functions.code, functions.longest, parameters, pairs, keep)[1]


def _is_for(launch: Any, binding: Binding, call: BoundCall, parts: int) -> bool:
    """Return whether a launch is that of a call: an argument may have changed since the launch was found."""
    def plain(values: Sequence[Any]) -> list[Any]:
        return [None if value is None else value.value for value in values]

    values = [*plain(flatten(binding, call, launch.queue, launch.flat.measured).values), call.groups * parts]
    return call.queue in (None, launch.queue) and plain(launch.flat.values[: len(values)]) == values


def _function(
    launch: Any, code: HostCode, longest: float, parameters: Any, pairs: Sequence[tuple[int, ...]], keep: list[Any]
) -> tuple[HostRecord, Function]:
    """Return the record of a launch, and the function for it."""
    flat = launch.flat
    offsets, size = argument_offsets(_types(flat))
    values = (ctypes.c_int64 * (size // 8))()
    for offset, value in zip(offsets, flat.values, strict=True):
        if value is not None:
            ctypes.memmove(ctypes.addressof(values) + offset, ctypes.addressof(value), ctypes.sizeof(value))
    apart = (Pair * len(pairs))(*(Pair(*pair) for pair in pairs))
    record = HostRecord(
        ctypes.addressof(parameters), len(parameters), ctypes.addressof(values), len(values),
        launch.queue.addressof_ref(), id(launch.turn), *map(id, _NAMES), id(usm_ndarray), ctypes.addressof(apart),
        len(apart), code.address, launch.global_range[0], round(longest * 1e9),
        groups=flat.values[-3].value, chunk=offsets[-2],
    )
    alive = (parameters, values, apart, keep, code, launch.queue, launch.turn, launch.keep)
    return record, native_function(HostEmitter, record, alive)


def _describe_array(entry: HostParameter, array: Any, view: ArrayView, keep: list[Any]) -> bool:
    """Write what an array looks like, as its view has it; returns False for one of a class of the user's."""
    entry.type = id(type(array))
    if type(array) is not usm_ndarray and not is_plain_dpnp_array(array):
        return False
    entry.kind = ARRAY if type(array) is usm_ndarray else OBJECT
    shape, strides = tuple(view.shape), tuple(view.strides)
    dims = (ctypes.c_int64 * (2 * len(shape)))(*shape, *strides)
    keep.append(dims)
    entry.form, entry.dims, entry.modes = view.dtype.num, ctypes.addressof(dims), len(shape)
    in_c, in_fortran = native_interface().orders
    entry.orders = in_c * (strides == _in_order(shape[::-1])[::-1]) | in_fortran * (strides == _in_order(shape))
    return True


def _in_order(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of an array whose first mode is contiguous, as dpctl gives them where it keeps none."""
    return tuple(itertools.accumulate(shape[:-1], operator.mul, initial=1)) if shape else ()


def looks_function(arguments: Sequence[Any], queue: Any) -> Function | None:
    """Return a function that says whether the arguments of a call look as these do; None where some cannot be compared.

    Arrays, of dpnp itself or dpctl, are compared by shape, strides, dtype, USM type, queue, and whether they are
    writable, all else by its class.  No two arguments may be the same object.
    """
    keep: list[Any] = []
    parameters = (HostParameter * len(arguments))()
    native, context = native_interface(), queue.sycl_context
    if native.fields is None:
        return None
    type_of = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(native.DPCTLUSM_GetPointerType)
    for argument, entry in zip(arguments, parameters, strict=True):
        if type(argument) is not usm_ndarray and not is_plain_dpnp_array(argument):
            entry.kind, entry.type = ANY, id(type(argument))
            continue
        view = view_of(argument)
        _describe_array(entry, argument, view, keep)
        entry.mask, entry.flags = native.writable, native.writable * view.writable
        entry.usm_type = type_of(view.address, context.addressof_ref())
        if view.queue != queue or not entry.usm_type:
            return None
    record = HostRecord(ctypes.addressof(parameters), len(parameters), queue=queue.addressof_ref(), array=id(_NAMES[2]),
                        array_type=id(usm_ndarray), context=context.addressof_ref())
    return native_function(HostEmitter, record, (parameters, keep, queue, context))
