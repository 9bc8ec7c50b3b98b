"""Products on the matrix engine: which nests are products, which micro-kernel they get, and how it is emitted.

A nest that is a product, as written, is tensorized whole: the micro-kernel has loops of its own over tiles and over k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tl_dpnp.kernels.amx.rows import ROWS
from tl_dpnp.kernels.dpas.block_reads import blocks_of_a, blocks_of_b
from tl_dpnp.kernels.dpas.local_tiles import needed_for_words, piece_words, staged_bytes, staged_registers
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel, micro_kernel_named
from tl_dpnp.kernels.dpas.rows import DpasRow, find_row
from tl_dpnp.kernels.dpas.wide_loads import takes_wide_loads
from tl_dpnp.lowering.device import DeviceDescription, LoweringOptions
from tl_dpnp.lowering.expressions import Access, Bound, Convert, Expression, MultiplyAdd, Number, Product
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.memory import aligned
from tl_dpnp.lowering.nest import Assign, Loop, Nest
from tl_dpnp.lowering.tactics.rounding import hint, rounding
from tl_dpnp.scalars import Precision
from tl_dpnp.target.catalog import DPAS

__all__ = [
    "MOST_SUBGROUPS", "NO_ENGINE", "MatrixEngine", "NestProduct", "default_micro_kernel", "engine_of",
    "extent_of_tiles", "micro_kernel_of", "multiplies_by_zero", "operand_names", "product_in", "remark",
    "whole_micro_kernel",
]

#: Sub-groups that a default work-group has at most along rows and along columns, and where sizes are not known.
MOST_SUBGROUPS, _UNKNOWN = (4, 4), 2
#: Elements that DPAS takes, by the names of the language's types.
_OPERANDS = ("bf16", "f16", "i8", "u8", "i4", "u4", "i2", "u2")


@dataclass(frozen=True)
class MatrixEngine:
    """The engine of a device: DPAS with `lanes`.

    `precision` is what products of f32 matrices may lose (`tl_dpnp.lowering.tactics.rounding`).
    `emulated` computes lane by lane what the engine would.  `local_memory` are the bytes that a product may take to
    stage its operands; default tiles are halved `smaller_tiles` times.  `tiles` are the flags of a processor's tiles
    that may be used (`tl_dpnp.lowering.tile_engine`), and are emulated where `emulates_tiles` says so.
    """

    lanes: int
    precision: Precision = "highest"
    emulated: bool = False
    local_memory: int = 0
    smaller_tiles: int = 0
    tiles: tuple[str, ...] = ()
    emulates_tiles: bool = False

    def at(self, precision: Precision | None) -> MatrixEngine:
        """Return the engine with the precision of one instruction, None for its own."""
        return self if precision is None else replace(self, precision=precision)


#: What a device without a matrix engine has.
NO_ENGINE = MatrixEngine(0)


def engine_of(device: DeviceDescription, options: LoweringOptions, temporaries: int = 0) -> MatrixEngine:
    """Return the matrix engine to compile for, where temporaries take bytes of local memory; one of 0 lanes is none."""
    lanes = options.emulate_dpas or device.dpas_lanes
    rest = device.local_memory - aligned(temporaries)
    tiles = {"off": (), "on": device.amx, "emulate": tuple(row.flag for row in ROWS) if device.is_cpu else ()}
    return MatrixEngine(lanes, options.precision, emulated=bool(options.emulate_dpas), local_memory=rest,
                        smaller_tiles=options.smaller_tiles, tiles=tiles[options.amx],
                        emulates_tiles=options.amx == "emulate")


@dataclass(frozen=True)
class NestProduct:
    """The parts of a nest that is a product: its loops and assignments, and what is multiplied."""

    m: Loop
    n: Loop
    k: Loop
    a: Access
    b: Access
    total: Access
    finish: Assign

    @property
    def types(self) -> tuple[str, str, str]:
        """The types of A, B and the sums, by their names in the language."""
        return self.a.buffer.element.name, self.b.buffer.element.name, self.total.buffer.element.name

    @property
    def lines(self) -> tuple[tuple[tuple[object, ...], Bound], ...]:
        """The strides of A along its rows and k, and the number of its rows; the same for the columns of B."""
        m, n, k = self.m, self.n, self.k.variable
        return (_strides(self.a, m.variable, k), m.stop), (_strides(self.b, n.variable, k), n.stop)

    def can_be_staged(self, kernel: MicroKernel) -> bool:
        """Whether operands can be packed in local memory: those whose elements share bytes are loaded by words only."""
        return all(
            not access.buffer.element.is_subbyte or needed_for_words(strides, size, piece) is not None
            for access, (strides, size), piece in zip(
                (self.a, self.b), self.lines, piece_words(kernel, 1, 1), strict=True)
        )


def product_in(m: Loop) -> NestProduct | None:
    """Return the parts of a nest of which `m` is the outermost loop, or None if it is no plain product."""
    match m.body:
        case (Loop(body=(Assign(part="init"), Loop(body=(Assign() as update,)) as k, Assign() as finish)) as n,):
            match update.value:
                case MultiplyAdd(lhs, rhs, Access() as total) if total == update.target:
                    a, b = _access(lhs, total), _access(rhs, total)
                    plain = all(loop.start == 0 and loop.step == 1 and not loop.guards for loop in (m, n, k))
                    if a is not None and b is not None and plain:
                        return NestProduct(m, n, k, a, b, total, finish)
    return None


def _access(operand: Expression, total: Access) -> Access | None:
    match operand:
        case Access():
            return operand
        case Convert(Access() as access, type_) if type_ == total.buffer.element:
            return access
    return None


def multiplies_by_zero(product: NestProduct) -> bool:
    """Whether sums of integers are multiplied by the constant 0: the compiler takes them away."""
    def holds(value: Expression) -> bool:
        match value:
            case Convert(inner):
                return holds(inner)
            case Product(Number(value=0), factor) | MultiplyAdd(Number(value=0), factor):
                return factor == product.total
            case MultiplyAdd(_, _, addend):
                return holds(addend)
        return False

    return product.total.buffer.element.is_integer and holds(product.finish.value)


def micro_kernel_of(loop: Loop) -> MicroKernel | None:
    """Return the micro-kernel that a loop is tensorized to, if it is one."""
    return None if loop.instruction is None else micro_kernel_named(loop.instruction)


def whole_micro_kernel(nest: Nest) -> MicroKernel | None:
    """Return the micro-kernel that computes a whole nest, if one does."""
    match nest.body:
        case (Loop() as loop,):
            return micro_kernel_of(loop)
    return None


def operand_names(kernel: MicroKernel) -> tuple[str, str]:
    """Return the language's names of the types of A and B that a micro-kernel takes."""
    if kernel.terms:
        return "f32", "f32"
    return kernel.row.source1.name, kernel.row.source2.name


