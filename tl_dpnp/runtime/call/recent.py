"""A memory of calls by the identity of their arrays: what each family of devices knows of such a call is its own."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from tl_dpnp.language.extents import LaunchSize

__all__ = ["CallsByIdentity"]

Call = TypeVar("Call")
#: The identities of the arrays of a call, and the size of their groups.
Key = tuple[LaunchSize, ...]


class CallsByIdentity(Generic[Call]):
    """The last calls, each as long as all of its arrays are there: then others may take their identities."""

    MOST_CALLS = 256

    def __init__(self) -> None:
        self._calls: dict[Key, Call] = {}

    def known(self, arrays: Sequence[Any], group_size: LaunchSize) -> Call | None:
        """Return what is remembered of the call with these arrays."""
        return self._calls.get((group_size, *map(id, arrays)))

    def remember(
        self, arrays: Sequence[Any], group_size: LaunchSize, call_of: Callable[[list[weakref.ref[Any]]], Call]
    ) -> Call:
        """Remember a call, which has to hold the references to its arrays that it is made with."""
        key = (group_size, *map(id, arrays))
        if len(self._calls) >= self.MOST_CALLS:
            self.clear()
        forget = functools.partial(_forget, self._calls, key)
        call = self._calls[key] = call_of([weakref.ref(array, forget) for array in arrays])
        return call

    def clear(self) -> None:
        """Forget all calls."""
        self._calls.clear()


def _forget(calls: dict[Key, Any], key: Key, _: object) -> None:
    calls.pop(key, None)
