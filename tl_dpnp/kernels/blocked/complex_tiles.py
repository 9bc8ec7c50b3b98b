"""How warps multiply panels of complex numbers: by multiply-adds (c32), or by ``mma.sync`` of f64 (c64).

A product of complex numbers is four of their parts, so that i A i B is added with one part's sign turned.
"""

from __future__ import annotations

import itertools

from tl_dpnp.kernels.blocked.copies import Consecutive
from tl_dpnp.kernels.blocked.multiply import MultiplyAdds, TensorCores
from tl_dpnp.records import dataclass

__all__ = ["ComplexMultiplyAdds", "ComplexTensorCores"]


@dataclass(frozen=True)
class ComplexMultiplyAdds(MultiplyAdds):
    """Products of c32: as those of f32, with vectors of two elements."""

    size = 8
    parts = 2

    @property
    def registers(self) -> str:
        rows = self.vector * self._vectors[0]
        return f"{super().registers} .reg .f32 na<{rows}>;"

    def multiply(self, buffer: int) -> list[str]:
        rows, columns = (self.vector * count for count in self._vectors)
        lines = [f"neg.f32 na{i}, a{2 * (rows * buffer + i) + 1};" for i in range(rows)]
        first = 2 * rows * buffer
        real, imaginary, negated = ([f"{name}{start + step * i}" for i in range(rows)] for name, start, step in (
            ("a", first, 2), ("a", first + 1, 2), ("na", 0, 1)))
        # Instructions that follow one another read the same part of B, which takes no port of the registers again.
        for j, (part, left) in itertools.product(range(columns), enumerate(((real, imaginary), (negated, real)))):
            b = f"b{2 * (columns * buffer + j) + part}"
            lines += [f"fma.rn.f32 d{2 * (rows * j + i) + k}, {a[i]}, {b}, d{2 * (rows * j + i) + k};"
                      for k, a in enumerate(left) for i in range(rows)]
        return lines


@dataclass(frozen=True)
class ComplexTensorCores(TensorCores):
    """Products of c64 by ``mma.sync`` of their parts, which lanes read together."""

    size = 16
    parts = 2

    @property
    def registers(self) -> str:
        (rows, columns), row = self._blocks, self._row
        a, b = rows * row.words("a"), columns * row.words("b")
        return f".reg .f64 d<{2 * len(self.sums)}>, a<{4 * a}>, b<{4 * b}>, nb<{b}>;"

    def lanes(self, consecutive: Consecutive) -> int:
        return 8

    def pitches(self, consecutive: Consecutive, extent: int, depth: int) -> tuple[int, int]:
        # Eight lanes at a time read four neighbours along the sum of two along the side: 8 banks of 16 bytes.
        if consecutive == "k":
            return self.size * (depth + 4), self.size
        return self.size, self.size * (extent + 2)

    def _load(self, register: int, name: str, place: str, condition: str) -> str:
        first = 2 * register
        return f"{condition} ld.shared.v2.f64 {{{name}{first}, {name}{first + 1}}}, {place};"

    def multiply(self, buffer: int) -> list[str]:
        (rows, columns), row = self._blocks, self._row
        a_words, b_words = row.words("a"), row.words("b")
        lines = [f"neg.f64 nb{word}, b{2 * (buffer * columns * b_words + word) + 1};"
                 for word in range(columns * b_words)]

        def products(parts: tuple[tuple[int, int], tuple[int, int]]) -> None:
            """Add products of such a part of A and of B to the real parts, and others to the imaginary ones."""
            for i in range(rows):
                for j in range(columns):
                    for part, (left, right) in enumerate(parts):
                        a = _words("a", (buffer * rows + i) * a_words, a_words, left)
                        b = _words("b", (buffer * columns + j) * b_words, b_words, right)
                        if part == 0 and right == 1:
                            b = "{" + ", ".join(f"nb{j * b_words + word}" for word in range(b_words)) + "}"
                        sums = _words("d", (i * columns + j) * 4, 4, part)
                        lines.append(f"{row.instruction} {sums}, {a}, {b}, {sums};")

        products(((0, 0), (0, 1)))
        products(((1, 1), (1, 0)))
        return lines


def _words(name: str, first: int, count: int, part: int) -> str:
    """Return the registers of one part of so many elements."""
    return "{" + ", ".join(f"{name}{2 * (first + word) + part}" for word in range(count)) + "}"
