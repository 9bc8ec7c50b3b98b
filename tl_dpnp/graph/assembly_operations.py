"""Recorders of functions that put arrays together (`tl_dpnp.graph.operations`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.inference import result_dtype
from tl_dpnp.graph.nodes import Assemble, Map, Node, Position
from tl_dpnp.graph.recorders import (
    RECORDERS,
    Operand,
    array_axis,
    array_operands,
    only_defaults,
    recorded,
    records,
    result_array,
    static_integer,
)
from tl_dpnp.graph.trace import Trace, fusable
from tl_dpnp.graph.traced_scalars import plain
from tl_dpnp.graph.views import slice_axes
from tl_dpnp.runtime.array_package import xp
from tl_dpnp.runtime.package_name import NAME

__all__: list[str] = []


def _operands(trace: Trace, arrays: Any) -> list[Operand]:
    if not isinstance(arrays, list | tuple) or not arrays:
        raise NotFused("the arrays are not in a list or tuple")
    return array_operands(trace, *arrays)


def _common_dtype(nodes: Sequence[Node], queue: Any) -> Any:
    dtype = result_dtype(_concatenated, tuple(node.dtype for node in nodes), queue)
    if dtype is None or not fusable(dtype):
        raise NotFused("the dtypes do not go together")
    return dtype


def _concatenated(*arrays: Any) -> Any:
    return xp.concatenate(arrays)


def _concatenation(trace: Trace, nodes: Sequence[Node], axis: int, dtype: Any) -> Node:
    """Return nodes that differ at most in their size on `axis`, which is looked at, as one, end to end."""
    trace.axes_read += [(node, axis) for node in nodes if axis < len(node.shape)]
    shape = list(nodes[0].shape)
    if any(len(node.shape) != len(shape) or any(
        size != other for place, (size, other) in enumerate(zip(node.shape, shape, strict=True)) if place != axis
    ) for node in nodes):
        raise NotFused("the shapes do not fit")
    positions: list[Position] = []
    end = 0
    for node in nodes:
        positions.append(tuple((end if place == axis else 0, 1) for place in range(len(shape))))
        end += node.shape[axis]
    shape[axis] = end
    parts = [(node, position) for node, position in zip(nodes, positions, strict=True) if node.shape[axis]]
    if len(parts) <= 1:  # a copy
        node = parts[0][0] if parts else nodes[0]
        return Map(tuple(shape), dtype, "astype", (node,), dtype)
    return Assemble(tuple(shape), dtype, tuple(node for node, _ in parts), tuple(position for _, position in parts))


@records("concatenate", "concat")
def _concatenate(trace: Trace, arrays: Any, /, *, axis: Any = 0, out: Any = None, **keywords: Any) -> Any:
    only_defaults(keywords, dtype=None, casting="same_kind")
    if axis is None:
        arrays, axis = [recorded(trace, "reshape", array, -1) for array in _checked(trace, arrays)], 0
    operands = _operands(trace, arrays)
    nodes = [node for node, _, _ in operands]
    dtype = _common_dtype(nodes, trace.placed(operands)[1])
    node = _concatenation(trace, nodes, array_axis(axis, len(nodes[0].shape)), dtype)
    return result_array(trace, node, operands, out)


@records("stack")
def _stack(trace: Trace, arrays: Any, /, *, axis: Any = 0, out: Any = None, **keywords: Any) -> Any:
    only_defaults(keywords, dtype=None, casting="same_kind")
    operands = _operands(trace, arrays)
    nodes = [node for node, _, _ in operands]
    dtype = _common_dtype(nodes, trace.placed(operands)[1])
    if any(node.shape != nodes[0].shape for node in nodes):
        raise NotFused("the shapes do not fit")
    place = array_axis(axis, len(nodes[0].shape) + 1)
    node = _concatenation(trace, [_with_axis(node, place) for node in nodes], place, dtype)
    return result_array(trace, node, operands, out)


def _with_axis(node: Node, place: int) -> Node:
    whole = [(0, 1, size) for size in node.shape]
    return slice_axes(node, [*whole[:place], None, *whole[place:]])


def _checked(trace: Trace, arrays: Any) -> Any:
    _operands(trace, arrays)
    return arrays


#: By the number of axes of an operand, where new ones are put before arrays are joined; others stay as they are.
_NEW_AXES: dict[str, dict[int, tuple[int, ...]]] = {
    "hstack": {0: (0,)},
    "vstack": {0: (0, 0), 1: (0,)},
    "dstack": {0: (0, 0, 0), 1: (0, 2), 2: (2,)},
    "column_stack": {1: (1,)},
}
_JOINED_AXIS: dict[str, Callable[[int], int]] = {
    "hstack": lambda ndim: 0 if ndim == 1 else 1, "vstack": lambda ndim: 0, "dstack": lambda ndim: 2,
    "column_stack": lambda ndim: 1,
}


def _stacking(name: str) -> Any:
    def record(trace: Trace, arrays: Any, **keywords: Any) -> Any:
        only_defaults(keywords, **({"dtype": None, "casting": "same_kind"} if name in ("hstack", "vstack") else {}))
        operands = _operands(trace, arrays)
        nodes = []
        for node, _, _ in operands:
            if name == "column_stack" and len(node.shape) not in (1, 2):
                raise NotFused("an operand is neither a matrix nor a vector")
            for place in _NEW_AXES[name].get(len(node.shape), ()):
                node = _with_axis(node, place)
            nodes.append(node)
        dtype = _common_dtype(nodes, trace.placed(operands)[1])
        node = _concatenation(trace, nodes, _JOINED_AXIS[name](len(nodes[0].shape)), dtype)
        return result_array(trace, node, operands)

    return record


for _name in _NEW_AXES:
    RECORDERS[_name] = _stacking(_name)
RECORDERS["row_stack"] = RECORDERS["vstack"]


# --- parts of one array, or it several times --------------------------------------------------------------------------


@records("roll")
def _roll(trace: Trace, x: Any, shift: Any, axis: Any = None) -> Any:
    [operand] = array_operands(trace, x)
    node = operand[0]
    if axis is None:
        flat = _roll(trace, recorded(trace, "reshape", x, -1), shift, 0)
        return recorded(trace, "reshape", flat, node.shape)
    axes, shifts = (value if isinstance(value, tuple | list) else (value,) for value in (axis, shift))
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(axes) != len(shifts):
        raise NotFused("the shifts do not fit the axes")
    for place, distance in zip(axes, shifts, strict=True):
        place = array_axis(place, len(node.shape))
        size = node.shape[place]
        moved = static_integer(distance) % max(size, 1)
        parts = [_part(node, place, start, stop) for start, stop in ((size - moved, size), (0, size - moved))]
        node = _concatenation(trace, parts, place, node.dtype)
    if node is operand[0]:
        node = Map(node.shape, node.dtype, "positive", (node,), node.dtype)
    return result_array(trace, node, [operand])


def _part(node: Node, axis: int, start: int, stop: int) -> Node:
    """Return some of what a node has along an axis."""
    whole = [(0, 1, size) for size in node.shape]
    return slice_axes(node, [*whole[:axis], (start if start < stop else 0, 1, stop - start), *whole[axis + 1 :]])


@records("tile")
def _tile(trace: Trace, A: Any, reps: Any, /) -> Any:
    counts = list(map(_count, reps if isinstance(reps, tuple) else (reps,)))
    shape = list(getattr(A, "shape", ()))
    ndim = max(len(counts), len(shape))
    counts, shape = [1] * (ndim - len(counts)) + counts, [1] * (ndim - len(shape)) + shape
    return _repeated(trace, A, shape, counts, inner=False)


@records("repeat")
def _repeat(trace: Trace, a: Any, repeats: Any, axis: Any = None) -> Any:
    if axis is None:
        a, axis = recorded(trace, "reshape", a, -1), 0
    shape = list(getattr(a, "shape", ()))
    counts = [1] * len(shape)
    counts[array_axis(axis, len(shape))] = _count(repeats)
    return _repeated(trace, a, shape, counts, inner=True)


def _count(value: Any) -> int:
    if isinstance(plain(value), np.generic):
        raise NotFused(f"{NAME} takes no NumPy number for a count")
    return static_integer(value)


def _repeated(trace: Trace, x: Any, shape: Sequence[int], counts: Sequence[int], inner: bool) -> Any:
    """Return an array seen as `shape` so many times along each axis, each element at once if `inner`."""
    if min(counts, default=0) < 0:
        raise NotFused("a count is negative")
    pairs = list(zip(shape, counts, strict=True))
    spread = [size for pair in pairs for size in ((pair[0], 1) if inner else (1, pair[0]))]
    full = [size for pair in pairs for size in (pair if inner else pair[::-1])]
    result = recorded(trace, "broadcast_to", recorded(trace, "reshape", x, spread), full)
    return recorded(trace, "reshape", recorded(trace, "copy", result), [size * count for size, count in pairs])
