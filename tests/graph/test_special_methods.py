"""What C code asks of objects of the user is looked at again: special methods, functions for keys, classes, bases.

Each function is called before and after a change; the second value is what plain Python gives.
"""

import abc
import dataclasses
import enum
import functools
import operator
from collections.abc import Callable
from typing import Any

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import IS_CURRENT, compare

fuse = tl_dpnp.fuse
A = dpnp.asarray(np.random.default_rng(0).normal(size=(3, 4)).astype("f4"))
NUMBERS = [3, 1, 2]
TIMES = {"n": 2}


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

    def __index__(self):
        return self.k

    def __iter__(self):
        return iter(range(self.k))

    def __format__(self, spec):
        return "x" * self.k

    def __instancecheck__(self, value):
        return self.k > 2


def _inserted(place):
    numbers = list(range(6))
    numbers.insert(place, 9)
    return numbers[2]


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
    lambda x, o: x * len(format(o)),
    lambda x, o: x * len("{}".format(o)),  # noqa: UP032, the method is what this is about
    lambda x, o: x * float(o),
    lambda x, o: x * len(list(o)),
    lambda x, o: x * len(range(o)),
    lambda x, o: x * len(list(zip(o, o))),  # noqa: B905
    lambda x, o: x * _inserted(o),
    lambda x, o: x * isinstance(x, o),
    lambda x, o: x * sorted(NUMBERS, key=o)[0],
    lambda x, o: x * max(NUMBERS, key=o),
    lambda x, o: x * min(3, 1, 2, key=o),
    lambda x, o: x * functools.reduce(o, NUMBERS),
    pytest.param(lambda x, o: operator.call(o, x), marks=pytest.mark.skipif(
        not hasattr(operator, "call"), reason="it came with Python 3.11")),
    lambda x, o: x * next(iter(sorted(NUMBERS, key=functools.partial(o, y=1)))),
], ids=[
    *"len abs round format str.format float list range zip insert isinstance sorted max min reduce call".split(),
    "partial",
])
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


class Key:
    """An object that is compared by what it holds."""

    def __init__(self, k):
        self.k = k

    def __hash__(self):
        return 3

    def __eq__(self, other):
        return self.k == other.k

    def __lt__(self, other):
        return self.k < other.k


KEYS = [Key(1), Key(2)]


def _stored(a, b):
    found = {}
    found[a] = 1
    found[b] = 2
    return found


def _found(a, b):
    return {a: 3}.setdefault(b, 5)


def _removed(a, b):
    found = [b, a, 3]
    found.remove(a)
    return [found[0].k] * (found[0].k + 2)


def _sorted(a, b):
    found = [b, a]
    found.sort()
    return [0] * (KEYS.index(found[0]) + 1)


def _added(a, b):
    found = {a}
    found.add(b)
    return found


@pytest.mark.parametrize("counted", [
    lambda a, b: {a: 1, b: 2}, lambda a, b: {a, b}, lambda a, b: {*KEYS}, lambda a, b: {k for k in KEYS},  # noqa: C416
    lambda a, b: {k: 1 for k in KEYS},  # noqa: C420
    lambda a, b: dict([(a, 1), (b, 2)]),  # noqa: C406
    lambda a, b: {(a, 1): 1, (b, 1): 2}, lambda a, b: [0] * _found(a, b), lambda a, b: [0] * {b: 3, a: 1}[b],
    lambda a, b: [0] * (1 + max(KEYS, key=lambda key: key).k), _stored, _removed, _sorted, _added,
], ids="dict set unpacked setcomp dictcomp calls tuples setdefault item max set_item remove sort add".split())
def test_keys_that_are_compared_by_code_of_the_user(counted):
    KEYS[1].k = 2
    _as_plain_after(lambda x: x * len(counted(*KEYS)), lambda: setattr(KEYS[1], "k", 1))
    _as_plain_after(lambda x: x * len(counted(*KEYS)), lambda: setattr(KEYS[1], "k", 0))


def test_numbers_as_keys_leave_a_plan():
    f = fuse(lambda x, t: x * len({t: 1, 2.0: 3, "a": t}) + len({t, 2.0, *NUMBERS}))
    for t, count in ((2.0, 2), (2.5, 3), (2.0, 2)):
        compare(f"{t}", f(A, t), A * count + len({t, 2.0, *NUMBERS}))
    assert f.stats.plan_hits == 1


def test_numbers_as_keys_stay_in_their_order():
    def f(x, t, n):
        found = {}
        found[n] = t
        found[t] = n
        found["x"] = x
        return found

    fused = fuse(f)
    for t, n in ((2.0, 1), (1.0, 2), (0.5, 3), (0.5, 3), (2.0, 1)):
        assert [(type(key), key) for key in fused(A, t, n)] == [(int, n), (float, t), (str, "x")]


class Mode(enum.Enum):
    A = 1
    B = 2

    def __str__(self):
        return self.name * TIMES["n"]

    def __bool__(self):
        return TIMES["n"] > 2


