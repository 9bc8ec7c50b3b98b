"""Kernels: compiled functions that are called with arrays."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import OverlapWarning, TLBindingError, TLError, TLTypeError, UnsupportedError
from tl_dpnp.language import ops
from tl_dpnp.language.printer import print_function
from tl_dpnp.lowering.device import DeviceDescription, LoweringOptions
from tl_dpnp.lowering.plan import Form, LaunchPlan
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.memo import LaunchMemo, Remembered
from tl_dpnp.runtime.call.overlap import Footprint, OverlapWatch
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import CompiledKernel, cache_key, compile_program, keep, llvm_of, lowered
from tl_dpnp.runtime.forking import check_process, note_use, process
from tl_dpnp.runtime.fresh_stack import with_room
from tl_dpnp.runtime.options import KernelOptions, Signature, Stats
from tl_dpnp.runtime.platform_choice import default_platform, platform_for
from tl_dpnp.runtime.platforms import Launch
from tl_dpnp.runtime.recording import Step
from tl_dpnp.runtime.recording import current as current_recording
from tl_dpnp.runtime.store.cache import open_cache
from tl_dpnp.runtime.tune.tuned import Tuned, load_tuned, store_tuned

if TYPE_CHECKING:
    from tl_dpnp.lowering import LoweredKernel
    from tl_dpnp.lowering.schedule import Schedule
    from tl_dpnp.runtime.offline.program import DeviceProgram
    from tl_dpnp.runtime.reference import ReferenceTarget
    from tl_dpnp.runtime.tune.tuning import TuningReport

__all__ = ["Kernel", "KernelOptions", "Signature", "Stats"]

#: What the compiler makes for a target.
_CODE = {"sycl": "SPIR-V", "cuda": "PTX"}

@dataclass(frozen=True)
class _Overload:
    """One compilation of a kernel, and what the driver made of it for each context."""

    compiled: CompiledKernel
    device: DeviceDescription
    form: Form | None = None
    handles: dict[Hashable, Any] = field(default_factory=dict)


class Kernel:
    """A function of the tensor language that can be called with arrays.

    Made by `tl_dpnp.compile`.  It is compiled at its first call for the device of its arguments, and once for each
    further device.  Calls from several threads are safe.  A kernel pickles as its source and options; the queue that
    was given to `compile` stays behind.
    """

    def __init__(self, program: Program, options: KernelOptions, queue: Any = None) -> None:
        self.options = options
        self._program = program
        self._queue = queue
        self._reference = _reference_target(program, options) if options.target == "reference" else None
        if self._reference is None:
            self._platform = platform_for(options.target)
            self._binding = Binding(program, self._platform.arrays, debug=options.debug)
            written = self._binding.written_arrays
            self._recent = None if written is None else self._platform.recent_calls(written)
            self._direct = self._platform.direct_calls()
        self._memo = LaunchMemo()
        self._overlaps = OverlapWatch(program, options.debug)
        self._overloads: dict[tuple[DeviceDescription, Form | None], _Overload] = {}
        self._tuned: dict[DeviceDescription, Tuned | None] = {}
        self._stats = Stats()
        self._lock = threading.RLock()
        if queue is not None and self._reference is None:
            self._handle(queue)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{parameter}: {parameter.type}" for parameter in self.parameters)
        return f"<tl_dpnp.Kernel @{self.name}({parameters}) for {self.options.target}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Kernel, (self._program, self.options)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._program.function.name

    @property
    def parameters(self) -> tuple[ops.Value, ...]:
        """The parameters, each with its ``name`` and ``type``."""
        return self._program.function.parameters

    @property
    def source_text(self) -> str:
        """The text that the kernel was compiled from; the printed function where it was built without text."""
        return self._program.text if self._program.text is not None else print_function(self._program.function)

    # --- calls -----------------------------------------------------------------------------------------------------

    def __call__(self, *arguments: Any, group_size: int | None = None) -> None:
        """Run the kernel and wait until it is done; on a CUDA device only start it, on the arrays' current stream.

        One argument for each parameter: a Python or NumPy scalar; for a memref a dpnp or dpctl array whose axis i is
        mode i, in column-major layout (see `tl_dpnp.rev`); for a group a list of arrays or a `tl_dpnp.group`.  With
        ``target="cuda"`` arrays are those of CuPy, PyTorch or Numba, or offer DLPack; with ``target="reference"`` NumPy
        arrays do too.
        `group_size` is the number of work-groups, by default the common length of the groups and sizes of the modes
        that ``group_id`` indexes.

        Raises `TLTypeError`, `TLBindingError` or `LayoutError` for arguments that do not fit,
        `dpctl.utils.ExecutionPlacementError` for arrays on different queues, `TLBoundsError` with ``debug=True``.
        What was submitted before to the queue of the arrays is done first.  Inside `tl_dpnp.record` the call is
        recorded instead.  The first call with an argument that is written and overlaps another gives an
        `OverlapWarning`.
        """
        if current_recording() is not None:
            self._record(arguments, group_size)
        elif self._reference is not None:
            self._reference.run(arguments, group_size)
        else:
            direct = self._direct if group_size is None else None
            if direct is not None:
                for function in direct.functions:
                    if function(arguments):
                        return
            launch, addresses, _arrays = self._launch(arguments, group_size)
            launch.run(arguments, addresses)
            if direct is not None:
                direct.notice(self._binding, launch, arguments)

    def submit(self, *arguments: Any, depends: Iterable[Any] = (), group_size: int | None = None) -> Any:
        """Start the kernel after the events in `depends` and return its `dpctl.SyclEvent`, or CUDA event, at once.

        The queue of the arguments need not be in order: without `depends` nothing is waited for.  Arguments are kept
        alive until the event is complete.  With ``debug=True`` and with ``target="reference"`` the work is done when
        this returns, so that it can raise.  Otherwise as calling the kernel.
        """
        events = list(depends)
        recording = current_recording() is not None
        if recording or self._reference is not None:
            for event in events:
                event.wait()
            if recording:
                self._record(arguments, group_size)
            elif self._reference is not None:
                self._reference.run(arguments, group_size)
            platform = default_platform() if self._reference is not None else self._platform
            return platform.completed_event()
        launch, addresses, arrays = self._launch(arguments, group_size)
        try:
            event = launch.start(arguments, addresses, events)
            self._platform.keep_alive(launch.queue, (launch, self._binding.owners(arguments, arrays)), event)
        except TLError:
            raise
        except BaseException:  # that of a signal handler may come in between, and the arrays go while the kernel runs
            self._platform.wait(launch.queue)
            raise
        return event

    def _record(self, arguments: Sequence[Any], group_size: int | None) -> None:
        recording = current_recording()
        assert recording is not None
        if self._reference is not None:
            recording.add(Step(self.name, None, None, self._reference.prepared(arguments, group_size)))
        else:
            launch, addresses, arrays = self._launch(arguments, group_size)
            owners = self._binding.owners(arguments, arrays)
            recording.add(Step(self.name, launch.fixed(arguments, addresses, owners), self._platform))

    def _launch(self, arguments: Sequence[Any], group_size: int | None) -> tuple[Launch, list[int], list[Any]]:
        """Return the launch for the arguments, from memory where the like was called before.

        With it come the arrays for the memrefs, which the caller keeps alive, and their addresses.
        """
        if process.cut_off:
            check_process()
        binding = self._binding
        try:
            arrays = binding.arrays(arguments)
            recent = None if self._recent is None else self._recent.get(arrays, group_size)
            if recent is not None:
                return recent.launch, recent.addresses, arrays
            key = (binding.key(arguments, arrays), group_size)
            remembered = self._memo.get(key)
        except (AttributeError, TypeError, ValueError):
            self._binding.bind(arguments, group_size)  # refuses such arguments, with a better message
            raise
        if remembered is None:
            remembered = self._prepare(arguments, group_size)
            self._memo.put(key, remembered, sum(len(a) if isinstance(a, list | tuple) else 1 for a in arguments))
        launch, footprint = remembered
        addresses = ([*map(self._platform.arrays.address_of, arrays)] if self._recent is None
                     else self._recent.put(arrays, group_size, launch).addresses)
        if footprint is not None and not self._overlaps.is_over and footprint.may_overlap(addresses):
            self._look_for_overlap(arguments, group_size)
        return launch, addresses, arrays

    def _look_for_overlap(self, arguments: Sequence[Any], group_size: int | None) -> None:
        try:
            self._overlaps.look(self._binding.bind(arguments, group_size))
        except OverlapWarning:  # it was made an error, which the next call with these arrays shall give as well
            self._forget_launches()
            raise

    def _prepare(self, arguments: Sequence[Any], group_size: int | None) -> Remembered:
        call = self._binding.bind(arguments, group_size)
        launch = self.prepare(call, self._queue_of(call))
        if self._overlaps.is_over:
            return Remembered(launch, None)
        self._overlaps.look(call)
        footprint = Footprint(call, self._program.usage.written)
        return Remembered(launch, None if footprint.is_empty else footprint)

    def prepare(self, call: BoundCall, queue: Any, form: Form | None = None) -> Launch:
        """Return the launch of a call whose arguments were checked, for layers that bind arguments themselves.

        With `form` it is for the kernel in that form, whatever the options say.
        """
        overload, handle = self._handle(queue, form)
        in_form = partial(self.prepare, call, queue)
        return self._platform.prepare(
            self._binding, call, queue, handle, overload.compiled.plan, overload.device, in_form
        )

    def _forget_launches(self) -> None:
        self._memo.clear()
        if self._recent is not None:
            self._recent.clear()
        if self._direct is not None:
            self._direct.clear()

    def _queue_of(self, call: BoundCall) -> Any:
        if self._queue is None:
            return self._platform.default_queue() if call.queue is None else call.queue
        named = [("the queue given to compile", self._queue), ("the arguments", call.queue)]
        return self._queue if call.queue is None else self._platform.arrays.common_queue(named)

    # --- compilation -----------------------------------------------------------------------------------------------

    def _handle(self, queue: Any, form: Form | None = None) -> tuple[_Overload, Any]:
        """Return the compilation for the device of a queue and the kernel that its context has loaded."""
        device, context = self._platform.describe(queue), self._platform.context_of(queue)
        overload = self._overloads.get((device, form))
        if overload is None or context not in overload.handles:
            overload = with_room(self._load, device, form, queue, context)
        return overload, overload.handles[context]

    def _load(self, device: DeviceDescription, form: Form | None, queue: Any, context: Hashable) -> _Overload:
        """Return the compilation for a device, which the context of a queue has loaded."""
        check_process()
        note_use()
        with self._lock:
            overload = self._overload(device, form)
            if context not in overload.handles:
                cache = open_cache() if self.options.cache else None
                handle, built = self._platform.load(overload.compiled, overload.device, queue, cache)
                self._stats.driver_builds += built
                overload.handles[context] = handle
            return overload

    def _overload(self, device: DeviceDescription, form: Form | None = None, refresh: bool = False) -> _Overload:
        """Return the compilation for a device, making it if it is not there; the lock is held.

        A `form` is one that arguments need which the default form does not take.
        """
        if (device, form) not in self._overloads or refresh:
            cache = open_cache() if self.options.cache else None
            compiled = compile_program(self._program, device, self._lowering(device, form), cache, refresh)
            self._stats.cache_path = None if cache is None else cache.folder
            self._stats.compile_seconds += compiled.seconds
            if cache is not None:
                self._stats.cache_hits += compiled.from_cache
                self._stats.cache_misses += not compiled.from_cache
            self._overloads[device, form] = _Overload(compiled, device, form)
        return self._overloads[device, form]

    def _lowering(self, device: DeviceDescription, form: Form | None = None) -> LoweringOptions:
        """Return what the compiler is asked for: the options, and the schedules that tuning found for the device."""
        with self._lock:
            if device not in self._tuned:
                cache = open_cache() if self.options.cache and self.options.tuned else None
                self._tuned[device] = None if cache is None else load_tuned(
                    cache, self._program, device, self.options.lowering
                )
            tuned = self._tuned[device]
        options = self.options.lowering if tuned is None else tuned.applied_to(self.options.lowering)
        return options if form is None else replace(options, form=form)

    def recompile(self) -> None:
        """Compile again for every device that the kernel was compiled for, and replace it in the disk cache."""
        self._require_device_target("recompile")
        with self._lock:
            for device, form in list(self._overloads):
                self._overload(device, form, refresh=True)
            self._forget_launches()

    def lower(self, device: DeviceDescription | str | None = None) -> LoweredKernel:
        """Return the kernel as the compiler lowers it for a device, here or not; by default the current one.

        `tl_dpnp.devices` lists descriptions; ``"pvc"`` and ``"dg2"`` name devices that are only compiled for.  Nothing
        is compiled and nothing is cached.
        """
        self._require_device_target("lower")
        if isinstance(device, str):
            from tl_dpnp.runtime.offline.targets import target_named

            device = target_named(device).description
        device = device or self._current_device()
        return lowered(self._program, device, self._lowering(device))

    def _lowered(self, overload: _Overload) -> LoweredKernel:
        return lowered(self._program, overload.device, self._lowering(overload.device, overload.form))

    def schedules(self, device: DeviceDescription | None = None) -> dict[str, Schedule]:
        """Return the schedule of each linear-algebra instruction, by the name of its nest: gemm_0, sum_1 and so on.

        They are copies: change them, or begin anew with `Schedule.fresh`, and give them to `tl_dpnp.compile`.
        """
        return {schedule.name: schedule.copy() for schedule in self.lower(device).schedules}

    def _current_device(self) -> DeviceDescription:
        for device, _ in self._overloads:
            return device
        return self._platform.current_device() if self._queue is None else self._platform.describe(self._queue)

    def _require_device_target(self, what: str) -> None:
        if self._reference is not None:
            raise UnsupportedError(f'{what}: @{self.name} has target="reference", for which no code is generated')

    # --- tuning ----------------------------------------------------------------------------------------------------

    def tune(
        self, *arguments: Any, budget: float = 10.0, progress: bool = True, group_size: int | None = None
    ) -> TuningReport:
        """Search the schedules for those that run a call with these arguments fastest, and use them from now on.

        Arguments and `group_size` are those of a call.  Arrays that the kernel writes keep their contents: copies are
        written, which take as much memory, and twice that if the kernel reads them as well.  `budget` is in seconds,
        compilation included; `progress` shows a bar on standard error if that is a terminal.  Only instructions that
        the user gave no schedule for are searched.

        The result holds for this program on the device of the arguments, here and, through the disk cache, in kernels
        that are made later; the default schedules stay if nothing is clearly faster.  Ctrl-C ends the search and keeps
        the best so far.  See docs/tuning.md.

        Raises what a call raises; `TLBindingError` for arguments without a single work-group, `TLTypeError` for a
        budget that is no positive number, `UnsupportedError` with ``target="reference"``, ``tuned=False``, and
        ``form="staged"`` or ``"tiled"``, which have no schedules.
        """
        self._require_device_target("tune")
        check_process()
        if not self.options.tuned:
            raise UnsupportedError(f"tune: @{self.name} was compiled to ignore what tuning finds (tuned=False)")
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
            raise TLTypeError(f"budget= takes a positive number of seconds, not {budget!r}")
        if self.options.form in ("staged", "tiled"):
            raise UnsupportedError(f"tune: @{self.name} was compiled with form={self.options.form!r}, which has no "
                                   "schedules to search: leave form= away")
        from tl_dpnp.lowering.space import tunables
        from tl_dpnp.runtime.tune.tuning import Workbench, search_schedules

        call = self._binding.bind(arguments, group_size)
        if not call.groups:
            raise self._program.error(TLBindingError, f"tune: the arguments of @{self.name} have no work-group to time")
        queue = self._queue_of(call)
        device, options = self._platform.describe(queue), self.options.lowering
        cache = open_cache() if self.options.cache else None
        instructions = tunables(self._program.function, device, options)
        workbench = Workbench(self._platform, self._binding, device, options, instructions, call, arguments, queue,
                              cache)
        report, tuned, winner = search_schedules(workbench, budget, progress)
        if cache is not None:
            store_tuned(cache, self._program, device, options, tuned)
            if winner is not None and tuned.schedules:
                keep(cache, cache_key(self._program, device, tuned.applied_to(options)), winner.compiled)
                self._platform.keep_machine_code(winner.compiled, device, queue, cache, winner.handle)
        with self._lock:
            self._tuned[device] = tuned
            if winner is not None:
                self._overloads[device, None] = _Overload(winner.compiled, device)
                self._overloads[device, None].handles[self._platform.context_of(queue)] = winner.handle
            self._forget_launches()
        return report

    # --- inspection ------------------------------------------------------------------------------------------------

    @property
    def signatures(self) -> list[Signature]:
        """What the kernel has been compiled for so far."""
        return [self._signature(overload) for overload in self._overloads.values()]

    @property
    def stats(self) -> Stats:
        """Counts of the disk cache and the time spent compiling, so far."""
        tuned = sum(self._tuned_schedules(device) is not None for device, _ in self._overloads)
        return replace(self._stats, tuned=tuned)

    def _tuned_schedules(self, device: DeviceDescription) -> Tuned | None:
        """Return what tuning found for a device, None where that is the default."""
        tuned = self._tuned.get(device)
        return tuned if tuned is not None and tuned.schedules else None

    def _signature(self, overload: _Overload) -> Signature:
        return Signature(tuple(str(parameter.type) for parameter in self.parameters), str(overload.device),
                         overload.compiled.plan.form)

    def _compiled(self) -> dict[Signature, _Overload]:
        """Return the compilations by signature; where there is none yet, make the one for the current device."""
        self._require_device_target("inspection")
        with self._lock:
            if not self._overloads:
                self._overload(self._current_device())
            return {self._signature(overload): overload for overload in self._overloads.values()}

    def _inspect(self, signature: Signature | None, look: Any) -> Any:
        compiled = self._compiled()
        if signature is None:
            return {key: look(overload) for key, overload in compiled.items()}
        if signature not in compiled:
            known = "; ".join(map(str, compiled))
            raise TLBindingError(f"@{self.name} has not been compiled for {signature}; it has for {known}")
        return look(compiled[signature])

    def inspect_source(self, signature: Signature | None = None) -> Any:
        """Return the body of the kernel as text that reads like Python.

        Like all ``inspect_`` methods it returns a dict keyed by signature, or one value if a signature is given; a
        kernel that has not been compiled yet is compiled for the current device first.
        """
        return self._inspect(signature, lambda overload: overload.compiled.source)

    def inspect_ir(self, signature: Signature | None = None, *, stage: str | None = None) -> Any:
        """Return the IR after one stage of lowering as text, by default after the last.

        Raises `TLError` for an unknown stage, naming those that there are.
        """
        def look(overload: _Overload) -> str:
            stages = self._lowered(overload).stages
            if stage is not None and stage not in stages:
                raise TLError(f"there is no stage {stage!r}; there are {', '.join(stages)}")
            return str(stages[stage or list(stages)[-1]])

        return self._inspect(signature, look)

    def inspect_schedule(self, signature: Signature | None = None) -> Any:
        """Return the loop nests and the schedule primitives that were applied to them, as text."""
        return self._inspect(signature, lambda overload: self._lowered(overload).schedule)

    def inspect_llvm(self, signature: Signature | None = None) -> Any:
        """Return the LLVM IR as text; it is generated again, since only what is made of it is kept."""
        return self._inspect(signature, lambda overload: llvm_of(self._lowered(overload), overload.device))

    def inspect_spirv(self, signature: Signature | None = None) -> Any:
        """Return the SPIR-V module as bytes; raises `UnsupportedError` for kernels of other targets."""
        self._require("inspect_spirv", "sycl")
        return self._inspect(signature, lambda overload: overload.compiled.binary)

    def inspect_ptx(self, signature: Signature | None = None) -> Any:
        """Return the PTX as text; raises `UnsupportedError` for kernels of other targets than ``"cuda"``.

        Without a GPU the kernel is compiled for `tl_dpnp.lowering.device.H200`.
        """
        self._require("inspect_ptx", "cuda")
        return self._inspect(signature, lambda overload: overload.compiled.binary.decode())

    def inspect_sass(self, signature: Signature | None = None) -> Any:
        """Return the machine code as text; needs no GPU, but ``nvdisasm`` of the CUDA toolkit on the PATH.

        Raises `UnsupportedError` where that is missing, and for kernels of other targets than ``"cuda"``.
        """
        self._require("inspect_sass", "cuda")
        from tl_dpnp.runtime.cuda.ptx import disassemble, link

        return self._inspect(signature, lambda overload: disassemble(link(overload.compiled, overload.device)))

    def resources(
        self, signature: Signature | None = None, *, device: str | None = None, registers: int | None = None
    ) -> Any:
        """Return what a kernel takes: registers, spills, memory.

        With `device`, on an Intel GPU that need not be there, as `tl_dpnp.runtime.offline.program.Resources`, with the
        instructions of the inner loop: see `compile_offline`.  Otherwise on a CUDA device, as
        `tl_dpnp.runtime.cuda.ptx.Resources`; raises `UnsupportedError` for kernels of other targets than ``"cuda"``.
        """
        if device is not None:
            return self.compile_offline(device, registers=registers).resources
        self._require("resources", "cuda")
        from tl_dpnp.runtime.cuda.ptx import link

        return self._inspect(signature, lambda overload: link(overload.compiled, overload.device).resources)

    def _require(self, what: str, target: str) -> None:
        if self.options.target != target:
            raise UnsupportedError(f'{what} is for target="{target}"; @{self.name} has target="{self.options.target}"')

    def compile_offline(self, device: str, *, registers: int | None = None) -> DeviceProgram:
        """Compile the kernel for an Intel GPU that need not be there: ``"pvc"`` (Xe-HPC) or ``"dg2"`` (Xe-HPG).

        `registers` is the size of a thread's register file, 128 or 256; by default what the schedule is made for.
        Without it, default tiles of the matrix engine are made smaller where they take scratch memory.  The
        result has the ``binary``, its ``assembly`` and its ``resources``.  Raises UnsupportedError for an unknown
        device and where Intel's offline compiler is not installed, naming its package; LoweringError where the compiler
        fails or makes something else of a matrix instruction.
        """
        from tl_dpnp.runtime.offline.program import compile_without_scratch
        from tl_dpnp.runtime.offline.targets import target_named

        self._require_device_target("compile_offline")
        described = target_named(device).description
        options = self._lowering(described)
        cache = open_cache() if self.options.cache else None
        key = "" if cache is None else cache_key(self._program, described, options)

        def lower(halved: int) -> LoweredKernel:
            return lowered(self._program, described, replace(options, smaller_tiles=halved))

        return compile_without_scratch(lower, device, registers=registers, cache=cache, key=key)

    def inspect_asm(self, device: str, *, registers: int | None = None) -> str:
        """Return the assembly for a device, as text; see `compile_offline`."""
        return self.compile_offline(device, registers=registers).assembly

    def diagnostics(self, level: int = 1, *, device: str | None = None) -> str:
        """Return how the kernel was compiled, as text.

        Level 1 gives the form, the sizes and the time for each signature; 2 adds the schedules and what the matrix
        engine does and does not, 3 the kernel's body, 4 the IR after each stage.  With `device`, ``"pvc"`` or
        ``"dg2"``, the kernel is compiled offline, and the text says what bounds it there; raises what `compile_offline`
        does.
        """
        self._require_device_target("diagnostics")
        if device is not None:
            program = self.compile_offline(device)
            remarks = [f"  {remark}" for remark in program.remarks]
            found = str(program.resources).replace("\n", "\n  ")
            return "\n".join([f"@{self.name} for {device}: compiled, not run", *remarks, f"  {found}"])
        return "\n\n".join(
            "\n".join(self._report(signature, overload, level)) for signature, overload in self._compiled().items()
        )

    def _report(self, signature: Signature, overload: _Overload, level: int) -> Iterable[str]:
        compiled = overload.compiled
        yield f"@{self.name}{signature}"
        yield from _plan_lines(compiled.plan)
        how = "read from the disk cache" if compiled.from_cache else "compiled"
        yield f"  {how} in {compiled.seconds:.3f} s, {len(compiled.binary)} bytes of {_CODE[self.options.target]}"
        tuned = self._tuned_schedules(overload.device)
        if tuned is not None:
            yield f"  tuned, {tuned.gain:.2f} times as fast as the default when measured: {tuned.summary}"
        if level >= 2:
            kernel = self._lowered(overload)
            yield from (f"  {remark}" for remark in kernel.remarks)
            why = self.options.why_no_amx
            if why is not None and overload.device.amx:
                yield f"  AMX is not used: {why}"
            yield from ("", "schedules:", kernel.schedule)
            if level >= 3:
                yield from ("", "kernel:", compiled.source)
            if level >= 4:
                for stage, text in kernel.stages.items():
                    yield from ("", f"IR, {stage}:", text)


def _reference_target(program: Program, options: KernelOptions) -> ReferenceTarget:
    from tl_dpnp.runtime.reference import ReferenceTarget  # brings the interpreter, which device kernels do not need

    return ReferenceTarget(program, options.debug)


def _plan_lines(plan: LaunchPlan) -> Iterable[str]:
    if plan.form == "vector":
        yield "  one work-item computes a work-group, with vectors"
        if plan.divides:
            yield "  where there are few work-groups, several work-items share each"
    elif plan.form == "divided":
        yield f"  {plan.parts} work-items share a work-group, with vectors"
    else:
        yield f"  {plan.subgroups} sub-groups of {plan.subgroup_size} work-items compute a work-group"
    yield f"  {plan.work} vector multiply-adds and {plan.local_memory} bytes of local memory for each work-group"
    if plan.checks:
        yield f"  {len(plan.checks)} bounds checks"


