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

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Matrix
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, builtin, constant, index, lanes

__all__ = ["BlockReader", "can_read_blocks", "is_aligned"]

_LEAST_BYTES, _PITCH_MULTIPLE, _WIDTH_MULTIPLE = 64, 16, 4
_COLUMN, _ROW = 5, 6
#: Unified memory port, and descriptors without the length of the answer: 16-bit elements, as they are and packed.
_PORT = 15
_PLAIN, _PACKED = 0x02000203, 0x02000283
_REGISTER_BYTES = 64


def can_read_blocks(row: DpasRow, strides: tuple[object, ...], width: object, height: object) -> bool:
    """Whether blocks of a matrix in global memory can be read for a row, up to the alignment of its address.

    `strides` are those along its first mode, of `width` elements of 16 bits, and its second, of `height`; anything but
    an int is not known.
    """
    if row.execution_size != 16 or row.source1.bits != 16 or row.source2.bits != 16:
        return False
    contiguous, pitch = strides if len(strides) == 2 else (None, None)
    if contiguous != 1 or not (isinstance(pitch, int) and isinstance(width, int) and isinstance(height, int)):
        return False
    sized = 2 * width >= _LEAST_BYTES and 2 * width % _WIDTH_MULTIPLE == 0
    return sized and pitch >= width and 2 * pitch % _PITCH_MULTIPLE == 0


def is_aligned(builder: ir.IRBuilder, *matrices: Matrix) -> ir.Value:
    """Whether the addresses of matrices are multiples of 4, as widths must be once the address is rounded down."""
    bits = index(0)
    for matrix in matrices:
        bits = builder.or_(bits, builder.ptrtoint(matrix.pointer, I64))
    return builder.icmp_unsigned("==", builder.and_(bits, index(_WIDTH_MULTIPLE - 1)), index(0))


@dataclass(frozen=True)
class BlockReader:
    """Reads blocks of one sub-group; `lane` is 64 bits wide."""

    builder: ir.IRBuilder
    row: DpasRow
    lane: ir.Value
    emulated: bool

    def header(
        self, matrix: Matrix, width: int, height: int, column: ir.Value, row: ir.Value, packed: bool
    ) -> ir.Value:
        """Return the header for blocks of a matrix of `width` contiguous elements by `height`, from a place on."""
        builder = self.builder
        address = builder.ptrtoint(matrix.pointer, I64)
        before = builder.and_(address, index(_LEAST_BYTES - 1))
        base = builder.sub(address, before)
        before = builder.trunc(before, I32)
        pitch = matrix.strides[1]
        assert isinstance(pitch, int)
        block = (15 | 15 << 8) if packed else (15 | (self.row.repeat - 1) << 8)
        fields = [
            builder.trunc(base, I32), builder.trunc(builder.lshr(base, index(32)), I32),
            builder.add(before, constant(I32, 2 * width - 1)), constant(I32, height - 1), constant(I32, 2 * pitch - 1),
            builder.add(builder.trunc(column, I32), builder.lshr(before, constant(I32, 1))),
            builder.trunc(row, I32), constant(I32, block),
        ]
        return self.spread(dict(enumerate(fields)))

    def step(self, packed: bool) -> ir.Value:
        """Return what the header of the next block along k differs by: rows of A, columns of B."""
        return self.spread({_ROW if packed else _COLUMN: constant(I32, self.row.k)})

    def spread(self, fields: dict[int, ir.Value]) -> ir.Value:
        """Return a value whose lanes are the fields of a header, 0 where there is none."""
        lane = self.builder.trunc(self.lane, I32)
        result: ir.Value = constant(I32, 0)
        for number, value in fields.items():
            here = self.builder.icmp_unsigned("==", lane, constant(I32, number))
            result = self.builder.select(here, value, result)
        return result

    def read(self, header: ir.Value, packed: bool) -> ir.Value:
        """Read a block: a fragment of the language's A, packed along k, or of its B."""
        type_ = operand_types(self.row)[1 if packed else 0]
        if self.emulated:
            return self.emulate(header, packed, type_)
        size = lanes(type_) * (4 if packed else 2) * self.row.execution_size
        registers = max(1, size // _REGISTER_BYTES)
        descriptor = (_PACKED if packed else _PLAIN) | registers << 20
        text = f"raw_sends.{_PORT}.1.0.{registers} (M1,16) 0x0:ud {descriptor:#x}:ud $1.0 %null.0 $0.0"
        return self.builder.asm(ir.FunctionType(type_, [I32]), text, "=rw,rw", [header], True)

    def emulate(self, header: ir.Value, packed: bool, type_: ir.Type) -> ir.Value:
        """Read the block with ordinary loads, from what the header says."""
        builder = self.builder

        def field(number: int) -> ir.Value:
            arguments = [header, constant(I32, number)]
            return builtin(builder, "_Z19sub_group_broadcastij", I32, arguments, ("nounwind", "convergent"))

        base = builder.or_(
            builder.zext(field(0), I64), builder.shl(builder.zext(field(1), I64), index(32))
        )
        width, height, pitch, column, row = (builder.zext(field(number), I64) for number in range(2, 7))
        column = builder.add(column, self.lane)
        inside = builder.icmp_unsigned("<", builder.shl(column, index(1)), builder.add(width, index(1)))
        raw = ir.IntType(16)

        def element(distance: int) -> ir.Value:
            y = builder.add(row, index(distance))
            there = builder.and_(inside, builder.icmp_unsigned("<=", y, height))
            offset = builder.add(builder.mul(y, builder.add(pitch, index(1))), builder.shl(column, index(1)))
            # Outside, the last element of the first row is read and dropped.
            offset = builder.select(there, offset, builder.sub(width, index(1)))
            pointer = builder.inttoptr(builder.add(base, offset), raw.as_pointer(GLOBAL))
            return builder.select(there, builder.load(pointer, align=2), constant(raw, 0))

        return self.packed_block(element) if packed else self.plain_block(element, type_)

    def packed_block(self, element: Callable[[int], ir.Value]) -> ir.Value:
        """Pairs of rows in 32 bits."""
        result = ir.Constant(operand_types(self.row)[1], ir.Undefined)
        for number in range(self.row.b_elements):
            low, high = (self.builder.zext(element(2 * number + half), I32) for half in (0, 1))
            word = self.builder.or_(low, self.builder.shl(high, constant(I32, 16)))
            result = self.builder.insert_element(result, word, constant(I32, number))
        return result

    def plain_block(self, element: Callable[[int], ir.Value], type_: ir.Type) -> ir.Value:
        """One row in each element."""
        result = ir.Constant(type_, ir.Undefined)
        for number in range(self.row.repeat):
            value = element(number)
            result = value if self.row.repeat == 1 else self.builder.insert_element(
                result, value, constant(I32, number))
        return result
