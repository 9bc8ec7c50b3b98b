"""Emission of loops whose iterations run as vectors (`tl_dpnp.lowering.vector_loops`).

What is left of a loop behind its last whole vector, where its length is known, are narrower ones, or one of which some
lanes are active, where a function is computed; else a vector of which some lanes are active, or, where elements do not
lie side by side, one iteration at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from llvmlite import ir

from tl_dpnp.kernels.elements import load_element, load_lanes, store_element, store_lanes
from tl_dpnp.kernels.intrinsics import memory_pointer
from tl_dpnp.kernels.llvm import (
    I1,
    I64,
    constant,
    counted_loop,
    if_then,
    index,
    power_of_two,
    select,
    splat,
    value_type,
    vector_of,
)
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.tree import Expression
from tl_dpnp.lowering.emission.accesses import (
    Access,
    collected,
    is_function,
    load_in_pieces,
    pieces_of,
    store_in_pieces,
)
from tl_dpnp.lowering.scalar_code import scalar_intrinsic
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType, rounded_number

__all__ = ["LoopEmitter", "Parameters", "flat"]


@dataclass(frozen=True)
class Parameters:
    """What an intrinsic needs to know: the values that the body gives it, and numbers that are known already."""

    entries: dict[tuple[ScalarType, Expression], int] = field(default_factory=dict)

    def take(self, type_: ScalarType, value: Expression) -> int:
        """Return the position of a value, which is added if it is not there."""
        return self.entries.setdefault((type_, value), len(self.entries))

    @property
    def given(self) -> list[tuple[ScalarType, Expression]]:
        """The types and values of what the body gives."""
        return [(type_, value) for type_, value in self.entries if not isinstance(value, int)]

    def values(self, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        """Return all values by position, those that the body gives from the arguments of the intrinsic."""
        rest = iter(arguments)
        return [index(value) if isinstance(value, int) else next(rest) for _, value in self.entries]


@dataclass(frozen=True)
class LoopEmitter:
    """The instructions of a loop's body for `width` iterations at a time; there are `trips`, where that is known.

    `moves` are the indices that move with an iteration, and how far; `places` are the positions of the address, offset
    and step of each access among the parameters, `scalars` those of the scalars from outside.
    """

    parameters: Parameters
    body: Sequence[ops.Operation]
    width: int
    trips: int | None
    moves: Mapping[str, int]
    accesses: Mapping[ops.Operation, Access]
    places: Mapping[ops.Operation, tuple[int, int, int]]
    scalars: Mapping[str, int]
    local_memory: int

    def emit(self, builder: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
        """Emit the loop; the first value is the number of iterations, 0 if it is negative."""
        arguments = self.parameters.values(arguments)
        if self.trips is not None:
            self.known(builder, arguments, self.trips)
            return
        count = arguments[0]
        count = builder.select(builder.icmp_signed(">", count, index(0)), count, index(0))
        rest = builder.and_(count, index(self.width - 1))
        end = builder.sub(count, rest)
        self.loop(builder, arguments, index(0), end, self.width)
        if any(access.step not in (0, 1) for access in self.accesses.values()):
            self.loop(builder, arguments, end, builder.add(end, rest), 1)
        else:
            if_then(builder, builder.icmp_unsigned("!=", rest, index(0)),
                    lambda: self.iterations(builder, arguments, end, self.width, rest))

    def known(self, builder: ir.IRBuilder, arguments: Sequence[ir.Value], trips: int) -> None:
        rest = trips % self.width
        end = index(trips - rest)
        if trips // self.width == 1:
            self.iterations(builder, arguments, index(0), self.width)
        elif trips >= self.width:
            self.loop(builder, arguments, index(0), end, self.width, runs_at_least_once=True)
        start = trips - rest
        if self.calls_functions and len(pieces_of(rest)) > 1:
            self.iterations(builder, arguments, end, power_of_two(rest), rest)
        else:
            for first, width in pieces_of(rest):
                self.iterations(builder, arguments, index(start + first), width)

    @property
    def calls_functions(self) -> bool:
        """Whether a function is computed, which takes longer than to put pieces of vectors together."""
        return any(is_function(each) for each in flat(self.body))

    def loop(
        self, builder: ir.IRBuilder, arguments: Sequence[ir.Value], start: ir.Value, end: ir.Value, width: int,
        *, runs_at_least_once: bool = False,
    ) -> None:
        def body(at: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            self.iterations(builder, arguments, at, width)
            return []

        counted_loop(
            builder, start, end, index(width), [], body, runs_at_least_once=runs_at_least_once, unrolled=width > 1
        )

    def iterations(
        self, builder: ir.IRBuilder, arguments: Sequence[ir.Value], at: ir.Value, width: int,
        active: int | ir.Value | None = None,
    ) -> None:
        _Iterations(self, builder, arguments, at, width, active).run(self.body)


@dataclass
class _Iterations:
    """The body of a loop for `width` iterations from one on; of these the first `active`, where it is not None."""

    loop: LoopEmitter
    builder: ir.IRBuilder
    arguments: Sequence[ir.Value]
    at: ir.Value
    width: int
    active: int | ir.Value | None
    values: dict[str, ir.Value] = field(default_factory=dict)

    def run(self, operations: Sequence[ops.Operation]) -> None:
        for operation in operations:
            self.operation(operation)

    def operation(self, operation: ops.Operation) -> None:
        match operation:
            case ops.Load(result=result):
                self.values[result.name] = self.load(operation)
            case ops.Store(value=value):
                self.store(operation, self.operand(value))
            case ops.If():
                self.choose(operation)
            case _:
                values = [self.operand(value) for value in operation.operands]
                computed = scalar_intrinsic(operation).emit(self.builder, values)
                assert computed is not None
                self.values[operation.results[0].name] = computed

    def choose(self, operation: ops.If) -> None:
        """Compute both branches and take the values of one in each lane."""
        assert operation.otherwise is not None
        yielded: list[list[ir.Value]] = []
        for region in (operation.then, operation.otherwise):
            for each in region:
                if isinstance(each, ops.Yield):
                    yielded.append([self.operand(value) for value in each.values])
                else:
                    self.operation(each)
        condition = self.operand(operation.condition)
        for output, then, otherwise in zip(operation.outputs, *yielded, strict=True):
            self.values[output.name] = select(self.builder, condition, then, otherwise)

    def operand(self, operand: ops.Operand) -> ir.Value:
        """Return a scalar operand in all lanes."""
        if isinstance(operand, ops.Constant):
            return constant(vector_of(value_type(operand.type), self.width), _number(operand))
        if operand.name in self.values:
            return self.values[operand.name]
        value = self.arguments[self.loop.scalars[operand.name]]
        move = self.loop.moves.get(operand.name)
        if move is None:
            value = splat(self.builder, value, self.width)
        else:
            value = self.moving(self.builder.add(value, self.builder.mul(self.at, index(move))), move)
        self.values[operand.name] = value
        return value

    def moving(self, first: ir.Value, move: int) -> ir.Value:
        """Return the values that an index takes in the iterations."""
        if self.width == 1:
            return first
        steps = ir.Constant(ir.VectorType(I64, self.width), [ir.Constant(I64, move * n) for n in range(self.width)])
        return self.builder.add(splat(self.builder, first, self.width), steps)

    # --- memory ------------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The lanes that may be active."""
        return self.active if isinstance(self.active, int) else self.width

    def pointer(self, operation: ops.Operation) -> tuple[ir.Value, ir.Value]:
        """Return a pointer to the element of the first iteration, and how far that of the next one is."""
        access = self.loop.accesses[operation]
        address, offset, step = (self.arguments[place] for place in self.loop.places[operation])
        element, builder = access.memref.type.element, self.builder
        base = memory_pointer(builder, element, access.memref.space, address, self.loop.local_memory)
        if isinstance(access.step, int):
            step = index(access.step)
        return builder.gep(base, [builder.add(offset, builder.mul(self.at, step))]), step

    def load(self, operation: ops.Load) -> ir.Value:
        access = self.loop.accesses[operation]
        element, builder = access.memref.type.element, self.builder
        pointer, step = self.pointer(operation)
        if access.step == 0 or self.width == 1:
            return splat(builder, load_element(builder, element, pointer), self.width)
        if access.step == 1 and isinstance(self.active, int) and access.is_in_pieces:
            return load_in_pieces(builder, element, pointer, self.width, self.active)
        if access.step == 1:
            return load_element(builder, element, pointer, self.width, active=self.mask())
        count = self.count
        if access.is_collected(count):
            return collected(builder, access, pointer, self.width, count)
        return load_lanes(builder, element, pointer, step, self.width, count)

    def store(self, operation: ops.Store, value: ir.Value) -> None:
        access = self.loop.accesses[operation]
        element, builder = access.memref.type.element, self.builder
        pointer, step = self.pointer(operation)
        if self.width > 1 and access.step == 1 and isinstance(self.active, int) and access.is_in_pieces:
            store_in_pieces(builder, element, value, pointer, self.active)
            return
        if access.step == 1 or self.width == 1:
            store_element(builder, element, value, pointer, active=self.mask())
            return
        store_lanes(builder, element, value, pointer, step, self.count)

    def mask(self) -> ir.Value | None:
        if self.active is None or self.width == 1:
            return None
        if isinstance(self.active, int):
            lanes = [ir.Constant(I1, lane < self.active) for lane in range(self.width)]
            return ir.Constant(ir.VectorType(I1, self.width), lanes)
        places = ir.Constant(ir.VectorType(I64, self.width), [index(n) for n in range(self.width)])
        return self.builder.icmp_unsigned("<", places, splat(self.builder, self.active, self.width))


def flat(body: Sequence[ops.Operation]) -> list[ops.Operation]:
    """Return the instructions of a body, and those of its branches."""
    return [inner for each in body for inner in (each, *(o for region in each.regions for o in region.walk()))]


def _number(operand: ops.Constant) -> int | float | bool | complex:
    value = operand.value
    return rounded_number(operand.type, value) if isinstance(value, float) else value
