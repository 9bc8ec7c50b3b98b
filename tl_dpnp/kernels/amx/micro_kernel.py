"""Micro-kernels: how a work-item computes a product of known sizes on tiles, and their names."""

from __future__ import annotations

import re
from typing import ClassVar, NamedTuple

from tl_dpnp.kernels.amx.rows import IMAGE, MOST, ROWS, WORD, AmxRow, Cut, Palette, cut
from tl_dpnp.records import dataclass

__all__ = ["Joined", "TileKernel", "tile_kernel_named"]


class Joined(NamedTuple):
    """Tiles of the last elements along k that hold so many words of each of several terms of an f32, one after another.

    The pairs of terms of A and of B are those of each tile; what they leave of it is zeros.
    """

    words: int
    pairs: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True)
class TileKernel:
    """A product on tiles; `terms` is the number of bf16 whose sum stands for one f32 operand, 0 for none.

    Four tiles of sums, 2 x 2 of C, are computed together: the factors take two tiles each, whatever their terms are.
    """

    engine: ClassVar[str] = "AMX"
    #: Tiles along each mode of C that are computed together, at most.
    together: ClassVar[int] = 2
    #: Steps of products of a row of tiles that are written one after the other, at most, with what they pack between.
    most_steps: ClassVar[int] = 30
    #: Images of B that are packed for all rows of tiles, at most, for two groups of these and for more: more leave the
    #: nearest cache before they are used.  With those of A they must fit into a work-item's memory.
    most_kept: ClassVar[tuple[int, int]] = (18, 100)
    most_images: ClassVar[int] = 124
    row: AmxRow
    terms: int = 0

    @property
    def name(self) -> str:
        """That of the row, and the terms of an f32 operand."""
        return self.row.name + (f"_from_f32_by_{self.terms}" if self.terms else "")

    @property
    def operands(self) -> tuple[str, str]:
        """The types of A and B in memory."""
        return ("f32", "f32") if self.terms else self.row.types[:2]

    def cut(self, size: int) -> Cut:
        """Return how a mode of C is cut into tiles."""
        return cut(size, self.together)

    def depth(self, k: int) -> tuple[int, int]:
        """Return the number of tiles along k, and the words of each along k; the last ones may hold zeros."""
        words = -(-k // self.row.per_word)
        tiles = -(-words // MOST)
        return tiles, MOST if self.joined(k) else -(-words // tiles)

    def joined(self, k: int) -> Joined | None:
        """Return how the last tiles along k hold several terms, None where they hold one each.

        Products of tiles take the same time for fewer words: one, two or three compute what six would.
        """
        words = -(-k // self.row.per_word) % MOST
        for count in range(1, len(self.products) // 2 + 1 if self.terms == 3 and words else 0):
            together = len(self.products) // count
            if words <= MOST // together:
                return Joined(MOST // together, tuple(
                    self.products[first : first + together] for first in range(0, len(self.products), together)))
        return None

    def palette(self, m: int, n: int, k: int) -> Palette:
        """Return the shapes of the tiles: those of sums, of B, of A; see `total`, `b` and `a`."""
        (_, words), heights, widths = self.depth(k), self.cut(m).sizes, self.cut(n).sizes
        sums = [(widths[j % len(widths)], heights[i % len(heights)]) for j in range(2) for i in range(2)]
        b = [(widths[j % len(widths)], words) for j in range(2)]
        a = [(words, heights[i % len(heights)]) for i in range(2)]
        return Palette((*sums, *b, *a))

    def overlaps(self, n: int, k: int) -> bool:
        """Whether operands are packed between the products before those that take them.

        Those of f32 by several terms are, since that takes as long as the products.
        """
        return self.terms > 1 and self._column_steps(n, k) <= self.most_steps

    def keeps_b(self, m: int, n: int, k: int) -> bool:
        """Whether images of B that are packed between products stay for all rows of tiles."""
        depth, groups = self.depth(k)[0], -(-self.cut(m).count // self.together)
        of_a, of_b = (self.terms * count for count in (self.together * max(2, depth), self.cut(n).count * depth))
        return groups == 1 or (of_b <= self.most_kept[groups > 2] and of_a + of_b <= self.most_images)

    def _column_steps(self, n: int, k: int) -> int:
        return -(-self.cut(n).count // self.together) * self.depth(k)[0]

    def images(self, m: int, n: int, k: int, b_along_k: bool, keeps_a: bool) -> tuple[int, int]:
        """Return how many images of tiles of A, and of B, are in memory at a time."""
        terms, (depth, words) = max(1, self.terms), self.depth(k)
        rows, columns = self.cut(m).count, self.cut(n).count
        if self.overlaps(n, k):
            # Those of the step that is computed, and those of the next one.
            of_a = rows * depth if keeps_a else self.together * max(2, depth)
            of_b = columns * depth if self.keeps_b(m, n, k) else 2 * self.together
            return of_a * terms, of_b * terms
        of_a = (rows if keeps_a else min(self.together, rows)) * depth * terms
        if b_along_k and not self.terms:
            depth = int(depth * words * self.row.per_word != k)
        return of_a, columns * depth * terms

    def work_memory(self, m: int, n: int, k: int, b_along_k: bool, keeps_a: bool = False) -> int:
        """Return the bytes of the work-item's own memory that the images of a product take."""
        return sum(self.images(m, n, k, b_along_k, keeps_a)) * IMAGE * WORD

    def total(self, i: int, j: int) -> int:
        """Return the number of a tile of sums: row and column among those computed together."""
        return 2 * j + i

    def b(self, j: int) -> int:
        """Return the number of a tile of B."""
        return 4 + j

    def a(self, i: int) -> int:
        """Return the number of a tile of A."""
        return 6 + i

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """The terms of A and of B that are multiplied, the largest ones last, so that few tiles are loaded.

        Those that are smaller than the last bit of f32 are left out.  All are added to one sum: that rounds six times
        for each 32 elements along k, where f32 does 32 times.
        """
        return {0: ((0, 0),), 1: ((0, 0),), 3: ((0, 2), (0, 1), (1, 1), (1, 0), (2, 0), (0, 0))}[self.terms]


_NAME = re.compile(r"(amx_[a-z]\w+?)(?:_from_f32_by_([13]))?")


def tile_kernel_named(name: str) -> TileKernel | None:
    """Return the micro-kernel of a name, or None for a name that is none."""
    match = _NAME.fullmatch(name)
    row = next((row for row in ROWS if match is not None and row.name == match[1]), None)
    if match is None or row is None or (match[2] and row.a.name != "bf16"):
        return None
    return TileKernel(row, int(match[2] or 0))
