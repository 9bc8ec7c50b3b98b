"""Copies between memories of which one is consecutive along one loop, the other along the loop inside."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.simd import PART_BITS, transpose, transpose_parts
from tl_dpnp.lowering.emission.memory import Memory
from tl_dpnp.lowering.emission.variables import Lanes
from tl_dpnp.lowering.nest import Access, Assign, Loop
from tl_dpnp.scalars import F32

__all__ = ["Squares"]


class Squares(NamedTuple):
    """Transposes squares in registers.

    `cut` cuts the iterations of a loop into vectors, of which some may run twice.  With `joins_parts` f32 is loaded in
    parts of 128 bits, which are put together as they come.
    """

    memory: Memory
    cut: Callable[[Loop, bool], list[tuple[int, ...]]]
    joins_parts: bool

    def copy(self, loop: Loop) -> None:
        """Emit the copy: two vectorized loops, the other inside `loop`."""
        (inner,) = loop.body
        assert isinstance(inner, Loop)
        (copy,) = inner.body
        assert isinstance(copy, Assign)
        assert isinstance(copy.value, Access)
        values = self.memory.variables.values
        near, far = (loop, inner) if self.memory.is_consecutive(copy.value, loop.variable) else (inner, loop)
        for rows, columns in product(self.cut(far, True), self.cut(near, True)):
            side = min(len(rows), len(columns))
            for first_row, first in product(rows[::side], columns[::side]):
                square = range(first_row, first_row + side), range(first, first + side)
                vectors = self.columns_of_square(copy.value, far.variable, near.variable, *square)
                values[far.variable] = Lanes(tuple(square[0])) if side > 1 else first_row
                for values[near.variable], vector in zip(square[1], vectors, strict=True):
                    self.memory.store(copy.target, vector)
        del values[near.variable], values[far.variable]

    def columns_of_square(self, access: Access, far: str, near: str, rows: range, columns: range) -> list[ir.Value]:
        """Load a square whose rows are consecutive in memory and return its columns."""
        builder, values = self.memory.builder, self.memory.variables.values

        def load(row: int, some: range) -> ir.Value:
            values[far], values[near] = row, Lanes(tuple(some)) if len(some) > 1 else some[0]
            return self.memory.load(access)

        part = PART_BITS // F32.bits
        if not self.joins_parts or access.buffer.element != F32 or len(rows) <= part:
            return transpose(builder, [load(row, columns) for row in rows])
        return [vector for first in columns[::part] for vector in transpose_parts(builder, [
            [load(row, range(first, first + part)) for row in rows[place::part]] for place in range(part)])]