def default_micro_kernel(
    nest: Nest, engine: MatrixEngine, layout: SubgroupLayout | None = None
) -> MicroKernel | None:
    """Return the micro-kernel for a nest, or None where the engine has none for it.

    Without the layout of the work-group, that is one which has a sub-group for each tile.
    """
    kernel = _largest_micro_kernel(nest, engine, layout)
    for _ in range(engine.smaller_tiles):
        kernel = None if kernel is None else _halved(kernel)
    return kernel


def _halved(kernel: MicroKernel) -> MicroKernel:
    """Return a micro-kernel whose tile has half as many columns, or rows if it is higher than wide; 1 stays 1."""
    if kernel.column_blocks >= kernel.lane_blocks:
        return replace(kernel, column_blocks=max(1, kernel.column_blocks // 2))
    return replace(kernel, lane_blocks=max(1, kernel.lane_blocks // 2))


def _largest_micro_kernel(nest: Nest, engine: MatrixEngine, layout: SubgroupLayout | None) -> MicroKernel | None:
    product = product_in(nest.body[0]) if len(nest.body) == 1 and isinstance(nest.body[0], Loop) else None
    if product is None or not engine.lanes or multiplies_by_zero(product):
        return None
    found = _types(product, engine)
    if found is None:
        return None
    accumulator, a, b, terms = found
    m, columns, k = product.m.stop, product.n.stop, product.k.stop
    # The language's A is the second source of DPAS, B the first.
    found_rows = [find_row(engine.lanes, accumulator, b, a, repeat) for repeat in (1, 2, 4, 8)
                  if repeat == 8 or (isinstance(columns, int) and columns <= repeat)]
    row = next((row for row in found_rows if row is not None and row.unreachable is None), None)
    if row is None:
        return None
    repeat = row.repeat
    blocks = _no_blocks(product, row, terms) is None
    wide = None if terms or blocks else _wide_kernel(product, row)
    staged = None if blocks else _staged_kernel(product, row, terms, engine.local_memory, layout)
    if staged is not None and (wide is None or _shares(product, staged, layout)):
        return staged
    if wide is not None:
        return wide
    numbers = DPAS[row.execution_size]
    most_rows, most_columns = numbers.blocks_read if blocks else numbers.elements_read
    steps = 1
    if blocks and isinstance(k, int):
        steps = next((count for count in numbers.steps if k % (count * row.k) == 0), 1)
    return MicroKernel(row, _blocks(m, engine.lanes, most_rows), _blocks(columns, repeat, most_columns), steps, terms)


def _staged_kernel(
    product: NestProduct, row: DpasRow, terms: int, local_memory: int, layout: SubgroupLayout | None
) -> MicroKernel | None:
    """Return the micro-kernel whose operands are packed in local memory, None where none fits or k is too short."""
    m, n, k = product.m.stop, product.n.stop, product.k.stop
    numbers = DPAS[row.execution_size]
    for rows, most_columns, steps in numbers.packed_f32 if terms else numbers.packed:
        columns = _blocks(n, row.repeat, most_columns)
        if columns == 3 != most_columns:
            columns = 2  # numbers that are powers of two take fewer registers
        kernel = MicroKernel(row, _blocks(m, row.execution_size, rows), columns, steps, terms, staged=True)
        if isinstance(k, int) and (k < row.k or (k % row.k == 0 and k % kernel.depth)):
            continue  # too short, or a step less leaves no rest
        extents = {_extent(product, kernel, None), _extent(product, kernel, layout)}
        if all(_fits(product, kernel, extent, local_memory) for extent in extents):
            return kernel
    return None


def _shares(product: NestProduct, kernel: MicroKernel, layout: SubgroupLayout | None) -> bool:
    """Whether several sub-groups share staged operands, of which there are enough pieces to load one ahead."""
    k = product.k.stop
    return _extent(product, kernel, layout) != (1, 1) and not (isinstance(k, int) and k <= 2 * kernel.depth)


def _fits(product: NestProduct, kernel: MicroKernel, extent: tuple[int, int], local_memory: int) -> bool:
    """Whether a staged product of so many sub-groups has the local memory and the registers that it takes."""
    return (product.can_be_staged(kernel) and staged_bytes(kernel, *extent) <= local_memory
            and staged_registers(kernel, *extent, product.lines) <= DPAS[kernel.row.execution_size].registers)


def _extent(product: NestProduct, kernel: MicroKernel, layout: SubgroupLayout | None) -> tuple[int, int]:
    if layout is not None:
        return layout.rows, layout.columns
    return extent_of_tiles([(product.m.stop, product.n.stop, kernel)])


def _wide_kernel(product: NestProduct, row: DpasRow) -> MicroKernel | None:
    """Return the micro-kernel that loads several elements at a time, None where operands do not allow it."""
    k, m = product.k.stop, product.m.stop
    if not isinstance(k, int) or not isinstance(m, int):
        return None
    numbers = DPAS[row.execution_size]
    most_rows, most_columns = numbers.words_read
    steps = next((count for count in numbers.steps if k % (count * row.k) == 0), 1)
    columns = _blocks(product.n.stop, row.repeat, most_columns)
    for lane_blocks in (most_rows, most_rows // 2):
        kernel = MicroKernel(row, lane_blocks, columns, steps)
        fits = m >= kernel.tile_rows or lane_blocks < most_rows
        if fits and _is_wide(product, kernel):
            return kernel
    return None


def _is_wide(product: NestProduct, kernel: MicroKernel) -> bool:
    strides = _strides(product.a, product.m.variable, product.k.variable)
    return takes_wide_loads(
        kernel, strides, _strides(product.b, product.k.variable, product.n.variable), product.m.stop)


def _no_blocks(product: NestProduct, row: DpasRow, terms: int) -> str | None:
    """Return why the operands of a product cannot be read by blocks, None where they can."""
    if row.execution_size != 16:
        return "the device has no reads of blocks"
    if terms:
        return "f32 operands are rounded as they are loaded"
    for of, access, first, second in (
        (blocks_of_a, product.a, product.m, product.k), (blocks_of_b, product.b, product.k, product.n)
    ):
        strides = _strides(access, first.variable, second.variable)
        if not all(isinstance(size, int) for size in (first.stop, second.stop, *strides)):
            return "sizes or strides are known at run time only"
        if of(row, strides, first.stop, second.stop) is None:
            return f"{access.buffer.name} has strides or sizes that reads of blocks do not take"
    return None


def remark(nest: Nest, engine: MatrixEngine, used: MicroKernel | None = None) -> str | None:
    """Return why a product is, or is not, computed by the engine that there is, None where nothing is to be said.

    `used` is the micro-kernel that computes it.
    """
    product = product_in(nest.body[0]) if len(nest.body) == 1 and isinstance(nest.body[0], Loop) else None
    if product is None or not engine.lanes:
        return None
    if used is not None:
        why = _no_blocks(product, used.row, used.terms)
        loads = (
            "way of local memory, packed there" if used.staged else
            "reads of blocks, in global memory" if why is None else
            "loads of several elements" if _is_wide(product, used) else f"loads of single elements: {why}"
        )
        return (f"is on the matrix engine: {used.row}, tiles of {used.tile_rows} x {used.tile_columns}, operands by "
                f"{loads}")
    return f"is not on the matrix engine: {_refusal(nest, product, engine)}"


def _refusal(nest: Nest, product: NestProduct, engine: MatrixEngine) -> str:
    if default_micro_kernel(nest, engine) is not None:
        return "the work-group's sub-groups have another size, or it has a schedule of its own"
    if multiplies_by_zero(product):
        return "its sums are multiplied by 0"
    a, b, total = product.types
    return f"it sums products of {a} and {b} in {total}{hint(product.types)}"


def _types(product: NestProduct, engine: MatrixEngine) -> tuple[str, str, str, int] | None:
    """Return the accumulator, the types of A and B on the engine, and the terms of an f32 operand."""
    a, b, total = product.types
    found = rounding(product.types, engine.precision, "dpas 16" if engine.lanes == 16 else "dpas 8")
    if found is None or found.terms:
        return None if found is None else (total, *found)
    fits = "i32" if product.a.buffer.element.is_integer else "f32"
    return (total, *found) if a in _OPERANDS and b in _OPERANDS and total == fits else None


def _strides(access: Access, first: str, second: str) -> tuple[object, ...]:
    """Return the strides of a matrix along two loops."""
    strides = {names[0]: stride for names, stride in zip(access.indices, access.buffer.strides, strict=True)}
    return strides.get(first, 0), strides.get(second, 0)


def extent_of_tiles(products: Sequence[tuple[Bound, Bound, MicroKernel]]) -> tuple[int, int]:
    """Return rows and columns of sub-groups such that each has a tile of the largest product, of known sizes m x n."""
    rows, columns = 1, 1
    for m, n, kernel in products:
        rows = max(rows, -(-m // kernel.tile_rows) if isinstance(m, int) else _UNKNOWN)
        columns = max(columns, -(-n // kernel.tile_columns) if isinstance(n, int) else _UNKNOWN)
    return min(rows, MOST_SUBGROUPS[0]), min(columns, MOST_SUBGROUPS[1])


def _blocks(size: Bound, block: int, most: int) -> int:
    """Return the blocks of a tile along a mode: as even as possible."""
    if not isinstance(size, int):
        return min(2, most)
    blocks = -(-size // block)
    tiles = -(-blocks // most)
    return -(-blocks // tiles)
