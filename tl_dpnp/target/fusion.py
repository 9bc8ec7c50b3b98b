"""What the partition of dpnp code into kernels is decided by, in numbers."""

from __future__ import annotations

from tl_dpnp.records import dataclass

__all__ = ["FusionNumbers"]


@dataclass(frozen=True)
class FusionNumbers:
    """Numbers that measurements on processors chose for regions of a graph.

    dpnp multiplies matrices whose sides have at least `large_side` elements, and of which all work-groups read more
    than `large_matrix` bytes: it blocks for caches, and kernels do not.  With shorter sides products are bound by
    memory.

    With matrices, the interleaved layout is better from `least_steps` steps on that keep something, and from
    `steps_of_a_vector` for each vector of a matrix that is transposed.  Without any, it is where functions of rows take
    `worth_transposing` times as many operations less as transpositions take.

    The others count operations of whole vectors: `transposing` as many elements as a vector has lanes takes so many,
    `collecting` them where they are used so many.  A multiply-add takes `short_tile` times as long in a tile that is
    one vector high, for which most operands are loaded.
    """

    large_matrix: int
    large_side: int
    least_steps: int
    steps_of_a_vector: float
    worth_transposing: float
    transposing: int
    collecting: int
    short_tile: float
