"""Recording of ``array[key] = value``: parts of arrays, and elements where a mask is true.

An array in memory is written there, and only the part.  One that is still to be computed is given another node: its
own with the part put over it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.extents import location
from tl_dpnp.graph.lazy import LazyArray, memory_of
from tl_dpnp.graph.nodes import Array, Assemble, ComplexParameter, Map, Node, Number, Parameter
from tl_dpnp.graph.recorders import recorded
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.view_operations import basic_entries
from tl_dpnp.graph.views import broadcast, broadcasts, slice_axes
from tl_dpnp.runtime.array_package import xp
from tl_dpnp.runtime.package_name import NAME

__all__ = ["assign_item"]

#: Elements of an array that one work-group may put together.
_MOST_IN_A_GROUP = 2048


def assign_item(trace: Trace, target: Any, key: Any, value: Any) -> None:
    """Record ``target[key] = value``; raises `NotFused` for what is left to dpnp."""
    key, value = trace.settled(key), trace.settled(value)
    if not trace.is_writable(target):
        raise NotFused("the array is read-only")
    if isinstance(key, xp.ndarray):
        _assign_where(trace, target, key, value)
        return
    entries = basic_entries(target.shape, key if isinstance(key, tuple) else (key,))
    shape = tuple(1 if entry is None else entry[2] for entry in entries if not isinstance(entry, int))
    new = _converted(trace, target, value, shape)
    if 0 in shape:
        return
    _check_written_once(target, entries)
    if shape == target.shape and not any(isinstance(entry, int) or entry is None or entry[1] != 1 for entry in entries):
        if not _is_itself(target, value):
            trace.assign(target, new)
        return
    node = target._node
    is_apart = not isinstance(node, Array) and not trace.is_dirty(target) and None not in entries
    if is_apart and not _repeats(target, _all_of(target)):
        whole = _with_part(node, entries, new)
        if whole is not None:
            trace.assign(target, whole)
            return
    trace.materialize([target])
    part = recorded(trace, "__getitem__", target, key)
    if not _is_itself(part, value):  # ``a[key] += b`` ends with ``a[key] = a[key]``
        trace.assign(part, _converted(trace, target, value, shape))


def _all_of(target: Any) -> list[tuple[int, int, int]]:
    return [(0, 1, size) for size in target.shape]


def _repeats(target: Any, entries: Sequence[Any]) -> bool:
    """Return whether elements of a part of an array are one in memory, as where it is broadcast."""
    place = slice_axes(memory_of(target._trace, getattr(target, "_target", target._node)), entries)
    return isinstance(place, Array) and any(
        size > 1 and not stride for size, stride in zip(place.shape, place.strides, strict=True))


def _check_written_once(target: Any, entries: Sequence[Any]) -> None:
    """Raise `NotFused` for a part of an array to which dpnp does not write."""
    if _repeats(target, entries):
        raise NotFused("the array is broadcast", "copy the array first")


def _is_itself(part: Any, value: Any) -> bool:
    if type(value) is not LazyArray:
        return False
    own, other = part._node, value._node
    return isinstance(own, Array) and isinstance(other, Array) and location(own) == location(other)


def _converted(trace: Trace, target: Any, value: Any, shape: tuple[int, ...]) -> Node:
    """Return the node of a value in the dtype of the target, broadcast to `shape`."""
    node = _value(trace, target, value)
    if isinstance(node, Number | Parameter):
        return Map(shape, target.dtype, "astype", (node,), target.dtype)
    if not broadcasts(node, shape):
        raise NotFused("the shape of the value does not fit")
    return Map(shape, target.dtype, "astype", (broadcast(node, shape),), target.dtype)


def _value(trace: Trace, target: Any, value: Any) -> Node:
    """Return the node of a value whose conversion to the target's dtype is that of dpnp."""
    node, _, queue = trace.operand(value)
    if queue is not None and queue != target._queue:
        raise NotFused("the arrays are on different queues")
    if isinstance(node, Parameter):
        fits = target.dtype.kind in ("c" if isinstance(node, ComplexParameter) else "fc")
    elif isinstance(node, Number):
        fits = target.dtype.kind in {bool: "biufc", int: "iufc", float: "fc"}[type(node.value)]
        if target.dtype.kind in "iu" and isinstance(node.value, int):
            limits = np.iinfo(target.dtype)
            fits = limits.min <= node.value <= limits.max
    else:
        fits = np.can_cast(node.dtype, target.dtype, "same_kind")
    if not fits:
        raise NotFused(f"the value is not converted to {target.dtype}")
    return node


def _assign_where(trace: Trace, target: Any, mask: Any, value: Any) -> None:
    """Record ``target[mask] = value`` for a value that is the same for all elements."""
    condition, _, queue = trace.operand(mask)
    if condition.dtype.kind != "b" or queue != target._queue:
        raise NotFused("an index is no mask", f"use {NAME}.where or {NAME}.take")
    ndim = len(condition.shape)
    if not ndim or condition.shape != target.shape[:ndim]:
        raise NotFused("the mask has another shape")
    new = _value(trace, target, value)
    if new.shape:
        raise NotFused("the value is no scalar", f"use {NAME}.where")
    _check_written_once(target, _all_of(target))
    condition = slice_axes(condition, [*((0, 1, size) for size in condition.shape), *[None] * (target.ndim - ndim)])
    old = trace.operand(target)[0]
    trace.assign(target, Map(target.shape, target.dtype, "where", (condition, new, old), target.dtype))


def _with_part(node: Node, entries: Sequence[Any], part: Node) -> Node | None:
    """Return a node with a part put over it, None where work-groups would have too much to put together."""
    positions, flips = [], []
    for entry in entries:
        start, step, length = (entry, 1, 1) if isinstance(entry, int) else entry
        if step < 0:
            start += (length - 1) * step
        positions.append((start, abs(step)))
        flips.append(None if isinstance(entry, int) else (length - 1, -1, length) if step < 0 else (0, 1, length))
    shared = 0
    while shared < len(flips) and flips[shared] == (0, 1, node.shape[shared]) and positions[shared] == (0, 1):
        shared += 1
    if math.prod(node.shape[shared:]) > _MOST_IN_A_GROUP:
        return None
    over = slice_axes(part, flips)
    if isinstance(node, Assemble):
        return replace(node, operands=(*node.operands, over), positions=(*node.positions, tuple(positions)))
    whole = tuple((0, 1) for _ in node.shape)
    return Assemble(node.shape, node.dtype, (node, over), (whole, tuple(positions)))
