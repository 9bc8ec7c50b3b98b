"""The calls of one function that came last, found by machine code that looks at the arguments of a call.

Collecting the key of a call (`keys.CallKey`) takes more than 1 µs for each array.  Where a plan is run again and again
for arrays of one kind, or the function is traced again for them, machine code compares the arguments with those of such
a call instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dpnp

from tl_dpnp import config
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.trace_cache import TraceCache
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.runtime.sycl.dpnp_adapter import usm_array_of
from tl_dpnp.runtime.sycl.host_calls import CALLS_BEFORE

__all__ = ["RecentCall", "RecentCalls"]


@dataclass(frozen=True)
class RecentCall:
    """A function that says whether arguments have a key, what was found for it, the plan or what traces have recorded,
    and where the arrays and numbers of the arguments are."""

    looks: Callable[[tuple[Any, ...]], bool]
    found: Specialization | TraceCache
    arrays: tuple[int, ...]
    scalars: tuple[int, ...]
    parts: list[Any]
    facts: list[Any]

    def key(self, arguments: tuple[Any, ...]) -> CallKey:
        """Return the key of a call with such arguments."""
        if not self.scalars:
            return CallKey.like(self.parts, self.facts, [*map(usm_array_of, arguments)], [*arguments], [])
        originals = [arguments[position] for position in self.arrays]
        scalars = [arguments[position] for position in self.scalars]
        return CallKey.like(self.parts, self.facts, [*map(usm_array_of, originals)], originals, scalars)


class RecentCalls:
    """A few calls of one function whose arguments, all by position, are arrays of dpnp and numbers."""

    MOST_CALLS = 4

    def __init__(self) -> None:
        self.calls: tuple[RecentCall, ...] = ()
        self._is_off = not config.get("SHORT_CALLS")

    def note(
        self, key: CallKey, found: Specialization | TraceCache, arguments: Sequence[Any], times: int
    ) -> None:
        """Note that a plan has run with a key, or the function was traced, for so many times; it is remembered when
        they are enough."""
        if times == CALLS_BEFORE and not self._is_off:
            call = _recent_call(key, found, arguments)
            if call is not None:
                self.calls = (call, *self.calls[: self.MOST_CALLS - 1])

    def clear(self) -> None:
        """Forget all calls."""
        self.calls = ()


def _recent_call(
    key: CallKey, found: Specialization | TraceCache, arguments: Sequence[Any]
) -> RecentCall | None:
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
    return None if looks is None else RecentCall(looks, found, arrays, scalars, now.parts, now.facts)
