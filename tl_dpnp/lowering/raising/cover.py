"""Whether the tiles of a call are the product, no more and no less: each element of C is stored once, with all terms.

Sizes and the number of work-groups are known here, so that all indices are compared as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tl_dpnp.language import ops
from tl_dpnp.language.extents import AXES, Extents
from tl_dpnp.lowering.raising.numbers import Array, Number, Unraised, check_size
from tl_dpnp.lowering.raising.product import Product, product_of
from tl_dpnp.lowering.raising.tiles import Call, Stored, Tile, Trace
from tl_dpnp.lowering.raising.trace import traced

__all__ = ["Cover"]

#: Calls that are remembered.
_MOST_CALLS = 256


class Cover:
    """What calls of a function make of the product that it was raised to.

    With `takes_extents`, its last parameters are the extents of the launch.
    """

    def __init__(self, function: ops.Function, takes_extents: bool = False) -> None:
        self._function, self._takes_extents = function, takes_extents
        self._known: dict[tuple[Sequence[tuple[int, ...]], Extents], str | None] = {}

    @property
    def refused(self) -> tuple[str, ...]:
        """Why calls so far were not the product."""
        return tuple(dict.fromkeys(reason for reason in [*self._known.values()] if reason is not None))

    def misfit(self, shapes: Sequence[tuple[int, ...]], extents: Extents) -> str | None:
        """Return why a call with arrays of these shapes, one for each parameter, is not the product; None if it is."""
        key = tuple(shapes), extents
        if key not in self._known:
            if len(self._known) >= _MOST_CALLS:
                self._known.clear()
            try:
                self._look(shapes, extents)
                self._known[key] = None
            except Unraised as reason:
                self._known[key] = str(reason)
        return self._known[key]

    def _look(self, shapes: Sequence[tuple[int, ...]], extents: Extents) -> None:
        names = [parameter.name for parameter in self._function.parameters]
        scalars = {}
        if self._takes_extents:
            scalars, extents = dict(zip(names[-len(AXES) :], extents, strict=True)), (math.prod(extents), 1, 1)
        by_name = dict(zip(names, shapes, strict=True))
        trace = traced(self._function, Call(by_name, extents, scalars))
        product = product_of(trace)
        if product != product_of(traced(self._function)):
            raise Unraised("another product than that of other calls")
        _check_sizes(product, by_name)
        for tile in (*trace.loaded, *(stored.tile for stored in trace.stored)):
            _check_inside(tile, by_name[tile.view.parameter])
        for stored in trace.stored:
            _check_sums(stored, by_name, product, trace.lengths)
        _check_once(trace, by_name[product.c])


def _check_sizes(product: Product, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that the arrays have the sizes of a product, whose sums have terms."""
    first, second = (shapes[name][:2][::-1] if flag else shapes[name][:2]
                     for name, flag in zip((product.a, product.b), product.transposes, strict=True))
    if (first[0], second[1]) != shapes[product.c][:2] or first[1] != second[0] or not first[1]:
        raise Unraised(f"sizes {first} and {second} are not those of factors of {shapes[product.c]}")
    if len({shapes[name][2] for name in product.slices}) > 1:
        raise Unraised("there are not as many matrices in each batch")


def _known(*numbers: Number) -> tuple[Array, ...]:
    found = tuple(number for number in numbers if number is not None)
    if len(found) < len(numbers):
        raise Unraised("places of tiles depend on scalar arguments or on elements")
    return found


def _check_inside(tile: Tile, shape: tuple[int, ...]) -> None:
    """Check that what is accessed without a check lies inside, and that what a check leaves out is outside of all.
    """
    *indices, mask = _known(*tile.indices, tile.mask)
    is_wrong = np.asarray(False)
    if tile.view.is_slice:
        (place,) = _known(tile.view.slice)
        is_wrong = (place < 0) | (place >= shape[2])
    for index, extent, size, is_checked, bounds in zip(
            indices, tile.access.extents, shape, tile.access.checked_modes, tile.view.ranges, strict=False):
        first, last = _known(*bounds)
        check_size(index, mask, first, last, is_wrong)
        is_below, is_beyond = index < first, index + extent > last
        if is_checked:
            is_below, is_beyond = is_below & (first > 0), is_beyond & (last < size)
        is_wrong = is_wrong | is_below | is_beyond | (first < 0) | (first > last) | (last > size)
    if np.any(is_wrong & mask):
        raise Unraised(f"{tile.access.mnemonic} in line {tile.access.span.line} reaches beyond {tile.access.memref}")


def _places(tile: Tile) -> tuple[Array, Array]:
    """Return the indices of the first element along the rows and the columns of the matrix that a tile is."""
    first, second = _known(*tile.indices)
    return (second, first) if tile.access.transpose else (first, second)


