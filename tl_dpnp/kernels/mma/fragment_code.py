"""Emitters for fragments: what is done with their elements, products, and the other layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.elements import from_storage, to_storage
from tl_dpnp.kernels.llvm import I32, I64, constant, get_lane, set_lane, storage_type, undefined
from tl_dpnp.kernels.mma.emit import word_type
from tl_dpnp.kernels.mma.fragments import ACROSS, Fragment, word_elements
from tl_dpnp.kernels.mma.operands import lane_place, multiply, terms
from tl_dpnp.kernels.mma.rows import MmaRow, Operand
from tl_dpnp.kernels.targets.nvvm import asm
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = ["Registers", "convert_fragment", "copy_fragment", "element_type", "held_type", "map_elements",
           "multiply_fragments", "place_of", "synchronize"]

_ALL = "0xffffffff"


@dataclass
class Registers:
    """The registers of the fragments of a function: a vector for each block, as a lane has that in memory.

    They are variables in memory until LLVM's first passes.  Elements below 32 bits are held as words of them, halves
    are integers where they stand alone, as libNVVM needs them.
    """

    variables: dict[tuple[ir.Function, str, int, int], ir.AllocaInstr] = field(default_factory=dict)

    def variable(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int]) -> ir.AllocaInstr:
        """Return the variable of a block."""
        key = b.function, fragment.name, *block
        if key not in self.variables:
            with b.goto_entry_block():
                self.variables[key] = b.alloca(held_type(fragment))
        return self.variables[key]

    def get(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int]) -> ir.Value:
        """Return the elements of a block as they are held."""
        return b.load(self.variable(b, fragment, block))

    def put(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], held: ir.Value) -> None:
        """Set the elements of a block."""
        b.store(held, self.variable(b, fragment, block))

    def get_raw(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], part: int) -> ir.Value:
        """Return an element as it is in memory."""
        return get_lane(b, b.bitcast(self.get(b, fragment, block), _elements_type(fragment)), part)

    def put_raw(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], part: int, raw: ir.Value) -> None:
        """Set an element as it is in memory."""
        elements = b.bitcast(self.get(b, fragment, block), _elements_type(fragment))
        self.put(b, fragment, block, b.bitcast(set_lane(b, elements, raw, part), held_type(fragment)))

    def value(self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], part: int) -> ir.Value:
        """Return an element as a value."""
        raw = self.get_raw(b, fragment, block, part)
        return from_storage(b, fragment.element, b.bitcast(raw, storage_type(fragment.element)))

    def set_value(
        self, b: ir.IRBuilder, fragment: Fragment, block: tuple[int, int], part: int, value: ir.Value
    ) -> None:
        """Set an element to a value."""
        raw = b.bitcast(to_storage(b, fragment.element, value), element_type(fragment.element))
        self.put_raw(b, fragment, block, part, raw)


def element_type(element: ScalarType) -> ir.Type:
    """Return the LLVM type of a single element as it is in memory."""
    type_ = storage_type(element)
    return ir.IntType(16) if isinstance(type_, ir.HalfType) else type_


def _elements_type(fragment: Fragment) -> ir.Type:
    return ir.VectorType(element_type(fragment.element), fragment.layout.run)


def held_type(fragment: Fragment) -> ir.Type:
    """Return the LLVM type of what a lane has of a block."""
    bits = fragment.element.bits * fragment.layout.run
    if fragment.element.bits >= 32:
        return _elements_type(fragment)
    return ir.VectorType(I32, bits // 32) if bits > 32 else ir.IntType(bits)


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
        for part in range(target.layout.run):
            values = [registers.value(b, source, block, part) for source in sources]
            registers.set_value(b, target, block, part, function(values))


def place_of(b: ir.IRBuilder, fragment: Fragment, axis: int, block: int, part: int) -> ir.Value:
    """Return the row (axis 0) or the column of a lane's element, as i32."""
    g, t = (b.trunc(place, I32) for place in lane_place(b))
    layout = fragment.layout
    inside = b.add(b.mul(t, constant(I32, layout.run)), constant(I32, part)) if axis == layout.axis else g
    return b.add(inside, constant(I32, layout.block[axis] * block))


def synchronize(b: ir.IRBuilder) -> None:
    """Wait for the other lanes; what they did to memory is seen behind it."""
    asm(b, f"bar.warp.sync {_ALL};", "~{memory}", ir.VoidType(), [])


# --- the other layout ------------------------------------------------------------------------------------------------


def convert_fragment(b: ir.IRBuilder, registers: Registers, source: Fragment, target: Fragment) -> None:
    """Set a fragment to one that is held the other way round, both in runs of two.

    Source: PTX ISA 9.0, sections 9.7.14.5.17 (movmatrix) and 9.7.9.6 (shfl.sync).
    """
    for block in source.blocks:
        pair = registers.get(b, source, block)
        if source.element.bits == 16:
            text = "movmatrix.sync.aligned.m8n8.trans.b16 $0, $1;"
            registers.put(b, target, block, asm(b, text, "=r,r", I32, [pair]))
        else:
            registers.put(b, target, block, _turned(b, pair, _elements_type(source)))


