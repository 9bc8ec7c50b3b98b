"""The default schedules of a large product on devices that copy to local memory asynchronously.

A work-group computes a tile, of which each warp has a part.  Pieces of both operands go to local memory while the ones
before are computed from there, and registers are loaded ahead.  Lanes multiply and add vectors of 16 bytes along the
rows, or warps multiply on tensor cores.  What was measured on an H200 chose the numbers.
"""

from __future__ import annotations

import functools

from tl_dpnp.kernels.mma.rows import ROWS
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.matrix_engine import MatrixEngine
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.schedule.loops import Split
from tl_dpnp.lowering.tactics.rounding import rounding
from tl_dpnp.lowering.tactics.tactic import Place, Tactic
from tl_dpnp.records import dataclass
from tl_dpnp.target.catalog import TENSOR_CORES
from tl_dpnp.target.device import Device

__all__ = ["Blocks", "blocks_of"]

_LANES_ALONG_ROWS, _LANES_ALONG_COLUMNS = 8, 4
#: Bytes of a vector, and of a piece along k.
_VECTOR, _DEPTH = 16, 128
#: Rows or columns, and elements along k, that a warp copies at a time of an operand that is consecutive along k.
_FEW, _DEEP = 2, 16
#: Rows of a block of the instructions of tensor cores, and columns of a lane.
_BLOCK, _PAIR = 8, 2
#: Bytes after which the banks of local memory repeat, and that columns are apart in them so that lanes of a warp, which
#: read elements of four of them side by side, read different banks: of operands that lie along the rows or columns of
#: the result, and of those that lie along k, by the bytes of an element.
_BANKS, _APART, _APART_ALONG_K = 128, 32, {4: 16, 8: 32}


