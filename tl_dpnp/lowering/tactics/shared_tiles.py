"""The tile of a product on DPAS whose f32 sub-groups round for one another, by what the machine code will be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product as pairs

from tl_dpnp.kernels.dpas.block_packing import Share, share_of
from tl_dpnp.kernels.dpas.local_messages import MOST_MOVED, WORD_BYTES
from tl_dpnp.kernels.dpas.local_product import MOST_STRAIGHT, STRAIGHT_REGISTERS
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.pieces import Piece, packed_bytes, piece_words
from tl_dpnp.lowering.nest import Bound
from tl_dpnp.lowering.tactics.block_tiles import clocks_of_tiles
from tl_dpnp.target.catalog import DPAS

__all__ = ["clocks_of_panels", "shared_tile"]

#: Blocks of a tile along the lanes and along the repeat count at most.
_MOST_BLOCKS = (4, 8)
#: Messages by which a sub-group fills a panel at most: each has registers for its header and its place.
_MOST_MESSAGES = 8

#: Rows and columns of sub-groups of a work-group.
Extent = tuple[int, int]

def shared_tile(
    kernel: MicroKernel, alone: MicroKernel, sizes: tuple[Bound, Bound, Bound], along_k: tuple[bool, bool],
    extent: Callable[[MicroKernel], Extent], extents: Callable[[MicroKernel], set[Extent]], local_memory: int,
) -> MicroKernel | None:
    """Return the micro-kernel that takes the fewest clocks; None where one whose sub-groups are `alone` takes fewer.

    None takes more instructions than that.  They are those of a work-group of the micro-kernel's `extent`; panels fit
    in all work-groups of its `extents`.
    """
    row = DPAS[kernel.row.execution_size].by_blocks.row
    best, least = None, clocks_of_tiles(alone, sizes, *along_k, row)
    most = clocks_of_tiles(alone, sizes, *along_k, 1 / kernel.row.repeat)
    for rows, columns in pairs(*(range(1, count + 1) for count in _MOST_BLOCKS)):
        tile = replace(kernel, lane_blocks=rows, column_blocks=columns, shared=True)
        own, all_ = extent(tile), extents(tile)
        for steps in range(1, MOST_STRAIGHT + 1):
            shared = replace(tile, steps=steps)
            if _registers(shared) > STRAIGHT_REGISTERS:
                break
            if any(packed_bytes(shared, *each) > local_memory for each in all_) or any(
                    sum(share.each for share, _ in _shares(shared, each, along_k)) > _MOST_MESSAGES for each in all_):
                continue
            clocks = clocks_of_panels(shared, sizes, own, along_k, row)
            if clocks < least and clocks_of_panels(shared, sizes, own, along_k, 1 / kernel.row.repeat) <= most:
                best, least = shared, clocks
    return best


def clocks_of_panels(
    kernel: MicroKernel, sizes: tuple[Bound, Bound, Bound], extent: Extent, along_k: tuple[bool, bool],
    of_row: float,
) -> float:
    """Return the clocks of a product by so many rows and columns of sub-groups, if a row of DPAS takes so many."""
    row, numbers = kernel.row, DPAS[kernel.row.execution_size].by_shares
    m, n, k = (numbers.long if not isinstance(size, int) else -(-size // block)
               for size, block in zip(sizes, (row.execution_size, row.repeat, row.k), strict=True))
    blocks = kernel.lane_blocks, kernel.column_blocks
    tiles = -(-m // blocks[0]) * -(-n // blocks[1])
    groups = [-(-size // (count * each)) for size, count, each in zip((m, n), blocks, extent, strict=True)]
    panels, subgroups = -(-k // kernel.steps), extent[0] * extent[1]
    shares = _shares(kernel, extent, along_k)
    filled = headers = 0.0
    for (share, piece), lines, times in zip(shares, (m, n), reversed(groups), strict=True):
        wanted, slots = share.wanted(lines) * times, share.slots(lines, subgroups) * times
        # A message reads 8 registers; rounding takes one instruction for two.
        moved = numbers.load + share.block.registers / 2 + sum(1 for _ in share.runs(piece)) * numbers.store
        filled += min(slots * moved, wanted * moved + slots * numbers.branch)
        headers += share.each * numbers.header
    reads = sum(_reads(kernel))
    multiplied = blocks[0] * blocks[1] * row.repeat * of_row + reads + numbers.step
    begun = headers + kernel.steps * reads / 2 + numbers.tile
    return (panels * (filled + groups[0] * groups[1] * subgroups * numbers.panel + tiles * kernel.steps * multiplied)
            + groups[0] * groups[1] * subgroups * begun + tiles * blocks[0] * blocks[1] * numbers.block)


def _registers(kernel: MicroKernel) -> int:
    """Return the registers of the sums, of the fragments of a step, and of the addresses of all."""
    row = kernel.row
    fragments = kernel.lane_blocks * row.b_elements + kernel.column_blocks * row.repeat // 2
    return kernel.lane_blocks * kernel.column_blocks * row.repeat + fragments + kernel.steps * sum(_reads(kernel))


def _reads(kernel: MicroKernel) -> list[int]:
    """Return the messages that load the fragments of A and of B of a step."""
    result = []
    for piece, blocks in zip(piece_words(kernel, 1, 1), (kernel.lane_blocks, kernel.column_blocks), strict=True):
        whole, left = divmod(blocks, MOST_MOVED // (piece.fragment * WORD_BYTES))
        result.append(whole + left.bit_count())
    return result


def _shares(kernel: MicroKernel, extent: Extent, along_k: tuple[bool, bool]) -> list[tuple[Share, Piece]]:
    """Return what a sub-group moves of a panel of A and of B, and how that lies there."""
    return [(share_of(kernel.row, kernel.steps, piece.across, along, piece.blocks, extent[0] * extent[1]), piece)
            for piece, along in zip(piece_words(kernel, *extent), along_k, strict=True)]
