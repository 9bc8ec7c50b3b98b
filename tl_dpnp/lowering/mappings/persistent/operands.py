"""What of a function in the staged form is in local memory: operands of each work-group, and of all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tl_dpnp.kernels.ring import Slot
from tl_dpnp.language import ops
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.lowering.division import Parts
from tl_dpnp.lowering.memory import size_in_bytes
from tl_dpnp.lowering.rewrite import roots
from tl_dpnp.records import dataclass

__all__ = [
    "COPY_ALIGNMENT", "MOST_RESIDENT", "MOST_RESIDENT_OF_CHAIN", "STAGE_ALIGNMENT", "ResidentOperand",
    "PipelinedOperand", "find_operands", "find_residents", "one_after_another", "place_operands", "trips", "up",
    "views_through",
]

#: Bytes at which an operand of a stage starts, and of which the copy engine's copies are multiples.
STAGE_ALIGNMENT, COPY_ALIGNMENT = 128, 16
#: Bytes of operands that stay in local memory, at most, and where a work-group has several products.
MOST_RESIDENT, MOST_RESIDENT_OF_CHAIN = 80 << 10, 176 << 10


@dataclass(frozen=True)
class PipelinedOperand:
    """What of a parameter is copied for each work-group: the value that names it, and its place in a stage.

    `offset` is where the operands of all teams start in a stage, or among the results, `pitch` the distance from one
    team's to the next one's, both in bytes; `in_group` says that the parameter is a group, not a batch in one array.
    In a batch they lie as far behind a multiple of `line` as in global memory.  All teams of a block, and `share`
    work-groups which follow one another, have the same one; or it is one of `parts` of a matrix of so many bytes, the
    last of which is shorter; or a piece of one, `skip` bytes from its start, which comes when a stage is filled once
    more, for the time `fill`.  So many bytes `behind` it may be read.  One that is read and written may be `apart` from
    the stages, where results are.
    """

    parameter: str
    values: tuple[str, ...]
    type: MemrefType
    in_group: bool
    is_read: bool
    is_written: bool
    offset: int = 0
    pitch: int = 0
    line: int = STAGE_ALIGNMENT
    share: int = 1
    parts: int = 1
    matrix: int = 0
    skip: int = 0
    fill: int = 0
    behind: int = 0
    apart: bool = False

    @property
    def bytes(self) -> int:
        """Size of the operand of one work-group."""
        return size_in_bytes(self.type)

    @property
    def elements(self) -> int:
        """Number of elements of one work-group."""
        return math.prod(size for size in self.type.shape if size is not None)

    @property
    def is_plain_result(self) -> bool:
        """Whether it is in one array, and is written and not read."""
        return self.is_written and not self.is_read and not self.in_group

    @property
    def in_results(self) -> bool:
        """Whether it lies where results do."""
        return self.apart or not self.is_read

    @property
    def slot(self) -> Slot:
        """The place in a stage as the ring sees it; a batch without gaps between teams is copied in one go."""
        merged = not self.in_group and self.pitch == self.bytes
        word = self.type.element.bytes
        return Slot(self.offset, self.pitch, self.bytes, word, merged, self.in_group, self.in_results,
                    self.line, self.share, self.parts, self.matrix, self.skip)


@dataclass(frozen=True)
class ResidentOperand:
    """A parameter that all work-groups read: it stays in local memory, `offset` bytes from where such ones start.

    Its columns are `gap` elements further apart there than they are long.
    """

    parameter: str
    type: MemrefType
    offset: int = 0
    gap: int = 0

    @property
    def bytes(self) -> int:
        """Size of the operand, with its gaps."""
        return size_in_bytes(self.type) + self.gap * self.columns * self.type.element.bytes

    @property
    def columns(self) -> int:
        """Columns, which follow one another in global memory."""
        return math.prod(size for size in self.type.shape[1:] if size is not None)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in local memory, in elements."""
        strides = tuple(stride for stride in self.type.strides if stride is not None)
        return (*strides[:1], strides[1] + self.gap, *strides[2:]) if self.gap else strides


