"""Reductions of many elements to one: in steps, so that no work-group reduces many.

The slowest of the axes that are summed is cut into pieces, work-groups reduce one piece each, and what they find is
reduced again.  The pieces do not depend on the device, and so neither does the result.
"""

from __future__ import annotations

import math
import string
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from tl_dpnp.graph.coalescing import with_fewer_summed_axes
from tl_dpnp.graph.functions import REDUCTIONS
from tl_dpnp.graph.nodes import Arange, Array, Contract, Map, Node, Part, Reduce, Reshape
from tl_dpnp.graph.views import part, permute, reshape, slice_axes
from tl_dpnp.graph.wide_reductions import LEAST_ELEMENTS
from tl_dpnp.graph.work_groups import WorkGroups

__all__ = ["PROCESSORS", "reduced", "summed_product"]

_Value = TypeVar("_Value")
#: What is cut for, where nothing else is given; the local memory does not matter.
PROCESSORS = WorkGroups(0)
#: Elements of the pieces of longer reductions, and those of a lane of a warp that are hardly worth pieces, at least.
_PIECE, _FEW_OF_A_LANE = 1 << 12, 16
#: Products of complex numbers that are added up one after another: vectors have no lanes of them.
_CHAIN = 1 << 7


def reduced(
    kind: str, node: Node, axes: Sequence[int], dtype: np.dtype[Any], device: WorkGroups = PROCESSORS
) -> Node:
    """Return the reduction of `node`, of a kind of `Reduce`, over one or more axes, which disappear."""
    shape = tuple(size for axis, size in enumerate(node.shape) if axis not in axes)
    whole = with_fewer_summed_axes(Reduce(shape, dtype, kind, node, tuple(sorted(axes))), set())
    node, axes = whole.operand, whole.axes
    slowest = next((axis for axis in axes if node.shape[axis] > 1), axes[0])
    rows = _rows_of_piece(node, axes, slowest, device)
    if not rows:
        return whole
    if isinstance(node, Reshape) and not shape:  # the order does not matter, and the operand may be in no memory
        return reduced(kind, node.operand, range(len(node.operand.shape)), dtype, device)
    others = [axis for axis in axes if axis != slowest]
    place = sum(axis not in axes for axis in range(slowest))  # of that axis once the others are gone
    if rows == 1:
        inner = reduced(kind, node, others, dtype, device)
        if device.lanes and isinstance(inner, Reduce):
            inner = replace(inner, is_partial=True)
        return reduced(kind, inner, [place], dtype, device)
    pieces, rest = divmod(node.shape[slowest], rows)
    inside = [axis + (axis > slowest) for axis in others]
    partial = Reduce((*shape[:place], pieces, *shape[place:]), dtype, kind,
                     _piece(node, slowest, 0, (pieces, rows)), (slowest + 1, *inside), is_partial=True)
    total = reduced(kind, partial, [place], dtype, device)
    if not rest:
        return total
    last = reduced(kind, _piece(node, slowest, pieces * rows, (rest,)), axes, dtype, device)
    return Map(shape, dtype, REDUCTIONS[kind].function, (total, last), dtype)


