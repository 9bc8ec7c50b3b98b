"""What all instructions of matrix engines have in common, as data.

An instruction means ``C[m, n] := C[m, n] + Σ_k A[m, k] · B[k, n]`` for the sizes and the types in its row.  Each engine
has a table of rows beside what emits them: vectors (`tl_dpnp.kernels.simd_rows`), DPAS, AMX, ``mma.sync`` and
``wgmma``; their classes add how operands lie in registers.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tl_dpnp.records import dataclass

__all__ = ["Element", "MatrixInstruction"]


class Element(NamedTuple):
    """The type of the elements of an operand, by the engine's name for it.

    `type` is the name of the language's type that is loaded for it and stored of it, where that is another; `text` is
    the name in assembly, where that is another.
    """

    name: str
    bits: int
    kind: Literal["signed", "unsigned", "float", "bit"]
    type: str = ""
    text: str = ""

    @property
    def is_float(self) -> bool:
        """True for floating-point types."""
        return self.kind == "float"


@dataclass(frozen=True)
class MatrixInstruction:
    """One row: sizes, and the elements of A, of B and of the sums, C.

    The matrices are the language's, whatever the engine calls them.
    """

    m: int
    n: int
    k: int
    a: Element
    b: Element
    c: Element

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """What `tensorize` knows the row by."""
        raise NotImplementedError

    @property
    def unused(self) -> str | None:
        """Why no nest means this row, None where some do."""
        return None

    @property
    def types(self) -> tuple[str, str, str]:
        """The language's types of A, of B and of the sums."""
        a, b, c = (element.type or element.name for element in (self.a, self.b, self.c))
        return a, b, c
