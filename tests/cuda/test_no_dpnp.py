"""Fusing functions of PyTorch's needs no dpnp: in this environment there is none, and what it rests on is imported."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pathlib

import tl_dpnp

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
