"""The compiler's pipeline: from a verified function to a kernel that an adapter can compile.

Each stage is printed and kept, so that a user can see what every pass did.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from tl_dpnp.errors import Diagnostic, LoweringError, UnsupportedError
from tl_dpnp.kernels.targets import target_for
from tl_dpnp.language import ops
from tl_dpnp.language.printer import print_function
from tl_dpnp.lowering.barriers import insert_barriers
from tl_dpnp.lowering.block_product import Block, blocks_of
from tl_dpnp.lowering.blocked import Blocking, find_blocking
from tl_dpnp.lowering.body.emission import emit_body
from tl_dpnp.lowering.body.printing import print_body
from tl_dpnp.lowering.body.tree import Argument, Body
from tl_dpnp.lowering.body.writer import write_body
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.device import DeviceDescription, LoweringOptions
from tl_dpnp.lowering.divide import Division, divide
from tl_dpnp.lowering.emission import Shares
from tl_dpnp.lowering.jam import moving_values
from tl_dpnp.lowering.matrix_engine import MatrixEngine, engine_of, whole_micro_kernel
from tl_dpnp.lowering.memory import Placement, aligned, place_temporaries, size_in_bytes
from tl_dpnp.lowering.memory import local_memory as local_memory_of
from tl_dpnp.lowering.micro_kernels import MicroKernels
from tl_dpnp.lowering.plan import Form, LaunchPlan
from tl_dpnp.lowering.requirements import check_requirements
from tl_dpnp.lowering.rewrite import root_of, roots
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.schedules import Scheduled, contractions_of, micro_kernels_of, schedule_instructions
from tl_dpnp.lowering.staging import find_staging
from tl_dpnp.lowering.tile_engine import palette_of, tile_work
from tl_dpnp.lowering.tiled import Tiling, find_tiling
from tl_dpnp.lowering.tiling import vector_operations
from tl_dpnp.lowering.variants import FewGroups, Variant
from tl_dpnp.lowering.work_group import WorkGroup, choose_work_group

__all__ = ["STAGES", "LoweredKernel", "find_variants", "lower"]

#: The name of every kernel; the source's own names stay out of generated code.
_KERNEL_NAME = "tl_kernel"
#: Vector operations from the prefetch of an operand to its use, as long as memory takes where each operand lies in a
#: page of its own; work-groups and bytes in between at most: more would only push what was fetched out of the caches.
_OPERATIONS_AHEAD, _GROUPS_AHEAD, _BYTES_AHEAD = 8192, 8, 48 << 10
#: The names of the stages, in order.
STAGES = ("parsed", "canonical", "memory", "barriers")


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel ready to be compiled; pickles.

    `llvm` is its body as the LLVM IR of a function (`tl_dpnp.lowering.body.emission`) with these `arguments`, which an
    adapter compiles, and `text` the same to be read; `legend` says what each parameter is.  `stages` holds the IR as
    text after each pass, `schedules` the loop nests and what was done to them; `remarks` say what a device has and the
    kernel does not use.  `variants` are loop nests that some calls take instead: those that do two work-groups at once,
    and those for operands that exceed all caches.  `one_item_at_a_time` asks a CPU not to make vectors of work-items.
    """

    plan: LaunchPlan
    arguments: tuple[Argument, ...]
    llvm: str
    text: str
    legend: tuple[tuple[str, str], ...]
    stages: Mapping[str, str]
    schedules: tuple[Schedule, ...]
    work_group: WorkGroup
    remarks: tuple[str, ...] = ()
    variants: tuple[Schedule, ...] = ()
    one_item_at_a_time: bool = False

    @property
    def source(self) -> str:
        """The body of the kernel as text, with a legend."""
        legend = [f"# {name} = {meaning}" for name, meaning in self.legend]
        return "\n".join([f"# {self.work_group}", *legend, self.text])

    @property
    def schedule(self) -> str:
        """The scheduled loop nest of each collective instruction."""
        return "\n\n".join(map(str, (*self.schedules, *self.variants)))


