"""Sums of the lanes of vectors, one for each lane of a vectorized loop around: a reduction of what `rfactor` left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.simd import totals_of_lanes
from tl_dpnp.lowering.emission.variables import Lanes, Variables
from tl_dpnp.lowering.nest import Access, Assign, Expression, Loop, Total

__all__ = ["add_lanes"]


def add_lanes(
    builder: ir.IRBuilder, loop: Loop, around: str, pieces: Iterable[Sequence[int]], variables: Variables,
    expression: Callable[[Expression], ir.Value], put: Callable[[Access, ir.Value], None],
) -> None:
    """Emit a vectorized reduction inside a vectorized loop `around` it.

    `pieces` are the vectors that its iterations are cut into.
    """
    values, outer = variables.values, variables.values[around]
    assert isinstance(outer, Lanes)
    for assign in loop.body:
        assert isinstance(assign, Assign)
        assert isinstance(assign.value, Total)
        element, total = assign.target.buffer.element, expression(assign.value.lhs)
        for piece in pieces:
            values[loop.variable] = Lanes(tuple(piece)) if len(piece) > 1 else piece[0]
            terms = []
            for values[around] in outer.values:
                terms.append(expression(assign.value.rhs))
            values[around] = outer
            total = scalar_ops.arithmetic(builder, "add", element, total, totals_of_lanes(builder, element, terms))
        del values[loop.variable]
        put(assign.target, total)
