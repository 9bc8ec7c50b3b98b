"""Outer products on vectors of one work-item, as data: a column of A and of C is a vector of m lanes, an element of B
is broadcast; one rounding for each product and sum.
"""

from __future__ import annotations

from tl_dpnp.kernels.instructions import Element, MatrixInstruction

__all__ = ["ROWS", "SimdRow"]


class SimdRow(MatrixInstruction):
    """One row; all operands are of one type."""

    @property
    def name(self) -> str:
        """Type and shape: ``simd_f32_16x8x1``."""
        return f"simd_{self.c.name}_{self.m}x{self.n}x{self.k}"


#: All rows by name.
ROWS = {
    row.name: row
    for element, widths in ((Element("f32", 32, "float"), (8, 16)), (Element("f64", 64, "float"), (4, 8)))
    for lanes in widths
    for columns in (1, 2, 4, 6, 8, 12)
    for row in (SimdRow(lanes, columns, 1, element, element, element),)
}
