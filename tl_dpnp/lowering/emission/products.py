"""Emission of products on matrix engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from llvmlite import ir

from tl_dpnp.kernels.amx.rows import MOST
from tl_dpnp.kernels.dpas.fragments import Matrix, Size
from tl_dpnp.kernels.dpas.gemm import Product
from tl_dpnp.lowering.emission.memory import NestArguments
from tl_dpnp.lowering.matrix_engine import NestProduct
from tl_dpnp.lowering.nest import (
    Access,
    Bound,
    Buffer,
    Dimension,
    Expression,
    Index,
    Loop,
    Node,
    Total,
    map_accesses,
)

__all__ = ["finish_of_tile", "matrix_of", "product_of"]


def matrix_of(access: Access, arguments: NestArguments, first: str, second: str) -> Matrix:
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

    loops = (parts.m, parts.n, parts.k)
    m, n, k = (loop.variable for loop in loops)
    a, b = matrix_of(parts.a, arguments, m, k), matrix_of(parts.b, arguments, k, n)
    return Product(a, b, *(size(loop.stop) for loop in loops))


def finish_of_tile(
    parts: NestProduct, count: int
) -> tuple[tuple[Buffer, ...], Callable[[range, range], tuple[Node, ...]]]:
    """Return memory for the sums of a tile, of which there are 1 or 2, and loops that store some of them to C.

    A column has 16 rows.  The loops add to the variables of those of the product, which are the first row and the first
    column of the tile.
    """
    m, n = parts.m.variable, parts.n.variable
    row, column = f"{m}.tile", f"{n}.tile"
    element, finish = parts.total.buffer.element, parts.finish
    sums = tuple(Buffer(f"tile.{part}", element, (1, MOST), "private", (MOST, MOST)) for part in range(count))
    added: dict[Index, Index] = {(m,): (m, row), (n,): (n, column)}

    def moved(access: Access) -> Access:
        return Access(access.buffer, tuple(added.get(entry, entry) for entry in access.indices))

    def change(access: Access) -> Expression:
        if access != parts.total:
            return moved(access)
        first, *others = (Access(buffer, ((row,), (column,))) for buffer in sums)
        return Total(first, others[0]) if others else first

    scale = None if finish.scale is None else map_accesses(finish.scale, change)
    assign = replace(finish, target=moved(finish.target), value=map_accesses(finish.value, change), scale=scale)

    def loops(rows: range, columns: range) -> tuple[Node, ...]:
        inner = Loop(row, rows.start, rows.stop, (assign,), kind="vectorized")
        return (Loop(column, columns.start, columns.stop, (inner,)),)

    return sums, loops
