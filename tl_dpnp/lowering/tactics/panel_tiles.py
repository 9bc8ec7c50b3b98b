"""The tile of a product on DPAS whose operands messages put into panels of local memory, by what the code will be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product as pairs

from tl_dpnp.kernels.dpas.block_shapes import RULES
from tl_dpnp.kernels.dpas.line_packing import LineLayout, line_layout
from tl_dpnp.kernels.dpas.local_messages import MOST_MOVED, WORD_BYTES
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.pieces import Piece, packed_bytes, packs, piece_words
from tl_dpnp.kernels.dpas.tile_blocks import loads_of_a, loads_of_b
from tl_dpnp.lowering.nest_products import NestProduct
from tl_dpnp.target.catalog import DPAS

__all__ = ["even_extent", "panel_tile"]

#: Blocks of a tile along the lanes and along the repeat count at most.
_MOST_BLOCKS = (4, 8)
#: Pieces that an iteration multiplies.
_TOGETHER = 2


def even_extent(tiles: int, most: int) -> int:
    """Return how many of so many tiles along a mode sub-groups take at a time: as many each time, as far as can be."""
    return -(-tiles // -(-tiles // most))


def panel_tile(
    product: NestProduct, kernel: MicroKernel, along_k: tuple[bool, bool], most: tuple[int, int], local_memory: int,
    steps_of: Callable[[MicroKernel, tuple[int, int]], int],
) -> tuple[int, int] | None:
    """Return the blocks of the tile that takes the fewest instructions, None where messages do not fill panels.

    The work-group has at `most` so many sub-groups along each mode; sizes are known.  `steps_of` returns the length of
    a panel of a micro-kernel for so many of them.
    """
    best: tuple[float, int, tuple[int, int]] | None = None
    for tile in _tiles(product, kernel):
        found = replace(kernel, lane_blocks=tile[0], column_blocks=tile[1])
        clocks = _instructions(product, found, along_k, most, local_memory, steps_of)
        if clocks is not None and (best is None or (clocks, -tile[0] * tile[1]) < best[:2]):
            best = clocks, -tile[0] * tile[1], tile
    return None if best is None else best[2]


def _counts(product: NestProduct, kernel: MicroKernel) -> tuple[int, int, int]:
    """Return the blocks along m, n and k."""
    assert product.sizes is not None
    row = kernel.row
    m, n, k = (-(-size // block) for size, block in zip(
        product.sizes, (row.execution_size, row.repeat, row.k), strict=True))
    return m, n, k


def _tiles(product: NestProduct, kernel: MicroKernel) -> Iterator[tuple[int, int]]:
    m, n, _ = _counts(product, kernel)
    yield from pairs(range(1, min(m, _MOST_BLOCKS[0]) + 1), range(1, min(n, _MOST_BLOCKS[1]) + 1))


def _instructions(
    product: NestProduct, kernel: MicroKernel, along_k: tuple[bool, bool], most: tuple[int, int], local_memory: int,
    steps_of: Callable[[MicroKernel, tuple[int, int]], int],
) -> float | None:
    """Return the instructions of a product, None where a tile does not fit."""
    numbers, row = DPAS[kernel.row.execution_size].by_panels, kernel.row
    m, n, k = _counts(product, kernel)
    tiles = -(-m // kernel.lane_blocks), -(-n // kernel.column_blocks)
    extent = even_extent(tiles[0], most[0]), even_extent(tiles[1], most[1])
    if packed_bytes(replace(kernel, steps=1), *extent) * DPAS[row.execution_size].panel_steps > local_memory:
        return None
    panel = steps_of(kernel, extent)
    subgroups = extent[0] * extent[1]
    times = -(-tiles[0] // extent[0]) * -(-tiles[1] // extent[1]) * subgroups
    blocks = kernel.lane_blocks * kernel.column_blocks
    messages, fragments, addresses, filling, headers = 0.0, 0, 0, 0.0, 0
    for piece, (strides, lines), count, along in zip(
            piece_words(kernel, *extent), product.lines, (kernel.lane_blocks, kernel.column_blocks), along_k,
            strict=True):
        if not packs(kernel, piece):
            loads = (loads_of_a if piece.across else loads_of_b)(replace(kernel, steps=_TOGETHER), along)
            messages += len(loads.loads) / _TOGETHER * numbers.block_message / numbers.message
            addresses += sum(load.block.registers for load in loads.loads) + len(loads.loads)
            continue
        layout = line_layout(row, piece, strides, lines, product.k.stop, panel, count)
        if layout is None:
            return None
        size = piece.fragment * WORD_BYTES
        loaded = -(-count * size // MOST_MOVED)
        messages += loaded
        fragments += count * size // RULES.register_bytes
        addresses += _TOGETHER * loaded
        filling += _filling(layout, piece, panel, subgroups)
        headers += layout.period
    sums = blocks * row.repeat
    own = headers + (numbers.both if kernel.packs == "ab" else 0)
    if sums + max(fragments + addresses, numbers.packing) + own > numbers.registers:
        return None
    # Fragments of one piece in the registers of another one wait for its products.
    waits = numbers.waits if sums + _TOGETHER * fragments + addresses > numbers.registers else 0
    multiplied = blocks + messages * numbers.message + (numbers.iteration + waits) / _TOGETHER
    return times * (k * (multiplied + filling) + -(-k // panel) * numbers.panel + blocks * numbers.block
                    + headers * numbers.header + numbers.tile)


def _filling(layout: LineLayout, piece: Piece, panel: int, subgroups: int) -> float:
    """Return the instructions of a sub-group that fill a piece, one of those of a panel."""
    numbers = DPAS[layout.row.execution_size].by_panels
    units = piece.blocks // layout.blocks * (panel // layout.steps)
    stores = layout.steps * layout.parts * -(-layout.run // MOST_MOVED)
    each = layout.instructions + layout.period * numbers.load + stores * numbers.store
    return -(-units // subgroups) * each / panel
