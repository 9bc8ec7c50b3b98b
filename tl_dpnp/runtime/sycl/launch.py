"""A launch with all its arguments checked and in place, to be used again and again."""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tl_dpnp.errors import TLBindingError, TLError
from tl_dpnp.language.extents import Extents
from tl_dpnp.lowering.plan import EXCEEDS_ALL, EXCEEDS_ONE, LaunchPlan
from tl_dpnp.lowering.variants import FewGroups
from tl_dpnp.runtime.call.arguments import BoundCall, GroupArgument, MemrefArgument
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.bounds import CHECK_RECORD_LENGTH, raise_if_failed
from tl_dpnp.runtime.call.flattening import FlatArguments, Int64, flatten
from tl_dpnp.runtime.call.scalar_arguments import scalar_value, usual_values
from tl_dpnp.runtime.sycl.batches import Batch, Bounds, batch_of
from tl_dpnp.runtime.sycl.dpctl_adapter import (
    KernelHandle,
    SubmitError,
    completed_event,
    scratch,
    submitted_by_dpnp,
)
from tl_dpnp.runtime.sycl.host_calls import ShortCalls, short_calls
from tl_dpnp.runtime.sycl.opencl_adapter import DirectKernel, LaunchError, run_in_order, supports
from tl_dpnp.runtime.sycl.turns import turn_to_wait
from tl_dpnp.runtime.watching import MACHINE_CODE, Description, door
from tl_dpnp.scalars import INDEX, ScalarType
from tl_dpnp.target.device import Device

__all__ = [
    "Launch", "SyclTogether", "busy_without_sharing", "chunk_of", "exceeded_by", "exceeded_caches", "prepare",
]

#: Work-items that SYCL takes in one launch: dpctl's kernels number them with 32-bit integers.
_MOST_WORK_ITEMS = (1 << 31) - 1


