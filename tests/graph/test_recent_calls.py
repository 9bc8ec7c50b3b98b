"""Calls that machine code knows again by the looks of their arguments: never as calls with other arguments."""

from __future__ import annotations

import enum

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import known_after, short_calls_after
from tl_dpnp import config
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.unpacking import unpacking
from tl_dpnp.runtime.sycl.tensor_adapter import ExecutionPlacementError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

CALLS = 3


@pytest.fixture(autouse=True, params=[known_after, short_calls_after], ids=["by plans", "by machine code"])
def _soon(request):
    """Know calls soon, by plans, or with what machine code runs as a whole where it can."""
    with request.param(CALLS):
        yield


def remembered(function, *arguments):
    """Call a function until its plan is found by machine code."""
    for _ in range(CALLS + 2):
        function(*arguments)
    assert len(function._recent.calls) >= 1
    return function


def numbers(*shape, dtype="float64"):
    return dpnp.asarray(np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape).astype(dtype))


def test_arrays_of_other_kinds_are_other_calls():
    @tl_dpnp.fuse(recompile_limit=100)
    def step(a, b):
        return a * b + a

    x, y = numbers(6, 4), numbers(6, 4) - 3
    remembered(step, x, y)
    plain = step.function
    writable = dpnp.asarray(dpt.ones((6, 4)))
    writable._array_obj.flags.writable = False
    for a, b in (
        (x, y), (y, x), (x, x), (numbers(6, 4, dtype="float32"), y), (numbers(4, 6).T, y), (x[::2], y[::2]),
        (numbers(4), y), (x[:, :1], y), (numbers(6, 4, dtype="int64"), y), (writable, y), (x[:0], y[:0]),
        (dpnp.asarray(numbers(6, 4), usm_type="shared"), y), (dpnp.asarray(x, order="F"), y),
        (dpt.asarray(dpnp.asnumpy(x)), dpt.asarray(dpnp.asnumpy(y))),
    ):
        for _ in range(CALLS + 2):
            result, expected = step(a, b), plain(a, b)
            assert type(result) is type(expected)
            assert result.dtype == expected.dtype
            assert result.usm_type == expected.usm_type
            assert np.array_equal(np.asarray(dpt.to_numpy(getattr(result, "_array_obj", result))),
                                  np.asarray(dpt.to_numpy(getattr(expected, "_array_obj", expected))))


def test_arrays_on_another_queue_are_another_call():
    @tl_dpnp.fuse
    def double(a):
        return a + a

    x = numbers(5)
    remembered(double, x)
    queue = dpctl.SyclQueue(x.sycl_device)
    other = dpnp.asarray(np.arange(5.0), sycl_queue=queue)
    result = double(other)
    assert result.sycl_queue == queue
    assert dpnp.asnumpy(result).tolist() == [0, 2, 4, 6, 8]
    mixed = tl_dpnp.fuse(lambda a, b: a + b)
    with pytest.raises(ExecutionPlacementError):
        mixed(x, other)


def test_numbers_are_those_of_the_call():
    @tl_dpnp.fuse
    def scaled(a, factor, times):
        for _ in range(times):
            a = a * factor
        return a

    x = numbers(7)
    for _ in range(CALLS + 2):
        scaled(x, 2.0, 1)
    for factor, times in ((2.0, 1), (3.0, 1), (3.0, 2), (np.float32(0.5), 1), (2, 1), (True, 2), (-0.0, 1)):
        for _ in range(CALLS + 2):
            assert np.array_equal(dpnp.asnumpy(scaled(x, factor, times)), dpnp.asnumpy(x) * float(factor) ** times)


def test_an_argument_that_the_function_reshapes_is_no_pattern():
    @tl_dpnp.fuse(recompile_limit=100)
    def reshaped(a):
        result = a * 2
        a.shape = (a.size,)
        return result

    for _ in range(CALLS + 2):
        assert reshaped(numbers(2, 3)).shape == (2, 3)
    for _ in range(CALLS + 2):
        assert reshaped(numbers(6)).shape == (6,)
        assert reshaped(numbers(3, 2)).shape == (3, 2)


SHIFT = 1.0


def shifted(a):
    return a + SHIFT


def test_what_is_read_from_outside_is_looked_at(monkeypatch):
    function = remembered(tl_dpnp.fuse(shifted), numbers(3))
    monkeypatch.setattr(f"{__name__}.SHIFT", 5.0)
    for _ in range(CALLS + 2):
        assert dpnp.asnumpy(function(numbers(3))).tolist() == [6, 7, 8]
    monkeypatch.setattr(f"{__name__}.SHIFT", 1.0)
    assert dpnp.asnumpy(function(numbers(3))).tolist() == [2, 3, 4]


