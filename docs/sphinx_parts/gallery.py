"""The gallery: a page for each of ``examples/``, with what it prints and the picture that it draws.

Each example runs in an interpreter of its own, as its users run it and as the tests do; Sphinx-Gallery would run them
all in Sphinx's process, where one that ends by ``sys.exit`` ends the build, and what other programs print is lost.
They run one after another, so that those that measure have all cores.  An example that fails is a warning of the build,
with what it said.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sphinx.util import logging

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGES = ROOT / "docs" / "gallery"
#: What is appended to the command of an example for its picture, of which this is the file.
PICTURES = {
    "fused_attention": ["{}.svg"], "fused_einsum": ["{}.svg"], "fused_tensor_product": ["{}.svg"],
    "gemm_stages": ["--size", "384", "--rounds", "5", "--plot", "{}.svg"],
}
#: What is in front of the command of an example.
LAUNCHERS = {"mpi_batch": ["mpiexec", "-n", "2"]}
#: Open MPI takes no root, as whom containers make sites, and no more ranks than cores, unless it is told to.
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": str(ROOT), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",  # an MPI library may be a wheel
}
#: Examples that need more than a CPU.  Their pages have the program alone, and this sentence.
NOT_RUN = {"cuda_gemm_stages": "It needs an NVIDIA GPU and PyTorch, and was not run for this page."}
#: An example that cannot run says so with such a message, if what is missing is no part of the package.
MISSING = "are needed: apt-get install"

_PAGE = """\
# {title}

{text}

{output}
## The program

```{{literalinclude}} /examples/{name}.py
:language: python
```
"""
_OUTPUT = """\
## What it prints

```console
$ {command}
{printed}
```

{picture}
"""
_FAILED = "It was not run for this page: "
_INDEX = """\
# Gallery

The programs and the notebook in the folder `examples`, each with what it printed when these pages were made, on the
machine that made them. They compare their results with NumPy's, and the tests run all of them.

::::{{grid}} 1 2 2 3
{cards}
::::

```{{toctree}}
:hidden:

{names}
```
"""
_CARD = """
:::{{grid-item-card}} {title}
:link: {name}
:link-type: doc
{image}
{text}
:::"""


@dataclass(frozen=True)
class Example:
    """A program, what it says of itself, the Markdown of its page, and what it drew or said in vain."""

    path: Path
    title: str
    text: str
    page: str = ""
    picture: Path | None = None
    failure: str = ""

    @property
    def name(self) -> str:
        return self.path.stem


def described(path: Path) -> Example:
    """Return an example with its title and text: a docstring begins with ``title: `` or ``title.``"""
    if path.suffix == ".ipynb":
        heading, _, rest = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]).partition("\n")
        return Example(path, heading.removeprefix("# "), rest.strip())
    match = re.match(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
    if match is None:
        raise ValueError(f"{path} has no docstring")
    first, _, rest = match[1].partition("\n")
    title, mark, more = re.fullmatch(r"(.+?)(: |\.)(.*)", first).groups()
    text = more if mark == ": " else ""
    if text[1:2].isalpha():  # a word and no formula
        text = text[0].upper() + text[1:]
    rest = re.sub(r"\n {4}(\S.*)", r"\n```sh\n\1\n```", rest)
    return Example(path, title, f"{text}\n{rest}".strip())


def run(example: Example, folder: Path) -> Example:
    """Return an example with its page, and its picture in a folder; that of one that fails has the program alone."""
    if example.name in NOT_RUN:
        return _program(example, NOT_RUN[example.name])
    if example.path.suffix == ".ipynb":
        made = folder / f"{example.name}.md"
        done = _done(folder, sys.executable, Path(__file__).with_name("notebook.py"), example.path, made)
        if done.returncode:
            return replace(example, page=f"# {example.title}\n\n{_FAILED}{done.stderr}", failure=done.stderr)
        return replace(example, page=made.read_text("utf-8"))
    launcher, arguments = LAUNCHERS.get(example.name, []), PICTURES.get(example.name, [])
    drawn = [part.format(folder / example.name) for part in arguments]
    done = _done(folder, *launcher, sys.executable, example.path, *drawn)
    if done.returncode:
        return replace(_program(example, _FAILED + done.stderr.strip()), failure=done.stderr)
    picture = folder / f"{example.name}.svg"
    command = [*launcher, "python", f"examples/{example.name}.py", *(part.format(example.name) for part in arguments)]
    output = _OUTPUT.format(command=" ".join(command), printed=done.stdout.rstrip(),
                            picture=f"![Picture]({picture.name})" if picture.exists() else "")
    return replace(_program(example, output), picture=picture if picture.exists() else None)


def _done(folder: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, env=ENVIRONMENT, text=True, capture_output=True, timeout=600,
                              check=False)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def _program(example: Example, output: str) -> Example:
    """Return an example with the page of a program."""
    return replace(example, page=_PAGE.format(title=example.title, text=example.text, name=example.name, output=output))


def write(app: Any) -> None:
    """Run the examples and write their pages, unless these are newer than all that they come from."""
    PAGES.mkdir(exist_ok=True)
    sources = [*Path(__file__).parent.glob("*.py"), *EXAMPLES.iterdir(), *(ROOT / "tl_dpnp").rglob("*.py")]
    index = PAGES / "index.md"
    if index.exists() and index.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return
    for stale in PAGES.iterdir():
        stale.unlink()
    paths = [*sorted(EXAMPLES.glob("*.ipynb")), *sorted(EXAMPLES.glob("*.py"))]
    examples = [run(described(path), PAGES) for path in paths]
    for example in examples:
        if example.failure and MISSING not in example.failure:
            logging.getLogger(__name__).warning("examples/%s failed: %s", example.path.name, example.failure)
        (PAGES / f"{example.name}.md").write_text(example.page, encoding="utf-8")
    cards = "\n".join(_card(example) for example in examples)
    names = "\n".join(example.name for example in examples)
    index.write_text(_INDEX.format(cards=cards, names=names), encoding="utf-8")
    if any(example.failure for example in examples):
        os.utime(index, (0, 0))  # so that the next build runs them again, and says the same


def _card(example: Example) -> str:
    image = f":img-bottom: {example.picture.name}\n" if example.picture else ""
    text = textwrap.shorten(example.text.partition("\n\n")[0], 160, placeholder=" …")
    return _CARD.format(title=example.title, name=example.name, image=image, text=text)


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for pages."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
