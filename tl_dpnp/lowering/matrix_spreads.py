"""Products that spread a column of numbers over a matrix: by a row of equal ones, as broadcasting does.

They need no matrix engine: each row gets its own number.  Where nothing is added but a constant, all components of a
row of the result are equal, and it is held as a column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType

__all__ = ["ColumnSpread", "Spreads", "held_type", "spreads_in"]


class ColumnSpread(NamedTuple):
    """A product of a column and a row that is filled with `factor`; in its result rows `are_equal` components."""

    factor: complex
    are_equal: bool


#: Such products by the names of their results.
Spreads = dict[str, ColumnSpread]


def spreads_in(function: ops.Function) -> Spreads:
    """Return the products of a function, whose names are unique, that spread columns; all components have one type."""
    filled = {operation.result.name: operation.value.value for operation in function.body.walk()
              if isinstance(operation, ops.CooperativeMatrixConstruct) and isinstance(operation.value, ops.Constant)}
    found: Spreads = {}
    for operation in function.body.walk():
        if isinstance(operation, ops.CooperativeMatrixMulAdd) and operation.B.name in filled:
            values = (operation.A, operation.B, operation.C, operation.result)
            types = [ops.matrix_type(value) for value in values]
            if types[0].columns == 1 and len({type.component for type in types}) == 1:
                found[operation.result.name] = ColumnSpread(filled[operation.B.name], operation.C.name in filled)
    return found


def held_type(value: ops.Operand, spreads: Spreads) -> CooperativeMatrixType:
    """Return the type of what holds a matrix: a column, where the components of each row are equal."""
    type = ops.matrix_type(value)
    spread = spreads.get(value.name) if isinstance(value, ops.Value) else None
    return type if spread is None or not spread.are_equal else replace(type, columns=1)
