"""Emission of products on matrix engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from llvmlite import ir

from tl_dpnp.kernels.amx.fetching import Fetching
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.product import emit_tile_product
from tl_dpnp.kernels.amx.rows import MOST
from tl_dpnp.kernels.dpas.block_results import Result
from tl_dpnp.kernels.dpas.fragments import Matrix, Size
from tl_dpnp.kernels.dpas.gemm import Product, emit_product
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.sub_groups import SubGroup, uniform
from tl_dpnp.kernels.elements import from_storage, to_storage
from tl_dpnp.kernels.llvm import GLOBAL, I32, index, private_array
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.lowering.emission.memory import NestArguments
from tl_dpnp.lowering.emission.variables import PerLane, Variable
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Bound,
    Buffer,
    Dimension,
    Expression,
    Index,
    Loop,
    Node,
    map_accesses,
)
from tl_dpnp.lowering.nest_products import NestProduct, keeps_packed, product_in, rounds_sums, stores_sums
from tl_dpnp.records import dataclass

__all__ = ["Elements", "emit_on_dpas", "emit_on_tiles", "place_on_engine", "product_of"]


def _matrix_of(access: Access, arguments: NestArguments, first: str, second: str) -> Matrix:
    """Return a matrix as an engine takes it, with its strides along two loops."""
    strides: Mapping[str, Size] = {
        names[0]: stride if isinstance(stride, int) else arguments.dimensions[stride.name]
        for names, stride in zip(access.indices, access.buffer.strides, strict=True)
    }
    pointer: ir.Value = arguments.pointers[access.buffer.name]
    return Matrix(pointer, access.buffer.element, (strides.get(first, 0), strides.get(second, 0)))


def product_of(parts: NestProduct, arguments: NestArguments) -> Product:
    """Return the operands and sizes of a product as the engine takes them."""
    def size(bound: Bound) -> Size:
        if isinstance(bound, int):
            return bound
        assert isinstance(bound, Dimension)
        return arguments.dimensions[bound.name]

    m, n, k = (loop.variable for loop in (parts.m, parts.n, parts.k))
    a, b = _matrix_of(parts.a, arguments, m, k), _matrix_of(parts.b, arguments, k, n)
    return Product(a, b, size(parts.m.stop), size(parts.n.stop), size(parts.k.stop))


@dataclass(frozen=True)
class Elements:
    """What emits code for elements of C: `at` is a context in which variables and registers have values."""

    at: Callable[[Mapping[str, Variable], Mapping[Access, ir.Value]], AbstractContextManager[None]]
    assign: Callable[[Assign], None]
    expression: Callable[[Expression], ir.Value]


def place_on_engine(
    builder: ir.IRBuilder, layout: SubgroupLayout, position: Mapping[str, ir.Value | None], emulated: bool
) -> SubGroup:
    """Return the place of a work-item; `position` is that of its sub-group along rows and columns."""
    target, rows, columns = target_of(builder), layout.rows, layout.columns
    lane = target.item_index(builder, 0)
    if layout.subgroups == 1:
        return SubGroup(lane, index(0), index(0), rows, columns)
    if emulated:
        return SubGroup(lane, position["rows"], position["columns"], rows, columns)
    # Intel's GPU compiler takes the id of a dimension for one that differs from lane to lane.
    own = uniform(builder, target.item_index(builder, 1))
    row, column = builder.urem(own, index(rows)), builder.udiv(own, index(rows))
    return SubGroup(lane, row, column, rows, columns)


def emit_on_dpas(
    builder: ir.IRBuilder, loop: Loop, kernel: MicroKernel, arguments: NestArguments, place: SubGroup, emulated: bool,
    elements: Elements,
) -> None:
    """Emit a product on DPAS at the place of a work-item."""
    parts = product_in(loop)
    assert parts is not None
    parts = parts.seen_by(kernel)

    def variables(row: ir.Value, column: ir.Value) -> dict[str, Variable]:
        return {parts.m.variable: PerLane(row), parts.n.variable: column}

    def finish(row: ir.Value, column: ir.Value, total: ir.Value) -> None:
        with elements.at(variables(row, column), {parts.total: total}):
            elements.assign(parts.finish)

    def evaluate(
        value: Expression, row: ir.Value, column: ir.Value, registers: Mapping[Access, ir.Value]
    ) -> ir.Value:
        with elements.at(variables(row, column), registers):
            return elements.expression(value)

    product = replace(product_of(parts, arguments), result=_result_of(builder, parts, arguments, evaluate))
    place = place.exchanged if kernel.exchanged else place
    emit_product(builder, kernel, product, place, finish, emulated, arguments.scratch)


def _result_of(
    builder: ir.IRBuilder, parts: NestProduct, arguments: NestArguments,
    evaluate: Callable[[Expression, ir.Value, ir.Value, Mapping[Access, ir.Value]], ir.Value],
) -> Result | None:
    """Return what becomes of the sums of a product, None where they update C atomically.

    `evaluate` takes an expression, a row and a column, and the values of registers.
    """
    finish, target = parts.finish, parts.finish.target
    if finish.update != "set":
        return None
    element = target.buffer.element
    held = Access(Buffer("held", element, scope="registers"), target.indices)
    expression = map_accesses(finish.value, lambda access: held if access == target else access)

    def value(row: ir.Value, column: ir.Value, total: ir.Value, old: ir.Value | None) -> ir.Value:
        registers = {parts.total: total}
        if old is not None:
            registers[held] = from_storage(builder, element, old)
        return to_storage(builder, element, evaluate(expression, row, column, registers))

    matrix = _matrix_of(target, arguments, parts.m.variable, parts.n.variable)
    is_sum = expression == parts.total and parts.total.buffer.element == element
    return Result(matrix, expression != finish.value, value, is_sum)


def emit_on_tiles(
    builder: ir.IRBuilder, loop: Loop, kernel: TileKernel, arguments: NestArguments, pointers: dict[str, ir.Value],
    finish: Callable[[Mapping[str, Variable], Sequence[Node]], None], emulated: bool,
) -> None:
    """Emit a product on tiles; `finish` emits loops for a tile of C, given its first row and column by loop variables.

    The `pointers`, which the loops look into, get those to the memory of the tile's sums.
    """
    parts = product_in(loop)
    assert parts is not None
    m, n = parts.m.variable, parts.n.variable
    buffer, loops = _finish_of_tile(parts)
    result = _matrix_of(parts.finish.target, arguments, m, n) if stores_sums(parts) or rounds_sums(parts) else None
    pointers[buffer.name] = private_array(builder, buffer.element, buffer.elements)
    sums = builder.bitcast(pointers[buffer.name], ir.PointerType(I32))
    emit_tile_product(
        builder, kernel, product_of(parts, arguments), result, sums,
        lambda row, column, rows, columns: finish({m: row, n: column}, loops(rows, columns)), emulated,
        parts.a.buffer.name in arguments.constant and keeps_packed(parts, kernel),
        _fetching(builder, parts, arguments),
    )


def _fetching(builder: ir.IRBuilder, parts: NestProduct, arguments: NestArguments) -> Fetching:
    """Return what is fetched while a product is computed on tiles."""
    target, ahead = parts.finish.target, arguments.ahead
    result = _matrix_of(target, arguments, parts.m.variable, parts.n.variable)
    own = result if result.strides[0] == 1 and result.pointer.type.addrspace == GLOBAL else None
    if ahead is None:
        return Fetching(builder, own)
    later = {name: Fetching.later(builder, arguments.pointers[name], *each) for name, each in ahead.buffers.items()}
    written = later.pop(target.buffer.name, None)
    return Fetching(builder, own, [*later.values()], [] if written is None else [written], ahead.have_room,
                    ahead.wanted, ahead.streams)


def _finish_of_tile(parts: NestProduct) -> tuple[Buffer, Callable[[range, range], tuple[Node, ...]]]:
    """Return memory for the sums of a tile, and loops that store some of them to C.

    A column has 16 rows.  The loops add to the variables of those of the product, which are the first row and the first
    column of the tile.
    """
    m, n = parts.m.variable, parts.n.variable
    row, column = f"{m}.tile", f"{n}.tile"
    element, finish = parts.total.buffer.element, parts.finish
    sums = Buffer("tile", element, (1, MOST), "private", (MOST, MOST))
    added: dict[Index, Index] = {(m,): (m, row), (n,): (n, column)}

    def change(access: Access) -> Access:
        if access == parts.total:
            return Access(sums, ((row,), (column,)))
        return Access(access.buffer, tuple(added.get(entry, entry) for entry in access.indices))

    scale = None if finish.scale is None else map_accesses(finish.scale, change)
    assign = replace(finish, target=change(finish.target), value=map_accesses(finish.value, change), scale=scale)

    def loops(rows: range, columns: range) -> tuple[Node, ...]:
        inner = Loop(row, rows.start, rows.stop, (assign,), kind="vectorized")
        return (Loop(column, columns.start, columns.stop, (inner,)),)

    return sums, loops
