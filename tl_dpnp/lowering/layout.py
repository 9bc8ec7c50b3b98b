"""How the work-items of a work-group share the work."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SubgroupLayout"]


class SubgroupLayout(NamedTuple):
    """How the work-items of a work-group share the loops: lanes, and sub-groups along rows and columns."""

    lanes: int = 1
    rows: int = 1
    columns: int = 1

    @property
    def subgroups(self) -> int:
        """Number of sub-groups of the work-group."""
        return self.rows * self.columns
