"""What can be imported where dpnp is not installed, and what it says when it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
for name in ("dpnp", "dpctl", "numba_dpex"):
    sys.modules[name] = None
"""
USES = {
    "fusing": "from tl_dpnp import fusing; use = fusing",
    "spec": "from tl_dpnp import spec; use = lambda: spec((3, 4))",
    "devices": "from tl_dpnp import devices; use = devices",
    "empty_group": "from tl_dpnp import empty_group; use = lambda: empty_group([(3, 4)], 'float32')",
    "xp": "import tl_dpnp.xp as xp; use = lambda: xp.zeros(3)",
    "compile": "import tl_dpnp; use = lambda: tl_dpnp.compile('func @f(%x: memref<f32x3>) {}')",
}
#: What is for PyTorch's tensors where dpnp is missing, so that the error comes when it is known what is given.
FUSE = {
    "fuse": "from tl_dpnp import fuse; use = lambda: fuse(lambda x: x + 1)(1)",
    "fuse with options": "from tl_dpnp import fuse; use = lambda: fuse(dynamic=True)(lambda x: x + 1)(1)",
    "explain": "from tl_dpnp import explain; use = lambda: explain(lambda x: x + 1)(1)",
}


def run(code):
    return subprocess.run([sys.executable, "-c", WITHOUT + code], text=True, capture_output=True, timeout=120)


def words_on(use):
    """Return what the error says that comes where something is used, after it was imported."""
    result = run(f"{use}\nprint('imported')\nfrom tl_dpnp import UnsupportedError\n"
                 "try:\n    use()\nexcept UnsupportedError as error:\n    print(error)")
    imported, words = result.stdout.splitlines() or ("", "")
    assert imported == "imported", result.stderr
    return words


@pytest.mark.parametrize("name", USES)
def test_what_needs_dpnp_says_so_where_it_is_used(name):
    assert "which is not installed here: `pip install .` in the source of tl_dpnp" in words_on(USES[name])


@pytest.mark.parametrize("name", FUSE)
def test_what_needs_dpnp_cupy_or_pytorch_says_so_where_it_is_called(name):
    words = words_on(f"import sys; sys.modules['torch'] = None; {FUSE[name]}")
    found = "fuse needs dpnp, CuPy or PyTorch, and none of them is installed here: docs/installing.md and docs/cuda.md"
    assert found in words


def test_other_modules_that_are_missing_are_named_as_ever():
    code = "sys.modules['opt_einsum'] = sys.modules['tl_dpnp.graph.contraction'] = None\nimport tl_dpnp\ntl_dpnp.fuse"
    result = subprocess.run([sys.executable, "-c", "import sys\n" + code], text=True, capture_output=True, timeout=120)
    assert result.returncode == 1
    assert "ModuleNotFoundError: import of" in result.stderr.splitlines()[-1]


def test_python_may_ask_the_module_for_what_modules_have():
    result = run("import tl_dpnp.xp as xp\nprint(hasattr(xp, '__path__'), xp.__name__)")
    assert result.stdout.split() == ["False", "tl_dpnp.xp"], result.stderr
