"""The compiler's pipeline: from a verified function to a kernel that an adapter can compile.

Each stage is printed and kept, so that a user can see what every pass did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from llvmlite import ir

from tl_dpnp.kernels.intrinsics import memory_pointer
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.language import ops
from tl_dpnp.language.printer import print_function
from tl_dpnp.lowering.barriers import insert_barriers
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.contraction import Contraction, contraction_of
from tl_dpnp.lowering.defaults import subgroup_schedule, vector_schedule, vector_width
from tl_dpnp.lowering.device import DeviceDescription, LoweringOptions
from tl_dpnp.lowering.emission import Ahead, NestArguments, emit_nest
from tl_dpnp.lowering.memory import local_memory as local_memory_of
from tl_dpnp.lowering.memory import place_temporaries, size_in_bytes
from tl_dpnp.lowering.nest import loops_of
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.shell import KernelCall, Shell, write_shell
from tl_dpnp.lowering.text import MemrefText
from tl_dpnp.lowering.work_group import WorkGroup, choose_work_group
from tl_dpnp.scalars import INDEX

__all__ = ["STAGES", "LoweredKernel", "lower"]

#: The name of every kernel; the source's own names stay out of generated code.
_KERNEL_NAME = "tl_kernel"
#: The names of the stages, in order.
STAGES = ("parsed", "canonical", "memory", "barriers")


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel ready to be compiled.

    `stages` holds the IR as text after each pass, `schedule` the loop nests and what was done to them, `source` the
    kernel shell below a legend of its parameters; `shell` is what the adapter compiles.
    """

    plan: LaunchPlan
    shell: Shell
    stages: Mapping[str, str]
    schedules: tuple[Schedule, ...]
    work_group: WorkGroup

    @property
    def source(self) -> str:
        """The kernel shell as text, with a legend."""
        legend = [f"# {name} = {meaning}" for name, meaning in self.shell.legend]
        return "\n".join([f"# {self.work_group}", *legend, self.shell.text])

    @property
    def schedule(self) -> str:
        """The scheduled loop nest of each collective instruction."""
        return "\n\n".join(map(str, self.schedules))


def lower(function: ops.Function, device: DeviceDescription, options: LoweringOptions) -> LoweredKernel:
    """Lower a verified function for a device.

    Raises UnsupportedError for types that the target does not compute with and for temporaries that do not fit,
    LoweringError for a work-group that the device does not allow.
    """
    stages = {"parsed": print_function(function)}
    work_group = choose_work_group(function, device, options.form)
    function = canonicalize(function)
    stages["canonical"] = print_function(function)
    placements = place_temporaries(function, device.local_memory)
    memory = "".join(f"; {placement}\n" for placement in placements.values())
    stages["memory"] = memory + print_function(function)
    function = insert_barriers(function, placements)
    stages["barriers"] = print_function(function)
    local_memory = local_memory_of(list(placements.values()))
    maker = _KernelMaker(work_group, device, local_memory)
    shell = write_shell(function, _KERNEL_NAME, work_group, placements, local_memory, maker, options.debug)
    layout = work_group.layout
    plan = LaunchPlan(
        _KERNEL_NAME, work_group.form, layout.lanes, layout.subgroups, local_memory, maker.work, shell.checks
    )
    return LoweredKernel(plan, shell, stages, tuple(maker.schedules), work_group)


class _KernelMaker:
    """Makes the micro-kernels of one function, and keeps their schedules."""

    def __init__(self, work_group: WorkGroup, device: DeviceDescription, local_memory: int) -> None:
        self.work_group = work_group
        self.device = device
        self.local_memory = local_memory
        self.schedules: list[Schedule] = []
        self.work = 0

    def __call__(self, operation: ops.LinearAlgebra, memrefs: Sequence[MemrefText]) -> KernelCall:
        name = f"{type(operation).__name__.lower()}_{len(self.schedules)}"
        contraction = contraction_of(operation, name)
        if self.work_group.form == "vector":
            schedule = vector_schedule(contraction, self.device.vector_bytes)
        else:
            schedule = subgroup_schedule(contraction, self.work_group.layout)
        self.schedules.append(schedule)
        self.work += _vector_operations(contraction, self.device.vector_bytes)
        elements = [ops.memref_type(v).element for v in (*operation.inputs, operation.output)]
        scalars = {"alpha": operation.alpha, "beta": operation.beta}
        operands = tuple(scalars[scalar.name] for scalar in contraction.scalars)
        parameters = (
            *(INDEX for _ in elements),
            *(INDEX for _ in contraction.dimensions),
            *(scalar.type for scalar in contraction.scalars),
        )
        names = _buffer_names(len(elements))

        fetched = {
            buffer: size_in_bytes(memref.type)
            for buffer, memref in zip(names, memrefs, strict=True)
            if memref.can_be_fetched and self.device.is_cpu
        }

        def emit(builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
            given = iter(arguments)
            pointers = {
                buffer: memory_pointer(builder, element, memref.space, next(given), self.local_memory)
                for buffer, element, memref in zip(names, elements, memrefs, strict=True)
            }
            dimensions = {dimension: next(given) for dimension in contraction.dimensions}
            values = {scalar.name: next(given) for scalar in contraction.scalars}
            ahead = {buffer: Ahead(distance, fetched[buffer]) for buffer, distance in zip(fetched, given, strict=False)}
            given_to_nest = NestArguments(pointers, dimensions, values, ahead)
            width = vector_width(contraction, self.device.vector_bytes)
            emit_nest(builder, schedule.nest, given_to_nest, self.work_group.layout, width)

        plain = Intrinsic(name, parameters, None, emit)
        prefetching = None
        if fetched and any(loop.prefetch for loop in loops_of(schedule.nest.body)):
            prefetching = Intrinsic(f"{name}_prefetching", (*parameters, *(INDEX for _ in fetched)), None, emit)
        description = contraction.nest.description
        return KernelCall(plain, tuple(contraction.dimensions.values()), operands, description, prefetching)


def _buffer_names(count: int) -> tuple[str, ...]:
    """Return the names of the buffers of a nest: the inputs, then the output."""
    return (*"AB"[: count - 1], "C")


def _vector_operations(contraction: Contraction, vector_bytes: int) -> int:
    """Estimate the vector operations of one nest; an unknown size counts as 16."""
    sizes = [size if isinstance(size, int) else 16 for size in (contraction.rows, contraction.columns)]
    depth = contraction.depth if isinstance(contraction.depth, int) else 16 if contraction.depth is not None else 1
    vectors = -(-sizes[0] // vector_width(contraction, vector_bytes))
    return vectors * sizes[1] * depth


