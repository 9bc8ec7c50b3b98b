"""Which schedule each instruction of a function gets: the user's, or the default of the mapping."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tl_dpnp.errors import Diagnostic, ScheduleError, TLTypeError
from tl_dpnp.kernels.mma.rows import MmaRow
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.contraction import Contraction, contractions_of
from tl_dpnp.lowering.instructions import instruction_of, whole_instruction
from tl_dpnp.lowering.mappings.mapping import LoopMapping
from tl_dpnp.lowering.nest import loops_of, predicate_of, stages_of
from tl_dpnp.lowering.realization import Realized, realize
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.choice import ENGINES, choose
from tl_dpnp.lowering.tactics.tactic import EngineTactic, Place, Tactic
from tl_dpnp.lowering.tiling import vector_operations
from tl_dpnp.target.core import Core

__all__ = ["GivenSchedule", "Scheduled", "registers_of", "resolve_schedules", "schedule_instructions", "work_of"]

#: What may be given for an instruction: a schedule, what `Schedule.to_json` returned or the text of it, or a function
#: that is called with a schedule of the plain nest and changes it or returns another.
GivenSchedule = Schedule | Mapping[str, Any] | str | Callable[[Schedule], Schedule | None]


class Scheduled(NamedTuple):
    """A linear-algebra instruction with its schedule and what is emitted for it.

    `remark` says why a product is, or is not, on the matrix engine that there is.  `out_of_cache` is the same
    instruction for operands that exceed all caches, where another schedule is better for them.
    """

    operation: ops.Contraction
    contraction: Contraction
    schedule: Schedule
    realized: Realized
    remark: str | None = None
    out_of_cache: Scheduled | None = None


def schedule_instructions(analysis: Analysis, mapping: LoopMapping, moving: Container[str] = ()) -> list[Scheduled]:
    """Schedule each instruction of a function, in source order, as the user says, or as is the default of a mapping.

    With `moving`, as `contraction_of` takes it, each nest does two work-groups at once.  Raises ScheduleError, with the
    place of the instruction, for a schedule that does not fit the mapping or the device.
    """
    result = []
    for operation, contraction in contractions_of(analysis.function, moving):
        place = mapping.place(analysis, operation)
        try:
            tactic = choose(contraction, place)
            schedule = tactic.schedule()
            _check(schedule, place)
            realized = realize(schedule.nest, mapping.layout)
        except ScheduleError as error:
            raise _located(error, operation) from None
        remarks = (engine.remark(contraction.nest, place.engine, whole_instruction(schedule.nest, engine.kind))
                   for engine in ENGINES)
        remark = next(filter(None, remarks), None)
        result.append(Scheduled(operation, contraction, schedule, realized, remark, _out_of_cache(operation, tactic)))
    return result


def _out_of_cache(operation: ops.Contraction, tactic: Tactic) -> Scheduled | None:
    """Schedule an instruction for operands from memory, where that takes another schedule."""
    contraction = tactic.contraction
    named = replace(contraction, nest=replace(contraction.nest, name=f"{contraction.nest.name}_beyond"))
    schedule = replace(tactic, contraction=named).schedule_out_of_cache()
    if schedule is None:
        return None
    return Scheduled(operation, named, schedule, realize(schedule.nest, tactic.place.layout))


def work_of(kernels: Sequence[Scheduled], core: Core) -> int:
    """Return the work of a work-group as `tl_dpnp.lowering.plan.LaunchPlan` has it."""
    def work(kernel: Scheduled) -> int:
        found = (engine.work(used, kernel.schedule.nest) for engine, used in _engines_of(kernel.schedule))
        return next(filter(None, found), None) or vector_operations(kernel.contraction, core)

    return sum(map(work, kernels))


def registers_of(kernels: Sequence[Scheduled]) -> int:
    """Return the size of a GPU thread's register file that the instructions are made for, 0 where it does not matter.
    """
    return max((engine.registers(used) for kernel in kernels for engine, used in _engines_of(kernel.schedule)),
               default=0)


def _engines_of(schedule: Schedule) -> Iterator[tuple[type[EngineTactic[Any]], Any]]:
    """Yield the engine that computes a whole nest, if one does, and what it uses for it."""
    for engine in ENGINES:
        used = whole_instruction(schedule.nest, engine.kind)
        if used is not None:
            yield engine, used


def _check(schedule: Schedule, place: Place) -> None:
    """Raise ScheduleError where a schedule needs what the device has not."""
    device = place.device
    for engine, used in _engines_of(schedule):
        missing = engine.missing(used, place.engine)
        if missing is not None:
            raise ScheduleError(f"{schedule.name}: {missing}")
    copy = next((stage.buffer for stage in stages_of(schedule.nest.body) if stage.asynchronous), None)
    if copy is not None and not device.asynchronous_copies:
        raise ScheduleError(f"{schedule.name}: {copy} is copied asynchronously, which the device does not; CUDA "
                            "devices of compute capability 8.0 or more do")
    for loop in loops_of(schedule.nest.body):
        if predicate_of(loop) is not None and not (device.core.masks and place.frame.is_alone):
            raise ScheduleError(f"{schedule.name}: {loop.variable} is vectorized under its guard, which takes vectors "
                                'with masks, those of AVX-512 in the vector form; split with tail="remainder" instead')
        row = instruction_of(loop, MmaRow)
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
