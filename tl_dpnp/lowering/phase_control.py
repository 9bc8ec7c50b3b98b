"""Branches and loops in which work-items wait: they become phases of all work-items.

A temporary tells which of them take part (Karrenberg and Hack, "Whole-function vectorization", 2011: masks).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

from tl_dpnp.language import ops
from tl_dpnp.language.builder import FunctionBuilder, memref
from tl_dpnp.lowering.phase_values import PhaseValues
from tl_dpnp.scalars import I1, INDEX

__all__ = ["PhaseControl", "trip_count"]


def trip_count(b: FunctionBuilder, start: ops.Operand, stop: ops.Operand, step: ops.Operand) -> ops.Value:
    """Write how many iterations a loop has."""
    runs = b.cmp("lt", start, stop)
    if not isinstance(step, ops.Constant):
        runs = b.arith("and", runs, b.cmp("gt", step, 0))
    with b.if_(runs, INDEX) as branch:
        last = b.sub(b.sub(b.cast(stop, INDEX), b.cast(start, INDEX)), 1)
        b.yield_(b.add(b.div(last, b.cast(step, INDEX)), 1))
    with b.else_():
        b.yield_(0)
    return branch.results[0]


class PhaseControl(PhaseValues, ABC):
    """Writes branches and loops; how regions are written is open."""

    @abstractmethod
    def region(self, region: ops.Region, outputs: Sequence[int] = (), carried: Sequence[ops.Value] = ()) -> None:
        """Write the operations of a region; what it yields goes to the temporaries `outputs`."""

    @abstractmethod
    def pass_on(self, values: Sequence[ops.Operand], numbers: Sequence[int]) -> None:
        """Store values in temporaries, all of which are read before."""

    def branch(self, operation: ops.If) -> None:
        """Write an ``if`` in which work-items wait."""
        outputs = [self.temporary(value.type) for value in operation.outputs]
        if self.are_uniform(operation.condition):
            self.end()
            with self.b.if_(self.uniform(operation.condition)), self.apart():
                self.region(operation.then, outputs)
            if operation.otherwise is not None:
                with self.b.else_(), self.apart():
                    self.region(operation.otherwise, outputs)
        else:
            masks = [self.temporary(I1) for _ in operation.regions]
            for mask, region in zip(masks, operation.regions, strict=True):
                self.clear(mask, ops.Constant(False, I1))
                condition = self.use(operation.condition)
                self.keep(mask, condition if region is operation.then else self.b.arith("not", condition))
            for mask, region in zip(masks, operation.regions, strict=True):
                with self.apart(partial(self.kept, mask, I1)):
                    self.region(region, outputs)
        for value, number in zip(operation.outputs, outputs, strict=True):
            self.define(value, number)

    def loop(self, operation: ops.For) -> None:
        """Write a ``for`` in which work-items wait."""
        carried = [self.temporary(value.type) for value in operation.carried]
        self.pass_on(operation.initial, carried)
        self.begin(is_joint=False)
        for value, number in zip((*operation.carried, *operation.outputs), (*carried, *carried), strict=True):
            self.define(value, number)
        bounds = operation.start, operation.stop, operation.step
        type = ops.scalar_type(operation.variable)
        self.end()
        if self.are_uniform(*bounds):
            with self.b.for_(*map(self.uniform, bounds), type=type) as variable, self.apart():
                self.shared[operation.variable.name] = variable
                self.region(operation.body, carried, operation.carried)
            return
        trips, most = self.trips(bounds)
        with (
            self.b.for_(0, most) as iteration,
            self.apart(lambda: self.b.cmp("lt", iteration, self.kept(trips, INDEX))),
        ):
            self.known[operation.variable.name] = lambda: self.b.add(
                self.use(operation.start), self.b.mul(self.b.cast(iteration, type), self.use(operation.step)))
            self.region(operation.body, carried, operation.carried)

    def trips(self, bounds: tuple[ops.Operand, ops.Operand, ops.Operand]) -> tuple[int, ops.Value]:
        """Write how many iterations a loop has: for each work-item in a temporary, and the largest of them."""
        b, trips = self.b, self.temporary(INDEX)
        self.clear(trips, 0)
        self.keep(trips, trip_count(b, *map(self.use, bounds)))
        self.end()
        self.read[trips] = INDEX
        most = b.alloca(memref(INDEX))
        with b.foreach(0, 1):
            b.store(0, most)
            with b.for_(0, self.items.rows * self.items.columns) as subgroup, b.for_(0, self.items.lanes) as lane:
                b.store(b.math("max", b.load(most), b.load(self.memory[trips], lane, subgroup)), most)
        return trips, b.load(most)
