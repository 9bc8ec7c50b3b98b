"""Memory that knows what may be touched: arrays apart from one another, and which bytes have a value."""

from __future__ import annotations

import numpy as np

from tests.xe_machine.errors import MachineError

__all__ = ["Arena", "LocalMemory"]

#: Bytes between arrays, which nothing may touch.
_GAP = 4096


#: Bytes of a word: memory is given by more.
_WORD = 4


class Arena:
    """A range of addresses from `base` on, with arrays in it that were `placed`."""

    def __init__(self, base: int, what: str) -> None:
        self.base, self.what = base, what
        self.data = np.zeros(_GAP, np.uint8)
        self.valid = np.zeros(_GAP, bool)
        self.readable = np.zeros(_GAP, bool)
        self.writable = np.zeros(_GAP, bool)
        self.names: list[tuple[int, int, str]] = []

    def place(self, name: str, content: np.ndarray, *, writable: bool = True, offset: int = 0) -> int:
        """Put the bytes of an array behind what is there and return its address, a multiple of 64 plus `offset`."""
        data = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        start = -(-(len(self.data) + self.base) // 64) * 64 - self.base + offset
        total = start + len(data) + _GAP
        for field, fill in (("data", data), ("valid", True), ("readable", True), ("writable", writable)):
            old = getattr(self, field)
            new = np.zeros(total, old.dtype)
            new[: len(old)] = old
            new[start : start + len(data)] = fill
            setattr(self, field, new)
        self.names.append((start, len(data), name))
        return self.base + start

    def content(self, address: int, size: int) -> np.ndarray:
        """Return a copy of the bytes from an address on."""
        return self.data[address - self.base :][:size].copy()

    def places(self, addresses: np.ndarray, size: int, allowed: np.ndarray, what: str) -> np.ndarray:
        """Return where the bytes of elements lie; raises `MachineError` for what is no part of an array."""
        first = (addresses - np.uint64(self.base)).astype(np.int64)
        found = first[:, None] + np.arange(size)
        inside = (found >= 0) & (found < len(self.data))
        if not inside.all() or not allowed[found].all():
            inside[inside] = allowed[found[inside]]
            lane = int(np.argmin(inside.all(axis=1)))
            raise MachineError(f"{what} {size} bytes at {self._described(int(addresses[lane]))}")
        return found

    def _described(self, address: int) -> str:
        place = address - self.base
        near = min(self.names, key=lambda each: min(abs(place - each[0]), abs(place - each[0] - each[1])), default=None)
        if near is None:
            return f"{address:#x} of {self.what}, where nothing is"
        start, size, name = near
        return f"{address:#x} of {self.what}: byte {place - start} of {name}, which has {size}"

    def read(self, addresses: np.ndarray, size: int, *, partly: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Return the bytes of an element at each address, and which of them have a value.

        Words at multiples of their size may be `partly` outside of an array, whose memory ends at such a multiple: what
        is there has no value.
        """
        allowed = self.readable
        if partly and size == _WORD and not (addresses % np.uint64(_WORD)).any():
            first = self.base % _WORD
            words = np.zeros(-(-(len(allowed) + first) // _WORD) * _WORD, bool)
            words[first : first + len(allowed)] = allowed
            words[:] = np.repeat(words.reshape(-1, _WORD).any(axis=1), _WORD)
            allowed = words[first : first + len(self.data)]
        places = self.places(addresses, size, allowed, "reads")
        return self.data[places], self.valid[places]

    def write(self, addresses: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Store the bytes of an element at each address; raises `MachineError` where one has no value."""
        places = self.places(addresses, values.shape[1], self.writable, "writes")
        if not valid.all():
            lane = int(np.argmin(valid.all(axis=1)))
            raise MachineError(f"stores what has no value at {self._described(int(addresses[lane]))}")
        self.data[places] = values


class LocalMemory:
    """The shared local memory of a work-group, with who wrote and read each byte, and before which barrier.

    What a sub-group writes another one may read, or write, only behind a barrier that both took part in.
    """

    def __init__(self, size: int, threads: int) -> None:
        self.arena = Arena(0, "local memory")
        self.arena.data = np.zeros(size, np.uint8)
        self.arena.valid = np.zeros(size, bool)
        self.arena.readable = self.arena.writable = np.ones(size, bool)
        self.arena.names = [(0, size, "local memory")]
        self._writer = np.full(size, -1, np.int16)
        self._written = np.zeros(size, np.int32)
        self.readers = np.full((threads, size), -1, np.int32)

    def read(self, addresses: np.ndarray, size: int, thread: int, signals: int, waits: int) -> tuple[
        np.ndarray, np.ndarray
    ]:
        """Return the bytes and which have a value; `signals` and `waits` count the barriers of the thread so far."""
        places = self.arena.places(addresses, size, self.arena.readable, "reads")
        racing = (self._writer[places] != thread) & (self._writer[places] >= 0) & (self._written[places] >= waits)
        if racing.any():
            place = int(places[racing][0])
            raise MachineError(f"reads byte {place} of local memory, which sub-group {self._writer[place]} wrote, "
                               "without a barrier between")
        self.readers[thread, places] = signals
        return self.arena.data[places], self.arena.valid[places]

    def write(
        self, addresses: np.ndarray, values: np.ndarray, valid: np.ndarray, thread: int, signals: int, waits: int
    ) -> None:
        """Store the bytes; those without a value are not defined afterwards."""
        places = self.arena.places(addresses, values.shape[1], self.arena.writable, "writes")
        read = self.readers[:, places]
        read[thread] = -1
        racing = (read >= waits).any(axis=0)
        same = self.arena.data[places] == values
        twice = (self._writer[places] != thread) & (self._writer[places] >= 0) & (self._written[places] >= waits)
        if racing.any() or (twice & ~same).any():
            place = int(places[racing | twice & ~same][0])
            raise MachineError(f"writes byte {place} of local memory, which another sub-group reads or writes, without "
                               "a barrier between")
        self.arena.data[places] = values
        self.arena.valid[places] = valid
        self._writer[places] = thread
        self._written[places] = signals
