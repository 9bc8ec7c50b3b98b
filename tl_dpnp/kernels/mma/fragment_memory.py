"""Loads and stores of fragments, straight between memory and the registers of lanes.

Where the two elements that a lane has of a block are neighbours in memory, they are accessed as one.  Elements of 16
bits whose neighbours are those of the other layout are accessed by that, and turned in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from llvmlite import ir

from tl_dpnp.kernels.llvm import I64, constant, get_lane, index, set_lane
from tl_dpnp.kernels.mma.fragment_code import Registers, turned
from tl_dpnp.kernels.mma.fragments import BLOCK, Fragment
from tl_dpnp.kernels.mma.operands import lane_place

__all__ = ["MatrixPart", "load_fragment", "store_fragment"]

_Block = tuple[int, int]


@dataclass(frozen=True)
class MatrixPart:
    """A part of a matrix in memory as a fragment has it: strides along its rows and columns, in elements.

    `pointer` points to its first element.  `bounds` are, along each, the index of the first element in the matrix and
    the size of that where what lies outside is left out, else None.
    """

    pointer: ir.Value
    strides: tuple[ir.Value, ir.Value]
    bounds: tuple[tuple[ir.Value, ir.Value] | None, tuple[ir.Value, ir.Value] | None] = (None, None)


def load_fragment(b: ir.IRBuilder, registers: Registers, fragment: Fragment, part: MatrixPart) -> None:
    """Load a fragment; elements outside of the matrix, where that is checked, are 0."""
    held = _as_accessed(fragment, part)

    def pairs(access: _Access, block: _Block) -> None:
        registers.put(b, held, block, b.load(access.pointer(block, 0, True), align=access.pair_bytes))

    def elements(access: _Access, block: _Block) -> None:
        type_ = registers.variable(b, held, block).type.pointee
        registers.put(b, held, block, constant(type_, 0))
        for place in (0, 1):
            with access.where_inside(block, place):
                value = b.load(access.pointer(block, place), align=access.pair_bytes // 2)
                registers.put(b, held, block, set_lane(b, registers.get(b, held, block), value, place))

    _by_paths(b, held, part, pairs, elements)
    if held != fragment:
        for block in held.blocks:
            registers.put(b, fragment, block, turned(b, registers.get(b, held, block)))


def store_fragment(b: ir.IRBuilder, registers: Registers, fragment: Fragment, part: MatrixPart) -> None:
    """Store a fragment, without elements outside of the matrix where that is checked."""
    held = _as_accessed(fragment, part)
    if held != fragment:
        for block in held.blocks:
            registers.put(b, held, block, turned(b, registers.get(b, fragment, block)))

    def pairs(access: _Access, block: _Block) -> None:
        b.store(registers.get(b, held, block), access.pointer(block, 0, True), align=access.pair_bytes)

    def elements(access: _Access, block: _Block) -> None:
        for place in (0, 1):
            with access.where_inside(block, place):
                value = get_lane(b, registers.get(b, held, block), place)
                b.store(value, access.pointer(block, place), align=access.pair_bytes // 2)

    _by_paths(b, held, part, pairs, elements)


def _is_one(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.constant == 1


def _as_accessed(fragment: Fragment, part: MatrixPart) -> Fragment:
    """Return the fragment in the layout in which lanes access memory."""
    along, across = part.strides if fragment.by_columns else part.strides[::-1]
    if fragment.element.bits == 16 and _is_one(across) and not _is_one(along):
        return replace(fragment, name=f"{fragment.name}_turned", by_columns=not fragment.by_columns)
    return fragment


@dataclass(frozen=True)
class _Access:
    """Where a lane's elements are; `is_checked` says that each is looked at whether it is inside."""

    b: ir.IRBuilder
    fragment: Fragment
    part: MatrixPart
    first: ir.Value
    lane: tuple[ir.Value, ir.Value]
    is_checked: bool

    @property
    def pair_bytes(self) -> int:
        """Bytes of a pair."""
        return self.fragment.element.bytes * 2

    def pointer(self, block: _Block, place: int, is_pair: bool = False) -> ir.Value:
        """Return a pointer to an element, or a pair of them."""
        b, strides = self.b, self.part.strides
        offsets = [b.mul(stride, index(BLOCK * number)) for stride, number in zip(strides, block, strict=True)]
        offset = b.add(*offsets)
        if place:
            offset = b.add(offset, strides[0 if self.fragment.by_columns else 1])
        pointer = b.gep(self.first, [offset])
        type_ = ir.VectorType(pointer.type.pointee, 2) if is_pair else pointer.type.pointee
        return b.bitcast(pointer, type_.as_pointer(pointer.type.addrspace))

    def where_inside(self, block: _Block, place: int) -> _Guard | nullcontext[None]:
        """Return a context for what is done where an element is inside of the matrix."""
        condition = None
        for axis, bounds in enumerate(self.part.bounds if self.is_checked else ()):
            if bounds is None:
                continue
            first, size = bounds
            runs = axis == (0 if self.fragment.by_columns else 1)
            inside = self.b.add(self.lane[axis], index(BLOCK * block[axis] + (place if runs else 0)))
            fits = self.b.icmp_unsigned("<", self.b.add(first, inside), size)
            condition = fits if condition is None else self.b.and_(condition, fits)
        return nullcontext() if condition is None else _Guard(self.b, condition)


