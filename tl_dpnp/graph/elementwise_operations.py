"""Recorders of element-wise functions and reductions (`tl_dpnp.graph.operations`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.dpnp_rules import quotients_by_zero_are_infinite, real_is_a_view, shifts_keep_the_sign
from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.inference import result_dtype, takes_in_place
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.long_reductions import reduced
from tl_dpnp.graph.memrefs import scalar_type_of
from tl_dpnp.graph.nodes import Accumulate, Map, Node, Number, Parameter, number_node, part_dtype
from tl_dpnp.graph.recorders import (
    RECORDERS,
    Recorder,
    array_axis,
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
from tl_dpnp.graph.traced_scalars import TRACED, plain
from tl_dpnp.graph.views import slice_axes
from tl_dpnp.runtime.array_package import describe, xp
from tl_dpnp.runtime.package_name import NAME

__all__: list[str] = []


# --- element by element ----------------------------------------------------------------------------------------------


def _elementwise(kind: str, function: Any) -> Recorder:
    def record(trace: Trace, *values: Any, out: Any = None, dtype: Any = None, **keywords: Any) -> Any:
        only_defaults(keywords, where=True, order="K", subok=True)
        if dtype is not None:
            raise NotFused("the argument dtype= is not fused")
        if isinstance(out, tuple):
            raise NotFused("out= is a tuple")
        if len(values) != FUNCTIONS[kind].operands:
            raise NotFused("the number of arguments is wrong")
        if kind.startswith("logical_"):  # kernels are given numbers of the type that they compute with
            values = tuple(bool(value) if isinstance(value, complex | float | np.inexact) else value
                           for value in trace.tape.fix_all(values, TRACED))
        operands = [trace.operand(value) for value in values]
        nodes, queue = [node for node, _, _ in operands], trace.placed(operands)[1]
        if kind == "right_shift" and nodes[1].dtype is not None and shifts_keep_the_sign():
            raise NotFused("the shift may be negative")
        node = _map(kind, function, nodes, values, queue)
        if out is values[0]:
            _check_in_place(function, nodes, values, queue)
        return result_array(trace, node, operands, out)

    return record


def _check_in_place(function: Any, nodes: Sequence[Node], values: Sequence[Any], queue: Any) -> None:
    """Raise `NotFused` where dpnp refuses the first operand, an array, as the result."""
    if not takes_in_place(function, tuple(map(descriptor, nodes, values)), queue):
        raise NotFused(f"the first operand is out= as well, which {NAME} refuses here")


def _map(kind: str, function: Any, nodes: Sequence[Node], values: Sequence[Any], queue: Any) -> Map:
    """Return the node of an element-wise function; raises `NotFused` where dpnp refuses the operands."""
    described = tuple(descriptor(node, value) for node, value in zip(nodes, values, strict=True))
    dtype = result_dtype(function, described, queue)
    if dtype is None or not fusable(dtype):
        raise NotFused(f"{kind} of {', '.join(map(str, described))} is not fused")
    compute = _computing_dtype(kind, dtype, nodes, described, queue)
    if kind == "divide" and compute.kind == "c":
        kind = _kind_of_division(*nodes)
    _check_function(kind, compute, nodes)
    for value in (node.value if isinstance(node, Number) else plain(value)
                  for node, value in zip(nodes, values, strict=True) if isinstance(node, Number | Parameter)):
        for type in (compute, *(node.dtype for node in nodes if node.dtype is not None)):
            _check_number(value, type)
    try:
        shape = np.broadcast_shapes(*(node.shape for node in nodes))
    except ValueError:
        raise NotFused("the shapes do not broadcast") from None
    return Map(shape, dtype, kind, tuple(nodes), compute)


def _kind_of_division(a: Node, b: Node) -> str:
    """Return how dpnp divides by complex numbers, and by an array of real ones: both parts by the number."""
    if b.dtype is not None and not quotients_by_zero_are_infinite():
        raise NotFused(f"a divisor may be 0, where {NAME} gives NaN", "multiply by a real reciprocal")
    if b.dtype is None or b.dtype.kind == "c":
        return "divide"
    if a.dtype is None or b.dtype != part_dtype(a.dtype):
        raise NotFused(f"division of {a.dtype} by {b.dtype} is not fused", "convert the divisor to a complex type")
    return "divide_parts"


def _check_function(kind: str, compute: np.dtype[Any], nodes: Sequence[Node]) -> None:
    """Raise `NotFused` for a function that kernels have not in the type of its computation, or of complex operands.

    Those may be computed with in another type: whether one is true, say.
    """
    operands = [node.dtype for node in nodes if node.dtype is not None and node.dtype.kind == "c"]
    for dtype in (compute, *operands):
        if scalar_type_of(dtype).kind not in FUNCTIONS[kind].only:
            raise NotFused(f"{kind} of {dtype} is not fused")
    if kind == "where" and nodes[0].dtype in operands:
        raise NotFused(f"a condition of {nodes[0].dtype} is not fused")


def _computing_dtype(
    kind: str, dtype: np.dtype[Any], nodes: Sequence[Node], described: tuple[Any, ...], queue: Any
) -> np.dtype[Any]:
    if kind.startswith("logical_"):
        return np.dtype(bool)
    if FUNCTIONS[kind].computes == "result":
        return dtype
    common = nodes[0].dtype if len(nodes) == 1 else result_dtype(xp.add, described, queue)
    if common is None:
        raise NotFused(f"{kind} of {', '.join(map(str, described))} is not fused")
    return np.dtype(np.int8) if common.kind == "b" else common


def _check_number(value: Any, type: np.dtype[Any]) -> None:
    """Raise `NotFused` for an integer that has another value in the type of the computation or of an operand.

    dpnp converts it to the latter first, also where the result is a float.
    """
    whole = type.kind in "iu" and isinstance(value, int | np.integer)
    if whole and not np.iinfo(type).min <= int(value) <= np.iinfo(type).max:
        raise NotFused(f"{value} is no value of {type}")


for _kind in FUNCTIONS:
    if _kind not in ("where", "astype", "clip", "pow", "round", "real") and hasattr(xp, _kind):
        RECORDERS[_kind] = _elementwise(_kind, getattr(xp, _kind))
for _alias, _name in {"true_divide": "divide", "absolute": "abs", "bitwise_not": "invert", "mod": "remainder",
                      "conj": "conjugate"}.items():
    RECORDERS[_alias] = RECORDERS[_name]


#: The largest exponents that are written as products, of factors x and of factors sqrt(x).
_MOST_FACTORS, _MOST_ROOTS = 16, 7


@records("power")
def _power(trace: Trace, base: Any, exponent: Any, out: Any = None, **keywords: Any) -> Any:
    """Record powers: products, square roots and reciprocals for small constant exponents, else a function of floats."""
    only_defaults(keywords, where=True, order="K", subok=True, dtype=None)
    operands = [(trace.cache.number(value), None, None) if type(value) is float else trace.operand(value)
                for value in (base, exponent)]
    nodes = [node for node, _, _ in operands]
    queue = trace.placed(operands)[1]
    described = tuple(descriptor(node, value) for node, value in zip(nodes, (base, exponent), strict=True))
    dtype = result_dtype(xp.power, described, queue)
    if dtype is None or dtype.kind in "bc" or not fusable(dtype):
        raise NotFused(f"power of {', '.join(map(str, described))} is not fused")
    if out is base:
        _check_in_place(xp.power, nodes, (base, exponent), queue)
    halves = 2 * exponent if type(exponent) in (int, float) else 0
    is_root = halves % 2 == 1
    if operands[0][2] is not None and 0 < abs(halves) <= (_MOST_ROOTS if is_root else 2 * _MOST_FACTORS) and (
        halves == int(halves) and (dtype.kind == "f" or (halves > 0 and not is_root))
    ):
        return result_array(trace, _product_of(nodes[0], int(halves), dtype), operands[:1], out)
    if dtype.kind != "f":
        raise NotFused(f"of integers, only powers with the exponents 1 to {_MOST_FACTORS} are fused", "write a product")
    if not describe(queue).has_fp64:
        raise NotFused("powers are computed in float64")
    node = _map("pow", xp.power, nodes, (base, exponent), queue)
    return result_array(trace, node, operands, out)


def _product_of(node: Node, halves: int, dtype: np.dtype[Any]) -> Node:
    """Return a node to the power of ``halves / 2``."""

    def apply(kind: str, *operands: Node) -> Node:
        return Map(node.shape, dtype, kind, operands, dtype)

    factor = node if node.dtype == dtype else apply("astype", node)
    if halves % 2:  # pow, unlike sqrt, gives infinity of minus infinity, and no minus zero
        endless = number_node(math.inf)
        minus = Map(node.shape, np.dtype(bool), "equal", (factor, number_node(-math.inf)), dtype)
        root = apply("where", minus, endless, apply("sqrt", factor))
        zero = Map(node.shape, np.dtype(bool), "equal", (factor, number_node(0.0)), dtype)
        factor = apply("where", zero, number_node(0.0), root)
    count = abs(halves) if halves % 2 else abs(halves) // 2
    if halves < 0:
        factor = apply("reciprocal", factor)
    result: Node | None = None
    while count:
        if count % 2:
            result = factor if result is None else apply("multiply", result, factor)
        count //= 2
        if count:
            factor = apply("square", factor)
    assert result is not None
    return result if result is not node else apply("positive", node)


@records("round", "around")
def _round(trace: Trace, x: Any, /, decimals: Any = 0, out: Any = None, **keywords: Any) -> Any:
    """Record rounding to whole numbers; dpnp scales by powers of ten in its own way."""
    only_defaults({**keywords, "decimals": static_integer(decimals)}, decimals=0, dtype=None)
    operand = trace.operand(x)
    return result_array(trace, _map("round", xp.round, [operand[0]], [x], operand[2]), [operand], out)


@records("where")
def _where(trace: Trace, *values: Any, out: Any = None, **keywords: Any) -> Any:
    only_defaults(keywords, order="K")
    if len(values) != 3:
        raise NotFused("the shape of the result depends on values")
    operands = [trace.operand(value) for value in values]
    nodes = [node for node, _, _ in operands]
    if isinstance(nodes[0], Number | Parameter):
        raise NotFused("the condition is no array")
    return result_array(trace, _map("where", xp.where, nodes, values, trace.placed(operands)[1]), operands, out)


@records("clip")
def _clip(trace: Trace, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **keywords: Any) -> Any:
    only_defaults(keywords, order="K", dtype=None)
    values = [value for value in (a, a_min, a_max) if value is not None]
    if len(values) == 1:
        raise NotFused("there is no limit")
    kind, function = ("clip", xp.clip) if len(values) == 3 else (
        ("minimum", xp.minimum) if a_min is None else ("maximum", xp.maximum))
    operands = [trace.operand(value) for value in values]
    nodes = [node for node, _, _ in operands]
    node = _map(kind, function, nodes, values, trace.placed(operands)[1])
    if node.shape != nodes[0].shape or node.dtype != nodes[0].dtype:
        raise NotFused("clip changes the shape or the dtype")
    return result_array(trace, node, operands, out)


@records("astype")
def _astype(trace: Trace, x: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", copy: Any = True,
            **keywords: Any) -> Any:
    only_defaults({**keywords, "order": order}, order="K", subok=True, device=None)
    operand = trace.operand(x)
    node = operand[0]
    try:
        new = xp.dtype(dtype)
    except TypeError:
        raise NotFused(f"{dtype!r} is no dtype") from None
    if new == node.dtype and not copy:
        return x if type(x) is LazyArray else trace.capture(x)
    loses = node.dtype is not None and node.dtype.kind == "c" and new.kind != "c"
    if loses or not np.can_cast(node.dtype, new, casting) or result_dtype(
        xp.ndarray.astype, (node.dtype,), operand[2], dtype=new
    ) != new:
        raise NotFused(f"{node.dtype} is not cast to {new}")
    return result_array(trace, Map(node.shape, new, "astype", (node,), new), [operand])


@records("real")
def _real(trace: Trace, a: Any) -> Any:
    """Record the real parts; an array that has no imaginary parts is returned, as dpnp does."""
    check_arrays(a)
    return _part("real", trace, a) if a.dtype.kind == "c" else a


@records("imag")
def _imag(trace: Trace, a: Any) -> Any:
    """Record the imaginary parts of complex numbers."""
    return _part("imag", trace, a)


def _part(name: str, trace: Trace, a: Any) -> Any:
    """Record a part of complex numbers, in memory of its own as dpnp's function has it, or as a view as in CuPy."""
    if a.dtype.kind == "c" and real_is_a_view():
        return recorded(trace, f"ndarray.{name}", a)
    return _elementwise(name, getattr(xp, name))(trace, a)


