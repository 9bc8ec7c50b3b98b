"""Arrays and lazy arrays that get memory, or objects, of their own."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from tl_dpnp.graph.extents import base_of
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.nodes import Array, Node
from tl_dpnp.graph.partition import substitute
from tl_dpnp.graph.plan import array_at
from tl_dpnp.runtime.array_package import array_around, settles_in_place

__all__ = ["give_arrays", "give_each_memory_of_its_own", "in_memory"]


def give_each_memory_of_its_own(trace: Any, lazies: Sequence[Any]) -> None:
    """Let arrays that are computed alike be copies: what is written to one must not change the others."""
    owners: dict[Node, dict[int, Any]] = {}
    for lazy in lazies:
        base = base_of(lazy._node)
        if not isinstance(base, Array):
            owners.setdefault(base, {})[id(lazy._storage)] = lazy._storage
    copies: dict[int, dict[Node, Node]] = {
        storage: {base: trace.cache.copy(base, number)}
        for base, storages in owners.items() for number, storage in enumerate(storages) if number
    }
    for lazy in trace.live() if copies else ():
        copy = copies.get(id(lazy._storage))
        if copy is not None and base_of(lazy._node) in copy:  # views of a copy are views of the same one
            lazy._node = substitute(lazy._node, copy, trace._renamed)


def give_arrays(trace: Any) -> None:
    """Have arrays stand behind lazy ones that are in memory and cannot become plain, so that they take their places
    (`tl_dpnp.graph.release`) as the caller's own arrays take those of what stands for them.
    """
    if settles_in_place:
        return
    known = trace.known.by_lazy()
    for lazy in trace.live():
        if id(lazy) not in known:
            _array_for(trace, lazy)


def _array_for(trace: Any, lazy: Any) -> Any:
    """Return an array on the memory of a lazy one, which stands for it from now on; the caller's own has itself."""
    own = trace.known.original(lazy)
    if own is not lazy:
        return own
    content = trace.array_of(lazy)
    if trace.known.lazy_of(content) is not None:  # another object has that one
        content = array_at(trace.view_of(lazy), trace.registers)
    array = array_around(content)
    trace.known.add(array, lazy)
    return array


def in_memory(trace: Any, value: Any, seen: frozenset[int] = frozenset()) -> Any:
    """Return what code in C is given for an argument: arrays in memory for lazy ones.

    They are put into lists and dicts, which it may change or return; `seen` are those that a value is in.
    """
    kind = type(value)
    if kind is LazyArray:
        trace.escape(value)
        return _array_for(trace, value)
    if kind is tuple:
        parts = tuple([in_memory(trace, part, seen) for part in value])
        return value if all(map(operator.is_, parts, value)) else parts
    if kind in (list, dict) and id(value) not in seen:
        for key, part in enumerate(value) if kind is list else value.items():
            found = in_memory(trace, part, seen | {id(value)})
            if found is not part:
                value[key] = found
    return value
