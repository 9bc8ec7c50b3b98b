"""Recorders of functions that are written in terms of others (`tl_dpnp.graph.operations`), as dpnp writes them.

Each calls the recorders of those functions in turn, so that dtypes, limits and refusals are theirs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.dpnp_rules import nansum_takes_whole_elements
from tl_dpnp.graph.inference import result_dtype
from tl_dpnp.graph.nodes import Arange, Map, Node, number_node, part_dtype
from tl_dpnp.graph.recorders import (
    RECORDERS,
    Recorder,
    array_axis,
    array_operands,
    only_defaults,
    recorded,
    records,
    result_array,
    static_integer,
)
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.views import broadcast, c_strides
from tl_dpnp.runtime.array_package import new_like, xp
from tl_dpnp.runtime.package_name import NAME

__all__ = ["as_floating"]


def as_floating(trace: Trace, x: Any) -> Any:
    """Return an array as dpnp's statistics convert it: integers in the default floating-point type."""
    [(node, _, queue)] = array_operands(trace, x)
    dtype = node.dtype if node.dtype.kind == "c" else result_dtype(xp.var, (node.dtype,), queue)
    if dtype is None:
        raise NotFused(f"{node.dtype} is not converted to floating point")
    return recorded(trace, "astype", x, dtype, copy=False)


def _only(kind: tuple[type, ...], **arguments: Any) -> None:
    """Raise `NotFused` for an argument of another type: a number that may change from call to call, say."""
    for name, value in arguments.items():
        if type(value) not in kind:
            raise NotFused(f"{name}= is a {type(value).__name__}")


def _where(trace: Trace, condition: Any, x: Any, number: float) -> Any:
    """Record the choice between an array and a number, in the type of the array."""
    operands = [trace.operand(condition), trace.operand(x)]
    node = operands[1][0]
    chosen = Map(node.shape, node.dtype, "where", (operands[0][0], node, number_node(number)), node.dtype)
    return result_array(trace, chosen, operands)


# --- statistics ------------------------------------------------------------------------------------------------------


def _squares(trace: Trace, x: Any) -> Any:
    """Record the squares of absolute values; those of complex numbers are real parts of products, which may recover an
    infinity.
    """
    if x.dtype.kind != "c":
        return recorded(trace, "multiply", x, x)
    return recorded(trace, "real", recorded(trace, "multiply", x, recorded(trace, "conjugate", x)))


def _deviation(root: bool) -> Recorder:
    """Return the recorder of ``std`` or ``var``: the mean of the squares of the differences from the mean."""

    def record(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
               keepdims: Any = False, **keywords: Any) -> Any:
        only_defaults({**keywords, "dtype": dtype}, where=True, dtype=None)
        _only((int, float), ddof=ddof)
        x = as_floating(trace, a)
        centre = recorded(trace, "mean", x, axis=axis, keepdims=True)
        squares = _squares(trace, recorded(trace, "subtract", x, centre))
        total = recorded(trace, "sum", squares, axis=axis, keepdims=keepdims)
        count = x.size // max(centre.size, 1) - ddof
        result = recorded(trace, "divide", total, count if count > 0 else math.nan)
        if root:
            result = recorded(trace, "sqrt", result)
        return result if out is None else _written(trace, result, out)

    return record


def _written(trace: Trace, result: Any, out: Any) -> Any:
    """Assign a result that has been recorded to ``out=``."""
    operand = trace.operand(result)
    return result_array(trace, operand[0], [operand], out)


RECORDERS["std"], RECORDERS["var"] = _deviation(root=True), _deviation(root=False)


@records("average")
def _average(trace: Trace, a: Any, axis: Any = None, weights: Any = None, returned: Any = False,
             **keywords: Any) -> Any:
    if weights is not None or returned:
        raise NotFused(f"{NAME} looks whether the sum of the weights is zero", "write it with sum")
    return recorded(trace, "mean", a, axis=axis, **keywords)


@records("count_nonzero")
def _count_nonzero(trace: Trace, a: Any, axis: Any = None, **keywords: Any) -> Any:
    return recorded(trace, "sum", recorded(trace, "astype", a, bool), axis=axis, dtype=np.dtype(np.intp), **keywords)


