"""Regions of work-items whose matrices are in registers: a sub-group of the device runs them for one of the program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Generic, TypeAlias, TypeVar

from tl_dpnp.kernels import intrinsics
from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.body.building import MINIMUM, call
from tl_dpnp.lowering.body.memrefs import MemrefWriter
from tl_dpnp.lowering.body.tree import Comparison, Expression, Name, add, multiply, subtract
from tl_dpnp.lowering.decomposition import no_lowering
from tl_dpnp.lowering.fragment_choice import BlocksFit
from tl_dpnp.lowering.matrix_engine import MatrixEngine
from tl_dpnp.lowering.rewrite import root_of, roots
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX, Precision

__all__ = ["Held", "MatrixWriter", "RegionWriter"]

#: Where a value that is passed on from one to another is held: a variable, or registers for a matrix.
Held: TypeAlias = Any
Holder = TypeVar("Holder")


class MatrixWriter(ABC, Generic[Holder]):
    """What writes instructions on matrices that are in registers, which a `Holder` is as well."""

    @abstractmethod
    def subgroup(self) -> Expression:
        """Return the number of the sub-group of the device."""

    @abstractmethod
    def holder(self, value: ops.Value) -> Holder:
        """Return registers for a matrix that is passed on."""

    @abstractmethod
    def pass_on(self, holder: Holder, matrix: ops.Value) -> None:
        """Have a matrix held."""

    @abstractmethod
    def take(self, value: ops.Value, holder: Holder, is_fixed: bool) -> None:
        """Define a matrix as what is held; where that may change while it is used, as a copy."""

    def before_loop(self, loop: ops.For) -> bool:
        """Write what a loop needs in front of it, where it is entered.

        Return whether 32 bits hold how often it runs, and had better: nothing else needs its counter.
        """
        return False

    @abstractmethod
    def cooperate(self, operation: ops.Operation) -> None:
        """Write an instruction on matrices."""

    def exchange(self, operation: ops.SubgroupReduce) -> Expression:
        """Return what the values of all work-items of a sub-group are combined to."""
        raise no_lowering(operation)

    @abstractmethod
    def blocks_fit(self, operation: BlocksFit) -> Expression:
        """Return whether messages can access memrefs."""


@dataclass(kw_only=True)
class RegionWriter(MemrefWriter, ABC):
    """Writes regions of work-items, those that `items` says how many of there are.

    What is done with matrices is left to a `MatrixWriter`, as there is one for the `engine` of the device.
    """

    function: ops.Function
    items: ops.WorkItems
    engine: MatrixEngine
    precision: Precision
    #: The sub-group that is run, and the memory that the region around reads and writes.
    number: Expression = 0
    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    @abstractmethod
    def region(self, region: ops.Region, outputs: Sequence[Held] = ()) -> None:
        """Write the operations of a region; what it yields goes to `outputs`."""

    @property
    @abstractmethod
    def matrices(self) -> MatrixWriter[Any]:
        """What writes instructions on matrices."""

    # --- regions -----------------------------------------------------------------------------------------------------

    def parallel(self, operation: ops.Parallel | ops.ForeachTile) -> None:
        """Write a region: each sub-group of the device runs it for its share of those of the program."""
        inner = [*operation.body.walk()]
        self.read = self._roots_of(value for each in inner for value in each.reads)
        self.written = self._roots_of(value for each in inner for value in each.writes)
        count, own = self.items.rows * self.items.columns, self.mapping.layout.subgroups
        self.spmd, self.number = True, self.matrices.subgroup()
        if count == own:
            self._share(operation)
        else:
            with self._turns(self.number, count, own) as self.number:
                self._share(operation)
        self.spmd = False

    def _share(self, operation: ops.Parallel | ops.ForeachTile) -> None:
        """Write what a sub-group of the program does of a region."""
        if isinstance(operation, ops.ForeachTile):
            self.tiles(operation)
        else:
            self.region(operation.body)

    @contextmanager
    def _turns(self, first: Expression, stop: Expression, step: int) -> Iterator[Name]:
        """Write a loop over numbers that are so far apart."""
        counter = self.variable(first)
        with self.loop(Comparison("<", counter, stop)):
            yield self.define(counter)
            self.count_up(counter, step)

    def tiles(self, operation: ops.ForeachTile) -> None:
        """Write the tiles that the sub-group gets: one after another, the first mode runs fastest."""
        starts, stops = ([self.bind(self.wide(bound)) for bound in bounds]
                         for bounds in (operation.starts, operation.stops))
        trips = intrinsics.trip_count(INDEX)
        counts = [self.bind(call(trips, start, stop, tile))
                  for start, stop, tile in zip(starts, stops, operation.tiles, strict=True)]
        total: Expression = 1
        for count in counts:
            total = multiply(total, count)
        subgroups = self.items.rows * self.items.columns
        with self._turns(self.number, self.bind(total), subgroups) as number:
            left: Expression = number
            for mode, (start, stop, tile) in enumerate(zip(starts, stops, operation.tiles, strict=True)):
                place = left
                if mode + 1 < len(counts):
                    place = self.define(call(intrinsics.arithmetic("rem", INDEX), left, counts[mode]))
                    left = self.define(call(intrinsics.arithmetic("div", INDEX), left, counts[mode]))
                first = self.define(add(start, multiply(place, tile)))
                extent = self.define(call(MINIMUM, subtract(stop, first), tile))
                for value, known in ((operation.firsts[mode], first), (operation.extents[mode], extent)):
                    self.values[value.name] = self.define(
                        call(intrinsics.conversion(INDEX, ops.scalar_type(value)), known))
            self.region(operation.body)

    def reduce_subgroup(self, operation: ops.SubgroupReduce) -> None:
        """Define what the values of all work-items of a sub-group are combined to."""
        self.values[operation.result.name] = self.define(self.matrices.exchange(operation))

    def work_item_place(self, operation: ops.WorkItemPlace) -> None:
        """Define where a work-item is, as an instruction tells it."""
        place: Expression = self.number
        match operation:
            case ops.SubgroupLocalId():
                place = call(intrinsics.lane())
            case ops.SubgroupId(axis="x"):
                place = call(intrinsics.arithmetic("rem", INDEX), place, self.items.rows)
            case ops.SubgroupId(axis="y"):
                place = call(intrinsics.arithmetic("div", INDEX), place, self.items.rows)
            case ops.SubgroupId():
                place = 0
        result = operation.results[0]
        self.values[result.name] = self.define(call(intrinsics.conversion(INDEX, ops.scalar_type(result)), place))

    # --- values that are passed on -----------------------------------------------------------------------------------

    def holder(self, value: ops.Value) -> Held:
        """Return what holds a value that is passed on, from now on, so that the value is what it has then."""
        if isinstance(value.type, CooperativeMatrixType):
            return self.matrices.holder(value)
        return self.fresh(ops.scalar_type(value))

    def pass_on(self, holder: Held, operand: ops.Operand) -> None:
        """Have a value held."""
        if isinstance(holder, Name):
            self.assign(holder, self.operand(operand))
        else:
            assert isinstance(operand, ops.Value)
            self.matrices.pass_on(holder, operand)

    def take(self, value: ops.Value, holder: Held, is_fixed: bool = False) -> None:
        """Define a value as what is held; where that may change while it is used, as a copy."""
        if isinstance(holder, Name):
            self.values[value.name] = holder if is_fixed else self.define(holder)
        else:
            self.matrices.take(value, holder, is_fixed)

    @cached_property
    def roots(self) -> dict[str, str]:
        """The memory that memrefs refer to."""
        return roots(self.function)

    def _roots_of(self, values: Iterable[ops.Value]) -> frozenset[str]:
        return frozenset(root_of(value, self.roots) for value in values)
