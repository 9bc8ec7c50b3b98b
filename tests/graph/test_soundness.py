"""A fused function never gives a stale result: whatever it read the first time is looked at again.

Each test shows what it is about by the value of a later call, and what happened by what plain Python leaves behind.
"""

import collections
import dataclasses
import enum
import functools
import logging
import math
import random
from random import gauss
from time import perf_counter
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare

fuse = tl_dpnp.fuse


def _random(*shape, dtype="f4", seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


A, B, C = _random(3, 4, 4), _random(3, 4, 4, seed=1), _random(3, 4, 4, seed=2)
FACTOR = 2
STATE = SimpleNamespace(k=2.0, inner=SimpleNamespace(k=3.0), weights=[A, B])


def _kept(function):
    return list(function._plans)


# --- what a plan depends on ------------------------------------------------------------------------------------------


def test_functions_that_are_given_count_by_what_they_are():
    f = fuse(lambda x, g: g(x))
    for k in (2, 3, 4):
        compare(f"{k}", f(A, lambda x, k=k: x * k), A * k)


def test_partial_objects_count_by_their_arguments():
    def multiply(k, x):
        return x * k

    f = fuse(lambda x, g: g(x))
    for k in (2, 3, 4.5):
        compare(f"{k}", f(A, functools.partial(multiply, k)), A * k)
    held = functools.partial(multiply, k=5)
    compare("keyword", f(A, lambda x: held(x=x)), A * 5)


class Scale:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k

    def go(self, x):
        return x @ x * self.k

    @property
    def double(self):
        return self.k * 2

    @classmethod
    def of_class(cls, x):
        return x * cls.factor

    factor = 2


SCALE = Scale(2)


def test_callable_objects_and_methods_count_by_what_they_read(monkeypatch):
    f = fuse(lambda x, g: g(x))
    one = Scale(2)
    for k in (2, 3.5, 4):
        one.k = k
        compare(f"{k}", f(A, one), A * k)
        compare(f"{k}", f(A, Scale(k)), A * k)
        compare(f"{k}", f(A, one.go), A @ A * k)
    g = fuse(lambda x: SCALE(x) + SCALE.go(x) + SCALE.double)
    for k in (2, 3, 0.5):
        SCALE.k = k
        compare(f"global {k}", g(A), A * k + A @ A * k + 2 * k)
    compare("replaced", (monkeypatch.setitem(globals(), "SCALE", Scale(7)), g(A))[1], A * 7 + A @ A * 7 + 14)


def test_two_paths_to_one_object_are_two_paths():
    class Pair:
        def __init__(self, one, other):
            self.one, self.other = one, other

    @fuse
    def f(p, x):
        return p.one.k * x + p.other(x)

    shared = Scale(2)
    compare("one object", f(Pair(shared, shared), A), 2 * A + A * 2)
    compare("two", f(Pair(Scale(2), Scale(5)), A), 2 * A + A * 5)
    g = fuse(lambda a, b, x: a.k * x + b.k)
    compare("one argument", g(shared, shared, A), 2 * A + 2)
    compare("two arguments", g(Scale(3), Scale(5), A), 3 * A + 5)


class Mode(enum.Enum):
    ADD = 1
    MULTIPLY = 2


def test_members_of_an_enum_differ():
    f = fuse(lambda x, mode: x + x if mode is Mode.ADD else x @ x)
    compare("add", f(A, Mode.ADD), A + A)
    compare("multiply", f(A, Mode.MULTIPLY), A @ A)
    g = fuse(lambda x, mode: x * mode.value)
    compare("add", g(A, Mode.ADD), A * 1)
    compare("multiply", g(A, Mode.MULTIPLY), A * 2)


@fuse
def _nested(x):
    return x * FACTOR + STATE.inner.k


def test_nested_functions_read_their_own_variables(monkeypatch):
    outer = fuse(lambda x: _nested(x) + 1)
    compare("first", outer(A), A * 2 + 3.0 + 1)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    compare("global", outer(A), A * 5 + 3.0 + 1)
    monkeypatch.setattr(STATE.inner, "k", 0.25)
    compare("attribute", outer(A), A * 5 + 0.25 + 1)


def test_attributes_of_classes_are_read_again(monkeypatch):
    class Layer:
        k = 2

        @classmethod
        @fuse
        def scaled(cls, x):
            return x * cls.k

        @staticmethod
        @fuse
        def plain(x):
            return x * Layer.k

    compare("first", Layer.scaled(A) + Layer.plain(A), A * 2 + A * 2)
    Layer.k = 3
    compare("second", Layer.scaled(A) + Layer.plain(A), A * 3 + A * 3)
    f = fuse(lambda x, s: s.of_class(x))
    compare("of an instance", f(A, Scale(1)), A * 2)
    monkeypatch.setattr(Scale, "factor", 7)
    compare("of an instance", f(A, Scale(1)), A * 7)
    monkeypatch.setattr(Scale, "of_class", lambda self, x: x - 1)
    compare("a new method", f(A, Scale(1)), A - 1)


class Model:
    def __init__(self, *layers):
        self.layers = list(layers)

    @fuse
    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_in_a_list_are_looked_at_again():
    model = Model(Scale(2), Scale(3.0))
    compare("first", model(A), A * 2 * 3.0)
    model.layers[1].k = 5.0
    compare("attribute", model(A), A * 2 * 5.0)
    assert len(_kept(Model.__call__)) == 1  # a float is no part of what a plan depends on
    model.layers.append(Scale(2))
    compare("a third", model(A), A * 2 * 5.0 * 2)
    model.layers[0] = lambda x: x + 1
    compare("another one", model(A), (A + 1) * 5.0 * 2)


def test_arrays_in_attributes_and_containers_are_inputs():
    @fuse
    def f(x, state, table):
        return x @ state.weights[0] + table["b"] * state.weights[1]

    state = SimpleNamespace(weights=[A, B])
    compare("first", f(A, state, {"b": C}), A @ A + C * B)
    state.weights = [B, C]
    compare("replaced", f(A, state, {"b": A}), A @ B + A * C)
    state.weights[1] = A
    compare("an element", f(A, state, {"b": A}), A @ B + A * A)
    assert len(_kept(f)) >= 1


def test_defaults_and_code_of_a_helper_are_looked_at_again():
    def helper(x, k=2, *, m=1.0):
        return x * k + m

    f = fuse(lambda x: helper(x))
    compare("first", f(A), A * 2 + 1.0)
    helper.__defaults__ = (3,)
    compare("defaults", f(A), A * 3 + 1.0)
    helper.__kwdefaults__["m"] = 4.0
    compare("keyword defaults", f(A), A * 3 + 4.0)
    helper.__code__ = (lambda x, k=2, *, m=1.0: x - k).__code__
    compare("code", f(A), A - 3)


def test_a_name_that_appears_later_is_seen(monkeypatch):
    f = fuse(lambda x: x * abs(-2))
    compare("builtin", f(A), A * 2)
    monkeypatch.setitem(globals(), "abs", lambda value: 5)
    compare("global", f(A), A * 5)


class WithSlot:
    __slots__ = ("extra",)


@pytest.mark.parametrize("kind", [SimpleNamespace, WithSlot])
def test_a_missing_attribute_that_appears_is_seen(kind):
    f = fuse(lambda x, s: x * getattr(s, "extra", 1))
    g = fuse(lambda x, s: x * (s.extra if hasattr(s, "extra") else 1))
    for function in (f, g):
        state = kind()
        compare("missing", function(A, state), A * 1)
        state.extra = 4
        compare("there", function(A, state), A * 4)
        del state.extra
        compare("missing again", function(A, state), A * 1)
        assert function.stats.plan_hits == 1


def test_an_empty_slot_of_an_object_of_the_function_s_own_keeps_the_plan():
    f = fuse(lambda x: x * getattr(WithSlot(), "extra", 2))
    for _ in range(3):
        compare("missing", f(A), A * 2)
    assert f.stats.plan_hits == 2


@pytest.mark.parametrize("value", [[1, 2], (3, 4), {"a": 1}, {1, 2}, "ab", range(3), np.arange(3)])
def test_values_in_closures_are_compared(value):
    held = value

    @fuse
    def f(x):
        return x * len(held)

    compare("first", f(A), A * len(held))
    held = type(value)() if not isinstance(value, range | np.ndarray) else value[:1]
    compare("second", f(A), A * len(held))


def test_what_builtins_take_of_containers_is_compared():
    weights = [1.0, 2.0]
    f = fuse(lambda x: x * sum(weights) + max(weights) + len(weights) + (2.0 in weights) + sorted(weights)[0])

    def expected():
        return A * sum(weights) + max(weights) + len(weights) + (2.0 in weights) + sorted(weights)[0]

    compare("first", f(A), expected())
    weights[1] = 7.0
    compare("an element", f(A), expected())
    weights.append(0.5)
    compare("one more", f(A), expected())
    table = {"a": 1, "b": [2, 3]}
    g = fuse(lambda x: x * table["a"] + sum(v if type(v) is int else sum(v) for v in table.values()) + ("c" in table))
    compare("dict", g(A), A * 1 + 6)
    table["b"][1] = 10
    compare("nested", g(A), A * 1 + 13)
    table["c"] = 0
    compare("a key", g(A), A * 1 + 14)


# --- what a function changes -----------------------------------------------------------------------------------------


def test_lists_and_dicts_are_changed_as_in_python():
    def f(a, out, state, cache):
        out.append(a @ a)
        state["x"] = a + 1
        state.update(y=a * 2, z=3)
        cache[0] = a - 1
        out += [a]
        return out

    for _ in range(3):
        plain, fused = ([], {}, [None]), ([], {}, [None])
        function = fuse(f)
        for _ in range(2):
            expected, result = f(A, *plain), function(A, *fused)
            assert result is fused[0]
            assert expected is plain[0]
        compare("out", fused[0], plain[0])
        assert fused[0][1] is A
        assert list(fused[1]) == list(plain[1])
        compare("state", list(fused[1].values()), list(plain[1].values()))
        compare("cache", fused[2], plain[2])


def test_attributes_are_assigned_at_each_call():
    @fuse
    def step(state, dt):
        state.q = state.q + dt * (state.q @ B)
        state.t += dt
        state.steps = state.steps + 1

    def plain(state, dt):
        state.q = state.q + dt * (state.q @ B)
        state.t += dt
        state.steps = state.steps + 1

    one, other = (SimpleNamespace(q=A, t=0.0, steps=0) for _ in range(2))
    for dt in (0.1, 0.2, 0.3):
        step(one, dt)
        plain(other, dt)
        compare("q", one.q, other.q)
        assert (one.t, one.steps) == (other.t, other.steps)
        assert type(one.t) is float
        assert type(one.q) is dpnp.ndarray


def test_a_changing_number_needs_no_new_kernel():
    @fuse
    def step(q, dt):
        return q - 0.5 * dt * (q @ q)

    for number in range(20):
        dt = 0.01 * (number + 1)
        compare(f"{dt}", step(A, dt), A - 0.5 * dt * (A @ A))
    assert step._compilations == 1
    assert len(_kept(step)) == 1


def test_numbers_that_decide_and_numbers_that_compute():
    @fuse
    def f(q, dt, n):
        c = math.sqrt(dt) / 2 if dt < 1 else -dt
        return q * c + (dt ** 2) * n

    for dt in (0.25, 0.5, 4.0, 0.25, 9.0):
        compare(f"{dt}", f(A, dt, 3), A * (math.sqrt(dt) / 2 if dt < 1 else -dt) + (dt ** 2) * 3)
    g = fuse(lambda q, dt: q / (1.0 / dt))
    compare("first", g(A, 2.0), A / 0.5)
    with pytest.raises(ZeroDivisionError):
        g(A, 0.0)
    compare("after", g(A, 4.0), A / 0.25)


# --- what has to happen at each call ---------------------------------------------------------------------------------


def test_time_and_random_numbers_are_new_at_each_call():
    import random as inside

    for draw in (lambda: np.random.rand(), lambda: gauss(0, 1), lambda: inside.random(), lambda: random.uniform(0, 1),
                 lambda: perf_counter(), lambda: np.random.default_rng().normal()):
        f = fuse(lambda x, draw=draw: x * 0 + draw())
        values = {float(f(dpnp.ones(3))[0]) for _ in range(4)}  # f64: f32 has no milliseconds after some hours
        assert len(values) > 1


def test_messages_are_logged_at_each_call(caplog):
    logger = logging.getLogger("tests.fuse")

    @fuse
    def f(x):
        logger.warning("step")
        return x @ x

    for _ in range(3):
        compare("value", f(A), A @ A)
    assert len(caplog.records) == 3


class Counter:
    def __init__(self):
        self.calls = 0

    def next(self):
        self.calls += 1
        return self.calls


def test_objects_that_change_themselves():
    counter = Counter()
    f = fuse(lambda x: x * counter.next())
    for number in (1, 2, 3):
        compare(f"{number}", f(A), A * number)
    iterator = iter([10, 20, 30])
    g = fuse(lambda x: x * next(iterator))
    for number in (10, 20, 30):
        compare(f"{number}", g(A), A * number)
    with pytest.raises(StopIteration):
        g(A)


def test_an_exception_that_is_caught():
    def f(a, b):
        try:
            return a @ b
        except ValueError:
            return a * 2

    function = fuse(f)
    for b in (B, _random(3, 5, 4), B):
        compare("value", function(A, b), f(A, b))


# --- classes and results ---------------------------------------------------------------------------------------------


@dataclasses.dataclass
class State:
    q: object
    t: float
    history: list = dataclasses.field(default_factory=list)


Named = collections.namedtuple("Named", "x y")


def test_results_of_classes_are_made_again():
    @fuse
    def step(state, dt):
        return State(state.q + dt * (state.q @ B), state.t + dt, [*state.history, state.t])

    state = State(A, 0.0)
    q, t = A, 0.0
    for dt in (0.1, 0.2, 0.3):
        new = step(state, dt)
        assert new is not state
        q, t, state = q + dt * (q @ B), t + dt, State(new.q, new.t)
        compare("q", new.q, q)
        assert new.t == pytest.approx(t)
        assert type(new.t) is float
        assert type(new) is State
    named = fuse(lambda p: Named(p.x @ p.y, p.x))
    for _ in range(2):
        result = named(Named(A, B))
        compare("x", result.x, A @ B)
        assert result.y is A


def test_objects_that_are_the_same_twice_stay_the_same():
    def f(a):
        c = a @ a
        row = [c]
        return row, row, c, a

    function = fuse(f)
    for _ in range(2):
        one, other, c, a = function(A)
        assert one is other
        assert one[0] is c
        assert a is A


def test_what_was_there_before_is_returned_itself():
    state = SimpleNamespace(q=A)
    f = fuse(lambda s, g: (s, g, s.q, s.q @ s.q))
    for given in ([1, A], [1, B]):
        same, items, q, product = f(state, given)
        assert same is state
        assert items is given
        assert q is state.q
        compare("product", product, state.q @ state.q)
        state.q = B


def test_the_same_array_in_several_places():
    f = fuse(lambda a, b, c: (a @ b, c))
    for arguments in ((A, A, B), (A, B, B), (A, A, C), (A, A, A)):
        product, last = f(*arguments)
        compare("product", product, arguments[0] @ arguments[1])
        assert last is arguments[2]


def test_whether_two_arrays_are_the_same_object():
    state = SimpleNamespace(one=A, other=B, items=[A, C])

    def function(x):
        return x * 2, x is state.one, state.one is not state.other, state.items[0] is state.items[1]

    f = fuse(function)
    changes = [
        {}, {"one": C}, {"other": C}, {"items": [C, C]}, {"items": [C, A]}, {"one": B}, {"other": A}, {}, {"one": C},
    ]
    for number, change in enumerate(changes):
        vars(state).update(change)
        for x in (C, A, C):
            compare(f"{number}", f(x), function(x))
    assert f.stats.plan_hits > len(changes)
