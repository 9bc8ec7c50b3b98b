"""Sums of products and matrices with short rows, which are accumulated in a temporary with its own layout."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare


def _random(*shape, seed):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype("f4"))


A, B = _random(3, 35, 20, seed=0), _random(3, 20, 9, seed=1)
C, D, Q = (_random(3, 35, 9, seed=seed) for seed in (2, 3, 4))


def _assign(q, value):
    q[...] = value


@pytest.mark.parametrize(
    "update",
    [
        lambda q: _assign(q, C + q + A @ B),
        lambda q: _assign(q, C - q + A @ B + 2 * q),
        lambda q: _assign(q, A @ B - 3 * q),
        lambda q: _assign(q, -(A @ B) + A @ B * 2 + q),
    ],
)
def test_a_sum_may_be_written_to_one_of_its_terms(update):
    plain, fused = Q.copy(), Q.copy()
    update(plain)
    for _ in range(2):
        fused = Q.copy()
        tl_dpnp.fuse(update)(fused)
        compare("update", fused, plain)


@pytest.mark.parametrize(
    "function",
    [
        lambda s, q: q + A @ B + A @ (B * 2) - D,
        lambda s, q: s * (A @ B) + q,
        lambda s, q: q * s - (A @ B) * 0.5 + (-C),
        lambda s, q: s * (2.0 * (A @ B)) + q,
        lambda s, q: ((A * 1e-20 @ B * 1e-20) * 1e30) * 1e30 + q,  # the product of both factors is too large
        lambda s, q: 1e30 * (1e-30 * (A @ B + q)) + C,
        lambda s, q: 0.0 * (A @ B / 0) + q,  # not a number
        lambda s, q: (A @ B).swapaxes(1, 2) + q.swapaxes(1, 2),
        lambda s, q: (A @ B + q).sum(axis=2) + (A @ B - q).max(axis=1)[:, :1],
        lambda s, q: A @ B,
    ],
)
def test_a_sum_is_what_dpnp_gives(function):
    fused = tl_dpnp.fuse(function)
    for factor in (0.25, -2.0):
        compare("sum", fused(factor, Q), function(factor, Q))


def test_a_sum_of_three_products_is_one_kernel():
    explanation = tl_dpnp.explain(lambda q: q + A @ B + A @ (B + 1) + A @ (B - 1))(Q)
    assert explanation.launches == 1
    assert explanation.kernels[0].source.count("gemm.") == 3


@pytest.mark.parametrize(("points", "nodes", "size"), [(9, 7, 2), (5, 4, 3), (2, 8, 3), (12, 3, 1), (8, 5, 8)])
def test_products_with_more_than_rows_and_columns(points, nodes, size):
    """Jacobians at points of elements: vectors run over the points, where there are more of them than coordinates."""
    x, derivatives = _random(300, nodes, size, seed=1), _random(points, nodes, size, seed=2)

    def volumes(x, derivatives):
        jacobians = dpnp.einsum("enx,qnd->eqxd", x, derivatives)
        return (jacobians * jacobians).sum(axis=(-1, -2)) + jacobians[..., 0, 0]

    assert tl_dpnp.explain(volumes)(x, derivatives).launches == 1
    compare("volumes", tl_dpnp.fuse(volumes)(x, derivatives), volumes(x, derivatives))
    compare("jacobians", tl_dpnp.fuse(lambda x, d: dpnp.einsum("enx,qnd->eqxd", x, d))(x, derivatives),
            dpnp.einsum("enx,qnd->eqxd", x, derivatives))


def test_a_product_that_two_results_need_is_computed_once():
    """It is no term of a sum then, even where one of them is a sum that the other has a part of."""
    K = _random(23, 23, seed=5)

    def step(q, p):
        p = p - 0.01 * (q @ K)
        q = q + 0.02 * p
        return q, p - 0.01 * (q @ K)

    q, p = _random(1000, 23, seed=6), _random(1000, 23, seed=7)
    explanation = tl_dpnp.explain(step)(q, p)
    assert explanation.launches == 1
    assert [line.split()[0] for line in explanation.kernels[0].source.splitlines() if "gemm" in line.split()[0]] == \
        ["gemm", "gemm"]
    compare("step", tl_dpnp.fuse(step)(q, p), step(q, p))


@pytest.mark.parametrize(("rows", "columns"), [(20, 11), (20, 5), (24, 9), (33, 16)])
def test_a_product_that_all_matrices_share_is_computed_before(rows, columns):
    a, k, q = _random(rows, rows, seed=1), _random(columns, columns, seed=2), _random(70, rows, columns, seed=3)

    def both(a, q, k):
        return (a @ q) @ k - (a @ a @ q) @ k

    explanation = tl_dpnp.explain(both)(a, q, k)
    assert sorted(kernel.groups for kernel in explanation.kernels) == [1, 70]
    compare("both", tl_dpnp.fuse(both)(a, q, k), both(a, q, k))


@pytest.mark.parametrize("shape", [(100, 100), (256, 256), (2000, 9), (5000, 20)])
def test_a_result_that_no_work_group_can_hold(shape):
    a, b = _random(shape[0], 24, seed=0), _random(24, shape[1], seed=1)
    compare("product", tl_dpnp.fuse(lambda a, b: a @ b)(a, b), a @ b)