@records("copy")
def _copy(trace: Trace, a: Any, order: Any = "C", **keywords: Any) -> Any:
    only_defaults({**keywords, "order": order}, order="K", subok=False, device=None, usm_type=None, sycl_queue=None)
    operand = trace.operand(a)
    node = operand[0]
    return result_array(trace, Map(node.shape, node.dtype, "positive", (node,), node.dtype), [operand])


# --- reductions ------------------------------------------------------------------------------------------------------


def _reduction(kind: str, function: Any) -> Recorder:
    def record(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
               **keywords: Any) -> Any:
        only_defaults(keywords, where=True, initial=None)
        if (dtype is not None and kind in ("max", "min", "any", "all")) or not isinstance(keepdims, bool):
            raise NotFused("the arguments are not fused")
        operands = array_operands(trace, a)
        [(node, _, queue)] = operands
        ndim = len(node.shape)
        axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        places = tuple(sorted(array_axis(place, ndim) for place in axes))
        if len(set(places)) != len(places) or not node.size:
            raise NotFused("there is nothing to reduce")
        given = {} if dtype is None else {"dtype": dtype}
        result = result_dtype(function, (node.dtype,), queue, **given)
        if result is None or not fusable(result) or (kind == "mean" and result.kind not in "fc"):
            raise NotFused(f"{kind} of {node.dtype} is not fused")
        if "c" in (node.dtype.kind, result.kind) and (kind not in ("sum", "mean") or result.kind != "c"):
            raise NotFused(f"{kind} of {node.dtype} in {result} is not fused")
        shape = tuple(size for place, size in enumerate(node.shape) if place not in places)
        if places:
            name = "sum" if kind == "mean" else kind
            value = reduced(name, node, places, result)
        else:
            value = Map(shape, result, "astype", (node,), result)
        if kind == "mean":
            count = number_node(math.prod(node.shape[place] for place in places))
            value = Map(shape, result, "divide_parts" if result.kind == "c" else "divide", (value, count), result)
        if keepdims:
            old = iter(shape)
            value = slice_axes(value, [None if place in places else (0, 1, next(old)) for place in range(ndim)])
        return result_array(trace, value, operands, out)

    return record


