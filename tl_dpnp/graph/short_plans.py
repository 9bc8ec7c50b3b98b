"""Plans that machine code runs as a whole: it looks at the arguments, runs the one kernel, and returns new arrays.

That is for plans of one kernel on a CPU that write to no array of the call and return one new array or a tuple of them.
Guards that machine code does not check, and what is computed from the numbers of a call, are left to Python, before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dpnp

from tl_dpnp.graph.guards import Check
from tl_dpnp.graph.plan import POOL, KernelStep
from tl_dpnp.graph.results import new_arrays
from tl_dpnp.graph.scalars import rounding
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.runtime.sycl.fixed_places import Fixed
from tl_dpnp.runtime.sycl.result_arrays import NewArray
from tl_dpnp.runtime.sycl.result_calls import CallWithResults, ResultFunction

__all__ = ["ShortPlan", "short_plan"]


@dataclass(frozen=True)
class ShortPlan:
    """What runs calls whose arguments look like those of one: `run` takes them by position, and returns the result, or
    False where the plan is not for it."""

    run: Callable[[tuple[Any, ...]], Any]
    function: ResultFunction


def _after_checks(
    run: Callable[[tuple[Any, ...]], Any], specialization: Specialization, guards: Check | None, places: _Places,
) -> Callable[[tuple[Any, ...]], Any]:
    """Return what checks guards and numbers before, and gives what they lead to with the arguments."""
    fitting, numbers = specialization.fitting, _numbers_of(specialization)

    def checked(arguments: tuple[Any, ...]) -> Any:
        originals = [arguments[place] for place in places.arrays]
        scalars: Any = [arguments[place] for place in places.scalars]
        if guards is not None and not guards(arguments, {}, [], originals, scalars):
            return False
        scalars = fitting(scalars)
        if scalars is None:
            return False
        return run((*arguments, *originals[len(places.arrays):], *[round(scalars[place]) for place, round in numbers]))

    return checked


class _Places(NamedTuple):
    """Where the arrays and the numbers are among the arguments of a call."""

    arrays: Sequence[int]
    scalars: Sequence[int]


def short_plan(specialization: Specialization, arguments: tuple[Any, ...]) -> ShortPlan | None:
    """Return what runs calls like one by position, of a plan that has `short_calls`; None where there is nothing."""
    short, (step,) = specialization.short_calls, specialization.plan.steps
    assert short is not None
    assert isinstance(step, KernelStep)
    places = _Places([place for place, value in enumerate(arguments) if type(value) is dpnp.ndarray],
                     [place for place, value in enumerate(arguments) if type(value) in TRACED_KINDS])
    fixed, guards = specialization.origin.guards.divided()
    given: list[tuple[Any, ...]] = []
    # What the checks give with the arguments of this call is what the function of all calls has to take.
    checked = _after_checks(given.append, specialization, guards, places)
    if checked(arguments) is False:
        return None
    call = _call(specialization, step, given[0], places, fixed)
    function = None if call is None else short.function_with_results(step.launch, call, POOL)
    if function is None or checked(arguments) is False:  # what was found has changed since
        return None
    run = function.run
    if guards is not None or not specialization.takes_numbers_as_they_are:
        run = _after_checks(run, specialization, guards, places)
    return ShortPlan(run, function)


def _numbers_of(specialization: Specialization) -> tuple[tuple[int, Callable[[float], float]], ...]:
    """Return the numbers that the kernel is given besides the arguments, and how they are rounded."""
    (step,) = specialization.plan.steps
    assert isinstance(step, KernelStep)
    return () if specialization.takes_numbers_as_they_are else step.scalars


def _call(
    specialization: Specialization, step: KernelStep, given: tuple[Any, ...], places: _Places, fixed: Sequence[Fixed],
) -> CallWithResults | None:
    """Return what a call consists of; `given` are the arguments, the arrays that guards have found, and numbers."""
    plan, allocations = specialization.plan, {result.slot: result for result in step.allocations}
    returned = new_arrays(plan.make)
    scalars = _scalars(specialization, step, len(given), places)
    if returned is None or scalars is None or not allocations.keys() >= {*returned[0]}:
        return None
    slots = [*returned[0], *(allocations.keys() - {*returned[0]})]
    first = max([*places.arrays, *places.scalars], default=-1) + 1
    found = range(first, first + len(plan.inputs) - len(places.arrays))
    sources = dict(zip(plan.inputs, [*places.arrays, *found], strict=True))
    sources |= {slot: len(given) + number for number, slot in enumerate(slots)}
    if not sources.keys() >= {slot for slot, _ in step.operands}:
        return None
    return CallWithResults(
        given, tuple((sources[slot], more) for slot, more in step.operands), scalars,
        tuple(NewArray(allocations[slot].shape, allocations[slot].dtype, allocations[slot].usm_type) for slot in slots),
        len(returned[0]) if returned[1] else None, tuple(fixed), plan.counter,
    )


def _scalars(
    specialization: Specialization, step: KernelStep, count: int, places: _Places
) -> tuple[tuple[bool, Any], ...] | None:
    """Return the scalars of the kernel, where a call is given `count` values; None where machine code does not round
    one as the plan does."""
    scalars: list[tuple[bool, Any]] = [(False, value) for value in step.fixed]
    if not specialization.takes_numbers_as_they_are:
        return (*scalars, *((True, place) for place in range(count - len(step.scalars), count)))
    tape, given = specialization.plan.tape, iter(places.scalars)
    sources: list[tuple[bool, Any]] = [(True, place) for place in given] if tape is None else [
        (True, next(given)) if entry is None else (False, value)
        for entry, value in zip(tape.entries, tape.values, strict=True)]
    rounds: dict[int, Callable[[float], float]] = {}
    for place, round in step.scalars:
        is_argument, value = sources[place]
        if is_argument:
            rounds[len(scalars)] = round
        scalars.append((is_argument, value if is_argument else round(value)))
    launch: Any = step.launch
    are_known = all(rounds.get(scalar.position) in (None, rounding(scalar.type)) for scalar in launch.flat.scalars)
    return tuple(scalars) if are_known else None
