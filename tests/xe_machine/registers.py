"""The registers of a thread: bytes, and for each byte whether anything gave it a value.

All but flags lie one behind the other in one array, so that an operand is a set of places in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.xe_machine.errors import MachineError

__all__ = ["ACCUMULATORS", "CHANNELS", "Mask", "Registers", "Step"]

#: Channels that a thread can have, and bits of a flag register.
CHANNELS = 32
#: Accumulator registers, each of the size of a register.
ACCUMULATORS = 16
_FLAGS = 4
#: Bytes of the control and the address registers.
_CONTROL, _ADDRESS = 16, 32


class Registers:
    """The state of a thread's registers: `count` of `width` bytes, accumulators, control, address and flag registers.

    `wide` are the accumulator's 64 bits of a multiplication in two steps; None when nothing has set them.
    """

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width = count, width
        self.accumulators = count * width
        self.control = self.accumulators + ACCUMULATORS * width
        self.address = self.control + _CONTROL
        total = self.address + _ADDRESS
        self.data = np.zeros(total, np.uint8)
        self.valid = np.zeros(total, bool)
        self.valid[self.control : self.control + _CONTROL] = True
        self.flags = np.zeros((_FLAGS, CHANNELS), bool)
        self.flags_valid = np.zeros((_FLAGS, CHANNELS), bool)
        self.wide: np.ndarray | None = None
        self._saved: dict[int, tuple[int, np.ndarray]] = {}

    def save_flags(self, place: int, bits: int, known: np.ndarray) -> None:
        """Note which of the flags that were copied to a place of `data` have a value: where some do not, none of its
        bytes has one, and those that have are lost otherwise when the flags come back."""
        self._saved[place] = bits, known.copy()

    def saved_flags(self, place: int, bits: int) -> np.ndarray | None:
        """Return which of the flags that come back from a place have a value; None if other bits lie there now."""
        held, known = self._saved.get(place, (None, None))
        return known if held == bits else None

    def start_of(self, file: str, number: int) -> int:
        """Return where a register begins; raises `MachineError` for one that there is not."""
        match file:
            case "r" if number < self.count:
                return number * self.width
            case "acc" if number < ACCUMULATORS:
                return self.accumulators + number * self.width
            case "cr" if number == 0:
                return self.control
            case "a" if number == 0:
                return self.address
            case _:
                raise MachineError(f"there is no register {file}{number} here")

    def end_of(self, file: str) -> int:
        """Return where the registers of a file end."""
        return {"r": self.accumulators, "acc": self.control, "cr": self.address, "a": len(self.data)}[file]

    def set(self, number: int, values: np.ndarray, start: int = 0) -> None:
        """Set a register, and those behind it, from an array, from byte `start` on."""
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        begin = number * self.width + start
        self.data[begin : begin + len(data)] = data
        self.valid[begin : begin + len(data)] = True

    def take(self, number: int, size: int, what: str, start: int = 0) -> np.ndarray:
        """Return so many bytes from byte `start` of a register on; raises `MachineError` unless all have a value."""
        begin = number * self.width + start
        if begin + size > self.accumulators:
            raise MachineError(f"{what} goes beyond the last register")
        if not self.valid[begin : begin + size].all():
            place = begin + int(np.argmin(self.valid[begin : begin + size]))
            raise MachineError(f"{what} has no value: byte {place % self.width} of r{place // self.width}")
        return self.data[begin : begin + size]


#: Which channels an instruction writes; None is all of them.
Mask = np.ndarray | None
#: What an instruction does with registers.
Step = Callable[[Registers, Mask], None]
