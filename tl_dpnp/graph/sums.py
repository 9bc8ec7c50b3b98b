"""Sums of scaled terms: ``alpha * (A @ B) + C - D``.

The terms of such a sum are accumulated in one temporary: arrays with axpby, which runs with whole vectors, then
products with gemm.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tl_dpnp.graph.nodes import Contract, Map, Node, Number, Parameter

__all__ = ["Term", "has_short_rows", "needs_accumulator", "terms_of"]

#: The widest vectors of CPUs, and the part of their lanes below which a row counts as short.
_VECTOR_BYTES, _SHORT = 64, 0.8
#: Bytes of a product that is accumulated beside its place: work-groups have little memory of their own.
_LARGEST_ACCUMULATOR = 1 << 14


@dataclass(frozen=True)
class Term:
    """``scale * parameter * node``, without the parameter where that is None."""

    node: Node
    scale: float = 1.0
    parameter: Parameter | None = None


def terms_of(node: Node, stored: Container[Node]) -> list[Term] | None:
    """Return the terms that a node is the sum of, None where it is none, or the terms differ in shape or dtype.

    Nodes in `stored`, other than the first one, and products are terms as they are.  A sum that is scaled as a whole
    is not taken apart, nor are two factors made one: either could overflow where the original does not.
    """
    if node.dtype.kind != "f" or node.dtype.itemsize < 4:  # half floats would be rounded at each term
        return None
    terms: list[Term] = []
    return terms if isinstance(node, Map) and _collect(node, 1.0, node, stored, terms) else None


def _collect(node: Node, sign: float, root: Node, stored: Container[Node], terms: list[Term]) -> bool:
    """Add the terms of ``sign * node`` and return whether there are any."""
    if not _is_like(node, root):
        return False
    if not isinstance(node, Map) or (node is not root and node in stored):
        terms.append(Term(node, sign))
        return True
    match node.kind, node.operands:
        case "add" | "subtract", (left, right):
            other = -sign if node.kind == "subtract" else sign
            return _collect(left, sign, root, stored, terms) and _collect(right, other, root, stored, terms)
        case "positive" | "astype", (operand,):
            return _collect(operand, sign, root, stored, terms)
        case "negative", (operand,):
            return _collect(operand, -sign, root, stored, terms)
        case "multiply", (Number() | Parameter() as factor, operand) | (operand, Number() | Parameter() as factor):
            if not _is_like(operand, root) or (isinstance(operand, Map) and operand not in stored):
                return False
            terms.append(Term(operand, sign, factor) if isinstance(factor, Parameter) else
                         Term(operand, sign * factor.value))
            return True
    return False


def _is_like(node: Node, root: Node) -> bool:
    return node.shape == root.shape and node.dtype == root.dtype and (
        not isinstance(node, Map) or node.compute == node.dtype
    )


def has_short_rows(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Return whether a matrix has rows that do not fill vectors, and longer columns that fill them better.

    Axes of size 1 do not count.
    """
    sizes = [size for size in shape if size > 1]
    if len(sizes) != 2:
        return False
    rows, columns = (_filled_lanes(size, dtype) for size in reversed(sizes))
    return rows < _SHORT and sizes[0] > sizes[1] and columns > rows


def needs_accumulator(node: Node, shape: Sequence[int]) -> bool:
    """Return whether a product that is a result, with this shape in a work-group, is better computed beside it."""
    size = math.prod(shape) * node.dtype.itemsize
    return isinstance(node, Contract) and size <= _LARGEST_ACCUMULATOR and has_short_rows(shape, node.dtype)


def _filled_lanes(size: int, dtype: np.dtype[Any]) -> float:
    """Return the part of the lanes of whole vectors that a row of `size` elements fills."""
    width = _VECTOR_BYTES // dtype.itemsize
    return size / (-(-size // width) * width)
