"""``foreach`` loops of scalar instructions as vectors: the vector form computes several iterations at a time.

Iterations of a ``foreach`` run at the same time by the meaning of the language.  LLVM's vectorizer and that of Intel's
CPU runtime leave a loop alone that calls a mathematical function; here the whole loop becomes one intrinsic whose
values are vectors.  Instructions whose operands are the same in all iterations are hoisted in front of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tl_dpnp.errors import Span
from tl_dpnp.kernels.llvm import MOST_LANES, Intrinsic, power_of_two
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Choice, Comparison, Expression, add, multiply, offset_of, subtract
from tl_dpnp.lowering.emission.accesses import Access, cost_of_access, cost_of_operation, pieces_of
from tl_dpnp.lowering.emission.loops import LoopEmitter, Parameters, flat
from tl_dpnp.lowering.unrolling import unroll
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX

__all__ = ["VectorLoop", "vector_loop"]

#: The part of its instructions to which another form of a loop brings it, if it is to be preferred to the plain one.
_SAVED = 0.8
#: The instructions of a loop that is unrolled, at most.
_UNROLLED = 256

#: A variable of a loop, its first value, and the end of its range.
Range = tuple[ops.Value, Expression, Expression]


@dataclass(frozen=True)
class VectorLoop:
    """A loop of which `width` iterations run as vectors.

    It runs over the first `modes` indices of `ranges` together, `trips` times, and takes `cost` instructions for an
    iteration; `hoisted` are the instructions to write in front of
    it, where these have their first values: those that give the same value in all iterations, and those that give an
    index that moves by `moves` from one to the next.
    """

    ranges: tuple[Range, ...]
    modes: int
    trips: Expression
    width: int
    hoisted: tuple[ops.Operation, ...]
    body: tuple[ops.Operation, ...]
    moves: Mapping[str, int]
    accesses: Mapping[ops.Operation, Access]
    span: Span
    cost: float

    @property
    def is_even(self) -> bool:
        """Whether all elements lie side by side, or are the same in all iterations."""
        return all(access.step in (0, 1) for access in self.accesses.values())

    @property
    def comment(self) -> str:
        """What the loop computes, for who reads the kernel."""
        names = [getattr(each, "kind", type(each).__name__.lower()) for each in self.body]
        return f"vectors of {self.width} iterations: {', '.join(names)}"

    def call(
        self, name: str, operand: Callable[[ops.Operand], Expression],
        index_of: Callable[[ops.Operand], Expression], local_memory: int,
    ) -> tuple[Intrinsic, list[Expression]]:
        """Return the intrinsic of this name, and its arguments; `operand` and `index_of` give those of scalars."""
        parameters = Parameters()
        parameters.take(INDEX, self.trips)
        places: dict[ops.Operation, tuple[int, int, int]] = {}
        scalars: dict[str, int] = {}
        inner = {value.name for each in flat(self.body) for value in each.results}
        for each in flat(self.body):
            access = self.accesses.get(each)
            if access is not None:
                where = map(index_of, access.indices)
                offset = offset_of(zip(where, access.memref.strides, strict=True))
                address, first, step = (
                    parameters.take(INDEX, value) for value in (access.memref.address, offset, access.step)
                )
                places[each] = address, first, step
            for value in _data(each):
                if isinstance(value, ops.Value) and value.name not in inner and value.name not in scalars:
                    scalars[value.name] = parameters.take(ops.scalar_type(value), operand(value))
        known = self.trips if isinstance(self.trips, int) else None
        emitter = LoopEmitter(
            parameters, self.body, self.width, known, self.moves, self.accesses, places, scalars, local_memory
        )
        types = tuple(type_ for type_, _ in parameters.given)
        return Intrinsic(name, types, None, emitter.emit, self.span), [value for _, value in parameters.given]


def vector_loop(
    operation: ops.Foreach, ranges: Sequence[Range], memrefs: Mapping[str, MemrefDescriptor], vector_bytes: int
) -> VectorLoop | None:
    """Return how a loop runs as vectors of `vector_bytes` at the most, or None where it stays a loop of scalars.

    It does where it has loops, views or branches with loads and stores inside, elements below 8 bits, or an index that
    does not move evenly; where all iterations store to one place; and where elements do not lie side by side and
    collecting them takes longer than what is saved by vectors.

    Vectors run over the first indices, or where elements lie apart over those that take fewer instructions; another
    index with few values may be unrolled then, so that its iterations share what they read.
    """
    best = _over_first(operation.body.operations, operation.span, ranges, memrefs, vector_bytes)
    if best is not None and best.is_even:
        return best
    for order in _orders(ranges):
        for loop in (
            _over_first(operation.body.operations, operation.span, order, memrefs, vector_bytes),
            _unrolled(operation, order, memrefs, vector_bytes),
        ):
            if loop is not None and (best is None or loop.cost < _SAVED * best.cost):
                best = loop
    return best


def _orders(ranges: Sequence[Range]) -> list[list[Range]]:
    """Return the orders of the indices with each of them first."""
    return [[first, *(other for other in ranges if other is not first)] for first in ranges]


def _unrolled(
    operation: ops.Foreach, ranges: Sequence[Range], memrefs: Mapping[str, MemrefDescriptor], vector_bytes: int
) -> VectorLoop | None:
    """Return a loop over all indices but the second one, of which there is a copy of the body for each value."""
    if len(ranges) < 2:
        return None
    first, (variable, start, stop), *others = ranges
    if not isinstance(start, int) or not isinstance(stop, int) or variable.type != INDEX or stop - start < 2:
        return None
    if stop - start > _UNROLLED:
        return None
    body = unroll(operation.body.operations, variable, range(start, stop))
    if sum(not isinstance(each, ops.Yield) for each in flat(body)) > _UNROLLED:
        return None
    loop = _over_first(body, operation.span, [first, *others], memrefs, vector_bytes)
    return None if loop is None else replace(loop, cost=loop.cost / (stop - start))


def _over_first(
    body: Sequence[ops.Operation], span: Span, ranges: Sequence[Range], memrefs: Mapping[str, MemrefDescriptor],
    vector_bytes: int,
) -> VectorLoop | None:
    """Return how a loop runs as vectors over as many of its first indices as it can."""
    found = (_over(body, span, ranges, modes, memrefs, vector_bytes) for modes in range(len(ranges), 0, -1))
    return next((loop for loop in found if loop is not None), None)


def _over(
    body: Sequence[ops.Operation], span: Span, every: Sequence[Range], modes: int,
    memrefs: Mapping[str, MemrefDescriptor], vector_bytes: int,
) -> VectorLoop | None:
    """Return how a loop runs as vectors over its first `modes` indices, the others being given."""
    ranges = every[:modes]
    if any(variable.type != INDEX for variable, _, _ in ranges):
        return None
    sizes = [max(0, stop - start) if isinstance(start, int) and isinstance(stop, int) else None
             for _, start, stop in ranges]
    *inner, last = sizes
    if None in inner:
        return None
    iterations = math.prod(size for size in inner if size is not None)
    _, start, stop = ranges[-1]
    if last is None:
        # The difference of bounds that are far apart would wrap around; negative numbers of iterations are none.
        last_trips: Expression = stop
        if start != 0:
            last_trips = Choice(Comparison("<", start, stop), subtract(stop, start), 0)
    else:
        last_trips = last
    trips = multiply(iterations, last_trips)
    analysis = _Analysis(memrefs, [variable.name for variable, _, _ in ranges], runs=None not in sizes and trips != 0)
    if not all(map(analysis.visit, body)) or not analysis.accesses:
        return None
    used = {value.name for each in flat(analysis.body) for value in _data(each) if isinstance(value, ops.Value)}
    steps = [access.steps for access in analysis.accesses.values()]
    steps += [move for name, move in analysis.moves.items() if name in used]
    if not all(_moves_evenly(each, inner) for each in steps):
        return None
    types = [access.memref.type.element for access in analysis.accesses.values()]
    # Vectors of other types may be of several registers, but a complex number is two floats already.
    types += [type_ for each in flat(analysis.body) for value in each.results
              if (type_ := ops.scalar_type(value)).is_complex]
    widest = max(type_.bytes for type_ in types)
    width = min(MOST_LANES, vector_bytes // widest)
    if isinstance(trips, int):
        width = min(width, power_of_two(trips))
    if width < 2:
        return None
    accesses = analysis.accesses
    operations = [each for each in flat(analysis.body) if each not in accesses]
    cost = _cost(operations, accesses, trips if isinstance(trips, int) else None, width)
    loop = VectorLoop(
        tuple(every), modes, trips, width, tuple(analysis.hoisted), tuple(analysis.body),
        {name: move[0] for name, move in analysis.moves.items()}, accesses, span, cost,
    )
    return loop if loop.is_even or cost < _cost(operations, accesses, None, 1) else None


def _cost(
    operations: Sequence[ops.Operation], accesses: Mapping[ops.Operation, Access], trips: int | None, width: int
) -> float:
    """Return the instructions for an iteration of a loop with vectors of so many iterations."""
    def of_vector(lanes: int) -> float:
        return sum(cost_of_access(access, lanes) for access in accesses.values()) + sum(
            cost_of_operation(each, lanes) for each in operations)

    if not trips:
        return of_vector(width) / width
    rest = sum(of_vector(lanes) for _, lanes in pieces_of(trips % width))
    return (trips // width * of_vector(width) + rest) / trips


def _moves_evenly(steps: Sequence[Expression], sizes: Sequence[int | None]) -> bool:
    """Return whether a step of an index is as far as the whole range of the one before, so that they are one."""
    return all(
        isinstance(step, int) and isinstance(before, int) and size is not None and step == before * size
        for before, step, size in zip(steps[:-1], steps[1:], sizes, strict=True)
    )


class _Analysis:
    """What each value of a loop's body is: the same in all iterations, an index that moves evenly, or a vector.

    `moves` are how far an index moves with each of the `variables`.  Where the loop is known to run, an element that is
    the same in all iterations is loaded in front of it.
    """

    def __init__(self, memrefs: Mapping[str, MemrefDescriptor], variables: Sequence[str], *, runs: bool) -> None:
        self.memrefs = memrefs
        self.none = (0,) * len(variables)
        self.moves = {name: tuple(int(name == other) for other in variables) for name in variables}
        self.loads_in_front = runs
        self.varying: set[str] = set()
        self.hoisted: list[ops.Operation] = []
        self.body: list[ops.Operation] = []
        self.accesses: dict[ops.Operation, Access] = {}

    def visit(self, operation: ops.Operation) -> bool:
        """Take an instruction of the body; return whether it can be part of a vector loop."""
        match operation:
            case ops.Load(source=source, indices=indices, result=result) if isinstance(source.type, MemrefType):
                steps = self.steps(source, indices)
                if steps == self.none and self.loads_in_front:
                    self.hoisted.append(operation)
                    return True
                self.varying.add(result.name)
                return steps is not None and self.access(operation, source, indices, steps)
            case ops.Store(target=target, indices=indices):
                self.loads_in_front = False
                steps = self.steps(target, indices)
                return steps is not None and steps[0] != 0 and self.access(operation, target, indices, steps)
            case ops.If(condition=condition, outputs=outputs, then=then, otherwise=otherwise):
                if otherwise is None or not all(
                    isinstance(each, ops.Yield) or _is_scalar(each) for each in (*then, *otherwise)
                ):
                    return False
                self.body.append(operation)
                for each in (*then, *otherwise):
                    self.varying.update(value.name for value in each.results)
                self.varying.update(value.name for value in outputs)
                return isinstance(condition, ops.Constant | ops.Value)
            case _ if _is_scalar(operation):
                self.scalar(operation)
                return True
        return False

    def scalar(self, operation: ops.Operation) -> None:
        (result,) = operation.results
        used = [value.name for value in operation.operands if isinstance(value, ops.Value)]
        move = None if self.varying.intersection(used) else self.move(operation)
        if move is None:
            self.varying.add(result.name)
            self.body.append(operation)
        else:
            self.hoisted.append(operation)
            if move != self.none:
                self.moves[result.name] = move

    def move(self, operation: ops.Operation) -> tuple[int, ...] | None:
        """Return how far a result of no vector moves with each variable; None if it does not move evenly."""
        moves = [self.moves.get(value.name, self.none) if isinstance(value, ops.Value) else self.none
                 for value in operation.operands]
        if all(move == self.none for move in moves):
            return self.none
        match operation:
            case ops.Arith(kind="add" | "sub" as kind, result=result) if result.type == INDEX:
                sign = 1 if kind == "add" else -1
                return tuple(a + sign * b for a, b in zip(*moves, strict=True))
            case ops.Arith(kind="mul", lhs=lhs, rhs=rhs, result=result) if result.type == INDEX:
                for move, factor in ((moves[0], rhs), (moves[1], lhs)):
                    if isinstance(factor, ops.Constant) and isinstance(factor.value, int):
                        return tuple(entry * factor.value for entry in move)
        return None

    def steps(self, memref: ops.Value, indices: Sequence[ops.Operand]) -> tuple[Expression, ...] | None:
        """Return how many elements a place moves with each variable; None if it does not move evenly."""
        steps: list[Expression] = list(self.none)
        for entry, stride in zip(indices, self.memrefs[memref.name].strides, strict=True):
            if isinstance(entry, ops.Value):
                if entry.name in self.varying:
                    return None
                move = self.moves.get(entry.name, self.none)
                steps = [add(step, multiply(stride, by)) for step, by in zip(steps, move, strict=True)]
        return tuple(steps)

    def access(
        self, operation: ops.Operation, memref: ops.Value, indices: Sequence[ops.Operand], steps: tuple[Expression, ...]
    ) -> bool:
        place = self.memrefs[memref.name]
        self.body.append(operation)
        self.accesses[operation] = Access(place, tuple(indices), steps, isinstance(operation, ops.Load))
        return not place.type.element.is_subbyte


def _is_scalar(operation: ops.Operation) -> bool:
    return isinstance(operation, ops.ScalarOperation)


def _data(operation: ops.Operation) -> Sequence[ops.Operand]:
    """Return the scalar operands of an instruction that are not indices."""
    match operation:
        case ops.Load():
            return ()
        case ops.Store(value=value):
            return (value,)
        case ops.If(condition=condition):
            return (condition,)
        case ops.Yield(values=values):
            return values
    return operation.operands
