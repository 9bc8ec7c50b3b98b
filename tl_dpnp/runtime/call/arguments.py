"""Arguments of a call that were checked against their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tl_dpnp.language.extents import Extents
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.layout import sizes_in_elements

__all__ = ["Argument", "BoundCall", "GroupArgument", "MemrefArgument", "PointersArgument", "ScalarArgument"]


@dataclass(frozen=True)
class ScalarArgument:
    """The place of a scalar; its value is converted at each call."""

    @property
    def views(self) -> tuple[ArrayView, ...]:
        """No arrays."""
        return ()

    reached = views

    @property
    def shape(self) -> tuple[int, ...]:
        """No sizes."""
        return ()


@dataclass(frozen=True)
class MemrefArgument:
    """An array and the strides that the kernel uses; each of its bytes may hold several elements along axis 0."""

    view: ArrayView
    strides: tuple[int, ...]
    per_byte: int = 1

    @property
    def views(self) -> tuple[ArrayView, ...]:
        """The one array."""
        return (self.view,)

    reached = views

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the modes."""
        return sizes_in_elements(self.view.shape, self.per_byte)


@dataclass(frozen=True)
class GroupArgument:
    """The arrays of a group, the strides that the kernel uses for each, the offset, and the handle if there is one.

    `strides` is empty where the handle has its tables already.  `per_byte` is as in `MemrefArgument`.
    """

    views: tuple[ArrayView, ...]
    strides: tuple[tuple[int, ...], ...]
    offset: int
    handle: Group | None
    per_byte: int = 1

    @property
    def is_listed(self) -> bool:
        """Whether there is a list among the arrays of the call, whose table has the addresses."""
        return self.handle is None

    @property
    def reached(self) -> Sequence[ArrayView]:
        """The memory that a kernel reaches by the arrays: where they are, moved by the offset."""
        step = self.offset // self.per_byte
        return [view._replace(address=view.address + step * view.dtype.itemsize) for view in self.views] if step else (
            self.views)

    @property
    def shape(self) -> Sequence[tuple[int, ...]]:
        """The sizes of the modes of each element."""
        return [sizes_in_elements(view.shape, self.per_byte) for view in self.views]


@dataclass(frozen=True)
class PointersArgument:
    """An array of pointers on the device, which stands for a group: each points to an array of the `element` sizes.

    Where the arrays lie is known to the device alone.
    """

    view: ArrayView
    element: tuple[int, ...]

    @property
    def views(self) -> tuple[ArrayView, ...]:
        """The array of pointers."""
        return (self.view,)

    reached = views

    @property
    def shape(self) -> Sequence[tuple[int, ...]]:
        """The sizes of the modes of each element."""
        return [self.element] * self.view.shape[0]


Argument = ScalarArgument | MemrefArgument | GroupArgument | PointersArgument


@dataclass(frozen=True)
class BoundCall:
    """The checked arguments of a call, the queue that they share (None without arrays), the number of work-groups.

    `height` and `depth` are the extents of the launch along y and z.  `is_inferred` says that the number of work-groups
    follows from the arguments alone.
    """

    arguments: tuple[Argument, ...]
    queue: Any
    groups: int
    height: int = 1
    depth: int = 1
    is_inferred: bool = False

    @property
    def extents(self) -> Extents:
        """The numbers of work-groups along x, y and z."""
        layer = self.height * self.depth
        return self.groups // layer if layer else 0, self.height, self.depth
