"""The tiles of a work-group from operands that its sub-groups pack in local memory together, panel after panel along k.

All work-items load and pack a panel, with zeros beyond the end of k.  Then each sub-group multiplies what it needs of
it, in a loop without conditions that has little but messages and DPAS.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, Part
from tl_dpnp.kernels.dpas.fragments import Size, size_value
from tl_dpnp.kernels.dpas.local_reads import LocalReads
from tl_dpnp.kernels.dpas.local_tiles import LocalTile
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.llvm import I32, builtin, constant, counted_loop, index
from tl_dpnp.records import dataclass

__all__ = ["LocalProduct"]

#: Registers that are loaded before any of them is packed.
_MOST_LOADED = 16


@dataclass(frozen=True)
class LocalProduct:
    """Computes the sums of a sub-group's tile from operands that `tiles` pack and `reads` read; `k` is their size.

    `possible` says at run time whether words can be loaded, or whole elements, as the tiles do; None if they can.
    """

    kernel: MicroKernel
    accumulators: Accumulators
    tiles: tuple[LocalTile, LocalTile]
    reads: tuple[LocalReads, LocalReads]
    k: Size
    possible: ir.Value | None

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.accumulators.builder

    def sums(self) -> list[ir.Value]:
        """Return the sums, column of blocks after column; where terms are apart, those of the smaller ones behind."""
        kernel, accumulators, builder = self.kernel, self.accumulators, self.builder
        count = kernel.lane_blocks * kernel.column_blocks * len(kernel.products)
        zeros = [accumulators.zero() for _ in range(count)]
        last = size_value(self.k)

        def panel(start: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            end = builder.add(start, index(kernel.depth))
            if not (isinstance(self.k, int) and self.k % kernel.depth == 0):
                end = builder.select(builder.icmp_signed("<", end, last), end, last)
            # What was read of the last panel, or by the instruction before, is overwritten.
            self.barrier()
            self.pack(start, end)
            self.barrier()
            for reads in self.reads:
                reads.announce()
            return accumulators.carried(self.multiplied(start, end, carried or zeros))

        carried = counted_loop(builder, index(0), last, index(kernel.depth), accumulators.carried(zeros), panel,
                               runs_at_least_once=isinstance(self.k, int), unrolled=False)
        return carried or zeros

    def pack(self, start: ir.Value, end: ir.Value) -> None:
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

        offsets = [constant(I32, 0)] * 2
        offsets = counted_loop(builder, start, whole, index(depth), offsets, piece, unrolled=False)
        if whole is not end:
            counted_loop(builder, whole, end, index(depth), offsets, rest, unrolled=False)

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

    def multiplied(self, start: ir.Value, end: ir.Value, totals: Sequence[ir.Value]) -> list[ir.Value]:
        """Return the sums with the products of a panel added."""
        accumulators, (a, b) = self.accumulators, self.reads
        of_a, of_b = a.places(), b.places()
        count = len(of_a) + len(of_b)

        def step(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            now_a, now_b, sums = carried[: len(of_a)], carried[len(of_a) : count], carried[count:] or list(totals)
            left, right = a.read(now_a), b.read(now_b)
            following = [*a.following(now_a), *b.following(now_b)]
            return [*following, *accumulators.carried(self.added(sums, left, right))]

        length = self.builder.trunc(self.builder.sub(end, start), I32)
        carried = [*of_a, *of_b, *accumulators.carried(totals)]
        results = counted_loop(self.builder, constant(I32, 0), length, constant(I32, self.kernel.row.k), carried, step,
                               runs_at_least_once=True, unrolled=False)
        return results[count:] or list(totals)

    def added(
        self, sums: Sequence[ir.Value], left: Sequence[Sequence[Part]], right: Sequence[Sequence[Part]]
    ) -> list[ir.Value]:
        """Return the sums with the products of fragments added, which are lists of terms for each block."""
        result = list(sums)
        count = len(left) * len(right)
        for column, b in enumerate(right):
            for number, products in enumerate(self.kernel.products):
                for i, j in products:
                    for row, a in enumerate(left):
                        place = number * count + column * len(left) + row
                        result[place] = self.accumulators.add(result[place], a[i], b[j])
        return result

    def barrier(self) -> None:
        """Order accesses to local memory within the work-group."""
        builtin(self.builder, "_Z7barrierj", ir.VoidType(), [constant(I32, 1)], ("nounwind", "convergent"))
