"""The logs of compilations, of the disk cache, of launches and of tuning."""

import contextlib
import io
import logging
import os
import subprocess
import sys
import threading

import dpnp
import pytest

import tl_dpnp
from tests.graph.support import short_calls_after
from tl_dpnp import config
from tl_dpnp.errors import TLError
from tl_dpnp.runtime import watching
from tl_dpnp.runtime.kernel import Kernel
from tl_dpnp.runtime.tune import tuning

SOURCE = """
func @scale(%factor: f32, %x: memref<f32x?>) {
  axpby.n 0.0, %x, %factor, %x : f32, memref<f32x?>, f32, memref<f32x?>
}
"""


@pytest.fixture(autouse=True)
def _nobody_watches(tmp_path, monkeypatch):
    """An empty cache, and no observer before and afterwards."""
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    assert watching.unwatch(watching._LAUNCH_LOG) is None
    yield
    watching.unwatch(watching._LAUNCH_LOG)


@pytest.fixture
def lines(caplog):
    """A function of the name of a log that returns its lines; all are on."""
    caplog.set_level(logging.DEBUG, "tl_dpnp")
    return lambda name: [r.getMessage() for r in caplog.records if r.name == f"tl_dpnp.{name}"]


def called(count=1, **options):
    kernel = tl_dpnp.compile(SOURCE, **options)
    x = dpnp.ones(8, dtype="float32")
    for _ in range(count):
        kernel(2.0, x)
    return kernel, x


