"""Reductions over axes that lie one after another in memory: as few axes as can be, and the same results."""

from __future__ import annotations

import itertools
import math
from typing import Any

import dpnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp.graph.coalescing import coalesced
from tl_dpnp.graph.nodes import Array, Map, Node, Reduce, number_node, topological
from tl_dpnp.graph.views import c_strides, permute, slice_axes

F4 = np.dtype("f4")


def _array(*shape: int, slot: int = 0) -> Array:
    return Array(shape, F4, slot, c_strides(shape))


def _sum(node: Node, *axes: int) -> Reduce:
    return Reduce(tuple(size for axis, size in enumerate(node.shape) if axis not in axes), F4, "sum", node, axes)


def _map(kind: str, *operands: Node) -> Map:
    return Map(np.broadcast_shapes(*(node.shape for node in operands)), F4, kind, operands, F4)


def _of(root: Node) -> tuple[Node, Array]:
    ((made, array),) = coalesced({root: _array(*root.shape, slot=9)}).items()
    return made, array


@pytest.mark.parametrize(("shape", "axes", "inside", "summed", "outside"), [
    ((9, 3, 2), (1, 2), (9, 6), (1,), (9,)),
    ((9, 3, 2), (0,), (9, 6), (0,), (6,)),
    ((9, 3, 2), (0, 1), (27, 2), (0,), (2,)),
    ((9, 3, 2), (1,), (9, 3, 2), (1,), (9, 2)),
    ((9, 3, 2, 5), (0, 2, 3), (9, 3, 10), (0, 2), (3,)),
    ((9, 3, 2, 5), (1,), (9, 3, 10), (1,), (9, 10)),
    ((9, 1, 2), (1, 2), (9, 2), (1,), (9,)),
    ((4, 5), (0, 1), (20,), (0,), ()),
])
def test_axes_of_an_array(shape, axes, inside, summed, outside):
    made, array = _of(_sum(_array(*shape), *axes))
    assert isinstance(made, Reduce)
    assert (made.operand.shape, made.axes, made.shape) == (inside, summed, outside)
    assert (array.shape, array.strides, array.slot) == (outside, c_strides(outside), 9)


def test_what_is_computed_element_by_element_is_coalesced_with_its_arrays():
    x, y = _array(9, 3, 2), _array(9, 3, 2, slot=1)
    made, _ = _of(_map("multiply", _sum(_map("multiply", x, _map("add", y, number_node(1.0))), 1, 2), number_node(0.5)))
    assert isinstance(made, Map)
    (reduction,) = (node for node in made.operands if isinstance(node, Reduce))
    assert reduction.operand.shape == (9, 6)


def test_results_have_their_axes_where_something_else_needs_them():
    x = _array(9, 3, 2)
    total = _sum(x, 0)
    arrays = coalesced({total: _array(3, 2, slot=8), _map("subtract", x, total): _array(9, 3, 2, slot=9)})
    assert [node.shape for node in arrays] == [(3, 2), (9, 3, 2)]


def test_what_something_else_needs_is_not_computed_twice():
    x = _array(9, 3, 2)
    e = _map("exp", x)
    made, _ = _of(_map("divide", e, slice_axes(_sum(e, 1, 2), [(0, 1, 9), None, None])))
    assert [node for node in topological((made,)) if isinstance(node, Map) and node.kind == "exp"] == [e]


def test_axes_are_taken_in_the_order_of_memory():
    made, _ = _of(_sum(permute(_array(9, 3, 2), (2, 1, 0)), 0, 1))
    assert isinstance(made, Reduce)
    assert (made.operand.shape, made.axes) == ((9, 6), (1,))
    made, _ = _of(_sum(permute(_array(9, 3, 2), (2, 1, 0)), 1))  # the result has the axes in another order
    assert isinstance(made, Reduce)
    assert made.shape == (2, 9)


@pytest.mark.parametrize("strides", [(12, 4, 1), (6, 2, 2), (6, 0, 1), (6, -2, 1)])
def test_other_strides_stay(strides):
    root = Reduce((9,), F4, "sum", Array((9, 3, 2), F4, 0, strides), (1, 2))
    made, _ = _of(root)
    assert isinstance(made, Reduce)
    assert made.operand.shape == (9, 3, 2)


EXPRESSIONS = {
    "itself": lambda x, y, axes: x.sum(axis=axes),
    "keepdims": lambda x, y, axes: x.max(axis=axes, keepdims=True) - x,
    "mean": lambda x, y, axes: x.mean(axis=axes) * 2,
    "squares": lambda x, y, axes: (x * x).sum(axis=axes),
    "of two": lambda x, y, axes: (x * y + 1).min(axis=axes),
    "shared": lambda x, y, axes: dpnp.exp(x) / dpnp.exp(x).sum(axis=axes, keepdims=True),
    "variance": lambda x, y, axes: ((x - x.mean(axis=axes, keepdims=True)) ** 2).sum(axis=axes),
    "two results": lambda x, y, axes: (x.sum(axis=axes), (x + y).prod(axis=axes)),
    "twice": lambda x, y, axes: (x.sum(axis=axes, keepdims=True) * y).max(axis=axes),
}


@st.composite
def _arrays(draw: st.DrawFn) -> tuple[Any, Any, tuple[int, ...]]:
    """Two arrays that can be broadcast, of any layout, and axes of the first."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 5, 16, 33]), min_size=1, max_size=4).filter(
        lambda shape: math.prod(shape) <= 40_000)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(["f4", "f8", "i4"]))
    axes = tuple(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))

    def array(shape: tuple[int, ...]) -> Any:
        order = draw(st.permutations(range(len(shape))))
        steps = [draw(st.sampled_from([1, 1, 1, 1, 2, -1])) for _ in shape]
        base = dpnp.asarray(rng.integers(-3, 4, [abs(s) * n for s, n in zip(steps, shape, strict=True)]).astype(dtype))
        base = dpnp.ascontiguousarray(base.transpose(order)).transpose(np.argsort(order).tolist())
        return base[tuple(slice(None, None, step) for step in steps)]

    lacks = draw(st.integers(0, len(shape)))
    other = tuple(draw(st.sampled_from([size, size, 1])) for size in shape[lacks:])
    return array(shape), array(other), axes


@settings(max_examples=60)
@given(st.sampled_from([*EXPRESSIONS]), _arrays())
def test_results_are_those_of_dpnp(name: str, given: tuple[Any, Any, tuple[int, ...]]) -> None:
    function = EXPRESSIONS[name]
    fused = tl_dpnp.fuse(function)
    x, y, axes = given
    with np.errstate(all="ignore"):
        compare(name, fused(x, y, axes), function(x, y, axes))


def test_columns_of_any_number():
    """Those of few columns, of mean and variance too, are added up side by side."""
    rng = np.random.default_rng(0)
    fused = tl_dpnp.fuse(lambda x: (x.mean(axis=0), x.var(axis=0)), recompile_limit=100)
    for columns, rows in itertools.product((1, 2, 15, 16, 17, 31, 32, 64, 100, 255, 256, 257), (1, 5, 300)):
        x = dpnp.asarray(rng.normal(size=(rows, columns)))
        compare("columns", fused(x), (x.mean(axis=0), x.var(axis=0)))
