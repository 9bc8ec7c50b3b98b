"""Random regions that work-items run each for itself, for any sizes of work-groups and sub-groups.

All that work-items meet in stands where whole sub-groups come to it, and in `parallel` barriers where all do.  A
work-item stores at places of its own, or in a temporary that nobody reads before a barrier.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from tests.strategies.abstract import Interval, Magnitude, Ref, Retry, Scalar
from tests.strategies.control import Control
from tests.strategies.writer import Written
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.scalars import I1, I32, I64, INDEX, ScalarType

#: The most work-items of a work-group, and of a sub-group, in any test.
MOST, LANES = 192, 32
_SCANS = [kind for kind in ops.INSTRUCTIONS if issubclass(kind, ops.SubgroupReduction)]


class WorkItems(Control):
    """Writes ``parallel`` and ``foreach_tile``."""

    # --- values ---

    def integer(self, make: Callable[[ops.Value], ops.Operation], type: ScalarType = I32) -> Scalar:
        """Emit an instruction that gives an integer."""
        return self.scalar(make, type)

    def combined(self, kind: str, lhs: Scalar, rhs: Scalar | int) -> Scalar:
        right = ops.Constant(rhs, lhs.type) if isinstance(rhs, int) else rhs.operand
        return self.integer(lambda r: ops.Arith(kind=kind, lhs=lhs.operand, rhs=right, result=r), lhs.type)

    def compared(self, kind: str, lhs: Scalar, rhs: ops.Operand) -> Scalar:
        return self.integer(lambda r: ops.Compare(kind=kind, lhs=lhs.operand, rhs=rhs, result=r), I1)

    def as_index(self, value: Scalar, size: int) -> Scalar:
        """Return a value that is below `size` as an index."""
        interval = Interval((0,) * self.groups, (size - 1,) * self.groups)
        return self.scalar(lambda r: ops.Cast(operand=value.operand, result=r), INDEX, interval=interval)

    # --- meetings ---

    def meeting(self, depth: int = 0) -> None:
        """Emit what all work-items of a sub-group come to together."""
        choice = self.rng.random()
        if depth == 2 or choice < 0.5:
            self.exchange()
        elif choice < 0.75:
            self.meeting_loop(depth)
        else:
            self.meeting_branch(depth)

    def exchange(self) -> None:
        """Emit a sub-group instruction on any value."""
        type_ = self.pick([t for t in self.features.types if not t.is_boolean])
        value = self.expression(type_, 1)
        if self.chance(0.25):
            lane = ops.Constant(0, I32)
            if self.chance(0.5):
                size = self.integer(lambda r: ops.SubgroupSize(result=r))
                lane = self.combined("sub", size, 1).operand
            self.scalar(lambda r: ops.SubgroupBroadcast(operand=value.operand, lane=lane, result=r), type_,
                        value.magnitude)
            return
        kind = self.pick([kind for kind in _SCANS if kind.combination == "add" or not type_.is_complex])
        magnitude = value.magnitude
        if type_.mantissa:
            if not magnitude.whole or (not kind.has_own and kind.combination != "add"):
                raise Retry  # the neutral element of a minimum is infinite
            magnitude = magnitude.scaled(LANES).rounded(type_)
        self.scalar(lambda r: kind(operand=value.operand, result=r), type_, magnitude)

    def meeting_loop(self, depth: int) -> None:
        """Emit a loop with a meeting inside, which sub-groups leave at different times."""
        stop = ops.Constant(self.rng.randint(0, 3), I32)
        if self.chance(0.5):
            stop = self.combined("rem", self.subgroup, 3).operand
        variable, carried = ops.Value(self.name(), I32), ops.Value(self.name(), I64)
        initial = self.expression(I64, 1)
        with self.region(self.frame.inner(3)) as body:
            self.frame.scalars += [Scalar(variable), Scalar(carried)]
            self.meeting(depth + 1)
            self.emit(ops.Yield(values=(self.expression(I64, 1).operand,)))
        output = ops.Value(self.name(), I64)
        self.emit(ops.For(variable=variable, start=ops.Constant(0, I32), stop=stop, step=ops.Constant(1, I32),
                          body=ops.Region(tuple(body)), carried=(carried,), initial=(initial.operand,),
                          outputs=(output,)))
        self.frame.scalars.append(Scalar(output))

    def meeting_branch(self, depth: int) -> None:
        """Emit a branch with meetings inside, which sub-groups take or not."""
        parity = self.combined("rem", self.subgroup, 2)
        condition = self.compared("eq", parity, ops.Constant(self.rng.randint(0, 1), I32))
        type_ = self.pick([t for t in self.features.types if not t.mantissa and t != INDEX])
        regions = []
        for _ in range(2):
            with self.region(self.frame.inner()) as body:
                self.meeting(depth + 1)
                self.emit(ops.Yield(values=(self.expression(type_, 1).operand,)))
            regions.append(ops.Region(tuple(body)))
        output = ops.Value(self.name(), type_)
        self.emit(ops.If(condition=condition.operand, outputs=(output,), then=regions[0], otherwise=regions[1]))
        self.frame.scalars.append(Scalar(output))

    def turn(self, memory: Ref, place: Scalar) -> None:
        """Emit an exchange of values between all work-items, through a temporary."""
        self.store(self.expression(memory.root.element, 1), memory, [place])
        self.emit(ops.Barrier())
        count = self.integer(lambda r: ops.Cast(operand=self.count.operand, result=r), INDEX)
        last = self.combined("sub", count, 1)
        other = self.scalar(lambda r: ops.Arith(kind="sub", lhs=last.operand, rhs=place.operand, result=r), INDEX)
        self.element(memory, [other])
        self.emit(ops.Barrier())

    # --- regions ---

    def own(self, ref: Ref, mode: int, place: Scalar, end: ops.Operand) -> None:
        """Emit what a work-item does at a place of its own, if it has one."""
        condition = self.compared("lt", place, end)
        ref.root.readable = True
        with self.region(self.frame.inner()) as body:
            interval = Interval((0,) * self.groups, tuple(size - 1 for size in ref.sizes(mode)))
            index = Scalar(place.operand, interval=interval)
            self.frame.scalars.append(index)
            self.frame.written = (Written(ref, mode, index),)
            self.replicated_statements(self.rng.randint(0, 2))
            self.first([self.own_store] * 4)
        ref.root.readable = False
        self.emit(ops.If(condition=condition.operand, outputs=(), then=ops.Region(tuple(body))))

    def place(self, kind: type[ops.Operation], **fields: str) -> Scalar:
        """Emit an instruction that says where the work-item is, or how many there are."""
        return self.integer(lambda r: kind(result=r, **fields))

    def work_items(self) -> None:
        """Emit a region that work-items run."""
        ref = self.pick([r for r in self.frame.refs if r.root.writable and r.root.readable and r.order > 0])
        mode = self.rng.randrange(ref.order)
        end = self.size_operand(ref, mode).operand
        write = self.tiles if self.chance(0.4) else self.parallel
        try:
            ref.root.readable = False  # but where each work-item has a place of its own
            write(ref, mode, end)
        finally:
            ref.root.readable = True

    def parallel(self, ref: Ref, mode: int, end: ops.Operand) -> None:
        memory = self.temporary()
        with self.region(self.iteration_frame()) as body:
            lane, self.subgroup = self.place(ops.SubgroupLocalId), self.place(ops.SubgroupLinearId)
            size = self.place(ops.SubgroupSize)
            place = self.as_index(self.combined("add", self.combined("mul", self.subgroup, size), lane), MOST)
            self.count = size
            for axis in ("x", "y", "z"):
                self.count = self.combined("mul", self.count, self.place(ops.NumSubgroups, axis=axis))
                self.place(ops.SubgroupId, axis=axis)
            for _ in range(self.rng.randint(1, 3)):
                attempts = [self.meeting, lambda: self.turn(memory, place)]
                with suppress(Retry):
                    self.first([*self.shuffled(attempts), self.exchange, self.exchange])
                if self.chance(0.5):
                    with suppress(Retry):
                        self.first([lambda: self.own(ref, mode, place, end)])
            self.first([lambda: self.own(ref, mode, place, end)] * 4)
        self.emit(ops.Parallel(body=ops.Region(tuple(body))))

    def temporary(self) -> Ref:
        """Emit memory with an element for each work-item."""
        element = self.pick([t for t in self.features.types if not t.mantissa and not t.is_boolean])
        memory = self.allocate(element, [MOST])
        assert isinstance(memory.value.type, MemrefType)
        memory.root.magnitude = Magnitude()
        return memory

    def tiles(self, ref: Ref, mode: int, end: ops.Operand) -> None:
        size = self.rng.choice([16, 32, 48])
        first, extent = ops.Value(self.name(), INDEX), ops.Value(self.name(), INDEX)
        with self.region(self.iteration_frame()) as body:
            lane = self.place(ops.SubgroupLocalId)
            self.frame.scalars += [Scalar(first), Scalar(extent)]
            # Which sub-group has a tile is open.
            self.subgroup = self.integer(lambda r: ops.Cast(operand=first, result=r))
            for _ in range(self.rng.randint(0, 2)):
                with suppress(Retry):
                    self.first([self.meeting, self.exchange, self.exchange])
            offset = self.as_index(lane, LANES)
            place = self.scalar(lambda r: ops.Arith(kind="add", lhs=first, rhs=offset.operand, result=r), INDEX)
            self.first([lambda: self.own(ref, mode, place, end)] * 4)
        self.emit(ops.ForeachTile(variables=(first, extent), starts=(ops.Constant(0, INDEX),), stops=(end,),
                                  tiles=(size,), body=ops.Region(tuple(body))))
