"""Plans that machine code runs as a whole: it looks at the arguments, runs the one kernel, and returns new arrays.

That is for plans of one kernel on a CPU that write to no array of the call and have new arrays in their result.  Guards
that machine code does not check, arrays and numbers that are in containers or objects, and what is computed from the
numbers of a call, are left to Python, before; objects that hold the new arrays, but for a tuple of them, after.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tl_dpnp.graph.guards import Check
from tl_dpnp.graph.plan import POOL, Call, KernelStep
from tl_dpnp.graph.results import NewArrays, new_arrays
from tl_dpnp.graph.scalars import rounding
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.graph.unpacking import Unpack, unpacking
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import xp
from tl_dpnp.runtime.sycl.fixed_places import Fixed
from tl_dpnp.runtime.sycl.result_arrays import NewArray
from tl_dpnp.runtime.sycl.result_calls import CallWithResults, ResultFunction

__all__ = ["ShortPlan", "short_plan"]


@dataclass(frozen=True)
class ShortPlan:
    """What runs calls whose arguments look like those of one: `run` takes them by position, and returns the result, or
    False where the plan is not for it.  It may be `pinned` to what was outside of the arguments in that call."""

    run: Callable[[tuple[Any, ...]], Any]
    function: ResultFunction
    is_pinned: bool = False


class _Places(NamedTuple):
    """Where the arrays and the numbers are among what the arguments of a call unpack to."""

    arrays: Sequence[int]
    scalars: Sequence[int]


class _Given(NamedTuple):
    """What machine code is given for a call: what its arguments unpack to, the arrays that guards find, and numbers.

    `originals` are all arrays, `scalars` all numbers of the call.
    """

    values: tuple[Any, ...]
    originals: Sequence[Any]
    scalars: Sequence[float]


_Look = Callable[[tuple[Any, ...]], _Given | None]


def _looking(specialization: Specialization, unpack: Unpack, guards: Check | None, places: _Places) -> _Look:
    """Return what looks at a call as far as machine code does not, and returns what to give that; None where the plan
    is not for it."""
    fitting, numbers = specialization.fitting, _numbers_of(specialization)
    count = len(places.arrays)

    def look(arguments: tuple[Any, ...]) -> _Given | None:
        values = unpack(arguments)
        if values is None:
            return None
        originals = [values[place] for place in places.arrays]
        scalars: Any = [values[place] for place in places.scalars]
        if guards is not None and not guards(arguments, {}, [], originals, scalars):
            return None
        scalars = fitting(scalars)
        if scalars is None:
            return None
        more = [round(scalars[place]) for place, round in numbers]
        return _Given((*values, *originals[count:], *more), originals, scalars)

    return look


def _after_a_look(
    run: Callable[[tuple[Any, ...]], Any], look: _Look, specialization: Specialization, result: NewArrays
) -> Callable[[tuple[Any, ...]], Any]:
    """Return what looks at a call before machine code runs it, and makes what holds the new arrays."""
    make, is_whole = specialization.plan.make, result.is_array or result.is_tuple

    def looked(arguments: tuple[Any, ...]) -> Any:
        given = look(arguments)
        if given is None:
            return False
        made = run(given.values)
        if is_whole or made is False:
            return made
        return result.completed(make, Call([], given.originals, given.scalars, arguments, {}), made)

    return looked


#: Where each number of a plan comes from: whether it is an argument, and its position or itself; None for what is
#: computed from an argument.
_Sources = Sequence[tuple[bool, Any] | None]


def short_plan(
    specialization: Specialization, arguments: tuple[Any, ...], may_be_pinned: bool = True
) -> ShortPlan | None:
    """Return what runs calls like one by position, of a plan that has `short_calls`; None where there is nothing.

    If it may be, it is pinned to the objects outside of the arguments, where Python would have to look at these.
    """
    short, (step,) = specialization.short_calls, specialization.plan.steps
    assert short is not None
    assert isinstance(step, KernelStep)
    result, unpack = new_arrays(specialization.plan.make), unpacking(arguments)
    values = None if unpack is None else unpack(arguments)
    if result is None or unpack is None or values is None:
        return None
    places = _Places([place for place, value in enumerate(values) if type(value) is xp.ndarray],
                     [place for place, value in enumerate(values) if type(value) in TRACED_KINDS])
    fixed, guards = specialization.origin.guards.divided()
    whole = _looking(specialization, unpack, specialization.guards, places)
    is_all = (result.is_array or result.is_tuple) and len(values) == len(arguments) and all(
        map(operator.is_, values, arguments))
    needs_look = not (is_all and guards is None and specialization.takes_numbers_as_they_are)
    pinned = _pinned(specialization, values, places) if may_be_pinned and is_all and needs_look else None
    if pinned is not None:
        objects, sources = pinned
        call = _call(specialization, step, values, places, objects, result, sources)
        function = None if call is None else short.function_with_results(step.launch, call, POOL)
        if function is not None and whole(arguments) is not None:
            return ShortPlan(function.run, function, True)
    look = _looking(specialization, unpack, guards, places)
    given = look(arguments)
    # What this gives for this call is what the function of all calls has to take.
    call = None if given is None else _call(specialization, step, given.values, places, fixed, result)
    function = None if call is None else short.function_with_results(step.launch, call, POOL)
    if function is None or whole(arguments) is None:  # what was found has changed since
        return None
    run = _after_a_look(function.run, look, specialization, result) if needs_look else function.run
    return ShortPlan(run, function)


def _pinned(
    specialization: Specialization, values: tuple[Any, ...], places: _Places
) -> tuple[Sequence[Fixed], _Sources] | None:
    """Return the objects outside of the arguments that calls depend on, and where the numbers come from if these stay;
    None where that is not all."""
    found = specialization.origin.guards.pinned()
    if found is None or len(specialization.plan.inputs) != len(places.arrays):
        return None
    objects, numbers = found
    known = specialization.fitting([*(values[place] for place in places.scalars), *numbers])
    if known is None:
        return None
    tape = specialization.plan.tape
    given = iter([*((True, place) for place in places.scalars), *((False, number) for number in numbers)])
    sources: list[tuple[bool, Any] | None] = []
    for value, entry in zip(known, [None] * len(known) if tape is None else tape.entries, strict=True):
        if entry is None:
            sources.append(next(given))
        else:
            of = [sources[operand] for is_position, operand in entry[1] if is_position]
            sources.append((False, value) if all(each is not None and not each[0] for each in of) else None)
    decided = [place for place, _ in (*specialization.numbers, *specialization.buckets)]
    may_change = any((source := sources[place]) is None or source[0] for place in decided)
    return None if may_change else (objects, sources)


def _numbers_of(specialization: Specialization) -> tuple[tuple[int, Callable[[float], float]], ...]:
    """Return the numbers that the kernel is given besides the arguments, and how they are rounded."""
    (step,) = specialization.plan.steps
    assert isinstance(step, KernelStep)
    return () if specialization.takes_numbers_as_they_are else step.scalars


def _call(
    specialization: Specialization, step: KernelStep, given: tuple[Any, ...], places: _Places, fixed: Sequence[Fixed],
    result: NewArrays, numbers: _Sources | None = None,
) -> CallWithResults | None:
    """Return what a call consists of, for which machine code is given some values; where `numbers` come from if what is
    outside of the arguments stays."""
    plan, allocations = specialization.plan, {made.slot: made for made in step.allocations}
    scalars = _scalars(specialization, step, len(given), places, numbers)
    if scalars is None or not allocations.keys() >= {*result.slots}:
        return None
    slots = [*result.slots, *(allocations.keys() - {*result.slots})]
    first = len(places.arrays) + len(places.scalars)
    found = range(first, first + len(plan.inputs) - len(places.arrays))
    sources = dict(zip(plan.inputs, [*places.arrays, *found], strict=True))
    sources |= {slot: len(given) + number for number, slot in enumerate(slots)}
    if not sources.keys() >= {slot for slot, _ in step.operands}:
        return None
    return CallWithResults(
        given, tuple((sources[slot], more) for slot, more in step.operands), scalars,
        tuple(NewArray(allocations[slot].shape, allocations[slot].dtype, allocations[slot].usm_type) for slot in slots),
        None if result.is_array else len(result.slots), tuple(fixed), plan.counter,
    )


def _scalars(
    specialization: Specialization, step: KernelStep, count: int, places: _Places, sources: _Sources | None
) -> tuple[tuple[bool, Any], ...] | None:
    """Return the scalars of the kernel, where a call is given `count` values; None where machine code does not round
    one as the plan does."""
    scalars: list[tuple[bool, Any]] = [(False, value) for value in step.fixed]
    if sources is None and not specialization.takes_numbers_as_they_are:
        return (*scalars, *((True, place) for place in range(count - len(step.scalars), count)))
    if sources is None:
        sources = [*specialization.sources(places.scalars)]
    rounds: dict[int, Callable[[float], float]] = {}
    for place, round in step.scalars:
        source = sources[place]
        if source is None:
            return None
        is_argument, value = source
        if is_argument:
            rounds[len(scalars)] = round
        scalars.append((is_argument, value if is_argument else round(value)))
    launch: Any = step.launch
    are_known = all(rounds.get(scalar.position) in (None, rounding(scalar.type)) for scalar in launch.flat.scalars)
    return tuple(scalars) if are_known else None
