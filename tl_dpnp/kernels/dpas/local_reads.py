"""Fragments of a sub-group from local memory, where they lie one behind the other (`pieces`), several by one message.

The compiler's own block reads take half of that on Xe-HPC and a quarter on Xe-HPG, where each has a new header.  Here
the messages of several pieces have addresses of their own, which a loop advances, two by one addition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, EmulatedFragment, Fragment, Part
from tl_dpnp.kernels.dpas.block_messages import inline_assembly
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.local_messages import MOST_MOVED, WORD_BYTES, Address, LocalMessages
from tl_dpnp.kernels.dpas.pieces import Piece
from tl_dpnp.kernels.llvm import I32, constant, index, lanes, undefined
from tl_dpnp.records import dataclass

__all__ = ["LocalReads"]


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
    def messages(self) -> LocalMessages:
        """What moves runs of local memory."""
        return LocalMessages(self.accumulators.messages, self.accumulators.row.execution_size)

    @property
    def size(self) -> int:
        """Bytes of a fragment."""
        return self.piece.fragment * WORD_BYTES

    @cached_property
    def loads(self) -> tuple[tuple[int, int], ...]:
        """The first fragment of each message, and how many it loads."""
        most = MOST_MOVED // self.size if self.size % self.messages.register_bytes == 0 else 1
        return tuple(_parts(self.blocks * self.piece.terms, most))

    def announce(self) -> None:
        """Read a word of each lane as compilers understand it: they take stores away that nothing reads."""
        if not self.emulated:
            lane, words = self.accumulators.messages.lane, self.piece.fragment
            if words < self.accumulators.row.execution_size:
                lane = self.builder.urem(lane, index(words))
            word = self.builder.load(self.builder.gep(self.base, [lane]), align=4)
            inline_assembly(self.builder, ir.VoidType(), [""], "rw", [word])

    def registers(self, steps: int) -> int:
        """Registers that an iteration of so many pieces takes: those of a piece's fragments, and all addresses."""
        fragments = sum(self.messages.registers(count * self.size) for _, count in self.loads)
        return fragments + steps * len(self.loads)

    def reads_pieces(self, steps: int, are_whole: bool) -> bool:
        """Whether an iteration may have so many pieces."""
        return True

    @cached_property
    def _start(self) -> ir.Value:
        return self.messages.start(self.base, MOST_MOVED)

    def begin(self, steps: int) -> None:
        """Emit what stands in front of all loops."""
        if not self.emulated:
            _ = self._start

    @property
    def stay(self) -> bool:
        """Panels lie in one place, one after the other."""
        return True

    def fixed(self, steps: int) -> list[Address]:
        """Return where the messages of so many pieces read in each panel."""
        return self._addresses(range(steps))

    def places(self, steps: int) -> list[Address]:
        """Return where the messages of as many pieces read as an iteration has; where they are emulated there are none.

        These pieces end in front of a panel, so that an iteration begins by `advance`: there nothing waits for the
        messages that took the addresses before.
        """
        return [] if self.emulated else self._addresses(range(-steps, 0))

    def _addresses(self, pieces: range) -> list[Address]:
        return self.messages.addresses(self._start, MOST_MOVED, [
            (piece * self.piece.size + first * self.piece.fragment) * WORD_BYTES
            for piece in pieces for first, _ in self.loads])

    def in_front(self, places: list[Address], steps: int, number: int) -> list[Address]:
        """Return where so many pieces are read in front of iterations of several, which go on by as many."""
        self.messages.advance(places, number * self.piece.size * WORD_BYTES)
        return places

    def left_over(self, places: list[Address], steps: int) -> list[Address]:
        """Return where single pieces are read behind iterations of several: where the last one of these is."""
        return places

    def advance(self, places: Sequence[Address], steps: range) -> None:
        """Let the places of pieces, the last ones of an iteration, be those of so many pieces further on."""
        self.messages.advance(places[steps.start * len(self.loads) :], len(steps) * self.piece.size * WORD_BYTES)

    def read(
        self, places: Sequence[Address], step: int, steps: range, start: ir.Value, done: ir.Value
    ) -> list[list[Part]]:
        """Return the terms of the fragment of each block, of a piece that lies some steps behind the first one.

        `done` are the elements along k before it, of the panel, wherever that starts in the matrix.
        """
        terms = self.piece.terms
        if self.emulated:
            before = self.builder.udiv(done, constant(I32, self.accumulators.row.k))
            offset = self.builder.mul(before, constant(I32, self.piece.size))
            found = [self._emulated(offset, number) for number in range(self.blocks * terms)]
        else:
            found = []
            for number, (_, count) in enumerate(self.loads, step * len(self.loads)):
                found += self._loaded(places[number], count)
        return [found[block * terms : (block + 1) * terms] for block in range(self.blocks)]

    def _loaded(self, address: Address, count: int) -> list[Part]:
        """Load fragments by one message."""
        size = count * self.size
        loaded = self.messages.load(address, size)
        filled = self.messages.registers(size) * self.messages.register_bytes
        return [Fragment(loaded, filled, number * self.size) for number in range(count)]

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
