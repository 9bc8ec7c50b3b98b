"""SYCL devices through dpctl."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.variants import Condition, FewGroups
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.compiler import CompiledKernel
from tl_dpnp.runtime.store.cache import DiskCache
from tl_dpnp.runtime.sycl import dpctl_adapter
from tl_dpnp.runtime.sycl.arrays import USM_ARRAYS
from tl_dpnp.runtime.sycl.devices import describe
from tl_dpnp.runtime.sycl.host_calls import HostCalls, call_remarks
from tl_dpnp.runtime.sycl.launch import Launch, SyclTogether, busy_without_sharing, prepare
from tl_dpnp.runtime.sycl.machine_code import keep_machine_code, load_kernel
from tl_dpnp.runtime.sycl.recent import RecentCalls
from tl_dpnp.target.device import Device

if TYPE_CHECKING:
    from tl_dpnp.runtime.call.interface import Usage
    from tl_dpnp.runtime.call.replicas import Replicas

__all__ = ["SyclPlatform"]


class SyclPlatform:
    """See `tl_dpnp.runtime.platforms.Platform`; a queue is a `dpctl.SyclQueue`."""

    arrays = USM_ARRAYS

    def default_queue(self) -> Any:
        return dpctl_adapter.default_queue()

    def describe(self, queue: Any) -> Device:
        return describe(queue.sycl_device)

    def current_device(self) -> Device:
        return self.describe(self.default_queue())

    def context_of(self, queue: Any) -> Hashable:
        return queue.sycl_context, queue.sycl_device

    def load(
        self, compiled: CompiledKernel, device: Device, queue: Any, cache: DiskCache | None
    ) -> tuple[Any, bool]:
        return load_kernel(compiled, device, queue, cache)

    def misfit(self, condition: Condition, binding: Binding, call: BoundCall, device: Device) -> str | None:
        assert isinstance(condition, FewGroups)
        return busy_without_sharing(condition, call, device)

    def prepare(
        self, binding: Binding, call: BoundCall, queue: Any, handle: Any, plan: LaunchPlan, device: Device
    ) -> Launch:
        return prepare(binding, call, queue, handle, plan, device)

    def recent_calls(self, written: Sequence[int]) -> RecentCalls:
        return RecentCalls(written)

    def direct_calls(self) -> HostCalls:
        return HostCalls()

    def call_remarks(self, handle: Any) -> list[str]:
        return call_remarks(handle)

    def keep_alive(self, queue: Any, objects: tuple[object, ...], event: Any) -> None:
        dpctl_adapter.in_flight.add(queue, objects, event)

    def together(self, launches: Sequence[Launch]) -> SyclTogether:
        return SyclTogether(launches)

    def completed_event(self) -> Any:
        return dpctl_adapter.completed_event(None, ())

    def wait(self, queue: Any) -> None:
        dpctl_adapter.wait_for(queue)

    def wait_for_event(self, event: Any) -> None:
        dpctl_adapter.wait_for_event(event)

    def replicas(self, call: BoundCall, arguments: Sequence[Any], usage: Usage, queue: Any) -> Replicas:
        from tl_dpnp.runtime.sycl.replicas import UsmReplicas

        return UsmReplicas(call, arguments, usage, queue)

    def timed(self, launch: Launch, arguments: Sequence[Any], addresses: Sequence[int]) -> float:
        start = time.perf_counter()
        launch.run_on_device(arguments, addresses)  # all candidates in one way
        return time.perf_counter() - start

    def keep_machine_code(
        self, compiled: CompiledKernel, device: Device, queue: Any, cache: DiskCache, handle: Any
    ) -> None:
        keep_machine_code(compiled, device, queue, cache, handle)
