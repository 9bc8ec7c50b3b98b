"""From a function to the body of its kernel: what is the same for all work-items, and a call for each instruction.

Values of type index are arithmetic of the body, all others go through intrinsics that keep their type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import Span
from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.amx.rows import Palette
from tl_dpnp.kernels.llvm import GLOBAL, LOCAL, value_type
from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import scalar as semantics
from tl_dpnp.language.types import GroupType, MemrefType, Size
from tl_dpnp.lowering.body.building import BEYOND, CHUNK, FAILED, GROUP, GROUPS, call
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.memrefs import count, length, multiples_of
from tl_dpnp.lowering.body.regions import Held, MatrixWriter, RegionWriter
from tl_dpnp.lowering.body.tree import (
    Argument,
    Body,
    Comparison,
    Constant,
    Expression,
    Name,
    Return,
    add,
    multiply,
    offset_of,
    subtract,
)
from tl_dpnp.lowering.checks import CheckKind
from tl_dpnp.lowering.counting import cannot_overflow, counter_type
from tl_dpnp.lowering.decomposition import no_lowering
from tl_dpnp.lowering.fragment_choice import BlocksFit
from tl_dpnp.lowering.kernel_call import KernelMaker
from tl_dpnp.lowering.scalar_code import scalar_intrinsic
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, I32, INDEX, U32, U64, ScalarType

if TYPE_CHECKING:
    from tl_dpnp.lowering.vector_loops import VectorLoop

__all__ = ["BodyWriter", "argument_type"]

#: An index of a loop, and where it begins and ends.
_Range = tuple[ops.Value, Expression, Expression]


def argument_type(scalar: ScalarType) -> ScalarType:
    """Return the type in which a scalar travels to the kernel: integers and i1 as 64 bits, floats as they are.

    Of a complex number it is that of its parts, which are two arguments.
    """
    value_type(scalar)  # raises UnsupportedError for what the target has no values of
    return scalar.part if scalar.is_float or scalar.is_complex else INDEX


@dataclass(kw_only=True)
class BodyWriter(RegionWriter):
    """Writes the body of the kernel of `function`, which is in canonical form and has its barriers.

    The operands that are prefetched are those of the work-group that is `groups_ahead` further.  With `make_jammed`,
    two work-groups are done at once by its kernels where the arrays lie in one core's caches, which has half the local
    memory for each.  With `vector_bytes`, loops of scalar instructions run as vectors of that size.  With a `palette`,
    tiles are configured before the first work-group and released after the last one.  A work-group of several
    work-items notes in the word `failure` of its local memory, a place in bytes, that a check of one has failed.
    """

    make_kernel: KernelMaker
    make_jammed: KernelMaker | None = None
    vector_bytes: int = 0
    palette: Palette | None = None
    failure: int | None = None
    arguments: list[Argument] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)

    # --- the frame ---------------------------------------------------------------------------------------------------

    def write(self) -> Body:
        """Return the body."""
        self.assertions.update((assertion.parameter, assertion) for assertion in self.function.assertions)
        for number, parameter in enumerate(self.function.parameters):
            self.parameter(number, parameter)
        for name in (GROUPS, CHUNK, BEYOND):
            self.argument(name.name)
        self.begin_checks()
        if self.failure is not None:
            with self.branch(call(intrinsics.is_leader())):
                self.note_failure(0)
            self.evaluate(call(intrinsics.barrier()))
        self.mapping.write_groups(self)
        if self.checks:
            self.argument("record")
            for table, _, _ in self.groups.values():
                self.argument(length(table).name)
        return Body(tuple(self.arguments), tuple(self.statements), tuple(self.checks), tuple(self.legend))

    @cached_property
    def matrices(self) -> MatrixWriter[Any]:
        """What writes instructions on matrices that are in registers, on one kind of devices or the other."""
        if self.engine.lanes:
            from tl_dpnp.lowering.body.dpas_fragments import DpasFragments

            return DpasFragments(self)
        from tl_dpnp.lowering.body.fragments import WarpFragments

        return WarpFragments(self)

    @property
    def measured(self) -> tuple[int, ...]:
        """The positions of the groups whose length the function asks for."""
        asked = {operation.source.name for operation in self.function.body.walk() if isinstance(operation, ops.SizeOf)}
        return tuple(place for place, parameter in enumerate(self.function.parameters)
                     if isinstance(parameter.type, GroupType) and parameter.name in asked)

    def parameter(self, number: int, parameter: ops.Value) -> None:
        name = f"p{number}"
        self.legend.append((name, f"%{parameter.name}: {parameter.type}"))
        match parameter.type:
            case ScalarType() as scalar:
                travels = argument_type(scalar)
                if scalar.is_complex:
                    parts = [self.argument(f"{name}_{part}", travels) for part in ("re", "im")]
                    self.values[parameter.name] = self.define(call(intrinsics.complex_of(scalar), *parts))
                    return
                value = self.argument(name, travels)
                converted = travels != scalar and scalar != INDEX
                self.values[parameter.name] = (
                    self.define(call(intrinsics.conversion(INDEX, scalar), value)) if converted else value
                )
            case MemrefType() as memref:
                address = self.argument(name)
                sizes = self.dynamic(name, "size", memref.shape)
                strides = self.dynamic(name, "stride", memref.strides)
                assertion = self.assertions.get(parameter.name)
                found = MemrefDescriptor(memref, GLOBAL, address, sizes, strides)
                self.memrefs[parameter.name] = found if assertion is None else found._replace(
                    alignment=assertion.alignment or 1, multiples=multiples_of(memref, assertion))
            case GroupType(memref, offset):
                table = self.argument(name)
                known = self.argument(f"{name}_offset") if offset is None else offset
                dope = Name(f"{name}_dope")
                if None in memref.shape or None in memref.strides:
                    self.argument(dope.name)
                if number in self.measured:
                    self.argument(count(table).name)
                self.groups[parameter.name] = table, known, dope

    def argument(self, name: str, type_: ScalarType = INDEX) -> Name:
        """Add an argument of the kernel, and return it."""
        self.arguments.append(Argument(name, type_))
        return Name(name, type_)

    def dynamic(self, name: str, what: str, entries: tuple[Size, ...]) -> tuple[Expression, ...]:
        return tuple(self.argument(f"{name}_{what}{mode}") if entry is None else entry
                     for mode, entry in enumerate(entries))

    # --- operations --------------------------------------------------------------------------------------------------

    def region(self, region: ops.Region, outputs: Sequence[Held] = ()) -> None:
        for operation in region:
            if isinstance(operation, ops.Yield):
                for output, value in zip(outputs, operation.values, strict=True):
                    self.pass_on(output, value)
            else:
                self.operation(operation)

    def operation(self, operation: ops.Operation) -> None:
        match operation:
            case ops.If():
                self.choose(operation)
            case ops.For():
                self.count_loop(operation)
            case ops.Parallel() | ops.ForeachTile():
                self.parallel(operation)
            case ops.WorkItemPlace():
                self.work_item_place(operation)
            case ops.SubgroupReduce():
                self.reduce_subgroup(operation)
            case _ if operation.is_cooperative:
                self.matrices.cooperate(operation)
            case BlocksFit(result=result):
                self.values[result.name] = self.define(self.matrices.blocks_fit(operation))
            case ops.ScalarOperation():
                self.values[operation.results[0].name] = self.define(self.scalar(operation))
            case ops.GroupId(result=result):
                self.values[result.name] = GROUP
            case ops.GroupSize(result=result):
                self.values[result.name] = GROUPS
            case ops.Load(source=source):
                if isinstance(source.type, GroupType):
                    self.load_memref(operation)
                else:
                    self.load_element(operation)
            case ops.Store():
                self.store(operation)
            case ops.AtomicAccess():
                self.atomic_access(operation)
            case ops.SizeOf(source=source, mode=mode, result=result):
                is_group = isinstance(source.type, GroupType)
                size = count(self.groups[source.name][0]) if is_group else self.memrefs[source.name].sizes[mode]
                self.values[result.name] = size
            case ops.Alloca():
                self.alloca(operation)
            case ops.Expand():
                self.expand(operation)
            case ops.Fuse():
                self.fuse(operation)
            case ops.Expandc2r():
                self.parts(operation)
            case ops.Subview():
                self.subview(operation)
            case ops.Foreach():
                self.foreach(operation)
            case ops.Contraction():
                self.linear_algebra(operation)
            case ops.Barrier():
                barrier = self.mapping.barrier
                if barrier is not None:
                    self.evaluate(call(barrier))
            case ops.LifetimeStop() | ops.CooperativeMatrixPrefetch():
                pass  # prefetches are hints
            case _:
                raise no_lowering(operation)

    def scalar(self, operation: ops.Operation) -> Expression:
        match operation:
            case ops.Arith(kind=kind, lhs=lhs, rhs=rhs):
                if self.debug and kind in ("shl", "shr", "div", "rem") and ops.scalar_type(lhs).is_integer:
                    self.check_arithmetic(operation.span, kind, ops.scalar_type(lhs), self.wide(rhs))
            case ops.Cast(operand=ops.Constant() as operand, result=result):
                return self.cast_constant(operation.span, operand, ops.scalar_type(result))
            case ops.Cast(operand=operand, result=result):
                source, target = ops.scalar_type(operand), ops.scalar_type(result)
                if self.debug and source.is_float and target.is_integer:
                    test = call(intrinsics.fits(source, target), self.operand(operand))
                    self.check("differs", operation.span, test, 0, f"cast of a value outside the range of {target}")
        intrinsic = scalar_intrinsic(operation)
        for operand in operation.operands:
            value_type(ops.scalar_type(operand))
        value_type(ops.scalar_type(operation.results[0]))
        return call(intrinsic, *(self.operand(operand) for operand in operation.operands))

    def cast_constant(self, span: Span, operand: ops.Constant, target: ScalarType) -> Expression:
        """Return the value of a cast that was not folded: it is undefined, or has no spelling, as large ones of u64."""
        given = semantics.from_python(operand.value, operand.type)
        if not semantics.is_in_range(given, operand.type, target):
            self.check("differs", span, 0, 0, f"cast of a value outside the range of {target}")
        value = semantics.convert(given, operand.type, target)
        return self.operand(ops.Constant(value.item(), target))

    def load_element(self, operation: ops.Load) -> None:
        memref = self.memrefs[operation.source.name]
        indices = [self.index(i) for i in operation.indices]
        intrinsic = intrinsics.element_load(memref.type.element, memref.space, self.local_memory)
        self.check_indices(operation.span, indices, memref.sizes, "index")
        element = call(intrinsic, memref.address, offset_of(zip(indices, memref.strides, strict=True)))
        self.values[operation.result.name] = self.define(element)

    def store(self, operation: ops.Store) -> None:
        memref = self.memrefs[operation.target.name]
        indices = [self.index(i) for i in operation.indices]
        self.check_indices(operation.span, indices, memref.sizes, "index")
        intrinsic = intrinsics.element_store(memref.type.element, memref.space, self.local_memory)
        offset = offset_of(zip(indices, memref.strides, strict=True))
        store = call(intrinsic, self.operand(operation.value), memref.address, offset)
        if self.spmd or self.mapping.frame.is_alone:
            self.evaluate(store)
        else:
            # Every work-item would store the same value: one does.
            with self.branch(call(intrinsics.is_leader())):
                self.evaluate(store)

    def atomic_access(self, operation: ops.AtomicAccess) -> None:
        """Write an access of one work-item: `decomposition` has those of a whole work-group done by one."""
        memref = self.memrefs[operation.memref.name]
        indices = [self.index(i) for i in operation.indices]
        self.check_indices(operation.span, indices, memref.sizes, "index")
        offset = offset_of(zip(indices, memref.strides, strict=True))
        intrinsic = intrinsics.atomic_access(
            operation.access, memref.type.element, memref.space, self.local_memory, operation.is_ordered)
        values = [self.operand(operation.value)] if isinstance(operation, ops.AtomicStore | ops.AtomicUpdate) else []
        access = call(intrinsic, *values, memref.address, offset)
        if operation.results:
            self.values[operation.results[0].name] = self.define(access)
        else:
            self.evaluate(access)

    # --- control -----------------------------------------------------------------------------------------------------

    @contextmanager
    def nested(self) -> Iterator[None]:
        """What is written inside is not done once in every work-group."""
        self.nesting += 1
        yield
        self.nesting -= 1

    def choose(self, operation: ops.If) -> None:
        outputs = [self.holder(value) for value in operation.outputs]
        for value, holder in zip(operation.outputs, outputs, strict=True):
            self.take(value, holder, is_fixed=True)
        with self.branch(self.operand(operation.condition)), self.nested():
            self.region(operation.then, outputs)
        if operation.otherwise is not None:
            with self.otherwise(), self.nested():
                self.region(operation.otherwise, outputs)

    def count_loop(self, operation: ops.For) -> None:
        type_, step = ops.scalar_type(operation.variable), self.bind(self.wide(operation.step))
        if not isinstance(step, int):
            kind: CheckKind = "differs" if type_ == U64 else "least"
            what = "the step of the loop" if kind == "least" else "the step of the loop is 0"
            self.check(kind, operation.span, step, 1 if kind == "least" else 0, what)
        start, stop = self.wide(operation.start), self.bind(self.wide(operation.stop))
        variables = [self.holder(value) for value in operation.carried]
        for variable, first in zip(variables, operation.initial, strict=True):
            self.pass_on(variable, first)
        is_short = False
        if any(isinstance(inner, ops.CooperativeMatrixLoad) for inner in operation.body):
            is_short = self.matrices.before_loop(operation)

        def body() -> None:
            for value, variable in zip(operation.carried, variables, strict=True):
                self.take(value, variable)  # what is yielded may be another one's value
            self.region(operation.body, variables)

        if cannot_overflow(type_, start, stop, step) and not is_short:
            self.counted(operation.variable, start, stop, step, body)
        else:
            trips = call(intrinsics.trip_count(counter_type(type_)), start, stop, step)
            self.repeated(operation.variable, start, trips, step, body, is_short)
        for value, variable in zip(operation.outputs, variables, strict=True):
            self.take(value, variable, is_fixed=True)

    def foreach(self, operation: ops.Foreach) -> None:
        """Write the loop over the first index inside of those over the others, or as vectors over some of them."""
        ranges = [
            (variable, self.wide(start), self.bind(self.wide(stop))) for variable, start, stop in operation.ranges
        ]
        vectors = None
        if self.vector_bytes:
            from tl_dpnp.lowering.vector_loops import vector_loop  # which only such loops need

            vectors = vector_loop(operation, ranges, self.memrefs, self.vector_bytes)
        if vectors is not None:
            ranges = list(vectors.ranges)
        joined = 1 if self.mapping.frame.is_alone else self.joined(ranges)

        def write(left: int) -> None:
            if vectors is not None and left == vectors.modes:
                self.vector_loop(vectors, ranges[:left])
            elif left == joined > 1:
                self.shared_together(ranges[:left], lambda: self.region(operation.body))
            elif left == 0:
                self.region(operation.body)
            else:
                self.shared(*ranges[left - 1], left == 1, lambda: write(left - 1))

        self.spmd, checks = True, len(self.checks)
        with self.nested():
            write(len(ranges))
        self.spmd = False
        if len(self.checks) > checks:
            self.end_if_failed()

    def end_if_failed(self) -> None:
        """End the work-group if a check of a work-item has failed, since what that would have computed is not there.

        Whoever went on with what is in its place might count to any number.
        """
        if self.mapping.frame.is_alone:
            with self.branch(FAILED):
                self.append(Return())
        elif self.failure is not None:
            with self.branch(FAILED):
                self.note_failure(1)
            self.evaluate(call(intrinsics.barrier()))
            found = self.define(call(intrinsics.element_load(I32, LOCAL, self.local_memory), self.failure, 0))
            # Nobody notes the next failure before all have seen that there was none.
            self.evaluate(call(intrinsics.barrier()))
            with self.branch(call(intrinsics.conversion(I32, I1), found)):
                self.append(Return())

    def note_failure(self, number: int) -> None:
        """Write whether a check has failed where all work-items see it."""
        assert self.failure is not None
        store = intrinsics.element_store(I32, LOCAL, self.local_memory)
        self.evaluate(call(store, Constant(number, I32), self.failure, 0))

    def vector_loop(self, vectors: VectorLoop, ranges: Sequence[tuple[ops.Value, Expression, Expression]]) -> None:
        """Write what is the same in all iterations, and the call of the intrinsic that does them."""
        for variable, start, _ in ranges:
            self.values[variable.name] = start
        for each in vectors.hoisted:
            self.operation(each)
        name = f"foreach_{self.fresh().name}"
        intrinsic, arguments = vectors.call(name, self.operand, self.index, self.local_memory)
        self.evaluate(call(intrinsic, *arguments), vectors.comment)

    def shared(
        self, variable: ops.Value, start: Expression, stop: Expression, is_shared: bool, body: Callable[[], None]
    ) -> None:
        """Write a loop whose iterations the work-items share where `is_shared` says so, else each does all of them."""
        type_ = ops.scalar_type(variable)
        step = 1
        place: Expression = 0
        if is_shared and not self.mapping.frame.is_alone:
            layout = self.mapping.layout
            place = call(intrinsics.work_item(layout.lanes))
            step = layout.lanes * layout.subgroups
        if cannot_overflow(type_, start, stop, step, step - 1):
            self.counted(variable, add(start, place), stop, step, body)
            return
        start, place = self.bind(start), self.bind(place)
        trips: Expression = call(intrinsics.trip_count(counter_type(type_)), start, stop, 1)
        if step > 1:
            trips = call(intrinsics.trip_count(U64), place, trips, step)
            start = call(intrinsics.arithmetic("add", INDEX), start, place)
        self.repeated(variable, start, trips, step, body)

    def joined(self, ranges: Sequence[_Range]) -> int:
        """Return how many of the first ranges work-items share as one, so that none of them is without work."""
        layout = self.mapping.layout
        items, size = layout.lanes * layout.subgroups, 1
        for number, (_, start, stop) in enumerate(ranges):
            if size % items == 0 and number:
                return number
            if not (isinstance(start, int) and isinstance(stop, int) and start < stop):
                return number + 1
            size *= stop - start
        return len(ranges)

    def shared_together(self, ranges: Sequence[_Range], body: Callable[[], None]) -> None:
        """Write one loop over all indices of several ranges, the first of which runs fastest; work-items share it."""
        layout = self.mapping.layout
        *known, last = ranges
        total = self.iterations(*last)
        for _, first, behind in known:
            total = multiply(total, subtract(behind, first))
        type_ = U32 if isinstance(total, int) and total < 1 << 31 else U64
        counter = self.variable(call(intrinsics.work_item(layout.lanes)))
        with self.loop(Comparison("<", counter, self.bind(total))), self.nested():
            rest = self.define(call(intrinsics.conversion(INDEX, type_), counter)) if type_ != INDEX else counter
            for number, (variable, first, behind) in enumerate(ranges):
                place: Expression = rest
                if number < len(known):
                    size = subtract(behind, first)
                    place = self.define(call(intrinsics.arithmetic("rem", type_), rest, size))
                    rest = self.define(call(intrinsics.arithmetic("div", type_), rest, size))
                place = self.define(call(intrinsics.conversion(type_, INDEX), place))
                self.values[variable.name] = self.index_as(ops.scalar_type(variable), add(first, place))
            self.loops += self.spmd
            body()
            self.loops -= self.spmd
            self.count_up(counter, layout.lanes * layout.subgroups)
        self.leave_if_failed()

    @staticmethod
    def iterations(variable: ops.Value, start: Expression, stop: Expression) -> Expression:
        """Return how many iterations a loop has; it may be negative where there are none."""
        type_ = ops.scalar_type(variable)
        if type_.bits < 64 or start == 0 or (isinstance(start, int) and isinstance(stop, int)):
            return subtract(stop, start)
        # The difference of bounds that are far apart would wrap around.
        return call(intrinsics.trip_count(counter_type(type_)), start, stop, 1)

    def index_as(self, type_: ScalarType, index: Expression) -> Expression:
        """Return an index in the type of its variable."""
        return index if type_ == INDEX else self.define(call(intrinsics.conversion(INDEX, type_), index))

    def counted(
        self, variable: ops.Value, start: Expression, stop: Expression, step: Expression, body: Callable[[], None]
    ) -> None:
        """Write a loop that counts up to its end, which it does not pass."""
        counter = self.variable(start)
        with self.loop(Comparison("<", counter, stop)), self.nested():
            self.iteration(variable, counter, body)
            self.count_up(counter, step)
        self.leave_if_failed()

    def repeated(
        self, variable: ops.Value, start: Expression, trips: Expression, step: Expression, body: Callable[[], None],
        is_short: bool = False,
    ) -> None:
        """Write a loop that runs a number of times, which 32 bits hold where it `is_short`.

        Its counter may wrap around behind the last one.
        """
        counter = self.variable(start)
        left = self.variable(call(intrinsics.conversion(INDEX, I32), trips) if is_short else trips)
        goes_on = call(intrinsics.comparison("ne", I32), left, 0) if is_short else Comparison("!=", left, 0)
        with self.loop(goes_on), self.nested():
            self.iteration(variable, counter, body)
            self.assign(counter, call(intrinsics.arithmetic("add", INDEX), counter, step))
            self.assign(left, call(intrinsics.arithmetic("sub", I32), left, 1) if is_short else subtract(left, 1))
        self.leave_if_failed()

    def iteration(self, variable: ops.Value, counter: Name, body: Callable[[], None]) -> None:
        self.values[variable.name] = self.index_as(ops.scalar_type(variable), counter)
        self.loops += self.spmd
        body()
        self.loops -= self.spmd

    # --- linear algebra ----------------------------------------------------------------------------------------------

    def linear_algebra(self, operation: ops.LinearAlgebra) -> None:
        memrefs = [self.memrefs[value.name] for value in (*operation.inputs, operation.output)]
        self.check_shapes(operation)
        jammed = self.make_jammed if self.jammed else None
        kernel = (jammed or self.make_kernel)(operation, memrefs)
        arguments: list[Expression] = [memref.address for memref in memrefs]
        for position, what, mode in kernel.dimensions:
            memref = memrefs[position]
            known = {"size": memref.sizes, "stride": memref.strides, "step": (memref.step,)}
            entry = known[what][mode]
            assert entry is not None
            arguments.append(entry)
        arguments += [self.operand(scalar) for scalar in kernel.scalars]
        if kernel.prefetches:
            arguments.append(BEYOND)
            arguments += [memref.ahead for memref in memrefs if memref.ahead is not None and memref.can_be_fetched]
        self.evaluate(call(kernel.intrinsic, *arguments), kernel.comment)

    def check_shapes(self, operation: ops.LinearAlgebra) -> None:
        """Check that sizes which an instruction takes to be equal are so, where the types leave it open."""
        known: dict[str, Expression] = {}
        for value, letters in reversed(operation.dimension_names):
            for mode, (letter, size) in enumerate(zip(letters, self.memrefs[value.name].sizes, strict=True)):
                if known.setdefault(letter, size) != size:
                    kind = operation.mnemonic
                    what = f"size of mode {mode} of an operand of {kind}"
                    self.check("equal", operation.span, size, known[letter], what)

