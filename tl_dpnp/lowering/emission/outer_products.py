"""Outer products of vectors, of which a nest has the instruction."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tl_dpnp.kernels.simd import outer_product
from tl_dpnp.kernels.simd_rows import SimdRow
from tl_dpnp.lowering.emission.variables import Lanes, Variables
from tl_dpnp.lowering.instructions import multiplication_in
from tl_dpnp.lowering.nest import Access, Expression, Loop

__all__ = ["emit_outer_product"]


def emit_outer_product(
    builder: ir.IRBuilder, loop: Loop, instruction: SimdRow, vector_width: int, variables: Variables,
    expression: Callable[[Expression], ir.Value], put: Callable[[Access, ir.Value], None],
) -> None:
    """Emit an outer product of vectors: the loop runs over its rows, the one inside over its columns."""
    product = multiplication_in(loop)
    assert product is not None
    assert product.n is not None
    columns, values = product.n.variable, variables.values
    width = min(instruction.m, vector_width)
    for first in range(0, instruction.m, width):
        values[loop.variable] = Lanes(tuple(range(first, first + width)))
        rows: list[tuple[ir.Value, ir.Value, ir.Value]] = []
        for values[columns] in range(instruction.n):
            a, b, c = (expression(entry) for entry in (product.left, product.right, product.target))
            rows.append((a, b, c))
        (a, *_), factors, before = zip(*rows, strict=True)
        for values[columns], result in enumerate(outer_product(builder, instruction, a, factors, before)):
            put(product.target, result)
    del values[loop.variable], values[columns]
