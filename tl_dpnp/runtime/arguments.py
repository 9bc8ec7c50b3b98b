"""Arguments of a call that were checked against their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tl_dpnp.runtime.arrays import ArrayView
from tl_dpnp.runtime.group import Group

__all__ = ["Argument", "BoundCall", "GroupArgument", "MemrefArgument", "ScalarArgument"]


@dataclass(frozen=True)
class ScalarArgument:
    """The place of a scalar; its value is converted at each call."""

    @property
    def views(self) -> tuple[ArrayView, ...]:
        """No arrays."""
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """No sizes."""
        return ()


@dataclass(frozen=True)
class MemrefArgument:
    """An array and the strides that the kernel uses."""

    view: ArrayView
    strides: tuple[int, ...]

    @property
    def views(self) -> tuple[ArrayView, ...]:
        """The one array."""
        return (self.view,)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the modes."""
        return self.view.shape


@dataclass(frozen=True)
class GroupArgument:
    """The arrays of a group, the strides that the kernel uses for each, the offset, and the handle if there is one.

    `strides` is empty where the handle has its tables already.
    """

    views: tuple[ArrayView, ...]
    strides: tuple[tuple[int, ...], ...]
    offset: int
    handle: Group | None

    @property
    def shape(self) -> Sequence[tuple[int, ...]]:
        """The sizes of the modes of each element."""
        return [view.shape for view in self.views]


Argument = ScalarArgument | MemrefArgument | GroupArgument


@dataclass(frozen=True)
class BoundCall:
    """The checked arguments of a call, the queue that they share (None without arrays), the number of work-groups."""

    arguments: tuple[Argument, ...]
    queue: Any
    groups: int
