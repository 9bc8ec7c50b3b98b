"""From a scheduled loop nest to LLVM IR.

The emitter walks the nest once.  Unrolled loops run here, at compile time; vectorized loops become explicit vectors,
their tails smaller ones; buffers in registers become SSA values that serial loops carry.  Addresses are built from a
base that is the same for all lanes, plus the lane, plus a constant: the CPU runtime recognises consecutive accesses
only in this form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from tl_dpnp.errors import LoweringError
from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.atomics import atomic_add, atomic_exchange, atomic_replace
from tl_dpnp.kernels.instructions import INSTRUCTIONS
from tl_dpnp.kernels.intrinsics import barrier
from tl_dpnp.kernels.llvm import (
    CACHE_LINE,
    GLOBAL,
    I8,
    I32,
    I64,
    builtin,
    constant,
    counted_loop,
    if_then,
    index,
    lanes,
    load_element,
    prefetch_line,
    private_array,
    splat,
    store_element,
    value_type,
    vector_of,
)
from tl_dpnp.kernels.simd import outer_product
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Bound,
    Convert,
    Derived,
    Dimension,
    Expression,
    Guard,
    Index,
    Loop,
    MultiplyAdd,
    Nest,
    Node,
    Number,
    Product,
    RoundDown,
    Scalar,
    Stage,
    Synchronize,
    Total,
    leaves,
)
from tl_dpnp.scalars import ScalarType

__all__ = ["Ahead", "NestArguments", "SubgroupLayout", "emit_nest", "pieces"]


@dataclass(frozen=True)
class Ahead:
    """What to prefetch, if it is wanted: for each buffer, by name, the distance to it and its size, in bytes."""

    wanted: ir.Value
    buffers: Mapping[str, tuple[ir.Value, int]]


@dataclass(frozen=True)
class NestArguments:
    """What a nest is applied to: the address of each buffer, its run-time sizes and strides, its scalars.

    Without `ahead` a ``prefetch`` in a schedule has no effect.
    """

    pointers: Mapping[str, ir.Value]
    dimensions: Mapping[str, ir.Value]
    scalars: Mapping[str, ir.Value]
    ahead: Ahead | None = None


@dataclass(frozen=True)
class _Piece:
    """The lanes of an explicit vector: consecutive iterations of a vectorized loop."""

    start: int
    width: int


@dataclass(frozen=True)
class _Lane:
    """A loop variable that differs from lane to lane of the sub-group."""

    value: ir.Value


#: What a loop variable is while its body is emitted: known, the same for all lanes, a vector, or one per lane.
_Variable: TypeAlias = int | ir.Value | _Piece | _Lane


def pieces(count: int, width: int, reach: int | None = None) -> list[tuple[int, int]]:
    """Cut `count` iterations into vectors: full ones of `width` lanes, then smaller ones for the rest.

    The result lists first iteration and width of each.  With `reach`, the last vector may reach back over its
    predecessors and over that many iterations in front of the first one; they are then computed twice.
    """
    full = count // width * width
    result = [(start, width) for start in range(0, full, width)]
    rest = count - full
    if rest and reach is not None:
        covering = 1 << (rest - 1).bit_length()
        if covering <= count + reach:
            return [*result, (count - covering, covering)]
    start = full
    while start < count:
        while width > count - start:
            width //= 2
        result.append((start, width))
        start += width
    return result


def _computes_twice(nest: Nest) -> bool:
    """Whether an element may be computed and stored twice: it is a reduction that does not read what it stores.

    Copies hold no elements in front of their region, so that nothing can reach back over it.
    """
    assigns = [leaf.assign for leaf in leaves(nest.body)]
    stores = [assign for assign in assigns if not assign.target.buffer.in_registers]
    return any(assign.part == "update" for assign in assigns) and all(
        assign.target.buffer.scope == "global" and assign.update == "set"
        and assign.target.buffer not in [access.buffer for access in assign.reads]
        for assign in stores
    )


def emit_nest(
    builder: ir.IRBuilder, nest: Nest, arguments: NestArguments, layout: SubgroupLayout, vector_width: int
) -> None:
    """Append the code of `nest`, which `realize` returned, at the builder's position."""
    private = {
        buffer.name: private_array(builder, buffer.element, buffer.elements)
        for buffer in nest.buffers.values() if buffer.scope == "private"
    }
    arguments = replace(arguments, pointers={**arguments.pointers, **private})
    emitter = _Emitter(builder, arguments, layout, vector_width, _computes_twice(nest))
    emitter.find_subgroup()
    emitter.nodes(nest.body)


