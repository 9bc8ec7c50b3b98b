"""DPAS on fragments that are parts of large blocks: accumulators that are changed in place, or values where emulated.

Intel's compiler (Graphics Compiler 1.0.12504) copies an accumulator twice for each DPAS where it is the result of one.
So each is defined once, by inline assembly, is an input of every DPAS, which changes it, and is read once, by inline
assembly as well.  A fragment is an offset into an alias of the value that was loaded: nothing is copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from llvmlite import ir

from tl_dpnp.kernels.dpas.block_messages import BlockMessages, inline_assembly
from tl_dpnp.kernels.dpas.block_shapes import RULES, Block
from tl_dpnp.kernels.dpas.emulation import emulate
from tl_dpnp.kernels.dpas.functions import assembly_of, operand_types
from tl_dpnp.kernels.dpas.pieces import WORD_BITS
from tl_dpnp.kernels.dpas.rows import ACCUMULATOR_BITS, DpasRow
from tl_dpnp.kernels.llvm import I32, constant
from tl_dpnp.records import dataclass

__all__ = ["Accumulators", "EmulatedFragment", "Fragment", "Part", "accumulators_for", "aliases", "taken_apart"]

#: Elements that an instruction moves at most; it has no mask, that of a sub-group of 16 lanes would leave some out.
_MOST_MOVED = 32
#: Registers that an instruction moves at most.
_TOGETHER = 2


@dataclass(frozen=True)
class Fragment:
    """A part of what a message loaded: the value, the bytes of all of it, and an offset in bytes."""

    loaded: ir.Value
    size: int
    offset: int


@dataclass(frozen=True)
class EmulatedFragment:
    """A fragment as a value, and its elements that are in all lanes."""

    value: ir.Value
    known: dict[tuple[int, int], ir.Value]


#: What DPAS takes: a part of a block, or a value of its own.
Part: TypeAlias = Fragment | EmulatedFragment


@dataclass(frozen=True)
class Accumulators(ABC):
    """What is done with blocks and sums."""

    row: DpasRow
    messages: BlockMessages

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.messages.builder

    @property
    def rounds(self) -> bool:
        """Whether blocks of operands are f32 that are rounded to tf32."""
        return self.row.source1.name == "tf32"

    @abstractmethod
    def load(self, header: ir.Value, block: Block, number: int = 0) -> ir.Value:
        """Load a block, by one of the headers in a value."""

    @abstractmethod
    def zero(self) -> ir.Value:
        """Return a new sum."""

    @abstractmethod
    def part(self, loaded: ir.Value, block: Block, offset: int, of_a: bool) -> Part:
        """Return a fragment of A, or of B, that lies so many bytes behind the start of what `load` returned."""

    @abstractmethod
    def add(self, total: ir.Value, a: Part, b: Part) -> ir.Value:
        """Return a sum with the product of two fragments added."""

    @abstractmethod
    def multiply(self, total: ir.Value | None, a: Part, b: Part, added: ir.Value | None = None) -> ir.Value:
        """Return the product of two fragments, to which another sum may be `added`, which stays as it is.

        A `total` is set to it, else it is a new sum.
        """

    @abstractmethod
    def carried(self, totals: Sequence[ir.Value]) -> list[ir.Value]:
        """Return which values of sums a loop carries from an iteration to the next one."""

    @property
    @abstractmethod
    def are_in_place(self) -> bool:
        """Whether sums are registers, which may be stored as they are."""

    @abstractmethod
    def value(self, total: ir.Value) -> ir.Value:
        """Return a sum as a value, of the type of DPAS's result; afterwards nothing is added to it."""

    @abstractmethod
    def plain(self, header: ir.Value, block: Block, type_: ir.Type) -> ir.Value:
        """Load a block as a value of a type that fills its registers."""


