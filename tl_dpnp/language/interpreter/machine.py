"""The interpreter: runs the operations of a function, one work-group after another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar

from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import algebra, memory, scalar
from tl_dpnp.language.interpreter.binding import bind
from tl_dpnp.language.interpreter.fault import Fault

__all__ = ["Trace", "WorkGroup", "interpret"]

#: Called after each operation with the group id, the operation and the values of its results.
Trace = Callable[[int, ops.Operation, tuple[Any, ...]], None]


def interpret(
    function: ops.Function,
    arguments: Sequence[object],
    group_size: int = 1,
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

    `group_size` is the number of work-groups.  `debug` also reports undefined scalar operations.  `source` is the
    program's text, quoted in errors.  `order_seed` shuffles the work-groups and the iterations of each foreach: a
    program without data races gives the same result for every seed.  `max_steps` bounds the number of operations.

    Raises `TLTypeError`, `TLBindingError` or `LayoutError` for unfit arguments, `TLBoundsError` for an access
    outside a memref, `TLError` for other broken rules and when `max_steps` is reached.
    """
    order = None if order_seed is None else random.Random(order_seed)
    launch = _Launch(group_size, debug, source, order, max_steps, trace)
    values = bind(function, arguments)
    for group in launch.ordered(range(group_size)):
        WorkGroup(launch, group, dict(values)).run(function.body)


@dataclass
class _Launch:
    """What all work-groups of one launch share."""

    group_size: int
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
    """One work-group: its id and the values of all visible names (which never shadow one another).

    What instructions are made of is at hand in `scalar`, `memory` and `algebra`; they raise `fault`.
    """

    scalar: ClassVar[ModuleType] = scalar
    memory: ClassVar[ModuleType] = memory
    algebra: ClassVar[ModuleType] = algebra
    fault: ClassVar[type[Fault]] = Fault

    launch: _Launch
    group: int
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def debug(self) -> bool:
        """Whether undefined scalar operations raise."""
        return self.launch.debug

    def run(self, region: ops.Region) -> tuple[Any, ...]:
        """Run the operations of a region; return what it yields."""
        for operation in region:
            if isinstance(operation, ops.Yield):
                return self.execute(operation)
            try:
                self.launch.count_step()
                results = self.execute(operation)
            except Fault as fault:
                raise fault.locate(operation.span, self.group, self.launch.source) from None
            for name, result in zip(operation.results, results, strict=True):
                self.values[name.name] = result
            if self.launch.trace is not None:
                self.launch.trace(self.group, operation, results)
        return ()

    def value(self, operand: ops.Operand) -> Any:
        """Return the value of an operand."""
        match operand:
            case ops.Constant(value=value, type=scalar_type):
                return scalar.from_python(value, scalar_type)
            case ops.Value(name=name):
                return self.values[name]

    def index(self, operand: ops.Operand) -> int:
        """Return the value of an integer operand as a Python integer."""
        return int(self.value(operand))

    def execute(self, operation: ops.Operation) -> tuple[Any, ...]:
        """Execute one operation; return the values of its results."""
        return operation.execute(self)

    def iteration(self, body: ops.Region, variables: Iterable[tuple[ops.Value, int]]) -> tuple[Any, ...]:
        """Run the body of a loop with its variables set; return what it yields."""
        for variable, value in variables:
            self.values[variable.name] = scalar.from_python(value, ops.scalar_type(variable))
        return self.run(body)
