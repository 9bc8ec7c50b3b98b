"""Phases of work-items, and what their values are in each of them.

Values that are used in a later phase are kept in a temporary with an element for each work-item (Stratton, Stone and
Hwu, "MCUDA", 2008: scalar expansion), cooperative matrices in one with a matrix for each sub-group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from tl_dpnp.language import ops
from tl_dpnp.language.builder import ALL, FunctionBuilder, memref
from tl_dpnp.language.building import Argument
from tl_dpnp.language.types import CooperativeMatrixType, MemrefType, Type
from tl_dpnp.lowering.rewrite import map_operation
from tl_dpnp.scalars import I1, I8, INDEX, ScalarType

__all__ = ["PhaseValues", "Remade", "memory_type"]

#: Makes what a value is in the phase that is being written.
Remade = Callable[[], ops.Operand]


def memory_type(type: Type, items: ops.WorkItems) -> MemrefType:
    """Return the type of a temporary that has an element for each work-item, or a matrix for each sub-group."""
    if isinstance(type, CooperativeMatrixType):
        return memref(type.component, *type.shape, items.rows * items.columns)
    assert isinstance(type, ScalarType), type
    return memref(I8 if type == I1 else type, items.lanes, items.rows * items.columns)


def may_share(type: CooperativeMatrixType, other: CooperativeMatrixType) -> bool:
    """Return whether two cooperative matrices may have the same memory, one after the other."""
    return (type.component, type.shape) == (other.component, other.shape)


class PhaseValues:
    """The phase that is being written, with a builder, and the values that are known in it.

    `memory` has the temporaries to use, by their numbers; without it all are made up, to find those that are `read`,
    whose types that has.  `extents` are the ranges of the loops of a phase, whose first is that of the work-items in a
    sub-group.  Sub-groups of the program are in so many `rows`, which are more than those of `items` where these are
    only one at a time.  Where `is_joint`, phases are for sub-groups, one after another, and the whole work-group takes
    part in each: what cooperative matrices are lowered to stands there.  `matrices` has the numbers of their
    temporaries; `constants` are those that are filled with constants.
    """

    def __init__(
        self, b: FunctionBuilder, items: ops.WorkItems, memory: dict[int, ops.Value] | None = None,
        rows: int | None = None,
    ) -> None:
        self.b, self.items, self.rows = b, items, items.rows if rows is None else rows
        self.is_trial, self.memory = memory is None, memory or {}
        self.read: dict[int, Type] = {}
        self.extents: Sequence[Argument] = (items.lanes, items.rows * items.columns)
        self.indices: tuple[ops.Operand, ...] = ()
        self.is_joint = False
        self.matrices: dict[str, int] = {}
        self.constants: Mapping[str, ops.CooperativeMatrixConstruct] = {}
        self.dying: set[str] = set()  # those that nobody uses behind the instruction that is written
        self.subgroup: Callable[[], ops.Operand] = lambda: self.indices[1]
        self.mask: Remade | None = None
        self.phase: ExitStack | None = None
        self.here: dict[str, ops.Operand] = {}  # values of the phase, by their names in the program
        self.known: dict[str, Remade] = {}  # those that differ between work-items
        self.shared: dict[str, ops.Operand] = {}  # and those that do not, where they are others than in the program
        self.computed: dict[str, ops.ScalarOperation] = {}  # what computes values of others that do not differ
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
    def apart(self, mask: Remade | None = None) -> Iterator[None]:
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
        """Return an operand that is the same for all work-items, computed again where work-items computed it."""
        done: dict[str, ops.Operand] = {}

        def found(operand: ops.Operand) -> ops.Operand:
            if not isinstance(operand, ops.Value):
                return operand
            if operand.name not in done:
                operation = self.computed.get(operand.name)
                done[operand.name] = self.shared.get(operand.name, operand) if operation is None else (
                    self.b.append_again(map_operation(operation, found, lambda value: value, lambda region: region)))
            return done[operand.name]

        return found(operand)

    def are_uniform(self, *operands: ops.Operand) -> bool:
        """Return whether operands are the same for all work-items by where they are defined, and of what."""
        return not any(isinstance(operand, ops.Value) and operand.name in self.known
                       and operand.name not in self.computed for operand in operands)

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

    def clear(self, number: int, value: Argument) -> None:
        """Store a value in a temporary for the work-items that do not take part."""
        if self.mask is not None:
            self.end()
            saved, self.mask = self.mask, None
            self.keep(number, value)
            self.end()
            self.mask = saved

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

    def constant(self, value: ops.Operand) -> ops.CooperativeMatrixConstruct | None:
        """Return what fills a cooperative matrix, where that is a constant."""
        return self.constants.get(value.name) if isinstance(value, ops.Value) else None

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
