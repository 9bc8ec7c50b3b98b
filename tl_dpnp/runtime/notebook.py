"""Kernels as notebooks show them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Table", "page"]


class Table(NamedTuple):
    """Rows of cells under their headings, all of them plain text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def page(title: str, tables: Sequence[Table], note: str, source: str) -> str:
    """Return HTML with a title, the tables that have rows, a note, and a source text, folded; all text is escaped."""
    parts = [f"<b>{escape(title)}</b>", *(_table(table) for table in tables if table.rows), escape(note),
             f"<details><summary>source</summary><pre>{escape(source)}</pre></details>"]
    return "".join(f"<div>{part}</div>" for part in parts)


def _table(table: Table) -> str:
    lines = [_row("th", table.head), *(_row("td", row) for row in table.rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="text-align:left">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"
