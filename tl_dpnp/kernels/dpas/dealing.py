"""How the tiles of a product are dealt out to the sub-groups of a work-group.

Where sub-groups load for one another, all of them wait for each panel, those without a tile too.  Of a product whose
sizes are known at the call only they do so for what places of the whole work-group cover.  Of the rest, which is right
of these places and below them, each sub-group loads its own tiles for itself.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Size, size_value
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.sub_groups import SubGroup
from tl_dpnp.kernels.llvm import counted_loop, index
from tl_dpnp.records import dataclass

__all__ = ["Whole", "dealt"]

#: Panels of a sum from which on sub-groups load for one another.
_LEAST_PANELS = 3
#: Called with the first row and column of a tile.
Tile = Callable[[ir.Value, ir.Value], None]


def dealt(
    builder: ir.IRBuilder, size: Size, step: int, own: ir.Value, count: int, body: Callable[[ir.Value], None]
) -> None:
    """Run `body` for every tile of this sub-group, which takes every count-th one."""
    first = builder.mul(own, index(step))
    if isinstance(size, int) and size == step * count:
        body(first)
        return
    _looped(builder, first, size_value(size), index(step * count), body)


def _looped(
    builder: ir.IRBuilder, first: ir.Value, stop: ir.Value, step: ir.Value, body: Callable[[ir.Value], None]
) -> None:
    def iteration(counter: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
        body(counter)
        return []

    counted_loop(builder, first, stop, step, [], iteration, unrolled=False)


@dataclass(frozen=True)
class Whole:
    """The rows and columns of C, m x n, that places of a whole work-group cover, each of whose tiles is a part of C."""

    builder: ir.IRBuilder
    kernel: MicroKernel
    place: SubGroup
    m: Size
    n: Size
    rows: ir.Value
    columns: ir.Value

    @staticmethod
    def of(builder: ir.IRBuilder, kernel: MicroKernel, place: SubGroup, m: Size, n: Size, k: Size) -> Whole:
        """Return what is covered; nothing where the sum is so short that panels do not pay."""
        def covered(size: Size, tile: int, count: int) -> ir.Value:
            last = builder.add(size_value(size), index(tile - 1))
            return builder.mul(builder.udiv(last, index(tile * count)), index(tile * count))

        pays = builder.icmp_signed(">=", size_value(k), index(_LEAST_PANELS * kernel.depth))
        columns = covered(n, kernel.tile_columns, place.columns)
        pays = builder.and_(pays, builder.icmp_signed(">", columns, index(0)))
        rows = builder.select(pays, covered(m, kernel.tile_rows, place.rows), index(0))
        return Whole(builder, kernel, place, m, n, rows, columns)

    def deal(self, body: Tile) -> None:
        """Run `body` for the first tile of each place of the work-group."""
        builder, kernel, place = self.builder, self.kernel, self.place
        rows, columns = (index(tile * count) for tile, count in (
            (kernel.tile_rows, place.rows), (kernel.tile_columns, place.columns)))
        _looped(builder, index(0), self.rows, rows, lambda row: _looped(
            builder, index(0), self.columns, columns, lambda column: body(row, column)))

    def deal_rest(self, body: Tile) -> None:
        """Run `body` for this sub-group's tiles of the rest."""
        builder, kernel, place = self.builder, self.kernel, self.place
        (row, rows), (column, columns) = (
            (builder.mul(own, index(tile)), index(tile * count)) for own, tile, count in (
                (place.row, kernel.tile_rows, place.rows), (place.column, kernel.tile_columns, place.columns)))

        def tiles(row: ir.Value) -> None:
            right = builder.select(builder.icmp_signed("<", row, self.rows), self.columns, index(0))
            _looped(builder, builder.add(column, right), size_value(self.n), columns, lambda column: body(row, column))

        # What is in front of all loops is not computed where there are no tiles.
        m, n = size_value(self.m), size_value(self.n)
        is_left = builder.or_(builder.icmp_signed("<", self.rows, m), builder.icmp_signed("<", self.columns, n))
        with builder.if_then(is_left):
            _looped(builder, row, m, rows, tiles)
