"""Which schedule each instruction of a function gets: the user's, or the default of the mapping."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tl_dpnp.errors import Diagnostic, ScheduleError, TLTypeError
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.contraction import Contraction, contractions_of
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.lowering.mappings.mapping import LoopMapping
from tl_dpnp.lowering.matrix_engine import MatrixEngine, remark, whole_micro_kernel
from tl_dpnp.lowering.nest import loops_of, stages_of
from tl_dpnp.lowering.realization import Realized, realize
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tile_engine import tile_remark, tile_work, whole_tile_kernel
from tl_dpnp.lowering.tiling import vector_operations
from tl_dpnp.lowering.warp_tile import row_of
from tl_dpnp.target.core import Core

__all__ = ["GivenSchedule", "Scheduled", "resolve_schedules", "schedule_instructions", "work_of"]

#: What may be given for an instruction: a schedule, what `Schedule.to_json` returned or the text of it, or a function
#: that is called with a schedule of the plain nest and changes it or returns another.
GivenSchedule = Schedule | Mapping[str, Any] | str | Callable[[Schedule], Schedule | None]


@dataclass(frozen=True)
class Scheduled:
    """A linear-algebra instruction with its schedule and what is emitted for it.

    `remark` says why a product is, or is not, on the matrix engine that there is.  `beyond` is the same instruction for
    operands that exceed all caches, where another schedule is better for them.
    """

    operation: ops.Contraction
    contraction: Contraction
    schedule: Schedule
    realized: Realized
    remark: str | None = None
    beyond: Scheduled | None = None


def schedule_instructions(analysis: Analysis, mapping: LoopMapping, moving: Container[str] = ()) -> list[Scheduled]:
    """Schedule each instruction of a function, in source order, as the user says, or as is the default of a mapping.

    With `moving`, as `contraction_of` takes it, each nest does two work-groups at once.  Raises ScheduleError, with the
    place of the instruction, for a schedule that does not fit the mapping or the device.
    """
    core, engine, given = analysis.device.core, analysis.engine, dict(analysis.options.schedules)
    result = []
    for operation, contraction in contractions_of(analysis.function, moving):
        own = engine.at(operation.precision)
        try:
            if contraction.nest.name in given:
                schedule = Schedule.from_json(given[contraction.nest.name], contraction.nest)
            else:
                kernel = mapping.engine_kernel(contraction.nest, own)
                if kernel is None:
                    schedule = mapping.loops(contraction, core)
                else:
                    schedule = Schedule(contraction.nest)
                    schedule.tensorize("m", kernel)
            _check_engine(schedule, engine)
            _check_device(schedule, analysis.device)
            realized = realize(schedule.nest, mapping.layout)
        except ScheduleError as error:
            raise _located(error, operation) from None
        on_tiles = whole_tile_kernel(schedule.nest)
        why = (remark(contraction.nest, own, whole_micro_kernel(schedule.nest))
               or tile_remark(contraction.nest, own, on_tiles))
        beyond = None
        if contraction.nest.name not in given and on_tiles is None:
            beyond = _beyond(operation, contraction, mapping, core)
        result.append(Scheduled(operation, contraction, schedule, realized, why, beyond))
    return result


def _beyond(
    operation: ops.Contraction, contraction: Contraction, mapping: LoopMapping, core: Core
) -> Scheduled | None:
    """Schedule an instruction for operands from memory, where that takes another schedule."""
    named = replace(contraction, nest=replace(contraction.nest, name=f"{contraction.nest.name}_beyond"))
    schedule = mapping.beyond(named, core)
    return None if schedule is None else Scheduled(operation, named, schedule, realize(schedule.nest, mapping.layout))


def work_of(kernels: Sequence[Scheduled], core: Core) -> int:
    """Return the work of a work-group as `tl_dpnp.lowering.plan.LaunchPlan` has it."""
    return sum(tile_work(kernel.schedule.nest) or vector_operations(kernel.contraction, core) for kernel in kernels)


def _check_engine(schedule: Schedule, engine: MatrixEngine) -> None:
    kernel = whole_micro_kernel(schedule.nest)
    if kernel is not None and kernel.row.execution_size != engine.lanes:
        has = f"has DPAS of {engine.lanes} lanes" if engine.lanes else "has no DPAS"
        raise ScheduleError(f"{schedule.name}: {kernel.name} needs DPAS of {kernel.row.execution_size} lanes; the "
                            f"device {has}, and none is emulated")
    on_tiles = whole_tile_kernel(schedule.nest)
    if on_tiles is not None and on_tiles.row.flag not in engine.tiles:
        raise ScheduleError(f"{schedule.name}: {on_tiles.name} needs {on_tiles.row.flag}, which the device does not "
                            "have or may not use, and none is emulated")


def _check_device(schedule: Schedule, device: DeviceDescription) -> None:
    copy = next((stage.buffer for stage in stages_of(schedule.nest.body) if stage.asynchronous), None)
    if copy is not None and not device.asynchronous_copies:
        raise ScheduleError(f"{schedule.name}: {copy} is copied asynchronously, which the device does not; CUDA "
                            "devices of compute capability 8.0 or more do")
    for loop in loops_of(schedule.nest.body):
        row = row_of(loop)
        if row is not None and device.capability < row.capability:
            needed = ".".join(map(str, row.capability))
            raise ScheduleError(f"{schedule.name}: {row.name} is an instruction that the device does not have; "
                                f"CUDA devices of compute capability {needed} or more do")


def resolve_schedules(
    function: ops.Function, given: Mapping[str, GivenSchedule]
) -> tuple[tuple[str, str], ...]:
    """Return the user's schedules as names of instructions and JSON texts, in the order of the source.

    Raises ScheduleError for a name that is no instruction of the function and for a schedule that is not legal for its
    instruction, with the place of that; TLTypeError for what is no schedule.
    """
    contractions = contractions_of(canonicalize(function))
    known = [contraction.nest.name for _, contraction in contractions]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ScheduleError(f"@{function.name} has no instruction {unknown[0]!r} to schedule; it has "
                            f"{', '.join(known) or 'none'}")
    result = []
    for operation, contraction in contractions:
        name = contraction.nest.name
        if name in given:
            try:
                schedule = _schedule(given[name], Schedule(contraction.nest))
            except ScheduleError as error:
                raise _located(error, operation) from None
            result.append((name, json.dumps(schedule.to_json(), separators=(",", ":"))))
    return tuple(result)


def _schedule(given: GivenSchedule, fresh: Schedule) -> Schedule:
    """Return what was given as a schedule of the nest of `fresh`."""
    if callable(given):
        result = given(fresh)
        given = fresh if result is None else result
    match given:
        case Schedule():
            return Schedule.from_json(given.to_json(), fresh)
        case str() | Mapping():
            return Schedule.from_json(given, fresh)
    raise TLTypeError(f"{fresh.name}: a schedule is a Schedule, what its to_json returned, or a function that takes a "
                      f"Schedule; not a {type(given).__name__}")


def _located(error: ScheduleError, operation: ops.Contraction) -> ScheduleError:
    """Return the error with the place of the instruction that was scheduled."""
    if operation.span == ops.NO_SPAN:
        return error
    return ScheduleError(error.message, [Diagnostic(error.message, operation.span)])
