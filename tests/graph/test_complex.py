"""Complex numbers in fused code: infinities and NaN, numbers of the call, and what is left to dpnp."""

from __future__ import annotations

import itertools
import re

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare, shares

SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]


def special(dtype):
    """Return all pairs of numbers with such parts.  They are strided: of contiguous ones dpnp has MKL compute."""
    numbers = np.array([complex(*parts) for parts in itertools.product(SPECIAL, SPECIAL)], dtype)
    return [dpnp.asarray(np.repeat(each, 2))[::2]
            for each in (np.repeat(numbers, numbers.size), np.tile(numbers, numbers.size))]


def products(a, b):
    return a * b, a * 2.5, 1j * a, (0.5 - 2j) * a, a * dpnp.real(b)


def quotients(a, b):
    return a / b, a / 2, a / (1 + 2j), 2.5 / b, a / dpnp.real(b), dpnp.real(a) / b


def functions(a, b):
    return (dpnp.exp(a), abs(a), dpnp.angle(a), dpnp.square(a), dpnp.isnan(a), dpnp.isinf(a), dpnp.isfinite(a),
            dpnp.nansum(a.reshape(49, 49), axis=1), dpnp.var(a.reshape(49, 49), axis=1), a.reshape(49, 49).std(axis=0),
            dpnp.linalg.norm(a.reshape(49, 49), axis=0), dpnp.linalg.norm(a), dpnp.linalg.norm(a.reshape(49, 49), 1))


def others(a, b):
    return a + b, a - b, -a, a.conj(), dpnp.real(a), dpnp.imag(a), a == b, a != b, a.reshape(49, 49).mean(axis=1)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("function", [products, quotients, functions, others])
def test_infinities_and_nan_are_where_dpnp_has_them(function, dtype):
    a, b = special(dtype)
    fused = tl_dpnp.fuse(fullgraph=True)(function)
    for got, expected in zip(fused(a, b), function(a, b), strict=True):
        assert got.dtype == expected.dtype
        got, expected = got.asnumpy(), expected.asnumpy()
        rounding = 4 * np.finfo(dtype).eps
        for part in ("real", "imag"):
            np.testing.assert_allclose(getattr(got, part) * 1.0, getattr(expected, part) * 1.0, rtol=rounding,
                                       atol=rounding)


def test_large_and_small_divisors():
    a = dpnp.asarray(np.array([1e300 + 1e300j, 1e-300j, 1e300, 3 - 4j] * 2), dtype="c16")
    b = dpnp.asarray(np.array([1e300 - 1e299j, 1e-300 + 2e-300j, 1e-5j, 1e160 + 1e160j] * 2), dtype="c16")
    got, expected = tl_dpnp.fuse(lambda a, b: a / b)(a, b).asnumpy(), (a / b).asnumpy()
    np.testing.assert_allclose(got, expected, rtol=1e-14)


def test_numbers_of_the_call():
    """Floats are given to one kernel, and each complex number has its own."""

    @tl_dpnp.fuse
    def turned(a, factor, shift):
        return a * factor + shift

    a = dpnp.asarray(np.arange(6).reshape(2, 3) * (1 - 2j), dtype="c8")
    for factor, shift in [(2.5, 1), (0.5, 2), (1e300, 3), (1j, 0.5), (2 - 1j, np.complex64(1j)), (3j, np.float32(2))]:
        got, expected = turned(a, factor, shift), a * factor + shift
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got.asnumpy(), expected.asnumpy())


def views(a, f):
    b = a * 1j
    x, y = b.real, b + 1
    x += 3
    b.imag = f
    return b, y, x, dpnp.real(b + x)


def views_of_arguments(a, f):
    x, y = a.real, a.imag
    before = x + 2 * y
    a *= 2j
    y[0] = f[1]
    a.real[..., 1:] += 1
    a.imag -= x
    return before, x, y, a


def views_of_views(a, f):
    b = a + f
    x, y = b[:, ::-1].T.real, b[1:].imag.reshape(-1)
    x[1] = 7
    y *= y[::-1].copy()
    return x, y, b, b.real.strides, (a * 2).imag.T.strides, (a * 2).real.reshape(-1)[::2].strides