def _check_sums(
    stored: Stored, shapes: Mapping[str, tuple[int, ...]], product: Product, lengths: Sequence[int]
) -> None:
    """Check that sums have all terms of the elements that they are stored to, each once."""
    rows, columns = _places(stored.tile)
    shape = shapes[product.c][:2]
    size = shape[::-1] if stored.tile.access.transpose else shape
    tile_rows, tile_columns = stored.tile.access.type.shape
    (mask,) = _known(stored.tile.mask)
    check_size(rows, columns, mask)
    # Of tiles beyond the matrix nothing is stored.
    is_seen = (rows < size[0]) & (rows + tile_rows > 0) & (columns < size[1]) & (columns + tile_columns > 0) & mask
    if isinstance(stored.sum.base, Tile):
        pairs = *zip(_places(stored.sum.base), (rows, columns), strict=True), *_slices(stored.tile, stored.sum.base)
        _check_same(pairs, is_seen, "sums begin with elements of another place")
    depth = shapes[product.a][0 if product.transposes[0] else 1]
    starts: list[Array] = []
    ends: list[Array] = []
    for term in stored.sum.terms:
        first, second = (factor for factor in term.factors if isinstance(factor, Tile))
        (row, inner), (other, column) = _places(first), _places(second)
        (term_mask,) = _known(term.mask)
        _check_same([(row, rows), (column, columns), (inner, other), *_slices(stored.tile, first, second)],
                    is_seen & term_mask,
                    "factors are of other rows, columns or terms than those of the sum that they are added to")
        loops = [axis for axis in term.loops if axis not in stored.tile.loops]
        begin = np.clip(inner, 0, depth)
        end = np.clip(inner + first.access.type.columns, 0, depth)
        for found, bound in ((starts, begin), (ends, end)):
            found.append(_by_lanes(np.where(term_mask & (begin < end), bound, depth), loops, lengths))
    lanes = np.broadcast_shapes(*(array.shape[1:] for array in starts))
    first_terms, last_terms = (np.concatenate([
        np.broadcast_to(array, (len(array), *lanes)) for array in found]) for found in (starts, ends))
    order = np.argsort(first_terms, axis=0, kind="stable")
    first_terms, last_terms = (np.take_along_axis(found, order, axis=0) for found in (first_terms, last_terms))
    is_whole = (first_terms[0] == 0) & (last_terms[-1] == depth) & (
        first_terms[1:] == last_terms[:-1]).all(axis=0)
    if np.any(~is_whole & is_seen):
        raise Unraised(f"sums do not have each of the {depth} terms once")


def _slices(tile: Tile, *others: Tile) -> Iterator[tuple[Array, Array]]:
    """Yield which matrices of batches tiles are of, each beside that of a first one."""
    for other in others:
        if other.view.is_slice:
            first, second = _known(tile.view.slice, other.view.slice)
            yield first, second


def _check_same(pairs: Sequence[tuple[Array, Array]], mask: Array, reason: str) -> None:
    for one, other in pairs:
        check_size(one, other, mask)
        if np.any((one != other) & mask):
            raise Unraised(reason)


def _by_lanes(array: Array, loops: Sequence[int], lengths: Sequence[int]) -> Array:
    """Return the values of all iterations of some loops along a new first axis, for each of what is outside of these.
    """
    dimensions = len(lengths)
    array = array.reshape((*(1,) * (dimensions - array.ndim), *array.shape))
    inner = [-(axis + 1) for axis in loops]
    whole = [*array.shape]
    for axis in loops:
        whole[-(axis + 1)] = lengths[axis]
    array = np.broadcast_to(array, whole)
    check_size(array)
    moved = np.moveaxis(array, inner, range(len(inner)))
    kept = [1 if dimension - dimensions in inner else size for dimension, size in enumerate(whole)]
    return moved.reshape((-1, *kept))


def _check_once(trace: Trace, shape: tuple[int, ...]) -> None:
    """Check that each element of the result is stored once; the matrices of a batch lie below one another."""
    boxes: list[list[Array]] = [[], [], [], []]
    for stored in trace.stored:
        access = stored.tile.access
        first, second, mask = _known(*stored.tile.indices, stored.tile.mask)
        whole = [1] * len(trace.lengths)
        for axis in stored.tile.loops:
            whole[-(axis + 1)] = trace.lengths[axis]
        mask = np.broadcast_to(mask, whole)
        check_size(mask)
        (number,) = _known(stored.tile.view.slice) if stored.tile.view.is_slice else (np.asarray(0),)
        below = np.broadcast_to(number, whole)[mask]
        for mode, index in enumerate((first, second)):
            index = np.broadcast_to(index, whole)[mask]
            above = below * shape[0] if mode == 0 else 0
            boxes[2 * mode].append(np.clip(index, 0, shape[mode]) + above)
            boxes[2 * mode + 1].append(np.clip(index + access.extents[mode], 0, shape[mode]) + above)
    top, bottom, left, right = map(np.concatenate, boxes)
    rows, columns = np.unique(np.concatenate((top, bottom, [0, math.prod((shape[0], *shape[2:]))]))), np.unique(
        np.concatenate((left, right, [0, shape[1]])))
    check_size(rows[:, None], columns)
    # How often each of the parts that the edges of all tiles make is stored, from the changes at the edges.
    counts = np.zeros((rows.size, columns.size), np.int64)
    for row, column, sign in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
        np.add.at(counts, (np.searchsorted(rows, row), np.searchsorted(columns, column)), sign)
    stores = counts.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    if not stores.all():
        raise Unraised("some elements of the result are not stored")
    if (stores > 1).any():
        raise Unraised("some elements of the result are stored more than once")
