"""The tile of a product on DPAS whose operands are loaded by messages of blocks, by what the machine code will be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from tl_dpnp.kernels.dpas.block_shapes import RULES
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.moving_headers import step_registers
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.dpas.tile_blocks import TileLoad, TileLoads, fetches_ahead, loads_of_both, parts_of
from tl_dpnp.lowering.nest import Bound
from tl_dpnp.target.catalog import DPAS
from tl_dpnp.target.matrix_units import BlockNumbers

__all__ = ["block_tile", "clocks_of_tiles"]

#: Blocks of a tile along each mode, and DPAS along k, that are tried.
_MOST_BLOCKS, _STEPS = 8, (1, 2, 4, 8)
#: Part of the clocks that the model is not sure of.
_DOUBT = 0.005


def block_tile(
    row: DpasRow, sizes: tuple[Bound, Bound, Bound], a_along_k: bool, b_along_k: bool
) -> tuple[int, int, int]:
    """Return the blocks along m and n, and the steps along k, of the tile that takes the fewest clocks for m x n x k.

    Sizes that are not known are long.  Of those that take hardly more it is the one that does most in an iteration, and
    so waits least often; of these the one with the fewest fragments.
    """
    numbers = DPAS[row.execution_size].by_blocks

    clocks = {kernel: _clocks(kernel, sizes, numbers, a_along_k, b_along_k) for kernel in _kernels(row, sizes)
              if _registers(kernel, loads_of_both(kernel, a_along_k, b_along_k))
              + (numbers.fetched if fetches_ahead(kernel, sizes[2]) else 0) <= (
                  numbers.registers if kernel.registers > 128 else numbers.few_registers)}

    def work(kernel: MicroKernel) -> tuple[int, int]:
        fragments = (kernel.lane_blocks + kernel.column_blocks) * kernel.steps
        return kernel.lane_blocks * kernel.column_blocks * kernel.steps, -fragments

    enough = (1 + _DOUBT) * min(clocks.values())
    best = max((kernel for kernel, each in clocks.items() if each <= enough), key=work)
    return best.lane_blocks, best.column_blocks, best.steps


def clocks_of_tiles(
    kernel: MicroKernel, sizes: tuple[Bound, Bound, Bound], a_along_k: bool, b_along_k: bool, of_row: float
) -> float:
    """Return the clocks of a product by tiles whose operands each sub-group loads, if a row of DPAS takes so many."""
    numbers = replace(DPAS[kernel.row.execution_size].by_rounded_blocks, row=of_row)
    return _clocks(kernel, sizes, numbers, a_along_k, b_along_k)


def _counts(
    kernel: MicroKernel, sizes: tuple[Bound, Bound, Bound], blocks: tuple[int, int, int], numbers: BlockNumbers
) -> list[float]:
    """Return how often so many blocks are needed along m, n and k."""
    row = kernel.row
    return [numbers.long / count if not isinstance(size, int) else float(-(-size // (count * block)))
            for size, count, block in zip(sizes, blocks, (row.execution_size, row.repeat, row.k), strict=True)]


def _kernels(row: DpasRow, sizes: tuple[Bound, Bound, Bound]) -> Iterator[MicroKernel]:
    """Return the tiles that are no larger than what is computed, rounded up."""
    m, n, k = (_MOST_BLOCKS if not isinstance(size, int) else -(-size // block)
               for size, block in zip(sizes, (row.execution_size, row.repeat, row.k), strict=True))
    for rows, columns, steps in product(range(1, min(m, _MOST_BLOCKS) + 1), range(1, min(n, _MOST_BLOCKS) + 1), _STEPS):
        if steps < 2 * k:
            yield MicroKernel(row, rows, columns, steps)


def _clocks(
    kernel: MicroKernel, sizes: tuple[Bound, Bound, Bound], numbers: BlockNumbers, a_along_k: bool, b_along_k: bool
) -> float:
    """Return the clocks of a product."""
    loads = loads_of_both(kernel, a_along_k, b_along_k)
    row = kernel.row
    tile = kernel.lane_blocks * kernel.column_blocks

    def iteration(messages: list[TileLoad], steps: int) -> float:
        # Words are split, and f32 rounded, by 32 elements at once.
        split = sum(load.block.registers * RULES.register_bytes * 8 // load.block.bits // (2 * row.execution_size)
                    for load in messages if load.block.kind == "split" or row.source1.name == "tf32")
        return (tile * steps * row.repeat * numbers.row + len(messages) * numbers.message + split
                + numbers.iteration)

    messages = [load for operand in loads for load in operand.loads]
    m, n, k = _counts(kernel, sizes, (kernel.lane_blocks, kernel.column_blocks, kernel.steps), numbers)
    work = k * iteration(messages, kernel.steps)
    if isinstance(sizes[2], int):
        parts, left = parts_of(kernel, sizes[2], a_along_k, b_along_k)
        less = [load for operand in loads_of_both(replace(kernel, steps=left), a_along_k, b_along_k)
                for load in operand.loads] if left else []
        work = parts * iteration(messages, kernel.steps) + (iteration(less, left) if left else 0)
    start = len(messages) * numbers.header + tile * numbers.block + numbers.tile
    return m * n * (work + start)


def _registers(kernel: MicroKernel, loads: tuple[TileLoads, ...]) -> int:
    """Return the registers of the sums, of what an iteration loads, and of the headers and what moves them on."""
    blocks = [load.block for operand in loads for load in operand.loads]
    # Before they are split, words are in registers of their own.
    words = max((block.registers for block in blocks if block.kind == "split"), default=0)
    sums = kernel.lane_blocks * kernel.column_blocks * kernel.row.repeat
    steps = [(operand.k_field, operand.elements) for operand in loads for _ in operand.loads]
    return sums + sum(block.registers for block in blocks) + words + len(blocks) + step_registers(steps)
