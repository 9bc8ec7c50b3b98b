"""A launch with all its arguments checked and in place, to be used again and again."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from tl_dpnp.errors import Diagnostic, Span, TLBindingError, TLBoundsError, TLError
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.arguments import BoundCall, GroupArgument, MemrefArgument
from tl_dpnp.runtime.binding import Binding
from tl_dpnp.runtime.dpctl_adapter import Int64, KernelHandle, SubmitError, completed_event, scratch
from tl_dpnp.runtime.flattening import Scalar, flatten

__all__ = ["Launch", "LaunchMemo", "chunk_of", "prepare"]

#: Vector FMAs that one work-item of the vector form should compute, to hide the cost of starting it: about 10 ns
#: against 15 µs.
_TARGET_WORK = 60_000
#: Work-items for each compute unit that must remain, so that the load can be balanced.
_ITEMS_PER_UNIT = 4
_CHECK_RECORD_LENGTH = 5
#: Bytes of cache for each core where the device does not tell.
_ASSUMED_CACHE = 1 << 20
#: Work-items that SYCL takes in one launch: dpctl's kernels number them with 32-bit integers.
_MOST_WORK_ITEMS = (1 << 31) - 1


def chunk_of(plan: LaunchPlan, groups: int, compute_units: int) -> int:
    """Return how many work-groups of the language one work-item of the vector form runs; 1 in the sub-group form."""
    if plan.form != "vector":
        return 1
    most = -(-groups // (_ITEMS_PER_UNIT * compute_units))
    return max(1, min(_TARGET_WORK // max(1, plan.work), most))


def exceeds_caches(call: BoundCall, device: DeviceDescription) -> bool:
    """Return whether the arrays of a call take more than the caches that the cores have for themselves (level 2)."""
    total = 0
    for argument in call.arguments:
        match argument:
            case MemrefArgument(view=view):
                total += view.nbytes
            case GroupArgument(views=views):
                total += sum(view.nbytes for view in views)
            case None:
                pass
    own = device.caches[1] if len(device.caches) > 1 else _ASSUMED_CACHE
    return total > own * device.compute_units


@dataclass(frozen=True)
class Launch:
    """A kernel with its ranges and arguments; the places of the scalars are filled at each call.

    `keep` are objects that must live until the kernel has run.
    """

    kernel: Any
    queue: Any
    flat: list[Any]
    scalars: tuple[Scalar, ...]
    global_range: list[int]
    local_range: list[int]
    keep: tuple[object, ...]

    def start(self, arguments: Sequence[Any], depends: list[Any] | None = None) -> Any:
        """Submit the kernel and return its `dpctl.SyclEvent`."""
        flat = self.flat
        if self.scalars:
            flat = flat.copy()
            for place, position, convert in self.scalars:
                flat[place] = convert(arguments[position])
        if self.global_range[0] == 0:
            return completed_event(self.queue, depends or ())
        try:
            return self.queue.submit_async(self.kernel, flat, self.global_range, self.local_range, depends)
        except SubmitError as error:
            raise TLError(f"the driver of {self.queue.sycl_device.name} refuses the launch of "
                          f"{self.global_range} work-items in work-groups of {self.local_range}: {error}") from error


@dataclass(frozen=True)
class CheckedLaunch(Launch):
    """A launch of a kernel that was compiled with ``debug=True``: it ends with the check of its record."""

    plan: LaunchPlan
    text: str | None
    group_lengths: tuple[int, ...]

    def start(self, arguments: Sequence[Any], depends: list[Any] | None = None) -> Any:
        """Run the kernel to its end; raises `TLBoundsError` for the first check that failed."""
        table, record = scratch(_CHECK_RECORD_LENGTH, self.queue)
        flat = [*self.flat, Int64(table.address), *map(Int64, self.group_lengths)]
        launch = Launch(self.kernel, self.queue, flat, self.scalars, self.global_range, self.local_range, self.keep)
        event = launch.start(arguments, depends)
        event.wait()
        claimed, number, group, index, bound = record.tolist()
        if claimed:
            raise self._error(number, group, index, bound)
        return event

    def _error(self, number: int, group: int, index: int, bound: int) -> TLBoundsError:
        check = self.plan.checks[number]
        span = Span(check.file, check.line, check.column, check.end_line, check.end_column)
        lines = [] if self.text is None else self.text.splitlines()
        line = lines[span.line - 1] if 0 < span.line <= len(lines) else None
        message = f"{check.message}: {index}, where the bound is {bound} (in work-group {group})"
        error = TLBoundsError.from_diagnostics([Diagnostic(message, span if span.line else None, None, line)])
        assert isinstance(error, TLBoundsError)
        return error


class LaunchMemo:
    """The launches that a kernel remembers, by the key of their arguments.

    It forgets them all when they become too many, or the arrays that their keys describe.  Safe to use from several
    threads: what one of them forgets, another prepares again.
    """

    MOST_LAUNCHES = 256
    MOST_ARRAYS = 1 << 16

    def __init__(self) -> None:
        self._launches: dict[Hashable, Launch] = {}
        self._arrays = 0
        self.get = self._launches.get

    def put(self, key: Hashable, launch: Launch, arrays: int) -> None:
        """Remember a launch whose key describes `arrays` arrays."""
        if len(self._launches) >= self.MOST_LAUNCHES or self._arrays + arrays > self.MOST_ARRAYS:
            self.clear()
        self._launches[key] = launch
        self._arrays += arrays

    def clear(self) -> None:
        """Forget all launches."""
        self._launches.clear()
        self._arrays = 0


def prepare(
    binding: Binding, call: BoundCall, queue: Any, handle: KernelHandle, plan: LaunchPlan, device: DeviceDescription
) -> Launch:
    """Flatten the arguments of a checked call and compute its ranges (`tl_dpnp.lowering.plan`)."""
    flat = flatten(binding, call, queue)
    chunk = chunk_of(plan, call.groups, device.compute_units)
    values = [*flat.values, Int64(call.groups), Int64(chunk), Int64(exceeds_caches(call, device))]
    if plan.form == "vector":
        ranges = [-(-call.groups // chunk)], [1]
    else:
        ranges = [call.groups * plan.subgroups, plan.subgroup_size], [plan.subgroups, plan.subgroup_size]
    if math.prod(ranges[0]) > _MOST_WORK_ITEMS:
        name = binding.program.function.name
        raise binding.program.error(
            TLBindingError,
            f"{call.groups} work-groups of @{name} are too many for one launch on {device.name}",
            f"launch at most {_MOST_WORK_ITEMS // math.prod(ranges[1]) * chunk} at a time",
        )
    launch = Launch(handle.kernel, queue, values, flat.scalars, *ranges, keep=(handle, *flat.tables))
    if not plan.checks:
        return launch
    lengths = tuple(len(argument.views) for argument in call.arguments if isinstance(argument, GroupArgument))
    return CheckedLaunch(**vars(launch), plan=plan, text=binding.program.text, group_lengths=lengths)
