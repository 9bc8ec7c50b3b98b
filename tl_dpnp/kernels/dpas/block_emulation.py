"""Messages of blocks for devices that lack them: ordinary accesses to what their headers say.

What a load leaves in registers follows from the shape of the block alone: for each byte of them, its place in the
matrix.  So fragments are found as DPAS finds them, by their offset.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, Block
from tl_dpnp.kernels.dpas.emulation import called_function
from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, builtin, constant, index, lanes, undefined
from tl_dpnp.kernels.narrow_floats import tf32_from_f32
from tl_dpnp.records import dataclass

__all__ = ["emulate_fragment", "emulate_store"]

_WORD, _LANES = 4, 16


def emulate_fragment(
    builder: ir.IRBuilder, header: ir.Value, block: Block, offset: int, type_: ir.Type, lane: ir.Value, rounds: bool
) -> ir.Value:
    """Return a value that lies `offset` bytes behind the start of the registers that a block is loaded to.

    With `rounds`, these are f32 that are rounded to tf32 first.
    """
    name = f"emulated_block_{_name(block)}_as_{lanes(type_)}x{getattr(type_, 'element', type_)}"
    name += "_rounded" if rounds else ""
    function = builder.module.globals.get(name)
    if function is None:
        function = called_function(builder.module, name, type_, [*[I64] * 8])
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        *fields, own, first = function.args
        inner.ret(_Place(inner, block, fields, rounds).fragment(type_, own, first))
    return builder.call(function, [*_fields(builder, header), lane, index(offset)], cconv="spir_func")


def emulate_store(builder: ir.IRBuilder, header: ir.Value, block: Block, value: ir.Value, lane: ir.Value) -> None:
    """Store a plain block from a value whose elements are its rows, and whose lanes its columns."""
    name = f"emulated_block_{_name(block)}_from_{lanes(value.type)}x{getattr(value.type, 'element', value.type)}"
    function = builder.module.globals.get(name)
    if function is None:
        function = called_function(builder.module, name, ir.VoidType(), [*[I64] * 7, value.type])
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        *fields, own, stored = function.args
        _Place(inner, block, fields).store(own, stored)
        inner.ret_void()
    builder.call(function, [*_fields(builder, header), lane, value], cconv="spir_func")


def _name(block: Block) -> str:
    return f"{block.kind}_{block.bits}_{block.width}x{block.height}x{block.count}"


def _fields(builder: ir.IRBuilder, header: ir.Value) -> list[ir.Value]:
    """Return the fields of a header in all lanes: address, width, height, pitch, first column and row.

    They are read here and not in a function: SPIR-V does not say that all lanes take part in a call of one.
    """
    def field(number: int) -> ir.Value:
        arguments = [header, constant(I32, number)]
        value = builtin(builder, "_Z19sub_group_broadcastij", I32, arguments, ("nounwind", "convergent"))
        return builder.zext(value, I64)

    base = builder.or_(field(0), builder.shl(field(1), index(32)))
    sizes = [builder.add(field(number), index(1)) for number in (2, 3, 4)]
    return [base, *sizes, field(COLUMN), field(ROW)]


@dataclass(frozen=True)
class _Place:
    """The place of a block in a matrix: address, width, height, pitch, first column and row."""

    builder: ir.IRBuilder
    block: Block
    fields: list[ir.Value]
    rounds: bool = False

    @property
    def size(self) -> int:
        """Bytes of an element of the block."""
        return self.block.bits // 8

    def fragment(self, type_: ir.Type, lane: ir.Value, first: ir.Value) -> ir.Value:
        """Return a value from a byte of the block's registers on: element i of lane l is number 16 i + l there."""
        builder, element = self.builder, getattr(type_, "element", type_)
        bits = element if isinstance(element, ir.IntType) else ir.IntType(16 if element == ir.HalfType() else 32)
        width = bits.width // 8
        start = builder.add(builder.mul(lane, index(width)), first)
        result = undefined(type_)
        for number in range(lanes(type_)):
            value = self.part(builder.add(start, index(number * _LANES * width)), bits)
            value = value if element == bits else builder.bitcast(value, element)
            result = value if lanes(type_) == 1 else builder.insert_element(result, value, constant(I32, number))
        return result

    def part(self, place: ir.Value, type_: ir.IntType) -> ir.Value:
        """Return so many bits from a byte of the block's registers on."""
        builder, block, size = self.builder, self.block, self.size
        array, byte = self.divided(place, block.array_bytes)
        if block.kind == "transposed":
            column, byte = self.divided(byte, _WORD * block.height)
            row, byte = self.divided(byte, _WORD)
            return self.load(builder.add(builder.mul(column, index(_WORD)), byte), row, type_)
        if block.is_taken_apart:
            column, byte = self.divided(byte, block.height * size)
            if block.kind == "split":  # the words' first elements come first, then their second ones
                part, word = self.divided(column, block.width // block.per_word)
                column = builder.add(builder.mul(word, index(block.per_word)), part)
            return self.collected(builder.mul(column, index(size)), builder.udiv(byte, index(size)), type_)
        start = builder.mul(array, index(block.width * size))
        if block.kind == "plain":
            row, byte = self.divided(byte, block.width * size)
            return self.load(builder.add(start, byte), row, type_)
        # Columns of words that several rows are packed in.
        assert type_ == I32
        rows, byte = self.divided(byte, _WORD * block.width)
        column, _ = self.divided(byte, _WORD)
        byte = builder.add(start, builder.mul(column, index(size)))
        return self.collected(byte, builder.mul(rows, index(_WORD // size)), type_)

    def collected(self, byte: ir.Value, row: ir.Value, type_: ir.IntType) -> ir.Value:
        """Return so many bits of a column from a row on, whose elements lie in several rows."""
        builder, bits = self.builder, self.block.bits
        result: ir.Value = constant(type_, 0)
        for number in range(type_.width // bits):
            part = self.load(byte, builder.add(row, index(number)), ir.IntType(bits))
            part = part if type_.width == bits else builder.zext(part, type_)
            result = builder.or_(result, builder.shl(part, constant(type_, number * bits)))
        return result

    def divided(self, value: ir.Value, divisor: int) -> tuple[ir.Value, ir.Value]:
        return self.builder.udiv(value, index(divisor)), self.builder.urem(value, index(divisor))

    def load(self, byte: ir.Value, row: ir.Value, type_: ir.IntType) -> ir.Value:
        """Load from a byte of a row of the block on, 0 outside of the matrix; a word, or a part of it, if rounded."""
        if not self.rounds:
            return self.loaded(byte, row, type_)
        builder = self.builder
        word, part = self.divided(byte, _WORD)
        rounded = tf32_from_f32(builder, self.loaded(builder.mul(word, index(_WORD)), row, I32))
        moved = builder.lshr(rounded, builder.trunc(builder.mul(part, index(8)), I32))
        return moved if type_ == I32 else builder.trunc(moved, type_)

    def loaded(self, byte: ir.Value, row: ir.Value, type_: ir.IntType) -> ir.Value:
        """Load from a byte of a row of the block on, 0 outside of the matrix."""
        builder = self.builder
        base, width, height, pitch, *_ = self.fields
        offset, inside = self.offset(byte, row)
        # Outside, the end of the last row is read and dropped: the first ones may lie before the matrix.
        last = builder.mul(builder.sub(height, index(1)), pitch)
        last = builder.add(last, builder.sub(width, index(type_.width // 8)))
        pointer = builder.inttoptr(builder.add(base, builder.select(inside, offset, last)), type_.as_pointer(GLOBAL))
        return builder.select(inside, builder.load(pointer, align=1), constant(type_, 0))

    def store(self, lane: ir.Value, value: ir.Value) -> None:
        """Store what is inside of the matrix."""
        builder = self.builder
        type_ = getattr(value.type, "element", value.type)
        byte = builder.mul(lane, index(self.size))
        for number in range(self.block.height):
            offset, inside = self.offset(byte, index(number))
            one = value if self.block.height == 1 else builder.extract_element(value, constant(I32, number))
            with builder.if_then(inside):
                pointer = builder.inttoptr(builder.add(self.fields[0], offset), type_.as_pointer(GLOBAL))
                builder.store(one, pointer, align=self.size)

    def offset(self, byte: ir.Value, row: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return how many bytes behind the address a place of the block lies, and whether it is in the matrix."""
        builder = self.builder
        _, width, height, pitch, first_column, first_row = self.fields
        x = builder.add(builder.mul(first_column, index(self.block.word_bits // 8)), byte)
        y = builder.add(first_row, row)
        inside = builder.and_(builder.icmp_unsigned("<", x, width), builder.icmp_unsigned("<", y, height))
        return builder.add(builder.mul(y, pitch), x), inside
