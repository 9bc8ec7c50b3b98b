"""What the axes of figures have in common."""

from __future__ import annotations

from typing import Any

__all__ = ["plain_ticks"]


def plain_ticks(axis: Any) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, in plain numbers, which leaves them room."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
