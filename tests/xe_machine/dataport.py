"""Messages of the older data port, which the compiler still uses on Xe-HPG, and everywhere for scratch memory.

The fields of a descriptor: surface [7:0], what a kind of message needs [13:8], its kind [18:14], a header [19],
registers that come back [24:20] and that the address takes [28:25].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.xe_machine.errors import MachineError

if TYPE_CHECKING:
    from tests.xe_machine.messages import Send
    from tests.xe_machine.thread import Thread

__all__ = ["legacy_message"]

_LOCAL, _STATELESS, _OWORD, _HWORD = 0xFE, (0xFD, 0xFF), 16, 32
#: Bits of the kind: that a message is for scratch memory, and that it stores; the offset is in the descriptor then.
_SCRATCH, _WRITES = 0x10, 0x08
#: Owords of a block, by the field of the descriptor; 0 and 1 are halves of a register.
_OWORDS = {0: 1, 2: 2, 3: 4, 4: 8, 5: 16}

Step = Callable[["Thread", Any], None]


def legacy_message(send: Send) -> Step:
    """Return what a message does; raises `MachineError` for one that is not known."""
    if send.extended:
        raise MachineError("a message to the data port with an extended descriptor is not known")
    kind, fields, surface = send.descriptor >> 14 & 31, send.descriptor >> 8 & 63, send.descriptor & 255
    has_header = bool(send.descriptor >> 19 & 1)
    if send.unit == "dc0" and kind & _SCRATCH and has_header:
        return _scratch_block(send, is_store=bool(kind & _WRITES))
    match send.unit, kind:
        case "dc0", 0 | 1 if has_header and surface == (_LOCAL if kind == 0 else 0xFD) and fields & 7 in _OWORDS:
            return _oword_block(send, _OWORDS[fields & 7], "local" if kind == 0 else "payload", kind == 0)
        case "dc1", 0x10 | 0x1A if surface in _STATELESS and not has_header and not fields & 0x10:
            return _scattered(send, 8, fields & 3, 1 << (fields >> 2 & 3), "global", is_store=kind == 0x1A)
        case "dc1", 0x01 | 0x09 if surface == _LOCAL and not has_header and fields >> 4 == 2:
            chosen = [channel for channel in range(4) if not fields >> channel & 1]
            if chosen != list(range(len(chosen))):
                raise MachineError("an untyped message that leaves a component out is not known")
            return _scattered(send, 4, 1, len(chosen), "local", is_store=kind == 0x09)
        case _:
            raise MachineError("this message to the data port is not known")


def _scratch_block(send: Send, *, is_store: bool) -> Step:
    """A load or a store of registers of a thread in its scratch memory: 1, 2, 4 or 8 hwords, from an offset on."""
    size, begin = _HWORD << (send.descriptor >> 12 & 3), _HWORD * (send.descriptor & 0xFFF)

    def run(thread: Thread, mask: Any) -> None:
        if mask is not None and not mask.any():
            return
        registers = thread.registers
        first, length = (send.data, send.data_length) if is_store else (send.result, send.returned)
        if first is None or length != -(-size // registers.width):
            raise MachineError(f"{size} bytes in a message of {length} registers")
        if begin + size > len(thread.scratch):
            raise MachineError(f"byte {begin + size} of {len(thread.scratch)} of scratch memory")
        ours = slice(registers.start_of("r", first), registers.start_of("r", first) + size)
        there = slice(begin, begin + size)
        if is_store:
            thread.scratch[there], thread.scratch_valid[there] = registers.data[ours], registers.valid[ours]
        else:
            registers.data[ours], registers.valid[ours] = thread.scratch[there], thread.scratch_valid[there]

    return run


def _oword_block(send: Send, count: int, space: str, in_owords: bool) -> Step:
    """A load of a run; the header has its offset in the third word, in owords or in bytes."""
    size = count * _OWORD

    def run(thread: Thread, mask: Any) -> None:
        if mask is not None and not mask.any():
            return
        registers = thread.registers
        header = registers.take(send.address, 4, "the header of a message", start=8)
        offset = int(header.view(np.uint32)[0]) * (_OWORD if in_owords else 1)
        if send.result is None or send.returned != -(-size // registers.width):
            raise MachineError(f"{size} bytes in a message of {send.returned} registers")
        values, valid = thread.load(space, np.array([offset], np.uint64), size)
        begin = registers.start_of("r", send.result)
        registers.data[begin : begin + size] = values[0]
        registers.valid[begin : begin + size] = valid[0]

    return run


def _scattered(send: Send, address_size: int, block: int, count: int, space: str, *, is_store: bool) -> Step:
    """A load or a store of `count` elements of each channel: bytes are one element of 32 bits, others 4 or 8 bytes."""
    if block not in (0, 1, 2):
        raise MachineError("this size of elements is not known")
    size, vector = (count, 1) if block == 0 else (4 << (block - 1), count)
    held = max(size, 4)
    if size == 3:
        raise MachineError("elements of three bytes are not known")

    def run(thread: Thread, mask: Any) -> None:
        if mask is not None and not mask.any():
            return
        registers = thread.registers
        lanes = np.arange(send.size) if mask is None else np.nonzero(mask)[0]
        if send.size != 8 or send.address_length != -(-8 * address_size // registers.width):
            raise MachineError("a message of other than 8 channels is not known")
        where = registers.start_of("r", send.address) + lanes[:, None] * address_size + np.arange(address_size)
        if not registers.valid[where].all():
            raise MachineError("the address of a message has no value")
        kind = np.uint32 if address_size == 4 else np.uint64
        addresses = registers.data[where].reshape(-1).view(kind).astype(np.uint64)
        # Bytes may begin anywhere: the compiler chooses them for words that it does not know to be aligned.
        if block and (addresses % np.uint64(min(size, 4))).any():
            raise MachineError(f"an address that is no multiple of {min(size, 4)}")
        first, length = (send.data, send.data_length) if is_store else (send.result, send.returned)
        step = 8 * held
        if first is None or length != vector * step // registers.width:
            raise MachineError(f"a message of {vector * step // registers.width} registers that says {length}")
        for component in range(vector):
            places = registers.start_of("r", first) + component * step + lanes[:, None] * held + np.arange(size)
            target = addresses + np.uint64(component * size)
            if is_store:
                thread.store(space, target, registers.data[places], registers.valid[places])
                continue
            values, valid = thread.load(space, target, size)
            registers.data[places], registers.valid[places] = values, valid
            if held > size:  # the bytes above are not defined
                registers.valid[places[:, :1] + np.arange(size, held)] = False

    return run