def _rows_of_piece(node: Node, axes: Sequence[int], slowest: int, device: WorkGroups) -> int:
    """Return how many indices of the slowest of the summed axes are reduced first, 0 where all are."""
    count = math.prod(node.shape[axis] for axis in axes)
    row = count // max(1, node.shape[slowest])
    if not device.lanes or (isinstance(node, Reduce) and node.is_partial):
        return max(1, _PIECE // row) if count > device.longest_reduction else 0
    # A lane waits for each element that it reads, where few others have something to do meanwhile.  It has as many of a
    # piece as then of the pieces, which the lanes of a warp share.
    are_columns = any(axis > slowest and axis not in axes and size > 1 for axis, size in enumerate(node.shape))
    lanes = 1 if are_columns else device.lanes
    if count <= 4 * lanes * _FEW_OF_A_LANE or node.size * lanes >= device.least_groups * device.lanes * count:
        return 0
    return max(1, lanes * max(_FEW_OF_A_LANE, math.isqrt(count // (lanes * device.lanes))) // row)


def summed_product(product: Contract, device: WorkGroups = PROCESSORS) -> Node:
    """Return a product, of which each result is a scalar product, as a reduction of products of elements.

    Vectors add these up in partial sums, which is faster, and as exact as other libraries are.  Products of complex
    numbers are added up in chains, and half floats as they are in products: in f32.
    """
    sizes = product.sizes
    own = set(product.operand_letters[0]) ^ set(product.operand_letters[1])
    if any(sizes[letter] != 1 for letter in own) or not product.size or product.dtype.kind not in "fciu" \
            or product.dtype == np.float16:
        return product
    one, left = _without(product.operands[0], product.operand_letters[0], own)
    other, right = _without(product.operands[1], product.operand_letters[1], own)
    summed = [letter for letter in left if letter not in product.letters]
    count = math.prod(sizes[letter] for letter in summed)
    if count < LEAST_ELEMENTS:  # products find matrices for these
        return product
    if product.dtype.kind == "c":
        return _in_chains(product, max(summed, key=sizes.__getitem__)) if count > _CHAIN else product
    elements = Map(one.shape, product.dtype, "multiply",
                   (one, permute(other, [right.index(letter) for letter in left])), product.dtype)
    total = reduced("sum", elements, [left.index(letter) for letter in summed], product.dtype, device)
    kept = [letter for letter in left if letter in product.letters]
    total = permute(total, [kept.index(letter) for letter in product.letters if letter not in own])
    return slice_axes(total, [None if letter in own else (0, 1, sizes[letter]) for letter in product.letters])


def _without(node: Node, letters: str, dropped: Container[str]) -> tuple[Node, str]:
    """Return an operand without the axes, of size 1, of some letters."""
    entries: list[int | tuple[int, int, int]] = [
        0 if letter in dropped else (0, 1, size) for letter, size in zip(letters, node.shape, strict=True)]
    return slice_axes(node, entries), "".join(letter for letter in letters if letter not in dropped)


def _in_chains(product: Contract, letter: str) -> Node:
    """Return a product as the sum of those of the pieces of a letter."""
    sizes = product.sizes
    length = max(1, _CHAIN * sizes[letter] // math.prod(
        size for name, size in sizes.items() if name not in product.letters))
    pieces, rest = divmod(sizes[letter], length)
    if pieces < 2:
        return product
    piece = next(name for name in string.ascii_letters if name not in sizes)
    chains = replace(
        product, shape=(*product.shape, pieces), letters=product.letters + piece,
        operand_letters=_pair(names.replace(letter, piece + letter) for names in product.operand_letters),
        operands=_pair(_piece(node, names.index(letter), 0, (pieces, length))
                       for node, names in zip(product.operands, product.operand_letters, strict=True)))
    total = reduced("sum", chains, [len(product.shape)], product.dtype)
    if not rest:
        return total
    last = replace(product, operands=_pair(
        _piece(node, names.index(letter), pieces * length, (rest,))
        for node, names in zip(product.operands, product.operand_letters, strict=True)))
    return Map(product.shape, product.dtype, "add", (total, last), product.dtype)


def _pair(values: Iterable[_Value]) -> tuple[_Value, _Value]:
    one, other = values
    return one, other


def _piece(node: Node, axis: int, start: int, sizes: tuple[int, ...], memo: dict[Node, Node] | None = None) -> Node:
    """Return the elements from `start` on of an axis, which becomes one axis or two of these sizes.

    Of what is computed element by element, only the arrays that it is computed from are cut.
    """
    memo = {} if memo is None else memo
    if node in memo:
        return memo[node]
    shape = *node.shape[:axis], *sizes, *node.shape[axis + 1 :]
    match node:
        case Array() | Arange():
            found: Node = _piece_of_array(node, axis, start, sizes, shape)
        case Part():
            found = part(_piece(node.operands[0], axis, start, sizes, memo), node.kind)
        case Map():
            found = replace(node, shape=shape, operands=tuple(
                _piece_of_operand(operand, axis - len(node.shape) + len(operand.shape), start, sizes, memo)
                for operand in node.operands))
        case _:
            entries = [(0, 1, size) for size in node.shape]
            entries[axis] = start, 1, math.prod(sizes)
            found = reshape(slice_axes(node, entries), shape)
    memo[node] = found
    return found


def _piece_of_array(
    node: Array | Arange, axis: int, start: int, sizes: tuple[int, ...], shape: tuple[int, ...]
) -> Array | Arange:
    stride = node.strides[axis]
    inner = [math.prod(sizes[place + 1 :]) for place in range(len(sizes))]
    strides = *node.strides[:axis], *(stride * size for size in inner), *node.strides[axis + 1 :]
    return replace(node, shape=shape, strides=strides, offset=node.offset + start * stride)


def _piece_of_operand(node: Node, axis: int, start: int, sizes: tuple[int, ...], memo: dict[Node, Node]) -> Node:
    """Return the piece of an operand, which may be broadcast along the axis."""
    if axis < 0:
        return node
    if node.shape[axis] > 1:
        return _piece(node, axis, start, sizes, memo)
    entries: list[tuple[int, int, int] | int | None] = [(0, 1, extent) for extent in node.shape]
    return slice_axes(node, [*entries[:axis], *[None] * (len(sizes) - 1), *entries[axis:]])
