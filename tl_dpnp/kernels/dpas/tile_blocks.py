"""Which blocks a sub-group loads for an iteration of its tile, and where in them the fragments lie that DPAS takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tl_dpnp.kernels.dpas.block_messages import Surface
from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, RULES, Block, Kind
from tl_dpnp.kernels.dpas.fragments import Matrix, Size
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.records import dataclass

__all__ = [
    "TileLoad", "TileLoads", "fetches_ahead", "loads_of_a", "loads_of_b", "loads_of_both", "operand_surface",
    "parts_of",
]

#: Iterations of a sum that is not short.
_LEAST_ITERATIONS = 8


@dataclass(frozen=True)
class TileLoad:
    """A block and its first line and first k in the tile; `fragments` maps (block of lines, step) to a byte offset."""

    block: Block
    line: int
    k: int
    fragments: dict[tuple[int, int], int]


@dataclass(frozen=True)
class TileLoads:
    """The loads of an operand; lines of the tile are columns of the block where `lines_are_columns`, else its rows.

    The header of the next iteration differs by `elements` of the block along k.  `order` are the lines of the tile as
    they follow one another in fragments.
    """

    loads: tuple[TileLoad, ...]
    lines_are_columns: bool
    elements: int
    order: tuple[int, ...]

    @property
    def k_field(self) -> int:
        """The field of a header that moves along k."""
        return ROW if self.lines_are_columns else COLUMN


def operand_surface(matrix: Matrix, lines: Size, k: Size, along_k: bool) -> Surface:
    """Return an operand as messages take it; its strides are along lines and along k, one of which is 1."""
    bits = matrix.element.bits
    if along_k:
        return Surface(matrix.pointer, bits, k, lines, matrix.strides[0])
    return Surface(matrix.pointer, bits, lines, k, matrix.strides[1])


def loads_of_a(kernel: MicroKernel, along_k: bool) -> TileLoads:
    """Return the loads of A, whose elements follow one another `along_k`, or along its rows."""
    row, lanes = kernel.row, kernel.row.execution_size
    bits, size = row.source1.bits, row.b_elements * RULES.register_bytes
    if along_k:
        # A fragment has a register for each word of k, and lines in its lanes.
        block = Block("transposed", 32, row.b_elements, lanes)
        loads = tuple(TileLoad(block, i * lanes, step * row.k, {(i, step): 0})
                      for i in range(kernel.lane_blocks) for step in range(kernel.steps))
        return TileLoads(loads, False, kernel.steps * row.b_elements, tuple(range(kernel.tile_rows)))
    together = _most(kernel.steps, RULES.rows // row.k)
    widest = RULES.row_bytes * 8 // (lanes * bits)
    kind: Kind = "plain" if bits == 32 else "packed"
    found = []
    for step in range(0, kernel.steps, together):
        most = min(widest, RULES.registers // (row.b_elements * together))
        for first, count in _parts(kernel.lane_blocks, most):
            fragments = {(first + i, step + j): (i * together + j) * size
                         for i in range(count) for j in range(together)}
            block = Block(kind, bits, lanes, together * row.k, count)
            found.append(TileLoad(block, first * lanes, step * row.k, fragments))
    return TileLoads(tuple(found), True, kernel.depth, tuple(range(kernel.tile_rows)))


def loads_of_b(kernel: MicroKernel, along_k: bool, apart: Kind = "split") -> TileLoads:
    """Return the loads of B, whose elements follow one another `along_k`, or along its columns.

    In the latter case words are taken `apart` as that kind of a block says.
    """
    if not along_k:
        return _split_loads(kernel, apart)
    row = kernel.row
    row_bytes = row.k * row.source2.bits // 8
    bits = max(8, row.source2.bits)
    width = row_bytes * 8 // bits
    together = _most(kernel.steps, RULES.row_bytes // row_bytes)
    found = []
    for step in range(0, kernel.steps, together):
        for first, count in _runs(kernel.column_blocks, RULES.rows // row.repeat):
            block = Block("plain", bits, width, count * row.repeat, together)
            fragments = {(first + i, step + j): j * block.array_bytes + i * row.repeat * row_bytes
                         for i in range(count) for j in range(together)}
            found.append(TileLoad(block, first * row.repeat, step * row.k, fragments))
    return TileLoads(tuple(found), False, kernel.steps * width, tuple(range(kernel.tile_columns)))


def loads_of_both(kernel: MicroKernel, a_along_k: bool, b_along_k: bool) -> tuple[TileLoads, TileLoads]:
    """Return the loads of A and of B."""
    return loads_of_a(kernel, a_along_k), loads_of_b(kernel, b_along_k)


def parts_of(kernel: MicroKernel, k: int, a_along_k: bool, b_along_k: bool) -> tuple[int, int]:
    """Return the iterations for a sum, and the DPAS along k that are left over, which have loads of the same lines.

    Where they have not the last iteration goes beyond the end.
    """
    steps = -(-k // kernel.row.k)
    parts, left = divmod(steps, kernel.steps)
    if not left or not parts:
        return parts + (left > 0), 0
    less = loads_of_both(replace(kernel, steps=left), a_along_k, b_along_k)
    same = all({load.line for load in one.loads} <= {load.line for load in operand.loads if load.k == 0}
               for one, operand in zip(less, loads_of_both(kernel, a_along_k, b_along_k), strict=True))
    return (parts, left) if same else (parts + 1, 0)


def fetches_ahead(kernel: MicroKernel, k: Size) -> bool:
    """Whether what later iterations need is fetched into the caches: where the sum is not known to be short."""
    return not isinstance(k, int) or k >= _LEAST_ITERATIONS * kernel.depth


def _split_loads(kernel: MicroKernel, apart: Kind) -> TileLoads:
    """Return the loads of B whose elements follow one another along its columns."""
    row = kernel.row
    bits, size = row.source2.bits, row.repeat * row.k * row.source2.bits // 8
    most = max(1, RULES.transposed_words * 32 // bits // row.repeat)
    found, order = [], list[int]()
    for first, count in _parts(kernel.column_blocks, most):
        block = Block("transposed" if bits == 32 else apart, bits, count * row.repeat, row.k)
        order += [first * row.repeat + line for line in block.lines]
        found += [TileLoad(block, first * row.repeat, step * row.k, {(first + i, step): i * size for i in range(count)})
                  for step in range(kernel.steps)]
    return TileLoads(tuple(found), True, kernel.depth, tuple(order))


def _most(count: int, limit: int) -> int:
    """Return the largest divisor of a count that is within a limit."""
    return max(size for size in range(1, max(1, limit) + 1) if count % size == 0)


def _parts(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut a count into powers of two: the first one and the size of each."""
    first = 0
    while first < count:
        size = max(part for part in (1, 2, 4, 8, 16, 32) if part <= min(most, count - first))
        yield first, size
        first += size


def _runs(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut a count into as few parts as there can be: the first one and the size of each."""
    for first in range(0, count, most):
        yield first, min(most, count - first)
