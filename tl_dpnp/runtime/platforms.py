"""What the runtime asks of a family of devices; `tl_dpnp.runtime.platform_choice` finds the one to ask."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tl_dpnp.lowering.plan import LaunchPlan
    from tl_dpnp.lowering.variants import Condition
    from tl_dpnp.runtime.call.arguments import BoundCall
    from tl_dpnp.runtime.call.arrays import ArrayKind
    from tl_dpnp.runtime.call.binding import Binding
    from tl_dpnp.runtime.call.interface import Usage
    from tl_dpnp.runtime.call.replicas import Replicas
    from tl_dpnp.runtime.compiler import CompiledKernel
    from tl_dpnp.runtime.cuda.direct import DirectCalls
    from tl_dpnp.runtime.cuda.recent import RecentCudaCalls
    from tl_dpnp.runtime.store.cache import DiskCache
    from tl_dpnp.runtime.sycl.host_calls import HostCalls
    from tl_dpnp.runtime.sycl.recent import RecentCalls
    from tl_dpnp.target.device import Device

__all__ = ["FixedLaunch", "Launch", "Platform", "Together"]


class Launch(Protocol):
    """A kernel with its arguments in place but for addresses and scalars, which come with each call.

    `addresses` are those of the arrays for the memrefs, in order.  `binding` checks arguments for its program, which is
    not the kernel's where that was specialized.  `group_size` is the number of work-groups that the call gave, None
    where it follows from the arguments.
    """

    queue: Any
    binding: Binding
    group_size: int | None

    def run(self, arguments: Sequence[Any], addresses: Sequence[int]) -> None:
        """Run the kernel as a call does; whether that waits for its end is up to the platform."""

    def start(self, arguments: Sequence[Any], addresses: Sequence[int], depends: Sequence[Any]) -> Any:
        """Start the kernel after events and return its own."""


    def fixed(self, arguments: Sequence[Any], addresses: Sequence[int], owners: tuple[object, ...]) -> FixedLaunch:
        """Return a launch with these addresses and scalars in place, which needs neither and keeps `owners` alive."""


class FixedLaunch(Protocol):
    """A launch with all its arguments."""

    queue: Any

    @property
    def extent(self) -> str:
        """How many threads it has, in words."""


class Together(Protocol):
    """Fixed launches that run one after another."""

    def run(self) -> None:
        """Run them as a call of one kernel runs."""

    def start(self, depends: Sequence[Any]) -> Any:
        """Start them after events and return the event of the end."""


class Platform(Protocol):
    """A family of devices.

    A `queue` is what arrays are placed on: a `dpctl.SyclQueue` or a CUDA device.  `arrays` are those of the platform.
    """

    arrays: ArrayKind

    def default_queue(self) -> Any:
        """Return where a kernel without arrays runs."""

    def describe(self, queue: Any) -> Device:
        """Return the description of the device of a queue."""

    def current_device(self) -> Device:
        """Return the device to compile for when no array says."""

    def context_of(self, queue: Any) -> Hashable:
        """Return what a loaded kernel belongs to."""

    def load(
        self, compiled: CompiledKernel, device: Device, queue: Any, cache: DiskCache | None
    ) -> tuple[Any, bool]:
        """Return the kernel for the context of a queue, and whether machine code had to be made for it."""

    def misfit(self, condition: Condition, binding: Binding, call: BoundCall, device: Device) -> str | None:
        """Return why a call is not one that a variant of the program is for, in words; None if it is."""

    def prepare(
        self, binding: Binding, call: BoundCall, queue: Any, handle: Any, plan: LaunchPlan, device: Device
    ) -> Launch:
        """Return the launch of a loaded kernel with checked arguments, which fit the kernel's variant."""

    def recent_calls(self, written: Sequence[int]) -> RecentCalls | RecentCudaCalls:
        """Return a memory of calls by the identity of their arrays; `written` are the positions of those written."""

    def direct_calls(self) -> DirectCalls | HostCalls:
        """Return a memory of functions that check and launch calls by themselves."""

    def call_remarks(self, handle: Any) -> list[str]:
        """Return lines about how the calls of a loaded kernel are run, where there is a choice."""

    def keep_alive(self, queue: Any, objects: tuple[object, ...], event: Any) -> None:
        """Hold references to `objects` until `event` is complete."""

    def together(self, launches: Sequence[Any]) -> Together:
        """Return fixed launches of one queue as one."""

    def completed_event(self) -> Any:
        """Return an event that is complete."""

    def wait(self, queue: Any) -> None:
        """Wait for all that was submitted to a queue."""

    def wait_for_event(self, event: Any) -> None:
        """Wait for an event of the platform."""

    def replicas(self, call: BoundCall, arguments: Sequence[Any], usage: Usage, queue: Any) -> Replicas:
        """Return copies of the arrays that a kernel writes."""

    def timed(self, launch: Any, arguments: Sequence[Any], addresses: Sequence[int]) -> float:
        """Run a launch of this platform, wait for its end and return the seconds that it took."""

    def keep_machine_code(
        self, compiled: CompiledKernel, device: Device, queue: Any, cache: DiskCache, handle: Any
    ) -> None:
        """Keep what was made of a compiled and loaded kernel, where that can be had."""
