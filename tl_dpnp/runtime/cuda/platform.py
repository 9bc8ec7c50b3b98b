"""CUDA devices: where kernels run is where their arrays are, on the current stream of the arrays' package."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tl_dpnp.errors import TLBindingError
from tl_dpnp.language.extents import Extents
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.product_plans import BlockPlan, TilePlan
from tl_dpnp.lowering.variants import Condition, FewBlocks
from tl_dpnp.runtime.call.arguments import BoundCall, GroupArgument, MemrefArgument, PointersArgument
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.bounds import CHECK_RECORD_LENGTH, raise_if_failed
from tl_dpnp.runtime.call.flattening import FlatArguments, Int64, flatten
from tl_dpnp.runtime.call.interface import Usage
from tl_dpnp.runtime.compiler import CompiledKernel
from tl_dpnp.runtime.cuda import blocks, tiles
from tl_dpnp.runtime.cuda import driver_adapter as driver
from tl_dpnp.runtime.cuda.arrays import CUDA_ARRAYS, CudaDevice, cuda_device, looks_function, stream_function
from tl_dpnp.runtime.cuda.direct import DirectCalls, LaunchFacts, direct_call
from tl_dpnp.runtime.cuda.graph import CudaTogether, FixedCudaLaunch
from tl_dpnp.runtime.cuda.lists import keep_tables
from tl_dpnp.runtime.cuda.occupancy import warn_of_idle_units
from tl_dpnp.runtime.cuda.ptx import linked
from tl_dpnp.runtime.cuda.recent import RecentCudaCalls
from tl_dpnp.runtime.cuda.replicas import CudaReplicas
from tl_dpnp.runtime.cuda.tiles import TileCall, tile_call
from tl_dpnp.runtime.platforms import Launch
from tl_dpnp.runtime.store.cache import DiskCache
from tl_dpnp.runtime.watching import Description, door
from tl_dpnp.target.catalog import GPU, HOPPER
from tl_dpnp.target.device import Device

__all__ = ["CudaPlatform"]

#: Work-groups that a grid takes along x (CUDA C++ Programming Guide, "Technical Specifications").
_MOST_GROUPS = (1 << 31) - 1
#: Types of scalars whose objects keep their value.
_IMMUTABLE = (float, int)


class CudaPlatform:
    """See `tl_dpnp.runtime.platforms.Platform`; a queue is a `CudaDevice`."""

    arrays = CUDA_ARRAYS

    def default_queue(self) -> Any:
        return cuda_device(0)

    def describe(self, queue: CudaDevice) -> Device:
        return describe(queue.ordinal)

    def current_device(self) -> Device:
        """Without a GPU, that is an H200: kernels can be compiled and read."""
        return describe(0) if driver.device_count() else H200

    def context_of(self, queue: CudaDevice) -> Hashable:
        return queue

    def load(
        self, compiled: CompiledKernel, device: Device, queue: CudaDevice, cache: DiskCache | None
    ) -> tuple[driver.Function, bool]:
        code, made = linked(compiled, device, cache)
        return driver.Function(code.cubin, compiled.plan.entry, queue.ordinal, compiled.plan.local_memory), made

    def misfit(self, condition: Condition, binding: Binding, call: BoundCall, device: Device) -> str | None:
        if isinstance(condition, FewBlocks):
            return None if condition.holds(call.groups, device.compute_units) else (
                f"{call.groups} work-groups are not few for {device.compute_units} multiprocessors")
        if isinstance(condition, BlockPlan):
            return blocks.misfit(condition, binding, call, device.compute_units)
        assert isinstance(condition, TilePlan)
        return tiles.misfit(condition, binding, call)

    def prepare(
        self, binding: Binding, call: BoundCall, queue: CudaDevice, handle: driver.Function, plan: LaunchPlan,
        device: Device,
    ) -> Launch:
        flat = flatten(binding, call, queue, plan.measured)
        if plan.tiles is not None:
            tiled = tile_call(plan.tiles, binding, call, flat, handle, describe(queue.ordinal).compute_units)
            return TiledLaunch(handle, queue, tiled, plan, _stream(call, queue))
        if plan.blocks is not None:
            blocked = blocks.block_call(
                plan.blocks, binding, call, flat, handle, describe(queue.ordinal).compute_units)
            chosen = replace(plan, subgroups=blocked.shape.warps, local_memory=blocked.shape.local_memory)
            return CudaLaunch(handle, queue, blocked.flat, blocked.tiles, chosen, _stream(call, queue),
                              blocked.is_direct, cluster=blocked.parts)
        groups = call.groups * plan.parts
        if groups > _MOST_GROUPS:
            raise binding.program.error(
                TLBindingError,
                f"{call.groups} work-groups of @{binding.program.name} are too many for one launch on "
                f"{device.name}", f"launch at most {_MOST_GROUPS} at a time",
            )
        warn_of_idle_units(binding, call, plan, describe(queue.ordinal).compute_units)
        plan = plan.shared_out(call.groups, describe(queue.ordinal).compute_units)
        flat.values.extend((Int64(groups), Int64(1), Int64(0)))
        stream = _stream(call, queue)
        if not plan.checks:
            return CudaLaunch(handle, queue, flat, groups, plan, stream, not binding.debug, _grouped_classes(call),
                              listed=_listed(call))
        lengths = [len(argument.shape) for argument in call.arguments
                   if isinstance(argument, GroupArgument | PointersArgument)]
        return CheckedLaunch(handle, queue, flat, call.extents, plan, stream, lengths, binding.program.text)

    def call_remarks(self, handle: Any) -> list[str]:
        return []

    def keep_alive(self, queue: CudaDevice, objects: tuple[object, ...], event: driver.Event) -> None:
        event.keep = objects

    def recent_calls(self, written: Sequence[int]) -> RecentCudaCalls:
        return RecentCudaCalls(looks_function)

    def direct_calls(self) -> DirectCalls:
        return DirectCalls()

    def together(self, launches: Sequence[FixedCudaLaunch]) -> CudaTogether:
        return CudaTogether(launches)

    def completed_event(self) -> driver.Event:
        return driver.CompletedEvent()

    def wait(self, queue: CudaDevice) -> None:
        driver.synchronize(queue.ordinal)

    def wait_for_event(self, event: driver.Event) -> None:
        event.wait()

    def replicas(
        self, call: BoundCall, arguments: Sequence[Any], usage: Usage, queue: CudaDevice
    ) -> CudaReplicas:
        return CudaReplicas(call, arguments, usage, queue)

    def timed(self, launch: CudaLaunch, arguments: Sequence[Any], addresses: Sequence[int]) -> float:
        return driver.elapsed(launch.queue.ordinal, lambda stream: launch.on(stream, arguments, addresses))

    def keep_machine_code(
        self, compiled: CompiledKernel, device: Device, queue: CudaDevice, cache: DiskCache,
        handle: driver.Function,
    ) -> None:
        linked(compiled, device, cache)


def _stream(call: BoundCall, queue: CudaDevice) -> Callable[[], int]:
    """Return the function that gives the stream of a call's arrays."""
    return stream_function([view.array for argument in call.arguments for view in argument.views], queue.ordinal)


