"""What is left to choose for an instruction when the form of the kernel is known, and what is chosen by default.

The defaults follow what was measured on AVX-512 CPUs.  A tile of C fills 8 to 21 vector registers and is two vectors
high, so that one broadcast element of B serves two multiply-adds and loads do not outnumber them.  Rows that are left
over share vectors, those of several columns in each.  The K loop is kept as a loop, unrolled whole only where the tile
is so small that its loop would cost more than its work.
"""

from __future__ import annotations

from dataclasses import dataclass

from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.nest import Bound

__all__ = [
    "Tiling", "even_tile", "memory_tiling", "rest_of_rows", "subgroup_tiling", "unrolling", "vector_operations",
    "vector_tiling", "vector_width",
]

#: Vector registers that a tile of C may take, by vector size in bytes: of the 32 of AVX-512, the 16 of AVX2 and SSE.
_ACCUMULATORS = {64: 21, 32: 10, 16: 10}
#: The same where rows that are left over share vectors, since elements of B that are put together take more.
_ACCUMULATORS_SHARED = {64: 18, 32: 9, 16: 9}
#: Those that the tiles of two work-groups take together; what a chain keeps between its products stays in the others.
_ACCUMULATORS_JAMMED = {64: 12, 32: 6, 16: 6}
#: Vectors that a tile is high, and the number of columns up to which it may be twice as high; one column may be four
#: times as high, since what it is made of is best read in the order of memory.
_TILE_VECTORS, _FEW_COLUMNS = 2, 10
#: Columns of a tile at most: more where a tile is one vector high, since it then has registers to spare.
_MOST_COLUMNS, _MOST_COLUMNS_OF_A_ROW = 8, 16
#: Columns of a result up to which its first factor decides how fast a product from memory is.
_NARROW = 16
#: Accumulators of a tile of a narrow result that is as high as C, where spilling some costs less than to read the first
#: factor out of order, and vectors of such a tile where several are side by side; the fewest columns of a tile of one
#: vector, and the most.
_ACCUMULATORS_OF_WHOLE_COLUMNS, _FEW_LINES = {64: 40, 32: 20, 16: 20}, 4
_LEAST_COLUMNS_OF_A_LINE, _MOST_COLUMNS_OF_A_LINE = 8, 10
#: Vector operations for each byte up to which memory decides, and up to which tiles of one vector are fast enough.
_BOUND_BY_MEMORY, _BOUND_OF_A_LINE = 1 / 3, 1 / 4
#: Columns of a tile of other results from memory, and heights that divide that of C, with the least height of C.
_COLUMNS_FROM_MEMORY, _HEIGHTS_FROM_MEMORY = 5, ((8, 16), (4, 4), (3, 3))
#: Columns of a tile of C in the sub-group form.
_SUBGROUP_COLUMNS = 8
#: Vector products that one iteration of the K loop may hold after unrolling.
_PRODUCTS_PER_ITERATION = 16
#: K loops up to this length are unrolled whole, where they hold no more vector products than this.
_SHORT_REDUCTION, _MOST_PRODUCTS = 8, 128


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


