"""``foreach`` loops of scalar instructions as vectors: the vector form computes several iterations at a time.

Iterations of a ``foreach`` run at the same time by the meaning of the language.  LLVM's vectorizer and that of Intel's
CPU runtime leave a loop alone that calls a mathematical function; here the whole loop becomes one intrinsic whose
values are vectors.  Instructions whose operands are the same in all iterations are hoisted in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tl_dpnp.kernels.llvm import MOST_LANES, Intrinsic
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.emission.loops import Access, LoopEmitter, Parameters, is_scattered, power_of_two
from tl_dpnp.lowering.text import MemrefText, Text, add, multiply, offset_of
from tl_dpnp.scalars import INDEX

__all__ = ["VectorLoop", "vector_loop"]

#: Functions that take so much longer one by one that it pays to collect elements that do not lie side by side.
_LONG_FUNCTIONS = ("exp", "log", "sin", "cos", "tanh", "sqrt", "rsqrt")


@dataclass(frozen=True)
class VectorLoop:
    """A loop of which `width` iterations run as vectors.

    `hoisted` are the instructions to write in front of it, where its variable is 0: those that give the same value in
    all iterations, and those that give an index that moves by `moves` from one to the next.
    """

    operation: ops.Foreach
    width: int
    hoisted: tuple[ops.Operation, ...]
    body: tuple[ops.Operation, ...]
    moves: Mapping[str, int]
    accesses: Mapping[ops.Operation, Access]

    @property
    def comment(self) -> str:
        """What the loop computes, for who reads the kernel."""
        names = [getattr(each, "kind", type(each).__name__.lower()) for each in self.body]
        return f"vectors of {self.width} iterations: {', '.join(names)}"

    def call(
        self, name: str, start: Text, stop: Text, operand: Callable[[ops.Operand], str],
        index_of: Callable[[ops.Operand], Text], local_memory: int,
    ) -> tuple[Intrinsic, list[Text]]:
        """Return the intrinsic of this name, and its arguments; `operand` and `index_of` give the text of scalars."""
        known = max(0, stop - start) if isinstance(start, int) and isinstance(stop, int) else None
        parameters = Parameters([], [])
        for bound in (start, stop):
            parameters.take(INDEX, bound)
        places: dict[ops.Operation, tuple[int, int, int]] = {}
        scalars: dict[str, int] = {}
        inner = {self.operation.variable.name, *(value.name for each in _flat(self.body) for value in each.results)}
        for each in _flat(self.body):
            access = self.accesses.get(each)
            if access is not None:
                offset = offset_of(zip(map(index_of, access.indices), access.memref.strides, strict=True))
                address, first, step = (
                    parameters.take(INDEX, text) for text in (access.memref.address, offset, access.step)
                )
                places[each] = address, first, step
            for value in _data(each):
                if isinstance(value, ops.Value) and value.name not in inner and value.name not in scalars:
                    scalars[value.name] = parameters.take(ops.scalar_type(value), operand(value))
        emitter = LoopEmitter(
            self.body, self.operation.variable.name, self.width, known, self.moves, self.accesses, places, scalars,
            local_memory,
        )
        return Intrinsic(name, tuple(parameters.types), None, emitter.emit), parameters.texts


def vector_loop(
    operation: ops.Foreach, memrefs: Mapping[str, MemrefText], vector_bytes: int
) -> VectorLoop | None:
    """Return how a loop runs as vectors of `vector_bytes` at the most, or None where it stays a loop of scalars.

    It does where it has loops, views or branches with loads and stores inside, elements below 8 bits, or an index that
    does not move evenly; where all iterations store to one place; and where elements do not lie side by side and
    nothing takes long enough to collect them.
    """
    if operation.variable.type != INDEX:
        return None
    trips: int | None = None
    match operation:
        case ops.Foreach(start=ops.Constant(value=int(start)), stop=ops.Constant(value=int(stop))):
            trips = stop - start
    analysis = _Analysis(memrefs, {operation.variable.name: 1}, runs=trips is not None and trips > 0)
    if not all(map(analysis.visit, operation.body)):
        return None
    sizes = [access.memref.type.element.bytes for access in analysis.accesses.values()]
    if not sizes:
        return None
    width = min(MOST_LANES, vector_bytes // max(sizes))
    if trips is not None:
        width = min(width, power_of_two(trips))
    loop = VectorLoop(
        operation, width, tuple(analysis.hoisted), tuple(analysis.body), analysis.moves, analysis.accesses
    )
    return None if width < 2 or (is_scattered(loop.accesses) and not analysis.takes_long) else loop


class _Analysis:
    """What each value of a loop's body is: the same in all iterations, an index that moves evenly, or a vector.

    Where the loop is known to run, an element that is the same in all iterations is loaded in front of it.
    """

    def __init__(self, memrefs: Mapping[str, MemrefText], moves: dict[str, int], *, runs: bool) -> None:
        self.memrefs = memrefs
        self.moves = moves
        self.loads_in_front = runs
        self.varying: set[str] = set()
        self.hoisted: list[ops.Operation] = []
        self.body: list[ops.Operation] = []
        self.accesses: dict[ops.Operation, Access] = {}
        self.takes_long = False

    def visit(self, operation: ops.Operation) -> bool:
        """Take an instruction of the body; return whether it can be part of a vector loop."""
        match operation:
            case ops.Load(source=source, indices=indices, result=result) if isinstance(source.type, MemrefType):
                step = self.step(source, indices)
                if step == 0 and self.loads_in_front:
                    self.hoisted.append(operation)
                    return True
                self.varying.add(result.name)
                return step is not None and self.access(operation, source, indices, step)
            case ops.Store(target=target, indices=indices):
                self.loads_in_front = False
                step = self.step(target, indices)
                return step is not None and step != 0 and self.access(operation, target, indices, step)
            case ops.If(condition=condition, outputs=outputs, then=then, otherwise=otherwise):
                if otherwise is None or not all(
                    isinstance(each, ops.Yield) or _is_scalar(each) for each in (*then, *otherwise)
                ):
                    return False
                self.body.append(operation)
                for each in (*then, *otherwise):
                    self.varying.update(value.name for value in each.results)
                    self.takes_long |= _takes_long(each)
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
            self.takes_long |= _takes_long(operation)
        else:
            self.hoisted.append(operation)
            if move:
                self.moves[result.name] = move

    def move(self, operation: ops.Operation) -> int | None:
        """Return how far a result of no vector moves with an iteration; None if it does not move evenly."""
        moves = [self.moves.get(value.name, 0) if isinstance(value, ops.Value) else 0 for value in operation.operands]
        if not any(moves):
            return 0
        match operation:
            case ops.Arith(kind="add" | "sub" as kind, result=result) if result.type == INDEX:
                return moves[0] + (moves[1] if kind == "add" else -moves[1])
            case ops.Arith(kind="mul", lhs=lhs, rhs=rhs, result=result) if result.type == INDEX:
                for move, factor in ((moves[0], rhs), (moves[1], lhs)):
                    if isinstance(factor, ops.Constant) and isinstance(factor.value, int):
                        return move * factor.value
        return None

    def step(self, memref: ops.Value, indices: Sequence[ops.Operand]) -> Text | None:
        """Return how many elements a place moves with an iteration; None if it does not move evenly."""
        step: Text = 0
        for entry, stride in zip(indices, self.memrefs[memref.name].strides, strict=True):
            if isinstance(entry, ops.Value):
                if entry.name in self.varying:
                    return None
                step = add(step, multiply(stride, self.moves.get(entry.name, 0)))
        return step

    def access(self, operation: ops.Operation, memref: ops.Value, indices: Sequence[ops.Operand], step: Text) -> bool:
        place = self.memrefs[memref.name]
        self.body.append(operation)
        self.accesses[operation] = Access(place, tuple(indices), step)
        return not place.type.element.is_subbyte


def _is_scalar(operation: ops.Operation) -> bool:
    return isinstance(operation, ops.Arith | ops.Unary | ops.Math | ops.Compare | ops.Cast)


def _takes_long(operation: ops.Operation) -> bool:
    return isinstance(operation, ops.Math) and operation.kind in _LONG_FUNCTIONS


def _flat(body: Sequence[ops.Operation]) -> list[ops.Operation]:
    """Return the instructions of a body, and those of its branches."""
    return [inner for each in body for inner in (each, *(o for region in each.regions for o in region.walk()))]


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
