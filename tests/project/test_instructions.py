"""An instruction stands in one file: whoever adds one has no list to find and no table to extend."""

from __future__ import annotations

import ast
import functools
import inspect
import pathlib
import re

import pytest

from tl_dpnp.language import ops

PACKAGE = pathlib.Path(__file__).parents[2] / "tl_dpnp"
#: Words that mean something else there: what operators of other languages and products of sizes are written as, the
#: functions that the meanings of instructions are made of, what compile-time variables are calculated with, and an
#: attribute of functions.
OTHER_USES = {
    "language/attributes.py": {"subgroup_size"},
    "language/elaborate.py": {"subgroup_size"},
    "language/definitions.py": {"min", "max", "shl", "shr", "and", "or", "xor"},
    "language/hints.py": {"arith", "expand", "subgroup_size"},
    "language/instructions/atomics.py": {"load", "store", "add", "min", "max"},
    "language/instructions/subgroups.py": {"add", "min", "max"},
    # The accesses of matrices are made of those of elements; the words are functions that components are combined by.
    "language/instructions/matrix_accesses.py": {
        "Load", "Store", "AtomicLoad", "AtomicStore", "AtomicAdd", "AtomicMax", "AtomicMin"},
    "language/instructions/matrices.py": {"add", "max", "min", "mul"},
    "language/interpreter/matrices.py": {"add", "max"},
    "language/instructions/matrix_methods.py": {
        kind.__name__ for kind in ops.INSTRUCTIONS if issubclass(kind, ops.CooperativeOperation)},
    "language/interpreter/memory.py": {"expand", "fuse", "subview"},
    "lowering/decomposition.py": {"Cumsum"},  # what it is lowered to stands there
    "language/interpreter/scalar.py": {"arith", *ops.Arith.aliases, *ops.Unary.aliases},
}
#: The rules about regions and lifetimes are about these; they are the structure of every program.
STRUCTURE = {"Alloca", "For", "Foreach", "If", "LifetimeStop", "Yield"}


def relative(path):
    return path.relative_to(PACKAGE).as_posix()


@functools.cache
def mentions(path):
    """Return the names and the strings of a module with their lines."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                found.append(("name", name, node.lineno))
            case ast.Constant(value=str(text)):
                found.append(("string", text, node.lineno))
    return found


def foreign_mentions(folder, kinds, exempt=frozenset()):
    """Return where modules outside of the file of an instruction name its class, or spell its words as strings."""
    homes = {}
    for kind in kinds:
        if kind.__name__ not in exempt:
            home = pathlib.Path(inspect.getfile(kind))
            homes["name", kind.__name__] = home
            homes |= {("string", word): home for word in (kind.mnemonic, *kind.aliases)}
    return {
        f"{relative(path)}:{line} {text}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for how, text, line in mentions(path)
        if homes.get((how, text), path) != path and text not in OTHER_USES.get(relative(path), ())
    }


@pytest.mark.parametrize("folder", ["language", "lowering", "kernels", "runtime"])
def test_linear_algebra_is_named_in_its_file_alone(folder):
    kinds = [kind for kind in ops.INSTRUCTIONS if issubclass(kind, ops.LinearAlgebra)]
    assert len(kinds) >= 6
    # "sum" of `graph` is a function of dpnp; no other layer has one.
    assert not foreign_mentions(folder, kinds)


def test_the_language_has_no_list_of_instructions():
    """Parser, printer, verifier, hints, builder and interpreter know the classes by what they carry."""
    assert not foreign_mentions("language", ops.INSTRUCTIONS, exempt=STRUCTURE)


def test_structure_is_known_where_regions_are():
    """The exemption is no back door: who names the structure checks it, or runs it."""
    kinds = [kind for kind in ops.INSTRUCTIONS if kind.__name__ in STRUCTURE]
    files = {place.partition(":")[0] for place in foreign_mentions("language", kinds)}
    assert files == {"language/verifier.py", "language/interpreter/machine.py"}


def test_a_foreign_name_is_found(tmp_path, monkeypatch):
    (tmp_path / "language").mkdir()
    (tmp_path / "language" / "other.py").write_text('def f(operation):\n    return operation == "gemm" or ops.Gemm\n')
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    assert foreign_mentions("language", [ops.Gemm]) == {"language/other.py:2 gemm", "language/other.py:2 Gemm"}


@pytest.mark.parametrize("kind", ops.INSTRUCTIONS, ids=lambda kind: kind.__name__)
def test_the_documentation_has_every_instruction(kind):
    text = (PACKAGE.parent / "docs" / "language.md").read_text(encoding="utf-8")
    assert re.search(rf"`[^`]*\b{kind.mnemonic}\b[^`]*`", text)
    for word in kind.kinds:
        assert re.search(rf"\b{word}\b", text), word
