"""The compilations of a program: one for each device and form that a call needs, made when it is needed."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.mappings.frames import Form
from tl_dpnp.lowering.variants import Variant
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import CompiledKernel, compile_program, lowered
from tl_dpnp.runtime.forking import check_process, note_use
from tl_dpnp.runtime.fresh_stack import with_room
from tl_dpnp.runtime.options import KernelOptions, Stats
from tl_dpnp.runtime.platforms import Launch, Platform
from tl_dpnp.runtime.store.cache import DiskCache, open_cache
from tl_dpnp.runtime.tune.tuned import Tuned, load_tuned
from tl_dpnp.runtime.variants import form_for, variant_for, variants_of
from tl_dpnp.runtime.watching import follow_log, span
from tl_dpnp.target.device import Device

if TYPE_CHECKING:
    from tl_dpnp.lowering import LoweredKernel

__all__ = ["Overload", "Overloads"]


@dataclass(frozen=True)
class Overload:
    """One compilation of a program, and what the driver made of it for each context.

    `form` is what the compiler was asked for in place of the options' form, None where that stayed.
    """

    compiled: CompiledKernel
    device: Device
    form: Form | None = None
    handles: dict[Hashable, Any] = field(default_factory=dict)


class Overloads:
    """The compilations of a program with one user's options, `made` so far, by device and form.

    `queue` is the one that all arguments must be on, None where any will do.  `lock` guards what is here: threads that
    need the same compilation wait for the one that makes it.
    """

    def __init__(self, program: Program, options: KernelOptions, platform: Platform, queue: Any = None) -> None:
        self.program, self.options, self.platform, self.queue = program, options, platform, queue
        self.made: dict[tuple[Device, Form | None], Overload] = {}
        self.lock = threading.RLock()
        self._variants: dict[Device, tuple[Variant, ...]] = {}
        self._tuned: dict[Device, Tuned | None] = {}
        self._stats = Stats()

    # --- launches --------------------------------------------------------------------------------------------------

    def launch(self, binding: Binding, call: BoundCall, queue: Any) -> Launch:
        """Return the launch of a call whose arguments were checked, with the kernel that is for it.

        Raises what compiling raises, and `TLBindingError` for a call that the form of the options does not take.
        """
        follow_log()
        device, context = self.platform.describe(queue), self.platform.context_of(queue)
        variants = self._variants.get(device)
        overload = None if variants is None else self.made.get(
            (device, form_for(variants, self.platform, binding, call, device)))
        if overload is None or context not in overload.handles:
            overload = with_room(self._loaded_for, binding, call, device, queue, context)
        handle = overload.handles[context]
        launch = self.platform.prepare(binding, call, queue, handle, overload.compiled.plan, device)
        launch.binding = binding
        return launch

    def _loaded_for(
        self, binding: Binding, call: BoundCall, device: Device, queue: Any, context: Hashable
    ) -> Overload:
        """Return the compilation for a call, which the context of a queue has loaded."""
        check_process()
        with self.lock:  # tuning may end in between and leave other variants
            form = form_for(self.variants(device), self.platform, binding, call, device)
            return self.loaded(device, form, queue, context)

    def is_for_any_sizes(self, binding: Binding, call: BoundCall, queue: Any) -> bool:
        """Return whether a call takes a kernel that would gain nothing from knowing its sizes."""
        device = self.platform.describe(queue)
        if not device.asynchronous_copies:
            return False  # nor are there kernels for tiles of any matrices
        from tl_dpnp.lowering.product_plans import BlockPlan, TilePlan

        condition = variant_for(self.variants(device), self.platform, binding, call, device).condition
        return isinstance(condition, TilePlan | BlockPlan) and condition.is_for_any_sizes(
            [argument.shape for argument in call.arguments])

    def load(self, queue: Any) -> None:
        """Compile and load the program for a queue, in the form that the options ask for."""
        with_room(self.loaded, self.platform.describe(queue), None, queue, self.platform.context_of(queue))

    def loaded(self, device: Device, form: Form | None, queue: Any, context: Hashable) -> Overload:
        """Return the compilation for a device and a form, which the context of a queue has loaded."""
        check_process()
        note_use()
        with self.lock:
            overload = self.overload(device, form)
            if context not in overload.handles:
                with span("compile", f"@{self.program.name}"):
                    handle, built = self.platform.load(overload.compiled, device, queue, self.cache())
                self._stats.driver_builds += built
                overload.handles[context] = handle
            return overload

    # --- compilation -----------------------------------------------------------------------------------------------

    def cache(self) -> DiskCache | None:
        """Return the disk cache, None where it is not to be used."""
        return open_cache() if self.options.cache else None

    def variants(self, device: Device, refresh: bool = False) -> tuple[Variant, ...]:
        """Return the kernels that there can be for calls on a device."""
        with self.lock:
            if refresh or device not in self._variants:
                with span("compile", f"the variants of @{self.program.name}"):
                    self._variants[device] = variants_of(
                        self.program, device, self.lowering(device), self.cache(), refresh)
            return self._variants[device]

    def overload(self, device: Device, form: Form | None = None, refresh: bool = False) -> Overload:
        """Return the compilation for a device and a form, making it if it is not there."""
        with self.lock:
            if (device, form) not in self.made or refresh:
                cache = self.cache()
                compiled = compile_program(self.program, device, self.lowering(device, form), cache, refresh)
                self._stats.cache_path = None if cache is None else cache.folder
                self._stats.compile_seconds += compiled.seconds
                if cache is not None:
                    self._stats.cache_hits += compiled.from_cache
                    self._stats.cache_misses += not compiled.from_cache
                self.made[device, form] = Overload(compiled, device, form)
            return self.made[device, form]

    def refresh(self) -> None:
        """Compile again what has been compiled, and replace it in the disk cache."""
        with self.lock:
            for device in [*self._variants]:
                self.variants(device, refresh=True)
            for device, form in [*self.made]:
                self.overload(device, form, refresh=True)

    def lowering(self, device: Device, form: Form | None = None) -> LoweringOptions:
        """Return what the compiler is asked for: the options, and the schedules that tuning found for the device."""
        with self.lock:
            if device not in self._tuned:
                cache = self.cache() if self.options.tuned else None
                with span("compile", f"the tuned schedules of @{self.program.name}"):
                    self._tuned[device] = None if cache is None else load_tuned(
                        cache, self.program, device, self.options.lowering)
            tuned = self._tuned[device]
        options = self.options.lowering if tuned is None else tuned.applied_to(self.options.lowering)
        return options.in_form(form)

    # --- tuning ----------------------------------------------------------------------------------------------------

    def tuned(self, device: Device) -> Tuned | None:
        """Return what tuning found for a device, None where that is the default."""
        tuned = self._tuned.get(device)
        return tuned if tuned is not None and tuned.schedules else None

    def use(self, device: Device, tuned: Tuned, winner: Overload | None) -> None:
        """Use what tuning found for a device from now on; `winner` is compiled so, if anything is."""
        with self.lock:
            self._tuned[device] = tuned
            self._variants.pop(device, None)
            for key in [key for key in self.made if key[0] == device]:
                del self.made[key]
            if winner is not None:
                self.made[device, winner.form] = winner

    # --- what there is ---------------------------------------------------------------------------------------------

    def current_device(self) -> Device:
        """Return the device to tell about: the first that there is a compilation for, else that of the next call."""
        for device, _ in [*self.made]:  # other threads may compile meanwhile
            return device
        return self.platform.current_device() if self.queue is None else self.platform.describe(self.queue)

    def lowered(self, device: Device, form: Form | None = None) -> LoweredKernel:
        """Return the program as the compiler lowers it for a device and a form; nothing is kept."""
        return lowered(self.program, device, self.lowering(device, form))

    @property
    def stats(self) -> Stats:
        """Counts of the disk cache and the time spent compiling, so far."""
        return replace(self._stats, tuned=sum(self.tuned(device) is not None for device, _ in [*self.made]))
