"""A test that kills its process is reported with what the process wrote to standard error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist")
ROOT = Path(__file__).parents[2]
TESTS = """
import os, signal, sys

def test_before():
    os.write(2, b"said before\\n")

def test_dies():
    os.write(2, b"terminate called\\n")
    os.kill(os.getpid(), signal.{signal})

def test_after():
    pass
"""


def run(folder: Path, text: str, *options: str) -> str:
    path = folder / "test_it.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-n", "1", "--capture=sys", "-p", "no:cacheprovider", "-c",
               str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "tests.worker_errors", *options, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment).stdout


@pytest.mark.parametrize("signal", ["SIGABRT", "SIGKILL"])
def test_the_report_of_a_test_that_kills_its_process(tmp_path: Path, signal: str) -> None:
    output = run(tmp_path, TESTS.format(signal=signal))
    assert "1 failed, 2 passed" in output
    report = output[output.index("standard error of gw0") :]
    assert "terminate called" in report
    assert ("in test_dies" in report) == (signal != "SIGKILL")
    assert "said before" not in report


def test_a_process_that_dies_outside_of_tests(tmp_path: Path) -> None:
    output = run(tmp_path, "import os\nos.write(2, b'too early\\n')\nos.abort()\n", "--max-worker-restart=0")
    assert "standard error of gw0:\ntoo early" in output
