"""Recorders of products (`tl_dpnp.graph.operations`)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.dpnp_rules import einsum_sees_diagonals
from tl_dpnp.graph.extents import base_of
from tl_dpnp.graph.inference import result_dtype
from tl_dpnp.graph.lazy import element_strides
from tl_dpnp.graph.nodes import Array, Contract, Map, Node, Reshape, View
from tl_dpnp.graph.products import contraction, einsum_node, matmul_node
from tl_dpnp.graph.recorders import (
    RECORDERS,
    Recorder,
    array_axis,
    array_operands,
    only_defaults,
    records,
    result_array,
    viewed,
)
from tl_dpnp.graph.trace import Trace, fusable
from tl_dpnp.graph.views import c_strides, reshape
from tl_dpnp.runtime.array_package import xp
from tl_dpnp.runtime.package_name import NAME
from tl_dpnp.target.catalog import FUSION

__all__: list[str] = []


# --- products --------------------------------------------------------------------------------------------------------


def _product(function: Any, make: Callable[..., Node]) -> Recorder:
    """Return the recorder of a product of two arrays; `make` gives its node from nodes, dtype and arguments."""

    known = inspect.signature(function).parameters

    def record(trace: Trace, a: Any, b: Any, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        if not keywords.keys() <= known.keys() or (out is not None and "out" not in known):
            raise NotFused(f"{NAME}'s function has no such argument")
        if function is xp.dot:
            _check_c_order(out)
        extra = {name: keywords.pop(name) for name in list(keywords) if name == "axes" and function is xp.tensordot}
        only_defaults(keywords, casting="same_kind", order="K", dtype=None, subok=True, signature=None, extobj=None,
                       axes=None, axis=None)
        operands = array_operands(trace, a, b)
        nodes = [node for node, _, _ in operands]
        queue = trace.placed(operands)[1]
        dtype = result_dtype(xp.matmul, (nodes[0].dtype, nodes[1].dtype), queue)
        if dtype is None or dtype.kind == "b" or not fusable(dtype):
            raise NotFused(f"products of {nodes[0].dtype} and {nodes[1].dtype} are not fused")
        node = make(nodes[0], nodes[1], dtype, *arguments, **extra)
        _leave_large_products(node)
        return result_array(trace, node, operands, out)

    return record


def _check_c_order(out: Any) -> None:
    """Raise `NotFused` for a result in another order: dpnp refuses it in some functions."""
    if isinstance(out, xp.ndarray) and not all(
        size == 1 or stride == packed
        for size, stride, packed in zip(out.shape, element_strides(out), c_strides(out.shape), strict=True)
    ):
        raise NotFused("out= is not in C order")


def _leave_large_products(node: Node) -> None:
    """Raise `NotFused` for a product whose matrices are so large that dpnp's is faster."""
    while isinstance(node, View):
        node = node.operand
    if not isinstance(node, Contract):
        return
    sizes = node.sizes
    batch = set(node.letters[:-2]).union(set(node.letters).intersection(*node.operand_letters))
    sides = [math.prod(sizes[c] for c in letters if c in node.letters and c not in batch)
             for letters in node.operand_letters]
    rows = node.letters[-2:-1]  # work-groups have rows of their own
    shared = max((math.prod(sizes[c] for c in letters if c not in batch)
                  for letters in node.operand_letters if rows not in letters), default=0)
    if min(sides) >= FUSION.large_side and shared * node.dtype.itemsize > FUSION.large_matrix:
        raise NotFused(f"{NAME} multiplies matrices of this size faster")


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
    first = _flat(a)
    if a.dtype.kind == "c":
        first = Map(first.shape, a.dtype, "conjugate", (first,), a.dtype)
    return _tensordot_node(first, _flat(b), dtype, ((0,), (0,)))


def _flat(node: Node) -> Node:
    if len(node.shape) == 1:
        return node
    flat = reshape(node, (node.size,))
    if (isinstance(flat, Reshape) and isinstance(flat.operand, View)) or (isinstance(node, Array) and isinstance(
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
        [array_axis(axis, len(node.shape)) for axis in ((own,) if isinstance(own, int) else own)]
        for own, node in zip(axes, (a, b), strict=True)
    )
    if len(summed_a) != len(summed_b) or len(set(summed_a)) != len(summed_a) or len(set(summed_b)) != len(summed_b):
        raise NotFused("axes= does not fit")
    if any(a.shape[one] != b.shape[other] for one, other in zip(summed_a, summed_b, strict=True)):
        raise NotFused("the shapes do not fit")
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    of_a = [next(letters) for _ in a.shape]
    of_b = [next(letters) for _ in b.shape]
    for axis_a, axis_b in zip(summed_a, summed_b, strict=True):
        of_b[axis_b] = of_a[axis_a]
    out = [letter for letter in of_a if letter not in of_b] + [letter for letter in of_b if letter not in of_a]
    return contraction(a, b, "".join(of_a), "".join(of_b), "".join(out), dtype)


RECORDERS["matmul"] = _product(xp.matmul, matmul_node)
RECORDERS["dot"] = _product(xp.dot, _dot_node)
RECORDERS["inner"] = _product(xp.inner, _inner_node)
RECORDERS["outer"] = _product(xp.outer, _outer_node)
RECORDERS["vdot"] = _product(xp.vdot, _vdot_node)
RECORDERS["tensordot"] = _product(xp.tensordot, _tensordot_node)


@records("einsum")
def _einsum(trace: Trace, *operands: Any, out: Any = None, **keywords: Any) -> Any:
    only_defaults(keywords, dtype=None, order="K", casting="safe", optimize=keywords.get("optimize", False))
    if not operands or not isinstance(operands[0], str):
        raise NotFused("only subscripts as text are fused", 'write them as text: "ij,jk->ik"')
    given = array_operands(trace, *operands[1:])
    nodes = [node for node, _, _ in given]
    queue = trace.placed(given)[1]
    dtype = nodes[0].dtype
    for node in nodes[1:]:
        both = result_dtype(xp.matmul, (dtype, node.dtype), queue)
        if both is None:
            raise NotFused("the dtypes do not go together")
        dtype = both
    if dtype.kind == "b" or not fusable(dtype):
        raise NotFused(f"products of {dtype} are not fused")
    node = einsum_node(operands[0], nodes, dtype, einsum_sees_diagonals)
    _leave_large_products(node)
    if out is None and len(nodes) == 1 and (isinstance(node, Array) or base_of(node) is base_of(nodes[0])):
        return viewed(trace, operands[1], lambda seen: einsum_node(operands[0], [seen], dtype, einsum_sees_diagonals))
    return result_array(trace, node, given, out)


@records("linalg.multi_dot")
def _multi_dot(trace: Trace, arrays: Any, *, out: Any = None) -> Any:
    if not isinstance(arrays, list | tuple) or len(arrays) < 2:
        raise NotFused("there are fewer than two arrays")
    _check_c_order(out)
    ndims = [getattr(array, "ndim", None) for array in arrays]
    if any(ndim != 2 for ndim in ndims[1:-1]) or ndims[0] not in (1, 2) or ndims[-1] not in (1, 2):
        raise NotFused("the arrays are no matrices")
    words = [chr(97 + place) + chr(98 + place) for place in range(len(arrays))]
    words[0] = words[0][-ndims[0] :]
    words[-1] = words[-1][: ndims[-1]]
    result = (words[0][0] if ndims[0] == 2 else "") + (words[-1][1] if ndims[-1] == 2 else "")
    return _einsum(trace, f"{','.join(words)}->{result}", *arrays, out=out)