@dataclass(frozen=True)
class _Decision:
    """What is decided about a kernel before its loops are scheduled.

    `parsed` became `canonical`, in the divided form that of a part, and with barriers `function`.  `division`,
    `tiling` and `blocking` are there where the program has that form on the device, and `engine` and `blocks` are for
    the schedules.
    """

    parsed: ops.Function
    canonical: ops.Function
    function: ops.Function
    placements: dict[str, Placement]
    temporaries: int
    engine: MatrixEngine
    blocks: dict[str, list[Block]]
    work_group: WorkGroup
    division: Division | None
    tiling: Tiling | None
    blocking: Blocking | None

    @property
    def stages(self) -> dict[str, str]:
        """The IR as text after each pass."""
        canonical = print_function(self.canonical)
        memory = "".join(f"; {placement}\n" for placement in self.placements.values())
        texts = print_function(self.parsed), canonical, memory + canonical, print_function(self.function)
        return dict(zip(STAGES, texts, strict=True))


def _decide(function: ops.Function, device: DeviceDescription, options: LoweringOptions) -> _Decision:
    """Rewrite a verified function and find its form; raises what `lower` does but for ScheduleError."""
    parsed = function
    check_requirements(function, device)
    canonical = canonicalize(function)
    placements = place_temporaries(canonical, device.local_memory)
    temporaries = local_memory_of(list(placements.values()))
    engine = engine_of(device, options, temporaries)
    form: Form | None = "vector" if options.form == "divided" else options.form
    blocks = {contraction.nest.name: blocks_of(contraction, device, engine.at(operation.precision))
              for operation, contraction in contractions_of(canonical)}
    work_group = choose_work_group(
        function, device, form, micro_kernels_of(canonical, engine),
        [block for found in blocks.values() for block in found],
    )
    division = None
    if work_group.form == "vector" and not (options.debug or options.schedules):
        division = divide(canonical, device)
    if options.form == "divided":
        if division is None:
            raise _impossible(function, device, "divided", "one product of known sizes on CPUs, without schedules,")
        canonical = division.function
    function = insert_barriers(canonical, placements)
    chooses = options.form is None and not (work_group.is_given or options.schedules or options.debug)
    work_group = _staged(work_group, function, device, options, temporaries, chooses)
    tiling, blocking = None, None
    if chooses:
        tiling = find_tiling(function, device, work_group.form)
        blocking = find_blocking(function, device, work_group.form, options.precision)
    elif options.form in ("tiled", "blocked"):
        tiling, blocking = _asked_for(work_group, function, device, options)
    return _Decision(parsed, canonical, function, placements, temporaries, engine, blocks, work_group, division, tiling,
                     blocking)


def lower(function: ops.Function, device: DeviceDescription, options: LoweringOptions) -> LoweredKernel:
    """Lower a verified function for a device.

    Raises UnsupportedError for types that the target or the device does not compute with and for temporaries that do
    not fit, LoweringError for a work-group that the device does not allow, ScheduleError for a schedule that does not
    fit it.
    """
    device = options.applied_to(device)
    decision = _decide(function, device, options)
    whole = decision.tiling or decision.blocking
    if whole is not None:
        return _lowered(whole.launch_plan(_KERNEL_NAME), whole.body, device, decision.stages, (), whole.work_group)
    return _with_loops(decision, device, options)


def find_variants(
    function: ops.Function, device: DeviceDescription, options: LoweringOptions
) -> tuple[Variant, ...]:
    """Return the kernels that `lower` can make of a verified function for the calls on a device, the first best.

    Raises what `lower` does.
    """
    device = options.applied_to(device)
    decision = _decide(function, device, options)
    plans = [whole.plan for whole in (decision.tiling, decision.blocking) if whole is not None]
    if plans:
        first, *others = plans
        rest = () if options.form is not None else (Variant(decision.work_group.form),)
        return (Variant(None, first), *(Variant(plan.form, plan) for plan in others), *rest)
    if decision.division is not None and options.form is None:
        return Variant("divided", FewGroups(_work(_scheduled(decision, device, options), device))), Variant(None)
    return (Variant(None),)


