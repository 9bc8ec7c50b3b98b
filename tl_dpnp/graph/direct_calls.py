"""Launches by machine code that looks at the arrays itself: of steps, and of whole plans of one kernel.

In Python, to look at the arrays of a call and at their addresses takes longer than to launch the kernel does.  Where
the package has such a function (`tl_dpnp.runtime.array_package.direct_call`), it is given the numbers and arrays of a
kernel, and launches that if they are like those that it was made for.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import Any

from tl_dpnp.graph.plan import KernelStep
from tl_dpnp.graph.results import new_arrays
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.graph.written_functions import add_named, listed, written
from tl_dpnp.runtime.array_package import direct_call, quick_maker, xp

__all__ = ["direct_plan"]

#: Arrays among the arguments of such a call: each two are looked at whether they are one.
_MOST_ARRAYS = 8


def direct_plan(specialization: Specialization, arguments: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return what runs calls like one, by position, and returns False for others; None where there is nothing.

    That is for plans of one kernel that reads all arrays of the call, writes to none of them, and makes the results;
    arguments are arrays and numbers that the kernel takes as they are, but for rounding.
    """
    if direct_call is None:
        return None
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
            or len(places) + len(numbers) != len(arguments) or len(places) > _MOST_ARRAYS:
        return None
    order = [[*plan.inputs, *made].index(slot) for slot in slots]
    results = None if result.is_array else [made.index(slot) for slot in result.slots]
    return _runner(specialization, step, arguments, (places, numbers), order, results)


def _runner(
    specialization: Specialization, step: KernelStep, like: tuple[Any, ...], where: tuple[Sequence[int], Sequence[int]],
    order: Sequence[int], results: Sequence[int] | None,
) -> Callable[[tuple[Any, ...]], Any] | None:
    """Return the function, which is written for the call; `where` the arrays and the numbers are among the arguments.

    `order` is that of the kernel's arrays among those of a call and the new ones, `results` that of the new ones in the
    result, None for one by itself.  The classes of arrays are looked at by the launch.
    """
    assert direct_call is not None
    assert quick_maker is not None
    places, numbers = where
    fixed, guards = specialization.origin.guards.divided()
    inputs, count = len(specialization.plan.inputs), len(like)
    names: dict[str, Any] = {"guards": guards, "counter": specialization.plan.counter}

    named = functools.partial(add_named, names)
    arrays = [f"a{place}" for place in places]
    made = [f"r{number}" for number in range(len(step.allocations))]
    makers = named("make", (quick_maker(each.shape, each.dtype) for each in step.allocations))
    constants = named("fixed", step.fixed)
    sources = specialization.sources(numbers)
    scalars = [(*sources[place], rounded) for place, rounded in step.scalars]
    rounds = named("round", (rounded for _, _, rounded in scalars))
    values = named("value", (None if is_given else rounded(value) for is_given, value, rounded in scalars))
    kinds = named("kind", (type(like[place]) for place in numbers))
    owners, expected = named("owner", (each.owner for each in fixed)), named("expected", (e.expected for e in fixed))
    getters = named("get", (attrgetter(e.name) if e.is_attribute else itemgetter(e.name) for e in fixed))
    others = [
        *(f"type(a{place}) is not {kind}" for place, kind in zip(numbers, kinds, strict=True)),
        *(f"{one} is {other}" for one, other in itertools.combinations(arrays, 2)),
        *(f"{get}({owner}) is not {value}" for get, owner, value in zip(getters, owners, expected, strict=True)),
    ]
    operands = [*arrays, *(f"found[{number}]" for number in range(len(places), inputs)), *made]
    given = [*constants,
             *(f"{rounded}(a{place})" if is_given else known
               for rounded, known, (is_given, place, _) in zip(rounds, values, scalars, strict=True)),
             *(operands[place] for place in order)]
    lines = [f"if len(arguments) != {count}: return False"]
    lines += [f"{listed(f'a{place}' for place in range(count))} = arguments"] if count else []
    lines += [f"if {' or '.join(others)}: return False"] if others else []
    if guards is not None:
        lines += [f"found = [{', '.join(arrays)}]",
                  f"if not guards(arguments, {{}}, [], found, []) or len(found) != {inputs}: return False"]
    lines += [f"{name} = {maker}()" for name, maker in zip(made, makers, strict=True)]
    lines += [f"given = ({listed(given)})"]
    arguments = _tried([*lines, "return given"], dict(names))(like)
    launch = None if arguments is False else direct_call(step.launch, arguments)
    result = made[0] if results is None else f"({listed(made[number] for number in results)})"
    return None if launch is None else _tried(
        [*lines, "if not launch(given): return False", "counter.value += 1", f"return {result}"],
        {**names, "launch": launch})


def _tried(lines: Sequence[str], names: dict[str, Any]) -> Callable[[tuple[Any, ...]], Any]:
    """Return a function of the arguments of a call; what raises in it is another kind of call."""
    return written(["try:", *(f"    {line}" for line in lines), "except (AttributeError, KeyError, ValueError):",
                    "    return False"], names)
