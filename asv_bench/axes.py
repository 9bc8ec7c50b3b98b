"""What figures have in common: their axes and their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["plain_ticks", "save"]


def plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, in plain numbers, which leaves them room."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def save(name: str, draw: Callable[[], Any], images: Path) -> None:
    """Draw a figure as PNG and SVG into a folder; the same numbers give the same files."""
    from matplotlib import pyplot, rc_context

    with rc_context({"svg.hashsalt": name}):
        figure = draw()
        figure.savefig(images / f"{name}.png", dpi=110)
        figure.savefig(images / f"{name}.svg", metadata={"Date": None})
        pyplot.close(figure)