def test_arrays_that_overlap_are_another_call():
    @tl_dpnp.fuse
    def write(a, b):
        a[...] = b[::-1] + 1

    def run(function):
        x = numbers(8)
        function(x[:5], x[3:])
        return dpnp.asnumpy(x).tolist()

    remembered(write, numbers(5), numbers(5))
    for _ in range(CALLS + 2):
        assert run(write) == run(write.function)


def test_what_is_traced_again_is_known_by_its_arguments_too():
    seen = []

    @tl_dpnp.fuse(recompile_limit=100)
    def step(a, b, factor):
        seen.append(factor)
        return a * factor + b if a.shape[0] > 4 else a - b

    x, y = numbers(6), numbers(6) - 3
    remembered(step, x, y, 2.0)
    others = [
        (x, y, 2.5), (x, y, 3), (y, x, -1.0), (x, x, 2.0), (numbers(3), numbers(3), 2.0),
        (numbers(6, dtype="float32"), numbers(6, dtype="float32"), 2.0), (numbers(12)[::2], y, 2.0), (x, y, 2.0),
    ]
    for arguments in others:
        result, expected = step(*arguments), step.function(*arguments)
        assert result.dtype == expected.dtype
        assert dpnp.asnumpy(result).tolist() == dpnp.asnumpy(expected).tolist()
        assert seen.pop() == seen.pop() == arguments[2]
    assert step.explain(x, y, 2.0).again


def test_a_traced_function_that_keeps_or_changes_its_arguments():
    kept, times = [], []

    @tl_dpnp.fuse
    def step(a, b):
        times.append(1)
        kept.append(a)
        b += a
        return b

    x, y = numbers(4), numbers(4) * 0
    for number in range(1, 2 * CALLS + 4):
        assert step(x, y) is y
        assert kept.pop() is x
        assert dpnp.asnumpy(y).tolist() == [number * value for value in (1, 2, 3, 4)]
        assert len(times) == number
    assert step._recent.calls


def test_keywords_and_clearing_take_the_other_way():
    @tl_dpnp.fuse
    def step(a, b):
        return a - b

    x, y = numbers(4), numbers(4) * 2
    remembered(step, x, y)
    assert dpnp.asnumpy(step(b=x, a=y)).tolist() == [1, 2, 3, 4]
    step.clear()
    assert step._recent.calls == ()
    assert dpnp.asnumpy(step(x, y)).tolist() == [-1, -2, -3, -4]


class Weights:
    """An object that a key has by its class."""

    def __init__(self, w):
        self.w = w


class Mode(enum.Enum):
    A, B = 1, 2


def test_a_call_ends_though_its_plan_is_forgotten_meanwhile(monkeypatch):
    """As another thread does it by `clear`, or by calls of many other kinds."""
    @tl_dpnp.fuse
    def step(v):
        return 2 * v + 1

    x = dpnp.arange(4.0)
    step(x)
    run = Specialization.run

    def run_and_forget(self, *call):
        found = run(self, *call)
        step.clear()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Specialization, "run", run_and_forget)
        assert step(x).asnumpy().tolist() == [1, 3, 5, 7]
    assert step(x).asnumpy().tolist() == [1, 3, 5, 7]
    assert step.stats.traces == 1


def test_arguments_unpack_where_their_keys_are_alike():
    x, y, weights = numbers(3), numbers(3), Weights(numbers(3))
    calls = [
        (), (x,), (x, y), (x, 2.0), (x, 3.0), (x, 2), (x, np.float32(2)), (x, True), (x, False), (x, None), (x, ...),
        (x, "text"), (x, "other"), (x, b"text"), ([x, y],), ((x, y),), ([x],), ([],), ((),), ([x, [y]],), ([[x], y],),
        ({"a": x, "b": 2.0},), ({"b": 2.0, "a": x},), ({"a": x},), ({},), ({"a": [x, 1.0]},), (x, weights), (weights,),
        (x, Weights(y)), (x, Weights), (x, numbers), (x, len), (x, np), (x, Mode.A), (x, Mode.B), (2.0,), (1, 2.0),
        (Mode.A, [weights, {"a": None}]), (x, (weights, True)), (x, weights.__init__), (x, "text", 2.0),
    ]

    def key(arguments):
        made = CallKey()
        for value in arguments:
            made.add(value)
        return made

    for one in calls:
        unpack = unpacking(one)
        for other in calls:
            values, expected = unpack(other), key(other)
            assert (values is not None) == (key(one).parts == expected.parts), (one, other)
            if values is not None:
                assert [v for v in values if isinstance(v, dpnp.ndarray)] == expected.originals
                assert [v for v in values if not isinstance(v, dpnp.ndarray)] == expected.scalars