def _turned(b: ir.IRBuilder, pair: ir.Value, elements: ir.VectorType) -> ir.Value:
    """Return a lane's pair of a block that is held the other way round."""
    g, t = (b.trunc(place, I32) for place in lane_place(b))
    is_second = b.icmp_unsigned("!=", b.and_(g, constant(I32, 1)), constant(I32, 0))
    result = undefined(elements)
    for part in (0, 1):
        # Row 2 t + part of the block is held by lanes with that g; column g by those with half of it as t.
        row = b.add(b.shl(t, constant(I32, 1)), constant(I32, part))
        source = b.add(b.shl(row, constant(I32, 2)), b.lshr(g, constant(I32, 1)))
        there = b.bitcast(_shuffled(b, pair, source), elements)
        result = set_lane(b, result, b.select(is_second, get_lane(b, there, 1), get_lane(b, there, 0)), part)
    return b.bitcast(result, pair.type)


def _shuffled(b: ir.IRBuilder, held: ir.Value, lane: ir.Value) -> ir.Value:
    """Return what another lane has."""
    if isinstance(held.type, ir.IntType):
        return b.trunc(_shuffled_word(b, b.zext(held, I32), lane), held.type)
    words = ir.VectorType(I32, held.type.count * (2 if held.type.element in (ir.DoubleType(), I64) else 1))
    given, result = b.bitcast(held, words), undefined(words)
    for number in range(words.count):
        result = set_lane(b, result, _shuffled_word(b, get_lane(b, given, number), lane), number)
    return b.bitcast(result, held.type)


def _shuffled_word(b: ir.IRBuilder, word: ir.Value, lane: ir.Value) -> ir.Value:
    return asm(b, f"shfl.sync.idx.b32 $0, $1, $2, 0x1f, {_ALL};", "=r,r,r", I32, [word, lane])


# --- products --------------------------------------------------------------------------------------------------------


class _Product(NamedTuple):
    """Words of the operands of a form; f32 as one or two tf32 where `is_split`."""

    b: ir.IRBuilder
    registers: Registers
    row: MmaRow
    is_split: bool

    def factor(
        self, fragment: Fragment, operand: Operand, word: int, first: tuple[int, int], step: int
    ) -> list[ir.Value]:
        """Return the terms of a word of A or B from a block on; zeros where the fragment has no such block."""
        b, run, bits = self.b, fragment.layout.run, fragment.element.bits
        places = [((first[0] + i, first[1] + j), part)
                  for i, j, part in word_elements(self.row, operand, word, run, step)]
        type_ = word_type(self.row, operand)
        (block, part), (last, _) = places[0], places[-1]
        if block[0] >= fragment.grid[0]:
            return [constant(type_, 0)] * (1 + self.is_split)
        if len(places) == 1:
            return terms(b, self.row, self.registers.get_raw(b, fragment, block, part), self.is_split)
        if block == last:
            held = self.registers.get(b, fragment, block)
            return [held if held.type == I32 else get_lane(b, held, part * bits // 32)]
        packed = undefined(ir.VectorType(element_type(fragment.element), len(places)))
        for number, (block, part) in enumerate(places):
            packed = set_lane(b, packed, self.registers.get_raw(b, fragment, block, part), number)
        return [b.bitcast(packed, type_)]


def multiply_fragments(
    b: ir.IRBuilder, registers: Registers, row: MmaRow, is_split: bool, kept: ScalarType,
    factors: tuple[Fragment, Fragment], added: Fragment, target: Fragment,
) -> None:
    """Set a fragment to A B + C, summed up in the type `kept` from the sums of C on."""
    left, right = factors
    product = _Product(b, registers, row, is_split)
    down, columns = row.m // ACROSS, range(target.grid[1])
    tiles = range(-(-target.rows // row.m))
    sums = {(i, j): [_converted(b, registers, added, kept, (i * down + half, j), part)
                     for word in range(row.words("c")) for half, _, part in word_elements(row, "c", word)]
            for i in tiles for j in columns}
    for step in range(left.columns // row.k):
        a = [[product.factor(left, "a", word, (i * down, 0), step) for word in range(row.words("a"))] for i in tiles]
        for j in columns:
            other = [product.factor(right, "b", word, (0, j), step) for word in range(row.words("b"))]
            for i in tiles:
                sums[i, j] = multiply(b, row, a[i], other, sums[i, j], is_split)
    for (i, j), words in sums.items():
        for word, total in enumerate(words):
            ((half, _, part),) = word_elements(row, "d", word)
            if i * down + half < target.grid[0]:
                value = scalar_ops.convert(b, kept, target.element, total)
                registers.set_value(b, target, (i * down + half, j), part, value)


def _converted(
    b: ir.IRBuilder, registers: Registers, added: Fragment, kept: ScalarType, block: tuple[int, int], part: int
) -> ir.Value:
    """Return an element of the sums before, zero where there is none."""
    if block[0] >= added.grid[0]:
        return constant(storage_type(kept), 0)
    return scalar_ops.convert(b, added.element, kept, registers.value(b, added, block, part))
