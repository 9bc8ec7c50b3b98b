"""What is measured, as tables: shapes of products, element types, regimes."""

from __future__ import annotations

import os
import random
from typing import NamedTuple

__all__ = [
    "CACHE_MEGABYTES", "COMPLEX", "ELEMENTS", "ECOSYSTEM", "ITEMSIZE", "MEMORY_MEGABYTES", "QUICK", "SHAPES", "Shape",
    "drawn_shapes",
]

#: ``TL_DPNP_BENCH=quick`` keeps a case or two of each benchmark and times it briefly, to see that all of them work.
QUICK = os.environ.get("TL_DPNP_BENCH") == "quick"


class Shape(NamedTuple):
    """C (m × n) := op(A) (m × k) · op(B) (k × n)."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> int:
        """Operations of one product."""
        return 2 * self.m * self.n * self.k


def _shapes(text: str) -> tuple[Shape, ...]:
    return tuple(Shape(*map(int, word.split("x"))) for word in text.split())


#: The shapes that the project holds itself to: cubes, SeisSol's (56x9x56 to 120x9x120), and wide, thin and flat ones.
SHAPES = _shapes("""
    4x4x4 8x8x8 9x9x9 16x16x16 20x20x20 24x24x24 32x32x32 48x48x48 64x64x64 96x96x96 128x128x128
    56x9x56 56x56x9 35x9x35 20x9x20 120x9x120 64x16x64 128x4x128 256x256x16
""")

#: Shapes of other codes.  EDGE and SU2: the lists of libxsmm's ``samples/xgemm/kernel_appsizes.sh``.  nekRS: the
#: derivative along each axis of an element of order 7.  libCEED: basis evaluation of 32 elements with P nodes in Q
#: points, (P, Q) from ``backends/magma/tuning/h100_rtc.h``.
ECOSYSTEM = {
    "EDGE": _shapes("4x9x4 4x9x9 10x9x10 10x9x9 20x9x9 35x9x9 56x9x9"),
    "SU2": _shapes("16x5x15 15x5x16 49x5x25 25x5x49 48x5x35 35x5x48 75x5x147 147x5x75"),
    "nekRS": _shapes("8x64x8 64x8x8"),
    "libCEED": _shapes("4x32x4 14x32x10 24x32x20 36x32x35"),
}

#: Sizes of drawn shapes: from the least to the most.
_RANGES = ((3, 24), (16, 64), (48, 130))


def drawn_shapes(seed: int, count: int = 60) -> tuple[Shape, ...]:
    """Return shapes whose sizes are drawn from a seed; small, middle and large ones are mixed in one shape."""
    draw = random.Random(seed)
    return tuple(Shape(*(draw.randint(*draw.choice(_RANGES)) for _ in range(3))) for _ in range(count))


ELEMENTS = ("f32", "f64")
#: Complex numbers, each with the type of its parts.
COMPLEX = {"c32": "f32", "c64": "f64"}
ITEMSIZE = {"f32": 4, "f64": 8, "c32": 8, "c64": 16}

#: Megabytes of all operands together: within the second-level cache of a core, and far beyond all caches.
CACHE_MEGABYTES = 0.5
MEMORY_MEGABYTES = 256
