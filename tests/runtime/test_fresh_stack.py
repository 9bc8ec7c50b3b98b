"""Compilation is neither interrupted halfway nor dependent on how deep its caller is."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar
from importlib.util import find_spec

import dpnp
import pytest

import tl_dpnp
from tests.runtime.support import AXPY
from tl_dpnp.runtime import fresh_stack
from tl_dpnp.runtime.fresh_stack import on_fresh_stack, with_room

LIMIT = sys.getrecursionlimit()

#: Compiles a kernel, which something interrupts, and then another time.
TWICE = f"""
import os, signal, sys, threading
import dpnp, tl_dpnp

x, y = dpnp.ones(4, dtype="float32"), dpnp.ones(4, dtype="float32")

def run():
    y[:] = 1
    tl_dpnp.compile({AXPY!r}, cache=False)(2.0, x, y)
    return y.asnumpy().tolist()

class Interrupting:
    done = False
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1] and not self.done:
            self.done = True
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
print("ready", flush=True)
try:
    run()
    print("not interrupted", flush=True)
except KeyboardInterrupt:
    print("interrupted")
assert threading.active_count() == 1
print(run())
"""
RIGHT = "[3.0, 3.0, 3.0, 3.0]"


def twice(module):
    root = os.path.dirname(os.path.dirname(tl_dpnp.__file__))
    return subprocess.Popen([sys.executable, "-c", TWICE, module], env={**os.environ, "PYTHONPATH": root}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


# Modules in whose place numba.core.ir_utils and lark, for example, stay half imported.
@pytest.mark.skipif(find_spec("numba_dpex") is None, reason="nothing imports Numba here")
@pytest.mark.parametrize("module", ["numba.core.transforms", "numba.core.serialize"])
def test_an_interrupted_import_is_completed(module):
    output, errors = twice(module).communicate(timeout=300)
    assert output.split("\n")[:3] == ["ready", "interrupted", RIGHT], errors


@pytest.mark.slow
def test_an_interrupt_at_any_time_of_the_first_compilation():
    rng = random.Random(11)
    longest = _seconds_of_the_first_compilation()
    interrupted = 0
    for _ in range(12):
        child = twice("none")
        assert child.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0, longest))
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=300)
        if "interrupted" not in output.split("\n"):  # it came when the first compilation was over
            continue
        interrupted += 1
        assert output.split("\n")[1] == RIGHT, errors
    assert interrupted


def _seconds_of_the_first_compilation():
    child = twice("none")
    assert child.stdout.readline() == "ready\n"
    start = time.monotonic()
    assert child.stdout.readline() == "not interrupted\n"
    seconds = time.monotonic() - start
    child.communicate(timeout=300)
    return seconds


def test_an_interrupt_waits_for_the_end():
    done = []

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        on_fresh_stack(work)
    assert done


def test_an_interrupt_leaves_no_thread(monkeypatch):
    run = fresh_stack._Work.run
    monkeypatch.setattr(fresh_stack._Work, "run", lambda work: (run(work), time.sleep(0.3)))  # a slow end
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        on_fresh_stack(os.kill, os.getpid(), signal.SIGINT)
    assert threading.active_count() == before


def test_an_interrupt_leaves_no_thread_that_has_not_begun(monkeypatch):
    bootstrap = threading.Thread._bootstrap  # what a new thread runs first

    def slow(thread):
        time.sleep(0.3)
        bootstrap(thread)

    before = threading.active_count()
    interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    monkeypatch.setattr(threading.Thread, "_bootstrap", slow)
    with pytest.raises(KeyboardInterrupt):
        on_fresh_stack(lambda: None)
    interrupt.join()
    assert threading.active_count() == before


def test_a_second_interrupt_does_not_wait():
    again, end = threading.Event(), threading.Event()

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
        end.wait(60)
        again.set()

    with pytest.raises(KeyboardInterrupt):
        on_fresh_stack(work)
    assert not again.is_set()
    end.set()
    assert again.wait(60)


def test_context_results_and_errors_cross():
    variable = ContextVar("variable", default=0)
    variable.set(3)
    assert on_fresh_stack(variable.get) == 3
    with pytest.raises(ZeroDivisionError):
        on_fresh_stack(lambda: 1 // 0)
    main = threading.get_ident()
    assert with_room(threading.get_ident) == main
    assert on_fresh_stack(threading.get_ident) != main


def at_depth(depth, function):
    """Call a function so many calls deeper than here."""
    return function() if depth == 0 else at_depth(depth - 1, function)


def outcomes_near_the_limit(function, prepare=lambda: None):
    """Return what a function returns or raises at depths up to the limit, where it has to fail."""
    outcomes = []
    for depth in [*range(0, LIMIT - 150, 200), *range(LIMIT - 150, LIMIT, 5)]:
        prepare()
        try:
            outcomes.append(at_depth(depth, function))
        except Exception as error:
            outcomes.append(type(error))
    assert outcomes[-1] is RecursionError
    return outcomes


def test_compilation_does_not_depend_on_the_depth():
    x = dpnp.ones(4, dtype="float32")
    numbers = iter(range(1, 1000))
    results = []

    def run():
        number, y = results[-1]
        tl_dpnp.compile(AXPY.replace("1.0", f"{number}.0"), cache=False)(2.0, x, y)
        return number

    def prepare():  # near the limit dpnp itself may raise anything
        results.append((next(numbers), dpnp.ones(4, dtype="float32")))

    prepare()
    run()
    outcomes = outcomes_near_the_limit(run, prepare)
    done = {number: y.asnumpy().tolist() for number, y in results}
    assert {outcome for outcome in outcomes if outcome not in done} == {RecursionError}
    assert all(done[number] == [2 + number] * 4 for number in outcomes if number in done)
    prepare()
    assert run() == results[-1][0]
    assert results[-1][1].asnumpy().tolist() == [2 + results[-1][0]] * 4


def test_errors_of_programs_do_not_depend_on_the_depth():
    deep = "func @f() {" + "if true {" * 63 + "%x = arith.add %y, 1 : i32" + "}" * 64
    for text, kind in (("func @f() { axpy }", tl_dpnp.TLSyntaxError), (deep, tl_dpnp.TLVerifyError)):
        assert set(outcomes_near_the_limit(lambda text=text: tl_dpnp.compile(text))) == {kind, RecursionError}


@pytest.mark.parametrize("depth", [880, 960])
def test_a_first_compilation_on_a_deep_stack_breaks_nothing(depth):
    code = f"""
import dpnp, tl_dpnp
x, y = dpnp.ones(4, dtype="float32"), dpnp.ones(4, dtype="float32")
def run(depth):
    if depth:
        return run(depth - 1)
    tl_dpnp.compile({AXPY!r}, cache=False)(2.0, x, y)
try:
    run({depth})
except RecursionError:
    print("too deep")
y[:] = 1
run(0)
print(y.asnumpy().tolist())
"""
    result = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=300)
    assert result.stdout.splitlines()[-1] == RIGHT, result.stderr
    assert ("too deep" in result.stdout) == (depth > 900)
