"""Processes that are forked or spawned: an error where a device would hang, and results everywhere else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tl_dpnp
from tests.runtime.support import AXPY, COUNT

#: What the children of `run` know; `child(function)` forks and prints what becomes of a function there.
PRELUDE = f"""
import multiprocessing, os, signal, warnings
import tl_dpnp

COUNT, AXPY = {COUNT!r}, {AXPY!r}
warnings.filterwarnings("error", category=ResourceWarning)

def child(function):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a watch by faulthandler would not survive another fork
        try:
            print("child:", function(), flush=True)
        except tl_dpnp.TLError as error:
            print("child:", type(error).__name__, "spawn" in str(error), flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def use(number=2):
    import dpnp
    x = dpnp.zeros(4, dtype="int64")
    tl_dpnp.compile(COUNT)(x, number)
    return x.asnumpy().tolist()
"""
REFUSED = "child: TLError True"


def run(code, tmp_path, *options):
    """Run a program and return its lines and those of its standard error."""
    script = tmp_path / "program.py"
    script.write_text(PRELUDE + code)
    root = os.path.dirname(os.path.dirname(tl_dpnp.__file__))
    result = subprocess.run([sys.executable, *options, str(script)], env={**os.environ, "PYTHONPATH": root}, text=True,
                            capture_output=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), result.stderr


@pytest.mark.parametrize("before", ["", "import dpnp", "tl_dpnp.compile(COUNT)", "tl_dpnp.devices()"])
def test_a_fork_before_the_first_use(before, tmp_path):
    lines, errors = run(f"{before}\nchild(use)\nprint(use(3))", tmp_path, "-W", "error::RuntimeWarning")
    assert lines == ["child: [2, 2, 2, 2]", "[3, 3, 3, 3]"], errors


def test_a_fork_after_a_call_is_an_error_for_whatever_uses_the_device(tmp_path):
    lines, errors = run("""
import dpnp
kernel, other = tl_dpnp.compile(COUNT), tl_dpnp.compile(AXPY)
x, y = dpnp.zeros(4, dtype="int64"), dpnp.ones(4, dtype="float32")
kernel(x, 2)
with tl_dpnp.record() as graph:
    kernel(x, 1)
fused = tl_dpnp.fuse(lambda y: y * 2 + 1)
fused(y)
event = kernel.submit(x, 0)
event.wait()

def block():
    with tl_dpnp.fusing(y) as (z,):
        pass

for function in (
    lambda: kernel(x, 2), lambda: kernel.submit(x, 2), lambda: kernel.tune(x, 2, progress=False),
    lambda: other(2.0, y, y), lambda: tl_dpnp.compile(COUNT, queue=x.sycl_queue), lambda: graph(),
    lambda: graph.submit(), lambda: fused(y), lambda: fused.explain(y), block,
    lambda: tl_dpnp.xp.multiply(y, y), lambda: tl_dpnp.empty_group([(4,)], "float32"),
    lambda: tl_dpnp.wait(x), lambda: child(lambda: kernel(x, 2)) or "forked again",
):
    child(function)
kernel(x, 2)
print(x.asnumpy().tolist())
""", tmp_path)
    assert lines == [REFUSED] * 14 + ["child: forked again", "[4, 4, 4, 4]"], errors
    assert errors.count("RuntimeWarning: this process has used a device") == 1


def test_a_fork_after_use_leaves_what_needs_no_device(tmp_path):
    lines, errors = run("""
import numpy
use()
def reference():
    x = numpy.zeros(4, dtype="int64")
    kernel = tl_dpnp.compile(COUNT, target="reference")
    kernel(x, 4)
    with tl_dpnp.record() as graph:
        kernel(x, 4)
    graph()
    return x.tolist()
child(reference)
child(lambda: len(tl_dpnp.parse(COUNT).functions))
""", tmp_path)
    assert lines == ["child: [8, 8, 8, 8]", "child: 1"], errors


@pytest.mark.parametrize("before", ["", "import gc; gc.freeze()"], ids=["", "frozen"])
def test_a_fork_after_dpnp_alone_was_used(before, tmp_path):
    lines, errors = run(f"""
import dpnp
x = dpnp.ones(4, dtype="int64")
{before}
child(lambda: tl_dpnp.compile(COUNT)(x, 2))
""", tmp_path)
    assert lines == [REFUSED], errors
    assert "RuntimeWarning: this process has used a device" in errors


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_a_process_work_after_use(method, tmp_path):
    lines, errors = run(f"""
if __name__ == "__main__":
    kernel = tl_dpnp.compile(COUNT)
    print(use())
    with multiprocessing.get_context({method!r}).Pool(2) as pool:
        print(pool.map(use, [5, 6]))
        print(pool.map(repr, [kernel])[0][:23])
""", tmp_path, "-W", "error::RuntimeWarning")
    assert lines == ["[2, 2, 2, 2]", "[[5, 5, 5, 5], [6, 6, 6, 6]]", "<tl_dpnp.Kernel @count("], errors
