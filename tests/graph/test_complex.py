"""Complex numbers in fused code: infinities and NaN, numbers of the call, and what is left to dpnp."""

from __future__ import annotations

import cmath
import itertools
import operator
import re
import types

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare, shares
from tl_dpnp.graph.dpnp_rules import nansum_takes_whole_elements

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
            dpnp.var(a.reshape(49, 49), axis=1), a.reshape(49, 49).std(axis=0),
            dpnp.linalg.norm(a.reshape(49, 49), axis=0), dpnp.linalg.norm(a),
            dpnp.linalg.norm(a.reshape(49, 49), 1))


def without_nan(a, b):
    return dpnp.nansum(a.reshape(49, 49), axis=1), dpnp.nansum(b.reshape(49, 49), axis=0)


def others(a, b):
    return a + b, a - b, -a, a.conj(), dpnp.real(a), dpnp.imag(a), a == b, a != b, a.reshape(49, 49).mean(axis=1)


@pytest.mark.drawn
@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("function", [products, quotients, functions, without_nan, others])
def test_infinities_and_nan_are_where_dpnp_has_them(function, dtype):
    a, b = special(dtype)
    fused = tl_dpnp.fuse(fullgraph=function is not without_nan or nansum_takes_whole_elements())(function)
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


NUMBERS = [1j, 2 - 1j, 0.5 + 0j, complex(-0.0, 3), -1 - 0j, 1e10j]
#: What becomes of a complex number, and whether its value may change from call to call.
USES = [
    (lambda a, z: a * z + z, True), (lambda a, z: a.real * z, True), (lambda a, z: a / (z + 2), True),
    (lambda a, z: z - a, True), (lambda a, z: a * (1j * z.real), True), (lambda a, z: a * z.conjugate(), True),
    (lambda a, z: a * abs(z), True), (lambda a, z: a * np.exp(z / 1e9), True),
    (lambda a, z: a * cmath.exp(z / 1e9), True),
    (lambda a, z: a + complex(z.imag, 1), True), (lambda a, z: a * np.complex64(z), True), (lambda a, z: a == z, True),
    (lambda a, z: (a @ a.T) * z ** 2, True), (lambda a, z: dpnp.where(a.real > 2, a, z), True),
    (lambda a, z: operator.iadd(a.copy(), z), True), (lambda a, z: (a + z, z, z * 2j), True),
    (lambda a, z: a * z if z == 1j else a - z, False), (lambda a, z: dpnp.full((2, 3), z) + a, False),
]


@pytest.mark.parametrize(("function", "may_change"), USES)
def test_complex_numbers_of_the_call(function, may_change):
    """They are given to one kernel, and so is what is computed from them; a plan depends on those that decide."""
    fused = tl_dpnp.fuse(function)
    a = dpnp.asarray(np.arange(6).reshape(2, 3) * (1 - 2j), dtype="c8")
    for z in [*NUMBERS, *NUMBERS[::-1]]:
        got, expected = fused(a, z), function(a, z)
        if isinstance(expected, tuple):
            assert repr(got[1:]) == repr(expected[1:])
            got, expected = got[0], expected[0]
        compare(repr(z), got, expected)
    assert fused.stats.traces == (1 if may_change else len(NUMBERS))


@pytest.mark.parametrize("number", [np.complex64(1 - 2j), np.complex128(0.1j), 0.1j, 2.5, np.float32(0.1)])
def test_numbers_take_part_in_promotion_as_in_dpnp(number):
    for dtype in ("i4", "f4", "f8", "c8", "c16"):
        a = dpnp.asarray(np.arange(6).reshape(2, 3), dtype=dtype)
        function = tl_dpnp.fuse(lambda a, z: (a * z, a + z, a - z))
        for _ in range(2):
            compare(dtype, function(a, number), (a * number, a + number, a - number))


def test_what_reads_the_value_of_a_complex_number_is_not_stale():
    """A global number, an attribute, and a phase that changes with the time."""
    state = types.SimpleNamespace(z=1j)

    @tl_dpnp.fuse
    def step(a, dt):
        return a * np.exp(-1j * dt) + state.z * a.conj()

    a = dpnp.asarray(np.arange(6).reshape(2, 3) * (1 - 2j), dtype="c16")
    for time in range(20):
        state.z = 1j * time
        compare(str(time), step(a, time / 7), a * np.exp(-1j * time / 7) + state.z * a.conj())
    assert step.stats.plan_hits == 19


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
