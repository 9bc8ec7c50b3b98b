"""The tiles of a work-group from operands that its sub-groups pack in local memory together, panel after panel along k.

All sub-groups pack a panel, with zeros beyond the end of k (`panel_packing`, `block_packing`).  Then each of them
multiplies what it needs of it, in a loop without conditions that has little but messages and DPAS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, Protocol

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, Part
from tl_dpnp.kernels.dpas.fragments import Size, size_value
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.llvm import I32, I64, builtin, constant, counted_loop, index
from tl_dpnp.records import dataclass

__all__ = ["MOST_STRAIGHT", "STRAIGHT_REGISTERS", "LocalProduct", "Packing"]

#: Pieces that an iteration multiplies, its DPAS, and registers that it may take, at most.
_MOST_TOGETHER, _MOST_MULTIPLIED, _REGISTERS = 4, 64, 228
#: Pieces of a panel that is multiplied without a loop, and registers of that, at most: what packs needs some, too.
MOST_STRAIGHT, STRAIGHT_REGISTERS = 8, 216
#: Registers that sums and addresses of such a panel take at most where what packs moves elements.
_REGISTERS_BESIDE_MOVES = 158


class Reads(Protocol):
    """What loads the fragments of an operand for this sub-group, piece after piece; `Places` is its own."""

    def registers(self, steps: int) -> int:
        """Return the registers that an iteration of so many pieces takes."""

    def reads_pieces(self, steps: int, are_whole: bool) -> bool:
        """Whether an iteration may have so many pieces, where those of a panel `are_whole` or not."""

    def begin(self, steps: int) -> None:
        """Emit what stands in front of all loops, whose iterations have so many pieces."""

    def announce(self) -> None:
        """Emit what stands behind each panel that is packed."""

    def fixed(self, steps: int) -> Any:
        """Return where so many pieces of each panel are read, if all are read from the same places."""

    def places(self, steps: int) -> Any:
        """Return where iterations of so many pieces read, in front of those of a panel."""

    def in_front(self, places: Any, steps: int, number: int) -> Any:
        """Return where one piece, or all `steps` of an iteration, are read in front of others, which go on by it."""

    def left_over(self, places: Any, steps: int) -> Any:
        """Return where single pieces are read behind iterations of several."""

    def advance(self, places: Any, steps: range) -> None:
        """Go on to the next pieces of a panel: those of an iteration, the last one of them where it is single."""

    @property
    def stay(self) -> bool:
        """Whether the pieces of all panels are read from the same places."""

    def read(self, places: Any, step: int, steps: range, start: ir.Value, done: ir.Value) -> list[list[Part]]:
        """Return the terms of the fragment of each block of a piece, of the `steps` that were gone on to.

        It is `done` elements along k (32 bits) behind the `start` of the panel (64 bits).
        """


class Packing(Protocol):
    """What puts panels into local memory, for its part of the sub-groups' work; it may carry values from one on."""

    def begin(self) -> list[ir.Value]:
        """Return the values for the first panel."""

    @property
    def by_messages(self) -> bool:
        """Whether inline assembly stores what is packed: `pack` may be emitted several times then."""

    @property
    def moves(self) -> bool:
        """Whether it moves elements to where DPAS takes them, which takes registers."""

    @property
    def fills(self) -> bool:
        """Whether it fills panels with zeros to their ends, where the sum ends before."""

    def pack(
        self, start: ir.Value, end: ir.Value, carried: Sequence[ir.Value], settles: bool
    ) -> list[ir.Value]:
        """Fill a panel from a place along k up to another one; return the values for the next one.

        If it `settles` it waits for registers that messages still read, as a loop that follows would in each iteration.
        """


