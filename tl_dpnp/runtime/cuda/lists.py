"""Lists of arrays in calls, and the tables of their addresses on the device."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from tl_dpnp.runtime.cuda import driver_adapter as driver
from tl_dpnp.runtime.forking import check_process, note_use

__all__ = ["ArrayList", "keep_tables"]


class ArrayList:
    """What stands for a list of arrays in one call; `facts` are all of the arrays but their `addresses`.

    It keeps the `arrays` alive, and the table once there is one.
    """

    __slots__ = ("__weakref__", "_table", "addresses", "arrays", "facts", "ordinal")

    def __init__(
        self, facts: Hashable, addresses: np.ndarray[Any, Any], ordinal: int, arrays: tuple[object, ...]
    ) -> None:
        self.facts, self.addresses, self.ordinal, self.arrays = facts, addresses, ordinal, arrays
        self._table: driver.Memory | None = None

    @property
    def address(self) -> int:
        """The address of the table on the device, 0 for an empty list."""
        if not self.addresses.size:
            return 0
        if self._table is None:
            self._table = _tables.of(self.ordinal, self.addresses)
        return self._table.address


class _Tables:
    """The tables of the last lists, by what is in them; safe for several threads.

    A table that is forgotten is freed by the driver, which waits for the kernels that read it.
    """

    MOST_TABLES, MOST_ADDRESSES = 256, 1 << 22

    def __init__(self) -> None:
        self._made: dict[tuple[int, bytes], driver.Memory] = {}
        #: Those that there are by their addresses, and those that are never freed.
        self.known: weakref.WeakValueDictionary[int, driver.Memory] = weakref.WeakValueDictionary()
        self.kept: dict[int, driver.Memory] = {}
        self._addresses = 0
        self._lock = threading.Lock()

    def of(self, ordinal: int, addresses: np.ndarray[Any, Any]) -> driver.Memory:
        """Return a table with these addresses, uploading it if there is none."""
        key = ordinal, addresses.tobytes()
        with self._lock:
            table = self._made.pop(key, None)
            if table is None:
                check_process()
                note_use()
                table = driver.Memory(ordinal, addresses.nbytes)
                table.write(addresses)
                self.known[table.address] = table
                self._addresses += addresses.size
            self._made[key] = table  # the last one used is the last one forgotten
            while len(self._made) > self.MOST_TABLES or (self._addresses > self.MOST_ADDRESSES and len(self._made) > 1):
                oldest = next(iter(self._made))
                self._addresses -= len(oldest[1]) // addresses.itemsize
                del self._made[oldest]
            return table


_tables = _Tables()


def keep_tables(addresses: Iterable[int]) -> None:
    """Keep the tables at some addresses, of lists that are alive, for good: graphs that are captured refer to them."""
    for address in filter(None, addresses):
        _tables.kept[address] = _tables.known[address]
