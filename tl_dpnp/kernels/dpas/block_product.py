"""A tile of C by a sub-group whose operands are loaded, and whose result is stored, by messages of large blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, Part, accumulators_for
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, Surface
from tl_dpnp.kernels.dpas.block_shapes import RULES, Block
from tl_dpnp.kernels.dpas.fragments import Size, size_value
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.moving_headers import Header, MovingHeaders
from tl_dpnp.kernels.dpas.tile_blocks import (
    TileLoad,
    TileLoads,
    fetches_ahead,
    loads_of_a,
    loads_of_b,
    loads_of_both,
    parts_of,
)
from tl_dpnp.kernels.llvm import I32, I64, constant, counted_loop, index
from tl_dpnp.records import dataclass

__all__ = ["BlockProduct", "Shared"]

#: Iterations that operands are fetched into the caches ahead.
_AHEAD = 3
#: Iterations from which on the loop does two of them at once, and the fewest bits of factors for that: with fewer, it
#: may wait for registers by more instructions than it saves (41 of i8 and i4 in two iterations, 13 in one).
_LEAST_IN_TWO, _BITS_IN_TWO = 4, 8
#: Registers of sums and of what is loaded of a tile whose words are taken apart, at most, for the same.
_MOST_IN_TWO = 200


@dataclass(frozen=True)
class Shared:
    """The sub-groups that load the same rows of A, or columns of B: which one this is, of how many."""

    number: ir.Value
    count: int


class _Loaded(NamedTuple):
    """A fragment in a block that was loaded: an offset in bytes."""

    value: ir.Value
    block: Block
    offset: int


def _fragments(
    loaded: Sequence[ir.Value], loads: Sequence[TileLoad]
) -> dict[tuple[int, int], _Loaded]:
    """Return where the fragments of blocks of lines and steps are in what was loaded."""
    return {place: _Loaded(value, load.block, offset) for value, load in zip(loaded, loads, strict=True)
            for place, offset in load.fragments.items()}


@dataclass(frozen=True)
class BlockProduct:
    """Computes tiles from operands of which messages can move blocks; `k` is their size along the sum."""

    kernel: MicroKernel
    messages: BlockMessages
    a: Surface
    b: Surface
    a_along_k: bool
    b_along_k: bool
    k: Size

    @property
    def builder(self) -> ir.IRBuilder:
        """Where code is appended."""
        return self.messages.builder

    @cached_property
    def accumulators(self) -> Accumulators:
        """What computes with fragments."""
        return accumulators_for(self.kernel.row, self.messages)

    @cached_property
    def of_b(self) -> TileLoads:
        """The loads of B."""
        return loads_of_b(self.kernel, self.b_along_k)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the tile in the order of the rows that DPAS makes them of, block after block."""
        return self.of_b.order

    def sums(
        self, first_row: ir.Value, first_column: ir.Value, sharing_a: Shared, sharing_b: Shared
    ) -> list[ir.Value]:
        """Return the sums of a tile, column of blocks after column, for `Accumulators.value`."""
        kernel, builder, accumulators = self.kernel, self.builder, self.accumulators
        operands = [(loads_of_a(kernel, self.a_along_k), self.a, first_row), (self.of_b, self.b, first_column)]
        loads = [load for operand, *_ in operands for load in operand.loads]
        in_place = not self.messages.emulated
        headers, steps = self.headers(operands, in_place)
        moving = MovingHeaders.of(self.messages, headers, steps) if in_place else None
        fetch = self.fetching_ahead([
            (*operands[0], kernel.tile_rows, sharing_a), (*operands[1], kernel.tile_columns, sharing_b)])
        # Where no loop adds to sums, the first products are what they begin with.
        begins = in_place and self.parts[0] in (0, 1)
        zeros = [] if begins else [accumulators.zero() for _ in range(kernel.lane_blocks * kernel.column_blocks)]
        count = len(operands[0][0].loads)

        def added(totals: Sequence[ir.Value], loads: Sequence[TileLoad], headers: Sequence[Header],
                  steps: int, count: int) -> list[ir.Value]:
            loaded = [accumulators.load(header.value, load.block, header.number)
                      for header, load in zip(headers, loads, strict=True)]
            return self.multiplied(
                totals, _fragments(loaded[:count], loads[:count]), _fragments(loaded[count:], loads[count:]), steps)

        def iteration(_: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            if moving:
                moving.move(self.messages)
                now, following, totals = moving.headers, [], carried or zeros
            else:
                now, totals = tuple(map(Header, carried[: len(headers)])), carried[len(headers) :]
                following = [builder.add(header, self.messages.step(*step))
                             for (header, _), step in zip(now, steps, strict=True)]
            totals = added(totals, loads, now, kernel.steps, count)
            if begins:
                zeros[:] = totals
            return [*following, *accumulators.carried(totals)]

        result = self.looped(iteration, [] if moving else [*headers, *accumulators.carried(zeros)], fetch)
        sums = zeros if moving else result[len(headers) :]
        _, left = self.parts
        if left:
            ends = moving.headers if moving else tuple(map(Header, result[: len(headers)]))
            of_a, of_b = self.left_over(operands, ends, left)
            sums = added(sums, [load for load, _ in (*of_a, *of_b)], [header for _, header in (*of_a, *of_b)], left,
                         len(of_a))
        return sums

    @property
    def parts(self) -> tuple[int | None, int]:
        """The iterations of the loop, None where they are not known, and the DPAS along k that are left over."""
        if not isinstance(self.k, int):
            return None, 0
        return parts_of(self.kernel, self.k, self.a_along_k, self.b_along_k)

    def left_over(
        self, operands: Sequence[tuple[TileLoads, Surface, ir.Value]], headers: Sequence[Header], steps: int
    ) -> list[list[tuple[TileLoad, Header]]]:
        """Return the loads of A and of B of so many steps behind the last iteration, and their headers.

        Those of iterations are given: of the last one where they are changed in place, else of one behind it.
        """
        messages, kernel = self.messages, replace(self.kernel, steps=steps)
        result, first = [], 0
        for (operand, *_), less in zip(
                operands, loads_of_both(kernel, self.a_along_k, self.b_along_k), strict=True):
            own = dict(zip(((load.line, load.k) for load in operand.loads), headers[first:], strict=False))
            first += len(operand.loads)
            found = []
            for load in less.loads:
                header, number = own[load.line, 0]
                further = load.k * less.elements // kernel.depth
                if messages.emulated:
                    whole = next(each.block for each in operand.loads if (each.line, each.k) == (load.line, 0))
                    header = messages.changed(header, whole, load.block, less.k_field, further)
                else:
                    header = messages.copied(header, load.block, less.k_field, operand.elements + further, number)
                found.append((load, Header(header)))
            result.append(found)
        return result

    @property
    def does_two(self) -> bool:
        """Whether an iteration of the loop does two of the sum."""
        row, (parts, _) = self.kernel.row, self.parts
        has_few_bits = min(row.source1.bits, row.source2.bits) < _BITS_IN_TWO
        return not (self.messages.emulated or has_few_bits or (
            self._is_full if parts is None else parts < _LEAST_IN_TWO))

    def looped(
        self, iteration: Callable[[ir.Value, list[ir.Value]], list[ir.Value]], carried: list[ir.Value],
        fetch: Callable[[], None],
    ) -> list[ir.Value]:
        """Run an iteration for each part of the sum, two of them in one of the loop where there are several.

        In front of it, what later ones need is fetched into the caches.
        """
        builder, depth, zero = self.builder, self.kernel.depth, constant(I32, 0)
        parts, _ = self.parts
        last = builder.trunc(size_value(self.k), I32) if parts is None else constant(I32, parts * depth)

        def one(k: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            fetch()
            return iteration(k, carried)

        def two(k: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            return iteration(k, one(k, carried))

        if not self.does_two:
            # A matrix that messages take has a k that is not 0.
            return counted_loop(builder, zero, last, constant(I32, depth), carried, one,
                                runs_at_least_once=True, unrolled=False, ends_at_stop=bool(parts))
        # As long as there is more than one part.
        stop, twice = builder.sub(last, constant(I32, depth)), constant(I32, 2 * depth)
        if parts is not None:
            stop = constant(I32, parts // 2 * 2 * depth)
        counted_loop(builder, zero, stop, twice, [], two, runs_at_least_once=parts is not None, unrolled=False,
                     ends_at_stop=parts is not None)
        if parts is None:
            before = builder.udiv(builder.sub(last, constant(I32, 1)), constant(I32, depth))
            is_odd = builder.icmp_unsigned("==", builder.and_(before, constant(I32, 1)), zero)
            with builder.if_then(is_odd):
                iteration(zero, [])
        elif parts % 2:
            iteration(zero, [])
        return []

    @property
    def _is_full(self) -> bool:
        """Whether two iterations at once would need scratch memory beside the loops for any sizes.

        Words that are taken apart have registers of their own.
        """
        kernel = self.kernel
        blocks = [load.block for operand in loads_of_both(kernel, self.a_along_k, self.b_along_k)
                  for load in operand.loads]
        words = max((block.registers for block in blocks if block.is_taken_apart), default=0)
        sums = kernel.lane_blocks * kernel.column_blocks * kernel.row.repeat
        return words > 0 and sums + sum(block.registers for block in blocks) + words > _MOST_IN_TWO

    def multiplied(
        self, totals: Sequence[ir.Value], a: dict[tuple[int, int], _Loaded], b: dict[tuple[int, int], _Loaded],
        steps: int,
    ) -> list[ir.Value]:
        """Return the sums with the products of so many steps added; without any, these are the first ones."""
        kernel, accumulators = self.kernel, self.accumulators
        for step in range(steps):
            left: list[Part] = [accumulators.part(*a[i, step], True) for i in range(kernel.lane_blocks)]
            result: list[ir.Value] = []
            for j in range(kernel.column_blocks):
                right = accumulators.part(*b[j, step], False)
                result += [accumulators.add(totals[len(result) + i], part, right) if totals
                           else accumulators.multiply(None, part, right) for i, part in enumerate(left)]
            totals = result
        return list(totals)

    def headers(
        self, operands: Sequence[tuple[TileLoads, Surface, ir.Value]], in_place: bool
    ) -> tuple[list[ir.Value], list[tuple[int, int]]]:
        """Return the headers of all loads of the first iteration, and by which field and size the next ones differ.

        Those that are changed `in_place` are of an iteration before the first one: each begins by their change, where
        nothing waits for messages that took them before.
        """
        messages, builder = self.messages, self.builder
        headers, steps = [], []
        for operand, surface, first in operands:
            step = operand.k_field, operand.elements
            for load in operand.loads:
                line, k = builder.add(first, index(load.line)), index(load.k)
                place = (line, k) if operand.lines_are_columns else (k, line)
                headers.append(messages.header(
                    surface, load.block, *place, operand.k_field, operand.elements if in_place else 0))
                steps.append(step)
        return headers, steps

    def fetching_ahead(
        self, operands: Sequence[tuple[TileLoads, Surface, ir.Value, int, Shared]]
    ) -> Callable[[], None]:
        """Return what fetches into the caches what later iterations need, in front of each one of the loop.

        Sub-groups that load the same lines share that.  There is nothing to fetch where the sum is short.
        """
        depth, messages = self.kernel.depth, self.messages
        if messages.emulated or not fetches_ahead(self.kernel, self.k):
            return lambda: None
        # As much as the loop goes on by, as far ahead: fewer messages fetch what two iterations need.
        found, builder, ahead = [], self.builder, index(_AHEAD * depth)
        depth *= 2 if self.does_two else 1
        for operand, surface, first, lines, shared in operands:
            bits, unit = surface.bits, max(8, surface.bits)
            along_columns = not operand.lines_are_columns
            step = operand.k_field, depth * bits // unit if along_columns else depth
            wide, high = (lines, depth) if operand.lines_are_columns else (depth, lines)
            width = min(wide, RULES.row_bytes * 8 // bits)
            height = min(high, RULES.rows)
            across = -(-wide // width)
            # Pieces of an iteration's lines are dealt out: first along rows of memory, then several rows at a time.
            high_parts = max(-(-high // height), min(shared.count // across, high))
            height = -(-high // high_parts)
            pieces = across * high_parts
            for number in range(-(-pieces // shared.count)):
                own = builder.add(shared.number, index(number * shared.count))
                own = builder.trunc(own, I32)
                column = builder.mul(builder.zext(builder.urem(own, constant(I32, across)), I64), index(width))
                row = builder.mul(builder.zext(builder.udiv(own, constant(I32, across)), I64), index(height))
                place = (builder.add(first, column), builder.add(ahead, row)) if operand.lines_are_columns else (
                    builder.add(ahead, column), builder.add(first, row))
                block = Block("plain", unit, width * bits // unit, height)
                found.append((messages.header(surface, block, *place, *step), step, block))
        moving = MovingHeaders.of(messages, [header for header, _, _ in found], [step for _, step, _ in found])

        def fetch() -> None:
            moving.move(messages)
            for header, (_, _, block) in zip(moving.headers, found, strict=True):
                messages.prefetch(header.value, block, header.number)

        return fetch
