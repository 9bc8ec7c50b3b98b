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

    `possible` says of each at run time whether words can be loaded as the tiles do; None if they do what they can.
    """

    kernel: MicroKernel
    tiles: tuple[LocalTile, ...]
    k: Size
    possible: tuple[ir.Value | None, ...]

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.tiles[0].builder

    def begin(self) -> list[ir.Value]:
        """Nothing is carried from a panel to the next one."""
        return []

    @property
    def by_messages(self) -> bool:
        """Elements are stored as the compiler knows it."""
        return False

    @property
    def moves(self) -> bool:
        """Elements are moved as they are stored."""
        return True

    @property
    def fills(self) -> bool:
        """Pieces behind the end of the sum are left as they were."""
        return False

    def pack(
        self, start: ir.Value, end: ir.Value, carried: Sequence[ir.Value], settles: bool
    ) -> list[ir.Value]:
        """Fill a panel from a place along k up to another one: pieces that are whole, then what is left.

        Those that are whole have a loop by words and, where these may not be possible, another one by elements.  Then
        each operand has loops of its own.
        """
        builder, depth = self.builder, self.kernel.row.k
        whole = end
        if not (isinstance(self.k, int) and self.k % depth == 0):
            whole = builder.add(start, builder.and_(builder.sub(end, start), index(-depth)))
        if all(possible is None for possible in self.possible):
            self._fill(self.tiles, start, whole, end, whole)
            return []
        for tile, possible in zip(self.tiles, self.possible, strict=True):
            self._fill([tile], start, whole, end, whole if possible is None else builder.select(possible, whole, start))
        return []

    def _fill(
        self, tiles: Sequence[LocalTile], start: ir.Value, whole: ir.Value, end: ir.Value, done: ir.Value
    ) -> None:
        """Fill panels up to `end`, to where pieces are `whole` by elements but for what is `done` as the tiles do."""
        offsets = [constant(I32, 0)] * len(tiles)
        offsets = self._looped(tiles, start, done, offsets, None)
        if done is not whole and all(tile.has_room for tile in tiles):
            offsets = self._looped([tile.by_elements for tile in tiles], done, whole, offsets, None)
            done = whole
        if done is not end:
            self._looped([tile.by_elements for tile in tiles], done, end, offsets, end)

    def _looped(
        self, tiles: Sequence[LocalTile], first: ir.Value, last: ir.Value, offsets: list[ir.Value],
        end: ir.Value | None,
    ) -> list[ir.Value]:
        """Fill the pieces from a place along k to another one, with zeros from `end` on.

        `offsets` say where the first one lies; returns where the next one does.
        """
        builder, depth = self.builder, index(self.kernel.row.k)
        is_open = [tile.is_open for tile in tiles]
        steps = [tile.along(depth) for tile in tiles if tile.is_open]

        def piece(k: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            offsets, moved = carried[: len(tiles)], carried[len(tiles) :]
            places = iter(moved)
            along = [next(places) if each else k for each in is_open]
            if end is None:
                self._piece(tiles, along, offsets)
            for tile, place, offset in zip(tiles, along, offsets, strict=True) if end is not None else ():
                tile.fill(k, place, end, offset)
            return [*(builder.add(offset, constant(I32, tile.piece.size))
                      for tile, offset in zip(tiles, offsets, strict=True)), *map(builder.add, moved, steps)]

        carried = [*offsets, *(tile.along(first) for tile in tiles if tile.is_open)]
        return counted_loop(builder, first, last, depth, carried, piece, unrolled=False)[: len(tiles)]

    def _piece(self, tiles: Sequence[LocalTile], along: Sequence[ir.Value], offsets: Sequence[ir.Value]) -> None:
        """Fill a piece that is whole, and so far `along` k for each operand."""
        for batch in _batches(tiles):
            fetched = [tiles[operand].fetch(number, along[operand]) for operand, number in batch]
            for (operand, number), values in zip(batch, fetched, strict=True):
                tiles[operand].commit(number, values, offsets[operand])


def _batches(tiles: Sequence[LocalTile]) -> list[list[tuple[int, int]]]:
    """Return what is loaded before any of it is packed: operands and their units, of as many as registers allow."""
    result: list[list[tuple[int, int]]] = [[]]
    loaded = 0
    for operand, tile in enumerate(tiles):
        for number in range(len(tile.places)):
            loaded += tile.loaded
            if result[-1] and loaded > _MOST_LOADED:
                result.append([])
                loaded = tile.loaded
            result[-1].append((operand, number))
    return result
