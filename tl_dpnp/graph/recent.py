"""The plans that were run last, found by machine code that looks at the arguments of a call.

Collecting the key of a call (`keys.CallKey`) takes more than 1 µs for each array.  Where a plan is run again and again
for arrays of one kind, machine code compares the arguments with those of such a call instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dpnp

from tl_dpnp import config
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.runtime.sycl.dpnp_adapter import usm_array_of
from tl_dpnp.runtime.sycl.host_calls import CALLS_BEFORE

__all__ = ["RecentPlan", "RecentPlans"]


@dataclass(frozen=True)
class RecentPlan:
    """A plan, and a function that says whether arguments have the key that it was run with; where their arrays are."""

    looks: Callable[[tuple[Any, ...]], bool]
    specialization: Specialization
    arrays: tuple[int, ...]
    scalars: tuple[int, ...]

    def key(self, arguments: tuple[Any, ...]) -> CallKey:
        """Return the key of a call with such arguments, without its parts, which are known."""
        key = CallKey()
        if self.scalars:
            key.originals = [arguments[position] for position in self.arrays]
            key.scalars = [arguments[position] for position in self.scalars]
        else:
            key.originals = [*arguments]
        key.arrays = [*map(usm_array_of, key.originals)]
        return key


class RecentPlans:
    """A few plans of one function, for calls whose arguments, all by position, are arrays of dpnp and numbers."""

    MOST_PLANS = 4

    def __init__(self) -> None:
        self.plans: tuple[RecentPlan, ...] = ()
        self._is_off = not config.get("SHORT_CALLS")

    def note(self, key: CallKey, specialization: Specialization, arguments: Sequence[Any]) -> None:
        """Note that a plan has run with a key; it is remembered when it has often enough."""
        if specialization.plan.calls == CALLS_BEFORE and not self._is_off:
            plan = _recent_plan(key, specialization, arguments)
            if plan is not None:
                self.plans = (plan, *self.plans[: self.MOST_PLANS - 1])

    def clear(self) -> None:
        """Forget all plans."""
        self.plans = ()


def _recent_plan(key: CallKey, specialization: Specialization, arguments: Sequence[Any]) -> RecentPlan | None:
    arrays = tuple(place for place, value in enumerate(arguments) if type(value) is dpnp.ndarray)
    scalars = tuple(place for place, value in enumerate(arguments) if type(value) in TRACED_KINDS)
    if not arrays or len(arrays) + len(scalars) < len(arguments) or len({*map(id, arguments)}) < len(arguments):
        return None
    from tl_dpnp.runtime.sycl.host_functions import looks_function  # brings LLVM

    looks = looks_function(arguments, key.arrays[0].sycl_queue)
    now = CallKey()
    for value in arguments:
        now.add(value)
    now.finish()
    if now.parts != key.parts:  # an argument has changed since its key was taken
        return None
    return None if looks is None else RecentPlan(looks, specialization, arrays, scalars)
