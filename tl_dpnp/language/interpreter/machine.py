"""The interpreter: runs the operations of a function, one work-group after another."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import algebra, memory, scalar
from tl_dpnp.language.interpreter.binding import bind
from tl_dpnp.language.interpreter.fault import Fault
from tl_dpnp.scalars import INDEX

__all__ = ["Trace", "interpret"]

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
        _WorkGroup(launch, group, dict(values)).run(function.body)


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
class _WorkGroup:
    """One work-group: its id and the values of all visible names (which never shadow one another)."""

    launch: _Launch
    group: int
    values: dict[str, Any] = field(default_factory=dict)

    def run(self, region: ops.Region) -> tuple[Any, ...]:
        """Run the operations of a region; return what it yields."""
        for operation in region:
            if isinstance(operation, ops.Yield):
                return tuple(map(self.value, operation.values))
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
        match operation:
            case ops.Arith(kind=kind, lhs=lhs, rhs=rhs):
                scalar_type = ops.scalar_type(operation.result)
                return (scalar.arith(kind, scalar_type, self.value(lhs), self.value(rhs), self.launch.debug),)
            case ops.Unary(kind=kind, operand=operand):
                return (scalar.unary(kind, ops.scalar_type(operation.result), self.value(operand)),)
            case ops.Math(kind=kind, arguments=arguments):
                values = tuple(map(self.value, arguments))
                return (scalar.mathematics(kind, ops.scalar_type(operation.result), values),)
            case ops.Cast(operand=operand, result=result):
                source, target = ops.scalar_type(operand), ops.scalar_type(result)
                return (scalar.convert(self.value(operand), source, target, self.launch.debug),)
            case ops.Compare(kind=kind, lhs=lhs, rhs=rhs):
                return (scalar.compare(kind, self.value(lhs), self.value(rhs)),)
            case ops.GroupId():
                return (scalar.from_python(self.group, INDEX),)
            case ops.GroupSize():
                return (scalar.from_python(self.launch.group_size, INDEX),)
            case ops.If() | ops.For() | ops.Foreach():
                return self.control(operation)
            case ops.Barrier():
                return ()  # operations run one after another: everything before is done
            case ops.LinearAlgebra():
                self.linear_algebra(operation)
                return ()
            case _:
                return self.memory_operation(operation)

    def memory_operation(self, operation: ops.Operation) -> tuple[Any, ...]:
        """Execute an operation on memrefs and groups that is no linear algebra."""
        match operation:
            case ops.Alloca(result=result):
                return (memory.allocate(ops.memref_type(result)),)
            case ops.LifetimeStop(source=source):
                memory.poison(self.value(source), ops.memref_type(source).element)
                return ()
            case ops.Load(source=source, indices=indices):
                loaded_from = self.value(source)
                if isinstance(loaded_from, memory.Group):
                    return (loaded_from.load(self.index(indices[0])),)
                place = memory.element(loaded_from, [self.index(i) for i in indices])
                return (scalar.decode(place[()], ops.memref_type(source).element),)
            case ops.Store(value=stored, target=target, indices=indices):
                place = memory.element(self.value(target), [self.index(i) for i in indices])
                place[...] = scalar.encode(self.value(stored), ops.memref_type(target).element)
                return ()
            case ops.SizeOf(source=source, mode=mode):
                return (scalar.from_python(self.value(source).shape[mode], INDEX),)
            case ops.Expand(source=source, mode=mode, shape=shape):
                sizes = [None if size is None else self.index(size) for size in shape]
                view = memory.expand(self.value(source), mode, sizes)
                if (element := ops.memref_type(source).element).is_subbyte:
                    memory.require_whole_bytes(view, (), element)
                return (view,)
            case ops.Fuse(source=source, first=first, last=last):
                return (memory.fuse(self.value(source), first, last),)
            case ops.Subview(source=source, slices=slices):
                entries = list(map(self.entry, slices))
                view = memory.subview(self.value(source), entries)
                if (element := ops.memref_type(source).element).is_subbyte:
                    memory.require_whole_bytes(view, entries, element)
                return (view,)
        raise AssertionError(f"the interpreter does not know {type(operation).__name__}")

    def entry(self, entry: ops.Slice) -> memory.Entry:
        """Evaluate one entry of a subview."""
        if entry.is_index:
            return self.index(entry.offset)
        return self.index(entry.offset), None if entry.size is None else self.index(entry.size)

    def control(self, operation: ops.If | ops.For | ops.Foreach) -> tuple[Any, ...]:
        """Execute an operation with regions."""
        match operation:
            case ops.If(condition=condition, then=then, otherwise=otherwise):
                chosen = then if self.value(condition) else otherwise
                return () if chosen is None else self.run(chosen)
            case ops.For(variable=variable, start=start, stop=stop, step=step, body=body):
                stride = self.index(step)
                if stride <= 0:
                    raise Fault(f"the step of the loop is {stride}", "a step must be 1 or more")
                for iteration in range(self.index(start), self.index(stop), stride):
                    self.iteration(body, ((variable, iteration),))
            case ops.Foreach(body=body):
                ranges = [range(self.index(start), self.index(stop)) for _, start, stop in operation.ranges]
                for number in self.launch.ordered(range(math.prod(map(len, ranges)))):
                    indices = []
                    for entries in ranges:  # the first index runs fastest
                        number, place = divmod(number, len(entries))
                        indices.append(entries[place])
                    self.iteration(body, zip(operation.variables, indices, strict=True))
        return ()

    def iteration(self, body: ops.Region, variables: Iterable[tuple[ops.Value, int]]) -> None:
        """Run the body of a loop with its variables set."""
        for variable, value in variables:
            self.values[variable.name] = scalar.from_python(value, ops.scalar_type(variable))
        self.run(body)

    def linear_algebra(self, operation: ops.LinearAlgebra) -> None:
        """Execute a linear-algebra instruction; a beta that is the constant 0 leaves the output unread."""
        element = ops.memref_type(operation.output).element
        alpha, beta = (
            scalar.convert(self.value(operand), ops.scalar_type(operand), element)
            for operand in (operation.alpha, operation.beta)
        )
        unread = isinstance(operation.beta, ops.Constant) and operation.beta.value == 0
        inputs = [self.value(value) for value in operation.inputs]
        algebra.update(operation, alpha, inputs, None if unread else beta, self.value(operation.output))
