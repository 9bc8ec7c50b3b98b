"""Steps of plans and of traces that machine code runs, which makes their results."""

from __future__ import annotations

import gc
import threading
from time import perf_counter
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare, short_calls_after
from tl_dpnp import config
from tl_dpnp.graph import plan
from tl_dpnp.runtime.watching import unwatch, watch

CALLS = plan.CALLS_OF_A_STEP + 3


@pytest.fixture(autouse=True)
def _soon():
    with short_calls_after(2):
        yield


def random(*shape, seed=0, dtype="float64"):
    return dpnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def again(x, y, number):
    """Traced at each call, and computed by one kernel with two results."""
    perf_counter()
    total = x @ y + number
    return total, total * 0.5 + x


def in_steps(x, y, number):
    """A plan with a function of dpnp's between two kernels."""
    total = x @ y + number
    return dpnp.sort(total) * 2 - y, total


@pytest.fixture
def ways():
    """How launches were run, by the kernels' names, since this was asked for."""
    found = []
    observer = SimpleNamespace(
        begin=lambda span: None,
        end=lambda span: found.append(span.how) if span.name.startswith("@") and span.is_leaf else None)
    watch(observer)
    yield found
    unwatch(observer)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [again, in_steps])
def test_results_are_those_of_each_call(function, dtype, ways, monkeypatch):
    fused = tl_dpnp.fuse(function)
    x, y = random(3, 4, 4, dtype=dtype), random(4, 4, seed=1, dtype=dtype)
    for call in range(2 * CALLS):
        compare("before", fused(x, y, 0.5 + call), function(x, y, 0.5 + call))
    ways.clear()
    monkeypatch.setattr(plan.KernelStep, "launched", None)
    for call in range(3 * CALLS):
        arguments = x + call, y - call, 1.0 / (call + 1)
        compare("result", fused(*arguments), function(*arguments))
    assert set(ways) == {"machine code"}
    assert len(ways) >= 3 * CALLS


@pytest.mark.parametrize("function", [again, in_steps])
def test_a_result_that_is_held_is_never_written_again(function):
    fused = tl_dpnp.fuse(function)
    x, y = random(3, 4, 4), random(4, 4, seed=1)
    held = []
    for call in range(60):
        result = fused(x, y, float(call))
        held.append((call, result if call % 3 else (result[0][1:], result[1].T)))
    for call, result in held:
        plain = function(x, y, float(call))
        compare("result", result, plain if call % 3 else (plain[0][1:], plain[1].T))


def test_arguments_that_are_written_to_are_launched_as_before():
    def function(x, y):
        perf_counter()
        x += y
        return x * 2.0

    fused = tl_dpnp.fuse(function)
    x, y = random(4, 4), random(4, 4, seed=1)
    other = x.copy()
    for _ in range(3 * CALLS):
        compare("result", fused(x, y), function(other, y))
        compare("argument", x, other)


def test_arrays_of_other_kinds_come_and_go():
    fused = tl_dpnp.fuse(again)
    for call in range(3 * CALLS):
        for batch in (1, 3):
            for usm_type in ("device", "shared"):
                arguments = random(batch, 4, 4, seed=call), random(4, 4, seed=1), 2.0
                arguments = *(dpnp.asarray(array, usm_type=usm_type) for array in arguments[:2]), call
                compare("result", fused(*arguments), again(*arguments))


def test_an_error_of_arithmetic_in_between_is_the_same():
    def function(x, divisor):
        total = x + 1.0
        return dpnp.sort(total) * (1.0 / divisor)

    fused = tl_dpnp.fuse(function)
    for _ in range(CALLS):
        fused(random(5), 3.0)
    with pytest.raises(ZeroDivisionError):
        fused(random(5), 0.0)
    compare("result", fused(random(5), 2.0), function(random(5), 2.0))


def test_a_pool_without_room_leaves_results_to_launches():
    fused = tl_dpnp.fuse(again)
    x, y = random(3, 4, 4), random(4, 4, seed=1)
    with config.scope(POOL_MIB=0):
        for call in range(3 * CALLS):
            compare("result", fused(x, y, call), again(x, y, call))


def test_memory_goes_back_with_its_function():
    x, y = random(50, 50), random(50, 50, seed=1)
    gc.collect()
    plan.POOL.clear()
    before = plan.POOL._bytes
    fused = tl_dpnp.fuse(again)
    held = [fused(x, y, 1.0) for _ in range(CALLS + 5)]
    assert plan.POOL._bytes >= before + 10 * x.nbytes
    fused.clear()
    gc.collect()
    plan.POOL.clear()
    assert plan.POOL._bytes == before
    for result in held:
        compare("result", result, again(x, y, 1.0))


def test_threads_have_results_of_their_own():
    arrays = [(random(6, 6, seed=n), random(6, 6, seed=n + 10)) for n in range(4)]
    fused = tl_dpnp.fuse(again)
    for _ in range(CALLS):
        fused(*arrays[0], 1.0)
    results = [[] for _ in arrays]

    def work(number):
        results[number] += [fused(*arrays[number], float(call)) for call in range(200)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(arrays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, found in enumerate(results):
        one, other = map(dpnp.asnumpy, arrays[number])
        for call, result in enumerate(found):
            np.testing.assert_allclose(dpnp.asnumpy(result[0]), one @ other + call, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(dpnp.asnumpy(result[1]), (one @ other + call) * 0.5 + one, rtol=1e-9, atol=1e-9)
