"""Sums of the lanes of vectors, one for each lane of a vectorized loop around: a reduction of what `rfactor` left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.llvm import is_zero, power_of_two
from tl_dpnp.kernels.simd import totals_of_lanes
from tl_dpnp.lowering.emission.variables import Lanes, Variables, distinct, side_by_side
from tl_dpnp.lowering.nest import Access, Assign, Expression, Loop, Total

__all__ = ["add_lanes"]


def add_lanes(
    builder: ir.IRBuilder, loop: Loop, around: str, beside: str | None, pieces: Iterable[Sequence[int]],
    variables: Variables, expression: Callable[[Expression], ir.Value], put: Callable[[Access, ir.Value], None],
) -> None:
    """Emit a vectorized reduction inside a vectorized loop `around` it.

    `pieces` are the vectors that its iterations are cut into.  Where the loop around it is itself `beside` another one,
    these have a part for each lane of that, and parts are added up apart.
    """
    values, outer = variables.values, variables.values[around]
    assert isinstance(outer, Lanes)
    columns = () if beside is None else distinct(values[beside])
    parts = power_of_two(len(columns)) if columns else 1
    before = {name: values[name] for name in (around, beside) if name is not None}
    for assign in loop.body:
        assert isinstance(assign, Assign)
        assert isinstance(assign.value, Total)
        element, total = assign.target.buffer.element, expression(assign.value.lhs)
        for piece in pieces:
            terms = []
            for values[around] in outer.values[: len(outer.values) // parts]:
                if beside is None:
                    values[loop.variable] = Lanes(tuple(piece)) if len(piece) > 1 else piece[0]
                else:
                    values[beside], values[loop.variable] = side_by_side(columns, piece)
                terms.append(expression(assign.value.rhs))
            values.update(before)
            totals = totals_of_lanes(builder, element, terms, parts)
            # What begins with 0 adds up to no other 0.
            total = totals if is_zero(total) else scalar_ops.arithmetic(builder, "add", element, total, totals)
        del values[loop.variable]
        put(assign.target, total)
