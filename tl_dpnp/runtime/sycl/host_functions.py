"""Functions for short calls: made of the machine code of a kernel, and of that which checks arguments.

Imports LLVM, which a process that only launches what it finds in the cache need not load.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tl_dpnp.errors import TLError
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.flattening import flatten
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.overlap import Footprint
from tl_dpnp.runtime.call.scalar_arguments import usual_values
from tl_dpnp.runtime.native_calls import ANY, INTEGER, describe_group, describe_scalar, native_function
from tl_dpnp.runtime.sycl.dpctl_adapter import ExecutionPlacementError, KernelHandle, native_interface
from tl_dpnp.runtime.sycl.dpnp_adapter import is_plain_dpnp_array
from tl_dpnp.runtime.sycl.host_call_code import MOST_SLOW, HostEmitter, HostParameter, HostRecord
from tl_dpnp.runtime.sycl.host_code_adapter import HostCode, HostCodeError, argument_offsets, load
from tl_dpnp.runtime.sycl.host_records import (
    NAMES,
    argument_types,
    describe_array,
    describe_fully,
    launch_function,
)
from tl_dpnp.runtime.sycl.opencl_programs_adapter import ProgramError, binary_of
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray
from tl_dpnp.runtime.watching import span, timed

__all__ = ["HostFunctions", "functions_of", "looks_function"]

#: Bytes of its thread's stack that a work-group may take: Python's threads have at least 32 KiB
#: (`threading.stack_size`) and 8 MiB by default.
_MOST_STACK = 1 << 18

Function = Callable[[tuple[Any, ...]], bool]

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
    with span("compile", f"machine code of {entry} for short calls", timed):
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

    def of_arguments(
        self, binding: Binding, launch: Any, arguments: Sequence[Any], looks: Sequence[Any]
    ) -> Function | None:
        """Return a function for calls of the launch with arguments that look like `looks`; None where there is none.

        `arguments` are those of the launch: the same, or the arrays of these with their axes reversed.
        """
        return _function_of_arguments(self, binding, launch, arguments, looks)


def functions_of(launch: Any, handle: KernelHandle, plan: LaunchPlan, longest: float) -> HostFunctions | str:
    """Return the functions of a launch of a loaded kernel, or why there are none."""
    if native_interface().fields is None:
        return "dpnp's arrays are not as expected"
    code = _code_of(handle, plan.entry, argument_types(launch.flat))
    if isinstance(code, str):
        return code
    made = _function_of_addresses(launch, code, longest)
    if made is None:
        return "it takes scalars that are rounded or taken apart before"
    return HostFunctions(code, plan, longest, *made)


def _function_of_addresses(
    launch: Any, code: HostCode, longest: float
) -> tuple[HostRecord, Function] | None:
    flat = launch.flat
    parameters = (HostParameter * (len(flat.addresses) + len(flat.scalars)))()
    offsets, _ = argument_offsets(argument_types(flat))
    for place, entry in zip(flat.addresses, parameters, strict=False):
        entry.kind, entry.type, entry.place, entry.most = INTEGER, id(int), offsets[place], (1 << 63) - 1
    for scalar, entry in zip(flat.scalars, parameters[len(flat.addresses):], strict=True):
        if not describe_scalar(entry, scalar.type, usual_values(scalar.type)[0]):
            return None
        entry.place = offsets[scalar.place]
    return launch_function(launch, code, longest, parameters, (), [])


def _function_of_arguments(
    functions: HostFunctions, binding: Binding, launch: Any, arguments: Sequence[Any], looks: Sequence[Any]
) -> Function | None:
    flat = launch.flat
    keep: list[Any] = []
    if any(isinstance(parameter.type, GroupType) and type(argument) is not Group
           for parameter, argument in zip(binding.parameters, looks, strict=True)):
        return None  # the next call with a list has tables of its own
    try:
        call = binding.bind(arguments, launch.group_size)
    except (TLError, ExecutionPlacementError):  # another thread has changed an argument: the next call says so
        return None
    footprint = Footprint(call, binding.program.usage.written)
    if not _is_for(launch, binding, call, functions.plan.parts):
        return None
    parameters = (HostParameter * len(arguments))()
    offsets, _ = argument_offsets(argument_types(flat))
    places, scalars = iter(flat.addresses), {scalar.position: scalar for scalar in flat.scalars}
    for position, (argument, parameter, entry) in enumerate(
            zip(looks, binding.parameters, parameters, strict=True)):
        match parameter.type:
            case MemrefType():
                entry.place = offsets[next(places)]
                view = call.arguments[position].views[0]
                if looks is not arguments:
                    view = view._replace(shape=view.shape[::-1], strides=view.strides[::-1])
                is_known = describe_array(entry, argument, view, keep)
                if position in binding.program.usage.written:
                    entry.flags = entry.mask = native_interface().writable
            case GroupType():
                is_known = describe_group(entry, argument)
            case _:
                scalar = scalars[position]
                entry.place = offsets[scalar.place]
                is_known = describe_scalar(entry, scalar.type, type(argument))
        if not is_known:
            return None
    pairs = [(offsets[flat.addresses[first]], offsets[flat.addresses[second]], *extents)
             for first, second, *extents in footprint.pairs]
    beside = [(offsets[flat.addresses[place]], *others) for place, *others in footprint.beside]
    return launch_function(launch, functions.code, functions.longest, parameters, pairs, keep, beside)[1]


def _is_for(launch: Any, binding: Binding, call: BoundCall, parts: int) -> bool:
    """Return whether a launch is that of a call: an argument may have changed since the launch was found."""
    def plain(values: Sequence[Any]) -> list[Any]:
        return [None if value is None else value.value for value in values]

    values = [*plain(flatten(binding, call, launch.queue, launch.flat.measured).values), call.groups * parts]
    return call.queue in (None, launch.queue) and plain(launch.flat.values[: len(values)]) == values


def looks_function(arguments: Sequence[Any], queue: Any) -> Function | None:
    """Return a function that says whether the arguments of a call look as these do; None where some cannot be compared.

    Arrays, of dpnp itself or dpctl, are compared by shape, strides, dtype, USM type, queue, and whether they are
    writable, all else by its class.  No two arguments may be the same array.  `queue` is that of the arrays, None where
    there are none.
    """
    keep: list[Any] = []
    parameters = (HostParameter * len(arguments))()
    if native_interface().fields is None:
        return None
    for argument, entry in zip(arguments, parameters, strict=True):
        if type(argument) is not usm_ndarray and not is_plain_dpnp_array(argument):
            entry.kind, entry.type = ANY, id(type(argument))
        elif not describe_fully(entry, argument, queue, keep):
            return None
    record = HostRecord(ctypes.addressof(parameters), len(parameters), array=id(NAMES[2]), array_type=id(usm_ndarray),
                        queue=0 if queue is None else queue.addressof_ref())
    return native_function(HostEmitter, record, (parameters, keep, queue))
