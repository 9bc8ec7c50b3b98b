"""The staged form of a kernel: persistent work-groups, whose operands are copied to local memory ahead of their use.

A batch of small products is bound by memory, and a GPU reaches its bandwidth only with many bytes under way.  In this
form a block of threads runs several work-groups of the language at a time, each by a *team* of its threads, and then
the next ones, until all are done.  What belongs to a work-group, its slice of a batch or its element of a group, goes
through a ring of *stages* in local memory: while the teams compute in one stage, the operands of later work-groups are
copied to others, and results are copied back.

A function can run so if all that it does is linear algebra on such slices, on temporaries, and on memrefs that it only
reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.kernels.mma.product import WarpProduct
from tl_dpnp.kernels.ring import Ring, Slot
from tl_dpnp.language import ops
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.memory import Placement, size_in_bytes
from tl_dpnp.lowering.rewrite import roots
from tl_dpnp.lowering.staged_products import chain_products, chain_warps, lone_product, resident_stride
from tl_dpnp.scalars import Precision

__all__ = ["STAGE_ALIGNMENT", "StagedOperand", "Staging", "find_staging"]

#: Bytes at which an operand of a stage starts, and of which copies must be multiples for the copy engine.
STAGE_ALIGNMENT, COPY_ALIGNMENT = 128, 16
#: Places for results that are not read: one is written while the other is copied back.
RESULTS = 2


#: Threads of a block, and teams of it: the largest third dimension of a block (CUDA C++ Programming Guide, "Technical
#: Specifications per Compute Capability").
_THREADS, _TEAMS = 256, 64
#: Threads of a block whose threads wait for one another between instructions on f32, while other blocks compute; and of
#: one that reads elements of 16 bits, or has large outputs, without tensor cores.
_CHAIN_THREADS, _NARROW_THREADS = 96, 128
#: Threads of a block that computes several products on tensor cores.
_PRODUCT_THREADS = 512
#: Elements of an output that a thread keeps in registers: the first number for f32 and smaller types, the second for
#: larger ones; its rows at most; bytes of a vector, and elements of large outputs.  All these were measured on an H200.
_TILE, _SMALL_TILE, _HIGHEST, _VECTOR, _LARGE = 32, 16, 8, 16, 4096
#: The same for work-groups that compute more than `_INTENSE` operations for an element, which are not bound by memory.
_INTENSE, _INTENSE_TILE = 64, 36
#: Bytes of operands that stay in local memory, at most.
_MOST_RESIDENT = 80 << 10
#: Bytes between the operands of teams that would use the same banks of shared memory.
_PAD = 32


@dataclass(frozen=True)
class StagedOperand:
    """What of a parameter is copied for each work-group: the value that names it, and its place in a stage.

    `offset` is where the operands of all teams start in a stage, or among the results, `pitch` the distance from one
    team's to the next one's, both in bytes; `in_group` says that the parameter is a group, not a batch in one array.
    """

    parameter: str
    values: tuple[str, ...]
    type: MemrefType
    in_group: bool
    is_read: bool
    is_written: bool
    offset: int = 0
    pitch: int = 0

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
    def slot(self) -> Slot:
        """The place in a stage as the ring sees it; a batch without gaps between teams is copied in one go."""
        merged = not self.in_group and self.pitch == self.bytes
        word = self.type.element.bytes
        return Slot(self.offset, self.pitch, self.bytes, word, merged, self.in_group, not self.is_read)


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


@dataclass(frozen=True)
class Staging:
    """How a function runs in the staged form.

    `products` say for each instruction how tensor cores compute it, if they do; threads store the results in `direct`
    to global memory themselves.
    `layout` is that of a team; a block has `teams` of them.  A stage takes `stage` bytes, the results that are not read
    `results`; what comes before them in local memory are the temporaries of the teams, `temporaries` bytes for each,
    and the barriers of the ring.
    """

    operands: tuple[StagedOperand, ...]
    residents: tuple[ResidentOperand, ...]
    layout: SubgroupLayout
    teams: int
    stage: int
    results: int
    temporaries: int
    stages: int
    products: tuple[WarpProduct | PaddedProduct | None, ...] = ()
    direct: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.layout.lanes * self.layout.subgroups * self.teams

    @property
    def teams_share_warps(self) -> bool:
        """Whether each team lies in one warp and waits for no other, and warps are whole."""
        team = self.layout.lanes * self.layout.subgroups
        return 32 % team == 0 and self.threads % 32 == 0 and not self.is_joined

    @property
    def is_joined(self) -> bool:
        """Whether teams compute products together."""
        return any(isinstance(product, PaddedProduct) and product.is_joined for product in self.products)

    @property
    def instructions(self) -> str:
        """What computes the products on tensor cores."""
        return ", ".join(dict.fromkeys(product.row.name for product in self.products if product is not None))

    def temporary(self, placement: Placement) -> tuple[int, int]:
        """Return where the temporaries of the first team are, and the distance to those of the next one, in bytes."""
        if self.is_joined:
            return self.teams * placement.offset, placement.size
        return placement.offset, self.temporaries

    @property
    def barriers(self) -> int:
        """Where the barriers of the ring are in local memory, in bytes."""
        return self.teams * self.temporaries

    @property
    def first_stage(self) -> int:
        """Where the first stage is in local memory."""
        return _up(self.barriers + 8 * self.stages, STAGE_ALIGNMENT)

    @property
    def first_result(self) -> int:
        """Where the results that are not read are in local memory."""
        return self.first_stage + self.stages * self.stage

    @property
    def first_resident(self) -> int:
        """Where the operands that stay are in local memory."""
        return _up(self.first_result + RESULTS * self.results, STAGE_ALIGNMENT)

    @property
    def local_memory(self) -> int:
        """Bytes of local memory of a block."""
        return max((self.first_resident + operand.offset + operand.bytes for operand in self.residents),
                   default=self.first_resident)

    @property
    def ring(self) -> Ring:
        """The ring as its emitters see it."""
        layout = self.layout
        return Ring(self.stages, self.stage, self.barriers, self.first_stage, RESULTS, self.results, self.first_result,
                    self.teams, layout.lanes, layout.subgroups, self.local_memory,
                    self.stages == 2 and _in_place(self.operands))

    @property
    def loaded(self) -> list[StagedOperand]:
        """The operands that are copied to a stage."""
        return [operand for operand in self.operands if operand.is_read]

    @property
    def stored(self) -> list[StagedOperand]:
        """The operands that are copied back."""
        return [operand for operand in self.operands if operand.is_written]

    def __str__(self) -> str:
        layout = self.layout
        by = f", by {self.instructions}" if self.instructions else ""
        return (f"staged form{by}: {self.teams} teams of {layout.lanes} x {layout.subgroups} work-items, {self.stages} "
                f"stages of {self.stage} bytes, {RESULTS} of {self.results} bytes for results")


def find_staging(
    function: ops.Function, device: DeviceDescription, temporaries: int, tensor_cores: bool = True,
    precision: Precision = "highest",
) -> Staging | None:
    """Return how a canonical function runs in the staged form on a device, or None where it cannot.

    `temporaries` are the bytes of local memory that a work-group takes for itself; `tensor_cores` may be used or not,
    for products of f32 with the loss that `precision` allows.
    """
    operands = _operands(function)
    outputs = [ops.memref_type(o.output) for o in function.body.walk() if isinstance(o, ops.LinearAlgebra)]
    if operands is None or not outputs:
        return None
    residents = _residents(function, {operand.parameter for operand in operands})
    team = _team(function, operands, residents, outputs, tensor_cores, precision)
    threads = team.threads
    if threads > min(_THREADS, device.max_work_group_size):
        return None
    # Accesses of several teams of a warp go to the same banks if teams are a multiple of 128 bytes apart; but what goes
    # in and out had better go in one copy.
    in_place = _in_place(operands)
    # One stage to compute in and one to fill.  Results that are in there leave from a third one, unless so much is
    # computed that to wait for them costs nothing, and more teams are worth more.
    stages = 3 if in_place and not team.intense else 2
    pad = _PAD if 32 // threads * team.word >= 16 and not in_place else 0
    most = max(1, min(_most_threads(team, operands, outputs) // threads, _TEAMS))
    # What threads store themselves leaves local memory for more blocks.  Other teams might have no work-group.
    by_threads = _LARGE if most == 1 and not team.on_tensor_cores else math.inf
    direct = tuple(name for operand in operands if operand.is_plain_result and operand.elements >= by_threads
                   for name in operand.values)
    operands = [operand for operand in operands if not set(operand.values) & set(direct)]
    step = 32 // math.gcd(32, threads)
    counts = [*range(most // step * step, 0, -step), *range(min(most, step - 1), 0, -1)]
    # The copy engine takes the operands of so many teams together.
    aligned = math.lcm(*(COPY_ALIGNMENT // math.gcd(COPY_ALIGNMENT, operand.bytes)
                         for operand in operands if not operand.in_group))
    for teams in sorted(counts, key=lambda count: count % aligned != 0):
        placed, stage, results = _place(operands, teams, pad)
        products: tuple[WarpProduct | PaddedProduct | None, ...] = () if team.product is None else (team.product,)
        kept = residents
        if team.warps is not None:
            chain = chain_products(function, precision, team.warps, teams, _pitches(function, placed),
                                   {operand.parameter for operand in residents})
            products, kept = chain, _with_gaps(function, residents, chain)
        staging = Staging(placed, kept, team.layout, teams, stage, results, _up(temporaries, 64) + pad, stages,
                          products, direct)
        if staging.local_memory <= device.local_memory:
            return staging
    return None


@dataclass(frozen=True)
class _Team:
    """The threads that run one work-group: `product` or `warps` say how they do on tensor cores, if they do.

    `word` are the bytes of the largest element of a result; `intense` says that memory does not bound the work-group.
    """

    layout: SubgroupLayout
    product: WarpProduct | PaddedProduct | None
    warps: int | None
    word: int
    intense: bool

    @property
    def threads(self) -> int:
        return self.layout.lanes * self.layout.columns

    @property
    def on_tensor_cores(self) -> bool:
        return self.product is not None or self.warps is not None


def _team(
    function: ops.Function, operands: Sequence[StagedOperand], residents: Sequence[ResidentOperand],
    outputs: Sequence[MemrefType], tensor_cores: bool, precision: Precision,
) -> _Team:
    whole = {name for operand in operands for name in operand.values} | {operand.parameter for operand in residents}
    product = lone_product(function, whole, precision) if tensor_cores else None
    word = max(type_.element.bytes for type_ in outputs)
    intensity = _intensity(function, operands) * word
    intense = intensity > _INTENSE
    warps = None
    if product is None and tensor_cores:
        allocated = {operation.result.name for operation in function.body if isinstance(operation, ops.Alloca)}
        local = _views_through(function, dict.fromkeys(whole | allocated, ""))
        warps = chain_warps(function, precision, intensity, local)
    if product is not None:
        rows, columns = 32, product.warps
    elif warps is not None:
        rows, columns = 32, warps
    else:
        tiles = [(type_, _tile(type_, intense)) for type_ in outputs]
        rows, columns = (max(_size(type_, mode) // tile[mode] for type_, tile in tiles) for mode in (0, 1))
    return _Team(SubgroupLayout(rows, 1, columns), product, warps, word, intense)


def _most_threads(team: _Team, operands: Sequence[StagedOperand], outputs: Sequence[MemrefType]) -> int:
    """Return how many threads a block has at most, as far as several teams go."""
    if team.warps is not None:
        return _PRODUCT_THREADS
    if len(outputs) > 1 and team.word <= 4 and not team.intense:
        return _CHAIN_THREADS
    narrow = team.product is None and (
        any(operand.type.element.bytes < 4 for operand in operands)
        or any(_size(type_, 0) * _size(type_, 1) >= _LARGE for type_ in outputs)
    )
    return _NARROW_THREADS if narrow else _THREADS


def _pitches(function: ops.Function, operands: Sequence[StagedOperand]) -> dict[str, int]:
    """Return the distance between what neighbouring teams have of a value, for operands and temporaries."""
    pitches = {name: operand.pitch for operand in operands for name in operand.values}
    allocated = (operation.result for operation in function.body if isinstance(operation, ops.Alloca))
    return pitches | {value.name: size_in_bytes(ops.memref_type(value)) for value in allocated}


def _with_gaps(
    function: ops.Function, residents: Sequence[ResidentOperand], products: tuple[PaddedProduct | None, ...]
) -> tuple[ResidentOperand, ...]:
    """Return what stays in local memory with its columns as far apart as is best for the products that read it."""
    placed = []
    for operand in residents:
        stride = resident_stride(function, operand.parameter, products)
        gap = 0 if stride is None else stride - _size(operand.type, 0)
        placed.append(replace(operand, gap=gap))
    return _one_after_another(placed)


def _one_after_another(residents: Iterable[ResidentOperand]) -> tuple[ResidentOperand, ...]:
    placed: list[ResidentOperand] = []
    for operand in residents:
        start = _up(placed[-1].offset + placed[-1].bytes, STAGE_ALIGNMENT) if placed else 0
        placed.append(replace(operand, offset=start))
    return tuple(placed)


def _in_place(operands: Sequence[StagedOperand]) -> bool:
    """Whether results are computed where operands are in a stage."""
    return any(operand.is_read and operand.is_written for operand in operands)


def _size(type_: MemrefType, mode: int) -> int:
    size = type_.shape[mode] if mode < len(type_.shape) else 1
    assert size is not None
    return size


def _intensity(function: ops.Function, operands: Sequence[StagedOperand]) -> float:
    """Return the multiplications and additions of a work-group for each byte that is copied for it."""
    count = 0
    for operation in function.body:
        if isinstance(operation, ops.LinearAlgebra):
            letters = {letter: size for value, names in operation.dimension_names
                       for letter, size in zip(names, ops.memref_type(value).shape, strict=True)}
            count += 2 * math.prod(size for size in letters.values() if size is not None)
    return count / sum(operand.bytes * (operand.is_read + operand.is_written) for operand in operands)


def _tile(type_: MemrefType, intense: bool) -> tuple[int, int]:
    """Return the elements of an output that a thread computes along each mode: divisors of the sizes."""
    rows, columns = _size(type_, 0), _size(type_, 1)
    small = type_.element.bytes <= 4
    large = rows * columns >= _LARGE
    most = _TILE if small else _SMALL_TILE
    # Neighbouring threads read neighbouring vectors where a tile is one vector high.
    highest = _VECTOR // type_.element.bytes if large and small else _HIGHEST
    if intense:
        most = _INTENSE_TILE
    fitting = [
        (m, n) for m in _divisors(rows) for n in _divisors(columns)
        if m * n <= most and m <= highest and n <= 9 and 4 * m * n <= max(4, rows * columns)
    ]
    return max(fitting, key=lambda tile: (tile[0] * tile[1] / (tile[0] + tile[1]), tile[0]))


def _divisors(size: int) -> list[int]:
    return [factor for factor in range(1, size + 1) if size % factor == 0]


def _operands(function: ops.Function) -> list[StagedOperand] | None:
    """Return what is copied for each work-group, or None if the function cannot run in the staged form."""
    parameters = {parameter.name: parameter for parameter in function.parameters}
    groups = {o.result.name for o in function.body.walk() if isinstance(o, ops.GroupId)}
    views: dict[str, list[ops.Value]] = {}
    for operation in function.body:
        match operation:
            case (ops.GroupId() | ops.GroupSize() | ops.SizeOf() | ops.Alloca() | ops.LifetimeStop() | ops.Barrier()
                  | ops.Arith() | ops.Unary() | ops.Math() | ops.Cast() | ops.Compare() | ops.Expand() | ops.Fuse()):
                pass
            case ops.LinearAlgebra(inputs=inputs, output=output):
                types = [ops.memref_type(value) for value in (*inputs, output)]
                if operation.atomic or not all(type_.is_static for type_ in types):
                    return None
            case ops.Subview(source=source, result=result):
                if source.name in parameters and _is_slice(operation, groups):
                    views.setdefault(source.name, []).append(result)
            case ops.Load(source=source, indices=indices, result=result) if isinstance(source.type, GroupType):
                if not _names_group(indices, groups):
                    return None
                views.setdefault(source.name, []).append(result)
            case _:
                return None
    return _usable(function, views, parameters)


def _usable(
    function: ops.Function, views: dict[str, list[ops.Value]], parameters: dict[str, ops.Value]
) -> list[StagedOperand] | None:
    """Return the operands, with what is done to them, if all that is written is staged."""
    root = roots(function)
    through = _views_through(function, {value.name: name for name, values in views.items() for value in values})
    read: set[str] = set()
    written: set[str] = set()
    beside: set[str] = set()
    whole: set[str] = set()
    for operation in function.body:
        if not isinstance(operation, ops.LinearAlgebra):
            continue
        used = [*operation.inputs]
        if not (isinstance(operation.beta, ops.Constant) and operation.beta.value == 0):
            used.append(operation.output)
        for value in (*used, operation.output):
            if root[value.name] in parameters and value.name not in through:
                beside.add(root[value.name])
        read |= {root[value.name] for value in used if value.name in through}
        if root[operation.output.name] in parameters:
            written.add(root[operation.output.name])
            if any(operation.output.name == value.name for values in views.values() for value in values):
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
        operands.append(StagedOperand(name, names, type_, in_group, is_read, name in written))
    return [operand for operand in operands if operand.is_read or operand.is_written]


def _views_through(function: ops.Function, first: dict[str, str]) -> set[str]:
    """Return the values that refer to memory through those in `first`."""
    found = set(first)
    for operation in function.body:
        if isinstance(operation, ops.Subview | ops.Expand | ops.Fuse) and operation.source.name in found:
            found.add(operation.result.name)
    return found


def _residents(function: ops.Function, staged: set[str]) -> tuple[ResidentOperand, ...]:
    """Return the parameters that instructions read whole, as far as they are small."""
    found: list[ResidentOperand] = []
    used = {value.name for o in function.body if isinstance(o, ops.LinearAlgebra) for value in o.inputs}
    for parameter in function.parameters:
        type_ = parameter.type
        if not isinstance(type_, MemrefType) or parameter.name in staged or parameter.name not in used:
            continue
        is_dense = type_.is_static and type_.is_packed and not type_.element.is_subbyte
        if is_dense and sum(operand.bytes for operand in found) + size_in_bytes(type_) <= _MOST_RESIDENT:
            found.append(ResidentOperand(parameter.name, type_))
    return _one_after_another(found)


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


def _place(
    operands: Iterable[StagedOperand], teams: int, pad: int
) -> tuple[tuple[StagedOperand, ...], int, int]:
    """Place the operands in a stage, or among the results; return them and the sizes of both."""
    placed = []
    ends = {True: 0, False: 0}
    for operand in operands:
        # What the engine cannot copy one by one, it may still copy together.
        alone = operand.in_group or (pad and operand.bytes % COPY_ALIGNMENT == 0)
        pitch = _up(operand.bytes, COPY_ALIGNMENT) + pad if alone else operand.bytes
        offset = ends[operand.is_read]
        placed.append(replace(operand, offset=offset, pitch=pitch))
        ends[operand.is_read] = _up(offset + teams * pitch, STAGE_ALIGNMENT)
    # Those that are copied in one go come first, as the ring takes them.
    ordered = tuple(sorted(placed, key=lambda operand: not operand.slot.is_merged))
    return ordered, ends[True], ends[False]


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