def find_operands(function: ops.Function, parts: Parts | None = None) -> list[PipelinedOperand] | None:
    """Return what is copied for each work-group, or None if the function cannot run in the staged form.

    Where work-groups are `parts` of those of another function, those of one have one matrix of a batch, and the columns
    that each has of one follow one another as matrices of a batch do.
    """
    parameters = {parameter.name: parameter for parameter in function.parameters}
    groups = ({o.result.name for o in function.body.walk() if isinstance(o, ops.GroupId)} if parts is None
              else {parts.group.name})
    views: dict[str, list[ops.Value]] = {}
    for operation in function.body.walk():
        match operation:
            case ops.For():
                if not _is_counted(operation):
                    return None
            case (ops.GroupId() | ops.GroupSize() | ops.SizeOf() | ops.Alloca() | ops.LifetimeStop() | ops.Barrier()
                  | ops.ScalarOperation() | ops.Expand() | ops.Fuse()):
                pass
            case ops.LinearAlgebra(inputs=inputs, output=output):
                types = [ops.memref_type(value) for value in (*inputs, output)]
                if operation.atomic or not all(type_.is_static for type_ in types):
                    return None
            case ops.Subview(source=source, result=result):
                if source.name in parameters and _is_slice(operation, groups):
                    views.setdefault(source.name, []).append(result)
                elif parts is not None and parts.are_columns(operation):
                    for values in views.values():
                        values[:] = [result if value.name == source.name else value for value in values]
            case ops.Load(source=source, indices=indices, result=result) if isinstance(source.type, GroupType):
                if not _names_group(indices, groups):
                    return None
                views.setdefault(source.name, []).append(result)
            case _:
                return None
    found = _usable(function, views, parameters)
    if found is None or parts is None:
        return found
    slices = [o for o in function.body if isinstance(o, ops.Subview) and o.result in parts.slices]
    sources = {view.result.name: view.source for view in slices}
    shared = [_of_parts(operand, parts, sources) for operand in found]
    # Elements of groups do not follow one another, and what work-groups share none of them may write.
    return None if any(each.in_group or (each.is_written and each.share > 1) for each in shared) else shared


def _is_counted(loop: ops.For) -> bool:
    """Whether all teams run a loop equally often, which wait for one another in it, and it has no memory of its own.

    What one that never runs would write must not be copied back.
    """
    own = (ops.Alloca, ops.LifetimeStop)
    return (not loop.carried and bool(trips(loop))
            and not any(isinstance(operation, own) for operation in loop.body.walk()))


def trips(loop: ops.For) -> int | None:
    """Return how often a loop runs; None where its bounds are not known."""
    bounds = (loop.start, loop.stop, loop.step)
    known = [bound.value for bound in bounds if isinstance(bound, ops.Constant) and isinstance(bound.value, int)]
    if len(known) < len(bounds) or known[-1] <= 0:
        return None
    return len(range(*known))


def _of_parts(operand: PipelinedOperand, parts: Parts, sources: dict[str, ops.Value]) -> PipelinedOperand:
    """Return an operand as parts have it; `sources` are the matrices that their slices are of."""
    divided = next((sources[name] for name in operand.values if name in sources), None)
    if divided is not None:
        is_even = parts.missing == 0
        return operand if is_even else replace(
            operand, parts=parts.count, matrix=size_in_bytes(ops.memref_type(divided)))
    # Rows of a matrix are read where it is as a whole; what the last part has none of lies behind it.
    has_rows = any(source.name in operand.values for source in sources.values())
    return replace(operand, share=parts.count, behind=has_rows * parts.missing * operand.type.element.bytes)


def _usable(
    function: ops.Function, views: dict[str, list[ops.Value]], parameters: dict[str, ops.Value]
) -> list[PipelinedOperand] | None:
    """Return the operands, with what is done to them, if all that is written is staged."""
    root = roots(function)
    slices = {value.name: name for name, values in views.items() for value in values}
    through, covering = views_through(function, slices), views_through(function, slices, whole=True)
    read: set[str] = set()
    written: set[str] = set()
    beside: set[str] = set()
    whole: set[str] = set()
    for operation in function.body.walk():
        if not isinstance(operation, ops.LinearAlgebra):
            continue
        used = [*operation.inputs]
        if operation.keeps:
            used.append(operation.output)
        for value in (*used, operation.output):
            if root[value.name] in parameters and value.name not in through:
                beside.add(root[value.name])
        read |= {root[value.name] for value in used if value.name in through}
        if root[operation.output.name] in parameters:
            written.add(root[operation.output.name])
            if operation.output.name in covering:
                whole.add(root[operation.output.name])
    if not written or written & beside or not written <= set(views):
        return None
    operands = []
    for name, values in views.items():
        types = {value.type for value in values}
        (type_,) = types if len(types) == 1 else (None,)
        copied = isinstance(type_, MemrefType) and type_.is_static and type_.is_packed
        if not isinstance(type_, MemrefType) or not copied or type_.element.is_subbyte:
            if name in written:
                return None
            continue
        # What is only partly written must be there before it is copied back.
        is_read = name in read or (name in written and name not in whole)
        in_group = isinstance(parameters[name].type, GroupType)
        names = tuple(value.name for value in values)
        operands.append(PipelinedOperand(name, names, type_, in_group, is_read, name in written))
    return [operand for operand in operands if operand.is_read or operand.is_written]