for _kind in ("sum", "prod", "max", "min", "mean", "any", "all"):
    RECORDERS[_kind] = _reduction(_kind, getattr(xp, _kind))

#: Elements of an axis that one work-group may accumulate; dpnp spreads more over work-groups.
_MOST_ACCUMULATED = 1 << 14


def _accumulation(kind: str, function: Any) -> Recorder:
    def record(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        operand = trace.operand(a)
        node, _, queue = operand
        if queue is None or not node.shape:
            raise NotFused("the operand has no axis")
        if axis is None and len(node.shape) > 1:
            operand = trace.operand(recorded(trace, "reshape", a, -1))
            node = operand[0]
        place = 0 if axis is None else array_axis(axis, len(node.shape))
        if not node.size or node.shape[place] > _MOST_ACCUMULATED:
            raise NotFused("a single work-group would have to accumulate many elements, or there are none")
        result = result_dtype(function, (node.dtype,), queue, **({} if dtype is None else {"dtype": dtype}))
        if result is None or not fusable(result) or "c" in (node.dtype.kind, result.kind) or result.kind == "b":
            raise NotFused(f"{function.__name__} of {node.dtype} is not fused")
        return result_array(trace, Accumulate(node.shape, result, kind, node, place), [operand], out)

    return record


RECORDERS["cumsum"], RECORDERS["cumprod"] = _accumulation("sum", xp.cumsum), _accumulation("prod", xp.cumprod)
RECORDERS["amax"], RECORDERS["amin"] = RECORDERS["max"], RECORDERS["min"]
