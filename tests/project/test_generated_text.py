"""The compiler reads no text that it has generated: what is decided by is in trees and tables."""

from __future__ import annotations

import ast
import pathlib

import tl_dpnp

PACKAGE = pathlib.Path(tl_dpnp.__file__).parent
#: Modules and methods by which text is looked into.
MODULES = {"re"}
METHODS = {"isidentifier", "splitlines", "startswith", "endswith", "partition", "rpartition", "removeprefix",
           "removesuffix"}
#: Where names that users write in schedules, of micro-kernels and of loops, are read, and where a class of the package
#: is found by its row.
NAMES = {"kernels/dpas/micro_kernel.py": {"re"}, "kernels/amx/micro_kernel.py": {"re"},
         "lowering/tactics/blocks.py": {"endswith"}, "lowering/homes.py": {"rpartition"}}


def readers(path: pathlib.Path) -> set[str]:
    """Return by what a module looks into text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= MODULES & {name.name for name in names}
            case ast.Call(func=ast.Attribute(attr=name)):
                found |= METHODS & {name}
    return found


def test_lowering_looks_into_no_text():
    found = {path.relative_to(PACKAGE).as_posix(): readers(path)
             for layer in ("lowering", "kernels") for path in sorted((PACKAGE / layer).rglob("*.py"))}
    assert {path: names for path, names in found.items() if names} == NAMES


def test_the_text_of_a_body_is_for_people():
    """It is printed for `inspect_source` alone: nothing else asks for it."""
    printing = {path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))
                if "body.printing" in path.read_text(encoding="utf-8")}
    assert printing == {"lowering/pipeline.py"}
