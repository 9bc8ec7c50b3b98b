"""Kernels: compiled functions that are called with arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from numbers import Real
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import OverlapWarning, TLBindingError, TLError, TLTypeError, UnsupportedError
from tl_dpnp.language.extents import Extents, LaunchSize
from tl_dpnp.lowering.mappings.frames import FRAMES
from tl_dpnp.runtime.c_order import InCOrder
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.memo import CallMemo, Remembered
from tl_dpnp.runtime.call.overlap import Footprint, OverlapWatch
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.forking import check_process, process
from tl_dpnp.runtime.inspection import Inspection
from tl_dpnp.runtime.options import KernelOptions, Signature, Stats
from tl_dpnp.runtime.overloads import Overloads
from tl_dpnp.runtime.platform_choice import default_platform, platform_for
from tl_dpnp.runtime.platforms import Launch
from tl_dpnp.runtime.recording import Step, listed_events
from tl_dpnp.runtime.recording import current as current_recording
from tl_dpnp.runtime.specialization import Specializations
from tl_dpnp.runtime.store.cache import key_of
from tl_dpnp.runtime.watching import MACHINE_CODE, door, follow_log
from tl_dpnp.target.targets import TARGETS

if TYPE_CHECKING:
    from tl_dpnp.runtime.reference import ReferenceTarget
    from tl_dpnp.runtime.tune.tuning import TuningReport

__all__ = ["Kernel", "KernelOptions", "Signature", "Stats"]


#: What a kernel has that never runs on a device.
_NO_DIRECT_CALLS = SimpleNamespace(functions=())
#: Kinds of repeated calls with functions of their own: numbers of work-groups, and arrays in C order.
_MOST_SIZES = 18


class _OfKernels:
    """An attribute that each kernel has its own value of; that of the class is `of_class`, None where it has none."""

    def __init__(self, value: Callable[[Kernel], Any], of_class: Any = None) -> None:
        self._value, self._of_class = value, of_class

    def __get__(self, kernel: Kernel | None, owner: type) -> Any:
        if kernel is not None:
            return self._value(kernel)
        if self._of_class is None:  # `inspect` then looks at the class as at any other
            raise AttributeError("this is an attribute of kernels")
        return self._of_class


class Kernel(Inspection):
    """A function of the tensor language that can be called with arrays.

    Made by `tl_dpnp.compile`.  It is compiled at its first call for the device of its arguments, and once for each
    further device, and for each further form that a call takes there.  Calls from several threads are safe.  A kernel
    pickles as its source and options; the queue that was given to `compile` stays behind.
    """

    __doc__ = _OfKernels(lambda kernel: kernel._program.signature.documentation, __doc__)
    __signature__ = _OfKernels(lambda kernel: kernel._program.signature.python)

    def __init__(
        self, program: Program, options: KernelOptions, queue: Any = None, *, has_axes: bool | None = None
    ) -> None:
        overloads = specializations = None
        given, asked = program, program.usage.asked
        if asked:
            program = program.without(frozenset())
        # Devices are asked for launches along one axis; where there may be more, `code` takes the extents as well.
        self._has_axes = program.usage.has_axes if has_axes is None else has_axes
        code = program
        # What looks at repeated calls knows neither extents nor what addresses have to be.
        self._is_followed = not (self._has_axes or program.interface.asserts_addresses)
        self._reference = _reference_target(program, options) if TARGETS[options.target].is_interpreted else None
        self._direct: Any = _NO_DIRECT_CALLS
        #: The functions for repeated calls, by the number of work-groups that these give and by whether arrays are in
        #: C order.
        self._directs: dict[tuple[int | None, bool], Any] = {}
        if self._reference is None:
            self._platform = platform_for(options.target)
            if self._has_axes:
                self._grid = Binding(program, self._platform.arrays, debug=options.debug)
                code = program.along_one_axis
            self._binding = Binding(code, self._platform.arrays, debug=options.debug)
            written = self._binding.written_arrays
            self._recent = None if written is None else self._platform.recent_calls(written)
            if self._is_followed:
                self._direct = self._directs[None, False] = self._platform.direct_calls()
            overloads = Overloads(code, options, self._platform, queue)
            if options.specializes:
                specializations = Specializations(code, options, self._platform, queue)
        super().__init__(given, options, overloads, specializations)
        follow_log()
        self._asked = sorted(asked)
        self._for_present: dict[tuple[int, ...], Kernel] = {}
        self._queue = queue
        self._memo: CallMemo[Remembered] = CallMemo()
        self._extents: CallMemo[Extents] = CallMemo()
        self._overlaps = OverlapWatch(code, options.debug)
        if queue is not None and overloads is not None:
            overloads.load(queue)

    def __repr__(self) -> str:
        parameters = ", ".join(f"{parameter}: {parameter.type}" for parameter in self.parameters)
        return f"<tl_dpnp.Kernel @{self.name}({parameters}) for {self.options.target}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Kernel, (self._program, self.options)

    def __dask_tokenize__(self) -> str:
        """Return what is the same for the same program and options in all processes, by which Dask names its tasks."""
        return key_of({**self._program.identity, "options": asdict(self.options)})

    # --- calls -----------------------------------------------------------------------------------------------------

    def __call__(self, /, *arguments: Any, group_size: LaunchSize = None, **named: Any) -> None:
        """Run the kernel and wait until it is done; on a CUDA device only start it, on the arrays' current stream.

        One argument for each parameter, by position or by name: a Python or NumPy scalar; for a memref a dpnp or dpctl
        array, or another one on a SYCL device, whose axis i is mode i, in column-major layout (see `tl_dpnp.rev`); for
        a group a list of arrays or a `tl_dpnp.group`.  With ``target="cuda"`` arrays are those of CuPy, PyTorch or
        Numba, or offer DLPack, and a group may be a vector of pointers on the device; with ``target="reference"`` NumPy
        arrays do too.  ``help(kernel)`` lists the parameters.
        ``group_size=`` is the number of work-groups, by default the common length of the groups and sizes of the modes
        that ``group_id`` indexes, or the numbers along x, y and z: ``group_size=(x, y, z)``.

        Raises `TLTypeError`, `TLBindingError` or `LayoutError` for arguments that do not fit,
        `dpctl.utils.ExecutionPlacementError` for arrays on different queues, `TLBoundsError` with ``debug=True``.
        What was submitted before to the queue of the arrays is done first.  Inside `tl_dpnp.record` the call is
        recorded instead.  The first call with an argument that is written and overlaps another gives an
        `OverlapWarning`.
        """
        # This is all that a repeated call by position does.
        if not named and current_recording() is None:
            direct = self._direct if group_size is None else self._direct_of(group_size)
            for function in direct.functions:
                if function(arguments):
                    return
        self._call(arguments, named, group_size)

    def _call(self, given: tuple[Any, ...], named: dict[str, Any], group_size: LaunchSize) -> None:
        """Run a call that no function for repeated ones took as it was given."""
        arguments = self._program.signature.arranged(given, named)
        kernel, present = self._with_present(arguments)
        if kernel is not self:
            kernel(*present, group_size=group_size)
        elif current_recording() is not None:
            self._record(arguments, group_size)
        elif self._reference is not None:
            self._reference.run(arguments, group_size)
        else:
            if arguments is not given:
                for function in self._direct_of(group_size).functions:
                    if function(arguments):
                        return
            self._run(arguments, group_size, arguments)

    def _direct_of(self, group_size: LaunchSize, in_c_order: bool = False) -> Any:
        """Return the functions for repeated calls like one."""
        if group_size is not None and type(group_size) is not int:
            return _NO_DIRECT_CALLS
        return self._directs.get((group_size, in_c_order), _NO_DIRECT_CALLS)

    def _run(
        self, given: Sequence[Any], group_size: LaunchSize, looks: tuple[Any, ...], in_c_order: bool = False
    ) -> None:
        """Run a call; where it is repeated, functions look at arguments like `looks`."""
        kernel, arguments, groups = self._along_axes(given, group_size)
        launch, addresses, _arrays = kernel._launch(arguments, groups)
        launch.run(arguments, addresses)
        if not self._is_followed or (group_size is not None and type(group_size) is not int):
            return
        key = (group_size, in_c_order)
        if key not in self._directs and len(self._directs) < _MOST_SIZES:
            self._directs.setdefault(key, self._platform.direct_calls())
        if key in self._directs:
            self._directs[key].notice(launch.binding, launch, arguments, looks)

    @functools.cached_property
    def in_c_order(self) -> InCOrder:
        """This kernel for arrays in C order: ``kernel.in_c_order(a, b)`` is ``kernel(rev(a), rev(b))``.

        Axis i of an array of n axes is mode n - 1 - i (see `tl_dpnp.rev`), also of the arrays in groups.  Repeated
        calls cost no more than those with arrays that were reversed before.
        """
        if self._reference is not None or not self._is_followed or self._asked:
            return InCOrder(self, self._program.signature, None, None)
        return InCOrder(
            self, self._program.signature, functools.partial(self._direct_of, in_c_order=True),
            lambda arguments, given, group_size: self._run(arguments, group_size, given, in_c_order=True))

    def submit(
        self, /, *given: Any, depends: Iterable[Any] = (), group_size: LaunchSize = None, **named: Any
    ) -> Any:
        """Start the kernel after the events in `depends` and return its `dpctl.SyclEvent`, or CUDA event, at once.

        The queue of the arguments need not be in order: without `depends` nothing is waited for.  Arguments are kept
        alive until the event is complete.  With ``debug=True`` and with ``target="reference"`` the work is done when
        this returns, so that it can raise.  Otherwise as calling the kernel.
        """
        arguments: Sequence[Any] = self._program.signature.arranged(given, named)
        kernel, present = self._with_present(arguments)
        if kernel is not self:
            return kernel.submit(*present, depends=depends, group_size=group_size)
        events = listed_events(depends)
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
        kernel, arguments, group_size = self._along_axes(arguments, group_size)
        launch, addresses, arrays = kernel._launch(arguments, group_size)
        try:
            event = launch.start(arguments, addresses, events)
            self._platform.keep_alive(launch.queue, (launch, kernel._binding.owners(arguments, arrays)), event)
        except TLError:
            raise
        except BaseException:  # that of a signal handler may come in between, and the arrays go while the kernel runs
            self._platform.wait(launch.queue)
            raise
        return event

    def interpret(self, arguments: Sequence[Any], groups: int) -> None:
        """Run a kernel with ``target="reference"`` on scalars and NumPy arrays whose layout the caller answers for."""
        assert self._reference is not None
        self._reference.interpret(arguments, groups)

    def _record(self, arguments: Sequence[Any], group_size: LaunchSize) -> None:
        recording = current_recording()
        assert recording is not None
        if self._reference is not None:
            recording.add(Step(self.name, None, None, self._reference.prepared(arguments, group_size)))
        else:
            kernel, arguments, group_size = self._along_axes(arguments, group_size)
            launch, addresses, arrays = kernel._launch(arguments, group_size)
            owners = kernel._binding.owners(arguments, arrays)
            recording.add(Step(self.name, launch.fixed(arguments, addresses, owners), self._platform))

    def _with_present(self, arguments: Sequence[Any]) -> tuple[Kernel, Sequence[Any]]:
        """Return the kernel of calls that give None for the same parameters, and the other arguments."""
        absent = tuple(position for position in self._asked if arguments[position] is None)
        if not absent:
            return self, arguments
        if absent not in self._for_present:
            program = self._program.without({self.parameters[position].name for position in absent})
            self._for_present[absent] = Kernel(program, self.options, self._queue)
        return self._for_present[absent], [
            argument for position, argument in enumerate(arguments) if position not in absent]

    def _along_axes(
        self, arguments: Sequence[Any], group_size: LaunchSize
    ) -> tuple[Kernel, Sequence[Any], LaunchSize]:
        """Return the kernel that runs a call, with the arguments and the number of work-groups that it takes."""
        if self._has_axes:
            extents = self._extents_of(arguments, group_size)
            return self, (*arguments, *extents), extents
        if not isinstance(group_size, tuple | list):
            return self, arguments, group_size
        if tuple(group_size[1:]) == (1, 1):
            return self, arguments, group_size[0]
        return self._for_axes._along_axes(arguments, group_size)

    def _extents_of(self, arguments: Sequence[Any], group_size: LaunchSize) -> Extents:
        """Return the extents of a launch, from memory where the like was called before; scalars are looked at later."""
        try:
            key = (self._grid.key(arguments, self._grid.arrays(arguments)), group_size)
            extents = self._extents.get(key)
        except (AttributeError, TypeError, ValueError):
            return self._grid.bind(arguments, group_size).extents  # which refuses such arguments
        if extents is None:
            extents = self._grid.bind(arguments, group_size).extents
            self._extents.put(key, extents, _count(arguments))
        return extents

    @functools.cached_property
    def _for_axes(self) -> Kernel:
        """This kernel for launches along more axes than it asks for: it runs as often as there are places along these.
        """
        return Kernel(self._program, self.options, self._queue, has_axes=True)

    def _launch(self, arguments: Sequence[Any], group_size: LaunchSize) -> tuple[Launch, list[int], list[Any]]:
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
            self._memo.put(key, remembered, _count(arguments))
        launch, footprint = remembered
        addresses = ([*map(self._platform.arrays.address_of, arrays)] if self._recent is None
                     else self._recent.put(arrays, group_size, launch).addresses)
        if footprint is not None and not self._overlaps.is_over and footprint.may_overlap(addresses, arrays):
            self._look_for_overlap(arguments, group_size)
        return launch, addresses, arrays

    def _look_for_overlap(self, arguments: Sequence[Any], group_size: LaunchSize) -> None:
        try:
            self._overlaps.look(self._binding.bind(arguments, group_size))
        except OverlapWarning:  # it was made an error, which the next call with these arrays shall give as well
            self._forget_launches()
            raise

    def _prepare(self, arguments: Sequence[Any], group_size: LaunchSize) -> Remembered:
        call = self._binding.bind(arguments, group_size)
        binding, overloads = self._specialized(call)
        launch = overloads.launch(binding, call, self._queue_of(call))
        launch.group_size = group_size if isinstance(group_size, int) else None
        if self._overlaps.is_over:
            return Remembered(launch, None)
        footprint = Footprint(call, self._program.usage.written)
        if footprint.has_groups:  # whose arrays may overlap one another; others are looked at with each call
            self._overlaps.look(call)
        return Remembered(launch, None if footprint.is_empty else footprint)

    def _specialized(self, call: BoundCall) -> tuple[Binding, Overloads]:
        """Return the compilations for a call, and the binding of their program, for its sizes where there is one."""
        overloads = self._device_overloads("call")
        if self._specializations is None or overloads.is_for_any_sizes(self._binding, call, self._queue_of(call)):
            return self._binding, overloads
        found = self._specializations.of(call)
        return (self._binding, overloads) if found is None else (found.binding, found.overloads)

    def prepare(self, call: BoundCall, queue: Any) -> Launch:
        """Return the launch of a call whose arguments were checked, for layers that bind arguments themselves."""
        return self._device_overloads("prepare").launch(self._binding, call, queue)

    def _forget_launches(self) -> None:
        self._memo.clear()
        if self._recent is not None:
            self._recent.clear()
        for direct in [*self._directs.values()]:
            direct.clear()

    def _queue_of(self, call: BoundCall) -> Any:
        if self._queue is None:
            return self._platform.default_queue() if call.queue is None else call.queue
        named = [("the queue given to compile", self._queue), ("the arguments", call.queue)]
        return self._queue if call.queue is None else self._platform.arrays.common_queue(named)

    # --- compilation -----------------------------------------------------------------------------------------------

    def recompile(self) -> None:
        """Compile again for every device that the kernel was compiled for, and replace it in the disk cache."""
        self._device_overloads("recompile").refresh()
        for specialization in self._specializations or ():
            specialization.overloads.refresh()
        self._forget_launches()

    # --- tuning ----------------------------------------------------------------------------------------------------

    def tune(
        self, /, *given: Any, budget: float = 10.0, progress: bool = True, group_size: LaunchSize = None, **named: Any
    ) -> TuningReport:
        """Search the schedules for those that run a call with these arguments fastest, and use them from now on.

        Arguments and `group_size` are those of a call.  Arrays that the kernel writes keep their contents: copies are
        written, which take as much memory, and twice that if the kernel reads them as well.  `budget` is in seconds,
        compilation included; `progress` shows a bar on standard error if that is a terminal.  Only instructions that
        the user gave no schedule for are searched.

        The result holds for this program on the device of the arguments, here and, through the disk cache, in kernels
        that are made later; where calls have kernels for their sizes, for calls with those of the arguments.  The
        default schedules stay if nothing is clearly faster.  Ctrl-C ends the search and keeps the best so far.  See
        docs/tuning.md.

        Raises what a call raises; `TLBindingError` for arguments without a single work-group, `TLTypeError` for a
        budget that is no positive number, `UnsupportedError` with ``target="reference"``, ``tuned=False``, and
        ``form="divided"``, ``"staged"``, ``"packed"``, ``"spread"``, ``"tiled"`` or ``"blocked"``, which have no
        schedules of the user's.
        """
        self._device_overloads("tune")
        check_process()
        if not self.options.tuned:
            raise UnsupportedError(f"tune: @{self.name} was compiled to ignore what tuning finds (tuned=False)")
        if isinstance(budget, bool) or not isinstance(budget, Real) or not 0 < budget < math.inf:
            raise TLTypeError(f"budget= takes a positive number of seconds, not {budget!r}")
        if self.options.form is not None and not FRAMES[self.options.form].is_tunable:
            raise UnsupportedError(f"tune: @{self.name} was compiled with form={self.options.form!r}, which has no "
                                   "schedules to search: leave form= away")
        from tl_dpnp.runtime.tune.tuning import tune

        arguments: Sequence[Any] = self._program.signature.arranged(given, named)
        kernel, present = self._with_present(arguments)
        if kernel is not self:
            return kernel.tune(*present, budget=budget, progress=progress, group_size=group_size)
        kernel, arguments, group_size = self._along_axes(arguments, group_size)
        call = kernel._binding.bind(arguments, group_size)
        if not call.groups:
            raise self._program.error(TLBindingError, f"tune: the arguments of @{self.name} have no work-group to time")
        binding, overloads = kernel._specialized(call)
        report = tune(overloads, binding, call, arguments, self._queue_of(call), budget, progress)
        kernel._forget_launches()
        return report


def _count(arguments: Sequence[Any]) -> int:
    """Return how many arrays the key of some arguments describes, at most."""
    return sum(len(argument) if isinstance(argument, list | tuple) else 1 for argument in arguments)


door(Kernel, "__call__", lambda kernel: (f"@{kernel.name}", MACHINE_CODE, {}))
door(Kernel, "submit", lambda kernel: (f"@{kernel.name}", "", {}))
door(Kernel, "_record", lambda kernel: (f"@{kernel.name} recorded", "", {}))


def _reference_target(program: Program, options: KernelOptions) -> ReferenceTarget:
    from tl_dpnp.runtime.reference import ReferenceTarget  # brings the interpreter, which device kernels do not need

    return ReferenceTarget(program, options.debug)
