"""Processes that used `submit` end with their own status: dpctl's host tasks must be done before the interpreter is."""

from __future__ import annotations

import signal
import subprocess
import sys

import dpnp
import pytest

import tl_dpnp
from tests.runtime.support import AXPY
from tl_dpnp.runtime.sycl import dpctl_adapter, opencl_adapter

PRELUDE = f"""
import atexit, os, signal, sys, threading, time
if "early" in sys.argv:
    atexit.register(lambda: submit(20))  # runs last of all
import dpnp, tl_dpnp
kernel = tl_dpnp.compile({AXPY!r})
x, y = (dpnp.ones(1 << 20, dtype="float32") for _ in range(2))

def submit(count):
    return [kernel.submit(3.0, x, y) for _ in range(count)]

def forever():
    while True:
        submit(1)

kernel(3.0, x, y)
"""
ENDS = {
    "waited": ("[event.wait() for event in submit(3)]", [], 0),
    "in flight": ("events = submit(300)", [], 0),
    "thread": ("threading.Thread(target=submit, args=(300,)).start()", [], 0),
    "daemon": ("threading.Thread(target=forever, daemon=True).start(); time.sleep(0.1)", [], 0),
    "at exit": ("", ["early"], 0),
    "sys.exit": ("submit(300); sys.exit(7)", [], 7),
    "exit in a handler": ("signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7)); submit(300); "
                          "os.kill(os.getpid(), signal.SIGUSR1); forever()", [], 7),
    "interrupted": ("submit(300); os.kill(os.getpid(), signal.SIGINT); forever()", [], -signal.SIGINT),
    "interrupted at exit": ("submit(300); threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT)).start(); "
                            "os.kill(os.getpid(), signal.SIGINT); forever()", [], -signal.SIGINT),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_process_with_submitted_work_ends_with_its_status(name):
    """Once; ``python -m tests.campaigns exits`` does it as often as you like."""
    script, arguments, status = ENDS[name]
    run = subprocess.run([sys.executable, "-c", f"{PRELUDE}\n{script}", *arguments], capture_output=True, text=True,
                         timeout=120, check=False)
    assert run.returncode == status, run.stderr


def test_tasks_that_are_done_do_not_accumulate():
    kernel = tl_dpnp.compile(AXPY)
    x, y = (dpnp.ones(5, dtype="float32") for _ in range(2))
    events = [kernel.submit(3.0, x, y) for _ in range(300)]
    for event in events:
        event.wait()
    x.sycl_queue.wait()
    for _ in range(1000):
        kernel.submit(3.0, x, y).wait()
    assert len(dpctl_adapter.in_flight) < 300


@pytest.mark.parametrize("recorded", [False, True])
def test_what_was_started_is_waited_for_where_a_handler_raises(monkeypatch, recorded):
    """It would write to arrays that are gone."""
    waited = []
    wait_for = dpctl_adapter.wait_for

    def interrupt(*_):
        raise KeyboardInterrupt

    def wait(queue):
        waited.append(queue)
        wait_for(queue)

    kernel = tl_dpnp.compile(AXPY)
    x, y = (dpnp.ones(5, dtype="float32") for _ in range(2))
    with tl_dpnp.record() as graph:
        kernel(3.0, x, y)
    monkeypatch.setattr(dpctl_adapter.in_flight, "add", interrupt)
    monkeypatch.setattr(dpctl_adapter, "wait_for", wait)
    with pytest.raises(KeyboardInterrupt):
        graph.submit() if recorded else kernel.submit(3.0, x, y)
    assert waited == [x.sycl_queue]


def test_a_call_waits_for_its_kernel_where_a_handler_raises(monkeypatch):
    finished = []
    start, finish = opencl_adapter.DirectKernel.start, opencl_adapter._Lane.finish

    def interrupted(self, lane):
        start(self, lane)
        raise KeyboardInterrupt

    def noted(self):
        finish(self)
        finished.append(self)

    kernel = tl_dpnp.compile(AXPY)
    x, y = (dpnp.ones(5, dtype="float32") for _ in range(2))
    with tl_dpnp.record() as graph:
        kernel(3.0, x, y)
    monkeypatch.setattr(opencl_adapter.DirectKernel, "start", interrupted)
    monkeypatch.setattr(opencl_adapter._Lane, "finish", noted)
    for call in (lambda: kernel(3.0, x, y), graph):
        with pytest.raises(KeyboardInterrupt):
            call()
    assert len(finished) == 2
