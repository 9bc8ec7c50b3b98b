"""The compiler's pipeline: from a verified function to a kernel that an adapter can compile.

Each stage is printed and kept, so that a user can see what every pass did.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from tl_dpnp.errors import Diagnostic, UnsupportedError
from tl_dpnp.kernels.targets import target_for
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import STAGES, Analysis, Passes, analyse
from tl_dpnp.lowering.body.branch_barriers import with_branch_barriers
from tl_dpnp.lowering.body.emission import emit_body
from tl_dpnp.lowering.body.printing import print_body
from tl_dpnp.lowering.body.tree import Argument, Body
from tl_dpnp.lowering.body.writer import BodyWriter
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.emission import Shares
from tl_dpnp.lowering.mappings.choice import default_mapping, mappings_of, raising_remarks
from tl_dpnp.lowering.mappings.mapping import LoopMapping, Mapping
from tl_dpnp.lowering.memory import aligned, size_in_bytes
from tl_dpnp.lowering.micro_kernels import MicroKernels
from tl_dpnp.lowering.nest_products import palette_of
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.rewrite import root_of, roots
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.schedules import Scheduled, registers_of, schedule_instructions, work_of
from tl_dpnp.lowering.variants import Variant
from tl_dpnp.scalars import I32
from tl_dpnp.target.device import Device

__all__ = ["STAGES", "LoweredKernel", "find_variants", "lower"]

#: The name of every kernel; the source's own names stay out of generated code.
_KERNEL_NAME = "tl_kernel"
#: Vector operations from the prefetch of an operand to its use, as long as memory takes where each operand lies in a
#: page of its own, and work-groups in between at most.
_OPERATIONS_AHEAD, _GROUPS_AHEAD = 8192, 8


class LoweredKernel(NamedTuple):
    """A kernel ready to be compiled; pickles.

    `llvm` is its body as the LLVM IR of a function (`tl_dpnp.lowering.body.emission`) with these `arguments`, which an
    adapter compiles, and `text` the same to be read; `legend` says what each parameter is.  `passes` holds the IR after
    each pass, `schedules` the loop nests and what was done to them; `mapping` says how work-items share a work-group,
    `remarks` what a device has and the kernel does not use.  `variants` are loop nests that some calls take instead:
    those that do two work-groups at once, and those for operands that exceed all caches.
    `one_item_at_a_time` says whether a CPU is asked not to make vectors of work-items; some of its sub-groups are right
    only so if the body has arrays in private memory (`tl_dpnp.runtime.sycl.kernel_metadata`).
    """

    plan: LaunchPlan
    arguments: tuple[Argument, ...]
    llvm: str
    text: str
    legend: tuple[tuple[str, str], ...]
    passes: Passes
    schedules: tuple[Schedule, ...]
    mapping: str
    remarks: tuple[str, ...] = ()
    variants: tuple[Schedule, ...] = ()
    one_item_at_a_time: Literal["never", "with private arrays", "always"] = "never"

    @property
    def stages(self) -> dict[str, str]:
        """The IR as text after each pass."""
        return self.passes.stages()

    @property
    def source(self) -> str:
        """The body of the kernel as text, with a legend."""
        legend = [f"# {name} = {meaning}" for name, meaning in self.legend]
        return "\n".join([f"# {self.mapping}", *legend, self.text])

    @property
    def schedule(self) -> str:
        """The scheduled loop nest of each collective instruction."""
        return "\n\n".join(map(str, (*self.schedules, *self.variants)))


def lower(function: ops.Function, device: Device, options: LoweringOptions) -> LoweredKernel:
    """Lower a verified function for a device.

    Raises UnsupportedError for types that the target or the device does not compute with and for temporaries that do
    not fit, LoweringError for a work-group that the device does not allow, ScheduleError for a schedule that does not
    fit it.
    """
    analysis = analyse(function, options.applied_to(device), options)
    mapping = default_mapping(mappings_of(analysis))
    analysis = mapping.rewritten(analysis)
    whole = mapping.whole(_KERNEL_NAME)
    if whole is not None:
        return _lowered(*whole, analysis, (), mapping)
    assert isinstance(mapping, LoopMapping)
    return _with_loops(analysis, mapping)


def find_variants(
    function: ops.Function, device: Device, options: LoweringOptions
) -> tuple[Variant, ...]:
    """Return the kernels that `lower` can make of a verified function for the calls on a device, the first best.

    Raises what `lower` does.
    """
    analysis = analyse(function, options.applied_to(device), options)
    mappings = mappings_of(analysis)
    default = default_mapping(mappings)
    return tuple(Variant(None if mapping is default else mapping.form, mapping.condition(analysis))
                 for mapping in mappings)


def _with_loops(analysis: Analysis, mapping: LoopMapping) -> LoweredKernel:
    """Return the kernel of a mapping whose body is loops that are scheduled, and what is between them."""
    function, engine, placements = analysis.function, analysis.engine, analysis.placements
    device, options, layout = analysis.device, analysis.options, mapping.layout
    kernels = schedule_instructions(analysis, mapping)
    local_memory, failure = mapping.local_memory, None
    if local_memory is None:
        temporaries = analysis.temporaries
        if options.debug and not mapping.frame.is_alone and _has_iterations(function):
            failure, temporaries = temporaries, temporaries + I32.bytes  # which are whole words
        local_memory = _with_scratch(function, temporaries, kernels, device.local_memory)
    palettes = {palette for kernel in kernels if (palette := palette_of(kernel.schedule.nest)) is not None}
    jammed = []
    if not palettes and not options.debug and not options.schedules and (
        aligned(local_memory) + local_memory <= device.local_memory
    ):
        moving = mapping.moving_values(function, device.core)
        if moving:
            jammed = schedule_instructions(analysis, mapping, moving)
            local_memory += aligned(local_memory)
    # Checks that fail end a kernel early: what configures tiles then releases them itself.
    palette = palettes.copy().pop() if len(palettes) == 1 and not (options.debug or engine.emulates_tiles) else None
    maker = MicroKernels(analysis, mapping, kernels, local_memory, palette, _read_only(function))
    work = work_of(kernels, device.core)
    writer = BodyWriter(
        function=function, mapping=mapping, placements=placements, local_memory=local_memory, make_kernel=maker,
        debug=options.debug, palette=palette,
        groups_ahead=_groups_ahead(kernels, placements, work, device.core.tiles.bytes_ahead),
        make_jammed=MicroKernels(analysis, mapping, jammed, local_memory) if jammed else None,
        items=ops.work_items_of(analysis.parsed), engine=engine, precision=options.precision, failure=failure,
        vector_bytes=device.vector_bytes if mapping.frame.is_alone and device.is_cpu and not options.debug else 0,
    )
    body = writer.write()
    if mapping.barrier is not None and target_for(device.backend).threads_jumps:
        body = replace(body, statements=with_branch_barriers(body.statements))
    plan = LaunchPlan(
        _KERNEL_NAME, mapping.form, layout.lanes, layout.subgroups, local_memory, work, mapping.teams, body.checks,
        max(mapping.registers, registers_of(kernels), analysis.fragments.registers), parts=mapping.parts,
        measured=writer.measured,
    )
    remarks = (*mapping.remarks, *analysis.fragments.remarks, *raising_remarks(analysis),
               *(f"{kernel.schedule.name} {kernel.remark}" for kernel in kernels if kernel.remark))
    schedules, twice = (tuple(kernel.schedule for kernel in found) for found in (kernels, jammed))
    lowered = _lowered(plan, body, analysis, schedules, mapping, remarks, (*twice, *maker.out_of_cache))
    if not device.is_cpu or mapping.frame.is_alone:
        return lowered
    return lowered._replace(one_item_at_a_time="always" if options.debug else "with private arrays")


def _lowered(
    plan: LaunchPlan, body: Body, analysis: Analysis, schedules: tuple[Schedule, ...], mapping: Mapping,
    remarks: tuple[str, ...] = (), variants: tuple[Schedule, ...] = (),
) -> LoweredKernel:
    """Return the kernel with its body as LLVM IR and as text."""
    return LoweredKernel(
        plan, body.arguments, emit_body(body.arguments, body.statements, target_for(analysis.device.backend)),
        print_body(plan.entry, body.arguments, body.statements), body.legend, analysis.passes, schedules, str(mapping),
        remarks, variants,
    )


def _has_iterations(function: ops.Function) -> bool:
    """Whether work-items do different things somewhere, so that a check may fail for some of them."""
    return any(isinstance(operation, ops.Foreach) for operation in function.body.walk())


def _read_only(function: ops.Function) -> frozenset[str]:
    """Return the memrefs of a function that refer to parameters which it does not write to."""
    known = roots(function)
    written = {root_of(value, known) for operation in function.body.walk() for value in operation.writes}
    parameters = {parameter.name for parameter in function.parameters}
    return frozenset(name for name, root in known.items() if root in parameters and root not in written)


def _groups_ahead(kernels: Sequence[Scheduled], temporaries: Container[str], work: int, most: int) -> int:
    """Return how many work-groups further the operands are that are prefetched; `work` is that of one.

    In between lie `most` bytes at most: more would only push what was fetched out of the caches.
    """
    operands = {operand.name: operand for kernel in kernels
                for operand in (*kernel.operation.inputs, kernel.operation.output) if operand.name not in temporaries}
    size = sum(size_in_bytes(ops.memref_type(operand)) for operand in operands.values())
    nests = [each.realized.nest for kernel in kernels for each in (kernel, kernel.out_of_cache) if each is not None]
    if any(Shares.of(nest).in_order or palette_of(nest) is not None for nest in nests):
        return 1  # what is fetched shortly before its turn must be that of the next one
    return max(1, min(_GROUPS_AHEAD, _OPERATIONS_AHEAD // max(1, work), most // max(1, size)))


def _with_scratch(function: ops.Function, temporaries: int, kernels: Sequence[Scheduled], limit: int) -> int:
    """Return the local memory with the copies of the nests behind the temporaries; the nests share it.

    Raises UnsupportedError if it does not fit.
    """
    scratch = max((kernel.realized.scratch for kernel in kernels), default=0)
    if not scratch:
        return temporaries
    total = aligned(temporaries) + scratch
    if total > limit:
        largest = max(kernels, key=lambda kernel: kernel.realized.scratch)
        message = (
            f"the schedule of {largest.contraction.nest.name} keeps {scratch} bytes of copies in local memory; with "
            f"the temporaries of @{function.name} that makes {total} bytes, and the device has {limit}"
        )
        raise UnsupportedError(message, [Diagnostic(message, largest.operation.span, "cache smaller tiles")])
    return total
