"""Translations of products and reductions (`tl_dpnp.graph.pytorch.reading`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import fx

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.elimination import LARGEST_MATRIX
from tl_dpnp.graph.long_reductions import reduced
from tl_dpnp.graph.nodes import Accumulate, Arange, Contract, Eliminate, Map, Node, View, number_node
from tl_dpnp.graph.products import contraction, matmul_node
from tl_dpnp.graph.pytorch.movement import reshaped
from tl_dpnp.graph.pytorch.reading import DTYPES, Reading, Translation, translates, working_dtype
from tl_dpnp.graph.views import c_strides, slice_axes
from tl_dpnp.graph.work_groups import of_warps

__all__ = ["product_of"]

_BOOL, _INT64 = np.dtype(bool), np.dtype(np.int64)
#: Multiply-adds of a product of two matrices from which on it is left to PyTorch, whose library is made for large ones,
#: and the elements of the smallest of the three matrices: work-groups do rows of taller ones, and read all of that.
_LARGE_PRODUCT, _LARGE_MATRIX = 1 << 21, 1 << 10
#: What long reductions are cut for; the local memory does not matter.
_BLOCKS = of_warps(0)
#: Elements of an axis that one work-group may accumulate; PyTorch spreads more over work-groups.
_MOST_ACCUMULATED = 1 << 14


# --- products --------------------------------------------------------------------------------------------------------

_RESHAPES = ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")


def _before_reshape(reading: Reading, value: Any, kept: int) -> Node:
    """Return what was reshaped to an operand, where its last `kept` axes are the same; else the operand.

    PyTorch writes products with several axes of batches as products with one, which no grid has.
    """
    if isinstance(value, fx.Node) and str(value.target) in _RESHAPES:
        source = value.args[0]
        shape, other = reading.shape_of(value), reading.shape_of(source)
        if shape[len(shape) - kept :] == other[len(other) - kept :] and len(other) > kept:
            return reading.array(source)
    return reading.array(value)


def product_of(reading: Reading, result: fx.Node, make: Callable[[], Node]) -> Node:
    """Return what `make` gives, in PyTorch's shape and dtype; raises `NotFused` for what its libraries do better."""
    dtype = reading.dtype_of(result)
    if dtype.kind != "f":
        raise NotFused(f"products of {dtype} are not fused")
    node = make()
    _leave_large(node)
    return reshaped(reading.cast(node, dtype), reading.shape_of(result))


def _leave_large(node: Node) -> None:
    while isinstance(node, View):
        node = node.operand
    if isinstance(node, Contract):
        batch = set(node.operand_letters[0]) & set(node.operand_letters[1]) & set(node.letters)
        sizes = [size for letter, size in node.sizes.items() if letter not in batch]
        if math.prod(sizes) > _LARGE_PRODUCT and math.prod(sorted(sizes)[:2]) > _LARGE_MATRIX:
            raise NotFused("PyTorch's library multiplies matrices of this size faster")


def _product(reading: Reading, result: fx.Node, a: Node, b: Node) -> Node:
    """Return a product of matrices of batches; `a` and `b` may have more axes of the batch than PyTorch's result."""
    return product_of(reading, result, lambda: matmul_node(a, b, working_dtype(reading.dtype_of(result))))


@translates("mm.default", "mv.default")
def _matrix_product(reading: Reading, result: fx.Node, a: Any, b: Any) -> Node:
    return _product(reading, result, _before_reshape(reading, a, 1), reading.array(b))


@translates("bmm.default")
def _batched_product(reading: Reading, result: fx.Node, a: Any, b: Any) -> Node:
    whole = [_before_reshape(reading, value, 2) for value in (a, b)]
    if whole[0].shape[:-2] != whole[1].shape[:-2]:
        whole = [reading.array(value) for value in (a, b)]
    return _product(reading, result, whole[0], whole[1])


@translates("dot.default", "vdot.default")
def _dot(reading: Reading, result: fx.Node, a: Any, b: Any) -> Node:
    left, right = reading.array(a), reading.array(b)
    dtype = reading.dtype_of(result)
    if dtype.kind != "f":
        raise NotFused(f"products of {dtype} are not fused")
    return reading.cast(contraction(left, right, "a", "a", "", working_dtype(dtype), _BLOCKS), dtype)


# --- reductions ------------------------------------------------------------------------------------------------------


