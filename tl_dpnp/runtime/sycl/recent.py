"""Calls that a kernel has seen with these very arrays: what is known of them need not be asked again.

Asking an array for its type, queue and flags costs more than all else that a call does in Python.  Of the same
`usm_ndarray` only its shape, its strides and whether it is writable can have changed since.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from tl_dpnp.language.extents import LaunchSize
from tl_dpnp.runtime.call.recent import CallsByIdentity
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


class RecentCalls(CallsByIdentity[RecentCall]):
    """Recent calls; `written` are the positions of the arrays that the kernel writes."""

    def __init__(self, written: Sequence[int]) -> None:
        super().__init__()
        self._written = tuple(written)

    def get(self, arrays: Sequence[Any], group_size: LaunchSize) -> RecentCall | None:
        """Return the call with these arrays if they are as they were."""
        call = self.known(arrays, group_size)
        if call is None or call.layouts != [*map(_layout, arrays)]:
            return None
        for position in self._written:
            if not arrays[position].flags.writable:
                return None
        return call

    def put(self, arrays: Sequence[Any], group_size: LaunchSize, launch: Launch) -> RecentCall:
        """Remember a call that passed all checks, until one of its arrays is gone."""
        return self.remember(arrays, group_size, functools.partial(
            RecentCall, launch, [*map(address_of, arrays)], [*map(_layout, arrays)]))
