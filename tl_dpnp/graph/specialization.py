"""A plan with what it depends on besides the key of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tl_dpnp.graph.extents import extent_of
from tl_dpnp.graph.guards import Check, same_value
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.observation import Observer
from tl_dpnp.graph.plan import CallStep, KernelStep, Make, Plan, Step
from tl_dpnp.graph.retraces import LOOKED_AT, Change, Origin, ParameterNames, changed_guard, changed_number
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import REPLAY_ERRORS, bucket
from tl_dpnp.records import dataclass

if TYPE_CHECKING:
    from tl_dpnp.runtime.sycl.host_calls import ShortCalls

__all__ = ["Specialization"]


@dataclass
class Specialization:
    """What a trace left: the plan, what it depends on besides the key, and what it takes from each call.

    `numbers` are the values that numbers of the call have to have, by their position, and `buckets` those of integers
    that kernels are given.  Where the plan writes to arrays of the call, `overlaps` says which of them share memory.
    `held` are objects whose identity is part of the key, `origin` is the call that was traced.
    """

    plan: Plan
    guards: Check | None
    numbers: tuple[tuple[int, float], ...]
    buckets: tuple[tuple[int, int], ...]
    overlaps: tuple[tuple[int, int], ...] | None
    held: list[Any]
    origin: Origin

    @classmethod
    def of_trace(
        cls, trace: Trace, observer: Observer, key: CallKey, make: Make, origin: Origin
    ) -> Specialization:
        """Return what a trace has left; `make` makes the result."""
        tape = trace.tape
        plain = all(entry is None for entry in tape.entries)
        overlaps = None
        if _writes(trace.steps):
            overlaps = _overlapping([*key.arrays, *(trace.registers[slot] for slot in observer.inputs)])
        plan = Plan(len(trace.registers), list(trace.steps), make, observer.slots, None if plain else tape)
        numbers = tuple((place, tape.values[place]) for place in sorted(tape.fixed))
        buckets = tuple((place, bucket(value)) for place, value in enumerate(tape.values)
                        if place in tape.integers - tape.fixed)
        return cls(plan, observer.guards.compiled(), numbers, buckets, overlaps, key.held, origin)

    def run(self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any]) -> tuple[bool, Any]:
        """Run the plan for a call with the same key, if it fits; return whether it did, and the result."""
        arrays, originals, scalars = key.arrays, key.originals, key.scalars
        if self.guards is not None:
            arrays, originals, scalars = list(arrays), list(originals), list(scalars)
            if not self.guards(arguments, keywords, arrays, originals, scalars):
                return False, None
        fitting = self.fitting(scalars)
        if fitting is None:
            return False, None
        if self.overlaps is not None and self.overlaps != _overlapping(arrays):
            return False, None
        self.plan.counter.value += 1
        return True, self.plan.run(arrays, originals, fitting, arguments, keywords)

    def fitting(self, scalars: Sequence[float]) -> Sequence[float] | None:
        """Return all numbers of a call from those that it gives; None if the plan is not for these."""
        tape = self.plan.tape
        if tape is not None:
            try:
                scalars = tape.replay(scalars)
            except REPLAY_ERRORS:  # the function itself raises it, after what it does before
                return None
        if (self.numbers or self.buckets) and self._differing(scalars) is not None:
            return None
        return scalars

    @property
    def takes_numbers_as_they_are(self) -> bool:
        """Whether a call may have any numbers of the same kinds, and nothing is computed from them."""
        tape = self.plan.tape
        return not (self.numbers or self.buckets or self.origin.guards.scalars()
                    or (tape is not None and tape.has_derived))

    def sources(self, places: Sequence[int]) -> list[tuple[bool, Any]]:
        """Return of each number whether calls give it, and its place among their arguments or its value.

        `places` are those of the numbers that calls give; the plan `takes_numbers_as_they_are`.
        """
        tape, given = self.plan.tape, iter(places)
        if tape is None:
            return [(True, place) for place in given]
        return [(True, next(given)) if entry is None else (False, value)
                for entry, value in zip(tape.entries, tape.values, strict=True)]

    @property
    def short_calls(self) -> ShortCalls | None:
        """What is known of how long the launch takes; None where there is more to do than one for new results."""
        if len(self.plan.steps) != 1 or self.overlaps is not None:
            return None
        (step,) = self.plan.steps
        return getattr(step.launch, "short", None) if isinstance(step, KernelStep) else None

    def _differing(self, scalars: Sequence[float]) -> tuple[int, str, float, str] | None:
        """Return the first number that does not fit: its position, what it has to be, what it is, what to do."""
        for place, value in self.numbers:
            if not same_value(scalars[place], value):
                return place, repr(value), scalars[place], LOOKED_AT
        for place, expected in self.buckets:
            if bucket(scalars[place]) != expected:
                return place, "an integer that other types have", scalars[place], ""
        return None

    def misfit(
        self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any], names: ParameterNames
    ) -> Change | None:
        """Return why the plan does not fit a call with the same key, None if it does."""
        arrays, scalars = list(key.arrays), list(key.scalars)
        path = self.origin.guards.failing(arguments, keywords, arrays, list(key.originals), scalars)
        if path is not None:
            return changed_guard(path, names, arguments, keywords)
        tape = self.plan.tape
        try:
            scalars = scalars if tape is None else tape.replay(scalars)
        except REPLAY_ERRORS as error:
            return Change("what is computed from numbers", "a float", f"an error: {error}")
        differing = self._differing(scalars)
        if differing is not None:
            return changed_number(differing[0], tape, self.origin, names, *differing[1:])
        if self.overlaps is not None and self.overlaps != _overlapping(arrays):
            return Change("which arrays share memory", f"{len(self.overlaps)} pairs", "others")
        return None


def _overlapping(arrays: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of arrays that share memory."""
    extents = [extent_of(array) for array in arrays]
    return tuple(
        (i, j) for i, (low, high) in enumerate(extents) for j, (other_low, other_high) in enumerate(extents[:i])
        if low < other_high and other_low < high
    )


def _writes(steps: Sequence[Step]) -> bool:
    """Return whether steps may write to an array that existed before."""
    return any(
        isinstance(step, CallStep)
        or (isinstance(step, KernelStep) and len(step.allocations) < len(step.report.region.outputs)) for step in steps
    )
