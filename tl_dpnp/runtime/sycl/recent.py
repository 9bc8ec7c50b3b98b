"""Calls that a kernel has seen with these very arrays: what is known of them need not be asked again.

Asking an array for its type, queue and flags costs more than all else that a call does in Python.  Of the same
`usm_ndarray` only its shape, its strides and whether it is writable can have changed since.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from tl_dpnp.runtime.platforms import Launch
from tl_dpnp.runtime.sycl.dpctl_adapter import address_of

__all__ = ["RecentCall", "RecentCalls"]

_layout = attrgetter("shape", "strides")


class RecentCall(NamedTuple):
    """The launch of a call, and the addresses and layouts of its arrays.

    `references` are weak: they let go of the call when one of its arrays goes, before another takes its identity.
    """

    launch: Launch
    addresses: list[int]
    layouts: list[Any]
    references: list[Any]


class RecentCalls:
    """Recent calls by the identity of their arrays; `written` are the positions of those that the kernel writes."""

    MOST_CALLS = 256

    def __init__(self, written: Sequence[int]) -> None:
        self._written = tuple(written)
        self._calls: dict[tuple[int | None, ...], RecentCall] = {}

    def get(self, arrays: Sequence[Any], group_size: int | None) -> RecentCall | None:
        """Return the call with these arrays if they are as they were."""
        call = self._calls.get((group_size, *map(id, arrays)))
        if call is None or call.layouts != [*map(_layout, arrays)]:
            return None
        for position in self._written:
            if not arrays[position].flags.writable:
                return None
        return call

    def put(self, arrays: Sequence[Any], group_size: int | None, launch: Launch) -> RecentCall:
        """Remember a call that passed all checks, until one of its arrays is gone."""
        key = (group_size, *map(id, arrays))
        if len(self._calls) >= self.MOST_CALLS:
            self.clear()
        forget = functools.partial(_forget, self._calls, key)
        call = RecentCall(launch, [*map(address_of, arrays)], [*map(_layout, arrays)],
                          [weakref.ref(array, forget) for array in arrays])
        self._calls[key] = call
        return call

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()


def _forget(calls: dict[tuple[int | None, ...], RecentCall], key: tuple[int | None, ...], _: object) -> None:
    calls.pop(key, None)