@pytest.mark.parametrize("value", [slice(2), range(3), np.bool_(1), np.dtype("f4"), {1: 2.0}, {"a": [range(2)]}])
def test_other_arguments_do_not_unpack(value):
    assert unpacking((numbers(3), value)) is None


def test_calls_with_objects_and_containers_are_known_by_what_is_in_them():
    @tl_dpnp.fuse(recompile_limit=100)
    def step(x, weights, more, mode="A"):
        total = x * weights.w
        for array in more:
            total = total + array if mode == "A" else total - array
        weights.seen = True  # so that it is traced at each call
        return total

    x, weights = numbers(3), Weights(numbers(3))
    for _ in range(CALLS + 2):
        step(x, weights, [x + 1, x + 2])
    assert step._recent.calls
    for arguments in (
        (x, weights, [x, x + 1]), (x, weights, [x]), (x, Weights(x + 1), [x, x]), (x, weights, (x, x)),
        (x, weights, []), (x, weights, [x, x + 1], "B"),
        (x, weights, [x, 2.0]), (x, weights, [x, numbers(1)]), (x, weights, [x, x + 1]),
    ):
        result, expected = step(*arguments), step.function(*arguments)
        assert dpnp.asnumpy(result).tolist() == dpnp.asnumpy(expected).tolist()


def test_a_setting_leaves_it_away():
    with config.scope(SHORT_CALLS=False):
        @tl_dpnp.fuse
        def twice(a):
            return a + a

        x = numbers(4)
        for _ in range(CALLS + 2):
            twice(x)
    assert twice._recent.calls == ()


def test_arguments_by_name_are_those_in_their_places(monkeypatch):
    @tl_dpnp.fuse
    def step(a, b, scale=2.0, *, shift=1.0):
        return a * b * scale - a + shift

    x, y = numbers(6, 4), numbers(6, 4) - 3
    plain = step.function
    remembered(step, x, y)
    with monkeypatch.context() as patched:
        patched.setattr(step, "_key", None)
        for call in (lambda f: f(x, b=y), lambda f: f(b=y, a=x), lambda f: f(a=x, b=y)):
            np.testing.assert_array_equal(call(step).asnumpy(), call(plain).asnumpy())
    for call in (
        lambda f: f(x, scale=3.0, b=y), lambda f: f(y, b=x, shift=4.0), lambda f: f(shift=0.5, scale=4.0, b=x, a=y),
    ):
        for _ in range(CALLS + 2):
            np.testing.assert_array_equal(call(step).asnumpy(), call(plain).asnumpy())
    for wrong in ({"a": x}, {"c": y}, {"b": y, "c": y}, {"b": y, "scale": 1.0, "shift": 1.0, "d": 2.0}):
        with pytest.raises(TypeError):
            step(x, **wrong)
    step.clear()
    step.warmup(tl_dpnp.spec(x.shape, x.dtype), b=tl_dpnp.spec(y.shape, y.dtype))
    compiled = step.stats.compilations
    np.testing.assert_array_equal(step(b=y, a=x).asnumpy(), plain(x, y).asnumpy())
    assert step.stats.compilations == compiled


def test_functions_that_can_tell_see_arguments_by_name():
    @tl_dpnp.fuse
    def collected(a, *others, **named):
        return a * (len(others) + 2 * len(named)) + sum(named.values())

    @tl_dpnp.fuse
    def only_in_place(a, /, **a_named):
        return a + a_named["a"] * 2

    x, y = numbers(6, 4), numbers(6, 4) - 3
    for _ in range(CALLS + 2):
        np.testing.assert_array_equal(collected(x, b=y).asnumpy(), (x * 2 + y).asnumpy())
        np.testing.assert_array_equal(collected(x, y).asnumpy(), x.asnumpy())
        np.testing.assert_array_equal(only_in_place(x, a=y).asnumpy(), (x + y * 2).asnumpy())


def test_a_bound_method_takes_arguments_by_name():
    class Model:
        def __init__(self, weight):
            self.weight = weight

        def step(self, a, b):
            return a * self.weight - b

    x, y = numbers(6, 4), numbers(6, 4) - 3
    model = Model(2.0)
    step = tl_dpnp.fuse(model.step)
    for _ in range(CALLS + 2):
        np.testing.assert_array_equal(step(b=y, a=x).asnumpy(), (x * 2 - y).asnumpy())
