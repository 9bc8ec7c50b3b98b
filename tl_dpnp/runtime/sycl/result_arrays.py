"""Arrays for the results of short calls, which machine code takes once nobody holds them (`result_code`)."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tl_dpnp.runtime.sycl.dpctl_adapter import address_of
from tl_dpnp.runtime.sycl.memory_pool import MemoryPool
from tl_dpnp.runtime.sycl.result_code import Cell, Table
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray

__all__ = ["NewArray", "ResultArrays", "counts_are_known"]

#: Arrays that are kept for one result: more are held at a time by few programs.
_MOST_ARRAYS = 16


class NewArray(NamedTuple):
    """An array in C order that a call makes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    usm_type: str


class _Made(NamedTuple):
    array: Any
    memory: int
    words: Any


class ResultArrays:
    """The arrays that were made for one result, in memory that a pool counts.  `table` is what machine code reads."""

    def __init__(self, kind: NewArray, queue: Any, pool: MemoryPool) -> None:
        self.kind, self.queue, self._pool = kind, queue, pool
        self._nbytes = kind.dtype.itemsize * max(prod(kind.shape), 1)
        self._made: list[_Made] = []
        self._cells: Any = None
        self._lock = threading.Lock()
        self.table = Table()

    def __del__(self) -> None:
        self._give_back(self._made)

    def renew(self) -> Any:
        """Make one more array, and let those go that others hold where there are many; returns it, or None where the
        pool has no room."""
        with self._lock:
            gone = self._made if len(self._made) >= _MOST_ARRAYS else []
            memory = self._pool.withdraw(self._nbytes, self.kind.usm_type, self.queue)
            if memory is None:
                return None
            array = usm_ndarray(self.kind.shape, dtype=self.kind.dtype.str, buffer=memory)
            size = type(array).__basicsize__
            made = _Made(array, id(memory), (ctypes.c_char * size).from_buffer_copy(ctypes.string_at(id(array), size)))
            self._publish([made] if gone else [*self._made, made])
            self._give_back(gone)
            return array

    def _publish(self, arrays: list[_Made]) -> None:
        """Have machine code read a list of arrays from now on."""
        cells = (Cell * len(arrays))(*(
            Cell(id(array), memory, address_of(array), ctypes.addressof(words)) for array, memory, words in arrays))
        # Other threads may call in between.  So first no array is there, and those that were are let go of at the end.
        self.table.count = 0
        self.table.cells = ctypes.addressof(cells)
        self.table.count = len(arrays)
        self._made, self._cells = arrays, cells

    def _give_back(self, gone: Sequence[_Made]) -> None:
        for array, _, _ in gone:
            self._pool.put_back(array.usm_data, self._nbytes, self.kind.usm_type, self.queue)


def counts_are_known() -> bool:
    """Return whether objects begin with the number of references to them, as machine code relies on."""
    thing, held = object(), list[object]()
    for more in range(3):
        if ctypes.c_int32.from_address(id(thing)).value != 1 + more:
            return False
        held.append(thing)
    return True
