"""The instructions of the engines, as data: what each computes and how its operands lie in registers.

An instruction means ``C[m, n] := C[m, n] + Σ_k A[m, k] · B[k, n]`` for the extents in its row, one rounding for each
product and sum.  `tensorize` matches loop nests against that; the engine's module computes it.
"""

from __future__ import annotations

from typing import Literal

from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, F64, ScalarType

__all__ = ["INSTRUCTIONS", "MatrixInstruction"]


@dataclass(frozen=True)
class MatrixInstruction:
    """One row.

    `element` is the type of all three operands.  Engine ``simd``: a column of A and of C is a vector of `m` lanes in
    one work-item, an element of B is broadcast.
    """

    engine: Literal["simd"]
    element: ScalarType
    m: int
    n: int
    k: int = 1

    @property
    def name(self) -> str:
        """Engine, type and shape: ``simd_f32_16x8x1``."""
        return f"{self.engine}_{self.element}_{self.m}x{self.n}x{self.k}"


_ROWS = [
    MatrixInstruction("simd", element, lanes, columns)
    for element, widths in ((F32, (8, 16)), (F64, (4, 8)))
    for lanes in widths
    for columns in (1, 2, 4, 6, 8, 12)
]
#: All instructions by name.
INSTRUCTIONS = {row.name: row for row in _ROWS}