class _InPlace(Accumulators):
    """Inline assembly, for devices."""

    def load(self, header: ir.Value, block: Block, number: int = 0) -> ir.Value:
        loaded = self.messages.load(header, block, block.type, number)
        if self.rounds:
            self._round(loaded, block)
        return taken_apart(self.builder, loaded, block) if block.is_taken_apart else loaded

    def _round(self, loaded: ir.Value, block: Block) -> None:
        """Round a block of f32 to tf32, in place."""
        (name,), lines = aliases(self.builder, {0: block.size}, "f", 32)
        (whole,), more = aliases(self.builder, {0: block.size}, "ud", 32)
        lines += more
        for number in range(0, block.registers, 2):
            together = 16 * min(2, block.registers - number)
            lines.append(f"fcvt (M1_NM,{together}) {whole}({number},0)<1> {name}({number},0)<1;1,0>")
        self._asm(ir.VoidType(), lines, "rw", [loaded])

    def zero(self) -> ir.Value:
        letter = "f" if self.row.source1.is_float else "d"
        count, lanes = self.row.repeat, self.row.execution_size
        if ACCUMULATOR_BITS[self.row.destination] == WORD_BITS:
            lines = [f"mov (M1_NM,{lanes * min(_TOGETHER, count - number)}) $0({number},0)<1> 0x0:{letter}"
                     for number in range(0, count, _TOGETHER)]
        else:
            lines = [f"mov (M1,{lanes}) $0({number},0)<1> 0x0:{letter}" for number in range(count)]
        # The lane is an input so that the sum is not taken for the same in all lanes.
        lane = self.builder.trunc(self.messages.lane, I32)
        return self._asm(operand_types(self.row)[3], lines, "=rw,rw", [lane])

    def part(self, loaded: ir.Value, block: Block, offset: int, of_a: bool) -> Part:
        return Fragment(loaded, block.size, offset)

    def add(self, total: ir.Value, a: Part, b: Part) -> ir.Value:
        self._asm(ir.VoidType(), *self._dpas("$0.0", "rw,rw,rw", [total], a, b))
        return total

    def multiply(self, total: ir.Value | None, a: Part, b: Part, added: ir.Value | None = None) -> ir.Value:
        text, more = ("%null.0", []) if added is None else ("$3.0", [added])
        if total is not None:
            lines, _, operands = self._dpas(text, "", [total], a, b)
            self._asm(ir.VoidType(), lines, ",".join(["rw"] * (3 + len(more))), [*operands, *more])
            return total
        # The lane is an input so that the sum is not taken for the same in all lanes.
        lines, _, factors = self._dpas(text, "", [], a, b)
        inputs = [*factors, *more, self.builder.trunc(self.messages.lane, I32)]
        return self._asm(operand_types(self.row)[3], lines, ",".join(["=rw", *["rw"] * len(inputs)]), inputs)

    def _dpas(
        self, added: str, constraints: str, totals: Sequence[ir.Value], a: Part, b: Part
    ) -> tuple[list[str], str, list[ir.Value]]:
        """Return inline assembly that sets its first operand to what is added and the product of the next two."""
        assert isinstance(a, Fragment)
        assert isinstance(b, Fragment)
        names, lines = aliases(self.builder, {1: a.size, 2: b.size}, "d", 32)
        row = self.row
        number, byte = divmod(b.offset, 4 * row.execution_size)
        lines.append(f"{assembly_of(row)} $0.0 {added} {names[0]}.{a.offset} {names[1]}({number},{byte // 4})")
        return lines, constraints, [*totals, a.loaded, b.loaded]

    def carried(self, totals: Sequence[ir.Value]) -> list[ir.Value]:
        return []

    @property
    def are_in_place(self) -> bool:
        return True

    def value(self, total: ir.Value) -> ir.Value:
        # One register by an instruction: what takes it may have the sum's in its place then.
        lines = [f"mov (M1,{self.row.execution_size}) $0({number},0)<1> $1({number},0)<1;1,0>"
                 for number in range(self.row.repeat)]
        return self._asm(total.type, lines, "=rw,rw", [total])

    def plain(self, header: ir.Value, block: Block, type_: ir.Type) -> ir.Value:
        return self.messages.load(header, block, type_)

    def _asm(self, result: ir.Type, lines: Sequence[str], constraints: str, arguments: Sequence[ir.Value]) -> ir.Value:
        return inline_assembly(self.builder, result, lines, constraints, arguments)


def taken_apart(builder: ir.IRBuilder, loaded: ir.Value, block: Block) -> ir.Value:
    """Return a transposed block whose words are taken apart into columns of elements.

    A move takes 32 elements, or a column that its neighbours in registers are no neighbours of in memory.
    """
    bits, together = block.bits, _MOST_MOVED if block.kind == "split" else block.height
    names, lines = aliases(builder, {0: block.size, 1: block.size}, "uw" if bits == 16 else "ub", bits)
    per_register = RULES.register_bytes * 8 // bits
    for first in range(0, block.width * block.height, together):
        to, at = divmod(first, per_register)
        word, part = divmod(block.lines[first // block.height], block.per_word)
        register, offset = divmod(word * block.height * block.per_word, per_register)
        lines.append(f"mov (M1_NM,{together}) {names[0]}({to},{at})<1> "
                     f"{names[1]}({register},{offset + part})<{block.per_word};1,0>")
    return inline_assembly(builder, loaded.type, lines, "=rw,rw", [loaded])


def aliases(
    builder: ir.IRBuilder, sizes: dict[int, int], type_: str, bits: int
) -> tuple[list[str], list[str]]:
    """Return names of operands of inline assembly as elements of a type, and what declares them; sizes in bytes."""
    names, lines = [], []
    for place, size in sizes.items():
        # Names of a kernel's declarations have to differ.
        name = str(builder.module.scope.register("fragment", deduplicate=True)).replace(".", "_")
        count = size * 8 // bits
        lines.append(f".decl {name} v_type=G type={type_} num_elts={count} align=wordx32 alias=<${place},0>")
        names.append(name)
    return names, lines


class _Emulated(Accumulators):
    """Ordinary loads of what the headers say, and the emulation of DPAS."""

    def load(self, header: ir.Value, block: Block, number: int = 0) -> ir.Value:
        return header

    def zero(self) -> ir.Value:
        return constant(operand_types(self.row)[3], 0 if self.row.destination == "i32" else 0.0)

    def part(self, loaded: ir.Value, block: Block, offset: int, of_a: bool) -> Part:
        type_ = operand_types(self.row)[1 if of_a else 0]
        value = self.messages.fragment(loaded, block, offset, type_, self.rounds)
        return EmulatedFragment(value, {})

    def add(self, total: ir.Value, a: Part, b: Part) -> ir.Value:
        assert isinstance(a, EmulatedFragment)
        assert isinstance(b, EmulatedFragment)
        return emulate(self.builder, self.row, b.value, a.value, total, b.known)

    def multiply(self, total: ir.Value | None, a: Part, b: Part, added: ir.Value | None = None) -> ir.Value:
        return self.add(self.zero() if added is None else added, a, b)

    def carried(self, totals: Sequence[ir.Value]) -> list[ir.Value]:
        return list(totals)

    @property
    def are_in_place(self) -> bool:
        return False

    def value(self, total: ir.Value) -> ir.Value:
        return total

    def plain(self, header: ir.Value, block: Block, type_: ir.Type) -> ir.Value:
        return self.messages.fragment(header, block, 0, type_)


def accumulators_for(row: DpasRow, messages: BlockMessages) -> Accumulators:
    """Return what computes by messages, emulated where they are."""
    return (_Emulated if messages.emulated else _InPlace)(row, messages)
