"""Recorders of differences, traces, cross products and Kronecker products (`tl_dpnp.graph.operations`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.inference import result_dtype
from tl_dpnp.graph.recorders import array_axis, array_operands, check_arrays, recorded, records, static_integer
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import plain
from tl_dpnp.graph.view_operations import diagonal_axes
from tl_dpnp.graph.views import view
from tl_dpnp.runtime.array_package import xp
from tl_dpnp.runtime.package_name import NAME

__all__: list[str] = []


@records("diff")
def _diff(trace: Trace, a: Any, n: Any = 1, axis: Any = -1, prepend: Any = None, append: Any = None) -> Any:
    """Record differences of neighbours; with one axis more in front, numbers are put beside as arrays are."""
    check_arrays(a, *(part for part in (prepend, append) if part is not None))
    order, place = static_integer(n), array_axis(axis, a.ndim)
    if order < 0:
        raise NotFused("the order is negative")
    if order == 0:
        return a
    parts = []
    for part in (prepend, a, append):
        if part is not None and part.ndim == 0:
            part = recorded(trace, "broadcast_to", part, tuple(1 if other == place else size
                                                            for other, size in enumerate(a.shape)))
        parts += [] if part is None else [part]
    result = a if len(parts) == 1 else recorded(trace, "concatenate", parts, axis=place)
    name = "not_equal" if result.dtype == bool else "subtract"
    for _ in range(order):
        before = (slice(None),) * place
        later, earlier = (recorded(trace, "__getitem__", result, (*before, part))
                          for part in (slice(1, None), slice(None, -1)))
        result = recorded(trace, name, later, earlier)
    return result


@records("trace")
def _trace(trace: Trace, a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1, dtype: Any = None,
           out: Any = None) -> Any:
    """Record the sums of diagonals."""
    [(node, usm_type, queue)] = array_operands(trace, a)
    shape, axes = diagonal_axes(node.shape, offset, axis1, axis2)
    diagonal = trace.lazy(view(node, shape, axes), str(usm_type), queue)
    return recorded(trace, "sum", diagonal, axis=-1, dtype=dtype, out=out)


@records("cross")
def _cross(trace: Trace, a: Any, b: Any, axisa: Any = -1, axisb: Any = -1, axisc: Any = -1, axis: Any = None) -> Any:
    """Record the cross products of vectors of three elements."""
    check_arrays(a, b)
    axes = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    dtype = result_dtype(xp.add, (a.dtype, b.dtype), trace.operand(a)[2])
    if dtype is None or dtype.kind == "b":
        raise NotFused("there is no cross product of these dtypes")
    moved = [recorded(trace, "moveaxis", array, array_axis(place, array.ndim), -1)
             for array, place in ((a, axes[0]), (b, axes[1]))]
    x, y = (recorded(trace, "astype", vectors, dtype, copy=False) for vectors in moved)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise NotFused("a vector has another number of elements than 3", "write out the product")
    (x0, x1, x2), (y0, y1, y2) = (
        [recorded(trace, "__getitem__", vector, (..., place)) for place in range(3)] for vector in (x, y))
    components = [
        recorded(trace, "subtract", recorded(trace, "multiply", p, q), recorded(trace, "multiply", r, s))
        for p, q, r, s in ((x1, y2, x2, y1), (x2, y0, x0, y2), (x0, y1, x1, y0))
    ]
    return recorded(trace, "stack", components, axis=array_axis(axes[2], components[0].ndim + 1))


@records("kron")
def _kron(trace: Trace, a: Any, b: Any) -> Any:
    """Record the Kronecker product: each element of one times all of the other, seen as a block."""
    if not (isinstance(a, xp.ndarray) and isinstance(b, xp.ndarray) and a.ndim and b.ndim):
        return _kron_of_number(trace, a, b)
    ndim = max(a.ndim, b.ndim)
    shapes = [(1,) * (ndim - array.ndim) + array.shape for array in (a, b)]
    blocks = recorded(trace, "reshape", a, tuple(size for place in range(ndim) for size in (shapes[0][place], 1)))
    within = recorded(trace, "reshape", b, tuple(size for place in range(ndim) for size in (1, shapes[1][place])))
    product = recorded(trace, "multiply", blocks, within)
    return recorded(trace, "reshape", product, tuple(int(np.prod(sizes)) for sizes in zip(*shapes, strict=True)))


def _kron_of_number(trace: Trace, a: Any, b: Any) -> Any:
    """Record a product, if it has the dtype that dpnp gives it: in 0.20 a number of Python's is an array of its own."""
    product = recorded(trace, "multiply", a, b)
    given = tuple(value.dtype if isinstance(value, xp.ndarray) else plain(value) for value in (a, b))
    if product.dtype != result_dtype(xp.kron, given, product._queue):
        raise NotFused(f"{NAME} gives the Kronecker product with a number another dtype")
    return product
