"""Messages between registers and local memory that move runs of up to 512 bytes, and their addresses (Xe-HPC, Xe-HPG).

An address is the first lane of a register.  Two of them are in one value, which inline assembly defines, and may change
in place by one instruction.

Source: the descriptors that the Intel Graphics Compiler 1.0.12504 makes for block accesses on Xe-HPC, whose fields
`tests.xe_machine.messages` names.  Xe-HPG has the same unit, to which this compiler sends none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, inline_assembly
from tl_dpnp.kernels.llvm import I32, I64, lanes, vector_of
from tl_dpnp.records import dataclass

__all__ = ["MOST_MOVED", "WORD_BYTES", "Address", "LocalMessages", "PackingByMessages"]

#: The port of local memory, and the bits of a descriptor: transposed, addresses of 32 bits, elements of 64; that it
#: stores; where the number of elements is, by its place in a list, and the registers that are loaded.
_PORT, _MOVED, _STORES, _COUNT_BIT, _LENGTH_BIT = 14, 0x02008700, 4, 12, 20
_COUNTS, _ELEMENT_BYTES = (1, 2, 3, 4, 8, 16, 32, 64), 8
#: Bytes that a message moves at most, and those of a word.
MOST_MOVED, WORD_BYTES = _COUNTS[-1] * _ELEMENT_BYTES, 4


class Address(NamedTuple):
    """An address: the first lane of one of two registers of a value."""

    value: ir.Value
    number: int


@dataclass(frozen=True)
class LocalMessages:
    """Moves runs for a sub-group of so many lanes; not where messages are emulated."""

    messages: BlockMessages
    lanes: int

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.messages.builder

    @property
    def register_bytes(self) -> int:
        """Bytes of a register."""
        return WORD_BYTES * self.lanes

    def registers(self, size: int) -> int:
        """Return the registers that so many bytes fill."""
        return -(-size // self.register_bytes)

    def start(self, pointer: ir.Value, distance: int) -> ir.Value:
        """Return what `addresses` are found from: a pointer, the same in all lanes, and one so much behind it."""
        start = self.messages.spread({0: self.builder.trunc(self.builder.ptrtoint(pointer, I64), I32)})
        lines = [f"add (M1_NM,{self.lanes}) $0({number},0)<1> $1(0,0)<1;1,0> {number * distance}:d"
                 for number in range(2)]
        return inline_assembly(self.builder, vector_of(I32, 2), lines, "=rw,rw", [start])

    def addresses(self, start: ir.Value, distance: int, places: Sequence[int]) -> list[Address]:
        """Return the addresses of places, in bytes behind a `start` of this distance.

        Two that are as far apart take one instruction.
        """
        result = []
        for first in range(0, len(places), 2):
            both, lanes = places[first : first + 2], self.lanes
            lines = [f"add (M1_NM,{lanes}) $0({number},0)<1> $1(0,0)<1;1,0> {place}:d"
                     for number, place in enumerate(both)]
            if len(both) == 2 and both[1] - both[0] == distance:
                lines = [f"add (M1_NM,{2 * lanes}) $0(0,0)<1> $1(0,0)<1;1,0> {both[0]}:d"]
            value = inline_assembly(self.builder, vector_of(I32, len(both)), lines, "=rw,rw", [start])
            result += [Address(value, number) for number in range(len(both))]
        return result

    def advance(self, addresses: Sequence[Address], distance: int) -> None:
        """Move addresses, and those that share a value with one of them, so many bytes further on."""
        for value in {id(address.value): address.value for address in addresses}.values():
            line = (f"add (M1_NM,{self.lanes * lanes(value.type)}) $0(0,0)<1> $0(0,0)<1;1,0> {distance}:d")
            inline_assembly(self.builder, ir.VoidType(), [line], "rw", [value])

    def load(self, address: Address, size: int) -> ir.Value:
        """Load so many bytes as a value that fills registers."""
        registers = self.registers(size)
        text = (f"raw_sends.{_PORT}.1.0.{registers} (M1_NM,1) 0x0:ud"
                f" {self._descriptor(size) | registers << _LENGTH_BIT:#x}:ud $1.{self._at(address)} %null.0 $0.0")
        return inline_assembly(self.builder, vector_of(I32, registers), [text], "=rw,rw", [address.value])

    def store(self, address: Address, value: ir.Value, offset: int, size: int) -> None:
        """Store so many bytes from whole registers of a value, from a byte of them on."""
        text = (f"raw_sends.{_PORT}.1.{self.registers(size)}.0 (M1_NM,1) 0x0:ud"
                f" {self._descriptor(size) | _STORES:#x}:ud $0.{self._at(address)} $1.{offset} %null.0")
        inline_assembly(self.builder, ir.VoidType(), [text], "rw,rw", [address.value, value])

    def _descriptor(self, size: int) -> int:
        return _MOVED | _COUNTS.index(size // _ELEMENT_BYTES) << _COUNT_BIT

    def _at(self, address: Address) -> int:
        return address.number * self.register_bytes


@dataclass(frozen=True)
class PackingByMessages:
    """What a sub-group fills panels of local memory with: it loads blocks, and stores runs."""

    accumulators: Accumulators

    @property
    def by_messages(self) -> bool:
        """Not where they are emulated."""
        return not self.messages.emulated

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.accumulators.builder

    @property
    def messages(self) -> BlockMessages:
        """What moves blocks."""
        return self.accumulators.messages

    @property
    def local(self) -> LocalMessages:
        """What stores runs in local memory."""
        return LocalMessages(self.messages, self.accumulators.row.execution_size)
