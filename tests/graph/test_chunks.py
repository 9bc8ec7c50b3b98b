"""Axes that are cut into chunks: whether a chunk divides their size makes no difference to a user."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tl_dpnp
from tests.graph.support import compare

PRIMES = [257, 263, 509, 1009, 2003]


def _random(*shape, seed=0):
    return dpnp.asarray((np.random.default_rng(seed).normal(size=shape) * 0.3).astype("f4"))


def _layers(x, w, v):
    return dpnp.tanh(x @ w) @ v + x[:, :1]


def _backwards(x, w, v):
    return (x[::-1] @ w) @ v


def _several(x, w, v):
    y = x @ w
    return y, (dpnp.maximum(y, 0) @ v).sum(axis=1)


def _parts(x, w, v):
    return (dpnp.tanh(x @ w).reshape(x.shape[0], 2, -1) * 2).sum(axis=1)


def _numbered(x, w, v):
    return (x @ w) * dpnp.arange(x.shape[0], dtype="f4")[:, None] @ v


def _in_place(x, w, v):
    x[...] = dpnp.tanh(x @ w) @ v[:, :1]
    return x


def _attention(q, k, v):
    scores = dpnp.exp(q @ k.swapaxes(-1, -2))
    return (scores / scores.sum(axis=-1, keepdims=True)) @ v


def _launches(function, arguments, dynamic=None):
    fused = tl_dpnp.fuse(function, dynamic=dynamic)
    launches = fused.explain(*(dpnp.copy(a) for a in arguments)).launches
    for _ in range(2):
        one, other = ([dpnp.copy(a) for a in arguments] for _ in range(2))
        compare(function.__name__, fused(*one), function(*other))
    return launches


@pytest.mark.parametrize("function", [_layers, _backwards, _several, _parts, _numbered, _in_place])
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_rows_that_nothing_divides_take_the_kernels_of_others(function, data):
    rows = data.draw(st.sampled_from(PRIMES) | st.sampled_from([2 * p for p in PRIMES]) | st.integers(257, 4000))
    inner, middle, outer = (2 * data.draw(st.integers(1, 20)) for _ in range(3))
    dynamic = data.draw(st.sampled_from([None, False]))
    w, v = _random(inner, middle, seed=1), _random(middle, outer, seed=2)
    launches = [_launches(function, (_random(n, inner), w, v), dynamic) for n in (rows, -(-rows // 128) * 128)]
    assert launches[0] == launches[1]


@pytest.mark.parametrize("tokens", [509, 511])
def test_intermediate_results_are_cut_where_nothing_divides_them(tokens):
    q, k, v = (_random(2, tokens, 8, seed=seed) for seed in range(3))
    assert _launches(_attention, (q, k, v)) == 1


def test_a_kernel_serves_all_numbers_of_rows_that_nothing_divides():
    w, v = _random(12, 20, seed=1), _random(20, 6, seed=2)
    fused = tl_dpnp.fuse(_layers, dynamic=False)
    for rows in PRIMES:
        x = _random(rows, 12)
        compare("layers", fused(x, w, v), _layers(x, w, v))
    assert fused.stats.compilations <= 1
    assert fused.stats.dynamic == ()


def _swing(theta, omega):
    first, second = theta[:, 0], theta[:, 1]
    s, c = dpnp.sin(first - second), dpnp.cos(first - second)
    return omega - dpnp.stack([s * c / (2 - c * c), dpnp.sin(first) * c - dpnp.sin(second)], axis=-1)


@pytest.mark.parametrize("rows", [300, 1021])
def test_functions_of_columns_are_computed_for_many_rows_at_once(rows):
    theta, omega = _random(rows, 2, seed=1), _random(rows, 2, seed=2)
    fused = tl_dpnp.fuse(_swing)
    assert max(kernel.groups for kernel in fused.explain(theta, omega).kernels) <= rows // 8
    compare("swing", fused(theta, omega), _swing(theta, omega))
