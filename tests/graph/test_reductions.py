"""Reductions in kernels, of few elements, which are put together in registers, and of many, in loops."""

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare

#: What a reduction takes as an operand is computed, so that it is no call of dpnp alone.
FUNCTIONS = {
    "sum": lambda x: dpnp.sum(x * 2, axis=-1),
    "prod": lambda x: dpnp.prod(x * 1, axis=-1),
    "max": lambda x: dpnp.max(x * 2, axis=-1),
    "min": lambda x: dpnp.min(x * 2, axis=-1),
    "any": lambda x: (x > 1).any(axis=-1),
    "all": lambda x: (x < 3).all(axis=-1),
    "two axes": lambda x: dpnp.sum(x * 2, axis=(-2, -1)),
    "the first axis of a matrix": lambda x: dpnp.max(x * 2, axis=1),
    "of a reduction": lambda x: dpnp.sum(dpnp.max(x * x, axis=-1) * 2, axis=-1),
    "a row with what is read again": lambda x: x - dpnp.max(x * 2, axis=-1, keepdims=True),
}
ODD = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2, -2, 0.5, 1e-40])


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
@pytest.mark.parametrize("shape", [(300, 3, 5), (4, 9, 16), (2, 3, 33), (3, 2, 70), (1000, 1, 6), (257, 7)])
def test_reductions_are_those_of_dpnp(name, dtype, shape):
    if len(shape) == 2 and name in ("two axes", "of a reduction"):
        shape = (1, *shape)
    rng = np.random.default_rng(len(name) * shape[-1])
    values = rng.normal(size=shape) if dtype.startswith("f") else rng.integers(0, 4, shape)
    x = dpnp.asarray(values.astype(dtype))
    fused = tl_dpnp.fuse(FUNCTIONS[name])
    for _ in range(2):
        compare(name, fused(x), FUNCTIONS[name](x))
    assert fused.explain(x).launches == 1


WHOLE = {
    "sum": lambda p: p.sum(axis=(-2, -1)),
    "prod": lambda p: (p * 0 + 1.01).prod(axis=(-2, -1)),
    "max": lambda p: p.max(axis=(-2, -1)),
    "min": lambda p: (p * 2).min(axis=(-2, -1)),
    "any": lambda p: (p > 3).any(axis=(-2, -1)),
    "all": lambda p: (p < 4).all(axis=(-2, -1)),
    "square": lambda p: (p * p.swapaxes(-1, -2)[:, :1, :1]).sum(axis=(-1, -2)),
    "norm": lambda p: p / dpnp.sqrt((p * p).sum(axis=(1, 2), keepdims=True)),
    "a row": lambda p: p[:, 0].sum(axis=-1),
    "a column": lambda p: p[:, :, 0].max(axis=-1),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(("dtype", "shape"), [("f4", (36, 33)), ("f8", (70, 3)), ("f4", (1, 129)), ("f8", (16, 64))])
def test_whole_matrices_of_a_work_group_are_reduced_by_vectors(name, dtype, shape):
    rng = np.random.default_rng(shape[0])
    a, b = (dpnp.asarray(rng.normal(size=(5, *size)).astype(dtype)) for size in ((shape[0], 4), (4, shape[1])))
    function = WHOLE[name]
    fused = tl_dpnp.fuse(lambda a, b: function(a @ b))
    compare(name, fused(a, b), function(a @ b))
    explanation = fused.explain(a, b)
    assert explanation.launches == 1
    if name == "max" and shape == (36, 33):
        assert "foreach" in explanation.kernels[0].source.partition("gemm")[2]
    a[2, 0, 0] = np.nan
    compare(name, fused(a, b), function(a @ b))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("size", [2, 5, 16, 40, 200])
@pytest.mark.parametrize("rows", [3, 1000])
def test_extremes_of_odd_values_are_those_of_one_element_after_the_other(dtype, kind, size, rows):
    """NaN wins, and of equal elements the last one is kept, with its sign, as in dpnp."""
    x = np.random.default_rng(size).choice(ODD[:6] if rows == 3 else ODD, (rows, size)).astype(dtype)
    x[0] = np.resize(ODD[1::-1], size)  # zeros of both signs
    expected = x[:, 0].copy()
    for element in x.T[1:]:
        beyond = element >= expected if kind == "max" else element <= expected
        expected = np.where(np.isnan(element) | beyond, element, expected)
    found = tl_dpnp.fuse(lambda a: getattr(dpnp, kind)(a * 1.0, axis=-1))(dpnp.asarray(x)).asnumpy()
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])
    plain = getattr(dpnp, kind)(dpnp.asarray(x), axis=-1).asnumpy()
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(plain)[numbers])


@pytest.mark.parametrize("size", [1, 2, 7, 16, 50])
@pytest.mark.parametrize("rows", [2, 600])
def test_sums_of_negative_zeros_are_zero(size, rows):
    x = dpnp.full((rows, size), -0.0, dtype="f4")
    found = tl_dpnp.fuse(lambda a: dpnp.sum(a * 1.0, axis=-1) * 1.0)(x).asnumpy()
    if size > 1:
        np.testing.assert_array_equal(np.signbit(found), False)
    np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("size", range(2, 40, 3))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_that_are_made_of_several(size, dtype):
    """Every element is added once, where one result is computed alone and so in several sums."""
    x = np.random.default_rng(size).integers(-50, 50, (20, 3, size)).astype(dtype)

    def shares(a):
        products = a @ a.swapaxes(1, 2)
        return dpnp.sum(a[:, 0] * a[:, 1], axis=-1)[:, None, None] * products

    found = tl_dpnp.fuse(shares)(dpnp.asarray(x)).asnumpy()
    products = np.matmul(x, x.swapaxes(1, 2))
    np.testing.assert_array_equal(found, (x[:, 0] * x[:, 1]).sum(axis=-1)[:, None, None] * products)
