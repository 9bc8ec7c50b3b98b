"""Fusing functions of PyTorch's needs no dpnp, of which there is none in this environment, and no CuPy."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pathlib
import subprocess
import sys

import pytest

import tl_dpnp
from tl_dpnp.errors import UnsupportedError

FOLDER = pathlib.Path(tl_dpnp.__file__).parent / "graph" / "pytorch"


def imported():
    """Return the modules of this package that those for PyTorch import, but for themselves."""
    found = set()
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tl_dpnp.graph"):
                found.add(node.module)
    return sorted(module for module in found if not module.startswith("tl_dpnp.graph.pytorch"))


def test_what_fusing_for_pytorch_rests_on_needs_no_dpnp():
    assert importlib.util.find_spec("dpnp") is None
    modules = imported()
    assert "tl_dpnp.graph.products" in modules
    for module in modules:
        importlib.import_module(module)


def test_what_fusing_for_pytorch_rests_on_needs_no_cupy_either():
    code = f"import sys; [__import__(name) for name in {imported()!r}]; print('cupy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_without_any_package_of_arrays_fuse_says_which_there_are(monkeypatch):
    fused = tl_dpnp.fuse(lambda x: x + 1)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="needs dpnp, CuPy or PyTorch, and none of them is installed"):
        fused(1)
