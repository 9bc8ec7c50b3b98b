"""Vectorized loops inside others: lanes that sums are kept in, beside columns, and what adds them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Protocol

from llvmlite import ir

from tl_dpnp.errors import LoweringError
from tl_dpnp.kernels.llvm import power_of_two
from tl_dpnp.lowering.emission.lane_sums import add_lanes
from tl_dpnp.lowering.emission.memory import Memory
from tl_dpnp.lowering.emission.variables import Lanes, Variable, distinct, pieces_of, side_by_side
from tl_dpnp.lowering.nest import Access, Expression, Guard, Loop, predicate_of, vector_beside
from tl_dpnp.records import dataclass

__all__ = ["NestedVectors"]


class _Emits(Protocol):
    """What emits the body of a loop, and loops that are not inside others."""

    def iteration(self, loop: Loop, value: Variable) -> None: ...
    def alone(self, loop: Loop) -> None: ...
    def cut(self, loop: Loop, twice: bool) -> Sequence[Sequence[int]]: ...
    def expression(self, expression: Expression) -> ir.Value: ...
    def put(self, target: Access, value: ir.Value) -> None: ...


@dataclass
class NestedVectors:
    """The vectorized `loops` around the present place, and how those inside them are emitted.

    A loop that another one holds alone is beside it: vectors have its iterations for each of the other one.  Else it is
    emitted for each lane of the nearest one around it, and beside the one that this is beside.
    """

    memory: Memory
    loops: list[Loop] = field(default_factory=list)

    def emit(self, loop: Loop, emits: _Emits) -> None:
        """Emit a vectorized loop, inside others or not."""
        values, memory = self.memory.variables.values, self.memory
        around = [each for each in self.loops if isinstance(values[each.variable], Lanes)]
        state = memory.active_lanes, memory.lanes_stored_before, memory.parts
        if around and loop.reduction:
            self.add_lanes(loop, around, emits)
            return
        self.loops.append(loop)
        if around:
            self.inside(loop, around, emits)
            memory.active_lanes, memory.lanes_stored_before, memory.parts = state
        elif vector_beside(loop) is not None:
            for piece in pieces_of(loop, memory.vector_width):
                emits.iteration(loop, Lanes(piece))
        else:
            emits.alone(loop)
        self.loops.pop()

    def inside(self, loop: Loop, around: Sequence[Loop], emits: _Emits) -> None:
        """Emit a loop inside others."""
        values = self.memory.variables.values
        before = {each.variable: values[each.variable] for each in around}
        *further, nearest = before
        is_beside = vector_beside(around[-1]) is loop
        for value in [before[nearest]] if is_beside else distinct(before[nearest]):
            values[nearest] = value
            if is_beside or further:
                self.beside(loop, nearest if is_beside else further[-1], emits)
            else:
                emits.alone(loop)
        values.update(before)

    def beside(self, loop: Loop, other: str, emits: _Emits) -> None:
        """Emit a loop whose vectors have its iterations once for each value of `other`."""
        values, memory, predicate = self.memory.variables.values, self.memory, predicate_of(loop)
        outer = distinct(values[other])
        memory.parts, memory.lanes_stored_before = power_of_two(len(outer)), 0
        for piece in pieces_of(loop, memory.vector_width // memory.parts):
            values[other], own = side_by_side(outer, piece)
            memory.active_lanes = len(outer) * len(piece) if len(piece) == power_of_two(len(piece)) else 0
            if predicate is not None:
                numbers = range(piece[0], piece[0] + len(own.values) // memory.parts)
                left = self.left(loop, predicate)
                memory.mask = memory.mask_below(left, numbers, len(numbers)) if left < numbers.stop else None
            emits.iteration(loop if predicate is None else replace(loop, guards=()), own)
            memory.mask = None

    def left(self, loop: Loop, predicate: Guard) -> int:
        """Return how many iterations of a loop its guard leaves."""
        names, bound = predicate
        before = self.memory.variables.total(tuple(name for name in names if name != loop.variable))
        if not (isinstance(bound, int) and isinstance(before, int)):
            raise LoweringError(f"which lanes of {loop.variable} take part is known at run time only: unroll the loops "
                                "around it that its guard depends on, or split off what is whole")
        return bound - before

    def add_lanes(self, loop: Loop, around: Sequence[Loop], emits: _Emits) -> None:
        """Emit a reduction of lanes inside a vectorized loop, which may be beside another one."""
        values, memory = self.memory.variables.values, self.memory
        *further, nearest = (each.variable for each in around)
        beside = further[-1] if further else None
        columns = 1 if beside is None else power_of_two(len(distinct(values[beside])))
        pieces = emits.cut(loop, False) if beside is None else pieces_of(loop, memory.vector_width // columns)
        add_lanes(memory.builder, loop, nearest, beside, pieces, memory.variables, emits.expression, emits.put)