def views_alone(a, f):
    return (a * 2).real, (a * 3).imag[:, 1:], (a + f).real.sum(), (a * a.conj()).real


def assigned(a, f):
    b = a + 1
    b[0] = 2j
    b[:, 1] = f[:, 1]
    b[f > 1] = 0.5 - 1j
    b.real[f > 2] = 4
    b.imag[...] = 2.5
    b.imag = f[0]
    return b


def read_while_written(a, f):
    b = a.reshape(-1)
    x, y = b[:3].real, b[::2]
    x += y.real  # of the same strides and offset, in elements of other sizes
    return a


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize(
    "function", [views, views_of_arguments, views_of_views, views_alone, assigned, read_while_written])
def test_parts_are_views(function, dtype):
    """What is written to ``a.real`` is seen in the array, and the other way round; all is fused."""
    f = dpnp.asarray(np.arange(6).reshape(2, 3), dtype=np.dtype(dtype).type(0).real.dtype)
    fused = tl_dpnp.fuse(function, on_break="error")
    for _ in range(3):
        given, expecting = f * (1 + 2j), f * (1 + 2j)
        got, expected = fused(given, f), function(expecting, f)
        compare(function.__name__, got, expected)
        compare("the argument", given, expecting)
        results, right = (values if isinstance(values, tuple) else (values,) for values in (got, expected))
        results, right = ([array for array in arrays if isinstance(array, dpnp.ndarray)] for arrays in (results, right))
        pairs = list(itertools.product(range(len(right)), repeat=2))
        assert [shares(results[i], results[j]) for i, j in pairs] == [shares(right[i], right[j]) for i, j in pairs]
        assert [shares(array, given) for array in results] == [shares(array, expecting) for array in right]
    assert fused.stats.plan_hits == 2


def test_parts_of_what_is_computed_are_in_its_kernel():
    a = dpnp.asarray(np.arange(24).reshape(2, 3, 4) * (1 - 2j), dtype="c8")
    explanation = tl_dpnp.explain(lambda a: ((a * 1j + 2).real ** 2 + a.imag).sum(axis=-1))(a)
    assert len(explanation.kernels) == 1
    assert not explanation.breaks


def test_what_is_no_part_is_assigned_as_dpnp_does():
    a = dpnp.ones((2, 3), dtype="c8")

    @tl_dpnp.fuse
    def assigns(a, value):
        a.real = value

    with pytest.raises(TypeError) as expected:
        dpnp.ones((2, 3), dtype="c8").real = a
    with pytest.raises(TypeError, match=re.escape(str(expected.value))):
        assigns(a, a)


@pytest.mark.parametrize(("function", "reason"), [
    (lambda a: dpnp.sqrt(a), "sqrt of complex64"), (lambda a: dpnp.sin(a), "sin of complex64"),
    (lambda a: a ** 2, "power of complex64"), (lambda a: a > 1, "greater of complex64"),
    (lambda a: a.max(axis=0), "max of complex64"), (lambda a: dpnp.prod(a, axis=0), "prod of complex64"),
    (lambda a: dpnp.where(a, a, 1), "a condition of complex64"),
    (lambda a: dpnp.nanprod(a, axis=0), "prod of complex64"),
    (lambda a: dpnp.linalg.inv(a[:, :2]), "matrices of complex64 are left to LAPACK"),
    (lambda a: dpnp.linalg.solve(dpnp.stack([dpnp.eye(2)] * 2), a[:, :2]), "matrices of complex64 are left to LAPACK"),
    (lambda a: a.astype("f4"), "complex64 is not cast to float32"),
    (lambda a: a / dpnp.ones(3, dtype="i4"), "division of complex64 by int32"),
])
def test_what_is_left_to_dpnp_names_the_dtype(function, reason):
    a = dpnp.asarray(np.arange(6).reshape(2, 3) * (1 - 2j), dtype="c8")
    assert reason in str(tl_dpnp.explain(function)(a))
    np.testing.assert_array_equal(tl_dpnp.fuse(function)(a).asnumpy(), function(a).asnumpy())
