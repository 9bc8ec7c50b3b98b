"""Block messages of Xe-HPC: a rectangle of a matrix in memory to or from registers, with zeros outside of the matrix.

The header: base address [0:1], bytes of a row and rows of the matrix, bytes between rows, each minus 1 [2:4], where the
block begins [5:6], and its width, height and number, each minus 1 [7].  The descriptor: packed along the rows [7], size
of elements [11:9], transposed [15].  What is required of them: tinytc 0.4 and the PRM's "Typed 2D Block Messages".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.xe_machine.errors import MachineError

if TYPE_CHECKING:
    from tests.xe_machine.messages import Send
    from tests.xe_machine.thread import Thread

__all__ = ["BLOCK_LOAD", "BLOCK_STORE", "Block", "block_message"]

BLOCK_LOAD, BLOCK_STORE = 3, 7
_MOST_REGISTERS, _MOST_RETURNED = 32, 31
_LARGEST = 1 << 24
_HEADER = 32


@dataclass(frozen=True)
class Block:
    """What a header says: the matrix in bytes and rows, and where the block is, in elements and rows."""

    base: int
    width: int
    height: int
    pitch: int
    x: int
    y: int
    columns: int
    rows: int
    count: int
    size: int

    @classmethod
    def of(cls, header: np.ndarray, size: int) -> Block:
        """Read a header of 32 bytes, for elements of so many bytes."""
        words = header.view(np.uint32)
        base = int(words[0]) | int(words[1]) << 32
        width, height, pitch = (int(word) + 1 for word in words[2:5])
        x, y = (int(word) for word in header.view(np.int32)[5:7])
        shape = int(words[7])
        if shape >> 20:
            raise MachineError(f"the shape {shape:#x} of a block has bits that are not known")
        columns, rows, count = (shape & 255) + 1, (shape >> 8 & 255) + 1, (shape >> 16 & 15) + 1
        return cls(base, width, height, pitch, x, y, columns, rows, count, size)

    def check(self, *, packed: bool, transposed: bool, is_store: bool) -> None:
        """Raise `MachineError` for what hardware does not take."""
        row = self.columns * self.size * self.count
        demands = {
            "its address is no multiple of 64": self.base % 64 == 0,
            "rows have fewer than 64 bytes": self.width >= 64,
            "rows are no multiple of 4 bytes": self.width % 4 == 0,
            "rows lie nearer than they are long": self.pitch >= self.width,
            "the pitch is no multiple of 8": self.pitch % 8 == 0,
            "the matrix is larger than 2^24": max(self.width, self.pitch, self.height) <= _LARGEST,
            "the block does not begin at a multiple of 4 bytes": self.x * self.size % 4 == 0,
            "rows of the block are no multiple of 4 bytes": self.columns * self.size % 4 == 0,
            "the blocks have more than 64 bytes in a row": row <= 64,
            "the block has more than 32 rows": self.rows <= 32,
            "several blocks are stored, or more than 8 rows": not is_store or (self.count == 1 and self.rows <= 8),
            "only elements of 1 and 2 bytes are packed": not packed or self.size in (1, 2),
            "only elements of 4 bytes are transposed, 8 of a row": not transposed or (
                self.size == 4 and self.columns <= 8 and self.count == 1),
            "elements are both packed and transposed": not (packed and transposed),
        }
        broken = [what for what, holds in demands.items() if not holds]
        if broken:
            raise MachineError(f"a block that hardware does not take: {'; '.join(broken)}: {self}")

    def cells(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the addresses of the elements of a block, rows x columns, and which of them are in the matrix."""
        rows = self.y + np.arange(self.rows)[:, None]
        columns = self.x + number * self.columns + np.arange(self.columns)[None, :]
        inside = (rows >= 0) & (rows < self.height) & (columns >= 0) & ((columns + 1) * self.size <= self.width)
        addresses = np.int64(self.base) + rows * self.pitch + columns * self.size
        return addresses.astype(np.uint64), inside


