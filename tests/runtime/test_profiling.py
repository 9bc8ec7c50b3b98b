"""Profiles: what they record, the trace that they write, marks for other profilers, and that they leave nothing."""

import json
import sys
import threading
from types import SimpleNamespace

import dpnp
import pytest

import tl_dpnp
from tests.graph.support import short_calls_after
from tests.runtime.support import AXPY
from tl_dpnp.errors import TLError, TLTypeError, UnsupportedError
from tl_dpnp.graph.fused import FusedFunction
from tl_dpnp.runtime import watching
from tl_dpnp.runtime.kernel import Kernel


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    watching.unwatch(watching._LAUNCH_LOG)
    plain = Kernel.__dict__["__call__"], FusedFunction.__dict__["__call__"]
    yield
    assert (Kernel.__dict__["__call__"], FusedFunction.__dict__["__call__"]) == plain


@pytest.fixture
def arrays():
    return dpnp.ones(8, dtype="float32"), dpnp.zeros(8, dtype="float32")


def launches(profile):
    """How each launch was run, in order, by name."""
    return [(event["name"], event["args"]["how"]) for event in profile.to_json()["traceEvents"]
            if event.get("cat") == "launch" and "how" in event["args"]]


def test_the_trace_has_compilations_the_cache_and_launches_that_nest(tmp_path, arrays):
    path = tmp_path / "trace.json"
    with tl_dpnp.profile(path) as profile:
        kernel = tl_dpnp.compile(AXPY)
        kernel(2.0, *arrays)
    document = json.loads(path.read_text())
    assert document == json.loads(json.dumps(profile.to_json()))
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {event["cat"] for event in events} == {"compile", "cache", "launch"}
    assert {"parse <string>", "@axpy", "lowering", "host compiler", "build by the driver"} <= {
        event["name"] for event in events if event["cat"] == "compile"}
    assert all(event["ts"] >= 0 and event["dur"] > 0 for event in events)
    threads = {event["tid"]: event["args"]["name"] for event in document["traceEvents"] if event["ph"] == "M"}
    assert threads[threading.get_native_id()] == threading.current_thread().name
    assert "tl_dpnp compiler" in threads.values()
    call = next(event for event in events if event["name"] == "@axpy" and event["cat"] == "launch"
                and "extent" not in event["args"])
    run = next(event for event in events if event["args"].get("how") == "OpenCL")
    assert call["ts"] <= run["ts"]
    assert run["ts"] + run["dur"] <= call["ts"] + call["dur"]
    assert "work-items" in run["args"]["extent"]
    assert "@axpy, OpenCL" in str(profile)
    assert "disk cache: 0 found" in str(profile)


def test_short_calls_are_recorded_and_stay_short_calls(arrays):
    kernel = tl_dpnp.compile(AXPY)
    with short_calls_after(1):
        for _ in range(4):
            kernel(1.0, *arrays)
    functions = kernel._direct.functions
    assert functions
    with tl_dpnp.profile() as profile:
        for _ in range(5):
            kernel(1.0, *arrays)
    assert launches(profile) == [("@axpy", "machine code")] * 5
    assert kernel._direct.functions is functions
    assert float(arrays[1][0]) == 9.0


def test_plans_that_machine_code_runs_whole_are_recorded(arrays):
    fused = tl_dpnp.fuse(lambda x: x * 2 + 1)
    with short_calls_after(1):
        for _ in range(8):
            fused(arrays[0])
        assert fused._recent.short
        with tl_dpnp.profile() as profile:
            assert (fused(arrays[0]) == 3).all()
    assert [how for name, how in launches(profile) if "<lambda>" in name] == ["machine code"]


def test_each_way_to_launch_is_recorded_once(arrays):
    kernel = tl_dpnp.compile(AXPY, debug=True)
    reference = tl_dpnp.compile(AXPY, target="reference")
    fused = tl_dpnp.fuse(lambda x: dpnp.sort(x) * 2)
    kernel(1.0, *arrays)
    with tl_dpnp.profile() as profile:
        kernel(1.0, *arrays)
        kernel.submit(1.0, *arrays).wait()
        reference(1.0, *arrays)
        with tl_dpnp.record() as graph:
            reference(1.0, *arrays)
        graph()
        fused(arrays[0])
        fused(arrays[0])
    assert [how for name, how in launches(profile) if name == "@axpy"] == [
        "SYCL, with checks", "SYCL, with checks", "interpreter", "interpreter"]
    names = [event["name"] for event in profile.to_json()["traceEvents"]]
    assert any(name.startswith("trace of ") for name in names)
    assert "dpnp.sort" in names


