"""Registers that a function keeps sums and matrices that are passed on in, by name: changed in place.

A matrix is made of blocks as DPAS makes them, of one element of 16 rows in each lane for each of 8 columns, or of its
only one.  What the compiler sees of a block on a device is one value, which inline assembly defines, changes and reads
(`accumulators`).  Where DPAS is emulated, a block is a variable in memory until LLVM's first passes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import field

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, Part, accumulators_for
from tl_dpnp.kernels.dpas.block_arithmetic import COLUMNS, LANES, Source, combined
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, inline_assembly
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.llvm import I32, constant, lanes
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.records import dataclass

__all__ = ["COLUMNS", "LANES", "SumRegisters", "messages_of", "registers_for"]

#: A block: the name of its matrix, its rows and its columns in the grid of blocks.
_Block = tuple[str, int, int]


def messages_of(b: ir.IRBuilder, emulated: bool) -> BlockMessages:
    """Return the messages of a sub-group."""
    return BlockMessages(b, target_of(b).item_index(b, 0), emulated)


@dataclass
class SumRegisters(ABC):
    """The registers of functions; a block that nothing gave a value has any."""

    held: dict[tuple[ir.Function, _Block], ir.Value] = field(default_factory=dict)

    @abstractmethod
    def read(self, b: ir.IRBuilder, block: _Block) -> ir.Value:
        """Return a block as a vector of its columns."""

    @abstractmethod
    def write(self, b: ir.IRBuilder, block: _Block, value: ir.Value) -> None:
        """Set a block to a vector of its columns.

        What sets it first, this, `adopt` or `clear`, stands where all that follow are reached from.
        """

    def adopt(self, b: ir.IRBuilder, block: _Block, value: ir.Value) -> None:
        """Do the same with a value that nothing else uses."""
        self.write(b, block, value)

    @abstractmethod
    def clear(self, b: ir.IRBuilder, block: _Block, type_: ir.Type) -> None:
        """Set a block of a type to 0."""

    @abstractmethod
    def add(self, b: ir.IRBuilder, row: DpasRow, block: _Block, left: Part, right: Part) -> None:
        """Add the product of two fragments to a block that has a value."""

    @abstractmethod
    def multiply(
        self, b: ir.IRBuilder, row: DpasRow, block: _Block, left: Part, right: Part, added: ir.Value | None = None
    ) -> None:
        """Set a block to the product of two fragments, with what is `added` to it."""

    def where(self, b: ir.IRBuilder, block: _Block) -> ir.Value:
        """Return the registers of a block themselves: what is read of them is what they have then."""
        return self.held[b.function, block]

    def combine(
        self, b: ir.IRBuilder, operation: str, block: _Block, type_: ir.Type, sources: Sequence[Source]
    ) -> None:
        """Set a block to what is computed of others, on devices."""
        self.held[b.function, block] = combined(b, operation, type_, sources, self.held.get((b.function, block)))

    def define(self, b: ir.IRBuilder, block: _Block, type_: ir.Type) -> None:
        """Have a block defined from here on, whatever its value is."""
        if (b.function, block) not in self.held:
            self.clear(b, block, type_)


class _InPlace(SumRegisters):
    """On devices: values that are changed behind the compiler's back."""

    def read(self, b: ir.IRBuilder, block: _Block) -> ir.Value:
        held = self.held[b.function, block]
        return inline_assembly(b, held.type, _moves(held.type, "$1({number},0)<1;1,0>"), "=rw,rw", [held])

    def write(self, b: ir.IRBuilder, block: _Block, value: ir.Value) -> None:
        held = self.held.get((b.function, block))
        if held is None:
            # The lane is an input so that the block is not taken for the same in all lanes where the value is.
            moves = _moves(value.type, "$1({number},0)<1;1,0>")
            self.held[b.function, block] = inline_assembly(b, value.type, moves, "=rw,rw,rw", [value, self._lane(b)])
        else:
            inline_assembly(b, ir.VoidType(), _moves(value.type, "$1({number},0)<1;1,0>"), "rw,rw", [held, value])

    def adopt(self, b: ir.IRBuilder, block: _Block, value: ir.Value) -> None:
        if (b.function, block) in self.held:
            self.write(b, block, value)
        else:
            self.held[b.function, block] = value

    def clear(self, b: ir.IRBuilder, block: _Block, type_: ir.Type) -> None:
        moves = _moves(type_, f"0x0:{'f' if isinstance(getattr(type_, 'element', type_), ir.FloatType) else 'd'}")
        lane = self._lane(b)
        held = self.held.get((b.function, block))
        if held is None:
            self.held[b.function, block] = inline_assembly(b, type_, moves, "=rw,rw", [lane])
        else:
            inline_assembly(b, ir.VoidType(), moves, "rw,rw", [held, lane])

    @staticmethod
    def _lane(b: ir.IRBuilder) -> ir.Value:
        return b.trunc(target_of(b).item_index(b, 0), I32)

    def add(self, b: ir.IRBuilder, row: DpasRow, block: _Block, left: Part, right: Part) -> None:
        self._accumulators(b, row).add(self.held[b.function, block], left, right)

    def multiply(
        self, b: ir.IRBuilder, row: DpasRow, block: _Block, left: Part, right: Part, added: ir.Value | None = None
    ) -> None:
        accumulators, held = self._accumulators(b, row), self.held.get((b.function, block))
        made = accumulators.multiply(held, left, right, added)
        if held is None:
            self.held[b.function, block] = made

    @staticmethod
    def _accumulators(b: ir.IRBuilder, row: DpasRow) -> Accumulators:
        return accumulators_for(row, messages_of(b, emulated=False))


def _moves(type_: ir.Type, source: str) -> list[str]:
    """Return what sets the registers of a block of a type to those of a source, by their number."""
    return [f"mov (M1,{LANES}) $0({number},0)<1> {source.format(number=number)}" for number in range(lanes(type_))]


class _Emulated(SumRegisters):
    """On other devices: variables."""

    def read(self, b: ir.IRBuilder, block: _Block) -> ir.Value:
        return b.load(self.held[b.function, block])

    def write(self, b: ir.IRBuilder, block: _Block, value: ir.Value) -> None:
        key = b.function, block
        if key not in self.held:
            with b.goto_entry_block():
                self.held[key] = b.alloca(value.type)
        b.store(value, self.held[key])

    def clear(self, b: ir.IRBuilder, block: _Block, type_: ir.Type) -> None:
        self.write(b, block, constant(type_, 0))

    def add(self, b: ir.IRBuilder, row: DpasRow, block: _Block, left: Part, right: Part) -> None:
        total = accumulators_for(row, messages_of(b, emulated=True)).add(self.read(b, block), left, right)
        b.store(total, self.held[b.function, block])

    def multiply(
        self, b: ir.IRBuilder, row: DpasRow, block: _Block, left: Part, right: Part, added: ir.Value | None = None
    ) -> None:
        self.write(b, block, accumulators_for(row, messages_of(b, emulated=True)).multiply(None, left, right, added))


def registers_for(emulated: bool) -> SumRegisters:
    """Return empty registers."""
    return _Emulated() if emulated else _InPlace()