def _listed(call: BoundCall) -> list[int]:
    """Return the places of the tables of lists among the addresses of a call."""
    with_address = [argument for argument in call.arguments
                    if isinstance(argument, MemrefArgument | PointersArgument | GroupArgument)
                    and (not isinstance(argument, GroupArgument) or argument.is_listed)]
    return [place for place, argument in enumerate(with_address) if isinstance(argument, GroupArgument)]


def _grouped_classes(call: BoundCall) -> set[type]:
    """Return the classes of the arrays in groups."""
    return {type(view.array) for argument in call.arguments if isinstance(argument, GroupArgument)
            for view in argument.views}


class CudaLaunch:
    """A kernel with its arguments in the driver's form; see `tl_dpnp.runtime.platforms.Launch`.

    `groups` is the number of work-groups, or of tiles in the tiled and the blocked form.  `is_direct` says that
    `tl_dpnp.runtime.cuda.direct` may make functions of the launch.  `grouped` are the classes of the arrays in groups,
    and a `cluster` of so many blocks shares each tile, or there are so many `blocks` in such clusters.  `listed` are
    the places, among the addresses of a call, of the tables of lists.
    """

    #: Tensor maps among the arguments, and whether the launch waits for the end of the kernel.
    maps = 0
    waits = False
    binding: Binding
    group_size: int | None = None

    def __init__(
        self, function: driver.Function, queue: CudaDevice, flat: FlatArguments, groups: int, plan: LaunchPlan,
        stream: Callable[[], int], is_direct: bool = False, grouped: set[type] | None = None, cluster: int = 1,
        listed: Sequence[int] = (), blocks: int = 0,
    ) -> None:
        self.queue, self.flat, self.groups, self.stream = queue, flat, groups, stream
        self.is_direct = is_direct and groups > 0
        self._listed = listed
        self._function, self._grouped = function, grouped or set()
        self._parameters = driver.Parameters(flat.values, self.maps)
        # What was written last: the very list of addresses, and the very scalars.
        self._addresses: Sequence[int] | None = None
        self._scalars: list[Any] = [None] * len(flat.scalars)
        self._block, self._local_memory = (plan.subgroup_size, plan.subgroups, plan.teams), plan.local_memory
        self._grid = (blocks or groups * cluster) if cluster > 1 else plan.thread_blocks(
            groups, lambda: _running(function, queue, plan))
        self._launch = function.launcher(self._grid, self._block, self._local_memory, self._parameters, cluster)

    def run(self, arguments: Sequence[Any], addresses: Sequence[int]) -> None:
        """Start the kernel on the current stream of its arrays."""
        stream = self.stream()
        self._keep_lists(stream, addresses)
        self.on(stream, arguments, addresses)

    def start(self, arguments: Sequence[Any], addresses: Sequence[int], depends: Sequence[Any]) -> driver.Event:
        """Start the kernel after events that `start` returned; return one with ``wait()``."""
        stream = self.stream()
        self._keep_lists(stream, addresses)
        driver.hold(stream, depends)
        self.on(stream, arguments, addresses)
        return driver.Event(self.queue.ordinal, stream)

    def fixed(self, arguments: Sequence[Any], addresses: Sequence[int], owners: tuple[object, ...]) -> FixedCudaLaunch:
        """Return a launch with these addresses and scalars in place, which needs neither and keeps `owners` alive."""
        return FixedCudaLaunch(self, arguments, addresses, owners)

    def _keep_lists(self, stream: int, addresses: Sequence[int]) -> None:
        """Keep the tables of lists for good where a graph of another package is to have the launch."""
        if self._listed and driver.is_capturing(stream):
            keep_tables(addresses[place] for place in self._listed)

    @property
    def extent(self) -> str:
        """The thread blocks in words."""
        return f"{self._grid} thread blocks of {' x '.join(map(str, self._block))} threads"

    def direct_call(self, binding: Binding, arguments: Sequence[Any]) -> Callable[[tuple[Any, ...]], bool] | None:
        """Return the function that launches this with arguments of the same form, None if there is none."""
        ordinal = self.queue.ordinal
        facts = LaunchFacts(
            ordinal, self._grid, self._block, self._local_memory, int(self._function.handle),
            driver.context_address(ordinal), driver.function_address("cuCtxGetCurrent"),
            driver.function_address("cuLaunchKernel"), self.stream, self._function,
        )
        return direct_call(binding, self.flat, facts, arguments, self._grouped)

    def on(self, stream: int, arguments: Sequence[Any], addresses: Sequence[int]) -> None:
        """Start the kernel on a stream."""
        if not self.groups:
            return
        parameters, flat = self._parameters, self.flat
        with parameters.lock:
            if addresses is not self._addresses:
                for place, address in zip(flat.addresses, addresses, strict=True):
                    parameters.words[place] = address
                self._addresses = addresses
            for number, (place, position, _, convert) in enumerate(flat.scalars):
                value = arguments[position]
                if value is not self._scalars[number]:
                    parameters.set(place, convert(value))
                    self._scalars[number] = value if type(value) in _IMMUTABLE else None
            self._launch(stream)


