"""Short calls as a process ends, forks, is interrupted, or has no helpers."""

from __future__ import annotations

import pytest

from tests.runtime.support import COUNT, process

PRELUDE = f"""
import os, signal, sys, threading, time
from dataclasses import replace
import dpnp, tl_dpnp
from tl_dpnp.runtime.sycl import helpers, host_calls
host_calls.CALLS_BEFORE = 2
host_calls.NUMBERS = replace(host_calls.NUMBERS, longest=1e3)
kernel = tl_dpnp.compile({COUNT!r})
x = dpnp.zeros(256, dtype="int64")
helpers.start(4)
for _ in range(5):
    kernel(x, 1)
assert kernel._direct.functions
"""


def test_a_fork_cannot_call():
    script = PRELUDE + """
import warnings
warnings.simplefilter("ignore")
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    try:
        kernel(x, 1)
    except tl_dpnp.TLError as error:
        print("refused", "spawn" in str(error), flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
kernel(x, 1)
print(dpnp.asnumpy(x)[0])
"""
    assert process(script) == "refused True\n6\n"


def test_ctrl_c_interrupts_calls_and_loses_none():
    script = PRELUDE + """
signal.signal(signal.SIGINT, signal.default_int_handler)
count = 5
for _ in range(20):
    try:
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()  # which may be waited for longer
        while True:
            before = count
            kernel(x, 1)
            count += 1
    except KeyboardInterrupt:
        found = int(dpnp.asnumpy(x)[0])
        assert found in (count, count + 1), (found, count)  # it may come between the call and the count
        count = found
print("done", count > 25)
"""
    assert process(script) == "done True\n"


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "os._exit(0)"])
def test_processes_end_while_threads_call(end):
    """``python -m tests.campaigns exits --kind calling-threads`` tries it as often as you like."""
    script = PRELUDE + f"""
arrays = [dpnp.zeros(256, dtype="int64") for _ in range(4)]
def forever(y):
    while True:
        kernel(y, 1)
for y in arrays:
    threading.Thread(target=forever, args=(y,), daemon=True).start()
time.sleep(0.2)
{end}
"""
    assert process(script) == ""


def test_there_are_no_helpers_without_spinning():
    script = f"import os; os.environ['TL_DPNP_SPIN_US'] = '0'\n{PRELUDE}" + """
from tl_dpnp.runtime.sycl.helper_code import STATE
print(STATE.helpers, dpnp.asnumpy(x)[0])
"""
    assert process(script) == "0 5\n"


def test_a_process_of_one_core_has_no_helpers():
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + PRELUDE + """
from tl_dpnp.runtime.sycl.helper_code import STATE
print(STATE.helpers, dpnp.asnumpy(x)[0])
"""
    assert process(script) == "0 5\n"

