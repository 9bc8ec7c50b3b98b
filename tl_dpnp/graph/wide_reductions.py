"""Reductions whose results are single numbers: as many of them side by side as vectors take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

from tl_dpnp.graph.work_group import Index
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.builder import memref
from tl_dpnp.language.ops import Value
from tl_dpnp.scalars import ScalarType

__all__ = ["LEAST_ELEMENTS", "PARTIAL_RESULTS", "write_wide_reduction"]

#: Results side by side: four of the widest vectors of f32, because each addition waits for the one before.
PARTIAL_RESULTS = 64
#: Those that are put together by vectors in memory; fewer are in registers, because a vector that is read from two
#: that were just written waits for both to arrive in memory.
_IN_REGISTERS = 16
#: Elements from which on that is worth it.
LEAST_ELEMENTS = 2 * _IN_REGISTERS
#: Elements that there may be of a size that is not known, from which on there are as many partial results as can be.
_LONG = 2 * PARTIAL_RESULTS


def write_wide_reduction(
    b: FunctionBuilder, type: ScalarType, start: Value, combine: Callable[[Value, Value], Value],
    sizes: Mapping[int, Index], element: Callable[[Mapping[int, Index]], Value], room: int,
) -> Value:
    """Write a reduction over axes of more than one element, the slowest in memory first, and return its result.

    `element` gives an element by its index on these axes.  The elements of the fastest axis are put together in
    partial results, as many as a power of two, and these by halves.  There are at most `room` elements on that axis.
    """
    *outer, (fastest, size) = sizes.items()
    lanes = min(1 << room.bit_length() - 1, PARTIAL_RESULTS)
    if not isinstance(size, int) and room < _LONG:
        lanes = min(lanes, _IN_REGISTERS)
    partial = b.alloca(memref(type, lanes))
    where: dict[int, Index] = {}

    def add(count: Index, offset: Index) -> None:
        with b.foreach(0, count) as lane:
            where[fastest] = lane if isinstance(offset, int) and offset == 0 else b.add(lane, offset)
            b.store(combine(b.load(partial, lane), element(where)), partial, lane)

    with b.foreach(0, lanes) as lane:
        b.store(start, partial, lane)
    with ExitStack() as stack:
        for axis, extent in outer:
            where[axis] = stack.enter_context(b.for_(0, extent))
        pieces, rest, known = _divided(b, size, lanes)
        if isinstance(pieces, int) and pieces == 1:
            add(lanes, 0)
        else:
            with b.for_(0, pieces) as piece:
                add(lanes, b.mul(piece, lanes))
        if not isinstance(rest, int) or rest:
            add(rest, known)
    while lanes > _IN_REGISTERS:
        lanes //= 2
        with b.foreach(0, lanes) as lane:
            b.store(combine(b.load(partial, lane), b.load(partial, b.add(lane, lanes))), partial, lane)
    results = [b.load(partial, lane) for lane in range(lanes)]
    while len(results) > 1:
        half = len(results) // 2
        results = [combine(one, other) for one, other in zip(results[:half], results[half:], strict=True)]
    return results[0]


def _divided(b: FunctionBuilder, size: Index, lanes: int) -> tuple[Index, Index, Index]:
    """Return how often `lanes` fit into a size, the rest, and the size without it."""
    if isinstance(size, int):
        return size // lanes, size % lanes, size - size % lanes
    rest = b.rem(size, lanes)
    return b.div(size, lanes), rest, b.sub(size, rest)
