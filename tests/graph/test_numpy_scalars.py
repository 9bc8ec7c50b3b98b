"""NumPy's numbers that change from call to call: arguments of kernels, as those of Python are."""

import copy
import functools
import operator
import pickle
import warnings
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tests.graph.test_integers import CASES
from tl_dpnp.graph.kernels import clear_kernels
from tl_dpnp.graph.traced_scalars import NUMPY_KINDS

fuse = tl_dpnp.fuse
KINDS = sorted(NUMPY_KINDS, key=lambda kind: kind.__name__)


def _random(*shape, dtype="f4", seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


A = _random(3, 4, 4)
WIDE = A.astype("f8")
STATE = SimpleNamespace(dt=np.float32(0.5), inner=[np.int64(2)])
DT = np.float64(0.5)


def _outcome(function, *arguments):
    """Return what a call gives, or the type of what it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments)
    except Exception as error:
        return type(error)


def _same(what, fused, plain):
    if isinstance(plain, tuple | list):
        assert len(fused) == len(plain), what
        for one, other in zip(fused, plain, strict=True):
            _same(what, one, other)
    elif isinstance(plain, dpnp.ndarray):
        compare(what, fused, plain)
    else:
        assert type(fused) is type(plain), f"{what}: {fused!r} and {plain!r}"
        assert fused == plain or fused != fused, f"{what}: {fused!r} and {plain!r}"


NUMBERS = []
ADDED_UP = [
    lambda q: sum(NUMBERS),
    lambda q: sum(NUMBERS[1:], NUMBERS[0]),
    lambda q: sum(x * x for x in NUMBERS),
    lambda q: sum(map(abs, NUMBERS)),
    lambda q: sum(one * other for one, other in zip(NUMBERS, NUMBERS, strict=True)),
    lambda q: functools.reduce(operator.mul, NUMBERS),
    lambda q: q * sum(NUMBERS),
    lambda q: sum(q * x for x in NUMBERS),
]


@pytest.mark.parametrize("first", [kind(2) for kind in KINDS] + [True, np.bool_(True), 2, 1.5, 1 + 1j])
@pytest.mark.parametrize("function", ADDED_UP)
def test_numbers_that_c_code_adds_up(function, first):
    """`sum` adds what follows them to complex numbers and those of NumPy, which take its value as it is."""
    fused = fuse(function)
    for last in (2.0, 0.0, -3.5, 0.0):
        for given in ([first, 2.5, last], [2.5, first, last]):
            NUMBERS[:] = given
            _same(f"{given}", _outcome(fused, A), _outcome(function, A))


@pytest.mark.parametrize("kind", KINDS)
def test_a_changing_number_needs_no_new_kernel(kind):
    clear_kernels()
    f = fuse(lambda q, t: q - kind(2) * t * q * 2)
    for n in range(1, 31):
        compare(f"{n}", f(WIDE, kind(n)), WIDE - WIDE * (kind(2) * kind(n)) * 2)
    assert f._compilations == 1
    assert f.stats.plans == 1
    assert f.stats.plan_hits == 29


def test_numbers_of_attributes_elements_and_globals_need_no_new_kernel():
    global DT
    clear_kernels()
    f = fuse(lambda q: q * STATE.dt + STATE.inner[0] - DT)
    for n in range(1, 20):
        STATE.dt, STATE.inner[0], DT = np.float32(n / 8), np.int64(n), np.float64(n / 3)
        compare(f"{n}", f(A), A * STATE.dt + STATE.inner[0] - DT)
    assert f._compilations == 1
    assert f.stats.plans == 1


def test_a_number_that_is_made_inside_needs_no_new_kernel():
    clear_kernels()
    f = fuse(lambda q, dt: q - np.float32(dt) * q + np.sqrt(dt) * q + np.multiply(dt, np.float32(3)))
    for n in range(1, 20):
        dt = n / 7
        compare(f"{n}", f(A, dt), A - A * np.float32(dt) + A * np.sqrt(dt) + dt * np.float32(3))
    assert f._compilations == 1
    assert f.stats.plans == 1


def test_a_number_of_a_function_that_is_traced_again_needs_no_new_kernel():
    seen = []

    @fuse(recompile_limit=2)
    def f(q, t):
        seen.append(t)
        return q * t + STATE.dt

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(20):
            STATE.dt = np.float32(n)
            compare(f"{n}", f(A, np.float32(n + 1)), A * np.float32(n + 1) + STATE.dt)
    assert seen == [n + 1 for n in range(20)]
    assert {type(t) for t in seen} == {np.float32}


@pytest.mark.parametrize("kind", KINDS)
def test_results_have_the_dtypes_of_dpnp(kind):
    f = fuse(lambda x, t: (x + t, x / t), recompile_limit=50)
    for dtype in ("?", "i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
        x = dpnp.asarray(np.arange(6).reshape(2, 3).astype(dtype))
        _same(f"{dtype} {kind.__name__}", _outcome(f, x, kind(2)), _outcome(f.function, x, kind(2)))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int8, np.int64, np.uint64])
@pytest.mark.parametrize("operation", [operator.add, operator.truediv, operator.gt, operator.pow])
def test_values_at_the_limits_of_types(kind, operation):
    if issubclass(kind, np.integer):
        limits = np.iinfo(kind)
        values = [3, limits.min, limits.max, limits.max - 1, 0, 1, limits.min + 1, limits.max // 2, 3]
        values += [v for v in (-1, 127, 128, 255, 256, 2**31, 2**53, 2**53 + 1) if limits.min <= v <= limits.max]
    else:
        limits = np.finfo(kind)
        values = [3, limits.max, limits.tiny, -limits.max, np.inf, -np.inf, np.nan, 0.0, -0.0, limits.eps, np.nan, 3]
    f = fuse(lambda x, t: operation(x, t), recompile_limit=200)
    for dtype in ("i1", "u8", "i4", "f4"):
        x = dpnp.asarray(np.arange(6).reshape(2, 3).astype(dtype))
        for value in map(kind, values):
            plain, fused = _outcome(f.function, x, value), _outcome(f, x, value)
            if isinstance(plain, type):
                assert fused == plain, f"{value!r}"
                continue
            assert fused.dtype == plain.dtype
            rounding = 1e-12 if operation is operator.pow else 0
            np.testing.assert_allclose(fused.asnumpy(), plain.asnumpy(), rtol=rounding, err_msg=f"{dtype} {value!r}")


LOOKING = [
    *CASES, lambda x, t: x * t.item(), lambda x, t: x * t.astype(np.float32), lambda x, t: x.astype(t.dtype),
    lambda x, t: x * t.itemsize, lambda x, t: x * t.sum(), lambda x, t: x * np.sqrt(abs(t)),
    lambda x, t: x * np.abs(-t),
    lambda x, t: x * np.array([t, 2 * t]).sum(), lambda x, t: x * float(np.asarray(t)), lambda x, t: x * np.float16(t),
    lambda x, t: x * np.add(t, 1.5), lambda x, t: x * np.maximum(t, np.float32(2)), lambda x, t: x * np.int64(t),
    lambda x, t: x * (np.float64(1.5) * t), lambda x, t: x * np.float64(1.5).__mul__(t), lambda x, t: x * np.modf(t)[0],
    lambda x, t: x * (t * np.bool_(True)), lambda x, t: x * bool(np.isfinite(t)), lambda x, t: x * (t > np.float32(2)),
    lambda x, t: x * isinstance(t, np.floating), lambda x, t: x * (type(t) is np.float64), lambda x, t: x * t.ndim,
    lambda x, t: x * functools.reduce(operator.mul, [np.float64(0.5), t]), lambda x, t: x * float(t) + int(t),
    lambda x, t: dpnp.full((3, 4), t) * x[:, 0], lambda x, t: dpnp.array([t, t]) * x[:, 0, :2], lambda x, t: x ** t,
    lambda x, t: dpnp.fmod(x, t), lambda x, t: dpnp.where(x > t, t, x), lambda x, t: dpnp.logical_and(x, t),
    lambda x, t: x * np.power(t, 2), lambda x, t: x * np.frompyfunc(lambda v: v + 1, 1, 1)(t),
    lambda x, t: x * sum([t, t]) + max(t, 2), lambda x, t: x * np.sum([t, t]), lambda x, t: x * t.real * np.exp(t / 9),
    lambda x, t: (x, t, [t * 2], {"t": t + 1}["t"], -t, t / 3),
]


@pytest.mark.drawn
@pytest.mark.parametrize("kind", [np.float32, np.int64])
@pytest.mark.parametrize("part", range(4))
def test_numbers_that_python_looks_at(kind, part):
    x = abs(WIDE) + 1
    for number, case in enumerate(LOOKING[part::4]):
        f = fuse(case, recompile_limit=50)
        for n in (2, 7, 2, 1):
            plain = _outcome(case, x, kind(n))
            if isinstance(plain, np.ndarray):  # a number on the left: NumPy makes an array of objects
                plain = case(x, kind(n).item())
                assert dpnp.allclose(f(x, kind(n)), plain)
                continue
            _same(f"case {4 * number + part} of {kind(n)!r}", _outcome(f, x, kind(n)), plain)


def test_numbers_that_compare_equal_differ_by_their_types():
    f = fuse(lambda x, t: x * t)
    x = dpnp.arange(4, dtype="i1")
    kinds = (np.float32, np.float64, np.int8, np.int64, np.uint8, np.float16, np.bool_)
    for t in (2, 2.0, *(kind(2) for kind in kinds)):
        compare(f"{t!r}", f(x, t), x * t)


def test_zeros_of_both_signs_and_nan_that_are_looked_at_are_different_values():
    f = fuse(lambda x, t: x * len(str(t)))
    for t in (0.0, -0.0, np.nan, np.nan, 0.0, -0.0):
        compare(f"{t}", f(A, np.float32(t)), A * len(str(t)))
    assert f.stats.plan_hits == 3


def test_what_numpy_warns_of_is_warned_of_at_each_call():
    f = fuse(lambda x, t: x * (np.float32(1) / t))
    for t, warned in ((2, False), (0, True), (4, False), (0, True)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = f(A, np.float32(t))
        assert bool(said) == warned
        with np.errstate(divide="ignore"):
            compare(f"{t}", result, A * (np.float32(1) / np.float32(t)))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        f(A, np.float32(0))


def test_what_a_function_leaves_are_plain_numbers():
    holder = SimpleNamespace(seen=[])

    @fuse
    def g(x, t):
        holder.t = t * 2
        holder.seen.append([t, (t + 1,)])
        return x * t, t

    for n in (2, 3, 4):
        t = np.float32(n)
        _, same = g(A, t)
        kept = [same, holder.t, holder.seen[-1][0], holder.seen[-1][1][0]]
        assert kept == [n, 2 * n, n, n + 1]
        assert [type(value) for value in kept] == [np.float32, type(t * 2), np.float32, type(t + 1)]


def test_stand_ins_are_copied_and_pickled_as_numbers():
    f = fuse(lambda x, t: x * copy.copy(t) * copy.deepcopy([t])[0] * pickle.loads(pickle.dumps(t)))
    for n in (2, 3):
        compare(f"{n}", f(A, np.float64(n)), A * np.float64(n**3))


def test_a_function_of_numpy_that_runs_python_is_called_each_time():
    calls = []
    counted = np.frompyfunc(lambda value: calls.append(value) or value, 1, 1)
    f = fuse(lambda x: x * counted(2.0))
    for number in range(1, 4):
        compare("counted", f(A), A * 2.0)
        assert len(calls) == number


def test_logical_functions_of_numbers():
    for function in (dpnp.logical_and, dpnp.logical_or, dpnp.logical_xor):
        f = fuse(lambda x, t, function=function: function(x, t))
        for t in (0.5, 0.0, -0.0, np.nan, np.float32(0.25), np.int64(3), 2):
            compare(f"{t}", f(A - A[0], t), function(A - A[0], t))
