"""One core of a processor, as far as it decides how the loops of a product run."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["CACHE_LINE", "Core", "TileNumbers"]

#: Bytes of a cache line of all processors and GPUs that are known.
CACHE_LINE = 64
#: What a load costs beside multiply-adds, as part of its time: enough to choose between tiles that are alike otherwise.
_DISTURBANCE = 0.1


@dataclass(frozen=True)
class TileNumbers:
    """Numbers that measurements chose for the tiles of a product on a core.

    A tile is `vectors` high, twice that where a result has `few_columns` or fewer, and four times that for one column,
    which is best read in the order of memory; where it is chosen by its cycles, it is at most `highest`, since each
    vector of a column is a line of the cache.  It has at most `columns`, or `columns_of_a_row` where it is one vector
    high and has registers to spare.

    Of a sum, one iteration holds `iteration` multiply-adds of vectors at most; it is unrolled whole where it has no
    more than `short_sum` terms, which make up to `short_iteration` multiply-adds, or `short_iteration_of_a_row` in a
    tile of one vector.  From `deep_sum` terms on, the cycles of a step decide about the tile.

    For operands from memory: up to `narrow` columns the first factor decides how fast a product is.  Memory decides up
    to `bound_by_memory` vector operations a byte; up to `bound_of_a_line`, tiles of one vector and of
    `columns_of_a_line`, from the least to the most, are fast enough.  Tiles of up to `lines` vectors side by side are
    as high as the result.  Others have `columns_from_memory`, and the first of the `heights_from_memory` that divides
    the height of the result, each with the least height that it is for.
    """

    vectors: int = 2
    highest: int = 5
    few_columns: int = 10
    columns: int = 8
    columns_of_a_row: int = 16
    iteration: int = 16
    short_sum: int = 8
    short_iteration: int = 128
    short_iteration_of_a_row: int = 128
    deep_sum: int = 12
    narrow: int = 16
    bound_by_memory: float = 1 / 3
    bound_of_a_line: float = 1 / 4
    columns_of_a_line: tuple[int, int] = (8, 10)
    lines: int = 4
    columns_from_memory: int = 5
    heights_from_memory: tuple[tuple[int, int], ...] = ((8, 16), (4, 4), (3, 3))


@dataclass(frozen=True)
class Core:
    """What one core does in a cycle, and what it does not do for free.

    `name` is what the setting ``TL_DPNP_CORE`` calls it.  `vector_bytes` is the width of its vectors as the compiler
    uses them and `registers` the number of those.  A cycle has so many `multiply_adds` of whole vectors, and `loads` of
    `load_bytes` or of one element for all lanes; the result of a multiply-add is there after `latency` cycles.  Of the
    loads only `load_share` is there for the operands of a product, because cache lines that arrive take turns with
    them.  `shuffles_multiply` says that shuffles take a port that multiply-adds need, and `masks` that masked loads and
    stores cost no more than whole ones.
    """

    name: str
    vector_bytes: int
    registers: int
    multiply_adds: int = 2
    loads: int = 2
    load_bytes: int = 32
    load_share: float = 1.0
    latency: int = 4
    shuffles_multiply: bool = False
    masks: bool = False
    tiles: TileNumbers = field(default_factory=TileNumbers)

    def __str__(self) -> str:
        return self.name

    def cycles(self, height: int, columns: int) -> float:
        """Estimate the cycles of one step of the sum of a tile of `height` vectors and so many columns.

        The tile waits for its multiply-adds, its loads, or the step before; loads that nothing waits for disturb a bit.
        """
        vector = -(-self.vector_bytes // self.load_bytes)
        loads = (height * vector + columns) / (self.loads * self.load_share)
        return max(height * columns / self.multiply_adds, loads, self.latency) + _DISTURBANCE * loads

    @property
    def stores_lines(self) -> bool:
        """Whether a vector is a whole cache line, so that it can be stored past the caches."""
        return self.vector_bytes == CACHE_LINE

    @property
    def accumulators(self) -> int:
        """Registers that a tile of a result may take; the others are for operands."""
        return self.registers * 2 // 3

    @property
    def accumulators_shared(self) -> int:
        """The same where rows that are left over share vectors: elements of B that are put together take more."""
        return self.registers * 9 // 16

    @property
    def accumulators_jammed(self) -> int:
        """Those that the tiles of two work-groups take together; what a chain keeps between its products takes more."""
        return self.registers * 3 // 8

    @property
    def accumulators_of_whole_columns(self) -> int:
        """Those of a narrow tile that is as high as its result.

        Spilling some costs less than to read the first factor out of order.
        """
        return self.registers * 5 // 4