def vector_width(contraction: Contraction, vector_bytes: int) -> int:
    """Return the number of lanes of a vector of the nest's element type; SPIR-V allows 16 at most.

    Half a vector where the rows of a matrix fill more than that and less than a whole one: the others share vectors.
    """
    width = min(16, vector_bytes // contraction.element.bytes)
    rows = contraction.rows
    halves = isinstance(rows, int) and width // 2 < rows < width and contraction.columns != 1
    return width // 2 if halves else width


def rest_of_rows(rows: Bound, width: int) -> int:
    """Return how many rows are left over by whole vectors and few enough to share vectors; 0 if unknown."""
    rest = rows % width if isinstance(rows, int) else 0
    return rest if rest <= width // 2 else 0


def vector_tiling(contraction: Contraction, vector_bytes: int) -> Tiling:
    """Return the default tiling for the vector form."""
    width = vector_width(contraction, vector_bytes)
    registers = _ACCUMULATORS[vector_bytes] if contraction.jam == 1 else (
        _ACCUMULATORS_JAMMED[vector_bytes] // contraction.jam)
    vectors = _tile_height(contraction, width)
    most = min(_MOST_COLUMNS_OF_A_ROW if vectors == 1 else _MOST_COLUMNS, registers // vectors)
    rest = rest_of_rows(contraction.rows, width)
    if rest:
        assert isinstance(contraction.rows, int)
        # The last tile is the one that shares vectors; it is as high as the others or less.
        full = contraction.rows // width % vectors
        shared = max(1, min(_MOST_COLUMNS_OF_A_ROW, int(_ACCUMULATORS_SHARED[vector_bytes] / (full + rest / width))))
        most = shared if contraction.rows < vectors * width else min(most, shared)
    columns = _tile_width(contraction.columns, most, rest, width)
    products = contraction.jam * vectors * columns
    if rest:
        products = (vectors - 1) * columns + -(-columns * rest // width)
    # What reads each element once waits for memory, and prefetches best in small portions.
    unroll = 1 if contraction.columns == 1 and vectors > 1 else unrolling(contraction.depth, products)
    return Tiling(vectors, columns, unroll)


def memory_tiling(contraction: Contraction, vector_bytes: int) -> Tiling | None:
    """Return the tiling of a product whose operands come from memory; None where it is the default."""
    rows, columns, depth = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(rows, int) and isinstance(columns, int) and isinstance(depth, int)) or contraction.jam > 1:
        return None
    width = vector_width(contraction, vector_bytes)
    if columns <= 1 or rows < width or not depth:
        return None
    size = contraction.element.bytes * (rows * depth + depth * columns + rows * columns)
    intensity = vector_operations(contraction, vector_bytes) / size
    if intensity > _BOUND_BY_MEMORY:
        return None
    if columns <= _NARROW and columns * (rows + depth) < rows * depth:
        tiling = _narrow_tiling(rows, columns, width, vector_bytes, intensity)
    else:
        tiling = _flat_tiling(rows, columns, depth, width, vector_bytes)
    return None if tiling == vector_tiling(contraction, vector_bytes) else tiling


def _narrow_tiling(rows: int, columns: int, width: int, vector_bytes: int, intensity: float) -> Tiling | None:
    """Return the tiling of a product whose first factor is most of what is read.

    Prefetchers of the hardware follow whole columns, and accesses of one line at a stride; several lines of a column
    and then a gap they take for a stream, and fetch what is not needed next.  Tiles are therefore as high as C, or one
    vector high.
    """
    height = -(-rows // width)
    if rows * columns <= _ACCUMULATORS_OF_WHOLE_COLUMNS[vector_bytes] * width:
        return Tiling(height, columns, 1)
    if height <= _FEW_LINES:
        return Tiling(height, even_tile(columns, _ACCUMULATORS[vector_bytes] // height), 1)
    if columns >= _LEAST_COLUMNS_OF_A_LINE and intensity <= _BOUND_OF_A_LINE:
        return Tiling(1, even_tile(columns, _MOST_COLUMNS_OF_A_LINE), 1)
    return None


def _flat_tiling(rows: int, columns: int, depth: int, width: int, vector_bytes: int) -> Tiling | None:
    """Return the tiling of a product with a result that is no smaller than its factors.

    Tiles are flat: what they make is stored past the caches tile by tile, and the fewer columns it has the more evenly
    that goes on beside the reading.
    """
    vectors = -(-rows // width)
    height = vectors if vectors <= _FEW_LINES else next(
        (height for height, least in _HEIGHTS_FROM_MEMORY if vectors >= least and vectors % height == 0), None)
    if height is None:
        return None
    most = max(2, min(_COLUMNS_FROM_MEMORY, _ACCUMULATORS[vector_bytes] // height))
    divisor = max(count for count in range(1, most + 1) if columns % count == 0)
    tile = divisor if divisor > 1 else even_tile(columns, most)
    return Tiling(height, tile, unrolling(depth, height * tile))


def subgroup_tiling(contraction: Contraction) -> Tiling:
    """Return the default tiling for the sub-group form."""
    columns = even_tile(contraction.columns, _SUBGROUP_COLUMNS)
    return Tiling(1, columns, unrolling(contraction.depth, columns))


def vector_operations(contraction: Contraction, vector_bytes: int) -> int:
    """Estimate the vector operations of one nest; an unknown size counts as 16."""
    sizes = [size if isinstance(size, int) else 16 for size in (contraction.rows, contraction.columns)]
    depth = contraction.depth if isinstance(contraction.depth, int) else 16 if contraction.depth is not None else 1
    vectors = -(-sizes[0] // vector_width(contraction, vector_bytes))
    return vectors * sizes[1] * depth


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


def _tile_height(contraction: Contraction, width: int) -> int:
    """Return how many vectors high a tile of C is."""
    rows, columns = contraction.rows, contraction.columns
    if not isinstance(rows, int):
        return _TILE_VECTORS
    vectors = -(-rows // width)
    if vectors == _TILE_VECTORS + 1:
        return vectors  # rather than a tile and a half
    few = isinstance(columns, int) and columns <= _FEW_COLUMNS
    return even_tile(vectors, _TILE_VECTORS * (4 if columns == 1 else 2 if few else 1))


def unrolling(depth: Bound | None, products: int) -> int:
    """Return how many steps of a sum an iteration does whose tile has `products` vectors."""
    if isinstance(depth, int) and depth <= _SHORT_REDUCTION and depth * products <= _MOST_PRODUCTS:
        return depth
    return max(1, min(4, _PRODUCTS_PER_ITERATION // products))
