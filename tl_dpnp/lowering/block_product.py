"""The default schedule of a large product on devices that copy to local memory asynchronously.

A work-group computes a tile, of which each warp has a part and each lane vectors of 16 bytes along the rows.  Pieces of
both operands go to local memory while the ones before are computed from there, and registers are loaded ahead.  What
was measured on an H200 chose the numbers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.schedule import Schedule

__all__ = ["Block", "block_schedule", "blocks_of"]

_LANES_ALONG_ROWS, _LANES_ALONG_COLUMNS = 8, 4
#: Bytes of a vector, and of a piece along k.
_VECTOR, _DEPTH = 16, 128
#: Rows or columns, and elements along k, that a warp copies at a time of an operand that is consecutive along k.
_FEW, _DEEP = 2, 16


@dataclass(frozen=True)
class Block:
    """Rows and columns of a work-group's tile, and of a warp's part of it.

    With `is_short` pieces are half as long where operands are copied element by element.
    """

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    is_short: bool = False

    @property
    def layout(self) -> SubgroupLayout:
        """The work-group: warps along rows and columns."""
        return SubgroupLayout(_LANES_ALONG_ROWS * _LANES_ALONG_COLUMNS, self.rows // self.warp_rows,
                              self.columns // self.warp_columns)

    @property
    def local_memory(self) -> int:
        """Bytes of local memory for two pieces of each operand, at most."""
        return 2 * _DEPTH * (self.rows + self.columns + 2 * _VECTOR)


#: The tiles by type, the best first.  The sums of a lane take 128 registers.
_BLOCKS = {
    "f32": (Block(256, 128, 64, 64), Block(128, 128, 64, 64, is_short=True)),
    "f64": (Block(128, 128, 64, 32),),
}


def blocks_of(contraction: Contraction) -> list[Block]:
    """Return the tiles that divide a product of two matrices of f32 or f64, the best first; none for other nests."""
    m, n, k = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or "B" not in contraction.nest.buffers:
        return []
    buffers = [buffer for buffer in contraction.nest.buffers.values() if not buffer.in_registers]
    alike = all(buffer.element.name == contraction.element.name and len(buffer.shape) == 2 for buffer in buffers)
    if not alike or k % (_DEPTH // contraction.element.bytes):
        return []
    return [block for block in _BLOCKS.get(contraction.element.name, ())
            if m % block.rows == 0 and n % block.columns == 0]


def block_schedule(contraction: Contraction, block: Block) -> Schedule:
    """Schedule a nest for one of its `blocks_of`, for work-groups of its layout."""
    schedule = Schedule(contraction.nest)
    width = _VECTOR // contraction.element.bytes
    sides = {buffer: _Side(contraction, buffer, side) for buffer, side in zip("AB", "mn", strict=True)}
    in_vectors = all(side.is_consecutive for side in sides.values())
    depth = _DEPTH // contraction.element.bytes // (2 if block.is_short and not in_vectors else 1)
    blocks = [schedule.split("m", block.rows), schedule.split("n", block.columns)]
    rows, columns = (schedule.split(tile.inner, size)
                     for tile, size in zip(blocks, (block.warp_rows, block.warp_columns), strict=True))
    row_parts = schedule.split(rows.inner, _LANES_ALONG_ROWS * width)
    column_parts = schedule.split(columns.inner, _LANES_ALONG_COLUMNS * width)
    row, column = schedule.split(row_parts.inner, width), schedule.split(column_parts.inner, width)
    # Of each four lanes two have the same rows, and two the same columns: half a warp then reads its vectors at once.
    row_lanes, column_lanes = schedule.split(row.outer, 2), schedule.split(column.outer, 2)
    outside = (blocks[0].outer, blocks[1].outer)
    lanes = (column_lanes.outer, row_lanes.outer, column_lanes.inner, row_lanes.inner)
    dealt = (rows.outer, columns.outer, *lanes)
    own = (row_parts.outer, column_parts.outer, column.inner, row.inner)
    schedule.reorder(*outside, *dealt, *own)
    decomposed = schedule.decompose_reduction("k", above=rows.outer)
    piece = schedule.split("k", depth)
    schedule.reorder(piece.outer, *dealt, piece.inner, *own)
    for names in ({}, decomposed.init, decomposed.finish):
        _deal(schedule, *(names.get(loop, loop) for loop in (*dealt, *own)))
    for side in sides.values():
        copy = schedule.cache_read(side.buffer, "local")
        schedule.compute_at(copy, piece.outer)
        _copy_piece(schedule, copy, side, width, block)
    schedule.unroll(piece.inner)
    schedule.load_ahead(piece.inner)
    return schedule


class _Side:
    """An operand: its mode along the rows or columns of the result, and whether it is consecutive along that."""

    def __init__(self, contraction: Contraction, buffer: str, side: str) -> None:
        indices = next(access.indices for leaf in leaves(contraction.nest.body) for access in leaf.assign.reads
                       if access.buffer.name == buffer)
        self.buffer = buffer
        self.mode = indices.index((side,))
        self.is_consecutive = contraction.nest.buffers[buffer].strides[self.mode] == 1


def _deal(schedule: Schedule, *loops: str) -> None:
    """Bind the loops of a part of the nest, and unroll or vectorize those inside a lane's tile."""
    warp_row, warp_column, *lanes, row_part, column_part, column, vector = loops
    schedule.bind(warp_row, "rows")
    schedule.bind(warp_column, "columns")
    schedule.bind(functools.reduce(lambda inner, outer: schedule.fuse(outer, inner), reversed(lanes)), "lanes")
    unrolled = (row_part, column_part, column)
    for loop in unrolled:
        schedule.unroll(loop)
    schedule.vectorize(vector)


def _copy_piece(schedule: Schedule, copy: str, side: _Side, width: int, block: Block) -> None:
    """Copy a piece of an operand so that it is consecutive along the rows or columns of the result, its side.

    One that is so already is copied by vectors, by 32 lanes at a time.  Of another, a warp copies elements that lie in
    different banks.
    """
    mode = side.mode
    schedule.transform_layout(copy, mode, 1 - mode)
    loops = schedule.loops_of(copy)
    along, across = (next(loop for loop in loops if loop.rstrip("'").endswith(f".{m}")) for m in (mode, 1 - mode))
    warps = block.layout.subgroups
    if side.is_consecutive:
        schedule.reorder(across, along)
        vectors = schedule.split(along, width)
        lanes = schedule.split(vectors.outer, 32)
        turns = schedule.split(across, warps)
        schedule.reorder(turns.outer, turns.inner, lanes.outer, lanes.inner, vectors.inner)
        for loop in (turns.outer, lanes.outer):
            schedule.unroll(loop)
        schedule.bind(turns.inner, "subgroups")
        schedule.bind(lanes.inner, "lanes")
        schedule.vectorize(vectors.inner)
    else:
        schedule.storage_align(copy, 1 - mode, 8 * width, width)
        schedule.reorder(along, across)
        few, deep = schedule.split(along, _FEW * warps), schedule.split(across, _DEEP)
        mine = schedule.split(few.inner, _FEW)
        schedule.reorder(few.outer, deep.outer, mine.outer, mine.inner, deep.inner)
        for loop in (few.outer, deep.outer):
            schedule.unroll(loop)
        schedule.bind(mine.outer, "subgroups")
        schedule.bind(schedule.fuse(mine.inner, deep.inner), "lanes")
    schedule.double_buffer(copy)
    schedule.copy_async(copy)
