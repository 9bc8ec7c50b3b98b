"""Which results a nest may store past the caches, with streaming (non-temporal) stores.

An ordinary store of a cache line first reads the line, which a streaming store does not: from memory a product moves a
quarter less.  It pays for whole lines only, and for results that the nest does not read.  So a result that is one
piece of memory is computed in the work-item's own memory, and what whole lines there are of it is stored after each
tile of columns.  That costs next to nothing even where columns are whole lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tl_dpnp.lowering.nest import Access, Buffer, Loop, Nest, Node, leaves, loops_of
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["StreamedResult", "streamed_result"]

#: Bytes of a result that is streamed, which needs whole lines, and of a tile of it, which should stay in the cache
#: nearest to the core.
_LEAST_STAGED, _LARGEST_TILE = 2 * CACHE_LINE, 1 << 14


class StreamedResult(NamedTuple):
    """A result that is computed elsewhere, and the loops over tiles of its columns, from the first to the last.

    A column has `column` elements, a tile up to `tile`.  Without loops the whole result is one tile.
    """

    buffer: Buffer
    loops: frozenset[str]
    column: int
    tile: int


def streamed_result(nest: Nest) -> StreamedResult | None:
    """Return the operand that may be computed elsewhere, one tile of its columns after the other or all at once."""
    for buffer in _only_stored(nest):
        if _is_one_piece(buffer):
            loops = _loops_over_columns(nest, buffer)
            column = buffer.strides[-1]
            assert isinstance(column, int)
            tiles = [loop.step * column for loop in loops]
            if loops and tiles[0] * buffer.element.bytes >= CACHE_LINE and (
                max(tiles) * buffer.element.bytes <= _LARGEST_TILE
            ):
                return StreamedResult(buffer, frozenset(loop.variable for loop in loops), column, max(tiles))
            if not loops and buffer.elements * buffer.element.bytes <= _LARGEST_TILE:
                return StreamedResult(buffer, frozenset(), column, buffer.elements)
    return None


def _loops_over_columns(nest: Nest, buffer: Buffer) -> list[Loop]:
    """Return the outermost loops that store a result if each iteration stores whole columns, in ascending order."""
    loops: list[Loop] = []
    next_column = 0
    for node, targets in _parts(nest.body, buffer):
        if not isinstance(node, Loop) or node.kind != "serial" or node.derived or node.guards:
            return []
        range_ = node.static_range
        if not range_ or range_.start != next_column or not all(_stays_in_tile(target, node) for target in targets):
            return []
        loops.append(node)
        next_column = range_[-1] + node.step
    return loops if next_column == buffer.shape[-1] else []


def _parts(nodes: Sequence[Node], buffer: Buffer) -> Iterator[tuple[Node, list[Access]]]:
    """Yield the nodes that store a buffer, with how they do; instead of loops that do not move it, what they hold."""
    for node in nodes:
        targets = [leaf.assign.target for leaf in leaves((node,)) if leaf.assign.target.buffer.name == buffer.name]
        if isinstance(node, Loop) and node.static_range is not None and len(node.static_range) == 1 and not (
            node.guards or any(node.variable in index for target in targets for index in target.indices)
        ):
            yield from _parts(node.body, buffer)
        elif targets:
            yield node, targets


def _stays_in_tile(target: Access, loop: Loop) -> bool:
    """Whether a loop moves an access along its last mode only, and what it does inside of an iteration is in a tile."""
    *others, columns = target.indices
    if loop.variable not in columns or any(loop.variable in other for other in others):
        return False
    inner = {variable: values for inside in loops_of(loop.body) for variable, values in _values(inside)}
    within = [inner.get(variable) for variable in columns if variable != loop.variable]
    known = [values for values in within if values is not None]
    return len(known) == len(within) and sum(values[-1] for values in known) < loop.step


def _values(loop: Loop) -> list[tuple[str, range]]:
    """Return the variables of a loop with the values that they take, as far as those are known."""
    ranges = [(loop.variable, loop.static_range), *((one.variable, one.static_range) for one in loop.derived)]
    return [(variable, range_) for variable, range_ in ranges if range_]


def _only_stored(nest: Nest) -> list[Buffer]:
    """Return the operands that are overwritten and not read."""
    read = {access.buffer.name for leaf in leaves(nest.body) for access in leaf.assign.reads}
    return [leaf.assign.target.buffer for leaf in leaves(nest.body)
            if leaf.assign.target.buffer.scope == "global" and leaf.assign.update == "set"
            and leaf.assign.target.buffer.name not in read]


def _is_one_piece(buffer: Buffer) -> bool:
    """Whether elements follow one another in memory, and are as many as are worth copying."""
    size = 1
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        if not isinstance(extent, int) or stride != size:
            return False
        size *= extent
    return not buffer.element.is_boolean and size * buffer.element.bytes >= _LEAST_STAGED
