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
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.flattening import FlatArguments, flatten
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.overlap import Footprint, has_address
from tl_dpnp.runtime.call.scalar_arguments import usual_values
from tl_dpnp.runtime.native_calls import ANY, INTEGER, SIZE, describe_group, describe_scalar, native_function
from tl_dpnp.runtime.sycl.dpctl_adapter import ExecutionPlacementError, KernelHandle, native_interface
from tl_dpnp.runtime.sycl.dpnp_adapter import is_plain_dpnp_array
from tl_dpnp.runtime.sycl.host_call_code import MOST_SLOW, TIME_BITS, HostEmitter, HostParameter, HostRecord
from tl_dpnp.runtime.sycl.host_code_adapter import HostCode, HostCodeError, argument_offsets, load
from tl_dpnp.runtime.sycl.host_records import (
    NAMES,
    argument_types,
    describe_array,
    describe_fully,
    describe_list,
    launch_function,
)
from tl_dpnp.runtime.sycl.opencl_programs_adapter import ProgramError, binary_of
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray
from tl_dpnp.runtime.watching import span, timed
from tl_dpnp.target.catalog import SHORT_CALLS

__all__ = ["HostFunctions", "functions_of", "looks_function"]

#: Bytes of its thread's stack that a work-group may take: Python's threads have at least 32 KiB
#: (`threading.stack_size`) and 8 MiB by default.
_MOST_STACK = 1 << 18
#: Arrays in the lists of a call whose addresses are kept there too, and arrays that are compared with one another.
_MOST_LISTED, _MOST_PAIRS = 1 << 12, 1 << 12

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
    """The machine code of a launch and its function, of a tuple of addresses, scalars, and the size of the batch if
    that may be another one, with the record of that.

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

    def take_too_long(self, groups: int) -> bool:
        """Whether the function refuses calls with so many work-groups as taking too long."""
        return self._expected(groups) > int(self.record.longest)

    def are_worth_sharing(self, groups: int) -> bool:
        """Whether calls with so many work-groups are long enough for helpers."""
        return self._expected(groups) >= SHORT_CALLS.worth_sharing

    def _expected(self, groups: int) -> int:
        """Return how many nanoseconds a call with so many work-groups takes on one thread, 0 if that is not known."""
        return int(self.record.alone * groups >> TIME_BITS)

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
    batch = launch.batch
    parameters = (HostParameter * (len(flat.addresses) + len(flat.scalars) + (batch is not None)))()
    offsets, _ = argument_offsets(argument_types(flat))
    for place, entry in zip(flat.addresses, parameters, strict=False):
        entry.kind, entry.type, entry.place, entry.most = INTEGER, id(int), offsets[place], (1 << 63) - 1
    for scalar, entry in zip(flat.scalars, parameters[len(flat.addresses):], strict=False):
        if not describe_scalar(entry, scalar.type, usual_values(scalar.type)[0]):
            return None
        entry.place = offsets[scalar.place]
    if batch is not None:
        entry = parameters[-1]
        entry.kind, entry.type, entry.place = SIZE, id(int), offsets[-3]
        entry.least, entry.most = batch.least, batch.most
    return launch_function(launch, code, longest, parameters, (), [], batch=batch)


def _function_of_arguments(
    functions: HostFunctions, binding: Binding, launch: Any, arguments: Sequence[Any], looks: Sequence[Any]
) -> Function | None:
    flat = launch.flat
    keep: list[Any] = []
    try:
        call = binding.bind(arguments, launch.group_size)
    except (TLError, ExecutionPlacementError):  # another thread has changed an argument: the next call says so
        return None
    footprint = Footprint(call, binding.program.usage.written)
    if not _is_for(launch, binding, call, functions.plan.parts):
        return None
    if not _are_few(footprint):
        return None
    parameters = (HostParameter * len(arguments))()
    offsets, size = argument_offsets(argument_types(flat))
    tables, listed = _tables_of(footprint, offsets, flat.addresses, size)
    batched = {} if launch.batch is None else launch.batch.arrays
    places, scalars = iter(flat.addresses), {scalar.position: scalar for scalar in flat.scalars}
    for position, (argument, parameter, entry) in enumerate(
            zip(looks, binding.parameters, parameters, strict=True)):
        match parameter.type:
            case MemrefType() | GroupType() if type(argument) is not Group:
                entry.place = offsets[place := next(places)]
                views: Sequence[ArrayView] = call.arguments[position].views
                if looks is not arguments:
                    views = [view._replace(shape=view.shape[::-1], strides=view.strides[::-1]) for view in views]
                axis = None if position not in batched else len(views[0].shape) - 1 if looks is arguments else 0
                flags = native_interface().writable if position in binding.program.usage.written else 0
                if isinstance(parameter.type, GroupType):
                    is_known, entry.table = describe_list(entry, argument, views, flags, keep), tables[place]
                else:
                    is_known, entry.flags, entry.mask = describe_array(
                        entry, argument, views[0], keep, axis), flags, flags
            case GroupType():
                is_known = describe_group(entry, argument)
            case _:
                scalar = scalars[position]
                entry.place = offsets[scalar.place]
                is_known = describe_scalar(entry, scalar.type, type(argument))
        if not is_known:
            return None
    steps = [batched.get(position, 0) for position, argument in enumerate(call.arguments) if has_address(argument)]
    moving = [(tables[place], argument.length, argument.low, argument.high - step * call.groups, step)
              for place, argument, step in zip(flat.addresses, footprint.placed, steps, strict=True)]
    pairs = [(*moving[first], *moving[second]) for first, second in footprint.pairs]
    beside = [(*moving[number], *others) for number, *others in footprint.beside]
    return launch_function(launch, functions.code, functions.longest, parameters, pairs, keep, beside, listed=listed,
                           batch=launch.batch)[1]


def _are_few(footprint: Footprint) -> bool:
    """Whether the lists of a call are so short that machine code may keep their tables on its stack, and compare each
    array with each where they may not overlap."""
    counts = [argument.length for argument in footprint.placed]
    return sum(counts) <= _MOST_LISTED and sum(counts[one] * counts[two] for one, two in footprint.pairs) <= _MOST_PAIRS


def _tables_of(
    footprint: Footprint, offsets: Sequence[int], addresses: Sequence[int], size: int
) -> tuple[dict[int, int], int]:
    """Return where the addresses of each argument are, in bytes from the first value, by their places in the flat
    arguments, which take `size` bytes; those of lists follow.  Also returns how many the latter are."""
    tables, listed = {}, 0
    for place, argument in zip(addresses, footprint.placed, strict=True):
        tables[place] = size + 8 * listed if argument.is_listed else offsets[place]
        listed += argument.length if argument.is_listed else 0
    return tables, listed


def _is_for(launch: Any, binding: Binding, call: BoundCall, parts: int) -> bool:
    """Return whether a launch is that of a call: an argument may have changed since the launch was found."""
    def plain(flat: FlatArguments) -> list[Any]:
        # Lists have tables of sizes of their own in each call.
        sizes = {table.dope.address: table.rows.tolist() for table in flat.tables
                 if table.dope is not None and table.rows is not None}
        return [None if value is None else sizes.get(value.value, value.value) for value in flat.values]

    values = [*plain(flatten(binding, call, launch.queue, launch.flat.measured)), call.groups * parts]
    return call.queue in (None, launch.queue) and plain(launch.flat)[: len(values)] == values


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
