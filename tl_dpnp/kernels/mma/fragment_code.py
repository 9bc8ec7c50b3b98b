"""Emitters for fragments: what is done with their elements, products, and the other layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.elements import from_storage, to_storage
from tl_dpnp.kernels.llvm import I32, constant, get_lane, set_lane, storage_type, undefined
from tl_dpnp.kernels.mma.emit import word_type
from tl_dpnp.kernels.mma.fragments import BLOCK, Fragment, word_elements
from tl_dpnp.kernels.mma.operands import lane_place, multiply, terms
from tl_dpnp.kernels.mma.rows import MmaRow, Operand
from tl_dpnp.kernels.targets.nvvm import asm
from tl_dpnp.scalars import ScalarType

__all__ = ["Registers", "convert_fragment", "copy_fragment", "element_type", "map_elements", "multiply_fragments", "place_of",
           "synchronize", "turned"]

_I16 = ir.IntType(16)
_ALL = "0xffffffff"


@dataclass
class Registers:
    """The registers of the fragments of a function: a pair of elements, as they are in memory, for each block.

    They are variables in memory until LLVM's first passes.  Halves are integers of 16 bits, as libNVVM needs them.
    """

    variables: dict[tuple[ir.Function, str, int, int], ir.AllocaInstr] = field(default_factory=dict)

    def variable(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int]) -> ir.AllocaInstr:
        """Return the variable of a block."""
        key = b.function, fragment.name, *block
        if key not in self.variables:
            with b.goto_entry_block():
                self.variables[key] = b.alloca(ir.VectorType(element_type(fragment.element), 2))
        return self.variables[key]

    def get(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int]) -> ir.Value:
        """Return the pair of a block, as it is in memory."""
        return b.load(self.variable(b, fragment, block))

    def put(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], pair: ir.Value) -> None:
        """Set the pair of a block."""
        b.store(pair, self.variable(b, fragment, block))

    def value(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], part: int) -> ir.Value:
        """Return an element as a value."""
        return value_of(b, fragment.element, get_lane(b, self.get(b, fragment, block), part))

    def set_value(
        self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], part: int, value: ir.Value
    ) -> None:
        """Set an element."""
        raw = raw_of(b, fragment.element, value)
        self.put(b, fragment, block, set_lane(b, self.get(b, fragment, block), raw, part))


def element_type(element: ScalarType) -> ir.Type:
    """Return the LLVM type of an element of a pair."""
    type_ = storage_type(element)
    return _I16 if isinstance(type_, ir.HalfType) else type_


def value_of(b: ir.IRBuilder, element: ScalarType, raw: ir.Value) -> ir.Value:
    """Return an element of a pair as a value."""
    return from_storage(b, element, b.bitcast(raw, storage_type(element)))


def raw_of(b: ir.IRBuilder, element: ScalarType, value: ir.Value) -> ir.Value:
    """Return a value as an element of a pair."""
    return b.bitcast(to_storage(b, element, value), element_type(element))


def copy_fragment(b: ir.IRBuilder, registers: Registers, source: Fragment, target: Fragment) -> None:
    """Set a fragment to another one of its layout."""
    for block in source.blocks:
        registers.put(b, target, block, registers.get(b, source, block))


def map_elements(
    b: ir.IRBuilder, registers: Registers, sources: Sequence[Fragment], target: Fragment,
    function: Callable[[list[ir.Value]], ir.Value],
) -> None:
    """Set each element of a fragment to a function of those of others at its place."""
    for block in target.blocks:
        for part in (0, 1):
            values = [registers.value(b, source, block, part) for source in sources]
            registers.set_value(b, target, block, part, function(values))


def place_of(b: ir.IRBuilder, fragment: Fragment, axis: int, block: int, part: int) -> ir.Value:
    """Return the row (axis 0) or the column of a lane's element, as i32."""
    g, t = (b.trunc(place, I32) for place in lane_place(b))
    runs = axis == (0 if fragment.by_columns else 1)
    inside = b.add(b.shl(t, constant(I32, 1)), constant(I32, part)) if runs else g
    return b.add(inside, constant(I32, BLOCK * block))


def synchronize(b: ir.IRBuilder) -> None:
    """Wait for the other lanes; what they did to memory is seen behind it."""
    asm(b, f"bar.warp.sync {_ALL};", "~{memory}", ir.VoidType(), [])


# --- the other layout ------------------------------------------------------------------------------------------------


