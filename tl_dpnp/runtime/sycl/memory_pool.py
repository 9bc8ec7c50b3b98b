"""Device memory for results, used again once nobody holds it.

An allocation costs 5 to 15 µs, and the first touch of fresh pages more than a small kernel.  The pool keeps a reference
to each block that it gave out; a block whose only reference is the pool's own is free.  Arrays and views hold
references to their memory, so a block cannot be given out twice.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict, deque
from typing import Any

import dpctl.memory as dpm

from tl_dpnp import config

__all__ = ["MEMORY_TYPES", "MemoryPool"]

#: The classes of memory by their USM types.
MEMORY_TYPES = {"device": dpm.MemoryUSMDevice, "shared": dpm.MemoryUSMShared, "host": dpm.MemoryUSMHost}

_Key = tuple[Any, str, int]


def _references(blocks: list[Any], index: int) -> int:
    return sys.getrefcount(blocks[index])


def _baseline() -> int:
    return _references([object()], 0)


#: The reference count of an object that only a list holds, as `_references` sees it.
_UNUSED = _baseline()


class MemoryPool:
    """Blocks of USM memory by queue, kind and size; the least recently used go when they exceed the setting."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[_Key, list[Any]] = OrderedDict()
        #: The bytes of the blocks, and of those that were withdrawn.
        self._bytes = 0
        self._lock = threading.Lock()
        self._returned: deque[tuple[Any, _Key]] = deque()

    def take(self, nbytes: int, kind: str, queue: Any) -> Any:
        """Return a block of `nbytes` bytes, at least one; its contents are arbitrary."""
        key = queue, kind, nbytes
        with self._lock:
            self._settle()
            found = self._free(key)
            if found is not None:
                blocks, index = found
                return blocks[index]
            block = MEMORY_TYPES[kind](nbytes, queue=queue)
            if nbytes <= _limit():
                self._blocks.setdefault(key, []).append(block)
                self._bytes += nbytes
                self._trim()
            return block

    def withdraw(self, nbytes: int, kind: str, queue: Any) -> Any:
        """Return a block of which the pool holds no reference, and that it counts until `put_back`; None where the
        setting has no room for it.
        """
        key = queue, kind, nbytes
        with self._lock:
            self._settle()
            self._trim()
            found = self._free(key)
            if found is not None:
                blocks, index = found
                block = blocks.pop(index)
                if not blocks:
                    del self._blocks[key]
                return block
            self._bytes += nbytes
            self._trim()
            if self._bytes > _limit():
                self._bytes -= nbytes
                return None
            return MEMORY_TYPES[kind](nbytes, queue=queue)

    def put_back(self, block: Any, nbytes: int, kind: str, queue: Any) -> None:
        """Take back a block that was withdrawn, which somebody may still hold; finalizers may call this."""
        self._returned.append((block, (queue, kind, nbytes)))

    def clear(self) -> None:
        """Let go of all blocks but those that were withdrawn."""
        with self._lock:
            self._settle()
            self._bytes -= sum(size * len(blocks) for (_, _, size), blocks in self._blocks.items())
            self._blocks.clear()

    def _settle(self) -> None:
        """Take in what was put back."""
        while self._returned:
            block, key = self._returned.popleft()
            self._blocks.setdefault(key, []).append(block)

    def _free(self, key: _Key) -> tuple[list[Any], int] | None:
        """Return where there is a block with a key that nobody holds."""
        blocks = self._blocks.get(key)
        if blocks is not None:
            self._blocks.move_to_end(key)
            for index in range(len(blocks)):
                if _references(blocks, index) == _UNUSED:
                    return blocks, index
        return None

    def _trim(self) -> None:
        """Let go of the blocks that were used least recently, until what is left has room."""
        while self._bytes > _limit() and self._blocks:
            (_, _, size), oldest = next(iter(self._blocks.items()))
            oldest.pop(0)
            self._bytes -= size
            if not oldest:
                self._blocks.popitem(last=False)


def _limit() -> int:
    """Return how many bytes may be kept."""
    limit: int = config.get("POOL_MIB") << 20
    return limit
