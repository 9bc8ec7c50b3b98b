"""Groups: many arrays as one argument, and their tables on the device."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tl_dpnp.errors import TLTypeError
from tl_dpnp.language.types import MemrefType
from tl_dpnp.runtime.call.arrays import ArrayKind, ArrayView, DeviceTable, NotAnArray
from tl_dpnp.runtime.call.layout import sizes_in_elements
from tl_dpnp.runtime.forking import check_process, note_use

__all__ = ["Group", "GroupTables"]

_serials = itertools.count()


class GroupTables:
    """The tables of a group in the device's memory, for one memref type: addresses, and sizes and strides.

    See `tl_dpnp.lowering.plan` for their form; `dope` is None where the type has no dynamic sizes or strides, and
    `addresses` unless they stay the same.  `rows` is what `dope` holds.  The arrays are of one `kind` and on `queue`.
    """

    __slots__ = ("addresses", "dope", "rows")

    def __init__(
        self, memref: MemrefType, views: Sequence[ArrayView], strides: Sequence[Sequence[int]], kind: ArrayKind,
        queue: Any, stays: bool = True,
    ) -> None:
        self.addresses: DeviceTable | None = None
        if stays:
            self.addresses = upload(kind, [view.address for view in views], queue)
        self.dope: DeviceTable | None = None
        self.rows: np.ndarray[Any, Any] | None = None
        sizes_at = [mode for mode, size in enumerate(memref.shape) if size is None]
        strides_at = [mode for mode, stride in enumerate(memref.strides) if stride is None]
        if sizes_at or strides_at:
            shapes = [sizes_in_elements(view.shape, memref.element.per_byte) for view in views]
            rows = [
                [*(shape[mode] for mode in sizes_at), *(fitted[mode] for mode in strides_at)]
                for shape, fitted in zip(shapes, strides, strict=True)
            ]
            self.rows = np.array(rows, dtype=np.int64)
            self.dope = upload(kind, self.rows, queue)


def upload(kind: ArrayKind, values: Any, queue: Any) -> DeviceTable:
    """Copy integers to the device of a queue of arrays of a kind."""
    check_process()
    note_use()
    return kind.upload(values, queue)


class Group:
    """Arrays that kernels take as one ``group`` argument, with their tables kept on the device.

    Made by `tl_dpnp.group`.  `arrays`, all of one `kind`, are the arrays as they were given, kept alive; `offset` is
    added to each address, in elements, by parameters whose type says ``offset: ?``.  A group is checked and uploaded
    once for each memref type that it is used with, so that later calls cost no more than with a single array.
    """

    def __init__(self, arrays: Sequence[Any], kind: ArrayKind, offset: int = 0) -> None:
        self._arrays, self._offset = tuple(arrays), offset
        self.kind = kind
        self.views = _views(kind, self.arrays)
        self.queue = kind.common_queue([(f"array {p} of the group", view.queue) for p, view in enumerate(self.views)
                                        if not p or view.queue is not self.views[0].queue])
        self.serial = next(_serials)
        self._tables: dict[MemrefType, GroupTables] = {}
        self._lock = threading.Lock()

    # What kernels remember of a group, they know by its number: another offset, or other arrays, are another group.

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays as they were given."""
        return self._arrays

    @property
    def offset(self) -> int:
        """What is added to the address of each, in elements."""
        return self._offset

    def __len__(self) -> int:
        return len(self.arrays)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrays)

    def __getitem__(self, position: int) -> Any:
        return self.arrays[position]

    def __repr__(self) -> str:
        dtypes = ", ".join(dict.fromkeys(str(view.dtype) for view in self.views))
        return f"<tl_dpnp.Group of {len(self)} arrays{f' of {dtypes}' if dtypes else ''}, offset {self.offset}>"

    def known_tables(self, memref: MemrefType) -> GroupTables | None:
        """Return the tables for `memref` if the group was used with it before."""
        return self._tables.get(memref)

    def make_tables(self, memref: MemrefType, strides: Sequence[Sequence[int]]) -> GroupTables:
        """Upload the tables for `memref`, whose `strides` the caller has checked, once."""
        with self._lock:
            if memref not in self._tables:
                self._tables[memref] = GroupTables(memref, self.views, strides, self.kind, self.queue)
            return self._tables[memref]


def _views(kind: ArrayKind, arrays: Sequence[Any]) -> tuple[ArrayView, ...]:
    try:
        return kind.list_views(arrays)
    except NotAnArray:
        return tuple(_element(kind, position, array) for position, array in enumerate(arrays))


def _element(kind: ArrayKind, position: int, array: Any) -> ArrayView:
    try:
        return kind.view_of(array)
    except NotAnArray as problem:
        raise TLTypeError(f"array {position} of the group is {problem.what}" +
                          (f"; {problem.hint}" if problem.hint else "")) from None
