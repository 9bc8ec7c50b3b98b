"""Sums of scaled terms: ``alpha * (A @ B) + C - D``.

The terms of such a sum are accumulated in one temporary: arrays with axpby, which runs with whole vectors, then
products with gemm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.contraction import is_matrix_product
from tl_dpnp.graph.nodes import Array, Contract, Map, Node, Number, Parameter, operands_of, reached
from tl_dpnp.graph.placement import Placement, Places
from tl_dpnp.records import dataclass

__all__ = ["VECTOR_BYTES", "Term", "filled_lanes", "has_short_rows", "needs_accumulator", "sums_of", "terms_of"]

#: The widest vectors of CPUs.
VECTOR_BYTES = 64
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
            if isinstance(factor, Parameter):
                terms.append(Term(operand, sign, factor))
                return True
            if isinstance(factor.value, complex):
                return False
            terms.append(Term(operand, sign * factor.value))
            return True
    return False


def _is_like(node: Node, root: Node) -> bool:
    return node.shape == root.shape and node.dtype == root.dtype and (
        not isinstance(node, Map) or node.compute == node.dtype
    )


def has_short_rows(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """Return whether a matrix has rows that do not fill a vector, and longer columns that fill vectors better.

    Axes of size 1 do not count.
    """
    sizes = [size for size in shape if size > 1]
    if len(sizes) != 2:
        return False
    rows, columns = (filled_lanes(size, dtype) for size in reversed(sizes))
    return sizes[1] * dtype.itemsize < VECTOR_BYTES and sizes[0] > sizes[1] and columns > rows


def needs_accumulator(node: Node, shape: Sequence[int]) -> bool:
    """Return whether a product that is a result, with this shape in a work-group, is better computed beside it."""
    size = math.prod(shape) * node.dtype.itemsize
    return isinstance(node, Contract) and size <= _LARGEST_ACCUMULATOR and has_short_rows(shape, node.dtype)


def filled_lanes(size: int, dtype: np.dtype[Any]) -> float:
    """Return the part of the lanes of whole vectors that a row of `size` elements fills."""
    width = VECTOR_BYTES // dtype.itemsize
    return size / (-(-size // width) * width)


def sums_of(
    placement: Placement, roots: Collection[Node], stored: Sequence[Node], shapes: Mapping[Node, tuple[int, ...]],
    layouts: Container[Node], is_matrix: Callable[[Array, Places], bool],
) -> dict[Node, list[Term]]:
    """Return the stored nodes that are written as sums of matrices, with the terms of each.

    A product is part of a sum if nothing else reads it.  One product alone is better added element by element, unless
    its rows are short: `layouts` has those nodes whose columns are the fastest.  `shapes` are those in a work-group;
    `is_matrix` says whether an array at its places is one there.
    """
    uses = _uses(placement, roots, stored)

    def fits(node: Node, root: Node) -> bool:
        if isinstance(node, Array):
            return is_matrix(node, placement.places[root])
        used_once = node is root or (uses.get(node, 0) == 1 and node not in roots)
        return isinstance(node, Contract) and used_once and _is_product_of_matrices(node, shapes[node])

    kept = {node for node in stored if not (isinstance(node, Contract) and uses.get(node, 0) == 1)}.union(roots)
    sums: dict[Node, list[Term]] = {}
    for node in stored:
        if sum(size > 1 for size in shapes[node]) == 2:
            alone = node in roots and node in layouts and needs_accumulator(node, shapes[node])
            terms = [Term(node)] if alone else terms_of(node, kept)
            if terms is not None and all(fits(term.node, node) for term in terms):
                products = sum(isinstance(term.node, Contract) for term in terms)
                if products > 1 or (products == 1 and node in layouts):
                    sums[node] = terms
    return sums


def _uses(placement: Placement, roots: Collection[Node], stored: Collection[Node]) -> dict[Node, int]:
    """Return in how many ways what is stored reads nodes, directly or through what is computed where it is used; 2
    stands for more.
    """
    kept = {*stored, *roots}
    uses = dict.fromkeys(kept, 0)
    for node in reversed(reached(tuple(roots), placement.cuts)):
        for operand in operands_of(node):
            uses[operand] = min(2, uses.get(operand, 0) + (1 if node in kept else uses[node]))
    return uses


def _is_product_of_matrices(node: Contract, shape: Sequence[int]) -> bool:
    """Return whether a product, whose result has this shape in a work-group, has rows, columns and a depth there."""
    sizes = node.sizes | dict(zip(node.letters, shape, strict=True))
    left, right, out = ("".join(letter for letter in letters if sizes[letter] > 1)
                        for letters in (*node.operand_letters, node.letters))
    return is_matrix_product(left, right, out)
