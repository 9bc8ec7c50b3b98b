"""Reads of two-dimensional blocks (Xe-HPC): a whole fragment of DPAS in one message, packed on the way.

The compiler has functions for some shapes, but builds the message's header anew for each read: seven moves.  Here the
header is a value of the sub-group, element i of it in lane i, that the loop over k advances by one addition, and the
message is inline assembly.  Elements outside of the matrix are read as zero.

Source: the headers and descriptors that the Intel Graphics Compiler 1.0.12504 makes for its own functions, which name
the fields: 0 and 1 the address, 2 width in bytes - 1, 3 height - 1, 4 pitch in bytes - 1, 5 and 6 the first column and
row, 7 the block: width - 1, height - 1 in the next byte.  The address is a multiple of 64, width and pitch are at
least 64, the width is a multiple of 4 and the pitch of 16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llvmlite import ir

from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, builtin, constant, index, lanes, undefined

__all__ = ["BlockReader", "Blocks", "blocks_of_a", "blocks_of_b", "is_aligned"]

_LEAST_BYTES, _PITCH_MULTIPLE, _WIDTH_MULTIPLE = 64, 16, 4
_COLUMN, _ROW = 5, 6
#: The port of the memory unit, and the bits of a descriptor: the length of the header and the kind of message; the
#: size of elements, from 8 bits on in powers of two; whether columns are packed in 32 bits, or blocks transposed.
_PORT, _MESSAGE, _SIZE_BIT, _PACKED, _TRANSPOSED = 15, 0x02000003, 9, 0x80, 0x8000
_REGISTER_BYTES = 64


@dataclass(frozen=True)
class Blocks:
    """How fragments of a matrix are read: its shape, and that of a block.

    ``plain``: rows of the block are the rows of DPAS's first operand.  ``packed``: columns are lanes, rows packed in
    32 bits.  ``transposed``: rows are lanes, of elements of 32 bits.  Sizes are in elements of the matrix, of which
    those of less than 8 bits are taken for bytes.
    """

    kind: Literal["plain", "packed", "transposed"]
    bits: int
    width: int
    height: int
    pitch: int
    block_width: int
    block_height: int

    @property
    def unit_bits(self) -> int:
        """Bits of what the message takes for an element."""
        return 32 if self.kind == "transposed" else self.bits


def blocks_of_a(row: DpasRow, strides: tuple[object, ...], m: object, k: object) -> Blocks | None:
    """Return how to read fragments of an m x k matrix with these strides, or None if it cannot be done.

    Anything but an int is not known.  The matrix must be in global memory, and its address a multiple of 4.
    """
    match strides:
        case (1, pitch):
            return _checked(row, "packed", row.source1.bits, m, k, pitch, row.execution_size, row.k)
        case (pitch, 1):
            return _checked(row, "transposed", row.source1.bits, k, m, pitch, row.k, row.execution_size)
    return None


def blocks_of_b(row: DpasRow, strides: tuple[object, ...], k: object, n: object) -> Blocks | None:
    """Return how to read fragments of a k x n matrix, as `blocks_of_a`; k must be contiguous."""
    match strides:
        case (1, pitch):
            return _checked(row, "plain", row.source2.bits, k, n, pitch, row.k, row.repeat)
    return None


def _checked(
    row: DpasRow, kind: Literal["plain", "packed", "transposed"], bits: int, width: object, height: object,
    pitch: object, block_width: int, block_height: int,
) -> Blocks | None:
    if bits < 8:
        # Elements that follow one another along k are bytes to the message; a fragment has the same bits.
        per_byte, bits = 8 // bits, 8
        sizes = (width, pitch)
        if kind == "packed" or not all(isinstance(size, int) and size % per_byte == 0 for size in sizes):
            return None
        width, pitch = (size // per_byte for size in sizes if isinstance(size, int))
        block_width //= per_byte
    if row.execution_size != 16 or bits not in (8, 16) or row.a_elements < row.repeat:
        return None
    if not (isinstance(width, int) and isinstance(height, int) and isinstance(pitch, int)) or pitch < width:
        return None
    width_bytes, pitch_bytes = width * bits // 8, pitch * bits // 8
    if width_bytes < _LEAST_BYTES or width_bytes % _WIDTH_MULTIPLE or pitch_bytes % _PITCH_MULTIPLE:
        return None
    return Blocks(kind, bits, width, height, pitch, block_width, block_height)


def is_aligned(builder: ir.IRBuilder, *pointers: ir.Value) -> ir.Value:
    """Whether addresses are multiples of 4, as widths must be once the address is rounded down."""
    bits = index(0)
    for pointer in pointers:
        bits = builder.or_(bits, builder.ptrtoint(pointer, I64))
    return builder.icmp_unsigned("==", builder.and_(bits, index(_WIDTH_MULTIPLE - 1)), index(0))


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks of one sub-group; `lane` is 64 bits wide."""

    builder: ir.IRBuilder
    row: DpasRow
    lane: ir.Value
    emulated: bool

    def header(self, pointer: ir.Value, blocks: Blocks, column: ir.Value, row: ir.Value) -> ir.Value:
        """Return the header for the block that starts at a place, in elements of the matrix."""
        builder = self.builder
        address = builder.ptrtoint(pointer, I64)
        before = builder.and_(address, index(_LEAST_BYTES - 1))
        base = builder.sub(address, before)
        before = builder.trunc(before, I32)
        scale = blocks.unit_bits // blocks.bits
        first = builder.trunc(column if scale == 1 else builder.udiv(column, index(scale)), I32)
        width, pitch = (size * blocks.bits // 8 for size in (blocks.width, blocks.pitch))
        block = (blocks.block_width // scale - 1) | (blocks.block_height - 1) << 8
        fields = [
            builder.trunc(base, I32), builder.trunc(builder.lshr(base, index(32)), I32),
            builder.add(before, constant(I32, width - 1)), constant(I32, blocks.height - 1), constant(I32, pitch - 1),
            builder.add(first, builder.udiv(before, constant(I32, blocks.unit_bits // 8))), builder.trunc(row, I32),
            constant(I32, block),
        ]
        return self.spread(dict(enumerate(fields)))

    def step(self, blocks: Blocks) -> ir.Value:
        """Return what the header of the next block along k differs by."""
        if blocks.kind == "packed":
            return self.spread({_ROW: constant(I32, blocks.block_height)})
        return self.spread({_COLUMN: constant(I32, blocks.block_width * blocks.bits // blocks.unit_bits)})

    def spread(self, fields: dict[int, ir.Value]) -> ir.Value:
        """Return a value whose lanes are the fields of a header, 0 where there is none."""
        lane = self.builder.trunc(self.lane, I32)
        result: ir.Value = constant(I32, 0)
        for number, value in fields.items():
            here = self.builder.icmp_unsigned("==", lane, constant(I32, number))
            result = self.builder.select(here, value, result)
        return result

    def read(self, header: ir.Value, blocks: Blocks) -> ir.Value:
        """Read a block: a fragment of the language's A or, where it is plain, of its B."""
        type_ = operand_types(self.row)[0 if blocks.kind == "plain" else 1]
        if self.emulated:
            return self.emulate(header, blocks, type_)
        size = lanes(type_) * getattr(type_, "element", type_).width // 8 * self.row.execution_size
        registers = max(1, size // _REGISTER_BYTES)
        descriptor = _MESSAGE | registers << 20 | {8: 0, 16: 1, 32: 2}[blocks.unit_bits] << _SIZE_BIT
        descriptor |= {"plain": 0, "packed": _PACKED, "transposed": _TRANSPOSED}[blocks.kind]
        text = f"raw_sends.{_PORT}.1.0.{registers} (M1,16) 0x0:ud {descriptor:#x}:ud $1.0 %null.0 $0.0"
        return self.builder.asm(ir.FunctionType(type_, [I32]), text, "=rw,rw", [header], True)

    def emulate(self, header: ir.Value, blocks: Blocks, type_: ir.Type) -> ir.Value:
        """Read the block with ordinary loads, from what the header says."""
        builder = self.builder

        def field(number: int) -> ir.Value:
            arguments = [header, constant(I32, number)]
            value = builtin(builder, "_Z19sub_group_broadcastij", I32, arguments, ("nounwind", "convergent"))
            return builder.zext(value, I64)

        base = builder.or_(field(0), builder.shl(field(1), index(32)))
        width, height, pitch, column, row = (field(number) for number in range(2, 7))
        first = builder.mul(column, index(blocks.unit_bits // 8))

        def load(x: ir.Value, y: ir.Value, bits: int) -> ir.Value:
            """Load `bits` from byte x of row y, 0 outside of the matrix."""
            raw = ir.IntType(bits)
            inside = builder.and_(builder.icmp_unsigned("<=", x, width), builder.icmp_unsigned("<=", y, height))
            offset = builder.add(builder.mul(y, builder.add(pitch, index(1))), x)
            # Outside, the end of the first row is read and dropped.
            last = builder.sub(width, index(bits // 8 - 1))
            pointer = builder.inttoptr(
                builder.add(base, builder.select(inside, offset, last)), raw.as_pointer(GLOBAL))
            return builder.select(inside, builder.load(pointer, align=1), constant(raw, 0))

        def element(number: int) -> ir.Value:
            match blocks.kind:
                case "plain":
                    own = builder.mul(self.lane, index(self.row.a_width // 8))
                    return load(builder.add(first, own), builder.add(row, index(number)), self.row.a_width)
                case "transposed":
                    return load(builder.add(first, index(4 * number)), builder.add(row, self.lane), 32)
            x = builder.add(first, builder.mul(self.lane, index(blocks.bits // 8)))
            word = constant(I32, 0)
            for place in range(32 // blocks.bits):
                y = builder.add(row, index(number * (32 // blocks.bits) + place))
                part = builder.zext(load(x, y, blocks.bits), I32)
                word = builder.or_(word, builder.shl(part, constant(I32, place * blocks.bits)))
            return word

        count = lanes(type_)
        if count == 1:
            return element(0)
        result = undefined(type_)
        for number in range(count):
            result = builder.insert_element(result, element(number), constant(I32, number))
        return result
