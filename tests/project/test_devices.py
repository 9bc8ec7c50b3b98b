"""What differs between devices is asked of an object, never of a name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import tl_dpnp
from tl_dpnp.kernels.targets import TARGETS as KINDS
from tl_dpnp.target.catalog import CORES
from tl_dpnp.target.targets import TARGETS

PACKAGE = Path(tl_dpnp.__file__).parent
#: Targets, backends, cores and devices that have a description.
NAMES = {*TARGETS, *CORES, "H200", "dg2", "pvc", *(backend for kind in KINDS.values() for backend in kind.backends)}
#: Where devices are described, and the families of devices.
HOMES = ("target/", "runtime/sycl/", "runtime/cuda/", "runtime/platform_choice.py")


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings that a module compares something with, and matches it against, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                parts: list[ast.AST] = [left, *others]
            case ast.MatchValue(value=value):
                parts = [value]
            case _:
                continue
        for constant in (inner for part in parts for inner in ast.walk(part)):
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                yield constant.lineno, constant.value


def found_in(package: Path) -> set[str]:
    paths = {path.relative_to(package).as_posix(): path for path in sorted(package.rglob("*.py"))}
    return {f"{name}:{line} {word}" for name, path in paths.items() if not name.startswith(HOMES)
            for line, word in compared(ast.parse(path.read_text(encoding="utf-8"))) if word in NAMES}


def test_no_module_compares_with_the_name_of_a_device_or_target():
    assert not found_in(PACKAGE)


def test_a_comparison_is_found(tmp_path):
    text = "if x.backend in ('cuda', None):\n    match x.name:\n        case 'sycl' | 'other':\n            pass\n"
    (tmp_path / "other.py").write_text(text)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "one.py").write_text(text)
    assert found_in(tmp_path) == {"other.py:1 cuda", "other.py:3 sycl"}
