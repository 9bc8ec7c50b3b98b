"""Gaussian elimination of small matrices in generated functions: determinants, inverses, linear systems.

Rows are exchanged so that each pivot is the largest element of its column, as LAPACK does it.  The code has no loops
but that over right-hand sides: matrices are small, and their elements are kept in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.graph.scalars import constant, select
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Value
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = ["Factors", "LARGEST_MATRIX"]

#: The most rows of a matrix that is factored in registers.
LARGEST_MATRIX = 4


@dataclass(frozen=True)
class Factors:
    """A matrix as lower and upper triangular factors of its rows in another order.

    `rows` has U on and above the diagonal, and below it the multipliers, L.  `exchanges` are the exchanges of rows in
    their order: two rows, and whether they are exchanged.
    """

    b: FunctionBuilder
    type: ScalarType
    rows: list[list[Value]]
    exchanges: list[tuple[int, int, Value]]

    @classmethod
    def of(cls, b: FunctionBuilder, type: ScalarType, matrix: Sequence[Sequence[Value]]) -> Factors:
        """Write the factorization of a matrix."""
        rows = [list(row) for row in matrix]
        size, exchanges = len(rows), []
        for k in range(size):
            for other in range(k + 1, size):
                larger = b.cmp("gt", b.math("abs", rows[other][k]), b.math("abs", rows[k][k]))
                exchanges.append((k, other, larger))
                rows[k], rows[other] = _exchanged(b, type, larger, rows[k], rows[other])
            zero = b.cmp("eq", rows[k][k], 0)
            pivot = select(b, type, zero, constant(b, 1.0, type), rows[k][k])  # all below a zero are zero, too
            for below in range(k + 1, size):
                factor = rows[below][k] = b.div(rows[below][k], pivot)
                for column in range(k + 1, size):
                    rows[below][column] = b.sub(rows[below][column], b.mul(factor, rows[k][column]))
        return cls(b, type, rows, exchanges)

    def singular(self) -> Value:
        """Write whether a pivot is zero."""
        zeros = [self.b.cmp("eq", row[k], 0) for k, row in enumerate(self.rows)]
        result = zeros[0]
        for zero in zeros[1:]:
            result = self.b.arith("or", result, zero)
        return result

    def determinant(self) -> Value:
        """Write the determinant, 0 for a singular matrix."""
        b = self.b
        result = self.rows[0][0]
        for k in range(1, len(self.rows)):
            result = b.mul(result, self.rows[k][k])
        if self.exchanges:
            odd = self.exchanges[0][2]
            for _, _, exchanged in self.exchanges[1:]:
                odd = b.arith("xor", odd, exchanged)
            result = select(b, self.type, odd, b.neg(result), result)
        return select(b, self.type, self.singular(), constant(b, 0.0, self.type), result)

    def solution(self, right: Sequence[Value]) -> list[Value]:
        """Write the solution for one right-hand side."""
        b, x = self.b, list(right)
        for one, other, exchanged in self.exchanges:
            [x[one]], [x[other]] = _exchanged(b, self.type, exchanged, [x[one]], [x[other]])
        size = len(x)
        for row in range(size):
            for column in range(row):
                x[row] = b.sub(x[row], b.mul(self.rows[row][column], x[column]))
        for row in reversed(range(size)):
            for column in range(row + 1, size):
                x[row] = b.sub(x[row], b.mul(self.rows[row][column], x[column]))
            x[row] = b.div(x[row], self.rows[row][row])
        return x


def _exchanged(
    b: FunctionBuilder, type: ScalarType, condition: Value, one: list[Value], other: list[Value]
) -> tuple[list[Value], list[Value]]:
    """Write two rows that change places on a condition."""
    with b.if_(condition, *[type] * (2 * len(one))) as branch:
        b.yield_(*other, *one)
    with b.else_():
        b.yield_(*one, *other)
    return list(branch.results[: len(one)]), list(branch.results[len(one) :])
