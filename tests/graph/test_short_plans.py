"""Calls that machine code runs as a whole: their results are nobody else's, and nothing is left behind."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import Any, NamedTuple

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import short_calls_after
from tl_dpnp import config
from tl_dpnp.graph import plan, short_plans
from tl_dpnp.runtime.sycl import result_arrays
from tl_dpnp.runtime.sycl.memory_pool import MemoryPool

CALLS = 3
WEIGHTS = dpnp.asarray(np.arange(4.0))
SHIFT = 1.0


@pytest.fixture(autouse=True)
def _soon():
    with short_calls_after(CALLS):
        yield


def short(function, *arguments, **options):
    """Fuse a function, and call it until machine code runs its calls."""
    made = tl_dpnp.fuse(function, **options)
    for _ in range(CALLS + 2):
        made(*arguments)
    assert made._recent.short
    return made


def random(*shape, seed=0, dtype="float64"):
    return dpnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def many(count, results):
    """Return a function of so many arrays that returns so many."""
    def function(*arrays):
        total = arrays[0]
        for array in arrays[1:]:
            total = total * 0.5 + array
        made = tuple(total + number for number in range(results))
        return made if results > 1 else made[0]

    return function


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize(("count", "results"), [(1, 1), (2, 3), (3, 2), (5, 1), (8, 3)])
def test_arrays_and_results_of_any_number(count, results, dtype):
    arrays = [random(3, 4, seed=n, dtype=dtype) for n in range(count)]
    function = many(count, results)
    run = short(function, *arrays)
    for call in range(4):
        given = [array + call for array in arrays]
        calls = run.stats.calls
        made, expected = run(*given), function(*given)
        assert type(made) is type(expected)
        for one, other in zip(*((x,) if results == 1 else x for x in (made, expected)), strict=True):
            assert type(one) is dpnp.ndarray
            assert (one.dtype, one.shape, one.usm_type) == (other.dtype, other.shape, other.usm_type)
            assert np.allclose(dpnp.asnumpy(one), dpnp.asnumpy(other), rtol=1e-5)
        assert run.stats.calls == calls + 1


def test_numbers_are_those_of_each_call():
    def step(q, dt, p, unused):
        return q + p * dt

    q, p = random(5, dtype="float32"), random(5, seed=1, dtype="float32")
    run = short(step, q, 0.5, p, 1.0)
    for dt in (0.5, 0.1, -0.0, 1e30, 3, np.float32(2), float("inf"), 1e300, True):
        with np.errstate(over="ignore"):
            assert np.array_equal(dpnp.asnumpy(run(q, dt, p, 2.0)), dpnp.asnumpy(step(q, dt, p, 2.0)), equal_nan=True)


def test_numbers_may_be_computed_from_those_of_a_call():
    def step(q, dt, times, p):
        return q - 0.5 * dt * dt * times * p

    q, p = random(5), random(5, seed=1)
    run = short(step, q, 0.5, 2, p)
    for dt, times in ((0.5, 2), (0.1, 2), (1e200, 2), (0.25, 3), (0.25, 7), (0.5, 2), (0.3, 2)):
        assert np.array_equal(dpnp.asnumpy(run(q, dt, times, p)), dpnp.asnumpy(step(q, dt, times, p)))


def test_the_same_number_twice_and_the_same_array_twice():
    def step(a, one, b, other):
        return a * one + b * other

    x, y = random(5), random(5, seed=1)
    run = short(step, x, 0.5, y, 2.0)
    for arguments in ((x, 0.25, y, 0.25), (x, 0.25, x, 0.25), (y, 1.0, x, 1.0)):
        assert np.array_equal(dpnp.asnumpy(run(*arguments)), dpnp.asnumpy(step(*arguments)))


def test_a_result_that_is_held_is_never_written_again():
    x = random(4, 4)
    run = short(lambda a, b: a @ b, x, x + 1)
    host = dpnp.asnumpy(x)
    holds = [
        lambda r: r, lambda r: r[1:], lambda r: r.T, lambda r: r.get_array(), lambda r: r.get_array().usm_data,
        lambda r: r.get_array()[2:], lambda r: r.reshape(-1),
        lambda r: r.get_array().__dlpack__(),
    ]
    held = []
    for number in range(20 * len(holds)):
        result = run(x, x + number)
        held.append((result.get_array()._pointer, holds[number % len(holds)](result)))
        assert np.allclose(dpnp.asnumpy(result), host @ (host + number))
        del result
    assert len({address for address, _ in held}) == len(held)


def test_a_view_of_numpy_keeps_memory_that_the_host_may_read():
    x, y = (dpnp.asarray(random(4, 4, seed=seed), usm_type="shared") for seed in range(2))
    run = short(lambda a, b: a @ b, x, y)
    views = [np.frombuffer(run(x, y + number).get_array().usm_data, dtype="float64") for number in range(40)]
    for number, view in enumerate(views):
        assert np.allclose(view.reshape(4, 4), dpnp.asnumpy(x) @ (dpnp.asnumpy(y) + number))


def test_arguments_go_when_nobody_else_holds_them():
    x, y = random(4), random(4, seed=1)
    run = short(lambda a, b: a + b, x, y)
    references = [weakref.ref(array._array_obj) for array in (x, y)]
    del x, y
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    assert run._recent.short


def test_memory_is_used_again_when_nobody_holds_it():
    x, y = random(4, 4), random(4, 4, seed=1)
    run = short(lambda a, b: a @ b, x, y)
    addresses = {run(x, y).get_array()._pointer for _ in range(100)}
    assert len(addresses) < 4
    many_at_a_time = [[run(x, y) for _ in range(10)] for _ in range(20)]
    assert len({r.get_array()._pointer for some in many_at_a_time for r in some}) == 200


@pytest.mark.parametrize("change", ["shape", "writable"])
def test_a_result_that_was_changed_is_not_given_out_again(change):
    x, y = random(4, 6), random(4, 6, seed=1)
    run = short(lambda a, b: a + b, x, y)
    for _ in range(40):
        result = run(x, y)
        assert result.shape == (4, 6)
        assert result.flags.writable
        assert np.array_equal(dpnp.asnumpy(result), dpnp.asnumpy(x + y))
        if change == "shape":
            result.shape = (24,)
        else:
            result.get_array().flags.writable = False
        del result


def test_weak_references_see_a_result_go():
    x, y = random(3), random(3, seed=1)
    run = short(lambda a, b: a + b, x, y)
    seen = [weakref.ref(run(x, y).get_array()) for _ in range(60)]
    assert len({id(reference) for reference in seen}) == 60
    for _ in range(60):
        result = run(x, y)
        assert not any(reference() is result.get_array() for reference in seen)


def test_arguments_are_neither_kept_nor_let_go():
    x, y = random(4, 4), random(4, 4, seed=1)
    run = short(lambda a, b: (a + b, a - b), x, y)
    result = run(x, y)
    things = [x, y, x._array_obj, y._array_obj, result[0], result[0]._array_obj, dpnp.ndarray, True, None, "_array_obj"]
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(300):
        run(x, y)
        run._recent.short[0]((x, None))
        run._recent.short[0]((x, x))
        run._recent.short[0]((x,))
    after = [sys.getrefcount(thing) for thing in things]
    assert all(abs(one - other) < 50 for one, other in zip(before, after, strict=True))
    assert before[:6] == after[:6]


def test_calls_leave_no_memory_behind():
    x, y = random(4, 4), random(4, 4, seed=1)
    run = short(lambda a, b: (a + b, a - b), x, y)

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def call(count):
        for _ in range(count):
            run(x, y)

    call(5000)
    gc.collect()
    before = resident()
    call(100_000)
    assert resident() - before < 100_000 * 4  # a single object takes 16 bytes and more


def test_what_is_read_from_outside_is_looked_at(monkeypatch):
    def weighted(a):
        return a * WEIGHTS + SHIFT

    x = random(4)
    run = short(weighted, x)
    for name, value in (("SHIFT", 5.0), ("WEIGHTS", WEIGHTS + 1), ("WEIGHTS", dpnp.ones((4, 4))), ("SHIFT", WEIGHTS)):
        monkeypatch.setattr(f"{__name__}.{name}", value)
        for _ in range(CALLS + 2):
            assert np.array_equal(dpnp.asnumpy(run(x)), dpnp.asnumpy(weighted(x)))


def test_the_function_itself_may_change():
    def step(a, b, c=1.0):
        return a + b * c

    def other(a, b, c=1.0):
        return a - b

    x, y = random(4), random(4, seed=1)
    run = short(step, x, y)
    step.__defaults__ = (2.0,)
    for _ in range(CALLS + 2):
        assert np.array_equal(dpnp.asnumpy(run(x, y)), dpnp.asnumpy(x + y * 2.0))
    step.__code__ = other.__code__
    assert np.array_equal(dpnp.asnumpy(run(x, y)), dpnp.asnumpy(step(x, y)))


def test_an_argument_that_changes_meanwhile_makes_no_stale_function(monkeypatch):
    """As if another thread gave it another shape after it was looked at, and before its looks are written down."""
    make = short_plans.short_plan

    def changed(specialization, arguments, may_be_pinned):
        arguments[0].shape = (6,)
        return make(specialization, arguments, may_be_pinned)

    monkeypatch.setattr(short_plans, "short_plan", changed)
    run = tl_dpnp.fuse(lambda a: a + 1)
    for _ in range(CALLS + 2):
        assert run(random(2, 3)).shape == (2, 3)
    assert not run._recent.short
    for shape in ((6,), (2, 3)):
        assert run(random(*shape)).shape == shape


def alike(one, other):
    """Fail unless two results are of the same classes, and have equal arrays."""
    assert type(one) is type(other)
    if isinstance(other, dpnp.ndarray):
        assert (one.dtype, one.shape, one.usm_type) == (other.dtype, other.shape, other.usm_type)
        assert np.allclose(dpnp.asnumpy(one), dpnp.asnumpy(other), rtol=1e-5)
    elif isinstance(other, list | tuple):
        for left, right in zip(one, other, strict=True):
            alike(left, right)
    elif isinstance(other, dict) or hasattr(other, "__dict__"):
        left, right = (value if isinstance(value, dict) else vars(value) for value in (one, other))
        assert list(left) == list(right)
        alike([*left.values()], [*right.values()])
    else:
        assert one == other


class Pair(NamedTuple):
    q: Any
    p: Any


@dataclass
class Body:
    x: Any
    v: Any
    mass: float = 2.0
    name: str = "body"

    def drift(self, dt):
        return Body(self.x + dt * self.v, self.v, self.mass, self.name)


@pytest.mark.parametrize("function", [
    lambda a, b: [a + b], lambda a, b: {"sum": a + b, "rest": (a - b, 1)}, lambda a, b: (a + b, a),
    lambda a, b: (r := a + b, r), lambda a, b: (a + b, 1), lambda a, b: Pair(a + b, [a - b, "text"]),
    lambda a, b: Body(a + b, a - b).drift(0.5), lambda a, b: [[a + b], [a * 2.0], None],
])
def test_results_may_be_in_any_object(function):
    x, y = random(4), random(4, seed=1)
    run = short(function, x, y)
    for call in range(4):
        calls = run.stats.calls
        alike(run(x + call, y), function(x + call, y))
        assert run.stats.calls == calls + 1


def test_an_array_that_is_twice_in_a_result_is_the_same_object_twice():
    run = short(lambda a, b: (r := a + b, [r], a), random(4), random(4, seed=1))
    x = random(4, seed=2)
    one, (other,), argument = run(x, x + 1)
    assert one is other
    assert argument is x


def test_other_results_are_made_by_plans():
    x, y = random(4), random(4, seed=1)
    for function in (lambda a, b: a, lambda a, b: (a + b)[1:], lambda a, b: ((a + b)[1:], a)):
        run = tl_dpnp.fuse(function)
        for _ in range(CALLS + 3):
            alike(run(x, y), function(x, y))
        assert not run._recent.short


def kicked(body, forces, dt, kind="all"):
    total = forces[0]
    for force in forces[1:]:
        total = total + force
    return Body(body.x, body.v + dt * total / body.mass if kind == "all" else body.v * dt, body.mass, body.name)


def test_arrays_and_numbers_may_be_in_any_object():
    def body(seed=0, *shape, **more):
        return Body(random(*(shape or (4,)), seed=seed), random(*(shape or (4,)), seed=seed + 1), **more)

    forces = [random(4, seed=5), random(4, seed=6)]
    class Other(Body):
        pass

    run = short(kicked, body(), forces, 0.5, recompile_limit=100)
    changed = body(mass=3.0)
    changed.extra = 1
    readonly = body()
    readonly.x._array_obj.flags.writable = False
    for arguments in (
        (body(1), forces, 0.25), (body(1, mass=3.0), forces, 0.25), (body(1, name="other"), forces, 0.25),
        (body(1), [*forces, forces[0] * 2], 0.25), (body(1), forces[:1], 0.25), (body(1), tuple(forces), 0.25),
        (body(1), forces, 1), (body(1, 1), forces, 0.25), (Other(*vars(body(2)).values()), forces, 0.25),
        (Body(random(4, dtype="float32"), random(4, dtype="float32")), forces, 0.25), (body(1), forces, 0.25, "none"),
        (body(1), [forces[0]] * 2, 0.25), (body(1), [forces[0], forces[1][::-1]], 0.25), (changed, forces, 0.1),
        (Body(forces[0], forces[1]), forces, 0.5), (readonly, forces, 0.5), (body(1, mass=np.float32(2)), forces, 0.25),
    ):
        for _ in range(CALLS + 3):
            alike(run(*arguments), kicked(*arguments))
    with pytest.raises(AttributeError, match="NoneType"):
        run(None, forces, 0.5)


def test_the_arrays_of_an_object_are_those_of_each_call():
    body = Body(random(4), random(4, seed=1))
    run = short(lambda body, dt: body.drift(dt).x, body, 0.5)
    for seed in range(4):
        body.v = random(4, seed=seed)
        alike(run(body, 0.5), body.drift(0.5).x)
    body.v = random(1)
    alike(run(body, 0.5), body.drift(0.5).x)
    body.v = 2.0
    alike(run(body, 0.5), body.drift(0.5).x)
    body.__class__ = type("Other", (Body,), {"drift": lambda self, dt: Body(self.x * dt, self.v)})
    alike(run(body, 0.5), body.drift(0.5).x)


def test_a_method_is_run_for_each_object():
    class Layer:
        def __init__(self, seed):
            self.w = random(4, 4, seed=seed)

        @tl_dpnp.fuse
        def forward(self, x):
            return x @ self.w

    x, layers = random(3, 4), [Layer(1), Layer(2)]
    for _ in range(CALLS + 3):
        for layer in layers:
            assert np.allclose(dpnp.asnumpy(layer.forward(x)), dpnp.asnumpy(x) @ dpnp.asnumpy(layer.w))
    assert Layer.forward._recent.short


def test_a_container_that_has_other_keys_is_another_call():
    values = {"a": random(4), "b": random(4, seed=1)}
    run = short(lambda v: v["a"] + v["b"], values)
    del values["b"]
    with pytest.raises(KeyError):
        run(values)
    values["b"] = random(4, seed=2)
    alike(run(values), values["a"] + values["b"])
    alike(run({"b": values["b"], "a": values["a"]}), values["a"] + values["b"])


def test_a_call_may_leave_out_arguments_or_have_others():
    """Where Python looks at a call before machine code: it computes 0.5 * dt, and finds a global number."""
    def step(a, dt=1.0):
        return a * SHIFT * (0.5 * dt)

    x = random(4)
    run = short(step, x, 2.0)
    for arguments in ((x,), (x, x), (x, 3.0), (x, np.float64(2))):
        alike(run(*arguments), step(*arguments))
    for wrong in ("text", None):
        with pytest.raises(TypeError):
            run(x, wrong)


def test_threads_have_results_of_their_own():
    """What dpnp computes is computed before: operations of dpnp in several threads hang or end the process at times."""
    arrays = [random(6, 6, seed=n) for n in range(8)]
    others = [[arrays[(number + call) % 8] + 0.0 for call in range(300)] for number in range(8)]
    run = short(lambda a, b: a @ b, arrays[0], arrays[1])
    results = [[] for _ in arrays]

    def work(number):
        for other in others[number]:
            results[number] += [run(arrays[number], other) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    given = [dpnp.asnumpy(x) for x in arrays]
    for number, found in enumerate(results):
        assert len(found) == 900
        for place, result in enumerate(found):
            np.testing.assert_allclose(
                dpnp.asnumpy(result), given[number] @ given[(number + place // 3) % 8], rtol=1e-4, atol=1e-5)


def test_what_was_submitted_is_done_first():
    from tests.runtime.test_order import SLOW, STEPS, expected

    slow, x = tl_dpnp.compile(SLOW), dpnp.zeros(4, dtype="int64")
    run = short(lambda a: a + 1, x)
    for _ in range(3):
        x[:] = 0
        slow.submit(x, STEPS)
        assert dpnp.asnumpy(run(x)).tolist() == [expected(STEPS) + 1] * 4


def test_an_interrupted_wait_lets_go_of_everything():
    from tl_dpnp.runtime.sycl.turns import turn_to_wait

    x, y = random(4), random(4, seed=1)
    run = short(lambda a, b: a + b, x, y)
    before = sys.getrefcount(x._array_obj), sys.getrefcount(y)

    def interrupt(*_):
        raise InterruptedError

    turn, held, end = turn_to_wait(x.sycl_queue), threading.Event(), threading.Event()

    def hold():
        with turn.lock:
            held.set()
            end.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(60)
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(InterruptedError):
                run(x, y)
    finally:
        end.set()
        other.join()
        signal.signal(signal.SIGALRM, old)
    assert (sys.getrefcount(x._array_obj), sys.getrefcount(y)) == before
    assert np.array_equal(dpnp.asnumpy(run(x, y)), dpnp.asnumpy(x + y))
    assert len({run(x, y).get_array()._pointer for _ in range(20)}) < 4


def test_calls_that_become_long_are_run_by_plans_again():
    x, y = random(4), random(4, seed=1)
    run = short(lambda a, b: a + b, x, y)
    (call,) = run._recent.calls
    call.short.function.record.slow = 3
    for _ in range(3):
        assert np.array_equal(dpnp.asnumpy(run(x, y)), dpnp.asnumpy(x + y))
    assert not run._recent.short


def test_calls_that_cannot_be_short_are_run_by_plans():
    x = random(4, dtype="float16")  # with which a kernel takes a scalar of f16
    run = tl_dpnp.fuse(lambda a, factor: a * factor)
    for number in range(CALLS + 3):
        assert np.array_equal(dpnp.asnumpy(run(x, float(number))), dpnp.asnumpy(x) * number)
    assert (run._recent.calls[0].may_be_short, run._recent.short) == (False, ())


def test_a_pool_without_room_leaves_results_to_plans():
    x, y = random(4), random(4, seed=1)
    with config.scope(POOL_MIB=0):
        run = tl_dpnp.fuse(lambda a, b: a + b)
        for _ in range(CALLS + 3):
            assert np.array_equal(dpnp.asnumpy(run(x, y)), dpnp.asnumpy(x + y))
        assert not run._recent.short


def test_memory_goes_back_with_its_function():
    x, y = random(50, 50), random(50, 50, seed=1)
    gc.collect()
    plan.POOL.clear()
    before = plan.POOL._bytes
    run = short(lambda a, b: a + b, x, y)
    held = [run(x, y) for _ in range(5)]
    assert plan.POOL._bytes >= before + 5 * x.nbytes
    run.clear()
    gc.collect()
    plan.POOL.clear()
    assert plan.POOL._bytes == before
    assert all(np.array_equal(dpnp.asnumpy(r), dpnp.asnumpy(x + y)) for r in held)


def test_the_pool_counts_what_was_withdrawn():
    queue, pool = WEIGHTS.sycl_queue, MemoryPool()
    with config.scope(POOL_MIB=1):
        first = pool.withdraw(600 << 10, "device", queue)
        assert first is not None
        assert pool.withdraw(600 << 10, "device", queue) is None
        assert len({pool.take(600 << 10, "device", queue)._pointer for _ in range(2)} - {first._pointer}) >= 1
        address = first._pointer
        pool.put_back(first, 600 << 10, "device", queue)
        del first
        assert pool.take(600 << 10, "device", queue)._pointer == address


def test_what_is_put_back_may_still_be_held():
    queue, pool = WEIGHTS.sycl_queue, MemoryPool()
    block = pool.withdraw(64, "device", queue)
    address = block._pointer
    pool.put_back(block, 64, "device", queue)
    assert pool.take(64, "device", queue)._pointer != address
    del block
    assert {pool.withdraw(64, "device", queue)._pointer for _ in range(2)} >= {address}


def test_references_are_counted_where_machine_code_looks():
    assert result_arrays.counts_are_known()


def test_numbers_and_functions_outside_of_the_arguments_may_change(monkeypatch):
    """Machine code compares the objects themselves first, and leaves numbers to Python once one has changed."""
    def step(axis, factor, function):
        return lambda x, y: function(x, y).sum(axis) * factor + SHIFT

    x, y = random(4, 5), random(4, 5, seed=1)
    plain = step(1, 3, lambda x, y: x * y)
    run = short(plain, x, y)
    assert run._recent.calls[0].short.is_pinned
    cells = dict(zip(plain.__code__.co_freevars, plain.__closure__, strict=True))

    def check():
        for _ in range(CALLS + 3):
            np.testing.assert_allclose(dpnp.asnumpy(run(x, y)), dpnp.asnumpy(plain(x, y)), rtol=1e-12)

    check()
    for value in (2.5, 2.5, -1.0):
        monkeypatch.setattr(f"{__name__}.SHIFT", value)
        check()
        assert not run._recent.calls[0].short.is_pinned
    monkeypatch.setattr(f"{__name__}.SHIFT", 7)
    check()
    for name, value in (("factor", 4), ("factor", 0.5), ("axis", 0), ("axis", 1), ("function", lambda x, y: x - y)):
        cells[name].cell_contents = value
        check()
    del cells["factor"].cell_contents
    with pytest.raises(NameError):
        run(x, y)


def test_a_number_of_a_call_that_decides_is_looked_at():
    factor = 2

    def repeated(x, times):
        for _ in range(times):
            x = x * factor
        return x

    x = random(4)
    run = tl_dpnp.fuse(repeated)
    for times in (3, 3, 3, 3, 3, 3, 2, 3, 5, 0, 3):
        assert np.array_equal(dpnp.asnumpy(run(x, times)), dpnp.asnumpy(repeated(x, times)))
