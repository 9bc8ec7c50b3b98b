"""What is left to choose for an instruction when the form of the kernel is known, and what is chosen by default.

The defaults follow what was measured on AVX-512 CPUs.  A tile of C fills 8 to 21 vector registers and is two vectors
high, so that one broadcast element of B serves two multiply-adds and loads do not outnumber them.  Rows that are left
over share vectors, those of several columns in each.  The K loop is kept as a loop, unrolled whole only where the tile
is so small that its loop would cost more than its work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tl_dpnp.kernels.llvm import MOST_LANES
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.nest import Bound
from tl_dpnp.target.core import Core, TileNumbers

__all__ = [
    "Tiling", "cut", "cycles", "even_tile", "memory_tiling", "most_columns", "rest_of_rows", "subgroup_tiling",
    "unrolling", "vector_operations", "vector_tiling", "vector_width",
]

#: Part of the estimated time that an unusual tile must save.
_DOUBT = 0.02
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


def vector_width(contraction: Contraction, core: Core) -> int:
    """Return the number of lanes of a vector of the nest's element type; SPIR-V allows 16 at most.

    Half a vector where the rows of a matrix fill more than that and less than a whole one: the others share vectors.
    Cores with masks leave lanes of a whole vector empty instead.
    """
    width = min(MOST_LANES, core.vector_bytes // contraction.element.bytes)
    rows = contraction.rows
    halves = isinstance(rows, int) and width // 2 < rows < width and contraction.columns != 1
    return width // 2 if halves and not core.masks else width


def rest_of_rows(rows: Bound, width: int, core: Core) -> int:
    """Return how many rows are left over by whole vectors and few enough to share vectors; 0 if unknown.

    A vector of their own is better where the shuffles that put elements together hold up the multiply-adds, unless
    they would need several small ones for that.
    """
    rest = rows % width if isinstance(rows, int) else 0
    most = max(1, width // 16) if core.shuffles_multiply and isinstance(rows, int) and rows > width else width // 2
    return rest if rest <= most else 0


def vector_tiling(contraction: Contraction, core: Core) -> Tiling:
    """Return the default tiling for the vector form.

    That of products with two sums for each element is that of twice as many columns.
    """
    if contraction.sums > 1 and contraction.columns != 1:
        columns = contraction.columns
        doubled = columns if not isinstance(columns, int) else contraction.sums * columns
        tiling = vector_tiling(replace(contraction, columns=doubled, sums=1), core)
        return replace(tiling, columns=-(-tiling.columns // contraction.sums))
    numbers, width = core.tiles, vector_width(contraction, core)
    registers = core.accumulators if contraction.jam == 1 else core.accumulators_jammed // contraction.jam
    vectors = _tile_height(contraction, width, numbers)
    most = min(numbers.columns_of_a_row if vectors == 1 else numbers.columns, registers // vectors)
    rest = rest_of_rows(contraction.rows, width, core)
    if rest:
        assert isinstance(contraction.rows, int)
        # The last tile is the one that shares vectors; it is as high as the others or less.
        full = contraction.rows // width % vectors
        shared = max(1, min(numbers.columns_of_a_row, int(core.accumulators_shared / (full + rest / width))))
        most = shared if contraction.rows < vectors * width else min(most, shared)
    columns = _tile_width(contraction.columns, most, rest, width)
    products = contraction.jam * vectors * columns
    if rest:
        products = (vectors - 1) * columns + -(-columns * rest // width)
    elif contraction.jam == 1:
        vectors, columns = _quickest_tile(contraction, width, core, (vectors, columns))
        products = vectors * columns
    # What reads each element once waits for memory, and prefetches best in small portions.
    once = contraction.columns == 1 and vectors > 1
    return Tiling(vectors, columns, 1 if once else unrolling(contraction.depth, products, numbers, vectors == 1))


def _quickest_tile(
    contraction: Contraction, width: int, core: Core, usual: tuple[int, int]
) -> tuple[int, int]:
    """Return the height and width of the tiles that a core needs fewest cycles for; the `usual` ones if in doubt."""
    rows, columns = contraction.rows, contraction.columns
    depth = contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)):
        return usual
    if depth < core.tiles.deep_sum:
        return usual
    vectors = -(-rows // width)
    best, least = usual, cycles(vectors, columns, usual, core)
    for count in range(1, vectors + 1):
        height = -(-vectors // count)
        if height > core.tiles.highest:
            continue
        tile = height, even_tile(columns, most_columns(height, core))
        time = cycles(vectors, columns, tile, core)
        if time < (1 - _DOUBT) * least:
            best, least = tile, time
    return best


def most_columns(height: int, core: Core) -> int:
    """Return how many columns a tile may have: with its sums, a broadcast for each of them is in registers."""
    most = (core.registers - 1) // (height + 1) if height > 1 else core.tiles.columns_of_a_row
    return min(most, core.tiles.columns_of_a_row)


def cycles(vectors: int, columns: int, tile: tuple[int, int], core: Core) -> float:
    """Estimate the cycles of one step of the sum of all tiles."""
    total = 0.0
    for height, times in cut(vectors, tile[0]):
        for width, count in cut(columns, tile[1]):
            total += times * count * core.cycles(height, width)
    return total


def cut(size: int, tile: int) -> list[tuple[int, int]]:
    """Return the sizes of the tiles that `size` is cut into, and how many there are of each."""
    return [(length, count) for length, count in ((tile, size // tile), (size % tile, 1)) if length and count]


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
        tiling = _flat_tiling(rows, columns, depth, width, core)
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


def _flat_tiling(rows: int, columns: int, depth: int, width: int, core: Core) -> Tiling | None:
    """Return the tiling of a product with a result that is no smaller than its factors.

    Tiles are flat: what they make is stored past the caches tile by tile, and the fewer columns it has the more evenly
    that goes on beside the reading.
    """
    vectors, numbers = -(-rows // width), core.tiles
    height = vectors if vectors <= numbers.lines else next(
        (height for height, least in numbers.heights_from_memory if vectors >= least and vectors % height == 0), None)
    if height is None:
        return None
    most = max(2, min(numbers.columns_from_memory, core.accumulators // height))
    divisor = max(count for count in range(1, most + 1) if columns % count == 0)
    tile = divisor if divisor > 1 else even_tile(columns, most)
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


def even_tile(size: Bound, largest: int) -> int:
    """Return the tile size that cuts `size` into the fewest tiles, as even as possible."""
    if not isinstance(size, int):
        return largest
    tiles = -(-size // largest)
    return -(-size // tiles)


def _tile_width(columns: Bound, most: int, rest: int, width: int) -> int:
    """Return how wide a tile is: even, but so that the `rest` of the rows of its columns fills vectors well."""
    even = even_tile(columns, most)
    if not isinstance(columns, int) or not rest:
        return even

    def shared(tile: int) -> int:
        full, last = divmod(columns, tile)
        return full * -(-tile * rest // width) + -(-last * rest // width)

    tiles = -(-columns // most)
    return min((tile for tile in range(even, most + 1) if -(-columns // tile) == tiles), key=shared)


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
