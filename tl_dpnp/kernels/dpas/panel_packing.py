"""Panels of local memory that all work-items pack, each its share of words or elements."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Size
from tl_dpnp.kernels.dpas.local_tiles import LocalTile
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.llvm import I32, constant, counted_loop, index
from tl_dpnp.records import dataclass

__all__ = ["ItemPacking"]

#: Registers that are loaded before any of them is packed.
_MOST_LOADED = 16


@dataclass(frozen=True)
class ItemPacking:
    """Packs the lines of A and of B, or of one of them, as `tiles` do; `k` is their size.

    `possible` says at run time whether words can be loaded, or whole elements, as the tiles do; None if they can.
    """

    kernel: MicroKernel
    tiles: tuple[LocalTile, ...]
    k: Size
    possible: ir.Value | None

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.tiles[0].builder

    def begin(self) -> list[ir.Value]:
        """Nothing is carried from a panel to the next one."""
        return []

    def pack(self, start: ir.Value, end: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        """Fill a panel from a place along k up to another one: pieces that are whole, then what is left by elements."""
        builder, depth = self.builder, self.kernel.row.k
        whole = end
        if not (isinstance(self.k, int) and self.k % depth == 0):
            whole = builder.add(start, builder.and_(builder.sub(end, start), index(-depth)))
        if self.possible is not None:
            whole = builder.select(self.possible, whole, start)

        def piece(k: ir.Value, offsets: list[ir.Value]) -> list[ir.Value]:
            for batch in self.batches():
                fetched = [self.tiles[operand].fetch(number, k) for operand, number in batch]
                for (operand, number), values in zip(batch, fetched, strict=True):
                    self.tiles[operand].commit(number, values, offsets[operand])
            return self.moved(offsets)

        def rest(k: ir.Value, offsets: list[ir.Value]) -> list[ir.Value]:
            for tile, offset in zip(self.tiles, offsets, strict=True):
                tile.fill(k, end, offset)
            return self.moved(offsets)

        offsets = [constant(I32, 0)] * len(self.tiles)
        offsets = counted_loop(builder, start, whole, index(depth), offsets, piece, unrolled=False)
        if whole is not end:
            counted_loop(builder, whole, end, index(depth), offsets, rest, unrolled=False)
        return []

    def batches(self) -> list[list[tuple[int, int]]]:
        """Return what is loaded before any of it is packed: operands and their units, of as many as registers allow."""
        result: list[list[tuple[int, int]]] = [[]]
        loaded = 0
        for operand, tile in enumerate(self.tiles):
            for number in range(len(tile.places)):
                loaded += tile.loaded
                if result[-1] and loaded > _MOST_LOADED:
                    result.append([])
                    loaded = tile.loaded
                result[-1].append((operand, number))
        return result

    def moved(self, offsets: Sequence[ir.Value]) -> list[ir.Value]:
        """Return where the next pieces lie."""
        return [self.builder.add(offset, constant(I32, tile.piece.size))
                for tile, offset in zip(self.tiles, offsets, strict=True)]
