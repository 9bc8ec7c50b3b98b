"""Every example runs in an interpreter of its own and says what it checked; the cells of notebooks run in order."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from docs.sphinx_parts.notebook import page, run

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
    """As the page of the documentation has it; nothing that was printed once is kept in the file."""
    kept = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in kept if cell["outputs"] or cell["execution_count"]]
    cells = [cell for cell in run(path) if cell.is_code]
    assert len(cells) == len(kept)
    assert any(cell.html for cell in cells)
    assert any(cell.printed for cell in cells)


def test_what_a_cell_prints_and_shows_stands_below_it_on_the_page(tmp_path):
    class_ = "class Shown:\n    def _repr_html_(self):\n        return '<b>shown</b>'\n"
    sources = {"markdown": "# Title", "code": "x = 6\nprint('one')\nx * 7"}
    cells = [{"cell_type": kind, "source": text.splitlines(keepends=True)} for kind, text in sources.items()]
    cells += [{"cell_type": "code", "source": [text]} for text in (f"{class_}Shown()", "None", "y = x")]
    path = tmp_path / "some.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    code = [f"````python\n{''.join(cell['source'])}\n````" for cell in cells[1:]]
    assert page(path).split("\n\n") == [
        "# Title", code[0], "````text\none\n````", "````text\n42\n````", code[1], "````{raw} html\n<b>shown</b>\n````",
        code[2], code[3] + "\n"]
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["1 / 0"]}]}))
    with pytest.raises(ZeroDivisionError):
        page(path)


def test_the_list_of_the_examples_has_all():
    listed = re.findall(r"^\| \[\w+\]\(([\w.]+)\)", (EXAMPLES[0].parent / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in [*EXAMPLES, *EXAMPLES[0].parent.glob("*.ipynb")])


def test_the_cuda_example_says_that_pytorch_is_missing(tmp_path):
    """With a module in PyTorch's place that is as good as none."""
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(name='torch')\n")
    path = next(path for path in EXAMPLES if path.stem == "cuda_gemm_stages")
    result = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{path.parents[1]}"})
    assert result.returncode == 1
    assert result.stderr == (
        "PyTorch is missing, which makes the matrices here and is compared with: pip install torch\n")
