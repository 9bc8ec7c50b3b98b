"""The default schedule of a large product on devices that copy to local memory asynchronously.

A work-group of 8 warps computes a tile of 128 x 128 elements, each warp 64 x 32 of them and each lane 8 x 8, as vectors
of 16 bytes along the rows.  Pieces of both operands go to local memory while the ones before are computed from there,
and registers are loaded ahead.  What was measured on an H200 chose the numbers.
"""

from __future__ import annotations

from tl_dpnp.lowering.contraction import OUTPUT, Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.schedule import Schedule

__all__ = ["BLOCK_LAYOUT", "block_registers", "block_schedule", "is_block_product"]

#: Rows and columns of a work-group's tile, and of a warp's.
_TILE, _ROWS, _COLUMNS = 128, 64, 32
#: The work-group: warps along rows and columns, and the lanes of one along rows and columns.
BLOCK_LAYOUT = SubgroupLayout(32, _TILE // _ROWS, _TILE // _COLUMNS)
_LANES_ALONG_ROWS, _LANES_ALONG_COLUMNS = 8, 4
#: Registers of a work-item for f32, so that two work-groups share a multiprocessor.
_REGISTERS = 128
#: Bytes of a vector, and of a piece along k.
_VECTOR, _DEPTH = 16, 128
#: Rows or columns, and elements along k, that a warp copies at a time of an operand that is consecutive along k.
_FEW, _DEEP = 2, 16


def is_block_product(contraction: Contraction) -> bool:
    """Whether a nest is a product of two matrices of f32 or f64 that tiles and pieces divide."""
    m, n, k = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or "B" not in contraction.nest.buffers:
        return False
    buffers = contraction.nest.buffers.values()
    alike = all(b.element.name == contraction.element.name for b in buffers if not b.in_registers)
    matrices = all(len(b.shape) == 2 for b in buffers if not b.in_registers)
    return (contraction.element.name in ("f32", "f64") and alike and matrices and m % _TILE == 0 and n % _TILE == 0
            and k % (_DEPTH // contraction.element.bytes) == 0)


def block_registers(contraction: Contraction) -> int:
    """Return the registers that a work-item may have; 0 leaves it to the compiler.

    That takes more than there are for two work-groups only where the result is read as well.
    """
    reads_result = any(access.buffer.name == OUTPUT for leaf in leaves(contraction.nest.body)
                       for access in leaf.assign.reads)
    return _REGISTERS if contraction.element.bytes <= 4 and reads_result else 0


def block_schedule(contraction: Contraction) -> Schedule:
    """Schedule a nest for which `is_block_product` holds, for work-groups of `BLOCK_LAYOUT`."""
    schedule = Schedule(contraction.nest)
    width = _VECTOR // contraction.element.bytes
    depth = _DEPTH // contraction.element.bytes
    blocks = [schedule.split(loop, _TILE) for loop in "mn"]
    rows, columns = (schedule.split(block.inner, size) for block, size in zip(blocks, (_ROWS, _COLUMNS), strict=True))
    # Neighbouring lanes have neighbouring vectors, so that they read different banks.
    row_parts = schedule.split(rows.inner, _LANES_ALONG_ROWS * width)
    column_parts = schedule.split(columns.inner, _LANES_ALONG_COLUMNS * width)
    row, column = schedule.split(row_parts.inner, width), schedule.split(column_parts.inner, width)
    outside = (blocks[0].outer, blocks[1].outer)
    dealt = (rows.outer, columns.outer, column.outer, row.outer)
    own = (row_parts.outer, column_parts.outer, column.inner, row.inner)
    schedule.reorder(*outside, *dealt, *own)
    decomposed = schedule.decompose_reduction("k", above=rows.outer)
    piece = schedule.split("k", depth)
    schedule.reorder(piece.outer, *dealt, piece.inner, *own)
    for names in ({}, decomposed.init, decomposed.finish):
        _deal(schedule, *(names.get(loop, loop) for loop in (*dealt, *own)))
    for buffer, side in zip("AB", "mn", strict=True):
        copy = schedule.cache_read(buffer, "local")
        schedule.compute_at(copy, piece.outer)
        _copy_piece(schedule, contraction, copy, buffer, side, width)
    schedule.unroll(piece.inner)
    schedule.load_ahead(piece.inner)
    return schedule


def _deal(schedule: Schedule, *loops: str) -> None:
    """Bind the loops of a part of the nest, and unroll or vectorize those inside a lane's tile."""
    warp_row, warp_column, column, row, *unrolled, vector = loops
    schedule.bind(warp_row, "rows")
    schedule.bind(warp_column, "columns")
    schedule.bind(schedule.fuse(column, row), "lanes")
    for loop in unrolled:
        schedule.unroll(loop)
    schedule.vectorize(vector)


def _copy_piece(
    schedule: Schedule, contraction: Contraction, copy: str, buffer: str, side: str, width: int
) -> None:
    """Copy a piece of an operand so that it is consecutive along the rows or columns of the result, its `side`.

    One that is so already is copied by vectors.  Of another, a warp copies elements that lie in different banks.
    """
    indices = next(access.indices for leaf in leaves(contraction.nest.body) for access in leaf.assign.reads
                   if access.buffer.name == buffer)
    mode = indices.index((side,))
    is_consecutive = contraction.nest.buffers[buffer].strides[mode] == 1
    schedule.transform_layout(copy, mode, 1 - mode)
    loops = schedule.loops_of(copy)
    along, across = (next(loop for loop in loops if loop.rstrip("'").endswith(f".{m}")) for m in (mode, 1 - mode))
    warps = BLOCK_LAYOUT.subgroups
    if is_consecutive:
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