class OfText:
    def __repr__(self):
        return "x" * TIMES["n"]


class Counted(type):
    def __len__(cls):
        return TIMES["n"]

    def __getitem__(cls, key):
        return TIMES[key]


class OfCounted(metaclass=Counted):
    pass


class WithItems:
    def __class_getitem__(cls, key):
        return TIMES[key]


@dataclasses.dataclass
class Assigning:
    k: float

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * TIMES["n"])


class Times:
    def __get__(self, owner, kind=None):
        return 1.5 if owner is None else owner.__dict__["k"]

    def __set__(self, owner, value):
        owner.__dict__["k"] = value * TIMES["n"]


@dataclasses.dataclass
class Described:
    k: float = Times()


@pytest.mark.parametrize("function", [
    lambda x: x * Assigning(2.0).k, lambda x: x * Described(2.0).k, lambda x: x * Described().k,
], ids=["__setattr__", "descriptor", "descriptor with a default"])
def test_what_a_data_class_does_where_it_assigns(function, monkeypatch):
    _as_plain_after(function, lambda: monkeypatch.setitem(TIMES, "n", 4))
    _as_plain_after(function, lambda: monkeypatch.setattr(Assigning, "__setattr__", object.__setattr__))


@pytest.mark.parametrize("function", [
    lambda x: x * len(f"{Mode.A}"), lambda x: x * len(str(Mode.B)),
    lambda x: x * len(f"{[OfText()]}"), lambda x: x * len(str([OfText()])),
    lambda x: x * len("%s" % (Mode.A,)), lambda x: x * len("{}".format([Mode.A, OfText()])),  # noqa: UP031, UP032
    lambda x: x if Mode.A else x * 5,
    lambda x: x * len(OfCounted), lambda x: x * OfCounted["n"], lambda x: x * WithItems["n"],
], ids=["formatted", "str", "formatted list", "str of a list", "percent", "format of a list", "bool", "metaclass",
        "item by a metaclass", "item of a class"])
def test_methods_of_enumerations_and_metaclasses(function, monkeypatch):
    _as_plain_after(function, lambda: monkeypatch.setitem(TIMES, "n", 4))


def test_members_with_a_text_of_their_own_are_compared_from_a_plan():
    f = fuse(lambda x, m: x * 2 if m == Mode.A or {Mode.A: 3}.get(m) else x * (m in (Mode.B, None)))
    for _ in range(2):
        compare("A", f(A, Mode.A), A * 2)
        compare("B", f(A, Mode.B), A * 1)
    assert f.stats.plan_hits == 2


class Place:
    def __init__(self, k):
        self.k = k

    def __index__(self):
        return self.k


def test_an_object_that_dpnp_takes_for_a_number():
    place = Place(0)
    _as_plain_after(lambda x: x.sum(axis=place), lambda: setattr(place, "k", 1))
    _as_plain_after(lambda x: dpnp.moveaxis(x[None], place, 0), lambda: setattr(place, "k", 0))
    if IS_CURRENT:
        _as_plain_after(lambda x: dpnp.roll(x, place), lambda: setattr(place, "k", 1))
        return
    for f in (lambda x: dpnp.roll(x, place), fuse(lambda x: dpnp.roll(x, place))):
        with pytest.raises(TypeError):
            f(A)


class Finalized:
    gone = 0

    def __init__(self, value):
        self.value = value

    def __del__(self):
        Finalized.gone += 1


def test_what_is_done_when_an_object_goes_is_done_at_each_call():
    f = fuse(lambda x: Finalized(x * 2).value)
    before = Finalized.gone
    for number in range(1, 4):
        compare("value", f(A), A * 2)
        assert Finalized.gone - before == number


# --- the function itself ---------------------------------------------------------------------------------------------


def test_defaults_and_code_are_assigned_to_the_function():
    def plain(x, n=3, *, m=2):
        return x * n + m

    plain.kind = "linear"
    f = fuse(plain)
    assert f.kind == "linear"
    compare("before", f(A), A * 3 + 2)
    f.__defaults__ = (5,)
    compare("defaults", f(A), A * 5 + 2)
    f.__kwdefaults__ = {"m": 7}
    compare("keyword defaults", f(A), A * 5 + 7)
    f.__code__ = (lambda x, n=0, *, m=0: x - n - m).__code__
    compare("code", f(A), A - 5 - 7)
    assert (f.__defaults__, plain.__defaults__) == ((5,), (5,))
    assert not hasattr(f, "missing")


def test_a_block_inside_a_fused_function_is_a_part_of_it():
    def f(x, y):
        b = x * 2
        with tl_dpnp.fusing(b, x) as (c, d):
            c += d
            e = c @ y
            with tl_dpnp.fusing(c) as (g,):
                g *= 3
        return b, e

    fused = fuse(f)
    y = A.T.copy()
    for _ in range(3):
        compare("result", fused(A, y), (A * 9, A * 3 @ y))
    with tl_dpnp.fusing(A) as (a,):
        result = f(a, y)
    compare("in a block", result, (A * 9, A * 3 @ y))


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
