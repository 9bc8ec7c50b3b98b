"""Regions that work-items run, in phases: between two of them work-items wait for one another.

Each phase is a ``foreach`` over the work-items: over their numbers in the sub-group first, then over the sub-groups
(Stratton, Stone and Hwu, "MCUDA", 2008: loop fission; Jääskeläinen et al., "pocl", 2015: work-group functions).  What
values are in a phase is in `phase_values`, branches and loops in which work-items wait in `phase_control`, and
sub-group instructions in `phase_exchanges`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from tl_dpnp.language import ops
from tl_dpnp.language.builder import FunctionBuilder
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering import matrices
from tl_dpnp.lowering.phase_control import PhaseControl, trip_count
from tl_dpnp.lowering.phase_exchanges import PhaseExchanges
from tl_dpnp.lowering.rewrite import map_operation
from tl_dpnp.scalars import I32, INDEX, ScalarType

__all__ = ["Phases"]


def _used(operation: ops.Operation) -> Iterator[ops.Value]:
    """Yield the values that are used in an operation and in its regions."""
    for each in (operation, *(inner for region in operation.regions for inner in region.walk())):
        yield from (operand for operand in each.operands if isinstance(operand, ops.Value))


def _read_from_memory(operation: ops.Operation) -> Sequence[ops.Operand]:
    """Return the operands that have to be in memory where they are constant cooperative matrices.

    What is added to a product, carried or returned is put into the memory of the result.
    """
    match operation:
        case ops.CooperativeMatrixMulAdd():
            return operation.A, operation.B
        case ops.For() | ops.Yield():
            return ()
    return operation.operands


def _waits(operation: ops.Operation) -> bool:
    """Return whether work-items wait for one another in an operation of a region that each runs for itself."""
    if operation.is_cooperative:
        return True
    if operation.regions:
        return any(_waits(inner) for region in operation.regions for inner in region)
    return operation.waits


class Phases(PhaseControl, PhaseExchanges):
    """Writes a region as phases; see `PhaseValues` for what it is made with."""

    # --- regions -----------------------------------------------------------------------------------------------------

    def write(
        self, operation: ops.Parallel | ops.ForeachTile, constants: Mapping[str, ops.CooperativeMatrixConstruct]
    ) -> None:
        """Write a region that work-items run; names in it are unique in the function.

        `constants` are the cooperative matrices that are filled outside of regions, by their names.
        """
        self.constants = constants
        used = {operand.name for inner in operation.body.walk() for operand in _read_from_memory(inner)
                if isinstance(operand, ops.Value) and operand.name in constants}
        for constant in sorted(used):
            self.begin(is_joint=True)
            matrices.construct(self, constants[constant])
        self.end()
        for inner in operation.body.walk():
            name = next((result.name for result in inner.results), "")
            if isinstance(inner, ops.WorkItemPlace):
                self.places[name], self.known[name] = inner, partial(self.place_as, inner, I32)
            elif isinstance(inner, ops.Cast) and inner.result.type == INDEX and isinstance(inner.operand, ops.Value):
                place = self.places.get(inner.operand.name)
                if place is not None:
                    self.places[name], self.known[name] = place, partial(self.place_as, place, INDEX)
        if isinstance(operation, ops.ForeachTile):
            self.tiles(operation)
        else:
            self.region(operation.body)
        self.end()

    def tiles(self, operation: ops.ForeachTile) -> None:
        """Write the tiles: all as one phase, or where their work-items wait one after another for each sub-group."""
        b, (lanes, subgroups) = self.b, (self.items.lanes, self.items.rows * self.items.columns)
        sizes = [ops.Constant(size, ops.scalar_type(value))
                 for size, value in zip(operation.tiles, operation.firsts, strict=True)]
        counts = [trip_count(b, *bounds) for bounds in zip(operation.starts, operation.stops, sizes, strict=True)]

        def define(tile_of: Callable[[int], ops.Operand]) -> None:
            for mode, (first, extent) in enumerate(zip(operation.firsts, operation.extents, strict=True)):
                self.known[first.name] = partial(self.first_of, operation, mode, tile_of)
                self.known[extent.name] = partial(self.extent_of, operation, mode)

        if not any(map(_waits, operation.body)):
            self.extents, self.is_trial = (lanes, *counts), False  # one phase, for which nothing is kept
            self.subgroup = lambda: b.rem(_flat(b, self.indices[1:], counts), subgroups)
            define(lambda mode: self.indices[1 + mode])
            self.region(operation.body)
            return
        total = counts[0]
        for count in counts[1:]:
            total = b.mul(total, count)
        with b.for_(0, total, subgroups) as begin:
            def number() -> ops.Value:
                return b.add(begin, self.indices[1])

            define(lambda mode: b.rem(_left(b, number(), counts[:mode]), counts[mode]))
            with self.apart(lambda: b.cmp("lt", number(), total)):
                self.region(operation.body)

    def first_of(self, operation: ops.ForeachTile, mode: int, tile_of: Callable[[int], ops.Operand]) -> ops.Value:
        """Return the first index of a tile, whose number along each mode is given."""
        b, start = self.b, self.b.cast(operation.starts[mode], INDEX)
        first = b.add(start, b.mul(tile_of(mode), operation.tiles[mode]))
        return b.cast(first, ops.scalar_type(operation.firsts[mode]))

    def extent_of(self, operation: ops.ForeachTile, mode: int) -> ops.Value:
        """Return how many indices a tile has."""
        b, stop = self.b, self.b.cast(operation.stops[mode], INDEX)
        left = b.sub(stop, b.cast(self.use(operation.firsts[mode]), INDEX))
        return b.cast(b.math("min", left, operation.tiles[mode]), ops.scalar_type(operation.firsts[mode]))

    def place_as(self, operation: ops.WorkItemPlace, type: ScalarType) -> ops.Value:
        """Return where a work-item is, as an instruction tells it, in an integer type."""
        found: ops.Operand = self.subgroup()
        match operation:
            case ops.SubgroupLocalId():
                found = self.indices[0]
            case ops.SubgroupId(axis="x"):
                found = self.b.rem(found, self.rows)
            case ops.SubgroupId(axis="y"):
                found = self.b.div(found, self.rows)
            case ops.SubgroupId():
                found = ops.Constant(0, INDEX)
        return self.b.cast(found, type)

    def region(self, region: ops.Region, outputs: Sequence[int] = (), carried: Sequence[ops.Value] = ()) -> None:
        """Write the operations of a region; what it yields goes to the temporaries `outputs`.

        `carried` are values that only the region uses, beside those that it defines.
        """
        last = {operand.name: place for place, operation in enumerate(region) for operand in _used(operation)}
        own = {value.name for value in (*carried, *(result for operation in region for result in operation.results))}
        for place, operation in enumerate(region):
            self.dying = {name for name in own if last.get(name) == place}
            match operation:
                case ops.Yield(values=values):
                    self.pass_on(values, outputs)
                case ops.CooperativeMatrixPrefetch():
                    pass  # a hint
                case ops.If() | ops.For() if _waits(operation):
                    self.begin(is_joint=False)
                    if isinstance(operation, ops.If):
                        self.branch(operation)
                    else:
                        self.loop(operation)
                case _ if operation.is_cooperative:
                    self.cooperate(operation)
                case _ if not _waits(operation):
                    self.copy(operation)
                case ops.SubgroupExchange():
                    self.exchange(operation)
                case _:  # a barrier
                    self.end()
                    self.b.append(operation)

    # --- instructions ------------------------------------------------------------------------------------------------

    def copy(self, operation: ops.Operation) -> None:
        """Write an operation in which nobody waits."""
        if any(result.name in self.places for result in operation.results):
            return
        self.begin(is_joint=False)
        self.enter()
        self.b.append(self.mapped(operation))
        if isinstance(operation, ops.ScalarOperation) and operation.is_total and self.are_uniform(*operation.operands):
            self.computed[operation.results[0].name] = operation
        for result in operation.results:
            if isinstance(result.type, ScalarType):
                self.remember(result, result)
            else:
                self.here[result.name] = result
                self.known[result.name] = partial(self.again, operation)

    def mapped(self, operation: ops.Operation) -> ops.Operation:
        """Return an operation with what its operands are in the phase."""
        def nested(region: ops.Region) -> ops.Region:
            return ops.Region(tuple(self.mapped(inner) for inner in region
                                    if not any(result.name in self.places for result in inner.results)))

        return map_operation(operation, self.use, lambda value: value, nested)

    def again(self, operation: ops.Operation) -> ops.Value:
        """Write an operation again that gives a view."""
        self.b.append(self.mapped(operation))
        return operation.results[0]

    def pass_on(self, values: Sequence[ops.Operand], numbers: Sequence[int]) -> None:
        """Store values in temporaries, all of which are read before."""
        scalars, moved, filled = [], [], []
        for value, number in zip(values, numbers, strict=True):
            if isinstance(value, ops.Value) and isinstance(value.type, CooperativeMatrixType):
                constant = self.constant(value)
                if constant is not None:
                    filled.append((constant, number))
                elif self.matrices[value.name] != number:
                    moved.append((self.matrices[value.name], number, value.type))
            else:
                scalars.append((value, number))
        if moved:
            self.begin(is_joint=True)
            targets = {number for _, number, _ in moved}
            for place, (source, number, type) in enumerate(moved):
                if source in targets:  # which may be written before it is read
                    between = self.temporary(type)
                    matrices.copy(self, self.stored_matrix(source, type), self.stored_matrix(between, type))
                    moved[place] = between, number, type
            for source, number, type in moved:
                matrices.copy(self, self.stored_matrix(source, type), self.stored_matrix(number, type))
        if filled:
            self.begin(is_joint=True)
            for constant, number in filled:
                matrices.construct(self, constant, self.stored_matrix(number, ops.matrix_type(constant.result)))
        if scalars:
            self.begin(is_joint=False)
            found = [(self.use(value), number) for value, number in scalars]
            for operand, number in found:
                self.keep(number, operand)

    def cooperate(self, operation: ops.Operation) -> None:
        """Write an instruction on cooperative matrices."""
        if isinstance(operation, ops.CooperativeMatrixExtract):
            self.begin(is_joint=False)
            self.remember(operation.result, matrices.extract(self, operation))
            return
        self.begin(is_joint=True)
        if isinstance(operation, ops.CooperativeMatrixInsert):
            source, target = self.matrix(operation.A), self.made(operation.result, operation.A)
            if not self.shares(operation.result, operation.A):
                matrices.copy(self, source, target)
            self.begin(is_joint=False)
            matrices.insert(self, operation)
            return
        matrices.write(self, operation)


def _left(b: FunctionBuilder, number: ops.Value, sizes: Sequence[ops.Value]) -> ops.Value:
    """Return what is left of the number of a tuple of indices without the first ones, which have these sizes."""
    for size in sizes:
        number = b.div(number, size)
    return number


def _flat(b: FunctionBuilder, indices: Sequence[ops.Operand], sizes: Sequence[ops.Value]) -> ops.Operand:
    """Return the number of a tuple of indices, the first of which runs fastest."""
    *rest, number = indices
    for index, size in zip(reversed(rest), reversed(sizes[:-1]), strict=True):
        number = b.add(b.mul(number, size), index)
    return number
