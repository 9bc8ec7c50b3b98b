"""Emission of products on the matrix engine."""

from __future__ import annotations

from collections.abc import Mapping

from llvmlite import ir

from tl_dpnp.kernels.dpas.fragments import Matrix, Size
from tl_dpnp.kernels.dpas.gemm import Product
from tl_dpnp.lowering.emission.memory import NestArguments
from tl_dpnp.lowering.matrix_engine import NestProduct
from tl_dpnp.lowering.nest import Access, Bound, Dimension

__all__ = ["product_of"]


def product_of(parts: NestProduct, arguments: NestArguments) -> Product:
    """Return the operands and sizes of a product as the engine takes them."""
    def matrix(access: Access, first: str, second: str) -> Matrix:
        strides: Mapping[str, Size] = {
            names[0]: stride if isinstance(stride, int) else arguments.dimensions[stride.name]
            for names, stride in zip(access.indices, access.buffer.strides, strict=True)
        }
        pointer: ir.Value = arguments.pointers[access.buffer.name]
        return Matrix(pointer, access.buffer.element, (strides.get(first, 0), strides.get(second, 0)))

    def size(bound: Bound) -> Size:
        if isinstance(bound, int):
            return bound
        assert isinstance(bound, Dimension)
        return arguments.dimensions[bound.name]

    loops = (parts.m, parts.n, parts.k)
    m, n, k = (loop.variable for loop in loops)
    return Product(matrix(parts.a, m, k), matrix(parts.b, k, n), *(size(loop.stop) for loop in loops))
