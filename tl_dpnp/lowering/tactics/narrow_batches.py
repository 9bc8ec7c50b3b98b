"""How long products of 16-bit elements take in batches of very many, in the forms of large products.

All cycles are those of a multiprocessor for one product.  What several units do at the same time, none of which bounds
all others by far, takes longer than the slowest of them: `overlapped`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.lowering.product_plans import LARGE_OF_NARROW
from tl_dpnp.lowering.sole_product import SoleProduct
from tl_dpnp.lowering.tactics.turns import overlapped
from tl_dpnp.lowering.tactics.warps import sizes_of
from tl_dpnp.records import dataclass
from tl_dpnp.target.multiprocessor import BlockedBatches, PackedBatches, TiledBatches, TileTime

__all__ = ["NarrowBatch", "PackedWork", "batch_of", "narrow_batch"]

#: Bytes of an element of an operand, and how much of a sum a panel of the tiled and the blocked form has.
_BYTES, _PANEL = 2, 64
#: Rows of the part of a tile that a warpgroup computes, and columns of the narrowest tile.
_GROUP, _COLUMNS = 64, 64


@dataclass(frozen=True)
class NarrowBatch:
    """Products of m x k and k x n, whose results have elements of `result` bytes and are added to if it `keeps` them.
    """

    m: int
    n: int
    k: int
    result: int
    keeps: bool

    @property
    def moved(self) -> int:
        """Bytes that a product reads and writes."""
        return _BYTES * self.k * (self.m + self.n) + self._results

    @property
    def _results(self) -> int:
        return self.m * self.n * self.result * (1 + self.keeps)

    @property
    def _panels(self) -> int:
        return -(-self.k // _PANEL)

    @property
    def _is_wide(self) -> bool:
        return self.result > _BYTES

    def in_blocks(self, rows: int, columns: int, numbers: BlockedBatches) -> float:
        """Return the cycles in the blocked form, by tiles of so many rows and columns."""
        speed, start = self.speed_of_block(rows, columns, numbers)
        return self._tiles(rows, columns) * (self._panels * rows * columns * _PANEL / speed + start)

    def speed_of_block(self, rows: int, columns: int, numbers: BlockedBatches) -> tuple[float, float]:
        """Return the multiplications of a cycle for a tile of the blocked form, and the cycles besides."""
        first, further = numbers.kept
        kept = self.keeps * self.m * self.n / self._tiles(rows, columns) * (first + further * (columns / _COLUMNS - 1))
        return (rows * columns * _PANEL / (numbers.panel + numbers.column * columns),
                numbers.start + (rows * columns * numbers.stored + kept) * (numbers.wide if self._is_wide else 1))

    def _tiles(self, rows: int, columns: int) -> int:
        """Return the tiles of so many rows and columns."""
        return -(-self.m // rows) * -(-self.n // columns)

    def in_tiles(self, rows: int, columns: int, together: int, numbers: TiledBatches) -> float:
        """Return the cycles in the tiled form, by tiles whose columns are rows of C; clusters have some together."""
        down, across = -(-self.n // (rows * together)) * together, -(-self.m // columns)
        brought = _BYTES * self.k * (self.n * across + self.m * down / together) + self._results
        tile = sum(self._cycles_of_tile(rows, columns, numbers))
        return overlapped(numbers.norm, (self.moved / numbers.memory_bytes, brought / numbers.cache_bytes,
                                         down * across * tile))

    def time_of_tile(self, rows: int, columns: int, resident: int, numbers: TiledBatches, time: TileTime) -> TileTime:
        """Return what the time of tiles is estimated by at a call, where `time` has what blocks take to share sums."""
        start, panels = self._cycles_of_tile(rows, columns, numbers)
        crowded = []
        for together in (1, 2):
            tiles = -(-self.n // (rows * together)) * together * -(-self.m // columns)
            cycles = self.in_tiles(rows, columns, together, numbers) * resident / tiles
            crowded.append(max(1.0, (cycles - start) / (resident * panels)))
        return replace(time, start=start, panel=panels / self._panels, crowded=crowded[0], crowded_together=crowded[1])

    def _cycles_of_tile(self, rows: int, columns: int, numbers: TiledBatches) -> tuple[float, float]:
        """Return the cycles of a tile of the tiled form besides its panels, and those of the panels."""
        stored = numbers.stored[self._is_wide] + self.keeps * numbers.kept[self._is_wide]
        return (numbers.start + _GROUP * columns * stored,
                self._panels * rows * columns * _PANEL / numbers.multiplications)


@dataclass(frozen=True)
class PackedWork:
    """What a block of the packed form does for each of the `parts` of a product.

    Factors are packed by `words` pairs of elements for each lane of a warp, and `halves` of which each is two loads;
    then a warp computes `tiles` in `steps` along the sum.  `brought` are the bytes that come each time the stage is
    filled, those of the first time with the results that leave meanwhile.
    """

    parts: int
    words: int
    halves: int
    tiles: int
    steps: int
    brought: Sequence[int]

    def cycles(self, batch: NarrowBatch, numbers: PackedBatches) -> float:
        """Return the cycles of a product."""
        first, *others = (size / numbers.cache_bytes for size in self.brought)
        stored = self.tiles * (numbers.stored + batch.keeps * numbers.kept)
        computed = self.tiles * self.steps * numbers.multiplication + stored
        part = (numbers.start + self.words * numbers.word + self.halves * numbers.half + max(first, computed)
                + sum(others) + numbers.fill * len(others))
        return overlapped(numbers.norm, (self.parts * part, batch.moved / numbers.memory_bytes))


def narrow_batch(gemm: ops.Contraction) -> NarrowBatch | None:
    """Return what the estimates are made of for many such products; None for others than those of 16-bit elements.

    Sizes are known, and large products go by the estimates for single ones.
    """
    a, b, c = (ops.memref_type(value) for value in (*gemm.inputs, gemm.output))
    if not (a.is_static and b.is_static and c.is_static) or (a.element, a.element.bits) != (b.element, _BYTES * 8):
        return None
    m, n, k = sizes_of(gemm)
    if not a.element.is_float or c.element.is_complex or m * n * k >= LARGE_OF_NARROW:
        return None
    return NarrowBatch(m, n, k, c.element.bytes, gemm.keeps)


def batch_of(found: SoleProduct | None) -> NarrowBatch | None:
    """Return the same of all that a function does; None where that is no product of each work-group's own result."""
    return None if found is None or not found.c.is_batched else narrow_batch(found.gemm)
