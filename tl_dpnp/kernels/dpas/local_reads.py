"""Fragments of a sub-group from local memory, where they lie one behind the other (`pieces`), several by one message.

The compiler's own block reads take half of that on Xe-HPC and a quarter on Xe-HPG, where each has a new header.  Here a
message is inline assembly, its address in the first lane of a value that a loop advances by one addition.

Source: the descriptors that the Intel Graphics Compiler 1.0.12504 makes for block reads on Xe-HPC, whose fields
`tests.xe_machine.messages` names.  Xe-HPG has the same unit, to which this compiler sends no loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, EmulatedFragment, Fragment, Part
from tl_dpnp.kernels.dpas.block_messages import inline_assembly
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.pieces import WORD_BITS, Piece
from tl_dpnp.kernels.llvm import I32, I64, constant, index, lanes, undefined, vector_of
from tl_dpnp.records import dataclass

__all__ = ["LocalReads"]

#: The port of local memory, and the bits of a descriptor: a transposed load, addresses of 32 bits, elements of 64;
#: where the number of elements is, by its place in a list, and the registers that are loaded.
_PORT, _LOAD, _COUNT_BIT, _LENGTH_BIT = 14, 0x02008700, 12, 20
_COUNTS, _ELEMENT_BYTES = (1, 2, 3, 4, 8, 16, 32, 64), 8
_WORD_BYTES = WORD_BITS // 8


@dataclass(frozen=True)
class LocalReads:
    """Reads the fragments of `blocks` blocks and all terms, those of A or of B, of a piece after the other.

    `base` points to the words of the first one.
    """

    accumulators: Accumulators
    piece: Piece
    base: ir.Value
    blocks: int
    of_a: bool

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.accumulators.builder

    @property
    def emulated(self) -> bool:
        """Whether ordinary loads stand for messages."""
        return self.accumulators.messages.emulated

    @property
    def register_bytes(self) -> int:
        """Bytes of a register."""
        return _WORD_BYTES * self.accumulators.row.execution_size

    @cached_property
    def loads(self) -> tuple[tuple[int, int], ...]:
        """The first fragment of each message, and how many it loads."""
        size = self.piece.fragment * _WORD_BYTES
        most = _COUNTS[-1] * _ELEMENT_BYTES // size if size % self.register_bytes == 0 else 1
        return tuple(_parts(self.blocks * self.piece.terms, most))

    def announce(self) -> None:
        """Read a word of each lane as compilers understand it: they take stores away that nothing reads."""
        if not self.emulated:
            word = self.builder.load(self.builder.gep(self.base, [self.accumulators.messages.lane]), align=4)
            inline_assembly(self.builder, ir.VoidType(), [""], "rw", [word])

    def places(self) -> list[ir.Value]:
        """Return what says where the fragments of the first piece lie: addresses, or where emulated a number of words.
        """
        if self.emulated:
            return [constant(I32, 0)]
        builder, messages = self.builder, self.accumulators.messages
        start = builder.trunc(builder.ptrtoint(self.base, I64), I32)
        return [messages.spread({0: builder.add(start, constant(I32, first * self.piece.fragment * _WORD_BYTES))})
                for first, _ in self.loads]

    def following(self, places: Sequence[ir.Value]) -> list[ir.Value]:
        """Return the same for the next piece."""
        builder, messages, words = self.builder, self.accumulators.messages, self.piece.size
        step = constant(I32, words) if self.emulated else messages.spread({0: constant(I32, words * _WORD_BYTES)})
        return [builder.add(place, step) for place in places]

    def read(self, places: Sequence[ir.Value]) -> list[list[Part]]:
        """Return the terms of the fragment of each block."""
        terms = self.piece.terms
        if self.emulated:
            found = [self._emulated(places[0], number) for number in range(self.blocks * terms)]
        else:
            found = [part for place, (_, count) in zip(places, self.loads, strict=True)
                     for part in self._loaded(place, count)]
        return [found[block * terms : (block + 1) * terms] for block in range(self.blocks)]

    def _loaded(self, address: ir.Value, count: int) -> list[Part]:
        """Load fragments by one message."""
        size = self.piece.fragment * _WORD_BYTES
        registers = -(-count * size // self.register_bytes)
        elements = _COUNTS.index(count * size // _ELEMENT_BYTES)
        descriptor = _LOAD | elements << _COUNT_BIT | registers << _LENGTH_BIT
        text = f"raw_sends.{_PORT}.1.0.{registers} (M1_NM,1) 0x0:ud {descriptor:#x}:ud $1.0 %null.0 $0.0"
        loaded = inline_assembly(self.builder, vector_of(I32, registers), [text], "=rw,rw", [address])
        return [Fragment(loaded, registers * self.register_bytes, number * size) for number in range(count)]

    def _emulated(self, offset: ir.Value, number: int) -> Part:
        """Load a fragment by its elements."""
        builder, row = self.builder, self.accumulators.row
        type_ = operand_types(row)[1 if self.of_a else 0]
        element, count = getattr(type_, "element", type_), lanes(type_)
        start = builder.gep(builder.gep(self.base, [offset]), [index(number * self.piece.fragment)])
        start = builder.bitcast(start, element.as_pointer(start.type.addrspace))
        own = builder.gep(start, [self.accumulators.messages.lane])
        values = [builder.load(builder.gep(own, [index(place * row.execution_size)]), align=element.width // 8)
                  for place in range(count)]
        result = values[0] if count == 1 else undefined(type_)
        for place, value in enumerate(values if count > 1 else ()):
            result = builder.insert_element(result, value, constant(I32, place))
        return EmulatedFragment(result, {})


def _parts(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut a count into powers of two: the first one and the size of each."""
    first = 0
    while first < count:
        size = 1 << (min(most, count - first).bit_length() - 1)
        yield first, size
        first += size
