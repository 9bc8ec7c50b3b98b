"""What is not read by Python: numbers and containers in C code, what is waiting in memory, and frozen objects."""

import gc
import math
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare

A, B = (dpnp.asarray(np.random.default_rng(seed).normal(size=(3, 4, 4)).astype("f4")) for seed in range(2))


def test_methods_of_containers_that_are_given():
    kept, held = [], [3, 1]
    append, index = kept.append, held.index
    f = tl_dpnp.fuse(lambda x, g, h: (g(x @ x), x * h(1))[1])
    for number in range(1, 4):
        compare("index", f(A, append, index), A * held.index(1))
        assert len(kept) == number
        held.insert(0, 7)


def test_iterators_from_outside_are_used_up():
    for make in (iter, lambda v: (x for x in v), lambda v: zip(v, v, strict=True), lambda v: map(float, v)):
        iterator = make([1.0, 2.0, 3.0])
        f = tl_dpnp.fuse(lambda x, iterator=iterator: x * sum(v if type(v) is float else v[0] for v in iterator))
        compare("first", f(A), A * 6.0)
        compare("used up", f(A), A * 0)


def test_numbers_that_are_read_by_c_code():
    cases = [
        lambda x, t: x * float(np.float32(t)), lambda x, t: x * np.sqrt(t),
        lambda x, t: x * len("%.1f" % t),  # noqa: UP031
               lambda x, t: x * t.real, lambda x, t: x * math.fsum([t, 1.0]), lambda x, t: x * len(f"{t}"),
        lambda x, t: x * (t in (0.5, 4.0)), lambda x, t: x * {0.5: 1, 4.0: 2}.get(t, 3), lambda x, t: x * int(t),
        lambda x, t: x * max(t, 2.0), lambda x, t: x * round(t), lambda x, t: x * divmod(t, 2.0)[1],
        lambda x, t: x * [5, 6, 7, 8, 9][int(t)], lambda x, t: x[: int(t)] @ B[: int(t)], lambda x, t: x * (1 < t < 5),
        lambda x, t: x * complex(t).real, lambda x, t: x * abs(-t), lambda x, t: x * (t or 3.0),
        lambda x, t: dpnp.arange(t) * 1.0, lambda x, t: dpnp.full((2, 2), t) * 2.0, lambda x, t: x ** t,
        lambda x, t: dpnp.clip(x, -t, t), lambda x, t: dpnp.maximum(x, t) @ x, lambda x, t: x % (t + 1.0),
        lambda x, t: (x > t) * 1.0, lambda x, t: dpnp.where(x > t, x, t), lambda x, t: x * math.atan2(t, 2.0),
        lambda x, t: x * float("1" * int(t + 1)), lambda x, t: x * (t == 4.0), lambda x, t: x * hash(t),
        lambda x, t: x * t.as_integer_ratio()[0], lambda x, t: x * isinstance(t, float), lambda x, t: x * -t // 2,
        lambda x, t: x * 1e300 * t, lambda x, t: (x * 1e-40) * t,
    ]
    x = abs(A) + 1
    for number, case in enumerate(cases):
        f = tl_dpnp.fuse(case, recompile_limit=20)
        for t in (0.5, 4.0, 1.25, 0.5, 2.75):
            compare(f"case {number} of {t}", f(x, t), case(x, t))


def test_results_that_are_computed_alike_are_arrays_of_their_own():
    pair = tl_dpnp.fuse(lambda x: (x @ x + 1, x @ x + 1))
    listed = tl_dpnp.fuse(lambda x: [x - 3 for _ in range(3)])
    views = tl_dpnp.fuse(lambda x: ((x * 2)[1:], (x * 2)[:, 0], dpnp.swapaxes(x * 2, 1, 2)))
    for function, plain in ((pair, A @ A + 1), (listed, A - 3)):
        for _ in range(3):
            first, *others = function(A)
            first += 1
            for other in others:
                compare("another", other, plain)
    for _ in range(3):
        first, second, third = views(A)
        first[...] = 0
        second += 1
        compare("a row", second, (A * 2)[:, 0] + 1)
        compare("transposed", third, dpnp.swapaxes(A * 2, 1, 2))
    kept = []

    @tl_dpnp.fuse
    def written(x, y):
        y += x
        kept.append(y + x)
        z = y + x
        y += x
        return z, y

    for _ in range(3):
        y = A.copy()
        z, same = written(A, y)
        assert same is y
        compare("before", z, A * 3)
        z += 1
        compare("after", y, A * 3)
        compare("kept", kept[-1], A * 3)