def views_through(
    function: ops.Function, first: dict[str, str], whole: bool = False
) -> set[str]:
    """Return the values that refer to memory through those in `first`, or to all of what these do."""
    kinds = (ops.Expand, ops.Fuse) if whole else (ops.Subview, ops.Expand, ops.Fuse)
    found = set(first)
    for operation in function.body.walk():
        if isinstance(operation, kinds) and operation.source.name in found:
            found.add(operation.result.name)
    return found


def find_residents(function: ops.Function, staged: set[str], most: int = MOST_RESIDENT) -> tuple[ResidentOperand, ...]:
    """Return the parameters that instructions read whole, as far as they take no more than `most` bytes."""
    found: list[ResidentOperand] = []
    used = {value.name for o in function.body.walk() if isinstance(o, ops.LinearAlgebra) for value in o.inputs}
    for parameter in function.parameters:
        type_ = parameter.type
        if not isinstance(type_, MemrefType) or parameter.name in staged or parameter.name not in used:
            continue
        is_dense = type_.is_static and type_.is_packed and not type_.element.is_subbyte
        if is_dense and sum(operand.bytes for operand in found) + size_in_bytes(type_) <= most:
            found.append(ResidentOperand(parameter.name, type_))
    return one_after_another(found)


def _is_slice(operation: ops.Subview, groups: set[str]) -> bool:
    """Whether a view is all of a packed array but its last mode, of which it is the work-group's element."""
    *others, last = operation.slices
    type_ = ops.memref_type(operation.source)
    element = ops.memref_type(operation.result)
    whole = all(not entry.is_index and entry.size is None and _is_zero(entry.offset) for entry in others)
    packed = element.is_static and element.is_packed and type_.strides[-1] == math.prod(
        size for size in element.shape if size is not None
    )
    return whole and packed and last.is_index and _names_group([last.offset], groups)


def _is_zero(operand: ops.Operand) -> bool:
    return isinstance(operand, ops.Constant) and operand.value == 0


def _names_group(indices: Sequence[ops.Operand], groups: set[str]) -> bool:
    return len(indices) == 1 and isinstance(indices[0], ops.Value) and indices[0].name in groups


def one_after_another(residents: Iterable[ResidentOperand]) -> tuple[ResidentOperand, ...]:
    placed: list[ResidentOperand] = []
    for operand in residents:
        start = up(placed[-1].offset + placed[-1].bytes, STAGE_ALIGNMENT) if placed else 0
        placed.append(replace(operand, offset=start))
    return tuple(placed)


def place_operands(
    operands: Iterable[PipelinedOperand], teams: int, pad: int, line: int = STAGE_ALIGNMENT
) -> tuple[tuple[PipelinedOperand, ...], int, int]:
    """Place the operands in a stage, or among the results; return them and the sizes of both.

    Copies are fastest where addresses are as far behind a `line` of 128 bytes in both memories; one of 16 needs less.
    """
    placed = []
    ends = {False: 0, True: 0}
    for operand in operands:
        # What the engine cannot copy one by one, it may still copy together.
        teams_of = 1 if operand.share > 1 else teams
        alone = operand.in_group or (pad and operand.bytes % COPY_ALIGNMENT == 0)
        pitch = up(operand.bytes, COPY_ALIGNMENT) + pad if alone else operand.bytes
        offset = ends[operand.in_results]
        placed.append(replace(operand, offset=offset, pitch=pitch, line=line))
        # The first operand may begin anywhere in a line, and the engine brings whole 16 bytes.
        around = operand.behind + (line + COPY_ALIGNMENT if placed[-1].slot.shifts else 0)
        ends[operand.in_results] = up(offset + teams_of * pitch + around, STAGE_ALIGNMENT)
    # Those that are copied in one go come first, as the ring takes them.
    ordered = tuple(sorted(placed, key=lambda operand: not operand.slot.is_merged))
    return ordered, ends[False], ends[True]


def up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
