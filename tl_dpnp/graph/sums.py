"""Sums of scaled terms: ``alpha * (A @ B) + C - D``.

The terms of such a sum are accumulated in one temporary: arrays with axpby, which runs with whole vectors, then
products with gemm.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from tl_dpnp.graph.nodes import Map, Node, Number, Parameter

__all__ = ["Term", "terms_of", "vector_share"]

_VECTOR_BYTES = 64


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


def vector_share(size: int, dtype: np.dtype) -> float:  # type: ignore[type-arg]
    """Return which part of the lanes of whole vectors a row of `size` elements fills."""
    width = _VECTOR_BYTES // dtype.itemsize
    return size / (-(-size // width) * width)