def _running(function: driver.Function, queue: CudaDevice, plan: LaunchPlan) -> int:
    """Return how many thread blocks run at the same time."""
    threads = plan.subgroup_size * plan.subgroups * plan.teams
    return function.blocks_per_unit(threads, plan.local_memory) * describe(queue.ordinal).compute_units


def _described(launch: CudaLaunch) -> Description:
    return f"@{launch.binding.program.name}", "CUDA", {"extent": launch.extent}


door(CudaLaunch, "run", _described)
door(CudaLaunch, "start", _described)


class TiledLaunch(CudaLaunch):
    """A launch in the tiled form."""

    maps = 3
    #: Tensor maps are kept for so many sets of addresses.
    MOST_MAPS = 64

    def __init__(
        self, function: driver.Function, queue: CudaDevice, call: TileCall, plan: LaunchPlan, stream: Callable[[], int]
    ) -> None:
        chosen = replace(plan, subgroups=call.shape.warps, local_memory=call.shape.local_memory)
        super().__init__(function, queue, call.flat, call.tiles, chosen, stream, cluster=call.cluster,
                         blocks=call.blocks)
        self._call = call
        self._known: dict[tuple[int, ...], bytes] = {}

    def on(self, stream: int, arguments: Sequence[Any], addresses: Sequence[int]) -> None:
        key = tuple(addresses)
        maps = self._known.get(key)
        if maps is None:
            with driver.current(self.queue.ordinal):
                maps = self._call.maps(addresses)
            if len(self._known) >= self.MOST_MAPS:
                self._known.clear()
            self._known[key] = maps
        with self._parameters.lock:
            self._parameters.set_maps(maps)
            super().on(stream, arguments, ())


