"""Functions for short calls that make their results: one checks the arguments, runs the kernel, and returns arrays.

Imports LLVM, as `tl_dpnp.runtime.sycl.host_functions` does.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from tl_dpnp.records import dataclass
from tl_dpnp.runtime.native_calls import ANY, describe_scalar
from tl_dpnp.runtime.sycl.dpctl_adapter import native_interface
from tl_dpnp.runtime.sycl.dpnp_adapter import is_plain_dpnp_array
from tl_dpnp.runtime.sycl.fixed_places import Fixed
from tl_dpnp.runtime.sycl.host_call_code import MOST_SLOW, HostParameter, HostRecord
from tl_dpnp.runtime.sycl.host_code_adapter import HostCode, argument_offsets
from tl_dpnp.runtime.sycl.host_records import argument_types, describe_fully, launch_function
from tl_dpnp.runtime.sycl.memory_pool import MemoryPool
from tl_dpnp.runtime.sycl.result_arrays import NewArray, ResultArrays, counts_are_known
from tl_dpnp.runtime.sycl.result_code import BY_ITSELF, Operand, Place, Result
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray
from tl_dpnp.scalars import F32, F64, ScalarType

__all__ = ["CallWithResults", "ResultFunction", "result_function"]


@dataclass(frozen=True)
class CallWithResults:
    """What a call consists of besides its launch.

    `arguments` are those of one call, whose looks all calls have.  `operands` has, for each array of the kernel, its
    position among the arguments and the results after them, and how many bytes behind its first element it begins.
    `scalars` has the kernel's: a number, or whether it is an argument and the position of that.  Of the `results`, the
    first `returned` are returned in a tuple, the first by itself if that is None, as arrays of dpnp if they `are_dpnp`,
    else of dpctl.  The call depends on what is `fixed`, and is counted in `calls`.
    """

    arguments: tuple[Any, ...]
    operands: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[bool, Any], ...]
    results: tuple[NewArray, ...]
    returned: int | None
    fixed: tuple[Fixed, ...]
    calls: ctypes.c_int64
    are_dpnp: bool = True


@dataclass(frozen=True)
class ResultFunction:
    """A function of the arguments of a call, which returns False for others, and where it has no array for a result."""

    run: Callable[[tuple[Any, ...]], Any]
    arrays: tuple[ResultArrays, ...]
    record: HostRecord

    @property
    def is_slow(self) -> bool:
        """Whether the calls have taken too long too often, and are refused from now on."""
        return bool(self.record.slow >= MOST_SLOW)

    def renew(self) -> None:
        """Make an array more for each result if a call was refused because one was missing."""
        if self.record.misses:
            self.record.misses = 0
            for arrays in self.arrays:
                arrays.renew()


def result_function(
    launch: Any, code: HostCode, longest: float, call: CallWithResults, pool: MemoryPool
) -> ResultFunction | None:
    """Return a function for calls like one of a launch, None where there is none.

    `longest` is how many seconds a call may take on one thread.  Results are in memory of `pool`.
    """
    interface = native_interface()
    if interface.fields is None or not counts_are_known():
        return None
    keep: list[Any] = []
    _, size = argument_offsets(argument_types(launch.flat))
    parameters = _parameters(call, launch, size, keep)
    operands = _operands(call, launch, size)
    if parameters is None or operands is None:
        return None
    arrays = tuple(ResultArrays(kind, launch.queue, pool) for kind in call.results)
    results = (Result * len(arrays))()
    for number, (made, entry) in enumerate(zip(arrays, results, strict=True)):
        first, looks = made.renew(), HostParameter()
        if first is None or not describe_fully(looks, first, launch.queue, keep):
            return None
        entry.table, entry.place = ctypes.addressof(made.table), size + 8 * (len(parameters) + number)
        entry.looks, entry.size = ctypes.addressof(looks), type(first).__basicsize__ // 8
        keep += [made, looks]
    entries, fixed = operands
    places = (Place * len(call.fixed))(*(Place(*map(id, place[:3]), place.is_attribute) for place in call.fixed))
    keep += [results, entries, places, call.fixed, call.calls, sys.modules["dpnp"]]
    record, run = launch_function(
        launch, code, longest, parameters, (), keep, fixed=fixed, more_values=len(parameters) + len(arrays),
        results=ctypes.addressof(results), result_count=len(arrays), operands=ctypes.addressof(entries),
        operand_count=len(entries), returned=BY_ITSELF if call.returned is None else call.returned,
        array_class=id(sys.modules["dpnp"].ndarray) if call.are_dpnp else 0, places=ctypes.addressof(places),
        place_count=len(places), calls=ctypes.addressof(call.calls),
    )
    return ResultFunction(run, arrays, record)


def _parameters(call: CallWithResults, launch: Any, size: int, keep: list[Any]) -> Any:
    """Return what the arguments must be, which go behind the `size` bytes of the kernel's; None where one may not be.
    """
    parameters = (HostParameter * len(call.arguments))()
    scalars = {call.scalars[scalar.position][1]: F64 if scalar.type in (F32, F64) else scalar.type
               for scalar in launch.flat.scalars if call.scalars[scalar.position][0]}
    for position, (argument, entry) in enumerate(zip(call.arguments, parameters, strict=True)):
        entry.place = size + 8 * position
        if is_plain_dpnp_array(argument) or type(argument) is usm_ndarray:
            if not describe_fully(entry, argument, launch.queue, keep):
                return None
        elif position not in scalars:
            entry.kind, entry.type = ANY, id(type(argument))
        elif not describe_scalar(entry, scalars[position], type(argument)):
            return None
    return parameters


def _operands(call: CallWithResults, launch: Any, size: int) -> tuple[Any, dict[int, Any]] | None:
    """Return where the kernel's arrays and scalars come from, and the scalars that stay, by their places; None where a
    number is an integer to one parameter and a float to another."""
    offsets, _ = argument_offsets(argument_types(launch.flat))
    entries = [Operand(size + 8 * source, more, offsets[place], 0)
               for place, (source, more) in zip(launch.flat.addresses, call.operands, strict=True)]
    fixed: dict[int, Any] = {}
    types: dict[int, ScalarType] = {}
    for scalar in launch.flat.scalars:
        is_argument, number = call.scalars[scalar.position]
        if not is_argument:
            fixed[scalar.place] = scalar.convert(number)
            continue
        entries.append(Operand(size + 8 * number, 0, offsets[scalar.place], scalar.type == F32))
        type_ = F64 if scalar.type in (F32, F64) else scalar.type
        if types.setdefault(number, type_) != type_:
            return None
    return (Operand * len(entries))(*entries), fixed
