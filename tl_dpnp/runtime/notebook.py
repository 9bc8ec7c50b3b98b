"""Kernels as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from tl_dpnp.runtime.inspection import Inspection

__all__ = ["html_of"]


def html_of(kernel: Inspection) -> str:
    """Return a kernel as HTML: its parameters, what it was compiled for so far, and its source, folded.

    Nothing is compiled.  All text is escaped, that of the user's source among it.
    """
    parts = [
        f"<b><code>@{escape(kernel.name)}</code></b> for {escape(kernel.options.target)}",
        _table(("argument", "type", ""), kernel.parameter_table),
    ]
    if kernel.signatures:
        parts.append(_table(("compiled for", "form"), [(each.device, each.form) for each in kernel.signatures]))
    stats = kernel.stats
    parts.append(f"compiled in {stats.compile_seconds:.2f} s; disk cache: {stats.cache_hits} hits, "
                 f"{stats.cache_misses} misses; built by the driver: {stats.driver_builds}; tuned: {stats.tuned}")
    parts.append(f"<details><summary>source</summary><pre>{escape(kernel.source_text)}</pre></details>")
    return "".join(f"<div>{part}</div>" for part in parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f'<{tag} style="text-align:left">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"
