"""Every example runs in an interpreter of its own and says what it checked."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*.py"))
#: Arguments that make an example short.
ARGUMENTS = {"gemm_stages": ["--size", "192", "--rounds", "2"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    if path.stem.startswith("cuda_") and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is no CUDA device")
    command = [sys.executable, str(path), *ARGUMENTS.get(path.stem, [])]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert "checked" in result.stdout