def turned(b: ir.IRBuilder, pair: ir.Value) -> ir.Value:
    """Return a lane's pair of a block in the other layout.

    Source: PTX ISA 9.0, sections 9.7.14.5.17 (movmatrix) and 9.7.9.6 (shfl.sync).
    """
    element = pair.type.element
    bits = 64 if isinstance(element, ir.DoubleType) else 32 if isinstance(element, ir.FloatType) else element.width
    if bits == 16:
        text = "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"
        word = asm(b, text, "=r,r", I32, [b.bitcast(pair, I32)])
        return b.bitcast(word, pair.type)
    g, t = (b.trunc(place, I32) for place in lane_place(b))
    is_second = b.icmp_unsigned("!=", b.and_(g, constant(I32, 1)), constant(I32, 0))
    result = undefined(pair.type)
    for part in (0, 1):
        # Row 2 t + part of the block is held by lanes with that g; column g by those with half of it as t.
        row = b.add(b.shl(t, constant(I32, 1)), constant(I32, part))
        source = b.add(b.shl(row, constant(I32, 2)), b.lshr(g, constant(I32, 1)))
        there = _shuffled(b, pair, bits, source)
        result = set_lane(b, result, b.select(is_second, get_lane(b, there, 1), get_lane(b, there, 0)), part)
    return result


def _shuffled(b: ir.IRBuilder, pair: ir.Value, bits: int, lane: ir.Value) -> ir.Value:
    """Return the pair of another lane."""
    if 2 * bits < 32:
        packed = ir.IntType(2 * bits)
        word = _shuffled_word(b, b.zext(b.bitcast(pair, packed), I32), lane)
        return b.bitcast(b.trunc(word, packed), pair.type)
    words = ir.VectorType(I32, 2 * bits // 32)
    given, result = b.bitcast(pair, words), undefined(words)
    for number in range(words.count):
        result = set_lane(b, result, _shuffled_word(b, get_lane(b, given, number), lane), number)
    return b.bitcast(result, pair.type)


def _shuffled_word(b: ir.IRBuilder, word: ir.Value, lane: ir.Value) -> ir.Value:
    return asm(b, f"shfl.sync.idx.b32 $0, $1, $2, 0x1f, {_ALL};", "=r,r,r", I32, [word, lane])


def convert_fragment(b: ir.IRBuilder, registers: Registers, source: Fragment, target: Fragment) -> None:
    """Set a fragment to one of the other layout."""
    for block in source.blocks:
        registers.put(b, target, block, turned(b, registers.get(b, source, block)))


# --- products --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Product:
    """Words of the operands of a form; f32 as one or two tf32 where `is_split`."""

    b: ir.IRBuilder
    registers: Registers
    row: MmaRow
    is_split: bool

    def factor(
        self, fragment: Fragment, operand: Operand, word: int, first: tuple[int, int], step: int
    ) -> list[ir.Value]:
        """Return the terms of a word of A or B from a block on; zeros where the fragment has no such block."""
        places = [(first[0] + i, first[1] + j, part) for i, j, part in word_elements(self.row, operand, word, step)]
        type_ = word_type(self.row, operand)
        if places[0][0] >= fragment.rows // BLOCK:
            return [constant(type_, 0)] * (1 + self.is_split)
        parts = [get_lane(self.b, self.registers.get(self.b, fragment, (i, j)), part) for i, j, part in places]
        if len(parts) == 1:
            return terms(self.b, self.row, parts[0], self.is_split)
        packed = undefined(ir.VectorType(parts[0].type, len(parts)))
        for number, part in enumerate(parts):
            packed = set_lane(self.b, packed, part, number)
        return [self.b.bitcast(packed, type_)]


def multiply_fragments(
    b: ir.IRBuilder, registers: Registers, row: MmaRow, is_split: bool, kept: ScalarType,
    factors: tuple[Fragment, Fragment], added: Fragment, target: Fragment,
) -> None:
    """Set a fragment to A B + C, summed up in the type `kept` from the sums of C on."""
    left, right = factors
    product = _Product(b, registers, row, is_split)
    tiles = range(0, -(-target.rows // row.m))
    down = row.m // BLOCK
    sums: dict[tuple[int, int], list[ir.Value]] = {}
    for i in tiles:
        for j in range(target.columns // BLOCK):
            sums[i, j] = [_converted(b, registers, added, kept, (i * down + half, j), part)
                          for word in range(row.words("c")) for half, _, part in word_elements(row, "c", word)]
    steps = left.columns // row.k
    for step in range(steps):
        a = [[product.factor(left, "a", word, (i * down, 0), step) for word in range(row.words("a"))] for i in tiles]
        for j in range(target.columns // BLOCK):
            other = [product.factor(right, "b", word, (0, j), step) for word in range(row.words("b"))]
            for i in tiles:
                sums[i, j] = multiply(b, row, a[i], other, sums[i, j], is_split)
    for (i, j), words in sums.items():
        for word, total in enumerate(words):
            ((half, _, part),) = word_elements(row, "d", word)
            if i * down + half < target.rows // BLOCK:
                value = scalar_ops.convert(b, kept, target.element, total)
                registers.set_value(b, target, (i * down + half, j), part, value)


def _converted(
    b: ir.IRBuilder, registers: Registers, added: Fragment, kept: ScalarType, block: tuple[int, int], part: int
) -> ir.Value:
    """Return an element of the sums before, zero where there is none."""
    if block[0] >= added.rows // BLOCK:
        return constant(storage_type(kept), 0)
    return scalar_ops.convert(b, added.element, kept, registers.value(b, added, block, part))
