"""How dpnp's functions are recorded: for each name, a function that adds its nodes to the graph.

A recorder raises `NotFused` for whatever it does not know exactly, wrong arguments included: then dpnp itself is
called, with its own results and errors.  Dtypes are dpnp's (`inference.result_dtype`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import dpnp
import numpy as np

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.inference import result_dtype
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.memrefs import scalar_type_of
from tl_dpnp.graph.nodes import Map, Node, Number, Parameter, Reduce, Reshape, View
from tl_dpnp.graph.products import contraction, einsum_node, matmul_node
from tl_dpnp.graph.trace import NotFused, Trace, fusable
from tl_dpnp.graph.views import broadcast, permute, reshape, slice_axes

__all__ = ["RECORDERS", "Recorder"]

Recorder = Callable[..., Any]

#: The recorders by dpnp's names; ``linalg.`` in front for those of that module.
RECORDERS: dict[str, Recorder] = {}


def _records(*names: str) -> Callable[[Recorder], Recorder]:
    def register(recorder: Recorder) -> Recorder:
        RECORDERS.update(dict.fromkeys(names, recorder))
        return recorder

    return register


def _only_defaults(keywords: dict[str, Any], **defaults: Any) -> None:
    """Raise `NotFused` if a keyword has another value than the one that changes nothing."""
    for name, value in keywords.items():
        if name not in defaults or not (value is defaults[name] or value in _same(defaults[name])):
            raise NotFused(f"the argument {name}= is not fused")


def _same(default: Any) -> tuple[Any, ...]:
    return ("K", "k", "C", "c", None) if default == "K" else (default,)


def _result(
    trace: Trace, node: Node, operands: Sequence[tuple[Node, str | None, Any]], out: Any = None
) -> Any:
    """Return the lazy array of a new node, or `out` after assigning to it."""
    usm_type, queue = trace.placed(operands)
    if not fusable(node.dtype):
        raise NotFused(f"kernels do not compute with {node.dtype}")
    if out is None:
        return trace.lazy(node, usm_type, queue)
    if not isinstance(out, dpnp.ndarray):
        raise NotFused("out= is no dpnp array")
    target = out if type(out) is LazyArray else trace.capture(out)
    trace.operand(target)
    if target.shape != node.shape or target.dtype != node.dtype or target.sycl_queue != queue:
        raise NotFused("out= has another shape, dtype or queue than the result")
    trace.assign(target, node)
    return target


def _descriptor(node: Node, value: Any) -> Any:
    """Return what stands for an operand where dpnp is asked for a dtype."""
    if isinstance(node, Parameter):
        return 1.0
    if isinstance(node, Number):
        return value if isinstance(value, np.generic) else node.value
    return node.dtype


def _array_axis(axis: Any, ndim: int) -> int:
    index = _static(axis)
    if not -ndim <= index < ndim:
        raise NotFused("the axis is out of bounds")
    return index % ndim


def _static(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise NotFused(f"{value!r} is no integer") from None


# --- element by element ----------------------------------------------------------------------------------------------


def _elementwise(kind: str, function: Any) -> Recorder:
    def record(trace: Trace, *values: Any, out: Any = None, dtype: Any = None, **keywords: Any) -> Any:
        _only_defaults(keywords, where=True, order="K", subok=True)
        if dtype is not None:
            raise NotFused("the argument dtype= is not fused")
        if isinstance(out, tuple):
            raise NotFused("out= is a tuple")
        if len(values) != FUNCTIONS[kind].operands:
            raise NotFused("the number of arguments is wrong")
        operands = [trace.operand(value) for value in values]
        node = _map(kind, function, [node for node, _, _ in operands], values, trace.placed(operands)[1])
        return _result(trace, node, operands, out)

    return record


def _map(kind: str, function: Any, nodes: Sequence[Node], values: Sequence[Any], queue: Any) -> Map:
    """Return the node of an element-wise function; raises `NotFused` where dpnp refuses the operands."""
    described = tuple(_descriptor(node, value) for node, value in zip(nodes, values, strict=True))
    dtype = result_dtype(function, described, queue)
    if dtype is None or not fusable(dtype):
        raise NotFused(f"{kind} of {', '.join(map(str, described))} is not fused")
    compute = _computing_dtype(kind, dtype, nodes, described, queue)
    kinds = FUNCTIONS[kind].only
    if scalar_type_of(compute).kind not in kinds:
        raise NotFused(f"{kind} of {compute} is not fused")
    for node in nodes:
        _check_number(node, compute)
    try:
        shape = np.broadcast_shapes(*(node.shape for node in nodes))
    except ValueError:
        raise NotFused("the shapes do not broadcast") from None
    return Map(shape, dtype, kind, tuple(nodes), compute)


def _computing_dtype(
    kind: str, dtype: np.dtype[Any], nodes: Sequence[Node], described: tuple[Any, ...], queue: Any
) -> np.dtype[Any]:
    if kind.startswith("logical_"):
        return np.dtype(bool)
    if FUNCTIONS[kind].computes == "result":
        return dtype
    common = nodes[0].dtype if len(nodes) == 1 else result_dtype(dpnp.add, described, queue)
    if common is None:
        raise NotFused(f"{kind} of {', '.join(map(str, described))} is not fused")
    return np.dtype(np.int8) if common.kind == "b" else common


def _check_number(node: Node, compute: np.dtype[Any]) -> None:
    if not isinstance(node, Number) or compute.kind not in "iu":
        return
    limits = np.iinfo(compute)
    if not limits.min <= node.value <= limits.max:
        raise NotFused(f"{node.value} is no value of {compute}")


for _kind in FUNCTIONS:
    if _kind not in ("where", "astype", "clip") and hasattr(dpnp, _kind):
        RECORDERS[_kind] = _elementwise(_kind, getattr(dpnp, _kind))
for _alias, _name in {"true_divide": "divide", "absolute": "abs", "bitwise_not": "invert"}.items():
    RECORDERS[_alias] = RECORDERS[_name]


@_records("power")
def _power(trace: Trace, base: Any, exponent: Any, out: Any = None, **keywords: Any) -> Any:
    """Record small integer powers as products; others are left to dpnp."""
    _only_defaults(keywords, where=True, order="K", subok=True, dtype=None)
    if isinstance(exponent, bool) or type(exponent) not in (int, float) or exponent not in (1, 2, 3, 4):
        raise NotFused("only powers with the exponents 1 to 4 are fused", "write a product")
    operand = trace.operand(base)
    node, _, queue = operand
    if queue is None:
        raise NotFused("no operand is an array")
    dtype = result_dtype(dpnp.power, (node.dtype, exponent), queue)
    if dtype is None or dtype.kind == "b" or not fusable(dtype):
        raise NotFused(f"power of {node.dtype} is not fused")
    result: Node = node if node.dtype == dtype else Map(node.shape, dtype, "astype", (node,), dtype)
    if exponent == 1:
        result = Map(node.shape, dtype, "positive", (result,), dtype)
    elif exponent == 3:
        result = Map(node.shape, dtype, "multiply", (Map(node.shape, dtype, "square", (result,), dtype), result), dtype)
    else:
        for _ in range(int(exponent) // 2):
            result = Map(node.shape, dtype, "square", (result,), dtype)
    return _result(trace, result, [operand], out)


@_records("where")
def _where(trace: Trace, *values: Any, **keywords: Any) -> Any:
    _only_defaults(keywords, order="K", out=None)
    if len(values) != 3:
        raise NotFused("the shape of the result depends on values")
    operands = [trace.operand(value) for value in values]
    nodes = [node for node, _, _ in operands]
    if isinstance(nodes[0], Number | Parameter) or any(isinstance(node, Parameter) for node in nodes[1:]):
        raise NotFused("the condition is no array")
    return _result(trace, _map("where", dpnp.where, nodes, values, trace.placed(operands)[1]), operands)


@_records("clip")
def _clip(trace: Trace, a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **keywords: Any) -> Any:
    _only_defaults(keywords, order="K", dtype=None)
    values = [a, a_min, a_max]
    if a_min is None or a_max is None:
        raise NotFused("clip with one limit is not fused", "use maximum or minimum")
    operands = [trace.operand(value) for value in values]
    nodes = [node for node, _, _ in operands]
    node = _map("clip", dpnp.clip, nodes, values, trace.placed(operands)[1])
    if node.shape != nodes[0].shape or node.dtype != nodes[0].dtype:
        raise NotFused("clip changes the shape or the dtype")
    return _result(trace, node, operands, out)


@_records("astype")
def _astype(trace: Trace, x: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", copy: Any = True,
            **keywords: Any) -> Any:
    _only_defaults({**keywords, "order": order}, order="K", subok=True, device=None)
    operand = trace.operand(x)
    node = operand[0]
    try:
        new = dpnp.dtype(dtype)
    except TypeError:
        raise NotFused(f"{dtype!r} is no dtype") from None
    if new == node.dtype and not copy:
        return x if type(x) is LazyArray else trace.capture(x)
    if not np.can_cast(node.dtype, new, casting) or result_dtype(dpnp.ndarray.astype, (node.dtype,), operand[2],
                                                                   dtype=new) != new:
        raise NotFused(f"{node.dtype} is not cast to {new}")
    return _result(trace, Map(node.shape, new, "astype", (node,), new), [operand])


@_records("copy")
def _copy(trace: Trace, a: Any, order: Any = "C", **keywords: Any) -> Any:
    _only_defaults({**keywords, "order": order}, order="K", subok=False, device=None, usm_type=None, sycl_queue=None)
    operand = trace.operand(a)
    node = operand[0]
    return _result(trace, Map(node.shape, node.dtype, "positive", (node,), node.dtype), [operand])


# --- views -----------------------------------------------------------------------------------------------------------


def _viewed(trace: Trace, x: Any, make: Callable[[Node], Node]) -> Any:
    """Return the view of an array that `make` gives for its node."""
    lazy = x if type(x) is LazyArray else trace.capture(x) if isinstance(x, dpnp.ndarray) else None
    if lazy is None:
        raise NotFused("the operand is no array")
    if trace.is_dirty(lazy):
        trace.write_back()
    node, usm_type, queue = trace.operand(lazy)
    return trace.lazy(make(node), usm_type or "device", queue, base=lazy)


@_records("transpose")
def _transpose(trace: Trace, a: Any, axes: Any = None) -> Any:
    def make(node: Node) -> Node:
        ndim = len(node.shape)
        if axes is None:
            return permute(node, tuple(reversed(range(ndim))))
        if not isinstance(axes, tuple | list):
            raise NotFused("axes= is no tuple")
        order = [_array_axis(axis, ndim) for axis in axes]
        if sorted(order) != list(range(ndim)):
            raise NotFused("axes= is no permutation")
        return permute(node, order)

    return _viewed(trace, a, make)


@_records("swapaxes")
def _swapaxes(trace: Trace, a: Any, axis1: Any, axis2: Any) -> Any:
    def make(node: Node) -> Node:
        order = list(range(len(node.shape)))
        first, second = _array_axis(axis1, len(order)), _array_axis(axis2, len(order))
        order[first], order[second] = order[second], order[first]
        return permute(node, order)

    return _viewed(trace, a, make)


@_records("moveaxis")
def _moveaxis(trace: Trace, a: Any, source: Any, destination: Any) -> Any:
    def make(node: Node) -> Node:
        ndim = len(node.shape)
        given = [axes if isinstance(axes, tuple | list) else (axes,) for axes in (source, destination)]
        origins, places = ([_array_axis(axis, ndim) for axis in axes] for axes in given)
        if len(origins) != len(places) or len(set(origins)) != len(origins) or len(set(places)) != len(places):
            raise NotFused("source and destination do not fit")
        order = [axis for axis in range(ndim) if axis not in origins]
        for place, origin in sorted(zip(places, origins, strict=True)):
            order.insert(place, origin)
        return permute(node, order)

    return _viewed(trace, a, make)


@_records("reshape")
def _reshape(trace: Trace, a: Any, newshape: Any = None, order: Any = "C", copy: Any = None, **keywords: Any) -> Any:
    shape = keywords.pop("shape", newshape)
    _only_defaults({**keywords, "order": order, "copy": copy}, order="K", copy=None)
    sizes = [_static(size) for size in (shape if isinstance(shape, tuple | list) else (shape,))]

    def make(node: Node) -> Node:
        known = math.prod([size for size in sizes if size != -1])
        if sizes.count(-1) == 1 and known:
            full = tuple(node.size // known if size == -1 else size for size in sizes)
        else:
            full = tuple(sizes)
        if min(full, default=0) < 0 or math.prod(full) != node.size:
            raise NotFused("the sizes do not fit")
        result = reshape(node, full)
        if isinstance(result, Reshape):
            below = node if isinstance(node, Reshape) else result.operand
            if (not isinstance(below, Reshape | Map) and isinstance(below, View)) or type(below).__name__ == "Array":
                copied = Map(node.shape, node.dtype, "positive", (node,), node.dtype)
                return Reshape(full, node.dtype, copied)
        return result

    return _viewed(trace, a, make)


@_records("ravel")
def _ravel(trace: Trace, a: Any, order: Any = "C") -> Any:
    return _reshape(trace, a, -1, order)


@_records("expand_dims")
def _expand_dims(trace: Trace, a: Any, axis: Any) -> Any:
    def make(node: Node) -> Node:
        axes = axis if isinstance(axis, tuple | list) else (axis,)
        ndim = len(node.shape) + len(axes)
        places = {_array_axis(place, ndim) for place in axes}
        if len(places) != len(axes):
            raise NotFused("an axis is repeated")
        old = iter(node.shape)
        return slice_axes(node, [None if place in places else (0, 1, next(old)) for place in range(ndim)])

    return _viewed(trace, a, make)


@_records("squeeze")
def _squeeze(trace: Trace, a: Any, axis: Any = None) -> Any:
    def make(node: Node) -> Node:
        shape = node.shape
        if axis is None:
            gone = {place for place, size in enumerate(shape) if size == 1}
        else:
            gone = {_array_axis(place, len(shape)) for place in (axis if isinstance(axis, tuple) else (axis,))}
        if any(shape[place] != 1 for place in gone):
            raise NotFused("an axis is longer than 1")
        return slice_axes(node, [0 if place in gone else (0, 1, size) for place, size in enumerate(shape)])

    return _viewed(trace, a, make)


@_records("broadcast_to")
def _broadcast_to(trace: Trace, array: Any, shape: Any, **keywords: Any) -> Any:
    _only_defaults(keywords, subok=False)
    sizes = tuple(_static(size) for size in (shape if isinstance(shape, tuple | list) else (shape,)))

    def make(node: Node) -> Node:
        try:
            fits = np.broadcast_shapes(node.shape, sizes) == sizes
        except ValueError:
            fits = False
        if not fits:
            raise NotFused("the shapes do not broadcast")
        return broadcast(node, sizes)

    return _viewed(trace, array, make)


@_records("flip")
def _flip(trace: Trace, m: Any, axis: Any = None) -> Any:
    def make(node: Node) -> Node:
        ndim = len(node.shape)
        axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        flipped = {_array_axis(place, ndim) for place in axes}
        return slice_axes(node, [(size - 1, -1, size) if place in flipped and size else (0, 1, size)
                                 for place, size in enumerate(node.shape)])

    return _viewed(trace, m, make)


@_records("__getitem__")
def _getitem(trace: Trace, a: Any, key: Any) -> Any:
    """Record basic indexing: integers, slices, new axes and an ellipsis."""
    keys = key if isinstance(key, tuple) else (key,)

    def make(node: Node) -> Node:
        entries: list[Any] = []
        consumed = sum(entry is not None and entry is not Ellipsis for entry in keys)
        missing = len(node.shape) - consumed
        if missing < 0 or sum(entry is Ellipsis for entry in keys) > 1:
            raise NotFused("there are too many indices")
        sizes = iter(node.shape)
        for entry in (*keys, Ellipsis) if not any(entry is Ellipsis for entry in keys) else keys:
            if entry is None:
                entries.append(None)
            elif entry is Ellipsis:
                entries += [(0, 1, next(sizes)) for _ in range(missing)]
            elif isinstance(entry, slice):
                size = next(sizes)
                start, stop, step = entry.indices(size)
                length = len(range(start, stop, step))
                entries.append((start if length else 0, step, length))
            elif isinstance(entry, int | np.integer) and not isinstance(entry, bool):
                entries.append(_array_axis(entry, next(sizes)))
            else:
                raise NotFused("an index is no integer, slice, ellipsis or None", "use dpnp.where or dpnp.take")
        return slice_axes(node, entries)

    return _viewed(trace, a, make)


# --- reductions ------------------------------------------------------------------------------------------------------


#: Elements that one result may be reduced from in a kernel; dpnp spreads larger reductions over work-groups.
_MOST_REDUCED = 1 << 14


def _reduction(kind: str, function: Any) -> Recorder:
    def record(trace: Trace, a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
               **keywords: Any) -> Any:
        _only_defaults(keywords, where=True, initial=None)
        if (dtype is not None and kind in ("max", "min", "any", "all")) or not isinstance(keepdims, bool):
            raise NotFused("the arguments are not fused")
        operand = trace.operand(a)
        node, _, queue = operand
        if queue is None:
            raise NotFused("the operand is no array")
        ndim = len(node.shape)
        axes = range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        places = tuple(sorted(_array_axis(place, ndim) for place in axes))
        if len(set(places)) != len(places) or not node.size:
            raise NotFused("there is nothing to reduce")
        if node.size > _MOST_REDUCED * math.prod(node.shape[axis] for axis in range(ndim) if axis not in places):
            raise NotFused("a single work-group would have to reduce many elements", "reduce fewer axes")
        given = {} if dtype is None else {"dtype": dtype}
        result = result_dtype(function, (node.dtype,), queue, **given)
        if result is None or not fusable(result) or (kind == "mean" and result.kind != "f"):
            raise NotFused(f"{kind} of {node.dtype} is not fused")
        shape = tuple(size for place, size in enumerate(node.shape) if place not in places)
        if places:
            name = "sum" if kind == "mean" else kind
            reduced: Node = Reduce(shape, result, name, node, places)
        else:
            reduced = Map(shape, result, "astype", (node,), result)
        if kind == "mean":
            count = Number((), None, math.prod(node.shape[place] for place in places))  # type: ignore[arg-type]
            reduced = Map(shape, result, "divide", (reduced, count), result)
        if keepdims:
            old = iter(shape)
            reduced = slice_axes(reduced, [None if place in places else (0, 1, next(old)) for place in range(ndim)])
        return _result(trace, reduced, [operand], out)

    return record


for _kind in ("sum", "prod", "max", "min", "mean", "any", "all"):
    RECORDERS[_kind] = _reduction(_kind, getattr(dpnp, _kind))
RECORDERS["amax"], RECORDERS["amin"] = RECORDERS["max"], RECORDERS["min"]


# --- products --------------------------------------------------------------------------------------------------------


def _product(function: Any, make: Callable[..., Node]) -> Recorder:
    """Return the recorder of a product of two arrays; `make` gives its node from nodes, dtype and arguments."""

    def record(trace: Trace, a: Any, b: Any, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        extra = {name: keywords.pop(name) for name in list(keywords) if name == "axes" and function is dpnp.tensordot}
        _only_defaults(keywords, casting="same_kind", order="K", dtype=None, subok=True, signature=None, extobj=None,
                       axes=None, axis=None)
        operands = [trace.operand(a), trace.operand(b)]
        if any(queue is None for _, _, queue in operands):
            raise NotFused("an operand is no array")
        nodes = [node for node, _, _ in operands]
        queue = trace.placed(operands)[1]
        dtype = result_dtype(dpnp.matmul, (nodes[0].dtype, nodes[1].dtype), queue)
        if dtype is None or dtype.kind == "b" or not fusable(dtype):
            raise NotFused(f"products of {nodes[0].dtype} and {nodes[1].dtype} are not fused")
        node = make(nodes[0], nodes[1], dtype, *arguments, **extra)
        return _result(trace, node, operands, out)

    return record


def _dot_node(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    if not a.shape or not b.shape:
        raise NotFused("a product with a 0-d array", "use multiply")
    if len(b.shape) == 1:
        return _tensordot_node(a, b, dtype, ((len(a.shape) - 1,), (0,)))
    return _tensordot_node(a, b, dtype, ((len(a.shape) - 1,), (len(b.shape) - 2,)))


def _inner_node(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    if not a.shape or not b.shape:
        raise NotFused("a product with a 0-d array", "use multiply")
    return _tensordot_node(a, b, dtype, ((len(a.shape) - 1,), (len(b.shape) - 1,)))


def _outer_node(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    return _tensordot_node(_flat(a), _flat(b), dtype, ((), ()))


def _vdot_node(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    return _tensordot_node(_flat(a), _flat(b), dtype, ((0,), (0,)))


def _flat(node: Node) -> Node:
    if len(node.shape) == 1:
        return node
    flat = reshape(node, (node.size,))
    if (isinstance(flat, Reshape) and isinstance(flat.operand, View)) or (type(node).__name__ == "Array" and isinstance(
        flat, Reshape
    )):
        return Reshape(flat.shape, node.dtype, Map(node.shape, node.dtype, "positive", (node,), node.dtype))
    return flat


def _tensordot_node(a: Node, b: Node, dtype: np.dtype[Any], axes: Any = 2) -> Node:
    if isinstance(axes, int):
        if axes < 0 or axes > min(len(a.shape), len(b.shape)):
            raise NotFused("axes= is too large")
        axes = (range(len(a.shape) - axes, len(a.shape)), range(axes))
    if not (isinstance(axes, tuple | list) and len(axes) == 2):
        raise NotFused("axes= is neither a number nor a pair")
    summed_a, summed_b = (
        [_array_axis(axis, len(node.shape)) for axis in ((own,) if isinstance(own, int) else own)]
        for own, node in zip(axes, (a, b), strict=True)
    )
    if len(summed_a) != len(summed_b) or len(set(summed_a)) != len(summed_a) or len(set(summed_b)) != len(summed_b):
        raise NotFused("axes= does not fit")
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    of_a = [next(letters) for _ in a.shape]
    of_b = [next(letters) for _ in b.shape]
    for axis_a, axis_b in zip(summed_a, summed_b, strict=True):
        of_b[axis_b] = of_a[axis_a]
    out = [letter for letter in of_a if letter not in of_b] + [letter for letter in of_b if letter not in of_a]
    return contraction(a, b, "".join(of_a), "".join(of_b), "".join(out), dtype)


RECORDERS["matmul"] = _product(dpnp.matmul, matmul_node)
RECORDERS["dot"] = _product(dpnp.dot, _dot_node)
RECORDERS["inner"] = _product(dpnp.inner, _inner_node)
RECORDERS["outer"] = _product(dpnp.outer, _outer_node)
RECORDERS["vdot"] = _product(dpnp.vdot, _vdot_node)
RECORDERS["tensordot"] = _product(dpnp.tensordot, _tensordot_node)


@_records("einsum")
def _einsum(trace: Trace, *operands: Any, out: Any = None, **keywords: Any) -> Any:
    _only_defaults(keywords, dtype=None, order="K", casting="safe", optimize=keywords.get("optimize", False))
    if not operands or not isinstance(operands[0], str):
        raise NotFused("only subscripts as text are fused", 'write them as text: "ij,jk->ik"')
    given = [trace.operand(value) for value in operands[1:]]
    if any(queue is None for _, _, queue in given):
        raise NotFused("an operand is no array")
    nodes = [node for node, _, _ in given]
    queue = trace.placed(given)[1]
    dtype = nodes[0].dtype
    for node in nodes[1:]:
        both = result_dtype(dpnp.matmul, (dtype, node.dtype), queue)
        if both is None:
            raise NotFused("the dtypes do not go together")
        dtype = both
    if dtype.kind == "b" or not fusable(dtype):
        raise NotFused(f"products of {dtype} are not fused")
    node = einsum_node(operands[0], nodes, dtype)
    if (len(nodes) == 1 and isinstance(node, View)) or type(node).__name__ == "Array":
        return _viewed(trace, operands[1], lambda _: node)
    return _result(trace, node, given, out)


@_records("linalg.multi_dot")
def _multi_dot(trace: Trace, arrays: Any, *, out: Any = None) -> Any:
    if not isinstance(arrays, list | tuple) or len(arrays) < 2:
        raise NotFused("there are fewer than two arrays")
    ndims = [getattr(array, "ndim", None) for array in arrays]
    if any(ndim != 2 for ndim in ndims[1:-1]) or ndims[0] not in (1, 2) or ndims[-1] not in (1, 2):
        raise NotFused("the arrays are no matrices")
    words = [chr(97 + place) + chr(98 + place) for place in range(len(arrays))]
    words[0] = words[0][-ndims[0] :]
    words[-1] = words[-1][: ndims[-1]]
    result = (words[0][0] if ndims[0] == 2 else "") + (words[-1][1] if ndims[-1] == 2 else "")
    return _einsum(trace, f"{','.join(words)}->{result}", *arrays, out=out)


