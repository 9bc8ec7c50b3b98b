"""What C code asks of objects of the user is looked at again: special methods, functions for keys, classes, bases.

Each function is called before and after a change; the second value is what plain Python gives.
"""

import abc
import functools
import operator
from collections.abc import Callable
from typing import Any

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare

fuse = tl_dpnp.fuse
A = dpnp.asarray(np.random.default_rng(0).normal(size=(3, 4)).astype("f4"))
NUMBERS = [3, 1, 2]


class Sized:
    """An object with special methods that can be called as well."""

    def __init__(self, k):
        self.k = k

    def __call__(self, x, y=0):
        return x * self.k + y

    def __len__(self):
        return self.k

    def __abs__(self):
        return self.k

    def __round__(self, digits=None):
        return self.k

    def __format__(self, spec):
        return "x" * self.k

    def __instancecheck__(self, value):
        return self.k > 2


def _as_plain_after(function: Callable[..., Any], change: Callable[[], None]) -> None:
    """Fail unless a fused function gives what the function gives, before and after a change."""
    fused = fuse(function)
    for _ in range(2):
        compare("before", fused(A), function(A))
    change()
    for _ in range(2):
        compare("after", fused(A), function(A))


@pytest.mark.parametrize("function", [
    lambda x, o: x * len(o),
    lambda x, o: x * abs(o),
    lambda x, o: x * round(o),
    lambda x, o: x * len(f"{format(o)}"),
    lambda x, o: x * len("{}".format(o)),  # noqa: UP032, the method is what this is about
    lambda x, o: x * isinstance(x, o),
    lambda x, o: x * sorted(NUMBERS, key=o)[0],
    lambda x, o: x * max(NUMBERS, key=o),
    lambda x, o: x * min(3, 1, 2, key=o),
    lambda x, o: x * functools.reduce(o, NUMBERS),
    lambda x, o: operator.call(o, x),
    lambda x, o: x * next(iter(sorted(NUMBERS, key=functools.partial(o, y=1)))),
], ids="len abs round format str.format isinstance sorted max min reduce call partial".split())
def test_what_an_object_that_can_be_called_does_elsewhere(function):
    one = Sized(2)
    _as_plain_after(lambda x: function(x, one), lambda: setattr(one, "k", 5))
    other = Sized(2)
    _as_plain_after(lambda x: function(x, other), lambda: setattr(other, "k", -0 if "len" in str(function) else 1))


def test_a_list_is_sorted_by_what_an_object_says():
    order = Sized(1)

    def first(x):
        numbers = list(NUMBERS)
        numbers.sort(key=order)
        return x * numbers[0]

    _as_plain_after(first, lambda: setattr(order, "k", -1))


def double(x):
    return x * 2


def test_functions_in_containers_stay_themselves():
    outside, named = [], {double: 3}

    def f(x):
        outside.append(double)
        own = [double, dpnp.matmul]
        own.insert(0, outside[-1])
        found = own.index(double), own.count(double), named.get(double, 7), outside[-1] is double, own[2] is dpnp.matmul
        return own[0](x), found

    for _ in range(2):
        result, found = fuse(f)(A)
        compare("called", result, A * 2)
        assert found == (0, 2, 3, True, True)
    assert outside == [double, double]


# --- classes ---------------------------------------------------------------------------------------------------------


class Base:
    def go(self, x):
        return x * 2


class Other(Base):
    def go(self, x):
        return x * 7


class Middle(Base):
    pass


class Derived(Middle):
    def go(self, x):
        return super().go(x) + 1


class Registry(abc.ABC):  # noqa: B024, others are registered with it
    pass


@pytest.fixture
def derived():
    yield Derived()
    Derived.__bases__ = (Middle,)


@pytest.mark.parametrize("function", [
    lambda x, o: x * 2 if isinstance(o, Middle) else x,
    lambda x, o: x * 2 if isinstance(o, int | Other) else x,
    lambda x, o: x * 2 if issubclass(Derived, (float, (Other, str))) else x,
    lambda x, o: o.go(x),
], ids=["isinstance", "union", "issubclass", "super"])
def test_bases_that_change(function, derived):
    def f(x):
        return function(x, derived)

    _as_plain_after(f, lambda: setattr(Derived, "__bases__", (Other,)))


def test_objects_are_told_apart_by_their_classes_from_a_plan(derived):
    f = fuse(lambda x, o: x * 2 if isinstance(o, Middle) else x * 3)
    for _ in range(3):
        compare("one", f(A, derived), A * 2)
        compare("other", f(A, Other()), A * 3)
    assert f.stats.plan_hits == 4


def test_a_class_that_is_registered_later():
    one = Other()
    _as_plain_after(lambda x: x * 2 if isinstance(one, Registry) else x, lambda: Registry.register(Other))


def test_the_class_of_a_number_does_not_fix_its_value():
    f = fuse(lambda x, t: x * t if isinstance(t, float) else x)
    for t in (0.5, 1.5, 2.5):
        compare(f"{t}", f(A, t), A * t)
    assert f.stats.plans == 1


class Doubled(property):
    def __get__(self, instance, owner=None):
        return super().__get__(instance, owner) * 2


class WithProperty:
    def __init__(self, k):
        self._k = k

    @Doubled
    def k(self):
        return self._k


def test_a_property_of_a_class_of_its_own():
    one = WithProperty(3)
    _as_plain_after(lambda x: x * one.k, lambda: setattr(one, "_k", 5))


# --- values that compare equal ---------------------------------------------------------------------------------------

STATE: dict[str, Any] = {}


@pytest.mark.parametrize(("one", "other"), [
    ({1: 2}, {True: 2}), ({True: 2}, {1: 2}), (range(0, 3, 2), range(0, 4, 2)), (range(0), range(5, 5)),
    (np.complex64(0), np.complex64(complex(0.0, -0.0))),
], ids=str)
def test_values_that_compare_equal_and_differ(one, other):
    STATE["value"] = one
    f = fuse(lambda x: (x * len(str(STATE["value"])), str(STATE["value"]), list(STATE["value"])
                        if isinstance(STATE["value"], dict) else None))
    for value in (one, other, one):
        STATE["value"] = value
        result, text, keys = f(A)
        assert text == str(value)
        compare("result", result, A * len(str(value)))
        assert keys is None or [type(key) for key in keys] == [type(key) for key in value]
