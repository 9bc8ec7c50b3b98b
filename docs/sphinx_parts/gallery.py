"""The gallery: a page for each of ``examples/``, with what it prints and the picture that it draws.

Each example runs in an interpreter of its own, as its users run it and as the tests do; Sphinx-Gallery would run them
all in Sphinx's process, where one that ends by ``sys.exit`` ends the build, and what other programs print is lost.  An
example that fails is a warning of the build, with what it said.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
$ python examples/{command}
{printed}
```

{picture}
"""
_INDEX = """\
# Gallery

The programs in the folder `examples`, each with what it printed when these pages were made, on the machine
that made them. They compare their results with NumPy's, and the tests run all of them.

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
    """A program, what it says of itself, and what it did."""

    name: str
    title: str
    text: str
    command: str = ""
    printed: str | None = None
    failure: str = ""
    picture: Path | None = None


def described(path: Path) -> Example:
    """Return the name, the title and the text of an example; its docstring begins with ``title: `` or ``title.``"""
    match = re.match(r'"""(.*?)"""', path.read_text(encoding="utf-8"), re.DOTALL)
    if match is None:
        raise ValueError(f"{path} has no docstring")
    first, _, rest = match[1].partition("\n")
    title, mark, more = re.fullmatch(r"(.+?)(: |\.)(.*)", first).groups()
    text = more if mark == ": " else ""
    if text[1:2].isalpha():  # a word and no formula
        text = text[0].upper() + text[1:]
    rest = re.sub(r"\n {4}(\S.*)", r"\n```sh\n\1\n```", rest)
    return Example(path.stem, title, f"{text}\n{rest}".strip())


def run(example: Example, folder: Path) -> Example:
    """Return an example with what it printed, and its picture in a folder."""
    if example.name in NOT_RUN:
        return Example(example.name, example.title, f"{example.text}\n\n{NOT_RUN[example.name]}")
    picture = folder / f"{example.name}.svg"
    given = PICTURES.get(example.name, [])
    arguments = [part.format(folder / example.name) for part in given]
    done = subprocess.run([sys.executable, EXAMPLES / f"{example.name}.py", *arguments], cwd=folder, text=True,
                          capture_output=True, timeout=600, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    command = " ".join([f"{example.name}.py", *(part.format(example.name) for part in given)])
    failure = "" if done.returncode == 0 else done.stderr
    printed = None if failure else done.stdout.rstrip()
    return Example(example.name, example.title, example.text, command, printed, failure,
                   picture if picture.exists() else None)


def page(example: Example) -> str:
    """Return the Markdown of the page of an example."""
    output = ""
    if example.printed is not None:
        picture = f"![Picture]({example.picture.name})" if example.picture else ""
        output = _OUTPUT.format(command=example.command, printed=example.printed, picture=picture)
    elif example.failure:
        output = f"It was not run for this page: {example.failure.strip()}\n"
    return _PAGE.format(title=example.title, text=example.text, name=example.name, output=output)


def write(app: Any) -> None:
    """Run the examples and write their pages, unless these are newer than all that they come from."""
    PAGES.mkdir(exist_ok=True)
    sources = [Path(__file__), *EXAMPLES.iterdir(), *(ROOT / "tl_dpnp").rglob("*.py")]
    index = PAGES / "index.md"
    if index.exists() and index.stat().st_mtime > max(path.stat().st_mtime for path in sources):
        return
    for stale in PAGES.iterdir():
        stale.unlink()
    examples = [described(path) for path in sorted(EXAMPLES.glob("*.py"))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        examples = list(pool.map(lambda example: run(example, PAGES), examples))
    for example in examples:
        if example.failure and MISSING not in example.failure:
            logging.getLogger(__name__).warning("examples/%s.py failed: %s", example.name, example.failure)
        (PAGES / f"{example.name}.md").write_text(page(example), encoding="utf-8")
    cards = "\n".join(_card(example) for example in examples)
    names = "\n".join(example.name for example in examples)
    index.write_text(_INDEX.format(cards=cards, names=names), encoding="utf-8")


def _card(example: Example) -> str:
    image = f":img-bottom: {example.picture.name}\n" if example.picture else ""
    text = textwrap.shorten(example.text.partition("\n\n")[0], 160, placeholder=" …")
    return _CARD.format(title=example.title, name=example.name, image=image, text=text)


def setup(app: Any) -> dict[str, bool]:
    """Write the pages before Sphinx looks for pages."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True}