def block_message(send: Send) -> Callable[[Thread, Any], None]:
    """Return what a block message does."""
    bits = send.descriptor
    size, packed, transposed = 1 << (bits >> 9 & 7), bool(bits >> 7 & 1), bool(bits >> 15 & 1)
    is_store = bits & 0x3F == BLOCK_STORE
    if size > 8 or bits >> 29 & 3 or send.extended or send.address_length != 1 or bits >> 12 & 7:
        raise MachineError("this block message is not known")

    def run(thread: Thread, mask: Any) -> None:
        if mask is not None and not mask.any():
            return
        header = thread.registers.take(send.address, _HEADER, "the header of a block message")
        block = Block.of(header, size)
        block.check(packed=packed, transposed=transposed, is_store=is_store)
        if is_store:
            _store(thread, send, block)
        else:
            _load(thread, send, block, packed, transposed)

    return run


def _power(number: int) -> int:
    return 1 << (number - 1).bit_length()


def _load(thread: Thread, send: Send, block: Block, packed: bool, transposed: bool) -> None:
    if send.result is None:  # a prefetch
        if send.returned:
            raise MachineError("a prefetch that returns registers")
        return
    width = thread.registers.width
    parts = []
    for number in range(block.count):
        values, valid = _elements(thread, block, number)
        arranged = [_arranged(each, packed, transposed) for each in (values, valid)]
        padding = -len(arranged[0]) % width
        parts.append([np.concatenate([each, np.zeros(padding, each.dtype)]) for each in arranged])
    values, valid = (np.concatenate(each) for each in zip(*parts, strict=True))
    registers = len(values) // width
    if registers > _MOST_REGISTERS or send.returned != min(registers, _MOST_RETURNED):
        raise MachineError(f"a block of {registers} registers in a message that returns {send.returned}")
    begin = thread.registers.start_of("r", send.result)
    if begin + len(values) > thread.registers.accumulators:
        raise MachineError("a block goes beyond the last register")
    thread.registers.data[begin : begin + len(values)] = values
    thread.registers.valid[begin : begin + len(values)] = valid


def _elements(thread: Thread, block: Block, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of a block, rows x columns x size, and which have a value; zeros outside have one."""
    addresses, inside = block.cells(number)
    values = np.zeros((*addresses.shape, block.size), np.uint8)
    valid = np.ones(values.shape, bool)
    if inside.any():
        values[inside], valid[inside] = thread.load("global", addresses[inside], block.size, partly=True)
    return values, valid


def _arranged(block: np.ndarray, packed: bool, transposed: bool) -> np.ndarray:
    """Return a block's bytes in the order of registers."""
    rows, columns, size = block.shape
    if packed:  # rows in groups of 32 bits for each column
        per = 4 // size
        whole = np.zeros((-(-rows // per) * per, columns, size), block.dtype)
        whole[:rows] = block
        block = whole.reshape(-1, per, columns, size).transpose(0, 2, 1, 3).reshape(-1, columns, 4)
    elif transposed:
        block = block.transpose(1, 0, 2)
    rows, columns, size = block.shape
    padded = np.zeros((rows, _power(columns), size), block.dtype)
    padded[:, :columns] = block
    return padded.reshape(-1)


def _store(thread: Thread, send: Send, block: Block) -> None:
    if send.data is None:
        raise MachineError("a block is stored from no registers")
    row = _power(block.columns) * block.size
    registers = -(-row * block.rows // thread.registers.width)
    if send.data_length != registers:
        raise MachineError(f"a block of {registers} registers in a message of {send.data_length}")
    begin = thread.registers.start_of("r", send.data)
    places = begin + np.arange(block.rows)[:, None] * row + np.arange(block.columns)[None, :] * block.size
    bytes_ = places[..., None] + np.arange(block.size)
    addresses, inside = block.cells(0)
    if inside.any():
        where = bytes_[inside]
        thread.store("global", addresses[inside], thread.registers.data[where], thread.registers.valid[where])
