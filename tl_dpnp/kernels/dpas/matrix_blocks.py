"""Blocks of cooperative matrices that are held as the sums of DPAS are: a row in each lane, a vector of its columns."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import EmulatedFragment, Fragment, Part
from tl_dpnp.kernels.dpas.block_shapes import Block
from tl_dpnp.kernels.dpas.sums import COLUMNS, LANES
from tl_dpnp.kernels.elements import from_storage, to_storage
from tl_dpnp.kernels.llvm import I32, constant, get_lane, set_lane, splat, storage_type, undefined, value_type
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.scalars import ScalarType

__all__ = ["block_type", "blocks_of", "element_of", "filled_block", "first_factor", "moved_block", "with_element"]

#: The registers of a first factor, whatever puts it into them.
_PACKED = Block("transposed", 32, COLUMNS, LANES)


def blocks_of(type: CooperativeMatrixType) -> list[tuple[int, int]]:
    """Return the blocks of a matrix by their rows and columns, column after column."""
    return [(i, j) for j in range(type.columns // COLUMNS) for i in range(type.rows // LANES)]


def block_type(component: ScalarType) -> ir.VectorType:
    """Return the LLVM type of a lane's part of a block, where halves are integers."""
    type_ = storage_type(component)
    return ir.VectorType(ir.IntType(component.bits) if isinstance(type_, ir.HalfType) else type_, COLUMNS)


def moved_block(component: ScalarType) -> Block:
    """Return what a message moves for a block."""
    return Block("plain", component.bits, LANES, COLUMNS)


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
    return from_storage(b, component, b.bitcast(get_lane(b, block, column), storage_type(component)))


def with_element(b: ir.IRBuilder, component: ScalarType, block: ir.Value, column: int, value: ir.Value) -> ir.Value:
    """Return a block with another value in a column."""
    return set_lane(b, block, b.bitcast(to_storage(b, component, value), block.type.element), column)


def filled_block(b: ir.IRBuilder, component: ScalarType, value: complex) -> ir.Value:
    """Return a block whose elements are a constant."""
    known = constant(value_type(component), value.real if component.is_float else int(value.real))
    return splat(b, b.bitcast(to_storage(b, component, known), block_type(component).element), COLUMNS)
