"""What is left to choose for an instruction when the form of the kernel is known, and what is chosen by default.

The defaults follow what was measured on AVX-512 CPUs.  A tile of C fills 8 to 24 vector registers and is two vectors
high or three, so that one broadcast element of B serves two multiply-adds and loads do not outnumber them.  Rows that
are left over share vectors, those of several columns in each.  The K loop is kept as a loop, unrolled whole only where
the tile is so small that its loop would cost more than its work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tl_dpnp.lowering.contraction import Contraction, only_sets
from tl_dpnp.lowering.nest import Bound
from tl_dpnp.lowering.tile_cycles import TileCycles, even_tile, vector_width
from tl_dpnp.records import dataclass
from tl_dpnp.target.core import CACHE_LINE, Core, TileNumbers

__all__ = ["Tiling", "memory_tiling", "subgroup_tiling", "unrolling", "vector_operations", "vector_tiling"]

#: Part of the estimated time that an unusual tile must save for a short sum to share vectors.
_DOUBT_OF_SHORT = 0.1
#: Steps of the sum that vectors of several columns take at once, at least.
_BLOCK = 4
#: Columns of a tile of C in the sub-group form.
_SUBGROUP_COLUMNS = 8


@dataclass(frozen=True)
class Tiling:
    """The size of the tiles of an instruction.

    A tile of C is `vectors` vectors high (of one element for each lane in the sub-group form, where it is 1) and
    `columns` wide, and stays in registers; an iteration of its K loop does `unroll` steps of the sum, and all of them
    where there are no more.
    """

    vectors: int
    columns: int
    unroll: int

    def __str__(self) -> str:
        return f"{self.vectors} vectors x {self.columns} columns, k by {self.unroll}"


def vector_tiling(contraction: Contraction, core: Core, highest: int | None = None) -> Tiling:
    """Return the default tiling for the vector form, of tiles that are at most so many vectors high.

    That of products with two sums for each element is that of twice as many columns.
    """
    if contraction.sums > 1 and contraction.columns != 1:
        columns = contraction.columns
        doubled = columns if not isinstance(columns, int) else contraction.sums * columns
        tiling = vector_tiling(replace(contraction, columns=doubled, sums=1), core, highest)
        return replace(tiling, columns=-(-tiling.columns // contraction.sums))
    if highest is not None:
        core = replace(core, tiles=replace(core.tiles, highest=min(core.tiles.highest, highest)))
    numbers, estimate, tile = core.tiles, TileCycles.of(contraction, core), _usual_tile(contraction, core, highest)
    if contraction.jam == 1:
        across = _tile_across(estimate)
        if across is not None:
            return across
        tile = _quickest_tile(estimate, tile)
        tile = _short_tile(estimate, tile) if only_sets(contraction) else tile
    vectors, columns = tile
    products = contraction.jam * vectors * columns
    if estimate.shares(tile):
        assert isinstance(contraction.rows, int)
        products = (vectors - 1) * columns + -(-columns * (contraction.rows % estimate.width) // estimate.width)
    # What reads each element once waits for memory, and prefetches best in small portions.
    once = contraction.columns == 1 and vectors > 1
    return Tiling(vectors, columns, 1 if once else unrolling(contraction.depth, products, numbers, vectors == 1))


def _tile_across(estimate: TileCycles) -> Tiling | None:
    """Return the tiling with vectors of several columns each, if that is quicker than one for each column."""
    across, columns, depth, core = estimate.across, estimate.columns, estimate.depth, estimate.core
    if across is None:
        return None
    assert isinstance(columns, int)
    vectors = -(-columns // across.columns)
    widths = dict.fromkeys(min(columns, even_tile(vectors, most) * across.columns) for most in range(vectors, 0, -1))
    tiles = [(1, width) for width in widths if estimate.gains_across((1, width))]
    if not tiles:
        return None
    best = min(tiles, key=lambda tile: estimate.cycles_across(tile[1]))
    products = -(-best[1] // across.columns)
    return Tiling(*best, max(unrolling(depth, products, core.tiles), _BLOCK))


def _usual_tile(contraction: Contraction, core: Core, highest: int | None) -> tuple[int, int]:
    """Return the height and width of the tiles of most products."""
    numbers, registers = core.tiles, core.accumulators
    vectors = _tile_height(contraction, vector_width(contraction, core), numbers)
    if highest is not None and vectors > highest:
        vectors = even_tile(-(-contraction.rows // vector_width(contraction, core)), highest) if (
            isinstance(contraction.rows, int)) else highest
    if contraction.jam > 1:
        registers = core.accumulators_jammed // contraction.jam
    elif vectors == 1:
        registers = core.accumulators_of_a_row
    most = min(numbers.columns_of_a_row if vectors == 1 else numbers.columns, registers // vectors)
    return vectors, even_tile(contraction.columns, most)


def _quickest_tile(estimate: TileCycles, usual: tuple[int, int]) -> tuple[int, int]:
    """Return the height and width of the tiles that a core needs fewest cycles for; the `usual` ones if in doubt.

    The cycles of a step say little about short sums, but that there is less to compute where vectors are shared.
    """
    rows, columns, depth, core = estimate.rows, estimate.columns, estimate.depth, estimate.core
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)):
        return usual
    is_deep = depth >= core.tiles.deep_sum
    times = {}
    for tile in _tiles(rows, columns, estimate):
        shares = estimate.shares(tile)
        if shares or (is_deep and tile[1] <= estimate.most_columns(tile[0])):
            times[tile] = estimate.cycles(tile, shares=shares)
    best = min(times, key=lambda tile: times[tile], default=usual)
    shares = estimate.shares(usual)
    enough = (1 - (core.tiles.doubt if is_deep or shares else _DOUBT_OF_SHORT)) * estimate.cycles(usual, shares=shares)
    return best if times.get(best, enough) < enough else usual


def _short_tile(estimate: TileCycles, tile: tuple[int, int]) -> tuple[int, int]:
    """Return the height and width of the tiles of a short sum, where a core has other ones for these.

    What is added to is loaded, too, and then larger ones are as fast.
    """
    rows, columns, depth = estimate.rows, estimate.columns, estimate.depth
    tiles = estimate.core.tiles.short_tile
    if tiles is None or not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)):
        return tile
    if depth > tiles.terms or columns == 1 or tile[0] == 1 or estimate.shares(tile):
        return tile
    height, most = tiles.of(-(-rows // estimate.width))
    short = height, even_tile(columns, most)
    return tile if estimate.shares(short) else short


def _tiles(rows: int, columns: int, estimate: TileCycles) -> Iterator[tuple[int, int]]:
    """Yield the tiles that cut a result evenly, and those that leave room for vectors that are shared."""
    vectors, core = -(-rows // estimate.width), estimate.core
    for height in dict.fromkeys(-(-vectors // count) for count in range(1, vectors + 1)):
        if height <= core.tiles.highest:
            even = even_tile(columns, estimate.most_columns(height))
            yield height, even
            if rows % estimate.width:
                sizes = dict.fromkeys(even_tile(columns, most) for most in range(core.tiles.columns_of_a_row, 0, -1))
                widest = next((size for size in sizes if estimate.fits((height, size))), 0)
                yield from ((height, size) for size in sizes if size != even and widest // 2 < size <= widest)


def memory_tiling(contraction: Contraction, core: Core) -> Tiling | None:
    """Return the tiling of a product whose operands come from memory; None where it is the default."""
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)) or contraction.jam > 1:
        return None
    width = vector_width(contraction, core)
    if columns <= 1 or rows < width or not depth:
        return None
    numbers, default = core.tiles, vector_tiling(contraction, core)
    core = replace(core, registers=core.registers // contraction.sums)
    size = contraction.element.bytes * (rows * depth + depth * columns + rows * columns)
    intensity = vector_operations(contraction, core) / size
    if intensity > numbers.bound_by_memory:
        return None
    if columns <= numbers.narrow and columns * (rows + depth) < rows * depth:
        tiling = _narrow_tiling(rows, columns, width, core, intensity)
    else:
        tiling = _flat_tiling(contraction, default, width, core)
    return None if tiling == default else tiling


def _narrow_tiling(rows: int, columns: int, width: int, core: Core, intensity: float) -> Tiling | None:
    """Return the tiling of a product whose first factor is most of what is read.

    Prefetchers of the hardware follow whole columns, and accesses of one line at a stride; several lines of a column
    and then a gap they take for a stream, and fetch what is not needed next.  Tiles are therefore as high as C, or one
    vector high.
    """
    height = -(-rows // width)
    if rows * columns <= core.accumulators_of_whole_columns * width:
        return Tiling(height, columns, 1)
    if height <= core.tiles.lines:
        return Tiling(height, even_tile(columns, core.accumulators // height), 1)
    least, most = core.tiles.columns_of_a_line
    if columns >= least and intensity <= core.tiles.bound_of_a_line:
        return Tiling(1, even_tile(columns, most), 1)
    return None


def _flat_tiling(contraction: Contraction, default: Tiling, width: int, core: Core) -> Tiling | None:
    """Return the tiling of a product with a result that is no smaller than its factors.

    Tiles are flat: what they make is stored past the caches tile by tile, and the fewer columns it has the more evenly
    that goes on beside the reading.  Whole tiles go before others, unless they take too many more cycles than the
    `default`; then it is the flat tiles of the fewest cycles, if these are not too many either.
    """
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    assert isinstance(rows, int)
    assert isinstance(columns, int)
    assert isinstance(depth, int)
    vectors, numbers = -(-rows // width), core.tiles
    height = vectors if vectors <= numbers.lines else next(
        (height for height, least in numbers.heights_from_memory if vectors >= least and vectors % height == 0), None)
    if height is None:
        return None
    estimate = TileCycles.of(contraction, core)

    def cycles(tile: tuple[int, int]) -> float:
        return estimate.cycles(tile, shares=estimate.shares(tile))

    most = max(2, min(numbers.columns_from_memory, core.accumulators // height))
    divisor = max(count for count in range(1, most + 1) if columns % count == 0)
    tile = divisor if divisor > 1 else even_tile(columns, most)
    lines = contraction.element.bytes * (rows * depth + depth * columns + rows * columns) / CACHE_LINE
    usual = cycles((default.vectors, default.columns))
    limit = max(numbers.cost_of_flat * usual, numbers.hidden_cycles * lines / depth)
    if cycles((height, tile)) > limit:
        tile = min(range(2, most + 1), key=lambda count: cycles((height, count)))
    if cycles((height, tile)) > limit:
        return None
    return Tiling(height, tile, unrolling(depth, height * tile, numbers))


def subgroup_tiling(contraction: Contraction, core: Core) -> Tiling:
    """Return the default tiling for the sub-group form."""
    columns = even_tile(contraction.columns, _SUBGROUP_COLUMNS)
    return Tiling(1, columns, unrolling(contraction.depth, columns, core.tiles))


def vector_operations(contraction: Contraction, core: Core) -> int:
    """Estimate the vector operations of one nest; an unknown size counts as 16."""
    sizes = [size if isinstance(size, int) else 16 for size in (contraction.rows, contraction.columns)]
    depth = contraction.depth if isinstance(contraction.depth, int) else 16 if contraction.depth is not None else 1
    vectors = -(-sizes[0] // vector_width(contraction, core))
    return vectors * sizes[1] * depth * contraction.sums


def _tile_height(contraction: Contraction, width: int, numbers: TileNumbers) -> int:
    """Return how many vectors high a tile of C is."""
    rows, columns = contraction.rows, contraction.columns
    if not isinstance(rows, int):
        return numbers.vectors
    vectors = -(-rows // width)
    if vectors == numbers.vectors + 1:
        return vectors  # rather than a tile and a half
    few = isinstance(columns, int) and columns <= numbers.few_columns
    return even_tile(vectors, numbers.vectors * (4 if columns == 1 else 2 if few else 1))


def unrolling(depth: Bound | None, products: int, numbers: TileNumbers, is_row: bool = False) -> int:
    """Return how many steps of a sum an iteration does whose tile has `products` vectors, in a row or in several."""
    most = numbers.short_iteration_of_a_row if is_row else numbers.short_iteration
    if isinstance(depth, int) and depth <= numbers.short_sum and depth * products <= most:
        return depth
    return max(1, min(4, numbers.iteration // products))
