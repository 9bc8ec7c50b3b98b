"""Products that spread a column of numbers over a matrix, by a row of equal ones, as broadcasting does, or a row.

They need no matrix engine: each row, or each column, gets its own number.  Where nothing is added but a constant, all
components of a row of the result are equal, and it is held as a column; or those of a column, and it is held as a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType

__all__ = ["VectorSpread", "Spreads", "held_type", "spreads_in"]


class VectorSpread(NamedTuple):
    """A product of a column and a row, one of which is filled with `factor`; the other one is a row if it `is_row`.

    All that it gives to components `are_equal` along what is spread if nothing but a constant is added.
    """

    factor: complex
    are_equal: bool
    is_row: bool


#: Such products by the names of their results.
Spreads = dict[str, VectorSpread]


def spreads_in(function: ops.Function) -> Spreads:
    """Return the products of a function, whose names are unique, that spread columns or rows of one type of components.
    """
    filled = {operation.result.name: operation.value.value for operation in function.body.walk()
              if isinstance(operation, ops.CooperativeMatrixConstruct) and isinstance(operation.value, ops.Constant)}
    found: Spreads = {}
    for operation in function.body.walk():
        if isinstance(operation, ops.CooperativeMatrixMulAdd) and filled.keys() & {operation.A.name, operation.B.name}:
            values = (operation.A, operation.B, operation.C, operation.result)
            types = [ops.matrix_type(value) for value in values]
            if types[0].columns == 1 and len({type.component for type in types}) == 1:
                is_row = operation.B.name not in filled
                factor = filled[(operation.A if is_row else operation.B).name]
                found[operation.result.name] = VectorSpread(factor, operation.C.name in filled, is_row)
    return found


def held_type(value: ops.Operand, spreads: Spreads) -> CooperativeMatrixType:
    """Return the type of what holds a matrix: a column, where the components of each row are equal, or a row."""
    type = ops.matrix_type(value)
    spread = spreads.get(value.name) if isinstance(value, ops.Value) else None
    if spread is None or not spread.are_equal:
        return type
    return replace(type, rows=1) if spread.is_row else replace(type, columns=1)
