"""A part of a nest that a warp computes by ``mma.sync``: what its lanes have of a tile of the result.

The schedule deals the tile to the lanes as the instruction does it: lane 4 g + t has row g of each block of eight rows,
and the columns 2 t and 2 t + 1.  What is left to each lane are three loops: over the blocks, over the two columns and
over the sum.  For the sum, a lane needs elements that others have; the emitter reads them by the instruction's layout.
"""

from __future__ import annotations

from tl_dpnp.kernels.mma.rows import MmaRow
from tl_dpnp.lowering.instructions import Multiplication, multiplication_in
from tl_dpnp.lowering.nest import Access, Buffer, Loop, Nest, stages_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = ["WarpTile", "element_of", "warp_tile_of"]

#: Rows of a block, and columns of a lane.
_BLOCK, _PAIR = 8, 2


@dataclass(frozen=True)
class WarpTile:
    """A multiplication whose loops run over blocks of rows, where there are several, over the columns and over the sum.

    The modes are those of A and of the result along the rows, and that of B along the columns.
    """

    product: Multiplication
    blocks: Loop | None
    pair: Loop
    depth: Loop
    row_mode: int
    a_mode: int
    b_mode: int


def warp_tile_of(loop: Loop, row: MmaRow) -> WarpTile | None:
    """Return the loops of a part of a nest by what they do for an instruction, or None where they do not fit."""
    product = multiplication_in(loop)
    if product is None or not product.is_plain("serial", "tensorized") or product.finish is not None:
        return None
    a, b, target, blocks, pair, depth = product.a, product.b, product.target, product.m, product.n, product.k
    if pair is None or depth is None or not all(_is_matrix(access) for access in (a, b, target)):
        return None
    ranges = [entry.static_range for entry in product.loops]
    wanted = [range(0, row.m, _BLOCK)] * (row.m > _BLOCK) + [range(_PAIR), range(row.k)]
    if ranges != wanted or product.loops != (*([] if blocks is None else [blocks]), pair, depth):
        return None
    rows = [] if blocks is None else [_modes(access, blocks) for access in (target, a)]
    columns = [_modes(access, pair) for access in (target, b)]
    sums = [_modes(access, depth) for access in (a, b)]
    if any(len(modes) > 1 for modes in (*rows, *columns, *sums)):
        return None
    row_mode, a_mode, b_mode = 1 - columns[0][0], 1 - sums[0][0], columns[1][0]
    if b_mode == sums[1][0] or rows not in ([], [[row_mode], [a_mode]]):
        return None
    return WarpTile(product, blocks, pair, depth, row_mode, a_mode, b_mode)


def element_of(nest: Nest, buffer: Buffer) -> ScalarType:
    """Return the type that the elements of a buffer have, or of which they are copies."""
    sources = {stage.buffer: stage.source for stage in stages_of(nest.body) if not stage.write_back}
    name = buffer.name
    while name in sources:
        name = sources[name]
    return nest.buffers[name].element


def _is_matrix(access: Access) -> bool:
    """Whether an access has two modes, besides that of a double buffer."""
    return len(access.indices) == (3 if access.buffer.doubled else 2)


def _modes(access: Access, loop: Loop) -> list[int]:
    """Return the modes that a loop indexes."""
    return [mode for mode, index in enumerate(access.indices) if loop.variable in index]
