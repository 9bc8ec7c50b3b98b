"""Blocks of cooperative matrices that are held as the sums of DPAS are: a row in each lane, a vector of its columns.

A matrix of one column has blocks of one column, which are scalars; one of one row has that in each lane.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import EmulatedFragment, Fragment, Part, aliases
from tl_dpnp.kernels.dpas.block_messages import Surface, inline_assembly
from tl_dpnp.kernels.dpas.block_shapes import Block
from tl_dpnp.kernels.dpas.fragments import Size, rounded_to_bf16
from tl_dpnp.kernels.dpas.sums import COLUMNS, LANES
from tl_dpnp.kernels.elements import from_storage, to_storage
from tl_dpnp.kernels.llvm import (
    GLOBAL,
    I32,
    constant,
    get_lane,
    if_then,
    index,
    lanes,
    set_lane,
    splat,
    storage_type,
    undefined,
    value_type,
    vector_of,
)
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.scalars import BF16, ScalarType

__all__ = [
    "block_columns", "block_type", "blocks_of", "element_of", "elements_of", "filled_block", "first_factor",
    "first_factor_of_sums", "hidden", "moved_block", "second_factor", "second_factor_of_sums", "store_row",
    "with_element",
]

#: The registers of a first factor, whatever puts it into them.
_PACKED = Block("transposed", 32, COLUMNS, LANES)
#: Those of a second factor.
_ORDERED = Block("ordered", 16, COLUMNS, LANES)


def blocks_of(type: CooperativeMatrixType) -> list[tuple[int, int]]:
    """Return the blocks of a matrix by their rows and columns, column after column."""
    return [(i, j) for j in range(-(-type.columns // COLUMNS)) for i in range(-(-type.rows // LANES))]


def block_columns(type: CooperativeMatrixType) -> int:
    """Return how many columns a block of a matrix has."""
    return min(type.columns, COLUMNS)


def block_type(type: CooperativeMatrixType) -> ir.Type:
    """Return the LLVM type of a lane's part of a block, where halves are integers."""
    return vector_of(_element_type(type.component), block_columns(type))


def _element_type(component: ScalarType) -> ir.Type:
    type_ = storage_type(component)
    return ir.IntType(component.bits) if isinstance(type_, ir.HalfType) else type_


def moved_block(type: CooperativeMatrixType, rows_follow: bool = True) -> Block:
    """Return what a message moves for a block; words whose columns follow one another are transposed."""
    if rows_follow:
        return Block("plain", type.component.bits, LANES, block_columns(type))
    return Block("transposed", type.component.bits, block_columns(type), LANES)


def first_factor(b: ir.IRBuilder, blocks: Sequence[ir.Value], emulated: bool) -> Part:
    """Return two blocks of 16-bit elements next to one another as DPAS takes a first factor: by pairs of columns."""
    word = ir.VectorType(I32, COLUMNS)
    packed = undefined(word)
    for number in range(COLUMNS):
        block, first = divmod(2 * number, COLUMNS)
        pair = undefined(ir.VectorType(ir.IntType(16), 2))
        for place in range(2):
            pair = set_lane(b, pair, get_lane(b, blocks[block], first + place), place)
        packed = set_lane(b, packed, b.bitcast(pair, I32), number)
    return EmulatedFragment(packed, {}) if emulated else Fragment(packed, _PACKED.size, 0)


def first_factor_of_sums(b: ir.IRBuilder, blocks: Sequence[ir.Value], component: ScalarType) -> Part:
    """Return the same of two blocks of f32, which are rounded on the way; not where messages are emulated."""
    (name,), lines = aliases(b, {0: _PACKED.size}, {"bf16": "bf", "f16": "hf"}[component.name], component.bits)
    for number in range(2 * COLUMNS):
        (block, column), (word, part) = divmod(number, COLUMNS), divmod(number, 2)
        lines.append(f"mov (M1,{LANES}) {name}({word},{part})<2> ${1 + block}({column},0)<1;1,0>")
    return Fragment(inline_assembly(b, ir.VectorType(I32, COLUMNS), lines, "=rw,rw,rw", blocks), _PACKED.size, 0)


def second_factor(b: ir.IRBuilder, block: ir.Value, emulated: bool) -> Part:
    """Return a block of 16-bit elements as DPAS takes a second factor: column after column, of 16 lanes each."""
    if emulated:
        return EmulatedFragment(block, {})
    return _ordered(b, block, "uw", "uw")