@dataclass
class _Emitter:
    builder: ir.IRBuilder
    arguments: NestArguments
    layout: SubgroupLayout
    vector_width: int
    computes_twice: bool = False
    variables: dict[str, _Variable] = field(default_factory=dict)
    registers: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    #: Values loaded in the current block since the last store.
    loaded: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    #: This sub-group's position along rows and columns; None where there is one sub-group only.
    position: dict[str, ir.Value | None] = field(
        default_factory=lambda: {"rows": None, "columns": None, "subgroups": None}
    )
    #: The serial loops around the current place, with their counters.
    running: list[tuple[Loop, ir.Value]] = field(default_factory=list)

    # --- loops -------------------------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            match node:
                case Assign():
                    self.assign(node)
                case Loop():
                    self.loop(node)
                case Stage(body=body):
                    self.nodes(body)
                case Synchronize():
                    barrier().emit(self.builder, ())
                    self.loaded = {}

    def loop(self, loop: Loop) -> None:
        match loop.kind:
            case "unrolled":
                assert loop.static_range is not None
                for value in loop.static_range:
                    self.iteration(loop, value)
            case "vectorized":
                assert loop.static_range is not None
                first = loop.static_range.start
                reach = first if self.computes_twice else None
                for start, width in pieces(len(loop.static_range), self.vector_width, reach):
                    self.iteration(loop, _Piece(first + start, width) if width > 1 else first + start)
            case "lanes":
                self.lanes(loop)
            case "rows" | "columns" | "subgroups":
                counts = {"rows": self.layout.rows, "columns": self.layout.columns, "subgroups": self.layout.subgroups}
                self.counted(loop, self.position[loop.kind], counts[loop.kind])
            case "serial":
                self.counted(loop, None, 1)
            case "tensorized":
                self.tensorized(loop)
            case "virtual":
                raise AssertionError("virtual loops are interleaved before")

    def tensorized(self, loop: Loop) -> None:
        """Emit an instruction of the engine: this loop runs over its rows, the one inside over its columns."""
        assert loop.instruction is not None
        instruction = INSTRUCTIONS[loop.instruction]
        (columns,) = loop.body
        assert isinstance(columns, Loop)
        (update,) = columns.body
        assert isinstance(update, Assign)
        assert isinstance(update.value, MultiplyAdd)
        product = update.value
        self.variables[loop.variable] = _Piece(0, instruction.m)
        rows: list[tuple[ir.Value, ir.Value, ir.Value]] = []
        for column in range(instruction.n):
            self.variables[columns.variable] = column
            a, b, c = (self.expression(entry) for entry in (product.lhs, product.rhs, product.addend))
            rows.append((a, b, c))
        results = outer_product(self.builder, instruction, rows[0][0], [b for _, b, _ in rows], [c for *_, c in rows])
        for column, result in enumerate(results):
            self.variables[columns.variable] = column
            self.put(update.target, result)
        del self.variables[loop.variable], self.variables[columns.variable]

    def iteration(self, loop: Loop, value: _Variable) -> None:
        """Emit the body once, with the loop variable being `value`."""
        self.variables[loop.variable] = value
        for derived in loop.derived:
            self.variables[derived.variable] = self.derived(derived)
        self.guarded(loop.guards, lambda: self.nodes(loop.body))
        for variable in loop.variables:
            del self.variables[variable]

    def lanes(self, loop: Loop) -> None:
        range_ = loop.static_range
        assert range_ is not None
        if len(range_) > self.layout.lanes:
            raise LoweringError(f"loop {loop.variable} has {len(range_)} iterations for {self.layout.lanes} lanes")
        lane = self.local_id(0)
        if len(range_) == self.layout.lanes:
            self.iteration(loop, _Lane(lane))
            return
        inside = self.builder.icmp_signed("<", lane, index(len(range_)))
        self.branch(inside, lambda: self.iteration(loop, _Lane(lane)))

    def guarded(self, guards: Sequence[Guard], body: Callable[[], None]) -> None:
        """Emit `body` where all guards hold."""
        if not guards:
            body()
            return
        (names, bound), *others = guards
        value = self.total(names)
        if isinstance(value, int) and isinstance(bound, int):
            if value < bound:
                self.guarded(others, body)
            return
        value = index(value) if isinstance(value, int) else value.value if isinstance(value, _Lane) else value
        self.branch(
            self.builder.icmp_signed("<", value, self.bound(bound)), lambda: self.guarded(others, body)
        )

    def total(self, names: Index) -> int | ir.Value | _Lane:
        """Return the sum of variables, none of which is a vector."""
        parts = [self.variables[name] for name in names]
        known = sum(part for part in parts if isinstance(part, int))
        running = [part for part in parts if not isinstance(part, (int, _Piece))]
        values = [part.value if isinstance(part, _Lane) else part for part in running]
        if not values:
            return known
        total: ir.Value = values[0]
        for value in values[1:]:
            total = self.builder.add(total, value)
        total = self.builder.add(total, index(known)) if known else total
        return _Lane(total) if any(isinstance(part, _Lane) for part in parts) else total

    def derived(self, derived: Derived) -> int | ir.Value | _Lane:
        """Return the value of a variable that a loop computes."""
        given = self.total(derived.index)
        if isinstance(given, int):
            return derived.of(given)
        value = given.value if isinstance(given, _Lane) else given
        if derived.divisor != 1:
            value = self.builder.udiv(value, index(derived.divisor))
        if derived.modulus is not None:
            value = self.builder.urem(value, index(derived.modulus))
        if derived.scale != 1:
            value = self.builder.mul(value, index(derived.scale))
        if derived.start:
            value = self.builder.add(value, index(derived.start))
        return _Lane(value) if isinstance(given, _Lane) else value

    def branch(self, condition: ir.Value, body: Callable[[], None]) -> None:
        """Emit `body` under a condition; registers that it sets are not visible after it."""
        registers = dict(self.registers)
        self.loaded = {}
        if_then(self.builder, condition, body)
        self.loaded = {}
        self.registers = registers

    def counted(self, loop: Loop, first: ir.Value | None, share: int) -> None:
        """Emit a loop at run time; with `share` sub-groups, each takes every share-th iteration from its own on."""
        range_ = loop.static_range
        if range_ is not None and share == 1 and len(range_) <= 1:
            if loop.prefetch and range_:
                self.prefetch()
            for value in range_:
                self.iteration(loop, value)
            return
        start, stop = self.bound(loop.start), self.bound(loop.stop)
        if first is not None and share > 1:
            start = self.builder.add(start, self.builder.mul(first, index(loop.step)))
        carried = list(self.registers)
        self.loaded = {}

        def body(counter: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
            self.registers = dict(zip(carried, values, strict=True))
            self.running.append((loop, counter))
            if loop.prefetch:
                self.prefetch()
            self.iteration(loop, counter)
            self.running.pop()
            self.loaded = {}
            return [self.registers[key] for key in carried]

        results = counted_loop(
            self.builder, start, stop, index(loop.step * share), [self.registers[key] for key in carried], body,
            runs_at_least_once=range_ is not None and len(range_) >= share,
        )
        self.registers = dict(zip(carried, results, strict=True))

    def prefetch(self) -> None:
        """Fetch this iteration's share of the next operands, if that is wanted."""
        ahead = self.arguments.ahead
        if ahead is None:
            return

        def fetch() -> None:
            number, count = index(0), 1
            for loop, counter in self.running:
                range_ = loop.static_range
                assert range_ is not None, "the schedule saw to it"
                passed = self.builder.sub(counter, index(range_.start))
                passed = self.builder.udiv(passed, index(range_.step)) if range_.step > 1 else passed
                number = self.builder.add(self.builder.mul(number, index(len(range_))), passed)
                count *= len(range_)
            for name, (distance, size) in ahead.buffers.items():
                share = -(-size // count)
                start = self.builder.bitcast(self.arguments.pointers[name], I8.as_pointer(GLOBAL))
                start = self.builder.gep(start, [self.builder.add(distance, self.builder.mul(number, index(share)))])
                for line in range(-(-share // CACHE_LINE)):
                    prefetch_line(self.builder, self.builder.gep(start, [index(line * CACHE_LINE)]))

        self.branch(ahead.wanted, fetch)

    # --- work-items --------------------------------------------------------------------------------------------------

    def local_id(self, dimension: int) -> ir.Value:
        return builtin(
            self.builder, "_Z12get_local_idj", I64, [ir.Constant(I32, dimension)], ("nounwind", "readnone")
        )

    def find_subgroup(self) -> None:
        """Emit this sub-group's position; rows vary fastest.

        The id is that of a work-group dimension along which lanes do not differ.  Intel's CPU runtime gives some
        kernels 0 for every sub-group where the id goes through a sub-group broadcast, or is ``get_sub_group_id``.
        """
        if self.layout.subgroups == 1:
            return
        own, rows = self.local_id(1), index(self.layout.rows)
        self.position = {
            "rows": self.builder.urem(own, rows), "columns": self.builder.udiv(own, rows), "subgroups": own
        }

    # --- values ------------------------------------------------------------------------------------------------------

    def bound(self, bound: Bound) -> ir.Value:
        match bound:
            case int():
                return index(bound)
            case Dimension(name):
                return self.arguments.dimensions[name]
            case RoundDown(size, factor):
                value = self.bound(size)
                if factor & (factor - 1) == 0:
                    return self.builder.and_(value, index(-factor))
                return self.builder.mul(self.builder.sdiv(value, index(factor)), index(factor))

    def assign(self, assign: Assign) -> None:
        target = assign.target
        width = self.width(target)
        value = self.expression(assign.value)
        if lanes(value.type) < width:
            value = splat(self.builder, value, width)
        if lanes(value.type) > width:
            raise LoweringError(f"{assign}: a vectorized loop reduces into one element")
        if assign.update == "set":
            self.put(target, value)
        else:
            self.update(assign, value, width)
            self.loaded = {}

    def put(self, target: Access, value: ir.Value) -> None:
        """Set a register or store to memory."""
        if target.buffer.in_registers:
            self.registers[self.key(target)] = value
            return
        self.store(target, value)
        # Operands may alias one another; the copies of a nest alias nothing.
        own = target.buffer.scope != "global"
        self.loaded = {key: old for key, old in self.loaded.items() if own and key[0] != target.buffer.name}

    def update(self, assign: Assign, value: ir.Value, width: int) -> None:
        """Update elements atomically, lane by lane."""
        element = assign.target.buffer.element
        scale = None if assign.scale is None else self.expression(assign.scale)
        for lane in range(width):
            pointer = self.pointer(assign.target, lane)
            one = value if width == 1 else self.builder.extract_element(value, ir.Constant(I32, lane))
            if assign.update == "add":
                atomic_add(self.builder, element, pointer, one)
            elif assign.update == "exchange":
                atomic_exchange(self.builder, element, pointer, one)
            else:
                assert scale is not None
                combine = partial(self.combine, element, scale, one)
                atomic_replace(self.builder, element, pointer, combine)

    def combine(self, element: ScalarType, scale: ir.Value, value: ir.Value, old: ir.Value) -> ir.Value:
        """Return scale · old + value."""
        return scalar_ops.fused_multiply_add(self.builder, element, scale, old, value)

    def expression(self, expression: Expression) -> ir.Value:
        match expression:
            case Access(buffer):
                return self.register(expression) if buffer.in_registers else self.load(expression)
            case Scalar(name):
                return self.arguments.scalars[name]
            case Number(value, type_):
                return constant(value_type(type_), value)
            case Convert(operand, type_):
                return scalar_ops.convert(self.builder, type_of(operand), type_, self.expression(operand))
            case Product(lhs, rhs):
                return self.arithmetic("mul", expression, lhs, rhs)
            case Total(lhs, rhs):
                return self.arithmetic("add", expression, lhs, rhs)
            case MultiplyAdd(lhs, rhs, addend):
                operands = self.same_width([self.expression(e) for e in (lhs, rhs, addend)])
                return scalar_ops.fused_multiply_add(self.builder, type_of(expression), *operands)

    def arithmetic(self, kind: str, expression: Expression, lhs: Expression, rhs: Expression) -> ir.Value:
        operands = self.same_width([self.expression(lhs), self.expression(rhs)])
        return scalar_ops.arithmetic(self.builder, kind, type_of(expression), *operands)

    def same_width(self, values: list[ir.Value]) -> list[ir.Value]:
        width = max(lanes(value.type) for value in values)
        return [splat(self.builder, v, width) if lanes(v.type) < width else v for v in values]

    # --- memory ------------------------------------------------------------------------------------------------------

    def piece(self, entry: Index) -> _Piece | None:
        found = [v for v in (self.variables[name] for name in entry) if isinstance(v, _Piece)]
        return found[0] if found else None

    def width(self, access: Access) -> int:
        widths = [p.width for p in map(self.piece, access.indices) if p is not None]
        return widths[0] if widths else 1

    def key(self, access: Access) -> tuple[object, ...]:
        """Identify the element or vector that an access means, among those that are live at the same time."""
        parts: list[object] = [access.buffer.name]
        for entry in access.indices:
            values = [self.variables[name] for name in entry]
            known = sum(v if isinstance(v, int) else v.start for v in values if isinstance(v, (int, _Piece)))
            piece = self.piece(entry)
            variable = tuple(
                id(v.value if isinstance(v, _Lane) else v) for v in values if isinstance(v, (ir.Value, _Lane))
            )
            parts.append((known, piece.width if piece else 0, variable))
        return tuple(parts)

    def pointer(self, access: Access, lane: int = 0) -> ir.Value:
        """Return the address of an element: uniform part, then lane, then constant."""
        uniform: list[tuple[ir.Value, ir.Value]] = []
        per_lane: list[tuple[ir.Value, ir.Value]] = []
        known, scaled = 0, []
        for entry, stride in zip(access.indices, access.buffer.strides, strict=True):
            stride_value = index(stride) if isinstance(stride, int) else self.arguments.dimensions[stride.name]
            constant_part = 0
            for value in (self.variables[name] for name in entry):
                if isinstance(value, int):
                    constant_part += value
                elif isinstance(value, _Piece):
                    constant_part += value.start + lane
                elif isinstance(value, _Lane):
                    per_lane.append((value.value, stride_value))
                else:
                    uniform.append((value, stride_value))
            if isinstance(stride, int):
                known += constant_part * stride
            elif constant_part:
                scaled.append((index(constant_part), stride_value))
        pointer = self.arguments.pointers[access.buffer.name]
        pointer = self.advance(pointer, uniform)
        pointer = self.advance(pointer, per_lane)
        pointer = self.advance(pointer, scaled)
        return self.builder.gep(pointer, [index(known)]) if known else pointer

    def advance(self, pointer: ir.Value, terms: list[tuple[ir.Value, ir.Value]]) -> ir.Value:
        offset: ir.Value | None = None
        for value, stride in terms:
            one = isinstance(stride, ir.Constant) and stride.constant == 1
            term = value if one else self.builder.mul(value, stride)
            offset = term if offset is None else self.builder.add(offset, term)
        return pointer if offset is None else self.builder.gep(pointer, [offset])

    def is_consecutive(self, access: Access) -> bool:
        """Whether the lanes of the access are neighbours in memory."""
        return all(
            stride == 1 or self.piece(entry) is None
            for entry, stride in zip(access.indices, access.buffer.strides, strict=True)
        )

    def register(self, access: Access) -> ir.Value:
        key = self.key(access)
        if key not in self.registers:
            # Registers have no addresses: an element can only be met again where the same loops are unrolled,
            # vectorized or still running.
            raise LoweringError(f"{access} is kept in registers, but the loops around it were scheduled apart")
        return self.registers[key]

    def load(self, access: Access) -> ir.Value:
        key = self.key(access)
        if key in self.loaded:
            return self.loaded[key]
        width, element = self.width(access), access.buffer.element
        if width == 1 or self.is_consecutive(access):
            value = load_element(self.builder, element, self.pointer(access), width)
        else:
            value = ir.Constant(vector_of(value_type(element), width), ir.Undefined)
            for lane in range(width):
                one = load_element(self.builder, element, self.pointer(access, lane))
                value = self.builder.insert_element(value, one, ir.Constant(I32, lane))
        self.loaded[key] = value
        return value

    def store(self, access: Access, value: ir.Value) -> None:
        width, element = lanes(value.type), access.buffer.element
        if width == 1 or self.is_consecutive(access):
            store_element(self.builder, element, value, self.pointer(access))
            return
        for lane in range(width):
            one = self.builder.extract_element(value, ir.Constant(I32, lane))
            store_element(self.builder, element, one, self.pointer(access, lane))


def type_of(expression: Expression) -> ScalarType:
    """Return the element type of an expression."""
    match expression:
        case Access(buffer):
            return buffer.element
        case Scalar(type=type_) | Number(type=type_) | Convert(type=type_):
            return type_
        case Product(lhs) | Total(lhs) | MultiplyAdd(lhs):
            return type_of(lhs)


