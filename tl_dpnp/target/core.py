"""One core of a processor, as far as it decides how the loops of a product run."""

from __future__ import annotations

import math
from dataclasses import field
from typing import NamedTuple

from tl_dpnp.records import dataclass

__all__ = ["CACHE_LINE", "Across", "Core", "Shared", "ShortTile", "TileNumbers"]

#: Bytes of a cache line of all processors and GPUs that are known.
CACHE_LINE = 64
#: What a load costs beside multiply-adds, as part of its time: enough to choose between tiles that are alike otherwise.
#: That of a vector is a core's `disturbance` where it was measured.
_DISTURBANCE = 0.1
#: Cycles in which a vector of a copy is loaded and stored.
_MOVES = 2
#: Bytes of the parts of a vector within which elements are shuffled without a vector of indices.
_SHUFFLED_IN_PLACE = 16
#: Single elements that LLVM 18 puts into a vector one after the other.
_ELEMENTS_OF_A_PART = 8


class ShortTile(NamedTuple):
    """The tiles of sums of so many `terms` at most.

    They are up to `highest` vectors high where that cuts the rows evenly into tiles higher than `height`, which others
    have at most, and have as many columns as make so many `vectors` at least.
    """

    terms: int
    height: int
    highest: int
    vectors: int

    def of(self, vectors: int) -> tuple[int, int]:
        """Return the height of the tiles of rows of so many vectors, and how many columns they have at most."""
        tiles = -(-vectors // self.height)
        even = (height for height in range(self.highest, self.height, -1) if vectors % height == 0)
        height = next(even, -(-vectors // tiles))
        return height, -(-self.vectors // height)


@dataclass(frozen=True)
class TileNumbers:
    """Numbers that measurements chose for the tiles of a product on a core.

    A tile is `vectors` high, twice that where a result has `few_columns` or fewer, and four times that for one column,
    which is best read in the order of memory; where it is chosen by its cycles, it is at most `highest`, since each
    vector of a column is a line of the cache.  It has at most `columns`, or `columns_of_a_row` where it is one vector
    high and has registers to spare.

    Of a sum, one iteration holds `iteration` multiply-adds of vectors at most; it is unrolled whole where it has no
    more than `short_sum` terms, which make up to `short_iteration` multiply-adds, or `short_iteration_of_a_row` in a
    tile of one vector.  From `deep_sum` terms on, the cycles of a step decide about the tile, if one that is
    unusual saves the part `doubt` of them; `short_tile`, where it is given, are the tiles of shorter sums where nothing
    is added to: a core that looks ahead far enough computes the next tile while it stores this one.

    Vectors along the sum save at least the part `doubt_along_sum` of the cycles of others.

    A copy for a tile of rows that is higher than most has `bytes_of_panel` at most: a quarter of the nearest cache,
    since what is copied passes through that, too.

    For operands from memory: they are fetched up to `bytes_ahead` of their use.  Up to `narrow` columns the first
    factor decides how fast a product is.  Memory decides up to `bound_by_memory` vector operations a byte; up to
    `bound_of_a_line`, tiles of one vector and of `columns_of_a_line`, from the least to the most, are fast enough.
    Tiles of up to `lines` vectors side by side are as high as the result.  Others have `columns_from_memory`, and the
    first of the `heights_from_memory` that divides the height of the result, each with the least height that it is for.
    Such tiles are flat, and may take `cost_of_flat` times the cycles of others, or `hidden_cycles` for each line of
    the operands and the result, which pass while lines arrive.
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
    doubt: float = 0.02
    doubt_along_sum: float = 0.1
    short_tile: ShortTile | None = None
    bytes_of_panel: int = 12 << 10
    bytes_ahead: int = 48 << 10
    narrow: int = 16
    bound_by_memory: float = 1 / 3
    bound_of_a_line: float = 1 / 4
    columns_of_a_line: tuple[int, int] = (8, 10)
    lines: int = 4
    columns_from_memory: int = 5
    heights_from_memory: tuple[tuple[int, int], ...] = ((8, 16), (4, 4), (3, 3))
    cost_of_flat: float = math.inf
    hidden_cycles: float = 0.0


class Shared(NamedTuple):
    """Vectors of so many `lanes` that hold the same `rows` of several columns, one column after the other.

    The elements of B for such a vector are loaded one by one, or `together`.
    """

    rows: int
    lanes: int
    together: bool = False

    @property
    def period(self) -> int:
        """After how many vectors one begins at a column again."""
        return self.rows // math.gcd(self.rows, self.lanes)

    def counts(self, columns: int) -> tuple[int, int]:
        """Return how many vectors so many columns share, and the shuffles that put elements of B into them.

        Those are one for each element behind the first one of a vector, of which there is one more where a vector
        begins inside a column; and one for each vector whose elements are loaded together.
        """
        vectors = -(-columns * self.rows // self.lanes)
        inside = vectors - 1 - (vectors - 1) // self.period
        return vectors, vectors if self.together else columns + inside - vectors


class Across(NamedTuple):
    """Vectors of `lanes` that hold the same `rows` of several columns, each of them from a `place` of its own on.

    The elements of B for such a vector are loaded in blocks of its columns and of several `steps` of the sum.
    """

    rows: int
    lanes: int

    @property
    def place(self) -> int:
        """The lanes of a column: a power of two, so that no column is in two vectors."""
        return 1 << (self.rows - 1).bit_length()

    @property
    def columns(self) -> int:
        """How many columns a vector has."""
        return self.lanes // self.place

    @property
    def steps(self) -> int:
        """The steps of a block: so many that it is a vector, and no more than the elements of one in 128 bits."""
        return min(self.place, 4)


@dataclass(frozen=True)
class Core:
    """What one core does in a cycle, and what it does not do for free.

    `name` is what the setting ``TL_DPNP_CORE`` calls it.  `vector_bytes` is the width of its vectors as the compiler
    uses them and `registers` the number of those.  A cycle has so many `multiply_adds` of whole vectors, and `loads` of
    `load_bytes` or `element_loads` of one element for all lanes; the result of a multiply-add is there after `latency`
    cycles.  Of the loads of vectors only `load_share` is there for the operands of a product, because cache lines that
    arrive take turns with them; where nothing waits for one it costs `disturbance` of its time.  `shuffle` is how many
    cycles multiply-adds wait for an element that is put into a vector beside one of another column: the time of a
    multiply-add where it takes a port that those need, and less where it has others.  `masks` says that masked loads
    and stores cost no more than whole ones.  Compilers make vectors of less than `narrowest_bytes` out of wider ones,
    whose other lanes they set to zero before each operation.
    A core that `unlaminates` makes two micro-operations of a multiply-add with an operand in memory whose address has
    an index: of what it looks ahead to find work, they take twice the room.  One that `keeps_what_is_used_once` has
    lines that it was told to fetch for a single use (PREFETCHNTA) stay in the nearest cache as long as others.
    """

    name: str
    vector_bytes: int
    registers: int
    multiply_adds: int = 2
    loads: int = 2
    element_loads: int = 2
    load_bytes: int = 32
    load_share: float = 1.0
    latency: int = 4
    disturbance: float = _DISTURBANCE
    shuffle: float = 0.25
    masks: bool = False
    narrowest_bytes: int = 16
    unlaminates: bool = False
    keeps_what_is_used_once: bool = True
    tiles: TileNumbers = field(default_factory=TileNumbers)

    def __str__(self) -> str:
        return self.name

    def cycles(self, height: int, columns: int, shared: Shared | None = None, *, splits: bool = False) -> float:
        """Estimate the cycles of one step of the sum of a tile of `height` vectors and so many columns.

        The tile waits for its multiply-adds and what is shuffled for them, its loads, or the step before; loads that
        nothing waits for disturb a bit.  Rows that are left over may be in `shared` vectors.  Where columns of A begin
        anywhere, a load `splits` into one of each cache line that it meets.
        """
        vectors, shuffles = shared.counts(columns) if shared else (0, 0)
        elements = vectors if shared and shared.together and not height else columns
        vector = -(-self.vector_bytes // self.load_bytes)
        lines = 1 + self.load_bytes / CACHE_LINE if splits else 1
        loads = (height + (shared is not None)) * vector * lines
        products = (height * columns + vectors) / self.multiply_adds + self.shuffle * shuffles
        return self._cycles(products, loads, elements)

    def across(self, columns: int, across: Across, *, together: bool = False, single: bool = False) -> float:
        """Estimate the cycles of one step of the sum of a tile of so many columns, whose vectors hold several each.

        Each vector takes its elements of B out of its block, to whose first column the others were put one by one, or
        which was loaded `together`.  `single` steps are not in blocks: the elements of each column are loaded and put
        in by themselves.
        """
        vectors, steps = -(-columns // across.columns), 1 if single else across.steps
        joined = 0 if together else (columns - vectors) / steps
        loads = 1 + (vectors if together else columns / steps)
        products = vectors / self.multiply_adds + self.shuffle * (joined + vectors)
        return self._cycles(products, loads)

    def inner(self, rows: int, vectors: int, beside: int = 1, *, splits: bool = False) -> float:
        """Estimate the cycles of one step of a tile of inner products, whose vectors run along the sum.

        A vector is loaded for each row of A, which may begin anywhere in a cache line, and for each column of B.  With
        several columns `beside` one another, a vector has a part of B for each, and those terms of A in each part.
        """
        vector = -(-self.vector_bytes // self.load_bytes)
        lines = 1 + min(self.load_bytes, self.vector_bytes // beside) / CACHE_LINE if splits else 1
        if beside > 1:
            return self._cycles(rows * vectors / self.multiply_adds, vectors * vector, rows * lines)
        return self._cycles(rows * vectors / self.multiply_adds, (rows * lines + vectors) * vector)

    def lane_sums(self, vectors: int, lanes: int, beside: int = 1) -> float:
        """Estimate the cycles in which the lanes of several vectors are added up, each for itself.

        Two vectors become one by an addition, what chooses lanes for it, and a shuffle; what is then left of a vector
        is halved.  Of vectors with several columns `beside` one another so many lanes of each are added up, and the
        results taken apart.
        """
        halvings = math.log2(lanes / vectors)
        return (vectors - 1) * (2 / self.multiply_adds + self.shuffle) + halvings * (
            1 / self.multiply_adds + self.shuffle) + (beside - 1) * self.shuffle

    def transposition(self, lanes: int) -> float:
        """Estimate the cycles for a vector of so many lanes of a copy that is transposed in registers."""
        return max(_MOVES, 2 * self.shuffle * math.log2(lanes))

    def _cycles(self, products: float, vectors: float, elements: float = 0) -> float:
        """Return the cycles of what is computed, and of loads of vectors and of elements beside it."""
        vector_loads = self.loads * self.load_share
        loads = vectors / vector_loads + elements / self.element_loads
        disturbed = (self.disturbance * vectors + _DISTURBANCE * elements) / vector_loads
        return max(products, loads, self.latency) + disturbed

    def registers_across(self, columns: int, across: Across) -> int:
        """Return the registers of such a tile: its sums, a block of A, two of B, what a shuffle makes of those, and how
        they are shuffled where columns take more than 128 bits."""
        indices = across.steps if across.place * self.vector_bytes // across.lanes > _SHUFFLED_IN_PLACE else 0
        return -(-columns // across.columns) + across.steps + 4 + indices

    def registers_shared(self, height: int, columns: int, shared: Shared) -> int:
        """Return the registers of a tile of `height` vectors, with rows that share others.

        They are for its sums, for what its columns have of B where that is not loaded together, for a vector of A and
        its rest, which is loaded in one piece or two, and for the ways in which the rest is spread over vectors: one
        where these begin at columns.  Many single elements LLVM puts together in parts, of which one takes a register.
        """
        vectors, _ = shared.counts(columns)
        elements = 0 if shared.together and not height else columns
        ways = min(vectors, shared.period)
        parts = shared.rows == 1 and elements > _ELEMENTS_OF_A_PART
        return height * columns + vectors + elements + 1 + min(2, shared.rows.bit_count()) + ways + parts

    @property
    def joins_parts(self) -> bool:
        """Whether vectors that are transposed, of f32 or f64, are put together of parts of 128 bits in memory.

        An insertion from memory takes any port, a shuffle of vectors one that multiply-adds need (Fog, "Instruction
        tables", ``VINSERTF128`` with an operand in memory).
        """
        return self.shuffle >= 1 / self.multiply_adds and self.stores_lines

    @property
    def stores_lines(self) -> bool:
        """Whether a vector is a whole cache line, so that it can be stored past the caches."""
        return self.vector_bytes == CACHE_LINE

    @property
    def accumulators(self) -> int:
        """Registers that a tile of a result may take; the others are for operands."""
        return self.registers * 2 // 3

    @property
    def accumulators_of_a_row(self) -> int:
        """The same of a tile of one vector: those of AVX-512 are multiplied by an element that is in memory."""
        return self.registers - 2 if self.stores_lines else self.accumulators

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