@dataclass(frozen=True)
class Block:
    """Rows and columns of a work-group's tile, and of a warp's part of it.

    Tensor cores compute it with an `instruction`.  Copies have so many `buffers`.  With `is_short` pieces are half as
    long where operands are copied element by element.
    """

    rows: int
    columns: int
    warp_rows: int
    warp_columns: int
    instruction: str = ""
    buffers: int = 2
    is_short: bool = False

    @property
    def layout(self) -> SubgroupLayout:
        """The work-group: warps along rows and columns."""
        return SubgroupLayout(_LANES_ALONG_ROWS * _LANES_ALONG_COLUMNS, self.rows // self.warp_rows,
                              self.columns // self.warp_columns)

    def local_memory(self, size: int) -> int:
        """Return the bytes of local memory for the pieces of both operands, at most, by the bytes of an element."""
        def padding(side: int) -> int:
            along_side = _DEPTH // size * (_APART if self.instruction else _VECTOR)
            return max(along_side, side * _APART_ALONG_K[size] if self.instruction else 0)

        return self.buffers * sum(_DEPTH * side + padding(side) for side in (self.rows, self.columns))


#: The tiles by what the operands are rounded to, the best first.  The sums of a lane take 128 registers.
_BLOCKS = {
    "f32": (Block(256, 128, 64, 64), Block(128, 128, 64, 64, is_short=True)),
    "f64": (Block(128, 128, 64, 32),),
    "tf32 on tensor cores": (Block(256, 128, 64, 64, "m16n8k8_tf32_tf32_f32"),
                             Block(128, 128, 64, 64, "m16n8k8_tf32_tf32_f32")),
    "f64 on tensor cores": (Block(128, 64, 64, 32, "m16n8k4_f64_f64_f64", buffers=3),),
}


def blocks_of(contraction: Contraction, device: Device, engine: MatrixEngine) -> list[Block]:
    """Return the tiles that divide a product of two matrices of f32 or f64, the best first; none for other nests.

    `engine` has the precision and the local memory that there is for it.
    """
    m, n, k = contraction.rows, contraction.columns, contraction.depth
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or "B" not in contraction.nest.buffers:
        return []
    buffers = [buffer for buffer in contraction.nest.buffers.values() if not buffer.in_registers]
    element = contraction.element
    alike = all(buffer.element.name == element.name and len(buffer.shape) == 2 for buffer in buffers)
    if not (device.asynchronous_copies and alike) or k % (_DEPTH // element.bytes):
        return []
    name = element.name
    if device.capability >= TENSOR_CORES:
        rounded = rounding([name] * 3, engine.precision, "mma.sync")
        on_tensor_cores = f"{rounded.a} on tensor cores" if rounded is not None and rounded.terms <= 1 else ""
        name = on_tensor_cores if on_tensor_cores in _BLOCKS else name
    return [
        block for block in _BLOCKS.get(name, ())
        if m % block.rows == 0 and n % block.columns == 0 and block.local_memory(element.bytes) <= engine.local_memory
        and block.layout.lanes in device.subgroup_sizes
        and block.layout.lanes * block.layout.subgroups <= device.max_work_group_size
    ]


@dataclass(frozen=True)
class Blocks(Tactic):
    """See the module."""

    leaves_tuning = True
    block: Block

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> Blocks | None:
        found = blocks_of(contraction, place.device, place.engine)
        block = next((block for block in found if block.layout == place.layout), None)
        return None if block is None else cls(contraction, place, block)

    def schedule(self) -> Schedule:
        sides = [_Side(self.contraction, buffer, side) for buffer, side in zip("AB", "mn", strict=True)]
        return (_on_tensor_cores if self.block.instruction else _multiply_adds)(self.contraction, self.block, sides)


def _multiply_adds(contraction: Contraction, block: Block, sides: list[_Side]) -> Schedule:
    schedule = Schedule(contraction.nest)
    width = _VECTOR // contraction.element.bytes
    in_vectors = all(side.is_consecutive for side in sides)
    depth = _DEPTH // contraction.element.bytes // (2 if block.is_short and not in_vectors else 1)
    outside, rows, columns = _parts(schedule, block)
    row_parts = schedule.split(rows.inner, _LANES_ALONG_ROWS * width)
    column_parts = schedule.split(columns.inner, _LANES_ALONG_COLUMNS * width)
    row, column = schedule.split(row_parts.inner, width), schedule.split(column_parts.inner, width)
    # Of each four lanes two have the same rows, and two the same columns: half a warp then reads its vectors at once.
    row_lanes, column_lanes = schedule.split(row.outer, 2), schedule.split(column.outer, 2)
    lanes = (column_lanes.outer, row_lanes.outer, column_lanes.inner, row_lanes.inner)
    dealt = (rows.outer, columns.outer, *lanes)
    # One column after the other: ptxas then finds operands that it has in registers.
    own = (column_parts.outer, column.inner, row_parts.outer, row.inner)
    schedule.reorder(*outside, *dealt, *own)
    decomposed = schedule.decompose_reduction("k", above=rows.outer)
    piece = schedule.split("k", depth)
    schedule.reorder(piece.outer, *dealt, piece.inner, *own)
    for names in ({}, decomposed.init, decomposed.finish):
        _deal(schedule, *(names.get(loop, loop) for loop in dealt))
        for loop in own[:-1]:
            schedule.unroll(names.get(loop, loop))
        schedule.vectorize(names.get(own[-1], own[-1]))
    for side in sides:
        copy = schedule.cache_read(side.buffer, "local")
        schedule.compute_at(copy, piece.outer)
        if side.is_consecutive:
            _copy_vectors(schedule, copy, side.mode, width, block)
        else:
            _copy_transposed(schedule, copy, side.mode, width, block)
        schedule.double_buffer(copy, block.buffers)
        schedule.copy_async(copy)
    schedule.unroll(piece.inner)
    schedule.load_ahead(piece.inner)
    return schedule


def _on_tensor_cores(contraction: Contraction, block: Block, sides: list[_Side]) -> Schedule:
    schedule = Schedule(contraction.nest)
    row = ROWS[block.instruction]
    size = contraction.element.bytes
    outside, rows, columns = _parts(schedule, block)
    row_tiles, column_tiles = schedule.split(rows.inner, row.m), schedule.split(columns.inner, row.n)
    blocks, pairs = schedule.split(row_tiles.inner, _BLOCK), schedule.split(column_tiles.inner, _PAIR)
    dealt = (rows.outer, columns.outer, blocks.inner, pairs.outer)
    own = (row_tiles.outer, column_tiles.outer, blocks.outer, pairs.inner)
    schedule.reorder(*outside, *dealt, *own)
    decomposed = schedule.decompose_reduction("k", above=rows.outer)
    piece = schedule.split("k", _DEPTH // size)
    step = schedule.split(piece.inner, row.k)
    schedule.reorder(piece.outer, *dealt, step.outer, *own, step.inner)
    for names in ({}, decomposed.init, decomposed.finish):
        _deal(schedule, *(names.get(loop, loop) for loop in dealt))
        for loop in own if names else own[:2]:
            schedule.unroll(names.get(loop, loop))
    schedule.tensorize(blocks.outer, block.instruction)
    for side in sides:
        copy = schedule.cache_read(side.buffer, "local")
        schedule.compute_at(copy, piece.outer)
        mode = side.mode if side.is_consecutive else 1 - side.mode
        apart = _APART if side.is_consecutive else _APART_ALONG_K[size]
        _copy_vectors(schedule, copy, mode, _VECTOR // size, block)
        schedule.storage_align(copy, 1 - mode, _BANKS // size, apart // size)
        schedule.double_buffer(copy, block.buffers)
        schedule.copy_async(copy)
    schedule.unroll(step.outer)
    schedule.load_ahead(step.outer)
    return schedule


def _parts(schedule: Schedule, block: Block) -> tuple[tuple[str, str], Split, Split]:
    """Cut the result into tiles and these into parts of warps: return the loops over tiles, and those over parts."""
    tiles = schedule.split("m", block.rows), schedule.split("n", block.columns)
    rows, columns = schedule.split(tiles[0].inner, block.warp_rows), schedule.split(tiles[1].inner, block.warp_columns)
    return (tiles[0].outer, tiles[1].outer), rows, columns


def _deal(schedule: Schedule, warp_row: str, warp_column: str, *lanes: str) -> None:
    """Bind the loops of a part of the nest."""
    schedule.bind(warp_row, "rows")
    schedule.bind(warp_column, "columns")
    schedule.bind(functools.reduce(lambda inner, outer: schedule.fuse(outer, inner), reversed(lanes)), "lanes")


class _Side:
    """An operand: its mode along the rows or columns of the result, and whether it is consecutive along that."""

    def __init__(self, contraction: Contraction, buffer: str, side: str) -> None:
        indices = next(access.indices for leaf in leaves(contraction.nest.body) for access in leaf.assign.reads
                       if access.buffer.name == buffer)
        self.buffer = buffer
        self.mode = indices.index((side,))
        self.is_consecutive = contraction.nest.buffers[buffer].strides[self.mode] == 1


def _loops(schedule: Schedule, copy: str, mode: int) -> tuple[str, str]:
    """Lay a copy out along a mode, and return its loops along and across that."""
    schedule.transform_layout(copy, mode, 1 - mode)
    along, across = (next(loop for loop in schedule.loops_of(copy) if loop.rstrip("'").endswith(f".{m}"))
                     for m in (mode, 1 - mode))
    return along, across


def _copy_vectors(schedule: Schedule, copy: str, mode: int, width: int, block: Block) -> None:
    """Copy a piece as it lies in memory, along a mode: by vectors, 32 lanes at a time."""
    along, across = _loops(schedule, copy, mode)
    schedule.reorder(across, along)
    vectors, lanes, warps = schedule.split(along, width), block.layout.lanes, block.layout.subgroups
    count = len(schedule.range_of(vectors.outer) or ())
    turns = schedule.split(across, warps * max(1, lanes // count))
    if count >= lanes:
        parts = schedule.split(vectors.outer, lanes)
        schedule.reorder(turns.outer, turns.inner, parts.outer, parts.inner, vectors.inner)
        schedule.unroll(parts.outer)
        schedule.bind(turns.inner, "subgroups")
        schedule.bind(parts.inner, "lanes")
    else:
        mine = schedule.split(turns.inner, lanes // count)
        schedule.reorder(turns.outer, mine.outer, mine.inner, vectors.outer, vectors.inner)
        schedule.bind(mine.outer, "subgroups")
        schedule.bind(schedule.fuse(mine.inner, vectors.outer), "lanes")
    schedule.unroll(turns.outer)
    schedule.vectorize(vectors.inner)


def _copy_transposed(schedule: Schedule, copy: str, mode: int, width: int, block: Block) -> None:
    """Copy a piece so that it lies along a mode, which it does not in memory: elements that lie in different banks."""
    along, across = _loops(schedule, copy, mode)
    schedule.storage_align(copy, 1 - mode, 8 * width, width)
    schedule.reorder(along, across)
    few, deep = schedule.split(along, _FEW * block.layout.subgroups), schedule.split(across, _DEEP)
    mine = schedule.split(few.inner, _FEW)
    schedule.reorder(few.outer, deep.outer, mine.outer, mine.inner, deep.inner)
    for loop in (few.outer, deep.outer):
        schedule.unroll(loop)
    schedule.bind(mine.outer, "subgroups")
    schedule.bind(schedule.fuse(mine.inner, deep.inner), "lanes")
