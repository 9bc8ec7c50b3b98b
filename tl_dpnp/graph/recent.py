"""The calls of one function that came last, found by machine code that looks at the arguments of a call.

Collecting the key of a call (`keys.CallKey`) takes more than 1 µs for each array.  Where a plan is run again and again
for arrays of one kind, or the function is traced again for them, machine code compares the arguments with those of such
a call instead; what is in containers, or beside arrays and numbers, is unpacked before (`unpacking`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tl_dpnp import config
from tl_dpnp.graph.direct_calls import direct_plan
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.trace_cache import TraceCache
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.graph.unpacking import Unpack, unpacking
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import CALLS_BEFORE, contents_of, looks_function, xp

if TYPE_CHECKING:
    from tl_dpnp.graph.short_plans import ShortPlan

__all__ = ["RecentCall", "RecentCalls"]


@dataclass
class RecentCall:
    """A function that says whether arrays and numbers have a key, what was found for it, the plan or what traces have
    recorded, and which of them are `arrays` and `scalars`.

    They are the arguments, or what these `unpack` to.  `short` runs the plan as a whole, if there is such a function;
    there may be one later if it `may_be_short`.  `direct` does so where a kernel is launched by machine code alone.
    """

    looks: Callable[[tuple[Any, ...]], bool] | None
    unpack: Unpack | None
    found: Specialization | TraceCache
    arrays: tuple[int, ...]
    scalars: tuple[int, ...]
    parts: list[Any]
    facts: list[Any]
    short: ShortPlan | None = None
    direct: Callable[[tuple[Any, ...]], Any] | None = None
    may_be_short: bool = True

    def unpacked(self, arguments: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arrays and numbers of arguments that have the key; None for others."""
        values = arguments if self.unpack is None else self.unpack(arguments)
        return values if values is not None and (self.looks is None or self.looks(values)) else None

    def key(self, values: tuple[Any, ...]) -> CallKey:
        """Return the key of a call with such arrays and numbers."""
        if not self.scalars:
            return CallKey.like(self.parts, self.facts, contents_of(values), [*values], [])
        originals = [values[position] for position in self.arrays]
        scalars = [values[position] for position in self.scalars]
        return CallKey.like(self.parts, self.facts, contents_of(originals), originals, scalars)


class RecentCalls:
    """A few calls of one function whose arguments, all by position, are arrays, numbers, and what holds them."""

    MOST_CALLS = 4

    def __init__(self) -> None:
        self.calls: tuple[RecentCall, ...] = ()
        #: Functions that run some of these calls as a whole: they return False for others.
        self.short: tuple[Callable[[tuple[Any, ...]], Any], ...] = ()
        self._is_off = not config.get("SHORT_CALLS")

    def note(
        self, key: CallKey, found: Specialization | TraceCache, arguments: Sequence[Any], times: int
    ) -> None:
        """Note that a plan has run with a key, or the function was traced, for so many times; it is remembered when
        they are enough."""
        if times == CALLS_BEFORE and not self._is_off:
            call = _recent_call(key, found, arguments)
            if call is not None:
                self._keep((call, *self.calls[: self.MOST_CALLS - 1]))

    def hasten(self, call: RecentCall, arguments: tuple[Any, ...]) -> None:
        """Find a function that runs a call as a whole, after one that was run by its plan, once there is one; have it
        run more of them if it lacks arrays, another one run them if what it is pinned to has changed, and leave it away
        where its calls have become long."""
        found = call.found
        if call.short is not None:
            function = call.short.function
            if function.is_slow:
                call.short = None
                self._keep(self.calls)
            elif function.record.misses or not call.short.is_pinned:
                function.renew()
            elif isinstance(found, Specialization):  # what it was pinned to has changed, and may do so again
                self._shorten(call, found, arguments, False)
        elif call.may_be_short and isinstance(found, Specialization):
            short = found.short_calls
            if short is None or short.problem is not None:
                call.may_be_short = False
                if call.unpack is None:
                    call.direct = direct_plan(found, arguments)
                    self._keep(self.calls)
            elif short.function is not None:
                call.may_be_short = False
                self._shorten(call, found, arguments, True)

    def _shorten(
        self, call: RecentCall, found: Specialization, arguments: tuple[Any, ...], may_be_pinned: bool
    ) -> None:
        """Find a function that runs a call as a whole."""
        from tl_dpnp.graph.short_plans import short_plan  # brings LLVM

        plan = short_plan(found, arguments, may_be_pinned)
        if call.unpacked(arguments) is not None:  # no other thread has changed an argument
            call.short = plan
            self._keep(self.calls)

    def _keep(self, calls: tuple[RecentCall, ...]) -> None:
        self.calls = calls
        self.short = tuple([run for call in calls
                            if (run := call.direct if call.short is None else call.short.run) is not None])

    def clear(self) -> None:
        """Forget all calls."""
        self._keep(())


def _recent_call(
    key: CallKey, found: Specialization | TraceCache, arguments: Sequence[Any]
) -> RecentCall | None:
    if key.unknown:
        return None
    unpack = None
    values: Sequence[Any] | None = arguments
    if not arguments or any(type(v) is not xp.ndarray and type(v) not in TRACED_KINDS for v in arguments):
        unpack = unpacking(arguments)
        values = None if unpack is None else unpack(tuple(arguments))
    if values is None or len({*map(id, key.originals)}) < len(key.originals):
        return None
    arrays = tuple(place for place, value in enumerate(values) if type(value) is xp.ndarray)
    scalars = tuple(place for place, value in enumerate(values) if type(value) in TRACED_KINDS)
    looks = None
    if values:
        looks = looks_function(values, key.facts[0][4] if arrays else None)
    now = CallKey()
    for value in arguments:
        now.add(value)
    now.finish()
    if now.parts != key.parts or (looks is None and values):  # an argument has changed since its key was taken
        return None
    return RecentCall(looks, unpack, found, arrays, scalars, now.parts, now.facts)
