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
    "fuse": "from tl_dpnp import fuse; use = lambda: fuse(lambda x: x + 1)",
    "fuse with options": "from tl_dpnp import fuse; use = lambda: fuse(dynamic=True)",
    "explain": "from tl_dpnp import explain; use = lambda: explain(max, 1, 2)",
    "fusing": "from tl_dpnp import fusing; use = fusing",
    "spec": "from tl_dpnp import spec; use = lambda: spec((3, 4))",
    "devices": "from tl_dpnp import devices; use = devices",
    "empty_group": "from tl_dpnp import empty_group; use = lambda: empty_group([(3, 4)], 'float32')",
    "xp": "import tl_dpnp.xp as xp; use = lambda: xp.zeros(3)",
    "compile": "import tl_dpnp; use = lambda: tl_dpnp.compile('func @f(%x: memref<f32x3>) {}')",
}


def run(code):
    return subprocess.run([sys.executable, "-c", WITHOUT + code], text=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("name", USES)
def test_what_needs_dpnp_says_so_where_it_is_used(name):
    result = run(f"{USES[name]}\nprint('imported')\nfrom tl_dpnp import UnsupportedError\n"
                 "try:\n    use()\nexcept UnsupportedError as error:\n    print(error)")
    imported, words = result.stdout.splitlines()
    assert imported == "imported", result.stderr
    assert "which is not installed here: `pip install .` in the source of tl_dpnp" in words


def test_other_modules_that_are_missing_are_named_as_ever():
    code = "sys.modules['opt_einsum'] = sys.modules['tl_dpnp.graph.contraction'] = None\nimport tl_dpnp\ntl_dpnp.fuse"
    result = subprocess.run([sys.executable, "-c", "import sys\n" + code], text=True, capture_output=True, timeout=120)
    assert result.returncode == 1
    assert "ModuleNotFoundError: import of" in result.stderr.splitlines()[-1]


def test_python_may_ask_the_module_for_what_modules_have():
    result = run("import tl_dpnp.xp as xp\nprint(hasattr(xp, '__path__'), xp.__name__)")
    assert result.stdout.split() == ["False", "tl_dpnp.xp"], result.stderr