def _scheduled(decision: _Decision, device: DeviceDescription, options: LoweringOptions) -> list[Scheduled]:
    return schedule_instructions(
        decision.function, decision.work_group, device.core, dict(options.schedules), decision.engine,
        device=device, blocks=decision.blocks,
    )


def _work(kernels: Sequence[Scheduled], device: DeviceDescription) -> int:
    """Return the work of a work-group as `LaunchPlan` has it."""
    return sum(tile_work(kernel.schedule.nest) or vector_operations(kernel.contraction, device.core)
               for kernel in kernels)


def _with_loops(decision: _Decision, device: DeviceDescription, options: LoweringOptions) -> LoweredKernel:
    """Return the kernel of any form but the tiled one: loops that are scheduled, and the rest of its body."""
    function, work_group, engine = decision.function, decision.work_group, decision.engine
    staging, layout = work_group.staging, work_group.layout
    kernels = _scheduled(decision, device, options)
    local_memory = (_with_scratch(function, decision.temporaries, kernels, device.local_memory)
                    if staging is None else staging.local_memory)
    palettes = {palette for kernel in kernels if (palette := palette_of(kernel.schedule.nest)) is not None}
    jammed = []
    if work_group.form == "vector" and not palettes and not options.debug and not options.schedules and (
        aligned(local_memory) + local_memory <= device.local_memory
    ):
        moving = moving_values(function, device.core)
        if moving:
            jammed = schedule_instructions(function, work_group, device.core, {}, moving=moving)
            local_memory += aligned(local_memory)
    products, direct = ((), ()) if staging is None else (staging.products, staging.direct)
    # Checks that fail end a kernel early: what configures tiles then releases them itself.
    palette = palettes.copy().pop() if len(palettes) == 1 and not (options.debug or engine.emulates_tiles) else None
    maker = MicroKernels(layout, device, engine, kernels, local_memory, products, direct, palette,
                         _read_only(function))
    work = _work(kernels, device)
    body = write_body(
        function, work_group, decision.placements, local_memory, maker, options.debug,
        _groups_ahead(kernels, decision.placements, work),
        MicroKernels(layout, device, engine, jammed, local_memory) if jammed else None,
        device.vector_bytes if work_group.form == "vector" and device.is_cpu and not options.debug else 0,
        palette,
    )
    engines = [whole_micro_kernel(kernel.schedule.nest) for kernel in kernels]
    registers = max((kernel.registers for kernel in engines if kernel is not None), default=0)
    plan = LaunchPlan(
        _KERNEL_NAME, work_group.form, layout.lanes, layout.subgroups, local_memory, work,
        1 if staging is None else staging.teams, body.checks, registers,
    )
    if options.form == "divided" and decision.division is not None:
        plan = replace(plan, form="divided", parts=decision.division.parts)
    on_tensor_cores = [f"tensor cores compute: {staging.instructions}"] if staging and staging.instructions else []
    remarks = tuple(on_tensor_cores) + tuple(
        f"{kernel.schedule.name} {kernel.remark}" for kernel in kernels if kernel.remark
    )
    schedules, twice = (tuple(kernel.schedule for kernel in found) for found in (kernels, jammed))
    alone = options.debug and device.is_cpu and work_group.form == "subgroup"
    variants = (*twice, *maker.beyond)
    return _lowered(plan, body, device, decision.stages, schedules, work_group, remarks, variants, alone)


