"""Recorders of functions that make arrays of numbers or a pattern: their elements are computed where they are read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.dpnp_rules import diag_copies, kind_of_several
from tl_dpnp.graph.nodes import Arange, ComplexParameter, Map, Node, Parameter, number_node
from tl_dpnp.graph.recorders import (
    RECORDERS,
    Recorder,
    array_operands,
    check_arrays,
    descriptor,
    only_defaults,
    recorded,
    records,
    result_array,
    static_integer,
)
from tl_dpnp.graph.trace import Trace, fusable
from tl_dpnp.runtime.array_package import new_like, xp

__all__: list[str] = []


def _made(trace: Trace, shape: tuple[int, ...], value: int | Node, like: tuple[Any, str, Any]) -> Any:
    """Return a lazy array of this shape; `like` has its dtype, kind of memory and queue."""
    dtype, kind, queue = like
    if min(shape, default=0) < 0:
        raise NotFused("a size is negative")
    if not fusable(dtype):
        raise NotFused(f"kernels do not compute with {dtype}")
    operand = number_node(value) if isinstance(value, int) else value
    return trace.lazy(Map(shape, dtype, "astype", (operand,), dtype), kind, queue)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(map(static_integer, value)) if isinstance(value, tuple | list) else (static_integer(value),)


def _filled(value: int) -> Recorder:
    def record(trace: Trace, shape: Any, *, dtype: Any = None, order: Any = "C", usm_type: Any = "device",
               **keywords: Any) -> Any:
        only_defaults({**keywords, "order": order}, order="C", like=None, device=None, sycl_queue=None)
        return _made(trace, _shape(shape), value, new_like(dtype, usm_type))

    return record


def _filled_like(value: int | Node) -> Recorder:
    def record(trace: Trace, a: Any, /, *, dtype: Any = None, order: Any = "C", **keywords: Any) -> Any:
        only_defaults({**keywords, "order": order}, order="C", subok=False, shape=None, device=None, usm_type=None,
                      sycl_queue=None)
        [(node, usm_type, queue)] = array_operands(trace, a)
        like = new_like(node.dtype if dtype is None else dtype, usm_type, queue)
        return _made(trace, node.shape, value, like)

    return record


RECORDERS["zeros"], RECORDERS["ones"] = _filled(0), _filled(1)
RECORDERS["zeros_like"], RECORDERS["ones_like"] = _filled_like(0), _filled_like(1)


def _value(trace: Trace, fill_value: Any, dtype: Any) -> tuple[Node, Any]:
    """Return the node of a number that fills an array, and the array's dtype, which dpnp chooses if it is None."""
    node, _, queue = trace.operand(fill_value)
    if queue is not None:
        raise NotFused("the value is an array", "use broadcast_to")
    own = descriptor(node, fill_value)
    dtype = xp.full((), own).dtype if dtype is None else np.dtype(dtype)
    # What becomes of numbers that a type has not is dpnp's business.
    if isinstance(node, Parameter):
        holds = dtype.kind in ("c" if isinstance(node, ComplexParameter) else "fc")
    else:
        holds = np.array(own).astype(dtype) == own
    if not (holds or own != own):
        raise NotFused(f"the value is converted to {dtype}")
    return node, dtype


@records("full")
def _full(trace: Trace, shape: Any, fill_value: Any, *, dtype: Any = None, order: Any = "C", usm_type: Any = None,
          **keywords: Any) -> Any:
    only_defaults({**keywords, "order": order}, order="C", like=None, device=None, sycl_queue=None)
    node, dtype = _value(trace, fill_value, dtype)
    return _made(trace, _shape(shape), node, new_like(dtype, usm_type or "device"))


@records("full_like")
def _full_like(trace: Trace, a: Any, /, fill_value: Any, *, dtype: Any = None, **keywords: Any) -> Any:
    [(node, _, _)] = array_operands(trace, a)
    return _filled_like(_value(trace, fill_value, node.dtype if dtype is None else dtype)[0])(
        trace, a, dtype=dtype, **keywords)


@records("eye")
def _eye(trace: Trace, N: Any, /, M: Any = None, k: Any = 0, dtype: Any = None, order: Any = "C", *,
         usm_type: Any = "device", **keywords: Any) -> Any:
    """Record the matrix with ones where the column is the row plus `k`."""
    only_defaults({**keywords, "order": order}, order="C", like=None, device=None, sycl_queue=None)
    shape = static_integer(N), static_integer(N if M is None else M)
    diagonal = _on_diagonal(shape, static_integer(k))
    return _made(trace, shape, diagonal, new_like(dtype, usm_type))


def _on_diagonal(shape: tuple[int, int], k: int) -> Node:
    """Return whether the column is the row plus `k`, for the elements of a matrix."""
    distance = Arange(shape, np.dtype(np.int64), (-1, 1), -k)
    return Map(shape, np.dtype(bool), "equal", (distance, number_node(0)), distance.dtype)


@records("diag")
def _diag(trace: Trace, v: Any, /, k: Any = 0, **keywords: Any) -> Any:
    """Record the matrix with a vector on diagonal `k`, or the diagonal of a matrix."""
    only_defaults(keywords, device=None, usm_type=None, sycl_queue=None)
    check_arrays(v)
    offset = static_integer(k)
    if v.ndim not in (1, 2):
        raise NotFused("the operand is neither a vector nor a matrix")
    if v.ndim == 2:
        diagonal = recorded(trace, "diagonal", v, offset)
        return recorded(trace, "copy", diagonal) if diag_copies() else diagonal
    size = v.size + abs(offset)
    if offset:
        like = new_like(v.dtype, *trace.operand(v)[1:])
        v = recorded(trace, "concatenate", [v, _made(trace, (abs(offset),), 0, like)])
    along = recorded(trace, "expand_dims", v, -1 if offset > 0 else 0)  # an element by its row, or by its column
    operand = trace.operand(along)
    chosen = (_on_diagonal((size, size), offset), operand[0], number_node(0))
    return result_array(trace, Map((size, size), v.dtype, "where", chosen, v.dtype), [operand])


@records("diagflat")
def _diagflat(trace: Trace, v: Any, /, k: Any = 0, **keywords: Any) -> Any:
    return _diag(trace, recorded(trace, "ravel", v), k, **keywords)


@records("meshgrid")
def _meshgrid(trace: Trace, *xi: Any, copy: Any = True, sparse: Any = False, indexing: Any = "xy") -> Any:
    """Record the coordinates of the points of a grid: each of the vectors, repeated along the axes of the others."""
    check_arrays(*xi)
    if copy is not True or indexing not in ("xy", "ij") or any(x.ndim != 1 for x in xi):
        raise NotFused("the arguments are not fused")
    places = list(range(len(xi)))
    if indexing == "xy":
        places[:2] = places[1::-1] or places
    shape = tuple(xi[places.index(axis)].size for axis in range(len(xi)))
    results = []
    for x, place in zip(xi, places, strict=True):
        x = recorded(trace, "reshape", x, tuple(x.size if axis == place else 1 for axis in range(len(xi))))
        results.append(recorded(trace, "copy", x if sparse else recorded(trace, "broadcast_to", x, shape)))
    return kind_of_several("meshgrid")(results)


@records("identity")
def _identity(trace: Trace, n: Any, /, dtype: Any = None, **keywords: Any) -> Any:
    return _eye(trace, n, dtype=dtype, **keywords)
