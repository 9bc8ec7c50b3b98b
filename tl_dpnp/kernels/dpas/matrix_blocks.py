"""Blocks of cooperative matrices that are held as the sums of DPAS are: a row in each lane, a vector of its columns.

A matrix of one column has blocks of one column, which are scalars.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import EmulatedFragment, Fragment, Part
from tl_dpnp.kernels.dpas.block_messages import Surface
from tl_dpnp.kernels.dpas.block_shapes import Block
from tl_dpnp.kernels.dpas.fragments import Size
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
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.scalars import ScalarType

__all__ = [
    "block_columns", "block_type", "blocks_of", "element_of", "filled_block", "first_factor", "moved_block",
    "store_row", "with_element",
]

#: The registers of a first factor, whatever puts it into them.
_PACKED = Block("transposed", 32, COLUMNS, LANES)


def blocks_of(type: CooperativeMatrixType) -> list[tuple[int, int]]:
    """Return the blocks of a matrix by their rows and columns, column after column."""
    return [(i, j) for j in range(-(-type.columns // COLUMNS)) for i in range(type.rows // LANES)]


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
        low, high = (b.zext(get_lane(b, blocks[block], column), I32) for column in (first, first + 1))
        packed = set_lane(b, packed, b.or_(low, b.shl(high, constant(I32, 16))), number)
    return EmulatedFragment(packed, {}) if emulated else Fragment(packed, _PACKED, 0)


def element_of(b: ir.IRBuilder, component: ScalarType, block: ir.Value, column: int) -> ir.Value:
    """Return the value of the element of a column."""
    element = get_lane(b, block, column) if lanes(block.type) > 1 else block
    return from_storage(b, component, b.bitcast(element, storage_type(component)))


def with_element(b: ir.IRBuilder, component: ScalarType, block: ir.Value, column: int, value: ir.Value) -> ir.Value:
    """Return a block with another value in a column."""
    element = b.bitcast(to_storage(b, component, value), _element_type(component))
    return set_lane(b, block, element, column) if lanes(block.type) > 1 else element


def filled_block(b: ir.IRBuilder, type: CooperativeMatrixType, value: complex) -> ir.Value:
    """Return a block whose elements are a constant."""
    component = type.component
    known = constant(value_type(component), value.real if component.is_float else int(value.real))
    return splat(b, b.bitcast(to_storage(b, component, known), _element_type(component)), block_columns(type))


def store_row(
    b: ir.IRBuilder, surface: Surface, block: ir.Value, place: tuple[ir.Value, ir.Value], checks: tuple[bool, bool]
) -> None:
    """Store a lane's part of a block along a line of a matrix, from a column on, which is not negative.

    Where column and row of the matrix are to be checked, what lies outside of it is left out.
    """
    (column, row), (checks_column, checks_row) = place, checks

    def within(place: ir.Value, size: Size) -> ir.Value:
        return b.icmp_unsigned("<", place, index(size) if isinstance(size, int) else size)

    def store() -> None:
        pitch = index(surface.pitch) if isinstance(surface.pitch, int) else surface.pitch
        element = getattr(block.type, "element", block.type)
        line = b.bitcast(b.gep(surface.pointer, [b.mul(row, pitch)]), element.as_pointer(GLOBAL))
        for number in range(lanes(block.type)):
            value = get_lane(b, block, number) if lanes(block.type) > 1 else block
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
