"""Launches by machine code that looks at the arrays itself: of steps, and of whole plans of one kernel.

In Python, to look at the arrays of a call and at their addresses takes longer than to launch the kernel does.  Where
the package has such a function (`tl_dpnp.runtime.array_package.direct_call`), it is given the numbers and arrays of a
kernel, and launches that if they are like those that it was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tl_dpnp.graph.plan import KernelStep
from tl_dpnp.graph.results import new_arrays
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.runtime.array_package import direct_call, xp

__all__ = ["direct_plan"]


def direct_plan(specialization: Specialization, arguments: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return what runs calls like one, by position, and returns False for others; None where there is nothing.

    That is for plans of one kernel that reads all arrays of the call, writes to none of them, and makes the results;
    arguments are arrays and numbers that the kernel takes as they are.
    """
    plan, steps = specialization.plan, specialization.plan.steps
    result = new_arrays(plan.make)
    if len(steps) != 1 or not isinstance(steps[0], KernelStep) or result is None or not (
        result.is_array or result.is_tuple
    ) or specialization.overlaps is not None or not specialization.takes_numbers_as_they_are:
        return None
    step = steps[0]
    slots = [slot for slot, _ in step.operands]
    made = [each.slot for each in step.allocations]
    places = [place for place, value in enumerate(arguments) if type(value) is xp.ndarray]
    numbers = [place for place, value in enumerate(arguments) if type(value) in TRACED_KINDS]
    if any(offset for _, offset in step.operands) or not {*plan.inputs} <= {*slots} or {*made} != {*result.slots} \
            or len(places) + len(numbers) != len(arguments) or len(step.scalars) != len(numbers):
        return None
    order = [[*plan.inputs, *made].index(slot) for slot in slots]
    results = None if result.is_array else [made.index(slot) for slot in result.slots]
    return _runner(specialization, step, arguments, (places, numbers), order, results)


def _runner(
    specialization: Specialization, step: KernelStep, like: tuple[Any, ...], where: tuple[Sequence[int], Sequence[int]],
    order: Sequence[int], results: Sequence[int] | None,
) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return the function; `where` the arrays and the numbers are among the arguments.

    `order` is that of the kernel's arrays among those of a call and the new ones, `results` that of the new ones in the
    result, None for one by itself.
    """
    places, numbers = where
    count, fixed, queue, guards = len(like), tuple(step.fixed), step.queue, specialization.guards
    kinds = [*map(type, like)]
    rounded = [(numbers[place], round) for place, round in step.scalars]
    makers = [each.made for each in step.allocations]
    expected, counter = len(specialization.plan.inputs), specialization.plan.counter

    def arrays_of(arguments: tuple[Any, ...]) -> list[Any] | None:
        """Return the arrays of a call, those that guards find among them; None for another kind of call."""
        if [*map(type, arguments)] != kinds:
            return None
        arrays = [arguments[place] for place in places]
        if len({*map(id, arrays)}) != len(arrays) or (
                guards is not None and not guards(arguments, {}, arrays, [*arrays], [])):
            return None
        return arrays if len(arrays) == expected else None

    def given(arguments: tuple[Any, ...], arrays: Sequence[Any], made: Sequence[Any]) -> tuple[Any, ...]:
        operands = [*arrays, *made]
        return (*fixed, *[round(arguments[place]) for place, round in rounded], *[operands[place] for place in order])

    first = arrays_of(like)
    launch = None if first is None else direct_call(
        step.launch, given(like, first, [make(queue) for make in makers]))
    if launch is None:
        return None

    def run(arguments: tuple[Any, ...]) -> Any:
        arrays = arrays_of(arguments) if len(arguments) == count else None
        if arrays is None:
            return False
        made = [make(queue) for make in makers]
        if not launch(given(arguments, arrays, made)):
            return False
        counter.value += 1
        return made[0] if results is None else tuple([made[number] for number in results])

    return run
