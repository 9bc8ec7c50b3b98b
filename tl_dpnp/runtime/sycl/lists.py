"""Lists of arrays in calls, and the tables of their addresses in the memory of a device."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tl_dpnp.runtime.call.arrays import DeviceTable
from tl_dpnp.runtime.forking import check_process, note_use
from tl_dpnp.runtime.sycl.dpctl_adapter import address_of, array_facts, upload

__all__ = ["ArrayList"]


class ArrayList:
    """What stands for a list of arrays in one call; `facts` are all of the arrays but their `addresses`.

    `arrays`, each a `usm_ndarray`, are kept alive, and the table once there is one.
    """

    __slots__ = ("_table", "addresses", "arrays", "facts")

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = tuple(arrays)
        self.facts = tuple(map(array_facts, self.arrays))
        self.addresses = np.fromiter(map(address_of, self.arrays), np.int64, len(self.arrays))
        self._table: DeviceTable | None = None

    @property
    def address(self) -> int:
        """The address of the table on the device, 0 for an empty list."""
        if self._table is None:
            self._table = _tables.of(self.arrays[0].sycl_queue, self.addresses) if self.arrays else DeviceTable(None, 0)
        return self._table.address


class _Tables:
    """The tables of the last lists, by what is in them; safe for several threads.

    A list that needs a table keeps it: one that is forgotten here lives as long as the calls that take it.
    """

    MOST_TABLES, MOST_ADDRESSES = 64, 1 << 20

    def __init__(self) -> None:
        self._made: dict[tuple[Any, bytes], DeviceTable] = {}
        self._addresses = 0
        self._lock = threading.Lock()

    def of(self, queue: Any, addresses: np.ndarray[Any, Any]) -> DeviceTable:
        """Return a table with these addresses, uploading it if there is none."""
        check_process()
        note_use()
        key = queue, addresses.tobytes()
        with self._lock:
            table = self._made.pop(key, None)
        if table is None:
            table = upload(addresses, queue)
        with self._lock:
            self._addresses += 0 if key in self._made else addresses.size
            self._made[key] = table  # the last one used is the last one forgotten
            while self._made and (len(self._made) > self.MOST_TABLES or self._addresses > self.MOST_ADDRESSES):
                oldest = next(iter(self._made))
                self._addresses -= len(oldest[1]) // addresses.itemsize
                del self._made[oldest]
        return table


_tables = _Tables()