def _lowered(
    plan: LaunchPlan, body: Body, device: DeviceDescription, stages: Mapping[str, str],
    schedules: tuple[Schedule, ...], work_group: WorkGroup, remarks: tuple[str, ...] = (),
    variants: tuple[Schedule, ...] = (), one_item_at_a_time: bool = False,
) -> LoweredKernel:
    """Return the kernel with its body as LLVM IR and as text."""
    return LoweredKernel(
        plan, body.arguments, emit_body(body.arguments, body.statements, target_for(device.backend)),
        print_body(plan.entry, body.arguments, body.statements), body.legend, stages, schedules, work_group, remarks,
        variants, one_item_at_a_time,
    )


def _read_only(function: ops.Function) -> frozenset[str]:
    """Return the memrefs of a function that refer to parameters which it does not write to."""
    known = roots(function)
    written = {root_of(value, known) for operation in function.body.walk() for value in operation.writes}
    parameters = {parameter.name for parameter in function.parameters}
    return frozenset(name for name, root in known.items() if root in parameters and root not in written)


def _groups_ahead(kernels: Sequence[Scheduled], temporaries: Container[str], work: int) -> int:
    """Return how many work-groups further the operands are that are prefetched; `work` is that of one."""
    operands = {operand.name: operand for kernel in kernels
                for operand in (*kernel.operation.inputs, kernel.operation.output) if operand.name not in temporaries}
    size = sum(size_in_bytes(ops.memref_type(operand)) for operand in operands.values())
    nests = [each.realized.nest for kernel in kernels for each in (kernel, kernel.beyond) if each is not None]
    if any(Shares.of(nest).in_order or palette_of(nest) is not None for nest in nests):
        return 1  # what is fetched shortly before its turn must be that of the next one
    return max(1, min(_GROUPS_AHEAD, _OPERATIONS_AHEAD // max(1, work), _BYTES_AHEAD // max(1, size)))


def _staged(
    work_group: WorkGroup, function: ops.Function, device: DeviceDescription, options: LoweringOptions,
    temporaries: int, chooses: bool,
) -> WorkGroup:
    """Return the work-group for the staged form where that is asked for, or where a CUDA device `chooses` it.

    Raises LoweringError where it is asked for and not possible.
    """
    if options.form != "staged" and not chooses:
        return work_group
    staging = None
    if device.copy_engine and not options.debug:
        staging = find_staging(function, device, temporaries, not options.schedules, options.precision)
    if staging is not None and not work_group.is_given:
        return WorkGroup("staged", staging.layout, staging=staging)
    if chooses:
        return work_group
    raise _impossible(function, device, "staged", "linear algebra on slices of batches and elements of groups, on CUDA "
                      "devices from Hopper on, without")


def _asked_for(
    work_group: WorkGroup, function: ops.Function, device: DeviceDescription, options: LoweringOptions
) -> tuple[Tiling | None, Blocking | None]:
    """Return the tiled or the blocked form, which the options ask for; raises LoweringError where it is not possible.
    """
    if not (work_group.is_given or options.schedules or options.debug):
        tiling = find_tiling(function, device, None) if options.form == "tiled" else None
        blocking = find_blocking(function, device, None, options.precision) if options.form == "blocked" else None
        if tiling is not None or blocking is not None:
            return tiling, blocking
    what = ("one gemm of matrices of f16 or bf16, on CUDA devices from Hopper on, without" if options.form == "tiled"
            else "one gemm of matrices of floating-point numbers, on CUDA devices that have the instructions, without")
    raise _impossible(function, device, str(options.form), f"{what} schedules,")


def _impossible(function: ops.Function, device: DeviceDescription, form: str, what: str) -> LoweringError:
    """Return the error for a form that was asked for; `what` it is for ends before "attributes"."""
    message = (f"@{function.name} cannot run in the {form} form on {device.name}: that is for {what} attributes and "
               "debug=True")
    return LoweringError(message, [Diagnostic(message, function.span, "leave form= away")])


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