def _axes(reading: Reading, node: Node, axes: Any) -> tuple[int, ...]:
    """Return the axes to reduce, in order; none given are all."""
    ndim = len(node.shape)
    given = [] if axes is None else [axes] if isinstance(axes, int | fx.Node) else list(axes)
    places = sorted({place + ndim if place < 0 else place for place in reading.sizes(given)})
    return tuple(places) if places else tuple(range(ndim))


def _reduced(kind: str, node: Node, axes: tuple[int, ...], keeps: bool) -> Node:
    """Return a reduction; with `keeps`, the axes stay, with one element."""
    value = reduced(kind, node, axes, node.dtype, _BLOCKS) if axes else node
    if not keeps or not axes:
        return value
    return slice_axes(value, [None if axis in axes else (0, 1, size) for axis, size in enumerate(node.shape)])


def _reduction(kind: str) -> Translation:
    def translate(reading: Reading, result: fx.Node, x: Any, axes: Any = None, keepdim: Any = False,
                  **_named: Any) -> Node:
        node, dtype = reading.array(x), reading.dtype_of(result)
        working = _BOOL if kind in ("any", "all") else working_dtype(dtype)
        if working == _BOOL and isinstance(axes, list | tuple) and not axes:  # here no axes are none
            return reading.cast(reading.cast(node, _BOOL), dtype)
        value = _reduced(kind, reading.cast(node, working), _axes(reading, node, axes), bool(keepdim))
        return reading.cast(value, dtype)

    return translate


translates("sum.default", "sum.dim_IntList")(_reduction("sum"))
translates("prod.default", "prod.dim_int")(_reduction("prod"))
translates("amax.default", "max.default")(_reduction("max"))
translates("amin.default", "min.default")(_reduction("min"))
translates("any.default", "any.dim", "any.dims")(_reduction("any"))
translates("all.default", "all.dim", "all.dims")(_reduction("all"))


@translates("mean.default", "mean.dim")
def _mean(reading: Reading, result: fx.Node, x: Any, axes: Any = None, keepdim: Any = False, **_named: Any) -> Node:
    node, dtype = reading.array(x), reading.dtype_of(result)
    working, places = working_dtype(dtype), _axes(reading, node, axes)
    total = _reduced("sum", reading.cast(node, working), places, bool(keepdim))
    count = number_node(float(math.prod(node.shape[place] for place in places)))
    return reading.map("divide", [total, count], working, dtype)


def _moments(
    reading: Reading, node: Node, places: tuple[int, ...], correction: Any, keeps: bool
) -> tuple[Node, Node, Node]:
    """Return the variance, the mean and the differences from it: the mean of their squares is the variance.

    The mean keeps its axes.
    """
    working = node.dtype
    count = math.prod(node.shape[place] for place in places)
    centre = reading.map("divide", [_reduced("sum", node, places, True), number_node(float(count))], working, working)
    apart = reading.map("subtract", [node, centre], working, working)
    total = _reduced("sum", reading.map("square", [apart], working, working), places, keeps)
    free = max(count - (1 if correction is None else correction), 0)
    return reading.map("divide", [total, number_node(float(free))], working, working), centre, apart


@translates("var.correction", "std.correction")
def _variance(reading: Reading, result: fx.Node, x: Any, axes: Any = None, *, correction: Any = None,
              keepdim: Any = False) -> Node:
    node, dtype = reading.array(x), reading.dtype_of(result)
    places = _axes(reading, node, axes)
    node = reading.cast(node, working_dtype(dtype))
    variance, _, _ = _moments(reading, node, places, correction, bool(keepdim))
    if "std" in str(result.target):
        variance = reading.map("sqrt", [variance], variance.dtype, variance.dtype)
    return reading.cast(variance, dtype)


@translates("var_mean.correction", "std_mean.correction")
def _variance_and_mean(reading: Reading, result: fx.Node, x: Any, axes: Any = None, *, correction: Any = None,
                       keepdim: Any = False) -> list[Node]:
    node, dtype = reading.array(x), reading.array(x).dtype
    places = _axes(reading, node, axes)
    node = reading.cast(node, working_dtype(dtype))
    variance, centre, _ = _moments(reading, node, places, correction, bool(keepdim))
    if "std" in str(result.target):
        variance = reading.map("sqrt", [variance], variance.dtype, variance.dtype)
    return [reading.cast(variance, dtype), reading.cast(reshaped(centre, variance.shape), dtype)]


