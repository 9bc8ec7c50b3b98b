"""Messages to memory of Xe-HPC's kind (LSC): loads and stores of each channel, of runs, and of blocks; barriers.

The fields of a descriptor: operation [5:0], size of addresses [8:7], of elements [11:9], elements of a channel [14:12],
transposed [15], registers that come back [24:20] and that the address takes [28:25], kind of surface [30:29].

Addresses and elements of fewer channels than fill a register with words take as many registers as those of so many
(`IR_Builder::translateLscUntypedInst` of the Intel Graphics Compiler, whose `lscMinExecSize` these are).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.xe_machine.blocks import BLOCK_LOAD, BLOCK_STORE, block_message
from tests.xe_machine.dataport import legacy_message
from tests.xe_machine.errors import MachineError
from tests.xe_machine.parser import Instruction

if TYPE_CHECKING:
    from tests.xe_machine.thread import Thread

__all__ = ["Send", "message"]

_LOAD, _STORE, _FENCE = 0, 4, 0x1F
_ADDRESS = {2: 4, 3: 8}
#: Bytes of an element in memory and in a register, by the field of the descriptor.
_ELEMENT = {0: (1, 1), 1: (2, 2), 2: (4, 4), 3: (8, 8), 4: (1, 4), 5: (2, 4)}
_VECTOR = (1, 2, 3, 4, 8, 16, 32, 64)
_FLAT, _BINDING_TABLE, _WORD = 0, 3, 4
#: The surface that stands for all memory, by 32-bit offsets.
_STATELESS = 0xFF000000
_SIGNAL, _END = 0x4, 0x10
_MOST_RETURNED = 31

Step = Callable[["Thread", Any], None]


@dataclass(frozen=True)
class Send:
    """A send: the registers that get an answer, have the address and the data, None where there are none.

    `data_length` is in registers.
    """

    unit: str
    result: int | None
    address: int
    data: int | None
    data_length: int
    extended: int
    descriptor: int
    size: int

    @property
    def returned(self) -> int:
        """Registers that the answer fills."""
        return self.descriptor >> 20 & 31

    @property
    def address_length(self) -> int:
        """Registers that the address takes."""
        return self.descriptor >> 25 & 15


def _register(text: str) -> int | None:
    if text.startswith("null"):
        return None
    match = re.fullmatch(r"r(\d+)(?::\d+)?", text)
    if match is None:
        raise MachineError(f"the operand {text!r} of a message is not known")
    return int(match[1])


def message(instruction: Instruction) -> Step:
    """Return what a message does; raises `MachineError` for one that is not known."""
    if len(instruction.operands) != 5 or instruction.condition or instruction.offset:
        raise MachineError("this form of send is not known")
    result, address, data, extended, descriptor = instruction.operands
    if not (extended.startswith("0x") and descriptor.startswith("0x")):
        raise MachineError("a message with a descriptor in a register is not known")
    first = _register(address)
    if first is None:
        raise MachineError("a message without an address is not known")
    length = int(data.partition(":")[2] or 0)
    send = Send(instruction.modifier, _register(result), first, _register(data), length, int(extended, 16),
                int(descriptor, 16), instruction.size)
    match send.unit:
        case "gtwy":
            return _gateway(send)
        case "ugm" | "slm":
            return _memory(send)
        case "dc0" | "dc1":
            return legacy_message(send)
        case _:
            raise MachineError(f"messages to {send.unit} are not known")


def _gateway(send: Send) -> Step:
    match send.descriptor & 0xFF:
        case value if value == _SIGNAL:
            return lambda thread, mask: thread.signal(send.address)
        case value if value == _END:
            return lambda thread, mask: thread.end()
        case _:
            raise MachineError("this message to the gateway is not known")


def _memory(send: Send) -> Step:
    operation = send.descriptor & 0x3F
    if operation == _FENCE:
        return lambda thread, mask: thread.fence(send)
    if send.unit == "ugm" and operation in (BLOCK_LOAD, BLOCK_STORE):
        return block_message(send)
    if operation not in (_LOAD, _STORE):
        raise MachineError(f"operation {operation:#x} of messages to memory is not known")
    return _Access(send).run


class _Access:
    """A load or a store: of `vector` elements for each channel, or transposed, of one run of elements for all."""

    def __init__(self, send: Send) -> None:
        bits = send.descriptor
        self.send, self.is_store = send, bits & 0x3F == _STORE
        sizes, surface = _ELEMENT.get(bits >> 9 & 7), bits >> 29 & 3
        address = _ADDRESS.get(bits >> 7 & 3)
        if sizes is None or address is None:
            raise MachineError("these sizes of a message to memory are not known")
        (self.size, self.held), self.address_size = sizes, address
        self.vector, self.is_run = _VECTOR[bits >> 12 & 7], bool(bits >> 15 & 1)
        is_local = send.unit == "slm"
        if is_local:
            self.space, fits = "local", surface == _FLAT and send.extended == 0 and address == 4
        elif surface == _FLAT:
            self.space, fits = "global", send.extended == 0 and address == 8
        else:
            self.space, fits = "payload", surface == _BINDING_TABLE and send.extended == _STATELESS and address == 4
        if not fits:
            raise MachineError("this surface of a message to memory is not known")
        if self.is_run and (send.size != 1 or self.size not in (4, 8)):
            raise MachineError("this transposed message to memory is not known")
        if not self.is_run and self.held == self.size and self.size < 4:
            raise MachineError("a message of narrow elements that are not widened is not known")

    def run(self, thread: Thread, mask: Any) -> None:
        """Execute it."""
        send, width = self.send, thread.registers.width
        if mask is not None and not mask.any():
            return
        count = send.size
        channels = self._channels(width)
        address_registers = 1 if self.is_run else -(-channels * self.address_size // width)
        if send.address_length != address_registers:
            raise MachineError(f"the address takes {send.address_length} registers, not {address_registers}")
        lanes = np.arange(count) if mask is None else np.nonzero(mask)[0]
        addresses = self._addresses(thread, lanes)
        if not self._takes_any_address and (addresses % np.uint64(min(self.size, 4))).any():
            raise MachineError(f"an address that is no multiple of {self.size}")
        if self.is_run:
            self._move(thread, addresses[:1], self.size * self.vector, 0, None)
            return
        step = -(-channels * self.held // width) * width
        for component in range(self.vector):
            self._move(thread, addresses + np.uint64(component * self.size), self.size, component * step, lanes)

    @property
    def _takes_any_address(self) -> bool:
        """Whether elements need not lie at multiples of their size.

        The compiler (1.0.12504) uses messages of single elements so: of OpenCL C's `t[p]` and `t[p + 3]`, 16 bits each
        in local memory, it makes two loads of 32 bits at p and p + 2.
        """
        single = self.vector == 1 and not self.is_run
        return single and not self.is_store if self.space == "local" else self.vector == 1

    def _channels(self, width: int) -> int:
        """Return the channels that registers of so many bytes are filled for."""
        return max(self.send.size, width // _WORD)

    def _addresses(self, thread: Thread, lanes: np.ndarray) -> np.ndarray:
        size = self.address_size
        begin = thread.registers.start_of("r", self.send.address)
        places = begin + lanes[:, None] * size + np.arange(size)
        if not thread.registers.valid[places].all():
            raise MachineError("the address of a message has no value")
        return thread.registers.data[places].reshape(-1).view(np.uint32 if size == 4 else np.uint64).astype(np.uint64)

    def _move(self, thread: Thread, addresses: np.ndarray, size: int, start: int, lanes: np.ndarray | None) -> None:
        """Move `size` bytes at each address to or from the registers, `start` bytes behind the first one."""
        registers, send = thread.registers, self.send
        held = self.held if lanes is not None else size
        offsets = np.zeros(1, np.int64) if lanes is None else lanes * held
        first = send.data if self.is_store else send.result
        if first is None:  # a prefetch: what it touches makes no difference
            return
        used = -(-(self.send.size * self.held * self.vector if lanes is not None else size) // registers.width)
        if lanes is not None:
            used = self.vector * -(-self._channels(registers.width) * self.held // registers.width)
        expected = send.data_length if self.is_store else send.returned
        if expected != min(used, _MOST_RETURNED):
            raise MachineError(f"a message of {used} registers that says {expected}")
        places = registers.start_of("r", first) + start + offsets[:, None] + np.arange(size)
        if places.max() >= registers.accumulators:
            raise MachineError("a message goes beyond the last register")
        if self.is_store:
            thread.store(self.space, addresses, registers.data[places], registers.valid[places])
            return
        values, valid = thread.load(self.space, addresses, size)
        registers.data[places], registers.valid[places] = values, valid
        if held > size:
            upper = places[:, :1] + np.arange(size, held)
            registers.data[upper], registers.valid[upper] = 0, valid.all(axis=1)[:, None]
