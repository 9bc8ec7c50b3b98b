"""Where operands lie in a stage of the ring, and in global memory."""

from __future__ import annotations

import math

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, index, int32
from tl_dpnp.records import dataclass

__all__ = [
    "ALIGNMENT", "Kept", "Slot", "greatest", "is_taken", "least", "offset_of", "shift_of", "size_of",
    "start_of",
]

#: What addresses and sizes of the engine's copies are multiples of.
ALIGNMENT = 16


@dataclass(frozen=True)
class Slot:
    """Where in a stage an operand lies, in bytes; `word` is the size of what threads copy.

    Consecutive operands of teams are `pitch` apart.  With `is_merged` the operands of a block follow one another in
    global memory; with `in_table` their addresses are in a table, to which an offset is added.  Those of a block lie as
    far behind a multiple of `line` as in global memory, of 128 bytes or of 16.  Each is that of `share` work-groups
    which follow one another, and of all teams of a block; or it is one of so many `parts` of a matrix, the last of
    which is shorter than the others; or a piece of one, `skip` bytes from its start.  The matrix has `matrix` bytes.
    """

    offset: int
    pitch: int
    bytes: int
    word: int
    is_merged: bool
    in_table: bool
    is_result: bool
    line: int
    share: int = 1
    parts: int = 1
    matrix: int = 0
    skip: int = 0

    @property
    def shifts(self) -> bool:
        """Whether what a turn copies begins anywhere between two multiples of a line, in global and local memory."""
        return self.is_merged and math.gcd(self.bytes, self.matrix, self.skip) % self.line != 0

    @property
    def has_edges(self) -> bool:
        """Whether what a turn copies may begin or end between two multiples of 16 bytes."""
        return self.is_merged and self.unit != ALIGNMENT

    @property
    def is_plain(self) -> bool:
        """Whether each work-group has one of its own."""
        return self.share == self.parts == 1 and not self.matrix

    @property
    def unit(self) -> int:
        """What the engine wants the address of the first operand to be a multiple of."""
        return math.gcd(self.bytes, self.matrix, self.skip, ALIGNMENT)


@dataclass(frozen=True)
class Kept:
    """An operand that stays in local memory: its place and its size in bytes, and that of the words that are copied.

    It has `columns` columns, each followed by a `gap` of so many words.
    """

    place: int
    bytes: int
    word: int
    columns: int
    gap: int


def is_taken(b: ir.IRBuilder, address: ir.Value, slot: Slot) -> ir.Value:
    """Return whether the copy engine takes an operand from an address on; alone, only multiples of 16 bytes."""
    if slot.is_merged and slot.unit <= slot.word:
        return ir.Constant(ir.IntType(1), 1)  # elements are at multiples of their size
    bits, unit = (address, slot.unit) if slot.is_merged else (b.or_(address, index(slot.bytes)), ALIGNMENT)
    return b.icmp_unsigned("==", b.and_(b.trunc(bits, I32), int32(unit - 1)), int32(0))


def start_of(b: ir.IRBuilder, slot: Slot, base: ir.Value, first: ir.Value) -> ir.Value:
    """Return where in global memory a batch has what a block takes from its first work-group on."""
    return b.add(base, offset_of(b, slot, first))


def offset_of(b: ir.IRBuilder, slot: Slot, first: ir.Value) -> ir.Value:
    """Return how many bytes behind the start of a batch that is."""
    if slot.parts > 1:
        matrix, part = b.udiv(first, index(slot.parts)), b.urem(first, index(slot.parts))
        return b.add(b.mul(matrix, index(slot.matrix)), b.mul(part, index(slot.bytes)))
    matrix = first if slot.share == 1 else b.udiv(first, index(slot.share))
    offset = b.mul(matrix, index(slot.matrix or slot.bytes))
    return b.add(offset, index(slot.skip)) if slot.skip else offset


def size_of(b: ir.IRBuilder, slot: Slot, first: ir.Value, valid: ir.Value) -> ir.Value:
    """Return how many bytes a block takes of a batch for so many work-groups from its first one on, in 32 bits."""
    if slot.parts > 1:
        before = b.mul(b.urem(first, index(slot.parts)), index(slot.bytes))
        return b.trunc(least(b, index(slot.bytes), b.sub(index(slot.matrix), before)), I32)
    return b.mul(valid, int32(slot.bytes)) if slot.share == 1 else int32(slot.bytes)


def shift_of(b: ir.IRBuilder, slot: Slot, start: ir.Value) -> ir.Value:
    """Return how far behind its place an operand lies in local memory: as in global memory, but in whole units."""
    return b.and_(start, index(slot.line - slot.unit))


def least(b: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed("<", first, second), first, second)


def greatest(b: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    return b.select(b.icmp_signed(">", first, second), first, second)