def test_threads_that_begin_to_log_launches_together_log_each_once(monkeypatch):
    together = threading.Barrier(2)

    def wanted(name):
        together.wait(30)
        return True

    monkeypatch.setattr(watching, "is_wanted", wanted)
    threads = [threading.Thread(target=watching.follow_log) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert watching._observers == (watching._LAUNCH_LOG,)


def test_compilations_say_what_for_and_how_long_each_stage_took(lines):
    called()
    found = lines("compile")
    stages = [line.partition(":")[0] for line in found]
    assert stages[0] == "parse <string>"
    assert [stage for stage in stages if "lowering" in stage] == ["lowering for @scale"]
    assert "host compiler for @scale" in stages
    assert "build by the driver for @scale" in stages
    summary = next(line for line in found if "vector form: compiled in" in line)
    assert summary.startswith("@scale for ")
    assert summary.endswith(" bytes")
    called()
    assert any("vector form: read from the disk cache in" in line for line in lines("compile")[len(found):])


def test_the_cache_says_what_it_has_and_for_what(lines):
    called()
    assert any(line.startswith("load ") and ": missed in" in line for line in lines("cache"))
    stored = {line.split()[1].rstrip(":") for line in lines("cache") if line.startswith("store ")}
    names = {name[:12] for name in os.listdir(config.get("CACHE_DIR"))}
    assert stored
    assert stored <= names
    before = len(lines("cache"))
    called()
    later = lines("cache")[before:]
    assert later
    assert all(line.startswith("load ") for line in later)
    assert [line.partition(" for ")[2].partition(":")[0] for line in later if "missed" in line] == [
        "the tuned schedules of @scale"]
    assert any(" for @scale: " in line for line in later)


def test_each_call_is_one_line_that_says_how_it_was_run(lines):
    with short_calls_after(1):
        kernel, x = called(8)
    found = lines("launch")
    assert len(found) == 8
    assert all(line.startswith("@scale: ") for line in found)
    assert found[0].endswith(", OpenCL")
    assert found[-1].endswith(", machine code")
    assert "µs" in found[-1] or "ms" in found[-1]
    kernel.submit(2.0, x).wait()
    assert lines("launch")[-1].endswith(", SYCL")
    kernel.in_c_order(2.0, x)
    with tl_dpnp.record() as graph:
        kernel(2.0, x)
        kernel(2.0, x)
    assert len(lines("launch")) == 10
    graph()
    assert lines("launch")[-1].startswith("2 launches: ")
    tl_dpnp.compile(SOURCE, target="reference")(2.0, x)
    assert lines("launch")[-1].endswith(", interpreter")
    with pytest.raises(TLError):
        kernel(2.0, 3)
    assert lines("launch")[-1].endswith("TLTypeError")
    assert float(x[0]) == 2.0 ** 13


def test_calls_of_fused_functions_are_lines_of_their_kernels(lines):
    twice = tl_dpnp.fuse(lambda x: x * 2 + 1)
    x = dpnp.ones((3, 4))
    with short_calls_after(1):
        for _ in range(12):
            y = twice(x)
    assert (y == 3).all()
    found = lines("launch")
    assert len(found) == 12
    assert "OpenCL" in found[0]
    assert "<lambda>: " in found[-1]
    assert found[-1].endswith("machine code")


def test_tuning_logs_what_it_tries_and_finds(lines):
    source = """
func @product(%A: memref<f32x8x8>, %B: memref<f32x8x8>, %C: memref<f32x8x8x?>) {
  %g = group_id
  %c = subview %C[:,:,%g] : memref<f32x8x8x?>
  gemm.n.n 1.0, %A, %B, 0.0, %c : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
}
"""
    A = dpnp.ones((8, 8), dtype="float32", order="F")
    report = tl_dpnp.compile(source).tune(A, A, dpnp.zeros((8, 8, 50), dtype="float32", order="F"), budget=1.0)
    found = lines("tune")
    assert found[-len(repr(report).splitlines()):] == repr(report).splitlines()


def test_what_the_search_does_is_logged_where_it_changes(lines):
    shown = []
    watch = tuning._told("product", shown.append)
    for text in ("gemm_0: 2 left", "gemm_0: 2 left", "best against default"):
        watch(text)
    assert len(shown) == 3
    assert lines("tune") == ["@product: gemm_0: 2 left", "@product: best against default"]


def test_nobody_who_reads_the_log_ends_no_program(monkeypatch):
    """As of a daemon that has closed it, or of `2>&1 | head`."""
    closed = io.StringIO()
    closed.close()
    read, write = os.pipe()
    os.close(read)
    broken = open(write, "w", buffering=1)  # noqa: SIM115  # to close it is an error
    for stream in (closed, broken):
        monkeypatch.setattr(sys, "stderr", stream)
        with config.scope(LOGS="compile,cache,launch"):
            _, x = called()
        assert x.asnumpy().tolist() == [2.0] * 8
    with contextlib.suppress(BrokenPipeError):
        broken.close()


def test_who_does_not_ask_gets_the_plain_calls():
    plain = Kernel.__dict__["__call__"]
    called()
    assert Kernel.__dict__["__call__"] is plain
    with config.scope(LOGS="compile,cache,tune"):
        called()
    assert Kernel.__dict__["__call__"] is plain
    with config.scope(LOGS="launch"):
        called()
        assert Kernel.__dict__["__call__"] is not plain
    watching.unwatch(watching._LAUNCH_LOG)
    assert Kernel.__dict__["__call__"] is plain


def test_the_usual_level_of_programs_logs_no_launches(caplog):
    caplog.set_level(logging.INFO)
    called()
    assert {record.name for record in caplog.records} == {"tl_dpnp.compile", "tl_dpnp.cache"}


def test_the_variable_prints_on_standard_error_and_no_other_logs():
    program = (f"import dpnp, tl_dpnp\nkernel = tl_dpnp.compile({SOURCE!r})\n"
               "kernel(2.0, dpnp.ones(8, dtype='float32'))\n")
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True,
                            env={**os.environ, "TL_DPNP_LOGS": "launch"})
    (line,) = result.stderr.splitlines()
    assert line.startswith("tl_dpnp.launch: @scale: ")
    assert result.stdout == ""


def test_failed_compilations_are_lines_too(lines):
    kernel = tl_dpnp.compile(SOURCE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tl_dpnp.runtime.compiler._BUILD", {"sycl": lambda *_: 1 / 0})
        with pytest.raises(TLError):
            kernel(2.0, dpnp.ones(8, dtype="float32"))
    assert any(line.startswith("@scale for") and "not compiled, after" in line for line in lines("compile"))
