"""Loads and stores of fragments, straight between memory and the registers of lanes.

Where the elements that a lane has of a block are neighbours in memory, they are accessed as one.  Elements of 16 bits
that are neighbours the other way round are accessed so, and turned in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import I64, constant, index
from tl_dpnp.kernels.mma.fragment_code import Registers, convert_fragment, held_type
from tl_dpnp.kernels.mma.fragments import Fragment, Layout
from tl_dpnp.kernels.mma.operands import lane_place
from tl_dpnp.kernels.targets.nvvm import load_where

__all__ = ["MatrixPart", "load_fragment", "store_fragment"]

_Block = tuple[int, int]


class MatrixPart(NamedTuple):
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

    def runs(access: _Access, block: _Block) -> None:
        pointer, condition = access.run_pointer(block), access.inside(block, 0)
        value = b.load(pointer, align=access.run_bytes) if condition is None else load_where(b, condition, pointer)
        registers.put(b, held, block, value)

    def elements(access: _Access, block: _Block) -> None:
        registers.put(b, held, block, constant(held_type(held), 0))
        for place in range(held.layout.run):
            with access.where_inside(block, place):
                value = b.load(access.pointer(block, place), align=held.element.bytes)
                registers.put_raw(b, held, block, place, value)

    _by_paths(b, held, part, runs, elements)
    if held != fragment:
        convert_fragment(b, registers, held, fragment)


def store_fragment(b: ir.IRBuilder, registers: Registers, fragment: Fragment, part: MatrixPart) -> None:
    """Store a fragment, without elements outside of the matrix where that is checked."""
    held = _as_accessed(fragment, part)
    if held != fragment:
        convert_fragment(b, registers, fragment, held)

    def runs(access: _Access, block: _Block) -> None:
        with access.where_inside(block, 0):
            b.store(registers.get(b, held, block), access.run_pointer(block), align=access.run_bytes)

    def elements(access: _Access, block: _Block) -> None:
        for place in range(held.layout.run):
            with access.where_inside(block, place):
                value = registers.get_raw(b, held, block, place)
                b.store(value, access.pointer(block, place), align=held.element.bytes)

    _by_paths(b, held, part, runs, elements)


def _is_one(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and value.constant == 1


def _as_accessed(fragment: Fragment, part: MatrixPart) -> Fragment:
    """Return the fragment as lanes access memory."""
    axis = fragment.layout.axis
    along, across = part.strides[axis], part.strides[1 - axis]
    if fragment.element.bits == 16 and fragment.layout.run == 2 and _is_one(across) and not _is_one(along):
        return fragment._replace(name=f"{fragment.name}_turned", layout=Layout(not fragment.layout.by_columns))
    return fragment


class _Access(NamedTuple):
    """Where a lane's elements are; `is_checked` says that each is looked at whether it is inside."""

    b: ir.IRBuilder
    fragment: Fragment
    part: MatrixPart
    first: ir.Value
    lane: tuple[ir.Value, ir.Value]
    is_checked: bool

    @property
    def run_bytes(self) -> int:
        """Bytes of what a lane has of a block."""
        return self.fragment.element.bytes * self.fragment.layout.run

    def pointer(self, block: _Block, place: int) -> ir.Value:
        """Return a pointer to an element."""
        b, layout = self.b, self.fragment.layout
        numbers = [number * size for number, size in zip(block, layout.block, strict=True)]
        numbers[layout.axis] += place
        offsets = [b.mul(stride, index(number)) for stride, number in zip(self.part.strides, numbers, strict=True)]
        return b.gep(self.first, [b.add(*offsets)])

    def run_pointer(self, block: _Block) -> ir.Value:
        """Return a pointer to all that a lane has of a block."""
        pointer = self.pointer(block, 0)
        return self.b.bitcast(pointer, held_type(self.fragment).as_pointer(pointer.type.addrspace))

    def inside(self, block: _Block, place: int) -> ir.Value | None:
        """Return whether an element is inside of the matrix, None where that is not asked."""
        condition = None
        for axis, bounds in enumerate(self.part.bounds if self.is_checked else ()):
            if bounds is None:
                continue
            first, size = bounds
            layout = self.fragment.layout
            number = layout.block[axis] * block[axis] + (place if axis == layout.axis else 0)
            own = self.b.add(first, self.b.add(self.lane[axis], index(number)))
            fits = self.b.icmp_unsigned("<", own, size)
            condition = fits if condition is None else self.b.and_(condition, fits)
        return condition

    def where_inside(self, block: _Block, place: int) -> AbstractContextManager[object]:
        """Return a context for what is done where an element is inside of the matrix."""
        condition = self.inside(block, place)
        guard: AbstractContextManager[object] = nullcontext() if condition is None else self.b.if_then(condition)
        return guard


def _by_paths(
    b: ir.IRBuilder, fragment: Fragment, part: MatrixPart, runs: Callable[[_Access, _Block], None],
    elements: Callable[[_Access, _Block], None],
) -> None:
    """Emit the access to all blocks: by runs where that can be, and with checks only where the part sticks out.

    There, too, elements go by runs where no run is inside in part.
    """
    layout = fragment.layout
    g, t = lane_place(b)
    lane = [g, g]
    lane[layout.axis] = b.mul(t, index(layout.run))
    offsets = [b.mul(place, stride) for place, stride in zip(lane, part.strides, strict=True)]
    access = _Access(b, fragment, part, b.gep(part.pointer, [b.add(*offsets)]), (lane[0], lane[1]), False)

    def every(one: Callable[[_Access, _Block], None], access: _Access) -> None:
        for block in fragment.blocks:
            one(access, block)

    may_run = None
    if _is_one(part.strides[layout.axis]):
        # It is the same for all lanes, which so take one path.
        across = b.mul(part.strides[1 - layout.axis], index(fragment.element.bytes))
        odd = b.and_(b.or_(b.ptrtoint(part.pointer, I64), across), index(access.run_bytes - 1))
        may_run = b.icmp_unsigned("==", odd, index(0))

    def paths(access: _Access, may_run: ir.Value | None) -> None:
        if may_run is None:
            every(elements, access)
            return
        with b.if_else(may_run) as (then, otherwise):
            with then:
                every(runs, access)
            with otherwise:
                every(elements, access)

    inside, are_whole = None, may_run
    for axis, (bounds, extent) in enumerate(zip(part.bounds, (fragment.rows, fragment.columns), strict=True)):
        if bounds is not None:
            first, size = bounds
            last = b.add(first, index(extent))
            fits = b.and_(b.icmp_signed(">=", first, index(0)), b.icmp_signed("<=", last, size))
            inside = fits if inside is None else b.and_(inside, fits)
            if axis == layout.axis and may_run is not None:
                rest = b.and_(b.or_(first, size), index(layout.run - 1))
                are_whole = b.and_(may_run, b.icmp_unsigned("==", rest, index(0)))
    if inside is None:
        paths(access, may_run)
        return
    with b.if_else(inside) as (then, otherwise):
        with then:
            paths(access, may_run)
        with otherwise:
            paths(access._replace(is_checked=True), are_whole)