@dataclass(frozen=True)
class LocalProduct:
    """Computes the sums of a sub-group's tile from operands that `reads` read, packed or not; `k` is their size.

    `inside` says whether the tile is a part of C, None where that is known, and where messages are emulated.
    """

    kernel: MicroKernel
    accumulators: Accumulators
    packing: Packing
    reads: tuple[Reads, Reads]
    k: Size
    inside: ir.Value | None = None

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.accumulators.builder

    def compute(self, store: Callable[[Sequence[ir.Value]], None]) -> None:
        """Compute the sums and have them stored.

        They are a column of blocks after the other; where terms are apart, those of the smaller ones are behind.
        """
        kernel, accumulators, builder = self.kernel, self.accumulators, self.builder
        count = kernel.lane_blocks * kernel.column_blocks * len(kernel.products)
        # The first products are what sums begin with, where nothing is in front of these.
        zeros = [] if self.begins or self.is_apart else [accumulators.zero() for _ in range(count)]
        last, first = size_value(self.k), self.packing.begin()
        for reads in self.reads:
            reads.begin(self.together)
        fixed = [reads.fixed(self.together) for reads in self.reads] if self.is_straight else []

        def packed(
            start: ir.Value, carried: Sequence[ir.Value], orders: bool
        ) -> tuple[ir.Value, list[ir.Value]]:
            end = builder.add(start, index(kernel.depth))
            if not (isinstance(self.k, int) and self.k % kernel.depth == 0):
                end = builder.select(builder.icmp_signed("<", end, last), end, last)
            # What was read of the last panel, or by the instruction before, is overwritten.
            self.barrier(orders)
            following = self.packing.pack(start, end, carried, not fixed)
            self.barrier()
            for reads in () if self.packing.by_messages else self.reads:
                reads.announce()
            return end, following

        def panel(place: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            start = place if place.type == I64 else builder.zext(place, I64)
            # DPAS took what messages read of the panel before.
            end, following = packed(start, carried[: len(first)], not self.packing.by_messages)
            sums = carried[len(first) :] or zeros
            with self.where_inside():
                sums = self.multiplied(start, end, sums, fixed)
            return [*following, *accumulators.carried(sums)]

        if self.begins:
            end, _ = packed(index(0), first, True)
            with self.where_inside():
                store(self.multiplied(index(0), end, [], fixed))
            return
        if self.is_apart:
            done, _ = packed(index(0), first, True)
            zeros = self.multiplied(index(0), done, [], fixed)
        elif self.packing.by_messages:
            self.fence()
        is_known = isinstance(self.k, int)
        carried = counted_loop(builder, *self.panels(self.is_apart), [*first, *accumulators.carried(zeros)], panel,
                               runs_at_least_once=is_known, unrolled=False,
                               ends_at_stop=is_known and self.is_straight and self.packing.by_messages)
        with self.where_inside():
            store(carried[len(first) :] or zeros)

    def panels(self, first_is_apart: bool) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Return where panels along k begin and end, and their length.

        Where these are straight code that messages pack, a known end is that of the last one, and k needs no 64 bits,
        whose comparison is three instructions more for each panel.
        """
        depth, last = self.kernel.depth, self.k
        begin, step = index(depth if first_is_apart else 0), index(depth)
        if not (self.is_straight and self.packing.by_messages):
            return begin, size_value(last), step
        if isinstance(last, int):
            last = max(1, -(-last // depth)) * depth
        begin, end, step = (self.builder.trunc(value, I32) for value in (begin, size_value(last), step))
        return begin, end, step

    def where_inside(self) -> AbstractContextManager[object]:
        """Return a context whose code runs where the tile is a part of C; sums are changed in place there."""
        return nullcontext() if self.inside is None else self.builder.if_then(self.inside)

    @property
    def begins(self) -> bool:
        """Whether there is one panel, so that its first products need no sums to be added to."""
        return isinstance(self.k, int) and 0 < self.k <= self.kernel.depth

    @property
    def pieces(self) -> int:
        """Pieces of a panel."""
        return -(-self.k // self.kernel.row.k) if self.begins and isinstance(self.k, int) else self.kernel.steps

    def in_front(self, count: int) -> int:
        """Return the pieces that sums begin with, in front of iterations of so many; 0 where sums begin as zeros."""
        return (self.pieces - 1) % count + 1 if self.begins else 0

    @cached_property
    def is_straight(self) -> bool:
        """Whether all pieces of a panel are multiplied without a loop, from where they are in each panel."""
        is_full = self.begins or self.packing.fills or self.are_whole(self.pieces)
        # What items pack has a loop: it takes more registers, or was not looked at.  What moves elements takes some
        # beside the sums and the addresses, which stay.
        addresses = sum(reads.registers(self.pieces) - reads.registers(0) for reads in self.reads)
        has_room = not self.packing.moves or self.sums + addresses <= _REGISTERS_BESIDE_MOVES
        return (is_full and (self.accumulators.rounds or self.packing.by_messages) and self.pieces <= MOST_STRAIGHT
                and not self.accumulators.messages.emulated and all(reads.stay for reads in self.reads) and has_room
                and self.sums + sum(reads.registers(self.pieces) for reads in self.reads) <= STRAIGHT_REGISTERS)

    @property
    def is_apart(self) -> bool:
        """Whether the first of several panels stands in front of the loop, so that sums begin with its products."""
        return (self.is_straight and self.packing.by_messages and self.inside is None and isinstance(self.k, int)
                and not self.begins)

    @property
    def sums(self) -> int:
        """Registers of the sums."""
        kernel = self.kernel
        return kernel.lane_blocks * kernel.column_blocks * len(kernel.products) * kernel.row.repeat

    @cached_property
    def together(self) -> int:
        """Pieces that an iteration multiplies: as many as registers allow, and as leave a panel several iterations."""
        if self.is_straight:
            return self.pieces
        kernel, sums = self.kernel, self.sums
        once = kernel.lane_blocks * kernel.column_blocks * sum(map(len, kernel.products))
        least = 1 if self.begins else 2
        counts = [count for count in range(_MOST_TOGETHER, 1, -1)
                  if least * count <= self.pieces - self.in_front(count)
                  and self.in_front(count) in (0, 1, count) and count * once <= _MOST_MULTIPLIED
                  and all(reads.reads_pieces(count, self.begins or kernel.steps % count == 0) for reads in self.reads)
                  and sums + sum(reads.registers(count) for reads in self.reads) <= _REGISTERS]
        exact = [count for count in counts if self.are_whole(count)]
        return next(iter(exact or [count for count in counts if kernel.steps % count == 0] or counts), 1)

    def multiplied(
        self, start: ir.Value, end: ir.Value, totals: Sequence[ir.Value], fixed: Sequence[Any]
    ) -> list[ir.Value]:
        """Return the sums with the products of a panel added: several pieces in an iteration, then those left over.

        Without sums, these begin with the products of an iteration in front.  Where places are `fixed` there is none.
        """
        accumulators, builder, depth, count = self.accumulators, self.builder, self.kernel.row.k, self.together
        places = fixed or [reads.places(count) for reads in self.reads]

        begin, stop = (builder.trunc(value, I32) for value in (start, end))
        if self.begins:
            stop = constant(I32, self.pieces * depth)

        def pieces(number: int, first: ir.Value, sums: Sequence[ir.Value], places: Sequence[Any]) -> list[ir.Value]:
            before, steps = builder.sub(first, begin), range(count - number, count)
            for step in steps:
                done = builder.add(before, constant(I32, (step - steps.start) * depth))
                left, right = (reads.read(place, step, steps, start, done)
                               for reads, place in zip(self.reads, places, strict=True))
                sums = self.added(sums, left, right)
            return list(sums)

        def loop(
            number: int, first: ir.Value, last: ir.Value, sums: Sequence[ir.Value], runs: bool, places: Sequence[Any]
        ) -> list[ir.Value]:
            def iteration(done: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                for reads, place in zip(self.reads, places, strict=True):
                    reads.advance(place, range(count - number, count))
                return accumulators.carried(pieces(number, done, carried or sums, places))

            return counted_loop(builder, first, last, constant(I32, number * depth), accumulators.carried(sums),
                                iteration, runs_at_least_once=runs, unrolled=False,
                                ends_at_stop=self.begins) or list(sums)

        if fixed:
            return pieces(count, begin, totals, fixed)
        sums, first = list(totals), begin
        if front := self.in_front(count):
            ahead = [reads.in_front(place, count, front) for reads, place in zip(self.reads, places, strict=True)]
            sums, first = pieces(front, first, [], ahead), builder.add(first, constant(I32, front * depth))
            if self.pieces == front:
                return sums
        if count == 1 or self.are_whole(count):
            return loop(count, first, stop, sums, True, places)
        length = builder.add(builder.sub(stop, first), constant(I32, depth - 1))
        # The count need not be a power of two: LLVM makes a mask of the remainder where it is.
        whole = builder.add(first, builder.sub(length, builder.urem(length, constant(I32, depth * count))))
        sums = loop(count, first, whole, sums, False, places)
        single = [reads.left_over(place, count) for reads, place in zip(self.reads, places, strict=True)]
        return loop(1, whole, stop, sums, False, single)

    def are_whole(self, count: int) -> bool:
        """Whether all panels are known to have a multiple of so many pieces behind those in front."""
        steps, depth = self.kernel.steps, self.kernel.row.k
        return self.begins or (
            steps % count == 0 and isinstance(self.k, int) and -(-self.k // depth) % count == 0)

    def added(
        self, sums: Sequence[ir.Value], left: Sequence[Sequence[Part]], right: Sequence[Sequence[Part]]
    ) -> list[ir.Value]:
        """Return the sums with the products of fragments added, which are lists of terms for each block.

        Without sums, the first products are what they begin with.
        """
        accumulators, count = self.accumulators, len(left) * len(right)
        result = dict(enumerate(sums))
        # In straight code the fragments of the side with more registers are in use to the end, so that messages that
        # load others there wait once, and together.
        of_a, of_b = (reads.registers(0) for reads in self.reads)
        by_rows = self.is_straight and of_b > of_a
        outer, inner = (left, right) if by_rows else (right, left)
        for first in range(len(outer)):
            for number, products in enumerate(self.kernel.products):
                for i, j in products:
                    for second in range(len(inner)):
                        row, column = (first, second) if by_rows else (second, first)
                        place = number * count + column * len(left) + row
                        a, b = left[row][i], right[column][j]
                        result[place] = accumulators.add(result[place], a, b) if place in result else (
                            accumulators.multiply(None, a, b))
        return [result[place] for place in range(count * len(self.kernel.products))]

    def fence(self) -> None:
        """Order accesses to local memory by the instruction before in front of those behind the next barrier."""
        builtin(self.builder, "_Z9mem_fencej", ir.VoidType(), [constant(I32, 1)], ("nounwind",))

    def barrier(self, orders: bool = True) -> None:
        """Wait for all sub-groups of the work-group; it `orders` accesses to local memory."""
        builtin(self.builder, "_Z7barrierj", ir.VoidType(), [constant(I32, int(orders))], ("nounwind", "convergent"))
