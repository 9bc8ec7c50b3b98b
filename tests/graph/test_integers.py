"""Integers that change from call to call: arguments of kernels, or a part of the plan where Python looks at them."""

import dataclasses
import functools
import itertools
import math
import operator
import warnings
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp.graph.kernels import clear_kernels

fuse = tl_dpnp.fuse


def _random(*shape, dtype="f4", seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


A, B = _random(3, 4, 4), _random(3, 4, 4, seed=1)
STATE = SimpleNamespace(n=2, names=["a", "b"])
TABLE = {2: 20, 3: 30, 7: 70}


def _kept(function):
    return list(function._plans)


@dataclasses.dataclass
class Holder:
    n: int
    factor: float = 1.5


def test_a_changing_integer_needs_no_new_kernel():
    clear_kernels()

    @fuse
    def step(q, n):
        return q - (2 * n + 1) * (q @ q) / n

    for n in range(1, 40):
        compare(f"{n}", step(A, n), A - (2 * n + 1) * (A @ A) / n)
    assert step._compilations == 1
    assert len(_kept(step)) <= 2  # kernels are the same, plans are not: 0.5 is no power


def test_an_attribute_that_counts_needs_no_new_kernel():
    clear_kernels()
    state = SimpleNamespace(step=0)
    f = fuse(lambda q: q * state.step + 1.0)
    for step in range(20):
        state.step = step + 1
        compare(f"{step}", f(A), A * (step + 1) + 1.0)
    assert f._compilations == 1


def test_an_integer_of_a_function_that_is_traced_again_needs_no_new_kernel():
    clear_kernels()
    seen = []

    @fuse(recompile_limit=2)
    def f(q, n):
        seen.append(n)
        return q * n + 1.0

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(20):
            compare(f"{n}", f(A, n + 1), A * (n + 1) + 1.0)
    assert seen == [n + 1 for n in range(20)]
    assert {type(n) for n in seen} == {int}


CASES = [
    lambda x, n: x * 1.5 * n, lambda x, n: x * (1.5 * n), lambda x, n: x * (n * 1.5), lambda x, n: x * (0.5 + n),
    lambda x, n: x * sum([0.5, n]), lambda x, n: x * sum(v for v in (0.5, n)), lambda x, n: x * sum((n, 0.5), 1.0),
    lambda x, n: x * math.fsum([0.5, n]), lambda x, n: x * math.prod([0.5, n]), lambda x, n: x * math.sqrt(abs(n)),
    lambda x, n: x * math.prod(v for v in (0.5, n)), lambda x, n: x * operator.mul(0.5, n),
    lambda x, n: x * functools.reduce(operator.add, [0.5, n]), lambda x, n: x * list(itertools.accumulate([0.5, n]))[1],
    lambda x, n: x * max(n, 3), lambda x, n: x * min(2.5, n), lambda x, n: x * abs(-n), lambda x, n: x * float(n),
    lambda x, n: x * int(n), lambda x, n: x * complex(n).real, lambda x, n: x * bool(n), lambda x, n: x * (n or 5),
    lambda x, n: x * round(n / 3), lambda x, n: x * divmod(n, 2)[1], lambda x, n: x * (n // 2) + n % 3,
    lambda x, n: x * (n << 1) + (n >> 1) + (n & 3) + (n | 8) + (n ^ 5) + ~n, lambda x, n: x * -n + +n,
    lambda x, n: x * n ** 2, lambda x, n: x * 2.0 ** n, lambda x, n: x * pow(n, 3, 7), lambda x, n: x ** (n % 5),
    lambda x, n: x * (1 < n < 5), lambda x, n: x * (n == 3), lambda x, n: x * (n in (3, 7)), lambda x, n: x * (not n),
    lambda x, n: x * TABLE.get(n, 1), lambda x, n: x * [5, 6, 7, 8, 9][n % 5], lambda x, n: x[n % 3],
    lambda x, n: x[: n % 3 + 1], lambda x, n: x[:, n % 4, 1:], lambda x, n: x[..., slice(0, n % 4 + 1)],
    lambda x, n: x.reshape(3, 16, n // n), lambda x, n: x.sum(axis=n % 3), lambda x, n: dpnp.expand_dims(x, n % 3),
    lambda x, n: dpnp.arange(n) * 1.5, lambda x, n: dpnp.full((2, 2), n) * 2.0, lambda x, n: dpnp.zeros((n, 2)) + n,
    lambda x, n: dpnp.ones(n % 4 + 1) @ dpnp.eye(n % 4 + 1), lambda x, n: dpnp.clip(x, -n, n),
    lambda x, n: dpnp.maximum(x, n), lambda x, n: (x > n) * 1.0, lambda x, n: dpnp.where(x > n, x, n),
    lambda x, n: dpnp.add(x, n) + dpnp.multiply(n, x), lambda x, n: x / n, lambda x, n: n / x, lambda x, n: n - x,
    lambda x, n: x % n, lambda x, n: x // n, lambda x, n: dpnp.power(x, n % 4), lambda x, n: dpnp.logical_and(x, n),
    lambda x, n: dpnp.arctan2(x, n), lambda x, n: x * len(f"{n}"), lambda x, n: x * len("%d" % n),  # noqa: UP031
    lambda x, n: x * len(str(n)), lambda x, n: x * len("a" * n), lambda x, n: x * len("7".zfill(n)),
    lambda x, n: x * len([0] * n), lambda x, n: x * len(range(n)), lambda x, n: x * len(f"{n:>{n}}"),
    lambda x, n: x * sum(range(n)), lambda x, n: x * sum(i * n for i in range(n)), lambda x, n: x * list(range(n))[-1],
    lambda x, n: x * next(iter(enumerate([5], n)))[0], lambda x, n: x * dict(enumerate([5, 6], start=n))[n],
    lambda x, n: x * next(zip([1.5], [n], strict=True))[1], lambda x, n: x * {n: 4}[n], lambda x, n: x * len({n, 3}),
    lambda x, n: x * n.real + n.bit_length(), lambda x, n: x * n.numerator, lambda x, n: x * isinstance(n, int),
    lambda x, n: x * (type(n) is int), lambda x, n: x * hash(n), lambda x, n: x * n.__mul__(2),
    lambda x, n: x * ord(chr(n)),
    lambda x, n: x * float(np.float32(n)), lambda x, n: x * np.sqrt(abs(n)), lambda x, n: x * float(np.add(n, 1)),
    lambda x, n: x * int(f"{n}" * 2), lambda x, n: x * (n * 10 ** 20), lambda x, n: x * float(n * 10 ** 20),
    lambda x, n: x * n * 10 ** 9, lambda x, n: x * [n, 0.5][n % 2], lambda x, n: x * Holder(n).n * Holder(n, n).factor,
    lambda x, n: x * _loop(n), lambda x, n: x * _collatz(n), lambda x, n: x * _inserted(n),
    lambda x, n: x * _keyword(k=n),
    lambda x, n: x * dataclasses.replace(Holder(1), n=n).n, lambda x, n: x * int("11", base=n + 2),
    lambda x, n: x * sorted([n, 2.5])[0], lambda x, n: x * any([n > 3]), lambda x, n: x * "abcdefgh".find("c", n % 4),
    lambda x, n: x * [1, 2, 3].index(3, n % 2), lambda x, n: x * functools.partial(_keyword, k=n)(),
    lambda x, n: x * (lambda k=n: 0.5 * k)(), lambda x, n: x * [0.5 * v for v in (n, n + 1)][1],
]


def _loop(n):
    total = 0.5
    for i in range(n):
        total += i * n
    return total


def _collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def _inserted(n):
    values = [0.5, 1.5, 2.5]
    values.insert(n % 3, n)
    return values[0] * values.pop(n % 4)


def _keyword(*, k):
    return 1.5 * k


@pytest.mark.parametrize("part", range(6))
def test_integers_that_python_looks_at(part):
    x = abs(A) + 1
    for number, case in enumerate(CASES[part::6]):
        f = fuse(case, recompile_limit=50)
        for n in (2, 3, 7, 2, 1):
            compare(f"case {6 * number + part} of {n}", f(x, n), case(x, n))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "f2", "f4", "?"])
@pytest.mark.parametrize("operation", [operator.add, operator.truediv, operator.gt])
def test_integers_at_the_limits_of_types(dtype, operation):
    """What dpnp does with an integer that a type does not have, it does in a plan of another one, too."""
    x = dpnp.asarray(np.arange(6).reshape(2, 3).astype(dtype))
    f = fuse(lambda x, n: (operation(x, n), operation(n, x)), recompile_limit=100)
    limits = [3, 0, -1, 127, 128, 255, 256, -129, 2**31 - 1, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, 5, -3]
    for n in limits:
        outcomes = []
        for function in (lambda x, n: (operation(x, n), operation(n, x)), f):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    outcomes.append([array.asnumpy() for array in function(x, n)])
            except Exception as error:
                outcomes.append(type(error))
        plain, fused = outcomes
        if isinstance(plain, type) or isinstance(fused, type):
            assert plain == fused, f"{n}: {plain} and {fused}"
            continue
        for one, other in zip(plain, fused, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other, err_msg=f"{n}")


def test_what_a_function_returns_and_leaves_are_plain_integers():
    holder = SimpleNamespace(n=5, seen=[])

    @fuse
    def f(x, n):
        return x * n, n, n + holder.n, [n * 2], {"n": n}

    for n in (2, 3, 4):
        _, *rest = f(A, n)
        assert rest == [n, n + 5, [n * 2], {"n": n}]
        assert {type(rest[0]), type(rest[1]), type(rest[2][0])} == {int}

    @fuse
    def g(x, n):
        holder.n = n + 1
        holder.seen.append(n * 2)
        holder.last = (n, [n])
        return x * n

    for n in (2, 3, 4):
        g(A, n)
        assert (holder.n, holder.last, holder.seen[-1]) == (n + 1, (n, [n]), 2 * n)
        assert {type(holder.n), type(holder.seen[-1]), type(holder.last[0]), type(holder.last[1][0])} == {int}


def test_integers_and_floats_that_compare_equal_differ():
    f = fuse(lambda x, n: dpnp.multiply(x, n))
    i = dpnp.arange(4, dtype="i4")
    for n in (2, 2.0, True, 3, 3.0, False):
        compare(f"{n!r}", f(i, n), i * n)


def test_values_that_decide_have_plans_of_their_own():
    calls = []

    @fuse(recompile_limit=100)
    def f(x, n):
        return x[:, :n] * n

    wide = _random(2, 64)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in [*range(1, 70), *range(1, 70)]:
            compare(f"{n}", f(wide, n), wide[:, :n] * n)
            calls.append(sum(s.plan.calls for s in _kept(f)))
    assert ["traced for 64 values of n: it looks at" in str(warning.message) for warning in said] == [True]
    assert calls[-1] >= 68  # the second time no call is traced


@pytest.mark.parametrize("number", [2, 2.5, np.float32(2), np.float64(2), np.int64(2)])
@pytest.mark.parametrize("use", [lambda n: sum([1.0, 2.0], start=n) + None, lambda n: None + n, lambda n: {} + n,
                                 lambda n: n @ None, lambda n: "a" + n, lambda n: len(n), lambda n: math.sqrt("a") + n])
def test_errors_name_the_type_of_a_number(number, use):
    def function(a, n):
        use(n)
        return a * n

    messages = []
    for call in (function, tl_dpnp.fuse(function)):
        with pytest.raises(TypeError) as caught:
            call(dpnp.ones(4), number)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
