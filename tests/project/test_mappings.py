"""A mapping stands in one place: nobody else asks for it by its name."""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import pkgutil

import pytest

import tl_dpnp
from tl_dpnp.lowering import mappings
from tl_dpnp.lowering.mappings.frames import FRAMES
from tl_dpnp.lowering.mappings.mapping import LoopMapping, Mapping, OfProduct

PACKAGE = pathlib.Path(tl_dpnp.__file__).parent
HOME = PACKAGE / "lowering" / "mappings"
MODULES = [importlib.import_module(found.name)
           for found in pkgutil.walk_packages(mappings.__path__, f"{mappings.__name__}.")]
CLASSES = {value for module in MODULES for value in vars(module).values()
           if inspect.isclass(value) and issubclass(value, Mapping)} - {Mapping, LoopMapping, OfProduct}
#: Where users give the names, and words that only happen to be one: of other languages, a scope of atomic accesses, and
#: a kind of the blocks that messages load.
EXEMPT = {"config.py": {"vector", "subgroup"}, "language/hints.py": {"vector"}, "language/assembly.py": {"subgroup"},
          "kernels/dpas/block_shapes.py": {"packed"}, "kernels/dpas/tile_blocks.py": {"packed"}}


def named(path):
    """Return where a module has the name of a mapping as a string, or its class."""
    words = {*FRAMES, *(kind.__name__ for kind in CLASSES)}
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Constant(value=str(word)) | ast.Name(id=word) | ast.Attribute(attr=word) | ast.alias(name=word):
                if word in words and isinstance(node, ast.Constant) == (word in FRAMES):
                    found.append((word, node.lineno))
    return found


def foreign_names(package, exempt):
    return {f"{path.relative_to(package).as_posix()}:{line} {word}"
            for path in sorted(package.rglob("*.py")) if HOME not in path.parents
            for word, line in named(path)
            if word not in exempt.get(path.relative_to(package).as_posix(), ())}


def test_no_other_module_knows_the_name_of_a_mapping():
    assert not foreign_names(PACKAGE, EXEMPT)


def test_exemptions_are_needed():
    assert {place.partition(":")[0] for place in foreign_names(PACKAGE, {})} == set(EXEMPT)


def test_a_foreign_name_is_found(tmp_path):
    text = 'from x import WorkItem\ndef f(form):\n    return form in ("staged", "a staged one")\n'
    (tmp_path / "other.py").write_text(text)
    assert foreign_names(tmp_path, {}) == {"other.py:1 WorkItem", "other.py:3 staged"}


def test_each_frame_is_that_of_one_mapping():
    assert sorted(kind.form for kind in CLASSES) == sorted(FRAMES)


@pytest.mark.parametrize("kind", sorted(CLASSES, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_a_mapping_is_a_module_of_its_own(kind):
    own = [other for other in CLASSES if other.__module__ == kind.__module__]
    assert own == [kind]


@pytest.mark.parametrize("form", FRAMES)
def test_the_documentation_has_every_mapping(form):
    (kind,) = (kind for kind in CLASSES if kind.form == form)
    module = pathlib.Path(inspect.getfile(kind)).relative_to(PACKAGE).as_posix()
    text = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"`{module}`" in text