@translates("native_layer_norm.default")
def _layer_norm(reading: Reading, result: fx.Node, x: Any, normalized: Any, weight: Any, bias: Any,
                epsilon: float) -> list[Node]:
    node = reading.array(x)
    working = working_dtype(node.dtype)
    places = tuple(range(len(node.shape) - len(normalized), len(node.shape)))
    variance, centre, apart = _moments(reading, reading.cast(node, working), places, 0, True)
    shifted = reading.map("add", [variance, number_node(epsilon)], working, working)
    factor = reading.map("rsqrt", [shifted], working, working)
    node = reading.map("multiply", [apart, factor], working, working)
    if weight is not None:
        node = reading.map("multiply", [node, reading.array(weight)], working, working)
    if bias is not None:
        node = reading.map("add", [node, reading.array(bias)], working, working)
    return [reading.cast(part, DTYPES[own.dtype])
            for part, own in zip((node, centre, factor), result.meta["val"], strict=True)]


def _first_extreme(extreme: str) -> Translation:
    """Return the translation of ``argmax`` or ``argmin``: the least index of an extreme, or of NaN."""
    def translate(reading: Reading, result: fx.Node, x: Any, axis: Any = None, keepdim: Any = False) -> Node:
        node = reading.array(x)
        axes = _axes(reading, node, axis)
        counted = c_strides([size if place in axes else 1 for place, size in enumerate(node.shape)])
        strides = tuple(stride if place in axes else 0 for place, stride in enumerate(counted))
        numbers = Arange(node.shape, _INT64, strides)
        compute = np.dtype(np.int8) if node.dtype == _BOOL else node.dtype
        found = reading.map("equal", [node, _reduced(extreme, node, axes, True)], compute, _BOOL)
        if node.dtype.kind == "f":
            found = reading.map("logical_or", [found, reading.map("isnan", [node], node.dtype, _BOOL)], _BOOL, _BOOL)
        behind = number_node(math.prod(node.shape[place] for place in axes))
        places = Map(node.shape, _INT64, "where", (found, numbers, behind), _INT64)
        return _reduced("min", places, axes, bool(keepdim))

    return translate


translates("argmax.default")(_first_extreme("max"))
translates("argmin.default")(_first_extreme("min"))


@translates("cumsum.default", "cumprod.default")
def _accumulated(reading: Reading, result: fx.Node, x: Any, axis: Any, **_named: Any) -> Node:
    node, dtype = reading.array(x), reading.dtype_of(result)
    if not node.shape:
        raise NotFused("the operand has no axis")
    place = _axes(reading, node, axis)[0]
    if node.shape[place] > _MOST_ACCUMULATED:
        raise NotFused("a single work-group would have to accumulate many elements")
    kind = "sum" if "cumsum" in str(result.target) else "prod"
    working = working_dtype(dtype)
    return reading.cast(Accumulate(node.shape, working, kind, reading.cast(node, working), place), dtype)


# --- small matrices --------------------------------------------------------------------------------------------------


def _small(reading: Reading, value: Any) -> Node:
    node = reading.array(value)
    if node.shape[-1] > LARGEST_MATRIX or node.dtype.itemsize < 4:
        raise NotFused(f"matrices larger than {LARGEST_MATRIX}×{LARGEST_MATRIX} are left to PyTorch's library")
    return node


@translates("linalg_inv_ex.default")
def _inverse(reading: Reading, result: fx.Node, x: Any, **_named: Any) -> list[Node]:
    """Translate inverses, and whether a matrix has none, where PyTorch has the number of the pivot that is zero."""
    node = _small(reading, x)
    return [Eliminate(node.shape, node.dtype, "inv", (node,)), _singular(reading, node)]


@translates("_linalg_solve_ex.default")
def _solution(reading: Reading, result: fx.Node, a: Any, b: Any, *, left: bool = True, **_named: Any) -> list[Any]:
    node, right = _small(reading, a), reading.array(b)
    if not left or len(right.shape) != len(node.shape) or right.shape[:-1] != node.shape[:-1]:
        raise NotFused("the right-hand sides are no columns of as many matrices")
    if any(user.args[1] in (1, 2) for user in result.users):
        raise NotFused("its factors are used")
    return [Eliminate(right.shape, node.dtype, "solve", (node, right)), None, None, _singular(reading, node)]


def _singular(reading: Reading, node: Node) -> Node:
    singular = Eliminate(node.shape[:-2], _BOOL, "singular", (node,))
    return Map(singular.shape, np.dtype(np.int32), "astype", (singular,), np.dtype(np.int32))
