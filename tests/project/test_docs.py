"""The documents: their Python runs, their links lead somewhere, and they name what exists."""

import ast
import os
import pathlib
import re
import runpy
import shlex
import subprocess
import sys
from importlib.util import find_spec

import pytest

import tl_dpnp
from tests.graph.support import with_source
from tests.runtime.support import needs_tools
from tests.semantics.support import TARGETS
from tl_dpnp.language import ops, parse
from tl_dpnp.language.highlighting import TensorLexer

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "asv_bench" / "README.md",
             *sorted((ROOT / "docs").glob("*.md"))]


#: Blocks with a language: ``tl`` is a program, ``sh`` commands, ``text`` what is printed or drawn, the last is the
#: reference of names.
LANGUAGES = {"python", "tl", "sh", "text", "diff", "cpp", "{eval-rst}"}
#: Pages whose Python has tests of its own: below, in tests/graph/test_documentation.py, in tests/cuda/test_cupy.py.
TESTED_ELSEWHERE = {"schedules", "fusion", "cupy"}
#: What the Python of a page needs beside dpnp.
NEEDS = {"xmx": needs_tools}


def blocks_of(path: pathlib.Path) -> list[tuple[str, str]]:
    """Return the language and the text of each block of code on a page."""
    return re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run(path: pathlib.Path) -> None:
    """Run the Python of a page as one program, in which `program` is the one in the tensor language above."""
    names: dict[str, object] = {}
    for number, (language, block) in enumerate(blocks_of(path)):
        if language == "tl":
            names["program"] = block
        elif language == "python":
            exec(with_source(block, f"<block {number} of {path.name}>", "exec"), names)


@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=NEEDS.get(path.stem, ()))
    for path in DOCUMENTS
    if path.stem not in TESTED_ELSEWHERE and "python" in dict(blocks_of(path))
])
def test_the_code_of_a_page_runs_from_top_to_bottom(path):
    """Nothing has to be known from other pages."""
    if path.stem == "pytorch" and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is no CUDA device")
    run(path)


@pytest.mark.parametrize("form", [None, "subgroup"])
def test_the_programs_of_the_instructions_run_on_a_device_as_well(monkeypatch, form):
    """The page has them run by the interpreter; here its NumPy arrays are copied to the device and back."""
    vector = next(target for target in TARGETS if target.name == "vector")
    compiled, compile_it = [], tl_dpnp.compile

    def on_a_device(program, *, target):
        compiled.append(program)
        kernel = compile_it(program, form=form)
        return lambda *arguments, group_size=None: vector.call(kernel, *arguments, group_size=group_size)

    monkeypatch.setattr(tl_dpnp, "compile", on_a_device)
    run(ROOT / "docs" / "instructions.md")
    assert compiled == [block for language, block in blocks_of(ROOT / "docs" / "instructions.md") if language == "tl"]


@pytest.mark.parametrize("kind", ops.INSTRUCTIONS, ids=lambda kind: kind.__name__)
def test_every_spelling_of_every_instruction_is_in_a_program_that_runs(kind):
    programs = [block for language, block in blocks_of(ROOT / "docs" / "instructions.md") if language == "tl"]
    written = {value for program in programs for _, _, value in TensorLexer().get_tokens_unprocessed(program)}
    words = {word for body in kind.grammar().values() for word in re.findall(r'"(\.?[a-z_0-9]+)"', body)}
    assert words - written <= {f".{word}" for word in written}  # `add` and `arith.add` are one word to Pygments


def test_the_examples_in_the_schedule_guide_run(capsys):
    """The Python runs as one program, and prints the scripts that stand below it."""
    text = (ROOT / "docs" / "schedules.md").read_text()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    scripts = re.findall(r"```text\n(#.*?)```", text, re.DOTALL)
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


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_block_has_a_language_and_programs_are_accepted(path):
    found = blocks_of(path)
    assert {language for language, _ in found} <= LANGUAGES
    for language, block in found:
        if language == "tl":
            parse(block)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_are_there(path, tmp_path):
    """Those of the package run, on a program of the guide; of others, the target or the module exists."""
    (tmp_path / "kernel.tl").write_text(dict(blocks_of(ROOT / "docs" / "language.md"))["tl"])
    for line in (line for language, block in blocks_of(path) if language == "sh" for line in block.splitlines()):
        command = shlex.split(line, comments=True)
        if command[:1] == ["make"]:
            assert f"\n{command[1]}:" in (ROOT / "Makefile").read_text()
        elif "-m" in command and command[command.index("-m") + 1] == "tl_dpnp":
            done = subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
            assert done.returncode == 0, (line, done.stderr)
        elif "-m" in command and command[command.index("-m") + 1] not in ("pip", "venv"):
            assert find_spec(command[command.index("-m") + 1]) is not None, line


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", path.read_text())
    assert not [t for t in targets if "://" not in t and not (path.parent / t).exists()]


def test_links_between_pages_lead_to_pages_of_the_site(monkeypatch):
    """`make docs` ends where one does not; what the site has in the place of some links is in its configuration."""
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the configuration adds to
    site = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    listed = {page for pages in site["PAGES"].values() for page in pages} | {site["root_doc"]}
    lost = []
    for path in [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "editors" / "README.md"]:
        text = [path.read_text(encoding="utf-8")]
        site["_read"](None, path.relative_to(ROOT).with_suffix("").as_posix(), text)
        for target in re.findall(r"\]\(([^)#]+)\.md[^)]*\)", text[0]):
            base = ROOT if target.startswith("/") else path.parent
            page = os.path.relpath(base / target.removeprefix("/"), ROOT)
            if "://" not in target and page not in listed:
                lost.append(f"{path.name}: {target}.md")
    assert not lost


def test_every_page_is_in_the_side_bar_of_the_site_and_every_public_name_in_the_reference():
    """`make docs` does not say so: a page that is in no list is no part of the site."""
    (pages,) = (ast.literal_eval(node.value) for node in ast.parse((ROOT / "docs" / "conf.py").read_text()).body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGES")
    listed = {page for pages in pages.values() for page in pages}
    assert listed - {"docs/gallery/index"} == {
        path.relative_to(ROOT).with_suffix("").as_posix() for path in DOCUMENTS if path.name != "README.md"
    } | {"CHANGELOG", "asv_bench/README", "editors/README"}

    named = set(re.findall(r"^\.\. auto\w+:: tl_dpnp\.([\w.]+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    assert set(tl_dpnp.__all__) <= named


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_named_files_exist(path):
    named = re.findall(r"`((?:tl_dpnp|docs|tests|examples|asv_bench)/[\w/.]+)`", path.read_text())
    assert not [name for name in named if not (ROOT / name).exists() and name != "tl_dpnp/graph/"]
