"""Calls that a kernel has seen with these very tensors: what is known of them need not be asked again.

Of the same array its address, its shape, its strides and its elements' type can have changed since: PyTorch's tensors
can be given the memory of others (``tensor.data = other``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tl_dpnp.language.extents import LaunchSize
from tl_dpnp.runtime.call.recent import CallsByIdentity
from tl_dpnp.runtime.platforms import Launch

__all__ = ["RecentCudaCalls"]


#: Gives for each array its address first, then what else may change.
Looks = Callable[[Sequence[Any]], list[Any]]


class _RecentCall(NamedTuple):
    """The launch of a call, and the addresses and looks of its arrays, which are referred to weakly."""

    launch: Launch
    addresses: list[int]
    looks_of: Looks
    looks: list[Any]
    references: list[Any]


class RecentCudaCalls(CallsByIdentity[_RecentCall]):
    """Recent calls; `looks_function` gives the way to look at arrays of their types."""

    def __init__(self, looks_function: Callable[[Sequence[Any]], Looks]) -> None:
        super().__init__()
        self._looks_function = looks_function

    def get(self, arrays: Sequence[Any], group_size: LaunchSize) -> _RecentCall | None:
        """Return the call with these arrays if they are as they were."""
        call = self.known(arrays, group_size)
        return call if call is not None and call.looks == call.looks_of(arrays) else None

    def put(self, arrays: Sequence[Any], group_size: LaunchSize, launch: Launch) -> _RecentCall:
        """Remember a call that passed all checks, until one of its arrays is gone."""
        looks_of = self._looks_function(arrays)
        looks = looks_of(arrays)
        return self.remember(arrays, group_size, functools.partial(
            _RecentCall, launch, [look[0] for look in looks], looks_of, looks))
