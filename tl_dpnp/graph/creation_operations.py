"""Recorders of functions that make arrays of nothing: their elements are computed where they are read."""

from __future__ import annotations

from typing import Any

import dpnp
import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.nodes import Arange, Map, Node, number_node
from tl_dpnp.graph.recorders import RECORDERS, Recorder, array_operands, only_defaults, records, static_integer
from tl_dpnp.graph.trace import Trace, fusable

__all__: list[str] = []


def _made(trace: Trace, shape: tuple[int, ...], value: int | Node, like: Any) -> Any:
    """Return a lazy array of this shape with the dtype, USM type and queue of `like`."""
    if min(shape, default=0) < 0:
        raise NotFused("a size is negative")
    if not fusable(like.dtype):
        raise NotFused(f"kernels do not compute with {like.dtype}")
    operand = number_node(value) if isinstance(value, int) else value
    return trace.lazy(Map(shape, like.dtype, "astype", (operand,), like.dtype), like.usm_type, like.sycl_queue)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(map(static_integer, value)) if isinstance(value, tuple | list) else (static_integer(value),)


def _filled(value: int) -> Recorder:
    def record(trace: Trace, shape: Any, *, dtype: Any = None, order: Any = "C", usm_type: Any = "device",
               **keywords: Any) -> Any:
        only_defaults({**keywords, "order": order}, order="C", like=None, device=None, sycl_queue=None)
        return _made(trace, _shape(shape), value, dpnp.empty(0, dtype=dtype, usm_type=usm_type))

    return record


def _filled_like(value: int) -> Recorder:
    def record(trace: Trace, a: Any, /, *, dtype: Any = None, order: Any = "C", **keywords: Any) -> Any:
        only_defaults({**keywords, "order": order}, order="C", subok=False, shape=None, device=None, usm_type=None,
                      sycl_queue=None)
        [(node, usm_type, queue)] = array_operands(trace, a)
        like = dpnp.empty(0, dtype=node.dtype if dtype is None else dtype, usm_type=usm_type, sycl_queue=queue)
        return _made(trace, node.shape, value, like)

    return record


RECORDERS["zeros"], RECORDERS["ones"] = _filled(0), _filled(1)
RECORDERS["zeros_like"], RECORDERS["ones_like"] = _filled_like(0), _filled_like(1)


@records("eye")
def _eye(trace: Trace, N: Any, /, M: Any = None, k: Any = 0, dtype: Any = None, order: Any = "C", *,
         usm_type: Any = "device", **keywords: Any) -> Any:
    """Record the matrix with ones where the column is the row plus `k`."""
    only_defaults({**keywords, "order": order}, order="C", like=None, device=None, sycl_queue=None)
    shape = static_integer(N), static_integer(N if M is None else M)
    distance = Arange(shape, np.dtype(np.int64), (-1, 1), -static_integer(k))
    diagonal = Map(shape, np.dtype(bool), "equal", (distance, number_node(0)), distance.dtype)
    return _made(trace, shape, diagonal, dpnp.empty(0, dtype=dtype, usm_type=usm_type))


@records("identity")
def _identity(trace: Trace, n: Any, /, dtype: Any = None, **keywords: Any) -> Any:
    return _eye(trace, n, dtype=dtype, **keywords)