@records("ptp")
def _ptp(trace: Trace, a: Any, /, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if out is not None:
        raise NotFused("the argument out= is not fused")
    extremes = [recorded(trace, name, a, axis=axis, keepdims=keepdims) for name in ("max", "min")]
    return recorded(trace, "subtract", *extremes)


@records("logsumexp")
def _logsumexp(trace: Trace, x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: Any = False,
               out: Any = None) -> Any:
    """Record the logarithm of a sum of exponentials, relative to the largest one where that is finite."""
    only_defaults({"dtype": dtype}, dtype=None)
    x = as_floating(trace, x)
    largest = recorded(trace, "max", x, axis=axis, keepdims=True)
    origin = _where(trace, recorded(trace, "isfinite", largest), largest, 0.0)
    shifted = recorded(trace, "subtract", x, origin)
    total = recorded(trace, "sum", recorded(trace, "exp", shifted), axis=axis, keepdims=True)
    result = recorded(trace, "add", recorded(trace, "log", total), origin)
    if not keepdims:
        result = recorded(trace, "squeeze", result, axis=tuple(range(x.ndim)) if axis is None else axis)
    return result if out is None else _written(trace, result, out)


def _without_nan(reduction: str, neutral: float) -> Recorder:
    """Return the recorder of a reduction for which NaN is its neutral element."""

    def record(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        node = trace.operand(a)[0]
        if node.dtype is not None and node.dtype.kind == "c" and reduction == "sum" \
                and not nansum_takes_whole_elements():
            raise NotFused(f"of {node.dtype}, {NAME} looks at the parts one by one")
        if node.dtype is not None and node.dtype.kind in "fc":
            a = _where(trace, recorded(trace, "logical_not", recorded(trace, "isnan", a)), a, neutral)
        return recorded(trace, reduction, a, *arguments, **keywords)

    return record


RECORDERS["nansum"], RECORDERS["nanprod"] = _without_nan("sum", 0.0), _without_nan("prod", 1.0)


# --- extremes --------------------------------------------------------------------------------------------------------


def _first_extreme(extreme: str) -> Recorder:
    """Return the recorder of ``argmax`` or ``argmin``: the least index of an element that is the extreme, or NaN."""

    def record(trace: Trace, a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
        node, usm_type, queue = trace.operand(a)
        if not node.shape:
            raise NotFused("the operand has no axis")
        ndim = len(node.shape)
        axes = tuple(range(ndim)) if axis is None else (array_axis(axis, ndim),)
        counted = c_strides([node.shape[place] if place in axes else 1 for place in range(ndim)])
        strides = tuple(stride if place in axes else 0 for place, stride in enumerate(counted))
        numbers = Arange(node.shape, np.dtype(np.int64), strides)
        found = recorded(trace, "equal", a, recorded(trace, extreme, a, axis=axes, keepdims=True))
        if node.dtype.kind == "f":
            found = recorded(trace, "logical_or", found, recorded(trace, "isnan", a))
        behind = number_node(math.prod(node.shape[place] for place in axes))
        places = Map(node.shape, numbers.dtype, "where", (trace.operand(found)[0], numbers, behind), numbers.dtype)
        result = recorded(trace, "min", trace.lazy(places, str(usm_type), queue), axis=axes, keepdims=keepdims)
        return result if out is None else _written(trace, result, out)

    return record


RECORDERS["argmax"], RECORDERS["argmin"] = _first_extreme("max"), _first_extreme("min")


# --- triangles -------------------------------------------------------------------------------------------------------


def _triangle(shape: tuple[int, ...], k: int, upper: bool = False) -> Node:
    """Return whether each element of a matrix of that shape is on diagonal `k` or below, for `upper` above."""
    sign = -1 if upper else 1
    numbers = Arange(shape, np.dtype(np.int64), (sign, -sign), sign * k)
    zero = number_node(0)
    return Map(numbers.shape, np.dtype(bool), "greater_equal", (numbers, zero), numbers.dtype)


def _triangular(upper: bool) -> Recorder:
    def record(trace: Trace, m: Any, /, *, k: Any = 0) -> Any:
        operand = trace.operand(m)
        node = operand[0]
        if operand[2] is None or not node.shape:
            raise NotFused("the operand is no matrix")
        if len(node.shape) == 1:
            node = broadcast(node, node.shape * 2)
        inside = _triangle(node.shape[-2:], static_integer(k), upper)
        zero = number_node(0)
        return result_array(trace, Map(node.shape, node.dtype, "where", (inside, node, zero), node.dtype), [operand])

    return record


RECORDERS["tril"], RECORDERS["triu"] = _triangular(upper=False), _triangular(upper=True)


@records("tri")
def _tri(trace: Trace, N: Any, /, M: Any = None, k: Any = 0, dtype: Any = np.float64, **keywords: Any) -> Any:
    only_defaults(keywords, device=None, usm_type="device", sycl_queue=None)
    if not isinstance(N, int) or not isinstance(M, int | None) or dtype not in (np.float64, None):
        raise NotFused("the arguments are not fused")
    rows, columns = static_integer(N), static_integer(N if M is None else M)
    if rows < 0 or columns < 0:
        raise NotFused("a size is negative")
    dtype, kind, queue = new_like(None)
    node = _triangle((rows, columns), static_integer(k))
    return trace.lazy(Map(node.shape, dtype, "astype", (node,), dtype), kind, queue)


# --- norms -----------------------------------------------------------------------------------------------------------


@records("linalg.norm")
def _norm(trace: Trace, x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """Record the norms that are sums, maxima and minima; those of singular values and other powers are dpnp's."""
    _only((int, float, str, type(None)), ord=ord)
    _only((bool,), keepdims=keepdims)
    x = as_floating(trace, x)
    whole = axis is None and (ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1))
    if whole and x.dtype.itemsize < 4:
        raise NotFused(f"{NAME}'s dot takes no half floats")
    given = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(array_axis(place, x.ndim) for place in given)
    if whole or (len(axes) == 1 and ord in (None, 2)) or (
        len(axes) == 2 and axes[0] != axes[1] and ord in (None, "f", "fro")
    ):
        squares = _squares_of_parts(trace, x) if whole and x.dtype.kind == "c" else _squares(trace, x)
        total = recorded(trace, "sum", squares, axis=axes, keepdims=keepdims)
        return recorded(trace, "sqrt", total)
    if len(axes) == 1:
        return _vector_norm(trace, x, ord, axes[0], keepdims)
    if len(axes) == 2 and axes[0] != axes[1] and ord in (1, -1, math.inf, -math.inf):
        summed, other = axes if abs(ord) == 1 else axes[::-1]
        sums = recorded(trace, "sum", recorded(trace, "abs", x), axis=summed, keepdims=True)
        result = recorded(trace, "max" if ord > 0 else "min", sums, axis=other, keepdims=True)
        return result if keepdims else recorded(trace, "squeeze", result, axis=axes)
    raise NotFused(f"the norm {ord!r} over {len(axes)} axes is not fused")


def _squares_of_parts(trace: Trace, x: Any) -> Any:
    """Record the squares of the absolute values of complex numbers, as dpnp has them in the norm of a whole array."""
    return recorded(trace, "add", *(recorded(trace, "square", recorded(trace, part, x)) for part in ("real", "imag")))


def _vector_norm(trace: Trace, x: Any, ord: Any, axis: int, keepdims: bool) -> Any:
    if ord == 0:
        terms, reduction = recorded(trace, "astype", recorded(trace, "not_equal", x, 0), part_dtype(x.dtype)), "sum"
    elif ord in (1, math.inf, -math.inf):
        terms = recorded(trace, "abs", x)
        reduction = {1: "sum", math.inf: "max", -math.inf: "min"}[ord]
    else:
        raise NotFused(f"the norm {ord!r} of vectors is not fused", "write it with abs, ** and sum")
    return recorded(trace, reduction, terms, axis=axis, keepdims=keepdims)
