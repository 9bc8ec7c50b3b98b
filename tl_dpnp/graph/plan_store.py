"""The plans of one fused function, by the keys of calls and the values of numbers that decide."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.records import dataclass

__all__ = ["MOST_KEYS", "PlanStore"]

#: Keys that a function remembers; the oldest go first.
MOST_KEYS = 512
#: Plans for calls with one key, which differ in what was read from outside.
_MOST_PLANS = 8


@dataclass
class _Calls:
    """The plans for calls with one key, by the values of the numbers of a call that decide what earlier traces did."""

    deciding: tuple[int, ...] = ()
    plans: OrderedDict[tuple[Any, ...], list[Specialization]] = field(default_factory=OrderedDict)

    def values(self, key: CallKey) -> tuple[Any, ...]:
        """Return the values of those numbers in a call."""
        return tuple([_exactly(key.scalars[place]) for place in self.deciding])


class PlanStore:
    """Plans; `forgotten_calls` is how often those were called that are not there any more."""

    def __init__(self) -> None:
        self.forgotten_calls = 0
        self._calls: OrderedDict[Any, _Calls] = OrderedDict()
        #: How many keys there are, each value of a number that decides counted.
        self._count = 0

    def __iter__(self) -> Iterator[Specialization]:
        return (plan for calls in self._calls.values() for plans in calls.plans.values() for plan in plans)

    def of(self, key: CallKey) -> Sequence[Specialization]:
        """Return the plans that may fit a call."""
        calls = self._calls.get(tuple(key.parts))
        return () if calls is None else calls.plans.get(calls.values(key), ())

    def deciding(self, key: CallKey) -> tuple[int, ...]:
        """Return which numbers of a call decide."""
        return self._calls[tuple(key.parts)].deciding

    def decides(self, key: CallKey) -> bool:
        """Return whether numbers of a call decide; also where another thread has let its plans go meanwhile."""
        calls = self._calls.get(tuple(key.parts))
        return calls is None or bool(calls.deciding)

    def add(self, key: CallKey, specialization: Specialization) -> int:
        """Keep a plan; return for how many values of numbers that decide there are plans with its key."""
        calls = self._calls.setdefault(tuple(key.parts), _Calls())
        deciding = {place for place, _ in specialization.numbers if place < len(key.scalars)}
        if not deciding.issubset(calls.deciding):  # no call finds the plans that are there
            calls.deciding = tuple(sorted(deciding.union(calls.deciding)))
            while calls.plans:
                self._forget(calls)
        values = calls.values(key)
        if values not in calls.plans:
            calls.plans[values] = []
            self._count += 1
        plans = calls.plans[values]
        plans.append(specialization)
        self.forgotten_calls += sum(plan.plan.calls for plan in plans[:-_MOST_PLANS])
        del plans[:-_MOST_PLANS]
        while self._count > MOST_KEYS:
            oldest = next(iter(self._calls))
            self._forget(self._calls[oldest])
            if not self._calls[oldest].plans:
                del self._calls[oldest]
        return len(calls.plans) if calls.deciding else 0

    def _forget(self, calls: _Calls) -> None:
        """Let the oldest plans for one key go."""
        _, plans = calls.plans.popitem(last=False)
        self._count -= 1
        self.forgotten_calls += sum(plan.plan.calls for plan in plans)


def _exactly(value: float) -> Any:
    """Return what a number has in common with those that are the same: zeros have signs, and NaN is the same as NaN."""
    return value if type(value) is int else (type(value), repr(value))
