"""Complex numbers in fused code: infinities and NaN, numbers of the call, and what is left to dpnp."""

from __future__ import annotations

import itertools

import dpnp
import numpy as np
import pytest

import tl_dpnp

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


def others(a, b):
    return a + b, a - b, -a, a.conj(), dpnp.real(a), dpnp.imag(a), a == b, a != b, a.reshape(49, 49).mean(axis=1)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("function", [products, quotients, others])
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


def assigned(a, f):
    b = a + 1
    b[0] = 2j
    b[:, 1] = f[:, 1]
    b[f > 1] = 0.5 - 1j
    return b


@pytest.mark.parametrize("function", [views, assigned])
def test_parts_and_elements_are_assigned(function):
    """``a.real`` is a view, which dpnp makes: what is written to it is seen in the array."""
    f = dpnp.asarray(np.arange(6).reshape(2, 3), dtype="f4")
    a = f * (1 + 2j)
    for _ in range(2):
        got, expected = tl_dpnp.fuse(function)(a, f), function(a, f)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


@pytest.mark.parametrize(("function", "reason"), [
    (lambda a: dpnp.exp(a), "exp of complex64"), (lambda a: abs(a), "abs of complex64"),
    (lambda a: a ** 2, "power of complex64"), (lambda a: a > 1, "greater of complex64"),
    (lambda a: a.max(axis=0), "max of complex64"), (lambda a: dpnp.prod(a, axis=0), "prod of complex64"),
    (lambda a: dpnp.where(a, a, 1), "a condition of complex64"),
    (lambda a: dpnp.nansum(a, axis=0), "isnan of complex64"),
    (lambda a: a.astype("f4"), "complex64 is not cast to float32"),
    (lambda a: a / dpnp.ones(3, dtype="i4"), "division of complex64 by int32"),
])
def test_what_is_left_to_dpnp_names_the_dtype(function, reason):
    a = dpnp.asarray(np.arange(6).reshape(2, 3) * (1 - 2j), dtype="c8")
    assert reason in str(tl_dpnp.explain(function)(a))
    np.testing.assert_array_equal(tl_dpnp.fuse(function)(a).asnumpy(), function(a).asnumpy())
