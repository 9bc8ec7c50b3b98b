"""What a kernel tells of itself: its source, its compilations and what was made of it on the way."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import TLBindingError, TLError, TLTypeError, UnsupportedError
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.variants import FewGroups
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import cache_key, llvm_of, lowered
from tl_dpnp.runtime.options import KernelOptions, Signature, Stats
from tl_dpnp.runtime.overloads import Overload, Overloads
from tl_dpnp.runtime.specialization import MOST_SPECIALIZATIONS, Specializations
from tl_dpnp.target.device import Device
from tl_dpnp.target.targets import TARGETS

if TYPE_CHECKING:
    from tl_dpnp.language.ir import Value
    from tl_dpnp.lowering import LoweredKernel
    from tl_dpnp.lowering.schedule import Schedule
    from tl_dpnp.runtime.offline.program import DeviceProgram

__all__ = ["Inspection"]


class Inspection:
    """The part of a kernel that is looked at; it compiles what is asked for, and runs nothing.

    `overloads` are the compilations, None for a kernel of the reference target; `specializations` those for the sizes
    of calls, None where the program is compiled as it is written only.
    """

    def __init__(
        self, program: Program, options: KernelOptions, overloads: Overloads | None,
        specializations: Specializations | None = None,
    ) -> None:
        self.options = options
        self._program = program
        self._overloads = overloads
        self._specializations = specializations

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._program.name

    @property
    def parameters(self) -> tuple[Value, ...]:
        """The parameters, each with its ``name`` and ``type``."""
        return self._program.parameters

    @property
    def parameter_table(self) -> list[tuple[str, str, str]]:
        """The parameters as calls name them, with their types, and in words what each is given, read or written."""
        return self._program.signature.rows

    def _repr_html_(self) -> str:
        """Return what notebooks show: parameters, what the kernel was compiled for so far, counts and the source."""
        from tl_dpnp.runtime.notebook import Table, page  # which only notebooks need

        stats, compiled = self.stats, [(each.device, each.form) for each in self.signatures]
        note = (f"compiled in {stats.compile_seconds:.2f} s; disk cache: {stats.cache_hits} hits, {stats.cache_misses} "
                f"misses; built by the driver: {stats.driver_builds}; tuned: {stats.tuned}")
        tables = [Table(("argument", "type", ""), self.parameter_table), Table(("compiled for", "form"), compiled)]
        return page(f"@{self.name} for {self.options.target}", tables, note, self.source_text)

    @property
    def source_text(self) -> str:
        """The text that the kernel was compiled from; the printed function where it was built without text."""
        return self._program.text if self._program.text is not None else self._program.printed

    # --- lowering --------------------------------------------------------------------------------------------------

    def lower(self, device: Device | str | None = None) -> LoweredKernel:
        """Return the kernel as the compiler lowers it for a device, here or not; by default the current one.

        `tl_dpnp.devices` lists descriptions; ``"pvc"`` and ``"dg2"`` name devices that are only compiled for.  Nothing
        is compiled and nothing is cached.
        """
        overloads = self._device_overloads("lower")
        return overloads.lowered(_described(overloads, device))

    def schedules(self, device: Device | None = None) -> dict[str, Schedule]:
        """Return the schedule of each linear-algebra instruction, by the name of its nest: gemm_0, sum_1 and so on.

        They are copies: change them, or begin anew with `Schedule.fresh`, and give them to `tl_dpnp.compile`.
        """
        return {schedule.name: schedule.copy() for schedule in self.lower(device).schedules}

    def _device_overloads(self, what: str) -> Overloads:
        """Return the compilations for what takes some."""
        if self._overloads is None:
            raise UnsupportedError(f'{what}: @{self.name} has target="reference", for which no code is generated')
        return self._overloads

    # --- compilations ----------------------------------------------------------------------------------------------

    @property
    def signatures(self) -> list[Signature]:
        """What the kernel has been compiled for so far."""
        return [self._signature(*made) for made in self._made()]

    @property
    def stats(self) -> Stats:
        """Counts of the disk cache and of kernels for sizes of calls, and the time spent compiling, so far."""
        special = Stats(specialized=sum(1 for _ in self._specializations or ()),
                        raised=sum(made.compiled.plan.is_raised for _, made in self._made()))
        return functools.reduce(operator.add, (overloads.stats for overloads in self._all_overloads()), special)

    def _all_overloads(self) -> list[Overloads]:
        special = [specialization.overloads for specialization in self._specializations or ()]
        return special if self._overloads is None else [self._overloads, *special]

    def _made(self) -> list[tuple[Overloads, Overload]]:
        """Return the compilations there are, each with those of its program; other threads may compile meanwhile."""
        return [(overloads, made) for overloads in self._all_overloads() for made in [*overloads.made.values()]]

    def _signature(self, overloads: Overloads, overload: Overload) -> Signature:
        parameters = overloads.program.parameters
        return Signature(tuple(str(parameter.type) for parameter in parameters), str(overload.device),
                         overload.compiled.plan.form)

    def _compiled(self) -> dict[Signature, tuple[Overloads, Overload]]:
        """Return the compilations by signature; where there is none yet, make the one for the current device."""
        overloads = self._device_overloads("inspection")
        if not self._made():
            overloads.overload(overloads.current_device())
        return {self._signature(*made): made for made in self._made()}

    def _lowered(self, overloads: Overloads, overload: Overload) -> LoweredKernel:
        return overloads.lowered(overload.device, overload.form)

    def _inspect(self, signature: Signature | None, look: Any) -> Any:
        compiled = self._compiled()
        if signature is None:
            return {key: look(*made) for key, made in compiled.items()}
        if signature not in compiled:
            known = "; ".join(map(str, compiled))
            raise TLBindingError(f"@{self.name} has not been compiled for {signature}; it has for {known}")
        return look(*compiled[signature])

    def inspect_source(self, signature: Signature | None = None) -> Any:
        """Return the body of the kernel as text that reads like Python.

        Like all ``inspect_`` methods it returns a dict keyed by signature, or one value if a signature is given; a
        kernel that has not been compiled yet is compiled for the current device first.
        """
        return self._inspect(signature, lambda _, overload: overload.compiled.source)

    def inspect_ir(self, signature: Signature | None = None, *, stage: str | None = None) -> Any:
        """Return the IR after one stage of lowering as text, by default after the last.

        Raises `TLError` for an unknown stage, naming those that there are.
        """
        def look(overloads: Overloads, overload: Overload) -> str:
            stages = self._lowered(overloads, overload).stages
            if stage is not None and stage not in stages:
                raise TLError(f"there is no stage {stage!r}; there are {', '.join(stages)}")
            return str(stages[stage or list(stages)[-1]])

        return self._inspect(signature, look)

    def inspect_schedule(self, signature: Signature | None = None) -> Any:
        """Return the loop nests and the schedule primitives that were applied to them, as text."""
        return self._inspect(signature, lambda overloads, overload: self._lowered(overloads, overload).schedule)

    def inspect_llvm(self, signature: Signature | None = None) -> Any:
        """Return the LLVM IR as text; it is generated again, since only what is made of it is kept."""
        return self._inspect(
            signature, lambda overloads, overload: llvm_of(self._lowered(overloads, overload), overload.device))

    def inspect_spirv(self, signature: Signature | None = None) -> Any:
        """Return the SPIR-V module as bytes; raises `UnsupportedError` for kernels of other targets."""
        self._require("inspect_spirv", "sycl")
        return self._inspect(signature, lambda _, overload: overload.compiled.binary)

    def inspect_ptx(self, signature: Signature | None = None) -> Any:
        """Return the PTX as text; raises `UnsupportedError` for kernels of other targets than ``"cuda"``.

        Without a GPU the kernel is compiled for `tl_dpnp.target.catalog.H200`.
        """
        self._require("inspect_ptx", "cuda")
        return self._inspect(signature, lambda _, overload: overload.compiled.binary.decode())

    def inspect_sass(self, signature: Signature | None = None) -> Any:
        """Return the machine code as text; needs no GPU, but ``nvdisasm`` of the CUDA toolkit on the PATH.

        Raises `UnsupportedError` where that is missing, and for kernels of other targets than ``"cuda"``.
        """
        self._require("inspect_sass", "cuda")
        from tl_dpnp.runtime.cuda.ptx import disassemble, link

        return self._inspect(signature, lambda _, overload: disassemble(link(overload.compiled, overload.device)))

    def resources(
        self, signature: Signature | None = None, *, device: str | None = None, registers: int | None = None
    ) -> Any:
        """Return what a kernel takes: registers, spills, memory.

        With `device`, on an Intel GPU that need not be there, as `tl_dpnp.runtime.offline.program.Resources`, with the
        instructions of the inner loop: see `compile_offline`.  Otherwise on a CUDA device, as
        `tl_dpnp.runtime.cuda.ptx.Resources`; raises `UnsupportedError` for kernels of other targets than ``"cuda"``,
        and TLTypeError for a signature and a `device`, which has one kernel for all calls.
        """
        if device is not None:
            if signature is not None:
                raise TLTypeError("resources: a signature is of a kernel that was called here; for an Intel GPU, which "
                                  "device= names, there is one for all calls: leave the signature away")
            return self.compile_offline(device, registers=registers).resources
        self._require("resources", "cuda")
        if registers is not None:
            raise TLTypeError("resources: registers= is for an Intel GPU, which device= names")
        from tl_dpnp.runtime.cuda.ptx import link

        return self._inspect(signature, lambda _, overload: link(overload.compiled, overload.device).resources)

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

        overloads = self._device_overloads("compile_offline")
        described = _offline_device(device)
        cache = overloads.cache()
        key = "" if cache is None else cache_key(overloads.program, described, overloads.lowering(described))
        return compile_without_scratch(
            partial(self._lowered_offline, described), device, registers=registers, cache=cache, key=key)

    def _lowered_offline(self, described: Device, halved: int) -> LoweredKernel:
        """Return the kernel for a device that is not there, with tiles of its matrix engine that are `halved`."""
        overloads = self._device_overloads("compile_offline")
        options = replace(overloads.lowering(described), smaller_tiles=halved)
        return lowered(overloads.program, described, options)

    def export(self, folder: str | os.PathLike[str], *, device: str | Device | None = None) -> list[Path]:
        """Write the kernel for programs in C and C++ into a folder, and return the paths of its files.

        They are SPIR-V or PTX, its description in C and as JSON, and a launcher for OpenCL or CUDA: see docs/export.md.
        The kernel is compiled for a device as `lower` has it, in the forms that launchers know, and for any sizes that
        it leaves open.  Files of these names are replaced.

        Raises `UnsupportedError` for ``target="reference"``, devices of another target, ``debug=True``, a function
        without parameters and products on AMX; what compiling raises; `OSError` where a file cannot be written.
        """
        from tl_dpnp.runtime.export.export import export

        overloads = self._device_overloads("export")
        if self._program.usage.asked:
            raise UnsupportedError(f"export: @{self.name} asks whether it was given arrays, and exported kernels are "
                                   "given all of them")
        described = _described(overloads, device)
        if described.family != self.options.target:
            raise UnsupportedError(f'export: {described} is no device for target="{self.options.target}"')
        if isinstance(device, str):
            from tl_dpnp.runtime.sycl.compilation import require_offline

            require_offline(device)
        return export(overloads, described, Path(folder))

    def inspect_asm(self, device: str, *, registers: int | None = None) -> str:
        """Return the assembly for a device, as text; see `compile_offline`."""
        return self.compile_offline(device, registers=registers).assembly

    def diagnostics(self, level: int = 1, *, device: str | None = None) -> str:
        """Return how the kernel was compiled, as text.

        Level 1 gives the form, the sizes and the time for each signature; 2 adds the schedules and what the matrix
        engine does and does not, 3 the kernel's body, 4 the IR after each stage.  With `device`, ``"pvc"`` or
        ``"dg2"``, the kernel is compiled offline, and the text says what bounds it there at each level; raises what
        `compile_offline` does.  Raises TLTypeError for another level.
        """
        self._device_overloads("diagnostics")
        if not isinstance(level, int) or not 1 <= level <= 4:
            raise TLTypeError(f"diagnostics: the level is a number from 1 to 4, not {level!r}")
        if device is not None:
            return "\n".join(self._report_offline(device, level))
        return "\n\n".join(
            "\n".join(self._report(signature, *made, level)) for signature, made in self._compiled().items()
        )

    def _report_offline(self, device: str, level: int) -> Iterable[str]:
        program = self.compile_offline(device)
        yield f"@{self.name} for {device}: compiled, not run"
        yield from (f"  {remark}" for remark in program.remarks)
        yield "  " + str(program.resources).replace("\n", "\n  ")
        if level >= 2:
            yield from ("", "schedules:", program.schedule)
        if level >= 3:
            kernel = self._lowered_offline(_offline_device(device), program.halved)
            yield from ("", "kernel:", kernel.source)
            if level >= 4:
                yield from _stage_lines(kernel)

    def _report(
        self, signature: Signature, overloads: Overloads, overload: Overload, level: int
    ) -> Iterable[str]:
        compiled = overload.compiled
        yield f"@{self.name}{signature}"
        yield from _plan_lines(compiled.plan)
        yield from _variant_lines(overloads, overload)
        if overloads is not self._overloads:
            yield (f"  for sizes of calls, of which up to {MOST_SPECIALIZATIONS} have kernels of their own; others "
                   "take the one for any sizes")
        how = "read from the disk cache" if compiled.from_cache else "compiled"
        code = TARGETS[self.options.target].code
        yield f"  {how} in {compiled.seconds:.3f} s, {len(compiled.binary)} bytes of {code}"
        for handle in [*overload.handles.values()]:
            yield from (f"  {remark}" for remark in overloads.platform.call_remarks(handle))
        tuned = overloads.tuned(overload.device)
        if tuned is not None:
            yield f"  tuned, {tuned.gain:.2f} times as fast as the default when measured: {tuned.summary}"
        if level >= 2:
            kernel = self._lowered(overloads, overload)
            yield from (f"  {remark}" for remark in kernel.remarks)
            why = self.options.why_no_amx
            if why is not None and overload.device.amx:
                yield f"  AMX is not used: {why}"
            yield from ("", "schedules:", kernel.schedule)
            if level >= 3:
                yield from ("", "kernel:", compiled.source)
            if level >= 4:
                yield from _stage_lines(kernel)


def _stage_lines(kernel: LoweredKernel) -> Iterable[str]:
    """Say what the IR is after each stage."""
    for stage, text in kernel.stages.items():
        yield from ("", f"IR, {stage}:", text)


def _offline_device(name: str) -> Device:
    """Return what a device is that is only compiled for; raises `UnsupportedError` for unknown names."""
    from tl_dpnp.runtime.offline.targets import target_named

    return target_named(name).description


def _described(overloads: Overloads, device: Device | str | None) -> Device:
    """Return the description of a device, by default the current one; raises `TLTypeError` for what is none."""
    match device:
        case None:
            return overloads.current_device()
        case str():
            return _offline_device(device)
        case Device():
            return device
    raise TLTypeError("device= takes a description, one of tl_dpnp.devices(), or a name, not a "
                      f"{type(device).__name__}")


def _variant_lines(overloads: Overloads, overload: Overload) -> Iterable[str]:
    """Say of a kernel which calls take others."""
    for variant in overloads.variants(overload.device):
        if variant.form != overload.form and isinstance(variant.condition, FewGroups):
            yield "  where there are few work-groups, several work-items share each"
    if any(variant.is_raised for variant in overloads.variants(overload.device)):
        yield from (f"  a call was not one gemm: {reason}" for reason in overloads.program.cover.refused)


def _plan_lines(plan: LaunchPlan) -> Iterable[str]:
    yield f"  {plan.frame.words.format_map(vars(plan))}"
    yield f"  {plan.work} vector multiply-adds and {plan.local_memory} bytes of local memory for each work-group"
    if plan.checks:
        yield f"  {len(plan.checks)} bounds checks"


