"""The kernel shell: a short Python function that Numba compiles, with one call for each instruction.

The shell holds what is the same for all work-items: scalar code, loops, branches, addresses.  Its text is made of
generated names and numbers only; nothing of the user's source enters it.  Values of type index are Python integers
to it (64 bits in Numba), all others go through intrinsics that keep their type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tl_dpnp.errors import Span
from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.amx.rows import Palette
from tl_dpnp.kernels.llvm import GLOBAL, LOCAL, PRIVATE, Intrinsic, value_type
from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import scalar as semantics
from tl_dpnp.language.rules import dimension_names
from tl_dpnp.language.types import GroupType, MemrefType, Size
from tl_dpnp.lowering.checks import CheckKind
from tl_dpnp.lowering.contraction import JAMMED
from tl_dpnp.lowering.counting import cannot_overflow, counter_type
from tl_dpnp.lowering.kernel_call import KernelMaker
from tl_dpnp.lowering.memory import Placement
from tl_dpnp.lowering.plan import BoundsCheck
from tl_dpnp.lowering.scalar_code import scalar_intrinsic
from tl_dpnp.lowering.shell_lines import ShellLines
from tl_dpnp.lowering.staged_shell import resident_memrefs, staged_frame, staged_memref
from tl_dpnp.lowering.staging import Staging
from tl_dpnp.lowering.text import MemrefText, Text, add, bytes_of, literal, multiply, offset_of, prefer_static
from tl_dpnp.lowering.vector_loops import VectorLoop, vector_loop
from tl_dpnp.lowering.work_group import WorkGroup
from tl_dpnp.scalars import F64, I1, INDEX, U64, ScalarType, rounded_number

__all__ = ["Argument", "Shell", "argument_type", "write_shell"]


@dataclass(frozen=True)
class Argument:
    """One argument of the kernel: its name and its type."""

    name: str
    type: ScalarType


#: The most arguments of a call that Python compiles as one; of more it makes a list first, which Numba refuses.
_MOST_ARGUMENTS = 30
#: Indentation of what the vector form does in every work-group, outside of the program's conditions and loops.
_IN_EVERY_WORK_GROUP = 2


@dataclass(frozen=True)
class Shell:
    """The text of the kernel, its arguments in order, the intrinsics that it calls by name, and its checks."""

    text: str
    name: str
    arguments: tuple[Argument, ...]
    intrinsics: Mapping[str, Intrinsic]
    checks: tuple[BoundsCheck, ...]
    legend: tuple[tuple[str, str], ...]


def argument_type(scalar: ScalarType) -> ScalarType:
    """Return the type in which a scalar travels to the kernel: integers and i1 as 64 bits, floats as they are."""
    value_type(scalar)  # raises UnsupportedError for what the target has no values of
    return scalar if scalar.is_float else INDEX


def write_shell(
    function: ops.Function,
    name: str,
    work_group: WorkGroup,
    placements: Mapping[str, Placement],
    local_memory: int,
    make_kernel: KernelMaker,
    debug: bool,
    parameters: Sequence[str],
    groups_ahead: int,
    make_jammed: KernelMaker | None = None,
    vector_bytes: int = 0,
    palette: Palette | None = None,
) -> Shell:
    """Return the shell of `function`, which is in canonical form and has its barriers.

    `parameters` are the names that it takes in front of its arguments (`tl_dpnp.kernels.targets.Target`).  The operands
    that are prefetched are those of the work-group that is `groups_ahead` further.  With `make_jammed`, two work-groups
    are done at once by its kernels where the arrays lie in one core's caches, which has half the local memory for each.
    With `vector_bytes`, loops of scalar instructions run as vectors of that size.  With a `palette`, tiles are
    configured before the first work-group and released after the last one.
    """
    return _Writer(
        function, name, work_group, placements, local_memory, make_kernel, parameters, groups_ahead, make_jammed,
        vector_bytes, palette, debug=debug,
    ).write()


@dataclass
class _Writer(ShellLines):
    function: ops.Function
    name: str
    work_group: WorkGroup
    placements: Mapping[str, Placement]
    local_memory: int
    make_kernel: KernelMaker
    first_parameters: Sequence[str]
    groups_ahead: int
    make_jammed: KernelMaker | None
    vector_bytes: int
    palette: Palette | None
    values: dict[str, str] = field(default_factory=dict)
    memrefs: dict[str, MemrefText] = field(default_factory=dict)
    groups: dict[str, tuple[str, Text, str]] = field(default_factory=dict)
    arguments: list[Argument] = field(default_factory=list)
    legend: list[tuple[str, str]] = field(default_factory=list)
    #: Whether two work-groups are done at once.
    jammed: bool = False

    # --- the frame ---------------------------------------------------------------------------------------------------

    def write(self) -> Shell:
        for number, parameter in enumerate(self.function.parameters):
            self.parameter(f"p{number}", parameter)
        self.arguments += [Argument(name, INDEX) for name in ("groups", "chunk", "beyond")]
        if self.debug:
            self.line("failed = False")
        if self.work_group.staging is not None:
            self.staged(self.work_group.staging)
        elif self.work_group.form == "vector":
            self.line(f"group = {self.call(intrinsics.first_group(), 'chunk')}")
            self.line(f"last = {self.call(intrinsics.mathematics('min', INDEX, 2), 'group + chunk', 'groups')}")
            if self.palette is not None:
                self.line(self.call(intrinsics.configure_tiles(self.palette)))
            if self.make_jammed is not None:
                self.jammed = True
                with self.block(f"while beyond == 0 and group + {JAMMED} <= last:"):
                    self.region(self.function.body)
                    self.line(f"group = group + {JAMMED}")
                self.jammed = False
            with self.block("while group < last:"):
                self.region(self.function.body)
                self.line("group = group + 1")
            if self.palette is not None:
                self.line(self.call(intrinsics.release_tiles()))
        else:
            self.line(f"group = {self.call(intrinsics.group_id())}")
            self.region(self.function.body)
        if self.checks:
            self.arguments.append(Argument("record", INDEX))
            self.arguments += [Argument(_length(table), INDEX) for table, _, _ in self.groups.values()]
        header = f"def {self.name}({', '.join([*self.first_parameters, *(a.name for a in self.arguments)])}):"
        text = "\n".join([header, *self.lines]) + "\n"
        return Shell(text, self.name, tuple(self.arguments), self.intrinsics, tuple(self.checks), tuple(self.legend))

    def staged(self, staging: Staging) -> None:
        """Write the loop over the turns of a block, with the body inside."""
        places = {name: memref.address for name, memref in self.memrefs.items()} | self.groups
        frame = staged_frame(staging, self.call, places)
        self.memrefs |= resident_memrefs(staging)
        for text in frame.before:
            self.line(text)
        with self.block("while first < groups:"):
            body = tuple(self.function.body)
            split = 1 + next(place for place, operation in enumerate(body) if isinstance(operation, ops.LinearAlgebra))
            for part in (frame.first, body[:split], frame.meanwhile, body[split:], frame.last):
                for entry in part:
                    self.line(entry) if isinstance(entry, str) else self.operation(entry)
        self.line(frame.after)

    def staged_view(self, result: ops.Value) -> bool:
        """Define a memref that is in the stage, and return whether it is."""
        staging = self.work_group.staging
        found = None if staging is None else staged_memref(staging, result)
        if found is not None:
            self.memrefs[result.name] = replace(found, address=self.bind(found.address))
        return found is not None

    def parameter(self, name: str, parameter: ops.Value) -> None:
        self.legend.append((name, f"%{parameter.name}: {parameter.type}"))
        match parameter.type:
            case ScalarType() as scalar:
                travels = argument_type(scalar)
                self.arguments.append(Argument(name, travels))
                self.values[parameter.name] = name
                if travels != scalar and scalar != INDEX:
                    self.values[parameter.name] = self.assign(self.call(intrinsics.conversion(INDEX, scalar), name))
            case MemrefType() as memref:
                self.arguments.append(Argument(name, INDEX))
                sizes = self.dynamic(name, "size", memref.shape)
                strides = self.dynamic(name, "stride", memref.strides)
                self.memrefs[parameter.name] = MemrefText(memref, GLOBAL, name, sizes, strides)
            case GroupType(memref, offset):
                self.arguments.append(Argument(name, INDEX))
                offset_text: Text = 0 if offset is None else offset
                if offset is None:
                    offset_text = f"{name}_offset"
                    self.arguments.append(Argument(offset_text, INDEX))
                if None in memref.shape or None in memref.strides:
                    self.arguments.append(Argument(f"{name}_dope", INDEX))
                self.groups[parameter.name] = (name, offset_text, f"{name}_dope")

    def dynamic(self, name: str, what: str, entries: tuple[Size, ...]) -> tuple[Text, ...]:
        result: list[Text] = []
        for mode, entry in enumerate(entries):
            if entry is None:
                self.arguments.append(Argument(f"{name}_{what}{mode}", INDEX))
            result.append(f"{name}_{what}{mode}" if entry is None else entry)
        return tuple(result)

    # --- operands ----------------------------------------------------------------------------------------------------

    def operand(self, operand: ops.Operand) -> str:
        """Return the text of a scalar operand, with its type."""
        if isinstance(operand, ops.Value):
            return self.values[operand.name]
        value = operand.value
        text = literal(rounded_number(operand.type, value) if isinstance(value, float) else value)
        if operand.type in (INDEX, F64, I1):
            return text
        return self.call(intrinsics.conversion(operand.type, operand.type), text)

    def index(self, operand: ops.Operand) -> Text:
        """Return the text or number of an index operand."""
        if isinstance(operand, ops.Constant):
            assert isinstance(operand.value, int)
            return operand.value
        return self.values[operand.name]

    def wide(self, operand: ops.Operand) -> Text:
        """Return an integer operand as 64 bits."""
        type_ = ops.scalar_type(operand)
        if isinstance(operand, ops.Constant) or type_ == INDEX:
            return self.index(operand)
        return self.call(intrinsics.conversion(type_, INDEX), self.operand(operand))

    # --- operations --------------------------------------------------------------------------------------------------

    def region(self, region: ops.Region, outputs: Sequence[str] = ()) -> None:
        for operation in region:
            if isinstance(operation, ops.Yield):
                for output, value in zip(outputs, operation.values, strict=True):
                    self.line(f"{output} = {self.operand(value)}")
            else:
                self.operation(operation)

    def operation(self, operation: ops.Operation) -> None:
        match operation:
            case ops.Arith() | ops.Unary() | ops.Math() | ops.Cast() | ops.Compare():
                self.values[operation.results[0].name] = self.assign(self.scalar(operation))
            case ops.GroupId(result=result):
                self.values[result.name] = "group"
            case ops.GroupSize(result=result):
                self.values[result.name] = "groups"
            case ops.Load(source=source):
                if isinstance(source.type, GroupType):
                    self.load_memref(operation)
                else:
                    self.load_element(operation)
            case ops.Store():
                self.store(operation)
            case ops.SizeOf(source=source, mode=mode, result=result):
                self.values[result.name] = str(self.memrefs[source.name].sizes[mode])
            case ops.Alloca(result=result):
                self.alloca(result)
            case ops.Expand():
                self.expand(operation)
            case ops.Fuse():
                self.fuse(operation)
            case ops.Subview():
                self.subview(operation)
            case ops.If():
                self.branch(operation)
            case ops.For():
                self.loop(operation)
            case ops.Foreach():
                self.foreach(operation)
            case ops.LinearAlgebra():
                self.linear_algebra(operation)
            case ops.Barrier():
                if self.work_group.staging is not None and self.work_group.staging.teams_share_warps:
                    self.line(self.call(self.work_group.staging.ring.team_barrier()))
                elif self.work_group.form != "vector":
                    self.line(self.call(intrinsics.barrier()))
            case ops.LifetimeStop():
                pass
            case _:
                raise AssertionError(operation)

    def scalar(self, operation: ops.Operation) -> str:
        match operation:
            case ops.Arith(kind=kind, lhs=lhs, rhs=rhs):
                if self.debug and kind in ("shl", "shr", "div", "rem") and ops.scalar_type(lhs).is_integer:
                    self.check_arithmetic(operation.span, kind, ops.scalar_type(lhs), self.wide(rhs))
            case ops.Cast(operand=ops.Constant() as operand, result=result):
                return self.cast_constant(operation.span, operand, ops.scalar_type(result))
            case ops.Cast(operand=operand, result=result):
                source, target = ops.scalar_type(operand), ops.scalar_type(result)
                if self.debug and source.is_float and target.is_integer:
                    test = self.call(intrinsics.fits(source, target), self.operand(operand))
                    self.check("differs", operation.span, test, 0, f"cast of a value outside the range of {target}")
        intrinsic = scalar_intrinsic(operation)
        for operand in operation.operands:
            value_type(ops.scalar_type(operand))
        value_type(ops.scalar_type(operation.results[0]))
        return self.call(intrinsic, *(self.operand(operand) for operand in operation.operands))

    def cast_constant(self, span: Span, operand: ops.Constant, target: ScalarType) -> str:
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
        text = self.call(intrinsic, memref.address, offset_of(zip(indices, memref.strides, strict=True)))
        self.values[operation.result.name] = self.assign(text)

    def load_memref(self, operation: ops.Load) -> None:
        if self.staged_view(operation.result):
            return
        type_ = ops.memref_type(operation.result)
        table, offset, dope = self.groups[operation.source.name]
        index = self.index(operation.indices[0])
        self.check("bounds", operation.span, index, _length(table), "index into the group")
        load = intrinsics.element_load(INDEX, GLOBAL, self.local_memory)
        address = self.assign(add(self.call(load, table, index), bytes_of(offset, type_.element)))
        ahead: Text | None = None
        step: Text | None = None
        if index == "group" and self.jammed:
            distance = f"{self.call(load, table, add(index, 1))} - {self.call(load, table, index)}"
            step = self.assign(f"({distance}) >> {type_.element.bytes.bit_length() - 1}")
        elif index == "group" and self.work_group.form == "vector" and self.indent == _IN_EVERY_WORK_GROUP:
            following = self.call(intrinsics.mathematics("min", INDEX, 2), f"group + {self.groups_ahead}", "groups - 1")
            ahead = self.assign(f"{self.call(load, table, following)} - {self.call(load, table, index)}")
        dynamic = [e for e in (*type_.shape, *type_.strides) if e is None]
        position = 0

        def resolve(entry: Size) -> Text:
            nonlocal position
            if entry is not None:
                return entry
            text = self.assign(self.call(load, dope, add(multiply(index, len(dynamic)), position)))
            position += 1
            return text

        sizes = tuple(resolve(entry) for entry in type_.shape)
        strides = tuple(resolve(entry) for entry in type_.strides)
        self.memrefs[operation.result.name] = MemrefText(type_, GLOBAL, address, sizes, strides, ahead, step=step)

    def store(self, operation: ops.Store) -> None:
        memref = self.memrefs[operation.target.name]
        indices = [self.index(i) for i in operation.indices]
        self.check_indices(operation.span, indices, memref.sizes, "index")
        intrinsic = intrinsics.element_store(memref.type.element, memref.space, self.local_memory)
        offset = offset_of(zip(indices, memref.strides, strict=True))
        text = self.call(intrinsic, self.operand(operation.value), memref.address, offset)
        if self.spmd or self.work_group.form == "vector":
            self.line(text)
        else:
            # Every work-item would store the same value: one does.
            with self.block(f"if {self.call(intrinsics.is_leader())}:"):
                self.line(text)

    def alloca(self, result: ops.Value) -> None:
        type_ = ops.memref_type(result)
        space = PRIVATE if self.work_group.form == "vector" else LOCAL
        sizes = tuple(size for size in type_.shape if size is not None)
        strides = tuple(stride for stride in type_.strides if stride is not None)
        address: Text = self.placements[result.name].offset
        staging, alignment = self.work_group.staging, 1
        if staging is not None:
            first, pitch = staging.temporary(self.placements[result.name])
            address = self.bind(add(first, multiply("team", pitch)))
            alignment = math.gcd(pitch, 64)
        step = self.local_memory // JAMMED // type_.element.bytes if self.jammed else None
        self.memrefs[result.name] = MemrefText(type_, space, address, sizes, strides, alignment=alignment, step=step)

    # --- views -------------------------------------------------------------------------------------------------------

    def view(
        self, result: ops.Value, source: MemrefText, address: Text, sizes: Sequence[Text], strides: Sequence[Text],
        ahead: Text | None, step: Text | None = None,
    ) -> None:
        """Define a view by what the shell knows of it; what its type knows comes first."""
        type_ = ops.memref_type(result)
        shape, layout = prefer_static(type_.shape, sizes), prefer_static(type_.strides, strides)
        step = source.step if step is None else step
        self.memrefs[result.name] = MemrefText(type_, source.space, address, shape, layout, ahead, step=step)

    def subview(self, operation: ops.Subview) -> None:
        if self.staged_view(operation.result):
            return
        source = self.memrefs[operation.source.name]
        terms: list[tuple[Text, Text]] = []
        sizes: list[Text] = []
        strides: list[Text] = []
        for entry, size, stride in zip(operation.slices, source.sizes, source.strides, strict=True):
            offset = self.index(entry.offset)
            terms.append((offset, stride))
            if entry.is_index:
                self.check_indices(operation.span, [offset], [size], "index")
                continue
            given = None if entry.size is None else self.index(entry.size)
            self.check_slice(operation.span, offset, given, size)
            length = add(size, multiply(offset, -1)) if given is None else given
            sizes.append(self.bind(length))
            strides.append(stride)
        element = source.type.element
        if element.is_subbyte:
            self.check_whole_bytes(operation.span, element.per_byte, terms[0][0], sizes[0])
        address = self.bind(add(source.address, bytes_of(offset_of(terms), element)))
        # The view moves with the work-group where the group id is one of its offsets and no other depends on it.
        moves = [stride for offset, stride in terms if offset == "group"]
        ahead = source.ahead
        if len(moves) == 1 and ahead is None:
            ahead = bytes_of(multiply(moves[0], self.groups_ahead), element)
        step = moves[0] if self.jammed and moves else None
        self.view(operation.result, source, address, sizes, strides, ahead, step)

    def expand(self, operation: ops.Expand) -> None:
        source = self.memrefs[operation.source.name]
        mode = operation.mode
        known = [None if entry is None else self.index(entry) for entry in operation.shape]
        product: Text = 1
        for entry in known:
            product = product if entry is None else multiply(product, entry)
        divide = intrinsics.arithmetic("div", INDEX)
        inferred = self.bind(self.call(divide, source.sizes[mode], product)) if None in known else 0
        new = [inferred if entry is None else entry for entry in known]
        if self.debug:
            self.check_expand(operation.span, new, source.sizes[mode])
        strides: list[Text] = [source.strides[mode]]
        for entry in new[:-1]:
            strides.append(self.bind(multiply(strides[-1], entry)))
        sizes = [*source.sizes[:mode], *new, *source.sizes[mode + 1 :]]
        if mode == 0 and source.type.element.is_subbyte:
            self.check_whole_bytes(operation.span, source.type.element.per_byte, sizes[0])
        all_strides = [*source.strides[:mode], *strides, *source.strides[mode + 1 :]]
        self.view(operation.result, source, source.address, sizes, all_strides, source.ahead)

    def fuse(self, operation: ops.Fuse) -> None:
        source = self.memrefs[operation.source.name]
        first, last = operation.first, operation.last
        if self.debug:
            for mode in range(first, last):
                extent = multiply(source.strides[mode], source.sizes[mode])
                self.check("equal", operation.span, source.strides[mode + 1], extent, f"stride of mode {mode + 1}")
        size: Text = 1
        for entry in source.sizes[first : last + 1]:
            size = multiply(size, entry)
        sizes = [*source.sizes[:first], self.bind(size), *source.sizes[last + 1 :]]
        strides = [*source.strides[: first + 1], *source.strides[last + 1 :]]
        self.view(operation.result, source, source.address, sizes, strides, source.ahead)

    # --- control -----------------------------------------------------------------------------------------------------

    def branch(self, operation: ops.If) -> None:
        outputs = [self.fresh() for _ in operation.outputs]
        self.values.update((value.name, text) for value, text in zip(operation.outputs, outputs, strict=True))
        with self.block(f"if {self.operand(operation.condition)}:"):
            self.region(operation.then, outputs)
        if operation.otherwise is not None:
            with self.block("else:"):
                self.region(operation.otherwise, outputs)

    def loop(self, operation: ops.For) -> None:
        type_, step = ops.scalar_type(operation.variable), self.bind(self.wide(operation.step))
        if not isinstance(step, int):
            kind: CheckKind = "differs" if type_ == U64 else "least"
            what = "the step of the loop" if kind == "least" else "the step of the loop is 0"
            self.check(kind, operation.span, step, 1 if kind == "least" else 0, what)
        start, stop = self.wide(operation.start), self.bind(self.wide(operation.stop))
        if cannot_overflow(type_, start, stop, step):
            self.counted(operation.variable, start, stop, step, lambda: self.region(operation.body))
        else:
            trips = self.call(intrinsics.trip_count(counter_type(type_)), start, stop, step)
            self.repeated(operation.variable, start, trips, step, lambda: self.region(operation.body))

    def foreach(self, operation: ops.Foreach) -> None:
        """Write the loop over the first index inside of those over the others, or as vectors over the first ones."""
        ranges = [
            (variable, self.wide(start), self.bind(self.wide(stop))) for variable, start, stop in operation.ranges
        ]
        vectors = vector_loop(operation, ranges, self.memrefs, self.vector_bytes) if self.vector_bytes else None

        def write(left: int) -> None:
            if vectors is not None and left == vectors.modes and self.vector_loop(vectors, ranges[:left]):
                return
            if left == 0:
                self.region(operation.body)
            else:
                self.shared(*ranges[left - 1], left == 1, lambda: write(left - 1))

        self.spmd = True
        write(len(ranges))
        self.spmd = False

    def vector_loop(self, vectors: VectorLoop, ranges: Sequence[tuple[ops.Value, Text, Text]]) -> bool:
        """Write what is the same in all iterations, and the call of the intrinsic that does them, if it can be one."""
        written = len(self.lines)
        for variable, start, _ in ranges:
            self.values[variable.name] = str(start)
        for each in vectors.hoisted:
            self.operation(each)
        name = f"foreach_{self.fresh()}"
        intrinsic, arguments = vectors.call(name, self.operand, self.index, self.local_memory)
        if len(arguments) > _MOST_ARGUMENTS:
            del self.lines[written:]
            return False
        self.line(f"{self.call(intrinsic, *arguments)}  # {vectors.comment}")
        return True

    def shared(
        self, variable: ops.Value, start: Text, stop: Text, is_shared: bool, body: Callable[[], None]
    ) -> None:
        """Write a loop whose iterations the work-items share where `is_shared` says so, else each does all of them."""
        type_ = ops.scalar_type(variable)
        step = 1
        place: Text = 0
        if is_shared and self.work_group.form == "subgroup":
            layout = self.work_group.layout
            place = self.call(intrinsics.work_item(layout.lanes))
            step = layout.lanes * layout.subgroups
        if cannot_overflow(type_, start, stop, step, step - 1):
            self.counted(variable, add(start, place), stop, step, body)
            return
        start, place = self.bind(start), self.bind(place)
        trips: Text = self.call(intrinsics.trip_count(counter_type(type_)), start, stop, 1)
        if step > 1:
            trips = self.call(intrinsics.trip_count(U64), place, trips, step)
            start = self.call(intrinsics.arithmetic("add", INDEX), start, place)
        self.repeated(variable, start, trips, step, body)

    def counted(self, variable: ops.Value, start: Text, stop: Text, step: Text, body: Callable[[], None]) -> None:
        """Write a loop that counts up to its end, which it does not pass."""
        counter = self.assign(str(start))
        with self.block(f"while {counter} < {stop}:"):
            self.iteration(variable, counter, body)
            self.line(f"{counter} = {counter} + {step}")
        self.leave_if_failed()

    def repeated(self, variable: ops.Value, start: Text, trips: Text, step: Text, body: Callable[[], None]) -> None:
        """Write a loop that runs a number of times; its counter may wrap around behind the last one."""
        counter, left = self.assign(str(start)), self.assign(trips)
        with self.block(f"while {left} != 0:"):
            self.iteration(variable, counter, body)
            self.line(f"{counter} = {self.call(intrinsics.arithmetic('add', INDEX), counter, step)}")
            self.line(f"{left} = {left} - 1")
        self.leave_if_failed()

    def iteration(self, variable: ops.Value, counter: str, body: Callable[[], None]) -> None:
        type_ = ops.scalar_type(variable)
        self.values[variable.name] = counter
        if type_ != INDEX:
            self.values[variable.name] = self.assign(self.call(intrinsics.conversion(INDEX, type_), counter))
        self.loops += self.spmd
        body()
        self.loops -= self.spmd

    # --- linear algebra ----------------------------------------------------------------------------------------------

    def linear_algebra(self, operation: ops.LinearAlgebra) -> None:
        memrefs = [self.memrefs[value.name] for value in (*operation.inputs, operation.output)]
        self.check_shapes(operation)
        jammed = self.make_jammed if self.jammed else None
        kernel = (jammed or self.make_kernel)(operation, memrefs)
        arguments: list[Text] = [memref.address for memref in memrefs]
        for position, what, mode in kernel.dimensions:
            memref = memrefs[position]
            known = {"size": memref.sizes, "stride": memref.strides, "step": (memref.step,)}
            entry = known[what][mode]
            assert entry is not None
            arguments.append(entry)
        arguments += [self.operand(scalar) for scalar in kernel.scalars]
        if kernel.prefetches:
            arguments.append("beyond")
            arguments += [memref.ahead for memref in memrefs if memref.ahead is not None and memref.can_be_fetched]
        self.line(f"{self.call(kernel.intrinsic, *arguments)}  # {kernel.comment}")

    def check_shapes(self, operation: ops.LinearAlgebra) -> None:
        """Check that sizes which an instruction takes to be equal are so, where the types leave it open."""
        known: dict[str, Text] = {}
        for value, letters in reversed(dimension_names(operation)):
            for mode, (letter, size) in enumerate(zip(letters, self.memrefs[value.name].sizes, strict=True)):
                if known.setdefault(letter, size) != size:
                    kind = type(operation).__name__.lower()
                    what = f"size of mode {mode} of an operand of {kind}"
                    self.check("equal", operation.span, size, known[letter], what)


def _length(table: str) -> str:
    return f"{table}_length"