def test_errors_pass_and_are_in_the_trace(tmp_path, arrays):
    kernel = tl_dpnp.compile(AXPY)
    profile = tl_dpnp.profile(tmp_path / "t.json")
    with pytest.raises(TLTypeError), profile:
        kernel("x", *arrays)
    call = next(event for event in profile.to_json()["traceEvents"] if event["name"] == "@axpy")
    assert call["args"]["error"] == "TLTypeError"
    assert "how" not in call["args"], "nothing was launched"
    assert "@axpy, " not in str(profile)
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_all_threads_are_recorded_and_profiles_overlap(arrays):
    kernel = tl_dpnp.compile(AXPY)
    kernel(1.0, *arrays)
    with tl_dpnp.profile() as outer:
        with tl_dpnp.profile() as inner:
            thread = threading.Thread(target=kernel, args=(1.0, *arrays), name="another")
            thread.start()
            thread.join()
        kernel(1.0, *arrays)
    assert len(launches(inner)) == 1
    assert len(launches(outer)) == 2
    assert "another" in {event["args"]["name"] for event in inner.to_json()["traceEvents"] if event["ph"] == "M"}


def test_what_is_left_out_is_said(arrays):
    kernel = tl_dpnp.compile(AXPY)
    kernel(1.0, *arrays)
    with tl_dpnp.profile(most=2) as profile:
        for _ in range(3):
            kernel(1.0, *arrays)
    assert len([event for event in profile.to_json()["traceEvents"] if event["ph"] == "X"]) == 2
    left = profile.to_json()["otherData"]["left_out"]
    assert left > 0
    assert f"{left} later spans were left out (most=2)" in str(profile)


def test_marks_are_ranges_that_nest_in_the_packages(monkeypatch, arrays):
    said = []
    domain = SimpleNamespace(name="tl_dpnp")
    monkeypatch.setitem(sys.modules, "ittapi", SimpleNamespace(
        domain=lambda name: domain, string_handle=str, task_begin=lambda where, name: said.append(("itt", where, name)),
        task_end=lambda where: said.append(("itt", where))))
    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(
        push_range=lambda name, domain: said.append(("nvtx", domain, name)),
        pop_range=lambda domain: said.append(("nvtx", domain))))
    kernel = tl_dpnp.compile(AXPY)
    kernel(1.0, *arrays)
    with tl_dpnp.profile(marks=("itt", "nvtx")):
        kernel(1.0, *arrays)
    assert said[:2] == [("itt", domain, "@axpy"), ("nvtx", "tl_dpnp", "@axpy")]
    assert said[-2:] == [("nvtx", "tl_dpnp"), ("itt", domain)]
    depth = 0
    for each in said:
        depth += 1 if len(each) == 3 else -1
        assert depth >= 0
    assert depth == 0


@pytest.mark.parametrize("name", ["ittapi", "nvtx"])
def test_a_mark_without_its_package_is_refused(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    mark = "itt" if name == "ittapi" else name
    with pytest.raises(UnsupportedError, match=f"marks='{mark}' needs the package {name}, .*pip install {name}"):
        tl_dpnp.profile(marks=mark)


def test_options_are_checked_at_once(tmp_path):
    with pytest.raises(TLTypeError, match="did you mean 'nvtx'"):
        tl_dpnp.profile(marks="ntvx")
    for marks in (5, None):
        with pytest.raises(TLTypeError, match=f"marks= takes 'itt' or 'nvtx', or a tuple of them, not {marks}"):
            tl_dpnp.profile(marks=marks)
    with pytest.raises(TLTypeError, match="there are 'itt' and 'nvtx'"):
        tl_dpnp.profile(marks=(["itt"],))
    with pytest.raises(TLTypeError, match="most="):
        tl_dpnp.profile(most=0)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        tl_dpnp.profile(tmp_path / "nowhere" / "t.json")
    with pytest.raises(IsADirectoryError, match="name a file"):
        tl_dpnp.profile(tmp_path)
    profile = tl_dpnp.profile()
    with pytest.raises(TLError, match="has recorded nothing: write `with profile:` around the calls"):
        profile.save(tmp_path / "t.json")
    assert not (tmp_path / "t.json").exists()
    assert "has recorded nothing" in str(profile)
    with profile:
        pass
    with pytest.raises(TLError, match="one block"), profile:
        pass