class CheckedLaunch(CudaLaunch):
    """A launch of a kernel that was compiled with ``debug=True``: it waits for its end and looks at its record."""

    waits = True

    def __init__(
        self, function: driver.Function, queue: CudaDevice, flat: FlatArguments, extents: Extents, plan: LaunchPlan,
        stream: Callable[[], int], lengths: Sequence[int], text: str | None,
    ) -> None:
        self._record = driver.Memory(queue.ordinal, 8 * CHECK_RECORD_LENGTH)
        flat.values.extend((Int64(self._record.address), *map(Int64, lengths)))
        super().__init__(function, queue, flat, math.prod(extents), plan, stream)
        self._plan, self._text, self._extents = plan, text, extents

    def on(self, stream: int, arguments: Sequence[Any], addresses: Sequence[int]) -> None:
        with self._parameters.lock:
            self._record.write(np.zeros(CHECK_RECORD_LENGTH, np.int64))
            super().on(stream, arguments, addresses)
            raise_if_failed(self._record.read("int64").tolist(), self._plan, self._text, self._extents)


@functools.cache
def describe(ordinal: int) -> Device:
    """Return the description of a CUDA device."""
    names = ("COMPUTE_CAPABILITY_MAJOR", "COMPUTE_CAPABILITY_MINOR", "MULTIPROCESSOR_COUNT", "MAX_THREADS_PER_BLOCK",
             "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "L2_CACHE_SIZE", "WARP_SIZE")
    major, minor, units, threads, local_memory, unit_memory, cache, lanes = driver.attributes(ordinal, *names)
    return Device(
        name=driver.device_name(ordinal), vendor="NVIDIA", driver=driver.driver_version(), backend="cuda",
        is_cpu=False, subgroup_sizes=(lanes,), max_work_group_size=threads, local_memory=local_memory,
        compute_units=units, core=GPU, has_fp64=True, has_fp16=True, has_atomic64=True,
        caches=(unit_memory, cache), architecture=f"sm_{major}{minor}{'a' if major >= 9 else ''}",
        asynchronous_copies=major >= 8, copy_engine=major >= 9, warpgroup_products=(major, minor) == (9, 0),
        multiprocessor=HOPPER,
    )
