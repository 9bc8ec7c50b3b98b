"""Realistic programs: right in each namespace and fused, and the commands that time them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tl_dpnp
from asv_bench.benchmarks.namespaces import agree, arrays_of, make, names, varied
from asv_bench.benchmarks.realistic_peers import ENVIRONMENT, PEERS, Process
from asv_bench.benchmarks.realistic_programs import Programs, host_arrays
from asv_bench.benchmarks.results import Report

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = Path(os.environ.get("ASV_BENCH_PEERS", ENVIRONMENT))
BATCH = 3


@pytest.mark.drawn(count=12)
@pytest.mark.parametrize("name", names())
def test_a_program_is_fused_rightly(name):
    """Three calls with other data and numbers give what NumPy and plain dpnp give; the second one runs a plan."""
    fused = tl_dpnp.fuse(make("dpnp", name, BATCH, "f64").function)
    for data in range(3):
        call, host = (make(which, name, BATCH, "f64", data=data) for which in ("dpnp", "numpy"))
        arguments, host_arguments = varied(call)[data], varied(host)[data]
        expected = arrays_of(host.function(*host_arguments))
        assert all(np.isfinite(array).all() for array in expected)
        agree("fused", host_arrays(fused(*arguments)), expected, "f64")
        agree("dpnp", host_arrays(call.function(*arguments)), expected, "f64")
    assert fused.explain(*arguments).again == ()


@pytest.mark.drawn(count=12)
@pytest.mark.parametrize("name", names())
def test_a_program_has_the_same_dtypes_in_dpnp_as_in_numpy(name):
    """In f32, with other sizes: where dpnp's promotion differs, a benchmark would compare different work."""
    call, host = (make(which, name, BATCH, "f32", seed=1) for which in ("dpnp", "numpy"))
    agree(name, host_arrays(call()), arrays_of(host()), "f32")


def test_there_are_programs_of_many_kinds():
    assert len(names()) >= 50
    assert len(set(names().values())) >= 10


def test_a_seed_draws_sizes_and_data():
    name = "gru_step"
    shapes = {tuple(np.shape(array) for array in make("numpy", name, 2, seed=seed).arguments[1:]) for seed in range(5)}
    assert len(shapes) > 1
    one, same, other = (make("numpy", name, 2, data=data).arguments[1] for data in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()
    assert make("numpy", name, 5).arguments[1].shape[1:] == one.shape[1:]


def test_numbers_change_from_call_to_call():
    steps = [arguments[-1] for arguments in varied(make("numpy", "leapfrog_lattice", 1))]
    assert len(set(steps)) == len(steps) > 2


def test_wrong_results_are_not_timed():
    with pytest.raises(AssertionError, match="relative error"):
        agree("it", [np.ones(3)], [np.array([1.0, 1.0, 1.1])], "f32")
    with pytest.raises(AssertionError, match="was expected"):
        agree("it", [np.ones(3, "f4")], [np.ones(3)], "f32")
    with pytest.raises(AssertionError, match="relative error is nan"):
        agree("it", [np.array([np.nan])], [np.ones(1)], "f32")


def test_cases_are_those_that_were_chosen():
    assert Programs(only=("gru_step",), batches=(1, 7), elements=("f64",)).cases == ("f64 gru_step 1", "f64 gru_step 7")


def test_the_command_times_what_was_chosen(tmp_path):
    output = tmp_path / "report.json"
    command = [sys.executable, "-m", "asv_bench.must_show", "fusion-programs", "--only=euler_flux", "--batch=1",
               "--seed=5", "--seconds=0", "--patience=0", f"--output={output}"]
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                            text=True)
    assert result.returncode in (0, 1), result.stderr
    report = Report.load(output)
    assert [m.case for m in report.measurements] == ["f32 euler_flux 1"]
    assert set(report.measurements[0].ratios) == {"dpnp", "numpy"}
    assert "of 1 cases 1 are one kernel, 1 keep a plan" in result.stdout


def test_missing_peers_are_named():
    command = [sys.executable, "-m", "asv_bench.must_show", "fusion-peers", "--only=euler_flux", "--batch=1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASV_BENCH_PEERS": "/no/python"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert "/no/python is missing: `make .venv-peers/.installed`" in result.stderr


@pytest.mark.skipif(not PEERS_PYTHON.exists(), reason="there are no peers: make .venv-peers/.installed")
@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != "torch.compile"])
def test_a_peer_computes_the_same(peer):
    """The other process compares its results with NumPy's before it answers."""
    contestant = Process.of(peer).prepared("kalman_update", BATCH, "f64", 0)
    assert contestant.time(2, time.perf_counter) > 0
