"""Messages that move two-dimensional blocks between a matrix and registers (Xe-HPC), up to 32 registers by one of them.

The compiler has functions for some shapes, but builds the message's header anew for each read: seven moves.  Here the
header is a value of the sub-group, element i of it in lane i, that a loop advances by one addition, and the message is
inline assembly.  Elements outside of the matrix are read as zero, and not written.

Source: the headers and descriptors that the Intel Graphics Compiler 1.0.12504 makes for its own functions, which name
the fields: 0 and 1 the address, 2 width in bytes - 1, 3 height - 1, 4 pitch in bytes - 1, 5 and 6 the first column and
row, 7 the block: width - 1, height - 1 in the next byte, then the number of arrays - 1.  Arrays are blocks next to one
another.  What sizes there are follows the functions of the extension cl_intel_subgroup_2d_block_io.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.block_emulation import emulate_fragment, emulate_store
from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, RULES, Block
from tl_dpnp.kernels.dpas.fragments import Size
from tl_dpnp.kernels.llvm import I32, I64, constant, index
from tl_dpnp.records import dataclass

__all__ = ["BlockMessages", "Surface", "inline_assembly", "start_of"]

#: The port of the memory unit, and the bits of a descriptor: the kind of message with the length of the header; what is
#: kept in caches; how many registers are loaded.
_PORT, _LOAD, _STORE, _CACHED, _LENGTH_BIT = 15, 0x02000003, 0x02000007, 4 << 17, 20
_I16 = ir.IntType(16)
#: The field of a header that is the block.
_BLOCK = 7
#: The length of a message has five bits: 31 stands for 32, too, and the size of the block decides.
_MOST_LENGTH = 31


def inline_assembly(
    builder: ir.IRBuilder, result: ir.Type, lines: Sequence[str], constraints: str, arguments: Sequence[ir.Value]
) -> ir.Value:
    """Append inline assembly that is not moved, and not copied to several places.

    Of a value that is changed in place there must be one: where branches of the same condition follow one another,
    LLVM copies what is between them, and the values of both copies would be put together as they were before changes.
    """
    text = lines[0] if len(lines) == 1 else "\\0A".join(("{", *lines, "}"))
    function = ir.FunctionType(result, [argument.type for argument in arguments])
    found = builder.asm(function, text, constraints, arguments, True)
    found.attributes.add("convergent")
    return found


def start_of(
    builder: ir.IRBuilder, address: ir.Value, pitch: int | None
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return where a matrix begins for messages, a multiple of 64, and the bytes and lines before its own (32 bits).

    Lines are `pitch` bytes apart, None where that is not known.  The bytes count as a part of all lines, which must not
    be longer than the pitch then.  A pitch that is no multiple of 64 leaves other lines at other rests: it is the line
    that leaves the fewest bytes.  Nothing before the matrix is accessed.
    """
    unit = RULES.address if pitch is None else math.gcd(RULES.address, pitch)
    before = builder.and_(address, index(unit - 1))
    base, count = builder.sub(address, before), RULES.address // unit
    if pitch is None or count == 1:
        return base, builder.trunc(before, I32), constant(I32, 0)
    # Each of so many lines begins at another rest; the inverse of a line's finds the one whose rest is 0.  Products of
    # 16 bits are one instruction.
    rest = builder.trunc(builder.lshr(address, index(unit.bit_length() - 1)), _I16)
    lines = builder.and_(builder.mul(rest, constant(_I16, pow(pitch // unit, -1, count))), constant(_I16, count - 1))
    lines = builder.zext(lines, I32)
    distance = builder.zext(builder.mul(lines, constant(I32, pitch)), I64)
    return builder.sub(base, distance), builder.trunc(before, I32), lines


@dataclass(frozen=True)
class Surface:
    """A matrix in global memory as messages take it: `height` lines of `width` elements of `bits`, `pitch` apart."""

    pointer: ir.Value
    bits: int
    width: Size
    height: Size
    pitch: Size

    def start(self, builder: ir.IRBuilder) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return what `start_of` does."""
        pitch = self.pitch * self.bits // 8 if isinstance(self.pitch, int) else None
        return start_of(builder, builder.ptrtoint(self.pointer, I64), pitch)

    def conditions(self, builder: ir.IRBuilder) -> list[ir.Value]:
        """Return what has to hold at run time that messages can move blocks of the matrix, as values of one bit."""
        address = builder.ptrtoint(self.pointer, I64)
        _, before, _ = self.start(builder)
        aligned = builder.and_(address, index(max(RULES.width_multiple, self.bits // 8) - 1))
        result = [builder.icmp_unsigned("==", aligned, index(0))]
        width, pitch = (_in_bytes(builder, size, self.bits) for size in (self.width, self.pitch))
        for size, value, multiple in ((self.width, width, RULES.width_multiple),
                                      (self.pitch, pitch, RULES.pitch_multiple)):
            if isinstance(size, int):
                continue
            bits = builder.mul(size, index(self.bits))
            whole = builder.and_(bits, index(8 * multiple - 1))
            result.append(builder.icmp_unsigned("==", whole, index(0)))
            for sign, bound in ((">=", RULES.least_bytes), ("<=", RULES.most_bytes - RULES.address)):
                result.append(builder.icmp_signed(sign, value, index(bound)))
        if not isinstance(self.height, int):
            result.append(builder.icmp_signed(">=", self.height, index(1)))
            result.append(builder.icmp_signed("<=", self.height, index(RULES.most_lines)))
        gap = self.pitch - self.width if isinstance(self.pitch, int) and isinstance(self.width, int) else 0
        if gap * self.bits < 8 * RULES.address:
            result.append(builder.icmp_signed("<=", builder.add(builder.zext(before, I64), width), pitch))
        return result


def _in_bytes(builder: ir.IRBuilder, size: Size, bits: int) -> ir.Value:
    if isinstance(size, int):
        return index(size * bits // 8)
    return builder.mul(size, index(bits // 8)) if bits >= 8 else builder.lshr(builder.mul(size, index(bits)), index(3))


@dataclass(frozen=True)
class BlockMessages:
    """Moves blocks for one sub-group of 16 lanes; `lane` is 64 bits wide.  `emulated` does so by ordinary accesses."""

    builder: ir.IRBuilder
    lane: ir.Value
    emulated: bool

    # --- headers -----------------------------------------------------------------------------------------------------

    def header(
        self, surface: Surface, block: Block, column: ir.Value, row: ir.Value, moving: int = ROW, before: int = 0
    ) -> ir.Value:
        """Return the header for the block that starts at a place, in elements of the matrix.

        The field that a loop changes is set last, so that all else is done in front of the loop.  It is that of a block
        so many of the message's elements `before`.
        """
        builder = self.builder
        base, cut, lines = surface.start(builder)
        word = constant(I32, block.word_bits // 8)
        if surface.bits == block.word_bits:
            first = builder.trunc(column, I32)
        else:
            first = builder.udiv(builder.trunc(_in_bytes(builder, column, surface.bits), I32), word)
        first = builder.add(first, builder.udiv(cut, word))  # which is a multiple of words

        def less(size: Size, bits: int = 8) -> ir.Value:
            return builder.sub(builder.trunc(_in_bytes(builder, size, bits), I32), constant(I32, 1))

        places = {COLUMN: first, ROW: builder.add(builder.trunc(row, I32), lines)}
        last = builder.sub(places.pop(moving), constant(I32, before)) if before else places.pop(moving)
        return self.spread({
            0: builder.trunc(base, I32), 1: builder.trunc(builder.lshr(base, index(32)), I32),
            2: builder.add(cut, less(surface.width, surface.bits)), 3: builder.add(less(surface.height), lines),
            4: less(surface.pitch, surface.bits), _BLOCK: constant(I32, block.field),
            **places, moving: last,
        })

    def step(self, field: int, elements: int) -> ir.Value:
        """Return what the header of a block that lies some elements further along a mode differs by."""
        return self.spread({field: constant(I32, elements)})

    def movable(self, header: ir.Value, number: int = 0) -> ir.Value:
        """Return a header, one of those in a value, that `move` changes in place; not where messages are emulated."""
        line = f"mov (M1_NM,16) $0(0,0)<1> $1({number},0)<1;1,0>"
        return inline_assembly(self.builder, I32, [line], "=rw,rw", [header])

    def copied(self, header: ir.Value, block: Block, field: int, elements: int, number: int = 0) -> ir.Value:
        """Return a movable header of another block, some elements further along a mode than one of those in a value."""
        result = self.movable(header, number)
        line = f"mov (M1_NM,1) $0(0,{_BLOCK})<1> {block.field:#x}:d"
        inline_assembly(self.builder, ir.VoidType(), [line], "rw", [result])
        if elements:
            self.move(result, field, elements)
        return result

    def beside(self, header: ir.Value, block: Block, column: int, row: int) -> ir.Value:
        """Return the header of a block so many columns and rows from that of another one; not where they are emulated.

        It is made where it stands, while the fields of one that is made anew are found, and held, in front of loops.
        """
        lines = ["mov (M1_NM,16) $0(0,0)<1> $1(0,0)<1;1,0>", f"mov (M1_NM,1) $0(0,{_BLOCK})<1> {block.field:#x}:d"]
        lines += [f"add (M1_NM,1) $0(0,{field})<1> $0(0,{field})<0;1,0> {distance}:d"
                  for field, distance in ((COLUMN, column), (ROW, row)) if distance]
        return inline_assembly(self.builder, I32, lines, "=rw,rw", [header])

    def changed(self, header: ir.Value, block: Block, other: Block, field: int, elements: int) -> ir.Value:
        """Return the header of another block, some elements further along a mode; only where messages are emulated."""
        step = self.spread({_BLOCK: constant(I32, other.field - block.field), field: constant(I32, elements)})
        return self.builder.add(header, step)

    def move(self, header: ir.Value, field: int, elements: int, number: int = 0) -> None:
        """Let a movable header, one of those in a value, be that of a block some elements further along a mode."""
        line = f"add (M1_NM,1) $0({number},{field})<1> $0({number},{field})<0;1,0> {elements}:d"
        inline_assembly(self.builder, ir.VoidType(), [line], "rw", [header])

    def together(self, headers: Sequence[ir.Value]) -> ir.Value:
        """Return two headers, or steps, as one value that moves as a whole; not where messages are emulated."""
        lines = [f"mov (M1_NM,16) $0({number},0)<1> ${number + 1}(0,0)<1;1,0>" for number in range(2)]
        return inline_assembly(self.builder, ir.VectorType(I32, 2), lines, "=rw,rw,rw", headers)

    def move_together(self, headers: ir.Value, step: ir.Value) -> None:
        """Let both headers in a value move on by a step, or each of them by its own one of two."""
        own = "1;1,0" if isinstance(step.type, ir.VectorType) else "0;16,1"
        line = f"add (M1_NM,32) $0(0,0)<1> $0(0,0)<1;1,0> $1(0,0)<{own}>"
        inline_assembly(self.builder, ir.VoidType(), [line], "rw,rw", [headers, step])

    def spread(self, fields: dict[int, ir.Value]) -> ir.Value:
        """Return a value whose lanes are the fields of a header, 0 where there is none."""
        lane = self.builder.trunc(self.lane, I32)
        result: ir.Value = constant(I32, 0)
        for number, value in fields.items():
            here = self.builder.icmp_unsigned("==", lane, constant(I32, number))
            result = self.builder.select(here, value, result)
        return result

    def fragment(
        self, header: ir.Value, block: Block, offset: int, type_: ir.Type, rounds: bool = False
    ) -> ir.Value:
        """Return what lies `offset` bytes behind the start of a block's registers; only where messages are emulated.

        With `rounds`, these are f32 that are rounded to tf32 first.
        """
        return emulate_fragment(self.builder, header, block, offset, type_, self.lane, rounds)

    # --- messages ----------------------------------------------------------------------------------------------------

    def load(self, header: ir.Value, block: Block, type_: ir.Type, number: int = 0) -> ir.Value:
        """Load a block, as a value of a type that has its registers; not where messages are emulated.

        Of several headers in one value, the block is that of one of them.
        """
        length = min(_MOST_LENGTH, block.registers)
        descriptor = _LOAD | block.descriptor | length << _LENGTH_BIT
        place = number * RULES.register_bytes
        text = f"raw_sends.{_PORT}.1.0.{length} (M1_NM,1) 0x0:ud {descriptor:#x}:ud $1.{place} %null.0 $0.0"
        return inline_assembly(self.builder, type_, [text], "=rw,rw", [header])

    def prefetch(self, header: ir.Value, block: Block, number: int = 0) -> None:
        """Fetch a block into the caches: a load without a destination; nothing where messages are emulated."""
        if self.emulated:
            return
        text = (f"raw_sends.{_PORT}.1.0.0 (M1_NM,1) 0x0:ud {_LOAD | block.descriptor | _CACHED:#x}:ud"
                f" $0.{number * RULES.register_bytes} %null.0 %null.0")
        inline_assembly(self.builder, ir.VoidType(), [text], "rw", [header])

    def store(self, header: ir.Value, block: Block, value: ir.Value) -> None:
        """Store a plain block from a value whose elements are its rows, and whose lanes its columns."""
        if self.emulated:
            emulate_store(self.builder, header, block, value, self.lane)
            return
        text = (f"raw_sends.{_PORT}.1.{block.registers}.0 (M1_NM,1) 0x0:ud {_STORE | block.descriptor:#x}:ud $0.0 $1.0"
                " %null.0")
        inline_assembly(self.builder, ir.VoidType(), [text], "rw,rw", [header, value])
