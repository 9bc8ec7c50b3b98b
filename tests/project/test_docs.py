"""The documents: their Python runs, their links lead somewhere, and they name what exists."""

import ast
import pathlib
import re

import pytest

import tl_dpnp
from tests.graph.support import with_source
from tests.runtime.support import needs_tools

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_examples_run():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(with_source(block, f"<block {number} of the README>", "exec"), names)


def test_the_examples_in_the_schedule_guide_run(capsys):
    """The Python runs as one program, and prints the scripts that stand below it."""
    text = (ROOT / "docs" / "schedules.md").read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    scripts = re.findall(r"```\n(#.*?)```", text, re.DOTALL)
    assert len(scripts) == 2
    assert capsys.readouterr().out == "".join(scripts)

    import dpnp
    import numpy as np

    random = np.random.default_rng(0)
    A, B = (dpnp.asarray(random.standard_normal((64, 64), dtype=np.float32), order="F") for _ in range(2))
    for kernel in ("fast", "shared_kernel"):
        C = dpnp.zeros((64, 64), dtype=np.float32, order="F")
        names[kernel](A, B, C)
        np.testing.assert_allclose(dpnp.asnumpy(C), dpnp.asnumpy(A) @ dpnp.asnumpy(B), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("page", ["calling", "debugging", "export", "settings", pytest.param("xmx", marks=needs_tools)])
def test_the_code_of_a_page_runs_from_top_to_bottom(page):
    """Nothing has to be known from other pages."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        exec(with_source(block, f"<block {number} of {page}.md>", "exec"), names)


def test_the_programs_in_the_language_guide_are_accepted():
    from tl_dpnp.language import parse

    text = (ROOT / "docs" / "language.md").read_text()
    programs = [block for block in re.findall(r"```\n(.*?)```", text, re.DOTALL) if "func @" in block]
    assert programs
    for program in programs:
        parse(program)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text())
    assert not [t for t in targets if "://" not in t and not (path.parent / t).exists()]


def test_every_page_is_in_the_side_bar_of_the_site_and_every_public_name_in_the_reference():
    """`make docs` does not say so: a page that is in no list is no part of the site."""
    (pages,) = (ast.literal_eval(node.value) for node in ast.parse((ROOT / "docs" / "conf.py").read_text()).body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGES")
    listed = {page for pages in pages.values() for page in pages}
    assert listed - {"docs/gallery/index"} == {
        path.relative_to(ROOT).with_suffix("").as_posix() for path in DOCUMENTS if path.name != "README.md"
    } | {"CHANGELOG", "asv_bench/README"}

    named = set(re.findall(r"^\.\. auto\w+:: tl_dpnp\.([\w.]+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    assert set(tl_dpnp.__all__) <= named


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(path):
    named = re.findall(r"`((?:tl_dpnp|docs|tests|examples|asv_bench)/[\w/.]+)`", path.read_text())
    assert not [name for name in named if not (ROOT / name).exists() and name != "tl_dpnp/graph/"]
