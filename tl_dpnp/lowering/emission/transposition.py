"""Copies between memories of which one is consecutive along one loop, the other along the loop inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import power_of_two, set_lane, undefined, value_type, vector_of
from tl_dpnp.kernels.simd import lanes_of_part, transpose, transpose_parts
from tl_dpnp.lowering.emission.memory import Memory
from tl_dpnp.lowering.emission.variables import Lanes
from tl_dpnp.lowering.nest import Access, Assign, Loop
from tl_dpnp.scalars import F32, F64

__all__ = ["Squares"]


class Squares(NamedTuple):
    """Transposes in registers what a vector has of rows, some columns of them after the other.

    With `joins_parts` f32 and f64 are loaded in parts of 128 bits, which are put together as they come; columns of
    other elements are if they are left over by squares.
    """

    memory: Memory
    joins_parts: bool

    def copy(self, loop: Loop) -> None:
        """Emit the copy: two vectorized loops, the other inside `loop`."""
        (inner,) = loop.body
        assert isinstance(inner, Loop)
        (copy,) = inner.body
        assert isinstance(copy, Assign)
        assert isinstance(copy.value, Access)
        values, memory = self.memory.variables.values, self.memory
        near, far = (loop, inner) if memory.is_consecutive(copy.value, loop.variable) else (inner, loop)
        assert near.static_range is not None
        assert far.static_range is not None
        for first in far.static_range[:: memory.vector_width]:
            rows = range(first, min(first + memory.vector_width, far.static_range.stop))
            side = power_of_two(len(rows))
            places = tuple(range(first, first + side))
            stored = places if self.has_room(copy.target, far, places) else tuple(min(p, rows[-1]) for p in places)
            for columns, new in self.pieces(copy.value, near.static_range, side):
                vectors = self.columns_of(copy.value, far.variable, near.variable, rows, columns)
                values[far.variable] = Lanes(stored) if side > 1 else first
                memory.active_lanes = len(set(stored))
                for values[near.variable], vector in [*zip(columns, vectors, strict=True)][-new:]:
                    memory.store(copy.target, vector)
                memory.active_lanes = 0
        del values[near.variable], values[far.variable]

    def has_room(self, target: Access, far: Loop, places: Sequence[int]) -> bool:
        """Whether the lanes of a vector that have no row may be stored: into the padding of a copy's column."""
        buffer, variables = target.buffer, self.memory.variables
        if buffer.scope != "private":
            return False
        side = len(places)
        for names, stride in zip(target.indices, buffer.strides, strict=True):
            if far.variable in names:
                around = [variables.values[name] for name in names if name != far.variable]
                starts = [value if isinstance(value, int) else 1 for value in around]
                if stride != 1 or any(start % side for start in (places[0], *starts)):
                    return False
            elif not isinstance(stride, int) or stride % side:
                return False
        return True

    def pieces(self, source: Access, columns: range, side: int) -> Iterator[tuple[range, int]]:
        """Yield the columns that are transposed at once, and how many of them, the last ones, are new."""
        part = min(side, power_of_two(len(columns) + 1) // 2, lanes_of_part(value_type(source.buffer.element)))
        done = columns.start
        if not (self.joins_parts and source.buffer.element in (F32, F64)):
            while columns.stop - done >= side:
                yield range(done, done + side), side
                done += side
        while done < columns.stop:
            new = min(part, columns.stop - done)
            yield range(done + new - part, done + new), new
            done += new

    def columns_of(self, access: Access, far: str, near: str, rows: range, columns: range) -> list[ir.Value]:
        """Load rows that are consecutive in memory and return their columns; lanes beyond them repeat the last one."""
        builder, values = self.memory.builder, self.memory.variables.values

        def load(row: int) -> ir.Value:
            values[far] = min(row, rows[-1])
            values[near] = Lanes(tuple(columns)) if len(columns) > 1 else columns[0]
            return self.memory.load(access)

        side, part = power_of_two(len(rows)), len(columns)
        loaded = [load(row) for row in range(rows.start, rows.start + side)]
        if part == side:
            return transpose(builder, loaded)
        if part > 1:
            return transpose_parts(builder, [loaded[place::part] for place in range(part)])
        vector = undefined(vector_of(loaded[0].type, side))
        for lane, element in enumerate(loaded):
            vector = set_lane(builder, vector, element, lane)
        return [vector]
