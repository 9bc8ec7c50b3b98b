"""The plans of one fused function, by the keys of calls and the values of numbers that decide."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.specialization import Specialization

__all__ = ["MOST_KEYS", "PlanStore"]

#: Keys that a function remembers; the oldest go first.
MOST_KEYS = 512
#: Plans for calls with one key, which differ in what was read from outside.
_MOST_PLANS = 8


class PlanStore:
    """Plans; `forgotten_calls` is how often those were called that are not there any more."""

    def __init__(self) -> None:
        self.by_key: OrderedDict[Any, list[Specialization]] = OrderedDict()
        self.forgotten_calls = 0
        self._deciding: dict[Any, tuple[int, ...]] = {}
        self._values: dict[Any, int] = {}

    def of(self, key: CallKey) -> Sequence[Specialization]:
        """Return the plans that may fit a call."""
        return self.by_key.get(self._full_key(key), ())

    def _full_key(self, key: CallKey) -> tuple[Any, ...]:
        """Return the key of a call with the values of those numbers that decided what earlier traces did."""
        parts = tuple(key.parts)
        return parts, tuple(_exactly(key.scalars[place]) for place in self._deciding.get(parts, ()))

    def deciding(self, key: CallKey) -> tuple[int, ...]:
        """Return which numbers of a call decide."""
        return self._deciding.get(tuple(key.parts), ())

    def add(self, key: CallKey, specialization: Specialization) -> int:
        """Keep a plan; return for how many values of numbers that decide there have been plans with its key."""
        parts = tuple(key.parts)
        deciding = {place for place, _ in specialization.numbers if place < len(key.scalars)}
        self._deciding[parts] = tuple(sorted(deciding.union(self._deciding.get(parts, ()))))
        full = self._full_key(key)
        if full not in self.by_key and full[1]:
            self._values[parts] = self._values.get(parts, 0) + 1
        found = self.by_key.setdefault(full, [])
        found.append(specialization)
        dropped = found[:-_MOST_PLANS]
        del found[:-_MOST_PLANS]
        while len(self.by_key) > MOST_KEYS:
            dropped += self.by_key.popitem(last=False)[1]
        self.forgotten_calls += sum(forgotten.plan.calls for forgotten in dropped)
        count = self._values.get(parts, 0)
        while len(self._deciding) > MOST_KEYS:
            oldest = next(iter(self._deciding))
            del self._deciding[oldest]
            self._values.pop(oldest, None)
        return count


def _exactly(value: float) -> Any:
    """Return what a number has in common with those that are the same: zeros have signs, and NaN is the same as NaN."""
    return value if type(value) is int else (float, repr(value))
