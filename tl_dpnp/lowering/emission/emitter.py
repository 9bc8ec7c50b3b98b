"""The walk over a scheduled loop nest that emits it.

Unrolled loops run here, at compile time; vectorized loops become explicit vectors, their tails smaller ones; buffers in
registers become SSA values that serial loops carry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from llvmlite import ir

from tl_dpnp.errors import LoweringError
from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.atomics import atomic_add, atomic_exchange, atomic_replace, parts_of
from tl_dpnp.kernels.complex_numbers import part_of, times_i, to_both_parts
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.intrinsics import barrier
from tl_dpnp.kernels.llvm import (
    I1,
    PairsType,
    constant,
    counted_loop,
    get_lane,
    if_then,
    index,
    lanes,
    power_of_two,
    private_array,
    value_type,
)
from tl_dpnp.kernels.mma.rows import MmaRow
from tl_dpnp.kernels.simd import total_of_lanes
from tl_dpnp.kernels.simd_rows import SimdRow
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.lowering.emission.asynchronous import AsynchronousCopies
from tl_dpnp.lowering.emission.blocks import Blocks, cut_fused
from tl_dpnp.lowering.emission.facts import adds_in_registers, computes_twice, rows_mixed, stores_twice
from tl_dpnp.lowering.emission.memory import Memory, NestArguments
from tl_dpnp.lowering.emission.nested_vectors import NestedVectors
from tl_dpnp.lowering.emission.outer_products import emit_outer_product
from tl_dpnp.lowering.emission.prefetching import Shares
from tl_dpnp.lowering.emission.streamed_stores import StreamedStores
from tl_dpnp.lowering.emission.transposition import Squares
from tl_dpnp.lowering.emission.variables import ANY_WIDTH, Lanes, Narrowest, PerLane, Variable, Variables, cuts_of
from tl_dpnp.lowering.instructions import instruction_named, instruction_of
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.matrix_engine import NO_ENGINE, MatrixEngine
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Bound,
    Convert,
    Dimension,
    Expression,
    Guard,
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
    TimesI,
    Total,
    are_apart,
    is_transposition,
    leaves,
    loops_of,
    predicate_of,
    type_of,
)
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

if TYPE_CHECKING:
    from tl_dpnp.lowering.emission.tensor_cores import TensorCores

__all__ = ["emit_nest"]


def emit_nest(
    builder: ir.IRBuilder, nest: Nest, arguments: NestArguments, layout: SubgroupLayout, vector_width: int,
    engine: MatrixEngine = NO_ENGINE, *, masks: bool = False, narrowest: Narrowest = ANY_WIDTH,
    joins_parts: bool = False, near: Callable[[Loop], bool] = lambda _: False,
) -> None:
    """Append the code of `nest`, which `realize` returned, at the builder's position.

    With `masks` rows that are left over are a vector of which some lanes are neither loaded nor stored.  Vectors are
    the `narrowest` at least where some may be computed twice, or left out.  With `joins_parts` what is transposed
    is loaded in parts of 128 bits, which are put together as they come.  In sums that are `near`, see
    `has_near_elements`, elements for all lanes are at constant distances from one address.
    """
    private = {
        buffer.name: private_array(builder, buffer.element, buffer.room)
        for buffer in nest.buffers.values() if buffer.scope == "private"
    }
    for leaf in leaves(nest.body):
        name = leaf.assign.target.buffer.name
        if any(access.is_integer_load for access in leaf.assign.reads) and name in private:
            # Else LLVM would put the elements of a vector together in registers, as it loads them.
            private[name] = target_of(builder).opaque(builder, private[name])
    arguments = replace(arguments, pointers=(pointers := {**arguments.pointers, **private}))
    streamed = StreamedStores.start(builder, arguments, pointers)
    variables = Variables(builder)
    may_store_twice = stores_twice(nest)
    memory = Memory(builder, arguments, variables, vector_width, rows_mixed(nest), masks, masks and may_store_twice,
                    near, Blocks.of(nest, vector_width))
    copies = AsynchronousCopies.of(nest, memory, layout)
    forms = {row for loop in loops_of(nest.body) if (row := instruction_of(loop, MmaRow)) is not None}
    tensor_cores = None
    if forms:
        from tl_dpnp.lowering.emission.tensor_cores import TensorCores

        tensor_cores = TensorCores.start(memory, forms)
    emitter = _Emitter(
        builder, arguments, pointers, layout, vector_width, narrowest, computes_twice(nest), may_store_twice, variables,
        memory, engine, streamed, copies, tensor_cores, Shares.of(nest), NestedVectors(memory), joins_parts)
    emitter.find_subgroup()
    emitter.nodes(nest.body)
    copies.wait()
    if streamed is not None:
        streamed.finish()


@dataclass
class _Emitter:
    builder: ir.IRBuilder
    arguments: NestArguments
    pointers: dict[str, ir.Value]
    layout: SubgroupLayout
    vector_width: int
    narrowest: Narrowest
    computes_twice: bool
    stores_twice: bool
    variables: Variables
    memory: Memory
    engine: MatrixEngine
    streamed: StreamedStores | None
    copies: AsynchronousCopies
    tensor_cores: TensorCores | None
    shares: Shares
    vectors: NestedVectors
    joins_parts: bool = False
    registers: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    #: This sub-group's position along rows and columns; None where there is one sub-group only.
    position: dict[str, ir.Value | None] = field(
        default_factory=lambda: {"rows": None, "columns": None, "subgroups": None}
    )
    #: Whether what is emitted now only loads from local memory what is computed later.
    only_loads: bool = False

    # --- loops -------------------------------------------------------------------------------------------------------

    def nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            match node:
                case Assign():
                    self.assign(node)
                case Loop():
                    self.loop(node)
                case Stage(asynchronous=True):
                    self.copies.stage(node, self.branch, self.nodes)
                case Stage(body=body):
                    self.nodes(body)
                case Synchronize():
                    self.copies.wait()
                    barrier().emit(self.builder, ())
                    self.memory.forget()

    def loop(self, loop: Loop) -> None:
        match loop.kind:
            case "unrolled":
                assert loop.static_range is not None
                if loop.loads_ahead:
                    self.iterations_loaded_ahead(loop, [*loop.static_range])
                    return
                with self.memory.unrolling(loop):
                    for value in loop.static_range:
                        self.iteration(loop, value)
            case "vectorized" if is_transposition(loop):
                Squares(self.memory, self.joins_parts).copy(loop)
            case "vectorized":
                self.vectors.emit(loop, self)
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

    def alone(self, loop: Loop) -> None:
        """Emit a vectorized loop whose iterations are all that tells the lanes of its vectors apart."""
        predicate = predicate_of(loop)
        if predicate is not None:
            self.predicated(loop, predicate)
        else:
            self.in_vectors(loop)

    def in_vectors(self, loop: Loop) -> None:
        assert loop.static_range is not None
        done = loop.static_range.start
        masked = self.memory.masks and are_apart(loop) and not loop.derived
        cuts = self.cut(loop, self.computes_twice, masked)
        if adds_in_registers(loop) and len(cuts[-1]) < len(cuts[0]):
            self.memory.widest = len(cuts[0])
        for piece in cuts:
            self.memory.lanes_stored_before = 0 if self.stores_twice else max(0, done - piece[0])
            self.memory.active_lanes = len(set(piece)) if masked else len(piece)
            self.iteration(loop, Lanes(piece) if len(piece) > 1 else piece[0])
            done = piece[-1] + 1
        self.memory.lanes_stored_before = self.memory.active_lanes = 0
        self.memory.end_column()

    def predicated(self, loop: Loop, predicate: Guard) -> None:
        """Emit a vectorized loop whose lanes take part where its guard holds, which only the run shows."""
        assert self.memory.masks
        assert loop.static_range is not None
        names, bound = predicate
        around = tuple(name for name in names if name != loop.variable)
        plain = replace(loop, guards=tuple(guard for guard in loop.guards if guard is not predicate))
        before = self.variables.total(around)
        left = bound - before if isinstance(bound, int) and isinstance(before, int) else (
            self.builder.sub(self.bound(bound), self.number(before)))
        iterations = loop.static_range
        width = min(self.vector_width, max(2, power_of_two(len(iterations))))
        for first in iterations[::width]:
            self.memory.mask = self.memory.mask_below(left, range(first, min(first + width, iterations.stop)), width)
            self.memory.active_lanes = width
            self.iteration(plain, Lanes(tuple(range(first, first + width))))
        self.memory.mask, self.memory.active_lanes = None, 0

    def iterations_loaded_ahead(self, loop: Loop, values: Sequence[int]) -> None:
        """Emit an unrolled loop whose iterations find what they read from local memory loaded."""
        shares = self.copies.shares(len(values))
        for value, following, share in zip([None, *values], [*values, None], [*shares, 0], strict=True):
            if following is not None:
                self.only_loads = True
                self.iteration(loop, following)
                self.only_loads = False
                self.copies.start(share)
            if value is not None:
                self.iteration(loop, value)

    def cut(self, loop: Loop, twice: bool, masked: bool = False) -> list[tuple[int, ...]]:
        """Cut the iterations of a vectorized loop into vectors.

        Some may run twice where that does no harm.  The last vector of a fused loop repeats its last iteration, which
        is cheaper than several small vectors of shuffled lanes; so does that of a loop which is `masked`.
        """
        assert loop.static_range is not None
        iterations = loop.static_range
        if loop.derived:
            return cut_fused(loop, self.memory.blocks, self.memory.vector_width, self.narrowest)
        reach = iterations.start if twice else None
        cuts = cuts_of(len(iterations), self.memory.vector_width, reach, masked, self.narrowest)
        return [tuple(min(iterations.start + start + lane, iterations.stop - 1) for lane in range(width))
                for start, width in cuts]

    def tensorized(self, loop: Loop) -> None:
        """Emit an instruction of an engine."""
        assert loop.instruction is not None
        match instruction_named(loop.instruction):
            case MicroKernel() as kernel:
                self.product(loop, kernel)
            case TileKernel() as kernel:
                self.product_on_tiles(loop, kernel)
            case MmaRow():
                assert self.tensor_cores is not None
                self.tensor_cores.product(loop, self.expression, self.put, self.only_loads)
            case SimdRow() as row:
                emit_outer_product(self.builder, loop, row, self.memory.vector_width, self.variables, self.expression,
                                   self.put)

    def product(self, loop: Loop, kernel: MicroKernel) -> None:
        """Emit a product on the matrix engine; the nest says how each sum is stored."""
        from tl_dpnp.lowering.emission.products import Elements, emit_on_dpas, place_on_engine  # which engines need

        place = place_on_engine(self.builder, self.layout, self.position, self.engine.emulated)
        emit_on_dpas(self.builder, loop, kernel, self.arguments, place, self.engine.emulated,
                     Elements(self.at, self.assign, self.expression))

    @contextmanager
    def at(self, variables: Mapping[str, Variable], registers: Mapping[Access, ir.Value]) -> Iterator[None]:
        """Return a context in which variables and registers have these values."""
        self.variables.values.update(variables)
        values = {self.key(access): value for access, value in registers.items()}
        self.registers.update(values)
        self.memory.forget()
        yield
        self.memory.forget()
        for key in values:
            del self.registers[key]
        for variable in variables:
            del self.variables.values[variable]

    def product_on_tiles(self, loop: Loop, kernel: TileKernel) -> None:
        """Emit a product on tiles; what the nest says of how sums are stored becomes loops over those of a tile."""
        from tl_dpnp.lowering.emission.products import emit_on_tiles

        def finish(first: Mapping[str, Variable], nodes: Sequence[Node]) -> None:
            self.variables.values.update(first)
            self.memory.forget()
            self.nodes(nodes)
            self.memory.forget()
            for variable in first:
                del self.variables.values[variable]

        emit_on_tiles(self.builder, loop, kernel, self.arguments, self.pointers, finish, self.engine.emulates_tiles)

    def iteration(self, loop: Loop, value: Variable) -> None:
        """Emit the body once, with the loop variable being `value`."""
        self.variables.values[loop.variable] = value
        if loop.static_range is not None:
            self.variables.multiples[loop.variable] = math.gcd(loop.static_range.start, loop.step)
        for derived in loop.derived:
            self.variables.values[derived.variable] = self.variables.derived(derived)
            self.variables.multiples[derived.variable] = math.gcd(derived.start, derived.scale)

        def body() -> None:
            if self.copies.are_spread(loop.body):
                self.copies.make_later(self.conditions(loop.guards), lambda: self.nodes(loop.body))
            else:
                self.guarded(loop.guards, lambda: self.nodes(loop.body))

        if self.streamed is None:
            body()
        else:
            self.streamed.run(loop, value, self.pointers, body)
        for variable in loop.variables:
            del self.variables.values[variable]

    def lanes(self, loop: Loop) -> None:
        range_ = loop.static_range
        assert range_ is not None
        if len(range_) > self.layout.lanes:
            raise LoweringError(f"loop {loop.variable} has {len(range_)} iterations for {self.layout.lanes} lanes")
        lane = self.local_id(0)
        value = PerLane(lane if loop.step == 1 else self.builder.mul(lane, index(loop.step)))
        if len(range_) == self.layout.lanes:
            self.iteration(loop, value)
            return
        inside = self.builder.icmp_signed("<", lane, index(len(range_)))
        self.branch(inside, lambda: self.iteration(loop, value))

    def guarded(self, guards: Sequence[Guard], body: Callable[[], None]) -> None:
        """Emit `body` where all guards hold."""
        if not guards:
            body()
            return
        first, *others = guards
        (condition,) = self.conditions([first]) or [None]
        if condition is None:
            self.guarded(others, body)
        elif not (isinstance(condition, ir.Constant) and condition.constant == 0):
            self.branch(condition, lambda: self.guarded(others, body))

    def conditions(self, guards: Sequence[Guard]) -> list[ir.Value]:
        """Return the guards, but for those that always hold; one that never does is the constant 0."""
        found = []
        for names, bound in guards:
            value = self.variables.total(names)
            if isinstance(value, int) and isinstance(bound, int):
                found += [] if value < bound else [constant(I1, 0)]
                continue
            found.append(self.builder.icmp_signed("<", self.number(value), self.bound(bound)))
        return found

    def number(self, value: Variable) -> ir.Value:
        """Return a variable that is no vector as a value of the program."""
        assert not isinstance(value, Lanes)
        return index(value) if isinstance(value, int) else value.value if isinstance(value, PerLane) else value

    def branch(self, condition: ir.Value, body: Callable[[], None]) -> None:
        """Emit `body` under a condition; registers that it sets are not visible after it."""
        registers = dict(self.registers)
        self.memory.forget()
        pending, self.copies.pending = self.copies.pending, []
        def whole() -> None:
            body()
            self.copies.start()

        if_then(self.builder, condition, whole)
        self.memory.forget()
        self.registers, self.copies.pending = registers, pending

    def counted(self, loop: Loop, first: ir.Value | None, share: int) -> None:
        """Emit a loop at run time; with `share` sub-groups, each takes every share-th iteration from its own on."""
        range_ = loop.static_range
        if range_ is not None and share == 1 and len(range_) <= 1:
            for value in range_:
                if loop.prefetch:
                    self.prefetch(loop, value)
                self.iteration(loop, value)
            return
        start, stop = self.bound(loop.start), self.bound(loop.stop)
        if first is not None and share > 1:
            start = self.builder.add(start, self.builder.mul(first, index(loop.step)))
            if range_ is not None and len(range_) == share:
                self.iteration(loop, start)
                return
        carried = list(self.registers)
        self.memory.forget()

        def body(counter: ir.Value, values: list[ir.Value]) -> list[ir.Value]:
            self.registers = dict(zip(carried, values, strict=True))
            if loop.prefetch:
                self.prefetch(loop, counter)
            with self.memory.summing(loop):
                self.iteration(loop, counter)
            self.copies.start()
            self.memory.forget()
            return [self.registers[key] for key in carried]

        with self.copies.pipelined(loop):
            results = counted_loop(
                self.builder, start, stop, index(loop.step * share), [self.registers[key] for key in carried], body,
                runs_at_least_once=range_ is not None and len(range_) >= share,
            )
        self.registers = dict(zip(carried, results, strict=True))

    def prefetch(self, loop: Loop, value: int | ir.Value) -> None:
        """Fetch the share of the next operands that belongs to an iteration of `loop`, if that is wanted."""
        ahead, variables = self.arguments.ahead, self.variables
        if ahead is not None:
            self.branch(ahead.wanted, lambda: self.shares.fetch(
                self.builder, loop, value, variables, ahead, self.arguments.pointers))

    # --- work-items --------------------------------------------------------------------------------------------------

    def local_id(self, dimension: Literal[0, 1]) -> ir.Value:
        return target_of(self.builder).item_index(self.builder, dimension)

    def find_subgroup(self) -> None:
        """Emit this sub-group's position; rows vary fastest.

        The id is that of a work-group dimension along which lanes do not differ.  Intel's CPU runtime gives kernels
        that it does not vectorize 0 for every sub-group where the id goes through a sub-group broadcast, or is
        ``get_sub_group_id``.
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
        if self.only_loads:
            for access in assign.reads:
                if access.buffer.scope == "local":
                    self.memory.load(access)
            return
        if self.copies.take(assign):
            return
        width = self.memory.width(target)
        if isinstance(assign.value, Total) and isinstance(assign.value.rhs, Access) and (
            self.memory.width(assign.value.rhs) > width
        ):
            # The lanes of a vector are added up.
            terms = total_of_lanes(self.builder, target.buffer.element, self.expression(assign.value.rhs))
            self.put(target, scalar_ops.arithmetic(
                self.builder, "add", target.buffer.element, self.expression(assign.value.lhs), terms))
            return
        value = self.expression(assign.value)
        if lanes(value.type) < width:
            value = self.memory.splat(value, width)
        if assign.update == "set":
            self.put(target, value)
        else:
            self.update(assign, value, width)
            self.memory.forget()

    def put(self, target: Access, value: ir.Value) -> None:
        """Set a register or store to memory."""
        if target.buffer.in_registers:
            self.registers[self.key(target)] = value
            return
        self.memory.store(target, value)

    def update(self, assign: Assign, value: ir.Value, width: int) -> None:
        """Update elements atomically, lane by lane."""
        element = assign.target.buffer.element
        scale = None if assign.scale is None else self.expression(assign.scale)
        offsets = self.memory.offsets(assign.target, width)
        for lane, offset in enumerate(offsets):
            if offset in offsets[:lane]:
                continue  # a lane that fills up the vector
            pointer = self.memory.pointer(assign.target, offset)
            one = value if width == 1 else get_lane(self.builder, value, lane)
            if assign.update == "add":
                atomic_add(self.builder, element, pointer, one)
            elif assign.update == "exchange":
                atomic_exchange(self.builder, element, pointer, one)
            else:
                assert scale is not None
                if element.is_complex and not isinstance(scale.type, PairsType):
                    for part, place in enumerate(parts_of(self.builder, element, pointer)):
                        self.replace(element.part, place, scale, part_of(self.builder, one, part))
                else:
                    self.replace(element, pointer, scale, one)

    def replace(self, element: ScalarType, pointer: ir.Value, scale: ir.Value, value: ir.Value) -> None:
        """Replace an element atomically by scale · element + value."""
        atomic_replace(self.builder, element, pointer, partial(self.combine, element, scale, value))

    def combine(self, element: ScalarType, scale: ir.Value, value: ir.Value, old: ir.Value) -> ir.Value:
        """Return scale · old + value."""
        return scalar_ops.fused_multiply_add(self.builder, element, *self.same_width([scale, old, value]))

    def expression(self, expression: Expression) -> ir.Value:
        match expression:
            case Access(buffer):
                return self.register(expression) if buffer.in_registers else self.memory.load(expression)
            case Scalar(name):
                return self.arguments.scalars[name]
            case Number(value, type_):
                return constant(value_type(type_), value)
            case Convert(operand, type_):
                return scalar_ops.convert(self.builder, type_of(operand), type_, self.expression(operand))
            case TimesI(operand):
                return times_i(self.builder, self.expression(operand))
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
        if any(isinstance(value.type, PairsType) for value in values):
            values = [v if isinstance(v.type, PairsType) else to_both_parts(self.builder, v, width) for v in values]
        return [self.memory.splat(v, width) if lanes(v.type) < width else v for v in values]

    def key(self, access: Access) -> tuple[object, ...]:
        """Identify the element or vector that an access means, among those that are live at the same time."""
        return (access.buffer.name, *map(self.variables.key, access.indices))

    def register(self, access: Access) -> ir.Value:
        key = self.key(access)
        if key not in self.registers:
            # Registers have no addresses: an element can only be met again where the same loops are unrolled,
            # vectorized or still running.
            raise LoweringError(f"{access} is kept in registers, but the loops around it were scheduled apart")
        return self.registers[key]