def second_factor_of_sums(b: ir.IRBuilder, block: ir.Value, component: ScalarType) -> Part:
    """Return the same of a block of f32, which is rounded on the way; not where messages are emulated."""
    return _ordered(b, block, {"bf16": "bf", "f16": "hf"}[component.name], "")


def _ordered(b: ir.IRBuilder, block: ir.Value, to: str, source: str) -> Fragment:
    """Return the registers of a second factor, whose columns are set to those of a block."""
    (name,), lines = aliases(b, {0: _ORDERED.size}, to, 16)
    if source:  # else elements are as wide as registers are counted in
        (source_name,), more = aliases(b, {1: _ORDERED.size}, source, 16)
        lines += more
    for column in range(COLUMNS):
        register, half = divmod(column, 2)
        place = f"{source_name}({register},{half * LANES})" if source else f"$1({column},0)"
        lines.append(f"mov (M1,{LANES}) {name}({register},{half * LANES})<1> {place}<1;1,0>")
    found = inline_assembly(b, ir.VectorType(I32, COLUMNS // 2), lines, "=rw,rw", [block])
    return Fragment(found, _ORDERED.size, 0)


def hidden(b: ir.IRBuilder, part: Part) -> Part:
    """Return a fragment of which the compiler does not know that it is constant: else each use fills registers."""
    if isinstance(part, EmulatedFragment):
        return part
    # The lane is an input so that registers are not taken for the same in all lanes.
    lane = b.trunc(target_of(b).item_index(b, 0), I32)
    lines = [f"mov (M1,{LANES}) $0({number},0)<1> $1({number},0)<1;1,0>" for number in range(lanes(part.loaded.type))]
    loaded = inline_assembly(b, part.loaded.type, lines, "=rw,rw,rw", [part.loaded, lane])
    return Fragment(loaded, part.size, part.offset)


def elements_of(b: ir.IRBuilder, block: ir.Value) -> list[ir.Value]:
    """Return a lane's elements of a block as they are in memory."""
    count = lanes(block.type)
    return [get_lane(b, block, number) if count > 1 else block for number in range(count)]


def element_of(b: ir.IRBuilder, component: ScalarType, block: ir.Value, column: int) -> ir.Value:
    """Return the value of the element of a column."""
    element = get_lane(b, block, column) if lanes(block.type) > 1 else block
    return from_storage(b, component, b.bitcast(element, storage_type(component)))


def with_element(
    b: ir.IRBuilder, component: ScalarType, block: ir.Value, column: int, value: ir.Value, emulated: bool
) -> ir.Value:
    """Return a block with another value in a column, which is rounded to bf16 here if that is the component."""
    stored = rounded_to_bf16(b, value, emulated) if component == BF16 else to_storage(b, component, value)
    element = b.bitcast(stored, _element_type(component))
    return set_lane(b, block, element, column) if lanes(block.type) > 1 else element


def filled_block(b: ir.IRBuilder, type: CooperativeMatrixType, value: complex) -> ir.Value:
    """Return a block whose elements are a constant."""
    component = type.component
    known = constant(value_type(component), value.real if component.is_float else int(value.real))
    return splat(b, b.bitcast(to_storage(b, component, known), _element_type(component)), block_columns(type))


def store_row(
    b: ir.IRBuilder, surface: Surface, elements: Sequence[ir.Value], place: tuple[ir.Value, ir.Value],
    checks: tuple[bool, bool],
) -> None:
    """Store a lane's elements along a line of a matrix, from a column on, which is not negative.

    Where column and row of the matrix are to be checked, what lies outside of it is left out.
    """
    (column, row), (checks_column, checks_row) = place, checks

    def within(place: ir.Value, size: Size) -> ir.Value:
        return b.icmp_unsigned("<", place, index(size) if isinstance(size, int) else size)

    def store() -> None:
        pitch = index(surface.pitch) if isinstance(surface.pitch, int) else surface.pitch
        line = b.bitcast(b.gep(surface.pointer, [b.mul(row, pitch)]), elements[0].type.as_pointer(GLOBAL))
        for number, value in enumerate(elements):
            own = b.add(column, index(number))

            def store_one(value: ir.Value = value, own: ir.Value = own) -> None:
                b.store(value, b.gep(line, [own]), align=surface.bits // 8)

            if checks_column:
                if_then(b, within(own, surface.width), store_one)
            else:
                store_one()

    if checks_row:
        if_then(b, within(row, surface.height), store)
    else:
        store()
