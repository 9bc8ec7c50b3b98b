"""Device memory for results, used again once nobody holds it.

An allocation costs 5 to 15 µs, and the first touch of fresh pages more than a small kernel.  The pool keeps a reference
to each block that it gave out; a block whose only reference is the pool's own is free.  Arrays and views hold
references to their memory, so a block cannot be given out twice.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from typing import Any

import dpctl.memory as dpm

from tl_dpnp import config

__all__ = ["MemoryPool"]

_KINDS = {"device": dpm.MemoryUSMDevice, "shared": dpm.MemoryUSMShared, "host": dpm.MemoryUSMHost}


def _references(blocks: list[Any], index: int) -> int:
    return sys.getrefcount(blocks[index])


def _baseline() -> int:
    return _references([object()], 0)


#: The reference count of an object that only a list holds, as `_references` sees it.
_UNUSED = _baseline()


class MemoryPool:
    """Blocks of USM memory by queue, kind and size; the least recently used go when they exceed the setting."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[Any, str, int], list[Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self, nbytes: int, kind: str, queue: Any) -> Any:
        """Return a block of `nbytes` bytes, at least one; its contents are arbitrary."""
        key = queue, kind, nbytes
        with self._lock:
            blocks = self._blocks.get(key)
            if blocks is not None:
                self._blocks.move_to_end(key)
                for index in range(len(blocks)):
                    if _references(blocks, index) == _UNUSED:
                        return blocks[index]
            block = _KINDS[kind](nbytes, queue=queue)
            limit = config.get("POOL_MIB") << 20
            if nbytes <= limit:
                self._blocks.setdefault(key, []).append(block)
                self._bytes += nbytes
                while self._bytes > limit:
                    (_, _, size), oldest = next(iter(self._blocks.items()))
                    oldest.pop(0)
                    self._bytes -= size
                    if not oldest:
                        self._blocks.popitem(last=False)
            return block

    def clear(self) -> None:
        """Let go of all blocks."""
        with self._lock:
            self._blocks.clear()
            self._bytes = 0
