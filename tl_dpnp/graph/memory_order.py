"""The order of results in memory: that which dpnp gives them.

Of arrays that are not in C order, dpnp's element-wise functions make results that lie as their operands do: those of
transposed and reversed arrays are transposed and reversed.  A program sees that in strides, and in what shares memory,
since ``ravel`` is a view of some arrays and a copy of others.  Such a result is recorded as a view of one that is
computed in C order, ``x.T + 1`` as ``(x + 1).T``; of one that runs backwards it is only noted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np

from tl_dpnp.graph.extents import base_of, reach
from tl_dpnp.graph.functions import TAKE_NUMBERS
from tl_dpnp.graph.lazy import LazyArray, element_strides, queue_of, shape_of
from tl_dpnp.graph.nodes import Map, Node
from tl_dpnp.graph.traced_scalars import plain
from tl_dpnp.graph.views import permute, slice_axes
from tl_dpnp.runtime.array_package import array_around, content_of, element_strides_of, ones, viewed, xp

__all__ = ["in_order_of", "in_order_of_dpnp"]

#: The axes of an array, the one whose steps are the longest first, and for each whether it runs backwards.
_Order = tuple[tuple[int, bool], ...]

#: The function whose results are in C order here, whatever dpnp makes of them: that depends on the path that it takes,
#: and on the dtype.
_IN_C_ORDER = "einsum"


def _order_of(shape: Sequence[int], strides: Sequence[int]) -> _Order | None:
    """Return the order in memory of an array with these strides; None for C order, gaps or not."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    found = sorted(axes, key=lambda axis: -abs(strides[axis]))
    backwards = [axis for axis in axes if strides[axis] < 0]
    if 0 in shape or (found == axes and not backwards):
        return None
    return tuple((axis, axis in backwards) for axis in [axis for axis in range(len(shape)) if axis not in axes] + found)


def _in_order(trace: Any, node: Node, order: _Order) -> Node:
    """Return a view, with the elements of `node`, of a new node whose C order is `order` for the view.

    It does not run backwards in memory, which kernels could not compute with others in one; that it does so in dpnp is
    noted, so that `memory_of` knows what is a view there.
    """
    axes = [axis for axis, _ in order]

    def turned(operand: Node) -> Node:
        missing = [None] * (len(axes) - len(operand.shape))
        return permute(slice_axes(operand, [*missing, *((0, 1, size) for size in operand.shape)]), axes)

    shape = tuple(node.shape[axis] for axis in axes)
    if type(node) is Map:
        base = replace(node, shape=shape, operands=tuple(
            turned(operand) if operand.shape else operand for operand in node.operands))
    else:
        base = Map(shape, node.dtype, "positive", (turned(node),), node.dtype)
    trace.cache.backwards[base] = frozenset(place for place, (_, reverse) in enumerate(order) if reverse)
    return permute(base, [axes.index(axis) for axis in range(len(axes))])


def in_order_of(target: Any, node: Node) -> Node:
    """Return a node, the new contents of a lazy array that is in no memory yet, in the order that the array has."""
    order = _order_of(shape_of(target), element_strides(target))
    return node if order is None else _in_order(target._trace, node, order)


