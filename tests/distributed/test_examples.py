"""The examples for several processes, run as their page says; they compare with one process themselves."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(*command):
    result = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, check=False, cwd=ROOT,
                            env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"})
    assert result.returncode == 0, result.stderr
    assert "all bits agree" in result.stdout
    assert "efficiency" in result.stdout
    return result.stdout


#: The second of two shares is smaller than the first.
ODD = 4_001


@pytest.mark.parametrize("batch", [4_000, ODD])
def test_dask_on_two_workers(batch):
    pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    assert f"{batch} matrices on 2 workers" in run(
        sys.executable, ROOT / "examples" / "dask_batch.py", "--batch", batch)


@pytest.mark.parametrize("batch", [4_000, ODD, 1])
def test_mpi_on_two_ranks(batch):
    """Of one matrix, the second rank has none."""
    pytest.importorskip("mpi4py")
    beside = pathlib.Path(sys.executable).parent
    mpiexec = shutil.which("mpiexec", path=f"{beside}:{os.environ['PATH']}")
    if mpiexec is None:
        pytest.skip("there is no mpiexec")
    root = ["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in subprocess.run(
        [mpiexec, "--version"], capture_output=True, text=True, check=False).stdout else []
    assert f"{batch} matrices on 2 ranks" in run(
        mpiexec, *root, "-n", "2", sys.executable, ROOT / "examples" / "mpi_batch.py", "--batch", batch)


def test_two_queues():
    assert "2 queues" in run(sys.executable, ROOT / "examples" / "several_queues.py", "--batch", ODD)