def chunk_of(plan: LaunchPlan, groups: int, device: Device, is_small: bool = False) -> int:
    """Return how many work-groups of the language one work-item of the vector form runs; 1 in the sub-group form.

    `is_small` says that their work is small and known.
    """
    if not plan.frame.is_alone:
        return 1
    work = max(1, plan.work)
    numbers = device.launches
    balanced = -(-groups // (numbers.items * device.compute_units))
    least = -(-numbers.least_work // work) if is_small else 0
    return max(1, min(groups, numbers.work // work, max(balanced, least)))


def exceeded_caches(call: BoundCall, device: Device) -> int:
    """Return which caches the arrays of a call exceed (`exceeded_by`)."""
    return exceeded_by(_bytes_of(call), device)


def _bytes_of(call: BoundCall) -> int:
    """Return how many bytes the arrays of a call take.  What a group has several times counts once."""
    total = 0
    for argument in call.arguments:
        match argument:
            case MemrefArgument(view=view):
                total += view.nbytes
            case GroupArgument(views=views):
                total += sum({view.address: view.nbytes for view in views}.values())
            case None:
                pass
    return total


def exceeded_by(total: int, device: Device) -> int:
    """Return which caches so many bytes exceed: none (0), one core's (`EXCEEDS_ONE`), all (`EXCEEDS_ALL`).

    One core has its second-level cache; all have theirs, and the last level, of which something is left to other
    programs.
    """
    own, everything = _caches(device)
    return EXCEEDS_ALL if total > everything else EXCEEDS_ONE if total > own else 0


def _caches(device: Device) -> tuple[int, int]:
    """Return how many bytes of arrays the caches of one core hold, and all caches."""
    own = device.core_cache
    return own, max(own * device.compute_units, device.last_cache_for_arrays)


def _bounds(binding: Binding, call: BoundCall, plan: LaunchPlan, device: Device) -> Bounds:
    """Return which batches a call may have for which its launch is the same but for the size."""
    used, limits = _bytes_of(call), (-1, *_caches(device), INDEX.maximum)
    exceeded = exceeded_by(used, device)
    least, most = 0, _MOST_WORK_ITEMS // plan.parts
    if binding.program.usage.has_matrix_product:  # another variant may be for fewer or more (`busy_without_sharing`)
        few = _few(device) - 1
        least, most = (0, min(few, most)) if call.groups <= few else (few + 1, most)
    return Bounds(used, limits[exceeded], limits[exceeded + 1], least, most)


def _few(device: Device) -> int:
    """Return from how many work-groups on the cores of a device share them evenly."""
    return device.launches.items * device.compute_units


class Launch:
    """A kernel with its ranges and the arguments that stay the same; addresses and scalars come with each call.

    `keep` are objects that must live until the kernel has run.  `addresses`, in the methods, are those of the arrays
    for the memrefs, in order.
    """

    #: What is known of short calls, where the device has them.
    short: ShortCalls | None = None
    #: The batch, where launches of others are the same but for its size.
    batch: Batch | None = None
    binding: Binding
    group_size: int | None = None

    def __init__(
        self, kernel: Any, queue: Any, flat: FlatArguments, global_range: list[int], local_range: list[int],
        keep: tuple[object, ...],
    ) -> None:
        self.kernel, self.queue, self.flat, self.keep = kernel, queue, flat, keep
        self.global_range, self.local_range = global_range, local_range
        self.turn = turn_to_wait(queue)

    @property
    def is_empty(self) -> bool:
        """Whether there is not a single work-group."""
        return self.global_range[0] == 0

    @property
    def groups(self) -> int:
        """The number of work-groups of the device (`tl_dpnp.lowering.plan`)."""
        return int(self.flat.values[-3].value)

    @property
    def extent(self) -> str:
        """The ranges in words."""
        items, group = (" x ".join(map(str, sizes)) for sizes in (self.global_range, self.local_range))
        return f"{items} work-items in work-groups of {group}"

    def fixed(self, arguments: Sequence[Any], addresses: Sequence[int], owners: tuple[object, ...]) -> Launch:
        """Return a launch with these addresses and scalars in place, which needs neither and keeps `owners` alive."""
        launch = copy.copy(self)
        launch.flat = FlatArguments(self.flat.filled(arguments, addresses), (), (), *self.flat[3:])
        launch.keep = (*self.keep, *owners)
        return launch

    def run(self, arguments: Sequence[Any] = (), addresses: Sequence[int] = ()) -> None:
        """Run the kernel after everything that was submitted to its queue, and wait for it."""
        if not self.queue.is_in_order:
            self.turn.wait_for_all(self.queue)
        self.turn.wait_for(self.start(arguments, addresses))

    def run_on_device(self, arguments: Sequence[Any] = (), addresses: Sequence[int] = ()) -> float:
        """Run the kernel as `run`, through the driver in any case; returns the seconds that it took."""
        begin = time.perf_counter()
        self.run(arguments, addresses)
        return time.perf_counter() - begin

    def start(self, arguments: Sequence[Any] = (), addresses: Sequence[int] = (), depends: Sequence[Any] = ()) -> Any:
        """Submit the kernel to its queue and return its `dpctl.SyclEvent`."""
        return self._submit(self.flat.filled(arguments, addresses), depends)

    def _submit(self, values: list[Any], depends: Sequence[Any]) -> Any:
        if self.is_empty:
            return completed_event(self.queue, depends)
        try:
            before = [*depends, *submitted_by_dpnp(self.queue)]
            return self.turn.submit(lambda: self.queue.submit_async(
                self.kernel, values, self.global_range, self.local_range, before))
        except SubmitError as error:
            raise self._refused(error) from error

    def _refused(self, problem: Exception) -> TLError:
        return TLError(f"the driver of {self.queue.sycl_device.name} refuses the launch of {self.global_range} "
                       f"work-items in work-groups of {self.local_range}: {problem}")


class DirectLaunch(Launch):
    """A launch on a device that `sycl.opencl_adapter` serves: it is run without SYCL's part of the cost.

    The kernel is not put into the queue of the arrays.  Order is kept by waiting: for that queue before, and for the
    kernel after.
    """

    def __init__(self, *parts: Any, short: ShortCalls | None = None, batch: Batch | None = None) -> None:
        super().__init__(*parts)
        self.short, self.batch = short, batch
        self._direct: DirectKernel | None = None
        self._addresses: Sequence[int] = ()
        self._lock = threading.Lock()

    def fixed(self, arguments: Sequence[Any], addresses: Sequence[int], owners: tuple[object, ...]) -> DirectLaunch:
        """Return a launch with these addresses and scalars in place, which needs neither and keeps `owners` alive."""
        launch = super().fixed(arguments, addresses, owners)
        assert isinstance(launch, DirectLaunch)
        launch._direct, launch._addresses, launch._lock = None, (), threading.Lock()
        launch.short = None
        return launch

    def run(self, arguments: Sequence[Any] = (), addresses: Sequence[int] = ()) -> None:
        """Run the kernel after everything that was submitted to its queue, and wait for it."""
        short = self.short
        function = None if short is None else short.function
        if function is not None:
            given = [*addresses]
            if self.flat.scalars:
                given += [_usual(type_, arguments[position]) for _, position, type_, _ in self.flat.scalars]
            if self.batch is not None:
                given.append(self.batch.size)
            if not self.turn.is_idle:
                self.turn.wait_for_all(self.queue)
            if function(tuple(given)):
                return
        seconds = self.run_on_device(arguments, addresses)
        if short is not None and short.problem is None and seconds:
            short.note(self, seconds)

    def run_on_device(self, arguments: Sequence[Any] = (), addresses: Sequence[int] = ()) -> float:
        """Have OpenCL run the kernel, as `run`, and return the seconds that it took, waiting before aside."""
        scalars = [(place, convert(arguments[position])) for place, position, _, convert in self.flat.scalars]
        kernel = self._direct or self.direct
        self.turn.wait_for_all(self.queue)
        if self.is_empty:
            return 0.0
        try:
            lane = kernel.lanes.take()
            begin = time.perf_counter()
            try:
                with self._lock:
                    if addresses != self._addresses:
                        self._addresses = ()
                        for place, address in zip(self.flat.addresses, addresses, strict=True):
                            kernel.set_argument(place, Int64(address))
                        self._addresses = addresses
                    for place, value in scalars:
                        kernel.set_argument(place, value)
                    kernel.start(lane)
            finally:  # also where a signal handler raises as soon as the kernel is started
                lane.finish()
        except LaunchError as problem:
            raise self._refused(problem) from problem
        kernel.lanes.put_back(lane)
        return time.perf_counter() - begin

    @property
    def direct(self) -> DirectKernel:
        """The kernel as OpenCL launches it, made when it is first needed."""
        with self._lock:
            if self._direct is None:
                try:
                    self._direct = DirectKernel(self.kernel, self.queue, self.flat.values, self.global_range,
                                                self.local_range)
                except LaunchError as problem:
                    raise self._refused(problem) from problem
            return self._direct


def _usual(scalar_type: ScalarType, argument: Any) -> Any:
    """Return a number as machine code takes it; what it is no number for, as it is."""
    if type(argument) is usual_values(scalar_type)[0]:
        return argument
    try:
        return scalar_value(scalar_type, argument)
    except (TypeError, OverflowError):  # OpenCL's way says what is wrong
        return argument


class CheckedLaunch(Launch):
    """A launch of a kernel that was compiled with ``debug=True``: it ends with the check of its record."""

    def __init__(
        self, *parts: Any, plan: LaunchPlan, text: str | None, group_lengths: tuple[int, ...], extents: Extents
    ) -> None:
        super().__init__(*parts)
        self.plan, self.text, self.group_lengths, self.extents = plan, text, group_lengths, extents

    def start(self, arguments: Sequence[Any] = (), addresses: Sequence[int] = (), depends: Sequence[Any] = ()) -> Any:
        """Run the kernel to its end; raises `TLBoundsError` for the first check that failed."""
        table, record = scratch(CHECK_RECORD_LENGTH, self.queue)
        values = self.flat.filled(arguments, addresses)
        event = self._submit([*values, Int64(table.address), *map(Int64, self.group_lengths)], depends)
        self.turn.wait_for(event)
        raise_if_failed(record.tolist(), self.plan, self.text, self.extents)
        return event


def busy_without_sharing(few: FewGroups, call: BoundCall, device: Device) -> str | None:
    """Return why work-items had better not share the work-groups of a call, None where they had."""
    if not 0 < call.groups < _few(device):
        return f"{call.groups} work-groups balance the load of {device.compute_units} cores, or there is none"
    if few.work < device.launches.least_work:
        return f"a work-group of {few.work} vector multiply-adds is not worth more than one work-item"
    return None


def prepare(
    binding: Binding, call: BoundCall, queue: Any, handle: KernelHandle, plan: LaunchPlan, device: Device
) -> Launch:
    """Flatten the arguments of a checked call and compute its ranges (`tl_dpnp.lowering.plan`)."""
    groups = call.groups * plan.parts
    flat = flatten(binding, call, queue, plan.measured)
    beyond = exceeded_caches(call, device)
    small = binding.program.usage.has_fixed_work and not beyond
    chunk = chunk_of(plan, groups, device, small)
    flat.values.extend((Int64(groups), Int64(chunk), Int64(beyond)))
    ranges = plan.ranges(groups, chunk)
    if math.prod(ranges[0]) > _MOST_WORK_ITEMS:
        name = binding.program.name
        raise binding.program.error(
            TLBindingError,
            f"{call.groups} work-groups of @{name} are too many for one launch on {device.name}",
            f"launch at most {_MOST_WORK_ITEMS // math.prod(ranges[1]) * chunk} at a time",
        )
    parts = (handle.kernel, queue, flat, *ranges, (handle, *flat.tables))
    if plan.checks:
        lengths = tuple(len(argument.views) for argument in call.arguments if isinstance(argument, GroupArgument))
        return CheckedLaunch(*parts, plan=plan, text=binding.program.text, group_lengths=lengths, extents=call.extents)
    if not supports(queue):
        return Launch(*parts)
    batch = batch_of(binding, call, flat, plan.parts, _bounds(binding, call, plan, device))
    return DirectLaunch(*parts, short=short_calls(handle, plan, queue, batch), batch=batch)


def _run(how: str) -> Callable[[Launch], Description]:
    """Return what describes a launch that is run so; candidates of tuning have no binding, and are of no call."""

    def describe(launch: Launch) -> Description:
        binding = getattr(launch, "binding", None)
        name = "a candidate" if binding is None else f"@{binding.program.name}"
        return name, how, {"extent": launch.extent}

    return describe


door(Launch, "run", _run(""))
door(Launch, "start", _run("SYCL"))
door(CheckedLaunch, "start", _run("SYCL, with checks"))
door(DirectLaunch, "run", _run(MACHINE_CODE))
door(DirectLaunch, "run_on_device", _run("OpenCL"))


class SyclTogether:
    """See `tl_dpnp.runtime.platforms.Together`."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self._launches = launches

    def run(self) -> None:
        """Run the launches and wait for all."""
        run_all(self._launches)

    def start(self, depends: Sequence[Any]) -> Any:
        """Submit the launches and return the `dpctl.SyclEvent` of the last."""
        return start_all(self._launches, depends)


door(SyclTogether, "run", lambda together: (f"{len(together._launches)} launches", "one after another", {}))
door(SyclTogether, "start", lambda together: (f"{len(together._launches)} launches", "", {}))


def run_all(launches: Sequence[Launch]) -> None:
    """Run fixed launches on one queue one after another, after everything that was submitted to it, and wait for all.

    They are put into the queue together where that is possible.
    """
    launches = [launch for launch in launches if not launch.is_empty]
    if not launches:
        return
    queue = launches[0].queue
    direct = [launch.direct for launch in launches if isinstance(launch, DirectLaunch)]
    if len(direct) < len(launches):
        if not queue.is_in_order:
            launches[0].turn.wait_for_all(queue)
        launches[0].turn.wait_for(start_all(launches))
        return
    launches[0].turn.wait_for_all(queue)
    try:
        run_in_order(direct)
    except LaunchError as problem:
        raise TLError(f"the driver of {queue.sycl_device.name} refuses one of {len(launches)} launches: {problem}"
                      ) from problem


def start_all(launches: Sequence[Launch], depends: Sequence[Any] = ()) -> Any:
    """Submit fixed launches to their one queue, each after the one before; return the `dpctl.SyclEvent` of the last."""
    event = None
    for launch in launches:
        event = launch.start(depends=depends)
        depends = [event]
    return event
