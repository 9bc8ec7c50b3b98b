"""Programs that one kernel is best for: results that need different grids, products with vectors, constants."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp.graph.grids import common_placement, placement_of
from tl_dpnp.graph.nodes import Array, Contract
from tl_dpnp.graph.views import c_strides
from tl_dpnp.graph.work_groups import WorkGroups

F4 = np.dtype("f4")


def _random(*shape, seed=0):
    return dpnp.asarray((np.random.default_rng(seed).normal(size=shape) * 0.3).astype("f4"))


def _launches(function, arguments):
    """Return the launches of a fused call, after comparing it with dpnp, also as it runs from its plan."""
    fused = tl_dpnp.fuse(function)
    explanation = fused.explain(*arguments)
    for _ in range(2):
        compare("results", fused(*arguments), function(*arguments))
    assert not explanation.again
    return explanation.launches


def _predict(F, Q, x, P):
    return (F @ x[..., None])[..., 0], F @ P @ F.T + Q


def _update(H, R, x, P, z):
    PHt = P @ H.T
    gain = PHt / (H @ PHt + R)
    return x + (gain @ (z - (H @ x[..., None])[..., 0])[..., None])[..., 0], P - gain @ PHt.swapaxes(1, 2)


def _filter(F, Q, H, R, x, P, z):
    for _ in range(3):
        x, P = _predict(F, Q, x, P)
        x, P = _update(H, R, x, P, z)
    return x, P


def _rows(x, P, h):
    Ph = P @ h
    gain = Ph / ((Ph * h).sum(axis=-1) + 1.0)[:, None]
    return x - gain * (x @ h)[:, None], P - gain[:, :, None] * Ph[:, None, :]


@pytest.mark.parametrize("batch", [1, 60, 1000])
def test_products_with_vectors_stand_beside_products_with_matrices(batch):
    F, Q, H, R, h = _random(5, 5), _random(5, 5, seed=1), _random(1, 5, seed=2), _random(1, 1, seed=3), _random(5)
    x, P, z = _random(batch, 5, seed=4), _random(batch, 5, 5, seed=5), _random(batch, 1, seed=6)
    R = R * R + 2
    P = P @ P.swapaxes(1, 2)
    assert _launches(_predict, (F, Q, x, P)) == 1
    assert _launches(_update, (H, R, x, P, z)) == 1
    assert _launches(_filter, (F, Q, H, R, x, P, z)) == 1
    assert _launches(_rows, (x, P, h)) == 1


def test_a_large_product_with_a_vector_stays_a_product_of_matrices():
    def both(W, x, P):
        return x @ W, P @ P

    arguments = _random(200, 200), _random(300, 200), _random(300, 4, 4)
    _launches(both, arguments)
    assert not any("gemv" in kernel.source for kernel in tl_dpnp.explain(both)(*arguments).kernels)


def test_results_share_smaller_chunks_where_their_temporaries_need_room():
    def cells(x, W, V):
        a, b = dpnp.tanh(x @ W), dpnp.tanh(x @ V)
        c, d = dpnp.exp(a @ V), dpnp.exp(b @ W)
        return a * c + b, b * d + a

    x, W, V = _random(2000, 24), _random(24, 24, seed=1), _random(24, 24, seed=2)
    assert _launches(cells, (x, W, V)) == 1


def test_results_with_other_first_axes_have_kernels_of_their_own():
    def apart(a, b):
        return a @ a, b @ b

    assert _launches(apart, (_random(5, 3, 3), _random(2, 4, 4))) == 2


def test_derivatives_along_all_axes_are_one_kernel():
    def gradient(D, u):
        return tuple(dpnp.einsum(f"{letters}->eijk", D, u) for letters in ("il,eljk", "jl,eilk", "kl,eijl"))

    assert _launches(gradient, (_random(4, 4), _random(40, 4, 4, 4))) == 1


def test_loops_over_elements_share_what_they_read():
    def reaction(u, v):
        return u + 0.1 * (1 - u) - u * v * v, v + u * v * v - 0.3 * v

    assert _launches(reaction, (_random(60, 70), _random(60, 70, seed=1))) == 1


def test_columns_of_matrices_do_not_make_one_work_group_do_everything():
    """A batch of columns, ``(batch, n, 1)``, is spread over work-groups as its matrix, ``(batch, n)``, is."""
    F = Array((4, 4), F4, 0, c_strides((4, 4)))
    x = Array((4000, 4, 1), F4, 1, c_strides((4000, 4, 1)))
    product = Contract((4000, 4, 1), F4, (F, x), ("xy", "ayz"), "axz")
    assert placement_of(product, {}, WorkGroups(1 << 15)).groups > 10


def test_a_common_grid_is_that_of_all_results():
    arrays = [Array((size, 3, 3), F4, slot, c_strides((size, 3, 3))) for slot, size in enumerate((5, 2))]
    products = [Contract(a.shape, F4, (a, a), ("axy", "ayz"), "axz") for a in arrays]
    placement = placement_of(products[0], {}, WorkGroups(1 << 15))
    assert placement.groups == 5
    common = common_placement(products, placement, {}, WorkGroups(1 << 15))
    assert common is None or not common.grid


def _made(a):
    return dpnp.zeros_like(a), dpnp.ones_like(a[:, :2]), dpnp.zeros((2, 3)), dpnp.ones(4, dtype="i4"), dpnp.identity(3)


def _columns(a):
    result = dpnp.zeros((a.shape[0], 3), dtype=a.dtype)
    result[:, 0] = a[:, 1]
    result += dpnp.ones_like(result)
    return result


@pytest.mark.parametrize(
    "function",
    [
        lambda a: dpnp.concatenate([dpnp.zeros_like(a[:, :1]), a[:, 1:]], axis=1) @ a.T,
        lambda a: 1.5 * dpnp.eye(6, dtype=a.dtype) - a.T @ a,
        lambda a: dpnp.eye(4, 6, k=1, dtype=a.dtype) @ a.T + dpnp.eye(4, 5, k=-2),
        lambda a: dpnp.zeros_like(a, dtype="i4") + dpnp.ones_like(a, dtype=bool),
        lambda a: dpnp.ones_like(a).sum(axis=1) + (a * dpnp.ones((5, 1))).sum(axis=1),
        _columns,
    ],
)
def test_constant_arrays_are_no_launches(function):
    assert _launches(function, (_random(5, 6),)) == 1


def test_constant_arrays_are_what_dpnp_makes():
    a = dpnp.asarray(np.ones((5, 6), "f4"), usm_type="shared")
    fused, plain = tl_dpnp.fuse(_made)(a), _made(a)
    compare("results", fused, plain)
    assert [array.flags.c_contiguous for array in fused] == [True] * 5


@pytest.mark.parametrize(
    "function", [lambda a: dpnp.zeros((-1, 2)) + a, lambda a: dpnp.zeros((2.0, 2)), lambda a: dpnp.eye(3, like=a),
                 lambda a: dpnp.zeros_like(a, order="Z") + a],
)
def test_arguments_that_dpnp_refuses_raise_its_errors(function):
    a = _random(5, 2)
    with pytest.raises(Exception) as plain:  # noqa: PT011  # whatever dpnp raises
        function(a)
    with pytest.raises(plain.type):
        tl_dpnp.fuse(function)(a)
