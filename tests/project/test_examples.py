"""Every example runs in an interpreter of its own and says what it checked; the cells of notebooks run in order."""

import ast
import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.graph.source_text import with_source

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*.py"))
#: Arguments that make an example short.
ARGUMENTS = {"gemm_stages": ["--size", "192", "--rounds", "2"]}
#: Packages beyond those that tl_dpnp is installed with; `make test-distributed` has them.
NEEDS = {"dask_batch": ["dask.array", "distributed"], "mpi_batch": ["mpi4py"]}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    if path.stem.startswith("cuda_") and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is no CUDA device")
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    command = [sys.executable, str(path), *ARGUMENTS.get(path.stem, [])]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    if path.stem == "exported_kernel" and "OpenCL's headers (CL/cl.h) are needed" in result.stderr:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr
    assert "checked" in result.stdout
    assert "error 0.0" not in result.stdout or "all bits agree" in result.stdout, "0.0 without a reason"


@pytest.mark.parametrize("path", sorted(EXAMPLES[0].parent.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path):
    """What a cell ends with is shown as notebooks do it, and nothing that was printed once is kept in the file."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    assert not [cell for cell in cells if cell["outputs"] or cell["execution_count"]]
    names: dict[str, object] = {}
    for number, cell in enumerate(cells):
        text, file = "".join(cell["source"]), f"<cell {number} of {path.name}>"
        exec(with_source(text, file, "exec"), names)
        if isinstance(last := ast.parse(text).body[-1], ast.Expr):
            shown = eval(compile(ast.Expression(last.value), file, "eval"), names)
            assert shown is None or repr(shown)


def test_the_cuda_example_says_that_pytorch_is_missing(tmp_path):
    """With a module in PyTorch's place that is as good as none."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')\n")
    path = next(path for path in EXAMPLES if path.stem == "cuda_gemm_stages")
    result = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{path.parents[1]}"})
    assert result.returncode == 1
    assert result.stderr == (
        "PyTorch is missing, which makes the matrices here and is compared with: pip install torch\n")
