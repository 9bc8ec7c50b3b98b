"""Machine code of the host that refuses calls whose arrays may overlap: there may be a warning to be given.

The addresses of the arrays are among the values of the call; those of a list stand one behind another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from tl_dpnp.kernels.llvm import counted_loop, if_then, index
from tl_dpnp.runtime.native_calls import Word

if TYPE_CHECKING:
    from tl_dpnp.runtime.sycl.host_call_code import HostEmitter

__all__ = ["Beside", "OverlapEmitter", "Pair"]


class Pair(ctypes.Structure):
    """Two arguments that may not overlap, each an array or a list of such.

    The places of the first addresses, how many there are, and where the memory begins and ends, in bytes from each; it
    ends `step` bytes further on for each of the batch.
    """

    _fields_ = [(name, Word) for name in (
        "first", "count", "low", "high", "step", "second", "other_count", "other_low", "other_high", "other_step")]


class Beside(ctypes.Structure):
    """An argument that may not come near the arrays of a group.

    The place of the first of `count` addresses, where the memory begins and ends, as in `Pair`, and how many
    pieces of memory those arrays have, with the addresses of where these end and begin, in order.
    """

    _fields_ = [(name, Word) for name in ("place", "count", "low", "high", "step", "pieces", "ends", "starts")]


class OverlapEmitter:
    """Emits the checks for the entries of a record, and a batch of some size."""

    def __init__(self, emitter: HostEmitter, size: ir.Value) -> None:
        self.emitter, self.builder, self.size = emitter, emitter.builder, size

    def require_apart(self) -> None:
        """Refuse the call where arrays may overlap."""
        emitter, builder = self.emitter, self.builder

        def look(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self._require_apart(builder.mul(number, index(ctypes.sizeof(Pair) // 8)))
            return []

        def look_beside(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            self._require_beside(builder.mul(number, index(ctypes.sizeof(Beside) // 8)))
            return []

        counted_loop(builder, index(0), emitter.field("pair_count"), index(1), [], look)
        counted_loop(builder, index(0), emitter.field("beside_count"), index(1), [], look_beside)

    def _require_apart(self, at: ir.Value) -> None:
        """Check the arguments of an entry of `Pair`."""
        emitter, builder = self.emitter, self.builder
        first, count, low, high, step, second, other_count, other_low, other_high, other_step = (
            emitter.load(emitter.field("pairs"), builder.add(at, index(word))) for word in range(len(Pair._fields_)))
        values, high = emitter.values, self._end(high, step)
        other_high = self._end(other_high, other_step)

        def look(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            address = emitter.load(builder.add(values, first), number)

            def compare(other: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
                apart = builder.sub(address, emitter.load(builder.add(values, second), other))
                before = builder.icmp_signed(">=", other_low, builder.add(apart, high))
                behind = builder.icmp_signed(">=", builder.add(apart, low), other_high)
                emitter.require(builder.or_(before, behind))
                return []

            counted_loop(builder, index(0), other_count, index(1), [], compare)
            return []

        counted_loop(builder, index(0), count, index(1), [], look)

    def _end(self, high: ir.Value, step: ir.Value) -> ir.Value:
        """Return where memory ends, which is `step` bytes further on for each of the batch."""
        return self.builder.add(high, self.builder.mul(step, self.size))

    def _require_beside(self, at: ir.Value) -> None:
        """Check the arguments of an entry of `Beside`: of the pieces, the first that ends behind it begins there, too.
        """
        emitter, builder = self.emitter, self.builder
        place, count, low, high, step, pieces, ends, starts = (
            emitter.load(emitter.field("beside"), builder.add(at, index(word)))
            for word in range(len(Beside._fields_)))
        high = self._end(high, step)

        def look(number: ir.Value, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
            address = emitter.load(builder.add(emitter.values, place), number)
            first = self._first_above(ends, pieces, builder.add(address, low))

            def require_behind() -> None:
                emitter.require(builder.icmp_signed(">=", emitter.load(starts, first), builder.add(address, high)))

            if_then(builder, builder.icmp_signed("<", first, pieces), require_behind)
            return []

        counted_loop(builder, index(0), count, index(1), [], look)

    def _first_above(self, table: ir.Value, count: ir.Value, bound: ir.Value) -> ir.Value:
        """Return the number of the first word of a table in order that is above a bound, by halving what is left."""
        builder = self.builder

        def halve(_: ir.Value, ends: Sequence[ir.Value]) -> Sequence[ir.Value]:
            low, high = ends
            is_left = builder.icmp_signed("<", low, high)
            middle = builder.select(is_left, builder.lshr(builder.add(low, high), index(1)), index(0))
            is_above = builder.icmp_signed(">", self.emitter.load(table, middle), bound)
            beyond = builder.select(builder.and_(is_left, builder.not_(is_above)), builder.add(middle, index(1)), low)
            return [beyond, builder.select(builder.and_(is_left, is_above), middle, high)]

        rounds = builder.sub(index(64), builder.ctlz(count, ir.Constant(ir.IntType(1), 0)))
        return counted_loop(builder, index(0), rounds, index(1), [index(0), count], halve)[0]
