"""The tile of a product on DPAS whose operands are loaded by messages of blocks, by what the machine code will be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from tl_dpnp.kernels.dpas.block_shapes import RULES
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.dpas.tile_blocks import TileLoads, loads_of_a, loads_of_b
from tl_dpnp.lowering.nest import Bound
from tl_dpnp.target.catalog import DPAS
from tl_dpnp.target.matrix_units import BlockNumbers

__all__ = ["block_tile"]

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

    def loads(kernel: MicroKernel) -> tuple[TileLoads, TileLoads]:
        return loads_of_a(kernel, a_along_k), loads_of_b(kernel, b_along_k)

    clocks = {kernel: _clocks(kernel, loads(kernel), sizes, numbers) for kernel in _kernels(row, sizes)
              if _registers(kernel, loads(kernel)) <= (
                  numbers.registers if kernel.registers > 128 else numbers.few_registers)}

    def work(kernel: MicroKernel) -> tuple[int, int]:
        fragments = (kernel.lane_blocks + kernel.column_blocks) * kernel.steps
        return kernel.lane_blocks * kernel.column_blocks * kernel.steps, -fragments

    enough = (1 + _DOUBT) * min(clocks.values())
    best = max((kernel for kernel, each in clocks.items() if each <= enough), key=work)
    return best.lane_blocks, best.column_blocks, best.steps


def _kernels(row: DpasRow, sizes: tuple[Bound, Bound, Bound]) -> Iterator[MicroKernel]:
    """Return the tiles that are no larger than what is computed, rounded up."""
    m, n, k = (_MOST_BLOCKS if not isinstance(size, int) else -(-size // block)
               for size, block in zip(sizes, (row.execution_size, row.repeat, row.k), strict=True))
    for rows, columns, steps in product(range(1, min(m, _MOST_BLOCKS) + 1), range(1, min(n, _MOST_BLOCKS) + 1), _STEPS):
        if steps < 2 * k:
            yield MicroKernel(row, rows, columns, steps)


def _clocks(
    kernel: MicroKernel, loads: tuple[TileLoads, ...], sizes: tuple[Bound, Bound, Bound], numbers: BlockNumbers
) -> float:
    """Return the clocks of a product."""
    row = kernel.row
    tile = kernel.lane_blocks * kernel.column_blocks
    messages = [load for operand in loads for load in operand.loads]
    # Words are split, and f32 rounded, by 32 elements at once.
    split = sum(load.block.registers * RULES.register_bytes * 8 // load.block.bits // (2 * row.execution_size)
                for load in messages if load.block.kind == "split" or row.source1.name == "tf32")
    iteration = (tile * kernel.steps * row.repeat * numbers.row + len(messages) * numbers.message + split
                 + numbers.iteration)
    m, n, k = (numbers.long / blocks if not isinstance(size, int) else float(-(-size // (blocks * block)))
               for size, blocks, block in zip(
                   sizes, (kernel.lane_blocks, kernel.column_blocks, kernel.steps),
                   (row.execution_size, row.repeat, row.k), strict=True))
    start = len(messages) * numbers.header + tile * numbers.block + numbers.tile
    return m * n * (k * iteration + start)


def _registers(kernel: MicroKernel, loads: tuple[TileLoads, ...]) -> int:
    """Return the registers of the sums, of what an iteration loads, and of the headers."""
    blocks = [load.block for operand in loads for load in operand.loads]
    # Before they are split, words are in registers of their own.
    words = max((block.registers for block in blocks if block.kind == "split"), default=0)
    sums = kernel.lane_blocks * kernel.column_blocks * kernel.row.repeat
    return sums + sum(block.registers for block in blocks) + words + len(blocks)
