"""Reductions of many elements to few, and scalar products: right for any shape, and spread over work-groups."""

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
from tl_dpnp.graph.long_reductions import reduced
from tl_dpnp.graph.nodes import Array
from tl_dpnp.graph.partition import partition
from tl_dpnp.graph.views import c_strides
from tl_dpnp.graph.work_groups import of_warps

KINDS = ("sum", "prod", "max", "min", "mean", "any", "all")
#: The most elements of drawn arrays: some hundred thousand, so that reductions take two steps and more.
_MOST = 400_000


@st.composite
def _shapes(draw: st.DrawFn) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        room = _MOST // math.prod(shape)
        shape.append(min(room, draw(st.sampled_from([1, 2, 3, 7, 16, 63, 300, 4095, 4097, 16385, 131_071, 131_073]))))
    return tuple(draw(st.permutations(shape)))


def _array(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Return numbers whose sums and products are neither close to 0 nor too large."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return dpnp.asarray(rng.random(shape) > 1e-4)
    if dtype.startswith("i"):
        return dpnp.asarray(rng.integers(-3, 9, shape).astype(dtype))
    near_one = 1 + 1e-3 * rng.standard_normal(shape)
    return dpnp.asarray((near_one + 1e-3j * rng.standard_normal(shape) if dtype == "c8" else near_one).astype(dtype))


@settings(max_examples=40)
@given(_shapes(), st.sampled_from(KINDS), st.sampled_from(["f4", "f8", "i4", "bool"]), st.data())
def test_reductions_over_any_axes(shape: tuple[int, ...], kind: str, dtype: str, data: st.DataObject) -> None:
    axes = data.draw(st.none() | st.sets(st.integers(0, len(shape) - 1), min_size=1).map(lambda s: tuple(sorted(s))))
    step = data.draw(st.sampled_from([1, -1, 2]))
    keepdims = data.draw(st.booleans())
    if kind == "mean" and dtype in ("i4", "bool"):
        dtype = "f4"

    def function(x: Any) -> Any:
        y = x[::step]
        return getattr(dpnp, kind)(y if dtype == "bool" else y + y, axis=axes, keepdims=keepdims)

    x = _array(shape, dtype)
    if kind == "prod":
        x = x / x if dtype.startswith("f") else dpnp.ones_like(x)  # others overflow
        if dtype.startswith("f"):
            x = x * 0.5
    fused = tl_dpnp.fuse(function)
    for _ in range(2):
        compare(f"{kind} {shape} {axes} {step}", fused(x), function(x))
    assert not tl_dpnp.explain(function)(x).calls


@pytest.mark.parametrize("size", [10_000, 131_072, 131_073, 1_000_003])
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "i4"])
def test_scalar_products_are_as_exact_as_those_of_libraries(dtype: str, size: int) -> None:
    """A sum that is added up in one chain is wrong by some hundred units in the last place."""
    x, y = _array((size,), dtype), _array((size,), dtype, seed=1)
    wide = np.longdouble if dtype.startswith("f") else np.clongdouble if dtype.startswith("c") else np.int64
    right = (x.asnumpy().astype(wide) * y.asnumpy().astype(wide)).sum()
    for function in (lambda x, y: x @ y, lambda x, y: dpnp.dot(x, y), lambda x, y: dpnp.einsum("i,i->", x, y),
                     lambda x, y: (x * y).sum()):
        found = tl_dpnp.fuse(function)(x, y).asnumpy()
        unit = 0 if dtype == "i4" else np.finfo(dtype).eps
        assert abs(wide(found) - right) <= 32 * unit * abs(right)


@pytest.mark.parametrize(("subscripts", "shapes"), [
    ("bk,bk->b", ((50, 100), (50, 100))), ("kb,bk->b", ((40_000, 3), (3, 40_000))),
    ("ab,ba->", ((300, 200), (200, 300))),
    ("abk,bak->ba", ((10, 6, 50), (6, 10, 50))), ("nab,nba->n", ((20, 90, 70), (20, 70, 90))),
    ("bik,bkj->bij", ((20, 1, 70), (20, 70, 1))), ("ab->b", ((40_000, 3),)), ("ab,bc->c", ((40_000, 3), (3, 4))),
    ("bik,bkj->bij", ((20, 1, 70), (20, 70, 0))), ("bk,bk->b", ((0, 100), (0, 100))),
])
@pytest.mark.parametrize("dtype", ["f4", "c8", "i4", "f2"])
def test_products_whose_results_are_sums(subscripts: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    def function(*operands: Any) -> Any:
        return dpnp.einsum(subscripts, *operands)

    operands = [_array(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    if dtype == "f2" and math.prod(shapes[0]) > 10_000:
        return  # beyond the largest number
    compare(subscripts, tl_dpnp.fuse(function)(*operands), function(*operands))


@pytest.mark.parametrize("function", [
    lambda x: x.sum(), lambda x: ((x - 1) ** 2).mean(), lambda x: x @ x, lambda x: dpnp.linalg.norm(x * 2),
    lambda x: x.reshape(3, -1).sum(axis=1), lambda x: x.reshape(3, 100, -1).max(),
])
def test_work_groups_share_long_reductions(function: Any) -> None:
    x = _array((3_000_000,), "f4")
    explanation = tl_dpnp.explain(function)(x)
    assert not explanation.breaks
    assert explanation.launches == 2
    assert max(kernel.groups for kernel in explanation.kernels) > 100


def test_sizes_that_change() -> None:
    def function(x: Any, y: Any) -> Any:
        return ((x - y) ** 2).mean(), x @ y

    fused = tl_dpnp.fuse(function, recompile_limit=100)
    for size in (2, 5, 31, 33, 100, 1000, 131_073, 163_840, 190_000, 223_457, 230_000):
        x, y = _array((size,), "f4"), _array((size,), "f4", seed=1)
        compare(f"{size}", fused(x, y), function(x, y))
    before = fused.stats.compilations
    for size in (150_000, 177_777, 211_111):
        x, y = _array((size,), "f4"), _array((size,), "f4", seed=1)
        compare(f"{size}", fused(x, y), function(x, y))
    assert fused.stats.compilations == before


@pytest.mark.parametrize("shape", [(10_000, 64), (100_000, 33), (40_000, 2, 8)])
def test_columns_are_spread_over_the_blocks_of_a_gpu(shape: tuple[int, ...]) -> None:
    """One block for each 32 columns took 50 times as long as PyTorch, on an H100."""
    dtype = np.dtype("f4")
    total = reduced("sum", Array(shape, dtype, 0, c_strides(shape)), [0], dtype, of_warps(48 << 10))
    slots = itertools.count(2)
    regions = partition(
        {total: Array(total.shape, dtype, 1, c_strides(total.shape))},
        lambda node: Array(node.shape, node.dtype, next(slots), c_strides(node.shape)), of_warps(48 << 10))
    assert total.shape == shape[1:]
    assert max(region.groups for region in regions) >= 132
