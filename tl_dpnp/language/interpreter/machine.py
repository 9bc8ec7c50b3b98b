"""The interpreter: runs the operations of a function, one work-group after another."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import field, replace
from types import ModuleType
from typing import Any, ClassVar

from tl_dpnp.language import ops
from tl_dpnp.language.extents import Extents, group_name, place_of
from tl_dpnp.language.interpreter import algebra, matrices, memory, scalar, work_items
from tl_dpnp.language.interpreter.binding import bind
from tl_dpnp.language.interpreter.fault import Fault
from tl_dpnp.records import dataclass

__all__ = ["Meeting", "Steps", "Trace", "WorkGroup", "interpret"]

#: Called after each operation with the number of the work-group, the operation and the values of its results.
Trace = Callable[[int, ops.Operation, tuple[Any, ...]], None]


@dataclass(frozen=True)
class Meeting:
    """What a work-item waits at: an instruction, the numbers of the iterations of the loops around it, its value.

    All that meet go on with what `together` makes of their values, once; without it, with the values.
    """

    operation: ops.Operation
    iterations: tuple[int, ...]
    value: Any = None
    together: Callable[[list[Any]], list[Any]] | None = None


#: What runs operations: it yields where a work-item waits, is sent the values of all that waited, and returns results.
Steps = Generator[Meeting, list[Any], tuple[Any, ...]]


def interpret(
    function: ops.Function,
    arguments: Sequence[object],
    group_size: int | Extents = 1,
    *,
    debug: bool = False,
    source: str | None = None,
    order_seed: int | None = None,
    max_steps: int | None = None,
    trace: Trace | None = None,
) -> None:
    """Run `function` for every work-group, on NumPy arrays and in place.

    Arguments, one for each parameter: a scalar; for a memref an array of the element's storage dtype (bf16: uint16)
    with mode i as axis i and strides that fit the layout; for a group a sequence of such arrays, or an object with
    the attributes ``arrays`` and ``offset`` (in elements).

    `group_size` is the number of work-groups along x, or three along x, y and z.  `debug` also reports undefined scalar
    operations.  `source` is the program's text, quoted in errors.  `order_seed` shuffles the work-groups and the
    iterations of each foreach: a program without data races gives the same result for every seed.  `max_steps` bounds
    the number of operations.

    Raises `TLTypeError`, `TLBindingError` or `LayoutError` for unfit arguments, `TLBoundsError` for an access
    outside a memref, `TLError` for other broken rules and when `max_steps` is reached.
    """
    order = None if order_seed is None else random.Random(order_seed)
    extents = (group_size, 1, 1) if isinstance(group_size, int) else group_size
    launch = _Launch(extents, ops.work_items_of(function), debug, source, order, max_steps, trace)
    values = bind(function, arguments)
    with scalar.silence():
        for group in launch.ordered(range(math.prod(extents))):
            WorkGroup(launch, group, dict(values)).run(function.body)


@dataclass
class _Launch:
    """What all work-groups of one launch share."""

    extents: Extents
    work_items: ops.WorkItems
    debug: bool
    source: str | None
    order: random.Random | None
    steps_left: int | None
    trace: Trace | None

    def ordered(self, indices: range) -> Iterable[int]:
        """Return the indices in order, or shuffled where a seed was given."""
        return indices if self.order is None else self.order.sample(indices, len(indices))

    def count_step(self) -> None:
        """Count one operation against the limit."""
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise Fault("the limit on the number of executed operations was reached")
            self.steps_left -= 1


@dataclass
class WorkGroup:
    """One work-group, or one of its work-items: its number and the values of all visible names, none of which shadow.

    What instructions are made of is at hand in `scalar`, `memory`, `algebra` and `matrices`; they raise `fault`.
    """

    scalar: ClassVar[ModuleType] = scalar
    memory: ClassVar[ModuleType] = memory
    algebra: ClassVar[ModuleType] = algebra
    matrices: ClassVar[ModuleType] = matrices
    fault: ClassVar[type[Fault]] = Fault

    launch: _Launch
    group: int
    values: dict[str, Any] = field(default_factory=dict)
    #: Of a work-item that runs a region for itself, the numbers of the iterations of the loops around the place where
    #: it is, and its number in its sub-group with that of the sub-group.
    iterations: list[int] = field(default_factory=list)
    place: tuple[int, int] = (0, 0)

    @property
    def group_place(self) -> Extents:
        """The place of the work-group in the launch."""
        return place_of(self.group, self.launch.extents)

    @property
    def debug(self) -> bool:
        """Whether undefined scalar operations raise."""
        return self.launch.debug

    def run(self, region: ops.Region) -> tuple[Any, ...]:
        """Run the operations of a region, where nobody else is waited for; return what it yields."""
        steps = self.steps(region)
        try:
            while True:
                next(steps)
        except StopIteration as end:
            results: tuple[Any, ...] = end.value
            return results

    def steps(self, region: ops.Region) -> Steps:
        """Run the operations of a region and give what each of them waits for; return what it yields."""
        for operation in region:
            if isinstance(operation, ops.Yield):
                return operation.execute(self)
            try:
                self.launch.count_step()
                meets = operation.waits or operation.is_cooperative
                results = (yield from operation.steps(self)) if meets else operation.execute(self)
            except Fault as fault:
                name = group_name(self.group, self.launch.extents)
                raise fault.locate(operation.span, name, self.launch.source) from None
            for value, result in zip(operation.results, results, strict=True):
                self.values[value.name] = result
            if self.launch.trace is not None:
                self.launch.trace(self.group, operation, results)
        return ()

    def meeting(
        self, operation: ops.Operation, value: Any = None, together: Callable[[list[Any]], list[Any]] | None = None
    ) -> Meeting:
        """Return what a work-item waits at that comes to an instruction with a value."""
        return Meeting(operation, tuple(self.iterations), value, together)

    def with_values(self, values: dict[str, Any]) -> WorkGroup:
        """Return the same work-item with other values."""
        return replace(self, values=values)

    def run_together(
        self, body: ops.Region, subgroups: Iterable[int], variables: Iterable[tuple[ops.Value, int]] = ()
    ) -> None:
        """Have the work-items of sub-groups run a region each for itself, with variables set; see `work_items`."""
        for variable, value in variables:
            self.values[variable.name] = scalar.from_python(value, ops.scalar_type(variable))
        items = {(lane, subgroup): replace(self, values=dict(self.values), iterations=[], place=(lane, subgroup))
                 for subgroup in subgroups for lane in range(self.launch.work_items.lanes)}
        work_items.run_together({place: item.steps(body) for place, item in items.items()}, self.launch.ordered)

    def value(self, operand: ops.Operand) -> Any:
        """Return the value of an operand."""
        if isinstance(operand, ops.Constant):
            known = vars(operand)
            if "_scalar" not in known:
                known["_scalar"] = scalar.from_python(operand.value, operand.type)
            return known["_scalar"]
        value = self.values[operand.name]
        if value is None:
            raise Fault(f"there is no memory for {operand}: it was given None",
                        f"use it where %b = associated {operand} : bool is true")
        return value

    def index(self, operand: ops.Operand) -> int:
        """Return the value of an integer operand as a Python integer."""
        return int(self.value(operand))

    def iteration(self, body: ops.Region, variables: Iterable[tuple[ops.Value, int]]) -> tuple[Any, ...]:
        """Run the body of a loop with its variables set; return what it yields."""
        for variable, value in variables:
            self.values[variable.name] = scalar.from_python(value, ops.scalar_type(variable))
        return self.run(body)
