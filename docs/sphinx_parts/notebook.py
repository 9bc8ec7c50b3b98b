"""A notebook as a page: its cells with what each prints and shows, ``python notebook.py NOTEBOOK PAGE``.

They run in order in one interpreter, as in Jupyter, of which nothing is needed: what a cell ends with is shown as its
class has it for notebooks (``_repr_html_``), or by ``repr``.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

__all__ = ["Cell", "page", "run"]


@dataclass(frozen=True)
class Cell:
    """A cell: Markdown, or code with what it printed and the HTML or the text of what it ended with."""

    text: str
    is_code: bool
    printed: str = ""
    html: str = ""
    shown: str = ""


def run(path: Path) -> Iterator[Cell]:
    """Run the cells of a notebook and return each; an exception of a cell is raised here."""
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
        text = "".join(cell["source"])
        yield _executed(text, f"<cell {number} of {path.name}>", names) if cell["cell_type"] == "code" \
            else Cell(text, is_code=False)


def _executed(text: str, file: str, names: dict[str, object]) -> Cell:
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # where `fuse` looks for the source
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None

    def code(node: ast.Module | ast.Expression, mode: str) -> CodeType:
        return compile(node, file, mode, dont_inherit=True)

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code(tree, "exec"), names)
        value = eval(code(ast.Expression(last.value), "eval"), names) if isinstance(last, ast.Expr) else None
    html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
    return Cell(text, True, printed.getvalue(), html, "" if value is None or html else repr(value))


def page(path: Path) -> str:
    """Return the Markdown of a notebook that has run."""
    parts = []
    for cell in run(path):
        parts.append(f"````python\n{cell.text}\n````" if cell.is_code else cell.text)
        parts += [f"````text\n{text.rstrip()}\n````" for text in (cell.printed, cell.shown) if text]
        parts += [f"````{{raw}} html\n{cell.html}\n````"] if cell.html else []
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(page(Path(sys.argv[1])), encoding="utf-8")
