"""Regions that work-items run, in phases: between two of them work-items wait for one another.

Each phase is a ``foreach`` over the work-items: over their numbers in the sub-group first, then over the sub-groups.
Values that are used in a later phase are kept in a temporary with an element for each work-item (Stratton, Stone and
Hwu, "MCUDA", 2008: loop fission and scalar expansion; Jääskeläinen et al., "pocl", 2015: work-group functions).
Branches and loops in which work-items wait become phases of all work-items, and a temporary tells which of them take
part (Karrenberg and Hack, "Whole-function vectorization", 2011: masks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from tl_dpnp.language import ops
from tl_dpnp.language.builder import ALL, FunctionBuilder, memref
from tl_dpnp.language.building import Argument, Number
from tl_dpnp.language.types import CooperativeMatrixType, MemrefType, Type
from tl_dpnp.lowering import matrices
from tl_dpnp.lowering.rewrite import map_operation
from tl_dpnp.scalars import I1, I8, I32, INDEX, ScalarType

__all__ = ["Phases", "memory_type"]

#: Makes what a value is in the phase that is being written.
_Remade = Callable[[], ops.Operand]


def memory_type(type: Type, items: ops.WorkItems) -> MemrefType:
    """Return the type of a temporary that has an element for each work-item, or a matrix for each sub-group."""
    if isinstance(type, CooperativeMatrixType):
        return memref(type.component, *type.shape, items.rows * items.columns)
    assert isinstance(type, ScalarType), type
    return memref(I8 if type == I1 else type, items.lanes, items.rows * items.columns)


def may_share(type: CooperativeMatrixType, other: CooperativeMatrixType) -> bool:
    """Return whether two cooperative matrices may have the same memory, one after the other."""
    return (type.component, type.shape) == (other.component, other.shape)


def _used(operation: ops.Operation) -> Iterator[ops.Value]:
    """Yield the values that are used in an operation and in its regions."""
    for each in (operation, *(inner for region in operation.regions for inner in region.walk())):
        yield from (operand for operand in each.operands if isinstance(operand, ops.Value))


def _waits(operation: ops.Operation) -> bool:
    """Return whether work-items wait for one another in an operation of a region that each runs for itself."""
    if operation.is_cooperative:
        return True
    if operation.regions:
        return any(_waits(inner) for region in operation.regions for inner in region)
    return operation.waits


def _trips(b: FunctionBuilder, start: ops.Operand, stop: ops.Operand, step: ops.Operand) -> ops.Value:
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


class Phases:
    """Writes a region as phases, with a builder.

    `memory` has the temporaries to use, by their numbers; without it all are made up, to find those that are `read`,
    whose types that has.  `extents` are the ranges of the loops of a phase, whose first is that of the work-items in a
    sub-group.  Where `is_joint`, phases are for sub-groups, one after another, and the whole work-group takes part in
    each: what cooperative matrices are lowered to stands there.  `matrices` has the numbers of their temporaries.
    """

    def __init__(self, b: FunctionBuilder, items: ops.WorkItems, memory: dict[int, ops.Value] | None = None) -> None:
        self.b, self.items = b, items
        self.is_trial, self.memory = memory is None, memory or {}
        self.read: dict[int, Type] = {}
        self.extents: Sequence[Argument] = (items.lanes, items.rows * items.columns)
        self.indices: tuple[ops.Operand, ...] = ()
        self.is_joint = False
        self.matrices: dict[str, int] = {}
        self.dying: set[str] = set()  # those that nobody uses behind the instruction that is written
        self.subgroup: Callable[[], ops.Operand] = lambda: self.indices[1]
        self.mask: _Remade | None = None
        self.phase: ExitStack | None = None
        self.here: dict[str, ops.Operand] = {}  # values of the phase, by their names in the program
        self.known: dict[str, _Remade] = {}  # those that differ between work-items
        self.shared: dict[str, ops.Operand] = {}  # and those that do not, where they are others than in the program
        self.places: dict[str, ops.WorkItemPlace] = {}
        self.count = 0

    # --- phases ------------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Begin a phase, if none has begun, for the work-items that take part."""
        if self.phase is None:
            self.phase = ExitStack()
            if self.is_joint:
                number: ops.Operand = ops.Constant(0, INDEX)
                if self.items.rows * self.items.columns > 1:
                    number = self.phase.enter_context(self.b.for_(0, self.items.rows * self.items.columns))
                self.indices = ops.Constant(0, INDEX), number
            else:
                self.indices = self.phase.enter_context(self.b.foreach_modes([0] * len(self.extents), self.extents))
            if self.mask is not None:
                self.phase.enter_context(self.b.if_(self.mask()))

    def end(self) -> None:
        """End the phase, if one has begun: whatever is written next comes after it."""
        if self.phase is not None:
            self.phase.close()
        self.phase, self.here = None, {}

    def begin(self, is_joint: bool) -> None:
        """Have what is written next in a phase for sub-groups or for work-items."""
        if self.is_joint != is_joint:
            self.end()
            self.is_joint = is_joint

    @contextmanager
    def apart(self, mask: _Remade | None = None) -> Iterator[None]:
        """Write phases of their own, for the work-items that take part, or those for which a value is true."""
        self.end()
        saved, self.mask = self.mask, mask or self.mask
        yield
        self.end()
        self.mask = saved

    # --- values ------------------------------------------------------------------------------------------------------

    def use(self, operand: ops.Operand) -> ops.Operand:
        """Return an operand of the program in the phase."""
        self.enter()
        if isinstance(operand, ops.Constant):
            return operand
        if operand.name not in self.here and operand.name in self.known:
            self.here[operand.name] = self.known[operand.name]()
        return self.here.get(operand.name) or self.uniform(operand)

    def uniform(self, operand: ops.Operand) -> ops.Operand:
        """Return an operand that is the same for all work-items."""
        return self.shared.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

    def are_uniform(self, *operands: ops.Operand) -> bool:
        """Return whether operands are the same for all work-items by where they are defined."""
        return not any(isinstance(operand, ops.Value) and operand.name in self.known for operand in operands)

    def temporary(self, type: Type) -> int:
        """Return the number of a new temporary, which has an element for each work-item, or a matrix."""
        self.count += 1
        if self.is_trial:
            self.memory[self.count] = ops.Value("", memory_type(type, self.items))
        return self.count

    def keep(self, number: int, value: Argument) -> None:
        """Store the value of the work-item in a temporary, if it is read."""
        if number in self.memory:
            self.enter()
            is_truth = isinstance(value, ops.Value | ops.Constant) and value.type == I1
            self.b.store(self.b.cast(value, I8) if is_truth else value, self.memory[number], *self.indices)

    def kept(self, number: int, type: ScalarType, lane: ops.Operand | None = None) -> ops.Value:
        """Load the value of the work-item, or of another one of its sub-group, from a temporary."""
        self.enter()
        self.read[number] = type
        value = self.b.load(self.memory[number], self.indices[0] if lane is None else lane, self.indices[1])
        return self.b.cmp("ne", value, 0) if type == I1 else value

    def define(self, value: ops.Value, number: int) -> None:
        """Make a value of the program stand for what a temporary has."""
        if isinstance(value.type, CooperativeMatrixType):
            self.matrices[value.name] = number
            return
        self.known[value.name] = partial(self.kept, number, ops.scalar_type(value))

    def remember(self, value: ops.Value, found: ops.Operand) -> None:
        """Make a value of the program stand for one of the phase, and keep that for later ones."""
        number = self.temporary(ops.scalar_type(value))
        self.here[value.name] = found
        self.keep(number, found)
        self.define(value, number)

    # --- matrices ----------------------------------------------------------------------------------------------------

    def matrix(self, value: ops.Value) -> ops.Value:
        """Return a view of a cooperative matrix of the sub-group."""
        return self.stored_matrix(self.matrices[value.name], ops.matrix_type(value))

    def made(self, value: ops.Value, *over: ops.Operand) -> ops.Value:
        """Return a view of the memory of a new cooperative matrix, that of one of others which is not used any more."""
        if value.name not in self.matrices:
            own = ops.matrix_type(value)
            taken = next((self.matrices[each.name] for each in over if isinstance(each, ops.Value)
                          and each.name in self.dying and may_share(own, ops.matrix_type(each))), None)
            self.matrices[value.name] = self.temporary(own) if taken is None else taken
        return self.matrix(value)

    def shares(self, value: ops.Value, other: ops.Value) -> bool:
        """Return whether two cooperative matrices have the same memory."""
        return self.matrices[value.name] == self.matrices[other.name]

    def stored_matrix(self, number: int, type: CooperativeMatrixType) -> ops.Value:
        """Return a view of the matrix of the sub-group that a temporary has."""
        self.enter()
        self.read[number] = type
        return self.b.subview(self.memory[number], ALL, ALL, self.indices[1])

    def pass_on(self, values: Sequence[ops.Operand], numbers: Sequence[int]) -> None:
        """Store values in temporaries, all of which are read before."""
        scalars, moved = [], []
        for value, number in zip(values, numbers, strict=True):
            if isinstance(value, ops.Value) and isinstance(value.type, CooperativeMatrixType):
                if self.matrices[value.name] != number:
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

    # --- regions -----------------------------------------------------------------------------------------------------

    def write(
        self, operation: ops.Parallel | ops.ForeachTile, constants: Mapping[str, ops.CooperativeMatrixConstruct]
    ) -> None:
        """Write a region that work-items run; names in it are unique in the function.

        `constants` are the cooperative matrices that are filled outside of regions, by their names.
        """
        used = {operand.name for inner in operation.body.walk() for operand in inner.operands
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
        counts = [_trips(b, *bounds) for bounds in zip(operation.starts, operation.stops, sizes, strict=True)]

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
                found = self.b.rem(found, self.items.rows)
            case ops.SubgroupId(axis="y"):
                found = self.b.div(found, self.items.rows)
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

    def exchange(self, operation: ops.SubgroupExchange) -> None:
        """Write a sub-group instruction: all store their values in one phase and read them in the next."""
        self.begin(is_joint=False)
        type = ops.scalar_type(operation.operand)
        number = self.temporary(type)
        self.keep(number, self.use(operation.operand))
        self.end()
        if isinstance(operation, ops.SubgroupBroadcast):
            found = self.kept(number, type, self.b.cast(self.use(operation.lane), INDEX))
        else:
            assert isinstance(operation, ops.SubgroupReduction)
            found = self.reduced(operation, number, type)
        self.remember(operation.results[0], found)

    def reduced(self, operation: ops.SubgroupReduction, number: int, type: ScalarType) -> ops.Value:
        """Combine the values of work-items of the sub-group."""
        self.enter()
        b = self.b

        def combined(first: ops.Value, second: ops.Value) -> ops.Value:
            return b.add(first, second) if operation.combination == "add" else (
                b.math(operation.combination, first, second))

        if operation.is_scan:
            first = self.kept(number, type, ops.Constant(0, INDEX))
            with b.for_carrying([first], 1, b.add(self.indices[0], int(operation.has_own))) as loop:
                b.yield_(combined(loop.carried[0], self.kept(number, type, loop.variable)))
            if operation.has_own:
                return loop.outputs[0]
            with b.if_(b.cmp("eq", self.indices[0], 0), type) as nobody:
                b.yield_(_constant(b, operation.neutral, type))
            with b.else_():
                b.yield_(loop.outputs[0])
            return nobody.results[0]
        values = [self.kept(number, type, ops.Constant(lane, INDEX)) for lane in range(self.items.lanes)]
        while len(values) > 1:  # in pairs: a long sum would wait for itself
            pairs = [combined(*values[at : at + 2]) for at in range(0, len(values) - 1, 2)]
            values = [*pairs, *values[2 * len(pairs) :]]
        return values[0]

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

    def clear(self, number: int, value: Argument) -> None:
        """Store a value in a temporary for the work-items that do not take part."""
        if self.mask is not None:
            self.end()
            saved, self.mask = self.mask, None
            self.keep(number, value)
            self.end()
            self.mask = saved

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
        self.keep(trips, _trips(b, *map(self.use, bounds)))
        self.end()
        self.read[trips] = INDEX
        most = b.alloca(memref(INDEX))
        with b.foreach(0, 1):
            b.store(0, most)
            with b.for_(0, self.items.rows * self.items.columns) as subgroup, b.for_(0, self.items.lanes) as lane:
                b.store(b.math("max", b.load(most), b.load(self.memory[trips], lane, subgroup)), most)
        return trips, b.load(most)


def _constant(b: FunctionBuilder, value: Number, type: ScalarType) -> Argument:
    """Return a number, also one that the language has no constant for: an end of the integers of 64 bits."""
    if not type.is_integer or -(2**63) < value.real < 2**63:
        return value
    return b.arith("shl", 1, 63, type=type) if value.real < 0 else b.arith("not", 0, type=type)


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