def in_order_of_dpnp(
    trace: Any, name: str, recorder: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """Return what a recorder gives for a call of dpnp, in the order in which dpnp gives it."""
    result = recorder(trace, *arguments, **keywords)
    if type(result) is not LazyArray or name == _IN_C_ORDER or name.startswith("_") or not result.ndim:
        return result
    arrays = [*_arrays(arguments), *_arrays(keywords.values())]
    if not any(map(_has_order, arrays)) or any(
        array is result or (type(array) is LazyArray and array._storage is result._storage) for array in arrays
    ):
        return result
    strides = _strides_in_dpnp(name, arguments, keywords)
    if strides is None or len(strides) != result.ndim:
        return result
    order = _order_of(shape_of(result), strides)
    if order == _order_of(shape_of(result), element_strides(result)):
        return result
    node = _in_order(trace, result._node, order or tuple((axis, False) for axis in range(result.ndim)))
    if result._node in trace.origins:
        trace.origins[base_of(node)] = trace.origins[result._node]
    return trace.lazy(node, result._usm_type, result._queue)


def _arrays(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, xp.ndarray):
            yield value
        elif isinstance(value, list | tuple):
            yield from _arrays(value)


def _has_order(array: Any) -> bool:
    """Return whether an array is in another order than C."""
    return _order_of(shape_of(array), element_strides(array)) is not None


# --- asking dpnp -----------------------------------------------------------------------------------------------------

_NUMBERS = (int, float, complex, np.number)
_MOST = 4096
_answers: dict[Any, tuple[int, ...] | None] = {}


def _strides_in_dpnp(name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> tuple[int, ...] | None:
    """Return strides like those that dpnp gives a result; None if it is no array, or has none worth to know.

    The function is called with small arrays in the same order.  The answers are kept.
    """
    arrays = (*_arrays(arguments), *_arrays(keywords.values()))
    sizes = sorted({size for array in arrays for size in shape_of(array) if size > 1})
    small = {0: 0, 1: 1, **{size: 4 + place for place, size in enumerate(sizes)}}  # differences have fewer elements
    if name in TAKE_NUMBERS or name in ("power", "where"):
        arguments = [type(number)(1) if isinstance(number := plain(value), _NUMBERS) else value for value in arguments]
    parts = [_like(value, small) for value in arguments]
    named = {word: _like(value, small) for word, value in keywords.items()}
    key = name, tuple(key for key, _ in parts), tuple((word, key) for word, (key, _) in named.items())
    if key not in _answers:
        if len(_answers) >= _MOST:
            _answers.clear()
        try:
            result = attrgetter(name)(xp)(
                *(make() for _, make in parts), **{word: make() for word, (_, make) in named.items()})
            _answers[key] = tuple(element_strides_of(content_of(result))) if isinstance(result, xp.ndarray) else None
        except Exception:  # small arrays may not have the elements that are asked for
            _answers[key] = None
    return _answers[key]


def _like(value: Any, small: dict[int, int]) -> tuple[Any, Callable[[], Any]]:
    """Return what the order of a result depends on in an argument, and a function that makes one like it."""
    if isinstance(value, xp.ndarray):
        return _array_like(value, small)
    if isinstance(value, list | tuple):
        parts = [_like(part, small) for part in value]
        return (type(value), *(key for key, _ in parts)), lambda: type(value)([make() for _, make in parts])
    value = plain(value)
    return (type(value), repr(value)), lambda: value


def _array_like(array: Any, small: dict[int, int]) -> tuple[Any, Callable[[], Any]]:
    """Return how an array lies in memory, but for sizes, and a function that makes a small one that lies so."""
    given, steps = shape_of(array), element_strides(array)
    shape = tuple(small[size] for size in given)
    signs = tuple((step > 0) - (step < 0) for step in steps)
    axes = [axis for axis, _ in _order_of(given, steps) or ()] or [*range(len(shape))]
    elements = math.prod(size for size, sign in zip(given, signs, strict=True) if sign)
    has_gaps = bool(elements) and sum(reach(given, list(map(abs, steps)))) >= elements
    dtype, queue = array.dtype, queue_of(array)

    def make() -> Any:
        strides, step = [0] * len(shape), 1 + has_gaps
        for axis in reversed(axes):
            if signs[axis]:
                strides[axis] = signs[axis] * step
                step *= max(shape[axis], 1)
        memory = content_of(ones((step,), dtype, queue))
        return array_around(viewed(memory, shape, dtype, tuple(strides), -reach(shape, strides)[0]))

    return (dtype, queue, shape, signs, tuple(axes), has_gaps), make