class _Guard:
    """A context for code that runs where a condition holds."""

    def __init__(self, b: ir.IRBuilder, condition: ir.Value) -> None:
        self.b, self.condition = b, condition

    def __enter__(self) -> None:
        inside, self.after = (self.b.append_basic_block(name) for name in ("inside", "after"))
        self.b.cbranch(self.condition, inside, self.after)
        self.b.position_at_end(inside)

    def __exit__(self, *_: object) -> None:
        self.b.branch(self.after)
        self.b.position_at_end(self.after)


def _by_paths(
    b: ir.IRBuilder, fragment: Fragment, part: MatrixPart, pairs: Callable[[_Access, _Block], None],
    elements: Callable[[_Access, _Block], None],
) -> None:
    """Emit the access to all blocks: as pairs where that can be, and with checks only where the part sticks out."""
    g, t = lane_place(b)
    lane = (b.shl(t, index(1)), g) if fragment.by_columns else (g, b.shl(t, index(1)))
    offsets = [b.mul(place, stride) for place, stride in zip(lane, part.strides, strict=True)]
    access = _Access(b, fragment, part, b.gep(part.pointer, [b.add(*offsets)]), lane, False)

    def every(one: Callable[[_Access, _Block], None], access: _Access = access) -> None:
        for block in fragment.blocks:
            one(access, block)

    def whole() -> None:
        along, across = part.strides if fragment.by_columns else part.strides[::-1]
        if not _is_one(along):
            every(elements)
            return
        # All lanes take one path: whether they may depends on what is the same for all.
        size = fragment.element.bytes
        bits = b.or_(b.ptrtoint(part.pointer, I64), b.mul(across, index(size)))
        odd = b.and_(bits, index(2 * size - 1))
        with b.if_else(b.icmp_unsigned("==", odd, index(0))) as (then, otherwise):
            with then:
                every(pairs)
            with otherwise:
                every(elements)

    inside = None
    for bounds, extent in zip(part.bounds, (fragment.rows, fragment.columns), strict=True):
        if bounds is not None:
            first, size = bounds
            last = b.add(first, index(extent))
            fits = b.and_(b.icmp_signed(">=", first, index(0)), b.icmp_signed("<=", last, size))
            inside = fits if inside is None else b.and_(inside, fits)
    if inside is None:
        whole()
        return
    with b.if_else(inside) as (then, otherwise):
        with then:
            whole()
        with otherwise:
            every(elements, replace(access, is_checked=True))