@pytest.mark.parametrize("new", [5.0, 5, 2.0, 2, -2.0, True, "a"])
@pytest.mark.parametrize("kind", [list, dict])
def test_numbers_in_containers_of_arguments_that_the_function_changes(kind, new):
    def change(x, items):
        before = x * items[0]
        items[0] = new
        after = x if new == "a" else x * items[0]
        return before, after, items[0], list(items.values() if kind is dict else items)

    f = tl_dpnp.fuse(change)
    for old in (2.0, 2, 3.0, 5):
        for _ in range(2):
            one, other = ([old] if kind is list else {0: old} for _ in range(2))
            found, plain = f(A, one), change(A, other)
            compare("before", found[0], plain[0])
            compare("after", found[1], plain[1])
            for numbers, expected in ((found[2], plain[2]), (found[3], plain[3]), (one, other)):
                assert repr(numbers) == repr(expected)


def test_arrays_that_are_met_after_an_assignment_in_place():
    """They are captured, which writes what is waiting: operands asked for before must not compute it again."""
    values = [np.arange(12, dtype="f4").reshape(3, 4), np.ones((3, 4), "f4")]
    arrays, other = [dpnp.asarray(value) for value in values], dpnp.asarray(values[1])

    @tl_dpnp.fuse
    def joined():
        arrays[0] -= 1.5
        return dpnp.concatenate(arrays)

    @tl_dpnp.fuse
    def added(x):
        x -= 1.5
        return x + other

    for step in range(1, 3):
        expected = values[0] - 1.5 * step
        np.testing.assert_array_equal(joined().asnumpy(), np.concatenate([expected, values[1]]))
    x = dpnp.asarray(values[0])
    for step in range(1, 3):
        np.testing.assert_array_equal(added(x).asnumpy(), values[0] - 1.5 * step + values[1])


def test_what_frozen_objects_are_given():
    """The garbage collector does not say what frozen objects refer to; they get the caller's arrays all the same.

    They stay frozen where all that is kept is found near; a method taken from its class is not seen to change anything.
    """
    owner, rows, frozen = SimpleNamespace(pair=None), [], []

    @tl_dpnp.fuse
    def keeps_near(a, k):
        owner.pair = a, k
        rows.append([a, k])
        return a @ a * k

    @tl_dpnp.fuse
    def keeps(a, k):
        list.append(frozen, (a, [k]))
        return a @ a * k

    gc.freeze()
    try:
        for k in (2.5, 3.5):
            compare("a call", keeps_near(A, k), A @ A * k)
            assert gc.get_freeze_count()
            for found in (owner.pair, rows[-1]):
                assert found[0] is A
                assert (type(found[1]), found[1]) == (float, k)
        with pytest.warns(tl_dpnp.FusionWarning, match=r"gc\.unfreeze\(\) was called"):
            keeps(A, 2.5)
        for k in (2.5, 3.5):
            compare("a call", keeps(A, k), A @ A * k)
            assert frozen[-1][0] is A
            assert (type(frozen[-1][1][0]), frozen[-1][1][0]) == (float, k)
    finally:
        gc.unfreeze()


class Name(str):
    """A text of a class of its own."""


def test_names_of_attributes_of_a_class_of_their_own():
    values = SimpleNamespace(one=2.0, other=3.0)
    f = tl_dpnp.fuse(lambda x, name: x * getattr(values, name))
    for name in ("one", "other", "one"):
        compare(name, f(A, Name(name)), A * getattr(values, name))


class Typed:
    """An object whose methods, which nothing follows, tell the types of what they are given."""

    def __init__(self):
        object.__setattr__(self, "seen", [])

    def __add__(self, value):
        self.seen.append((type(value), type(getattr(value, "start", None))))
        return True

    __radd__ = __eq__ = __contains__ = __getitem__ = __add__
    __hash__ = object.__hash__

    def __setitem__(self, key, value):
        self.seen += [type(key), type(value)]

    def __setattr__(self, name, value):
        self.seen.append(type(value))


def test_code_that_is_not_followed_is_given_plain_numbers():
    def program(x, v, n, t):
        v.seen.append(v + n)
        v[n] = t
        v.name = n
        return x * n, n + v, v + t, v == n, n in v, v[n], v[n:t]

    f, numbers = tl_dpnp.fuse(program), [(2, 0.5), (2, 0.5), (3, 1.5), (1j, np.float32(2))]
    for n, t in numbers:
        fused, plain = Typed(), Typed()
        compare(f"{n}", f(A, fused, n, t), program(A, plain, n, t))
        assert fused.seen == plain.seen
