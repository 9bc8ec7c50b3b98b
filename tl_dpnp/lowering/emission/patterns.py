"""Which loads and shuffles, or which stores, an access of a vector takes.

The lanes of an access are at offsets from one address.  Neighbours in memory are loaded together, elements that several
lanes share once, and what lies within a few whole vectors of a small buffer is taken from these, which other accesses
use as well.  There are no gathers and no scatters: on x86-64 they cost as much as scalar accesses.

SPIR-V knows vectors of 2, 4, 8 and 16 elements (and of 3, which is no use here).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

__all__ = ["SHUFFLE_OPERANDS", "Chunk", "Offset", "Pattern", "are_neighbours", "load_pattern", "store_runs"]

#: Vectors that one shuffle can choose from.
SHUFFLE_OPERANDS = 2


class Offset(NamedTuple):
    """An offset in elements: a number, and multiples of strides that are known at run time, by name."""

    strides: tuple[tuple[str, int], ...]
    known: int

    def next(self, count: int) -> Offset:
        """Return the offset of the element `count` places further."""
        return Offset(self.strides, self.known + count)


class Chunk(NamedTuple):
    """Consecutive elements that are loaded or stored together; their number is a power of two."""

    start: Offset
    width: int


class Pattern(NamedTuple):
    """The chunks to load, and for each lane of the result the chunk and the place in it that it comes from."""

    chunks: tuple[Chunk, ...]
    lanes: tuple[tuple[int, int], ...]


@lru_cache(maxsize=4096)  # accesses of unrolled loops are much alike
def load_pattern(
    offsets: tuple[Offset, ...], width: int, extent: int | None, *, shared: bool = False,
    block: frozenset[Offset] = frozenset(), overlaps: bool = True,
) -> Pattern:
    """Return how to load a vector whose lanes are at `offsets`.

    `width` is the widest vector.  `extent` is the number of elements that may be loaded from the address on; None
    where that is not known, or where the address changes from one access to the next.  Where other vectors have each
    element in all lanes, elements are `shared`: two of them are then mixed from those.  All elements of a `block` may
    be loaded; where a few neighbours do not have all lanes, the whole block is, so that others take theirs from it.
    Chunks that are cut from neighbours overlap if they may.
    """
    elements = sorted(set(offsets))
    if block:
        return _pattern(offsets, _chunks_of_block(elements, sorted(block), width))
    if shared and len(elements) == 2:
        return _pattern(offsets, [Chunk(element, 1) for element in elements])
    runs = _runs(elements)
    if len(runs) > 1 and extent is not None and not any(offset.strides for offset in elements):
        windows = sorted({_window(offset.known, width, extent) for offset in elements})
        if extent >= width and len(windows) <= SHUFFLE_OPERANDS:
            return _pattern(offsets, [Chunk(Offset((), start), width) for start in windows])
    return _pattern(offsets, [chunk for run in runs for chunk in _chunks(run, width, overlaps)])


def store_runs(offsets: Sequence[Offset], *, overlaps: bool = True) -> list[tuple[int, Chunk]]:
    """Return the chunks to store, each with the lane that it starts from.

    A run of lanes that are neighbours in memory is stored as one chunk, or as two that overlap, or as several if they
    must not.  Lanes at the end that are the same element are stored once.
    """
    lanes = len(offsets)
    while len(offsets) > 1 and offsets[-1] == offsets[-2]:
        offsets = offsets[:-1]
    result: list[tuple[int, Chunk]] = []
    first = 0
    for lane in range(1, len(offsets) + 1):
        if lane < len(offsets) and offsets[lane] == offsets[lane - 1].next(1):
            continue
        for chunk in _chunks(offsets[first:lane], lanes, overlaps):
            result.append((first + chunk.start.known - offsets[first].known, chunk))
        first = lane
    return result


def are_neighbours(offsets: Sequence[Offset]) -> bool:
    """Return whether lanes follow one another in memory."""
    return all(after == before.next(1) for before, after in pairwise(offsets))


def _window(offset: int, width: int, extent: int) -> int:
    """Return the start of the whole vector that an element is taken from; the last one reaches back."""
    return min(offset // width * width, extent - width)


def _runs(elements: Sequence[Offset]) -> list[list[Offset]]:
    """Cut sorted offsets into runs of neighbours."""
    runs: list[list[Offset]] = []
    for element in elements:
        if runs and element == runs[-1][-1].next(1):
            runs[-1].append(element)
        else:
            runs.append([element])
    return runs


def _chunks(run: Sequence[Offset], width: int, overlaps: bool = True) -> list[Chunk]:
    """Cover a run of neighbours by chunks; if `overlaps`, the last one may begin in the one before."""
    length = len(run)
    width = min(width, 1 << (length.bit_length() - 1))
    whole = [Chunk(run[start], width) for start in range(0, length - width + 1, width)]
    if length % width == 0:
        return whole
    if overlaps:
        return [*whole, Chunk(run[length - width], width)]
    return [*whole, *_chunks(run[length // width * width:], width, overlaps)]


def _chunks_of_block(elements: Sequence[Offset], block: Sequence[Offset], width: int) -> list[Chunk]:
    """Return a chunk that has all of some elements of a block, or else all that the block consists of."""
    runs = _runs(block)
    for run in runs:
        if elements[0] in run and elements[-1] in run:
            first, last = run.index(elements[0]), run.index(elements[-1])
            size = 1 << (last - first).bit_length()
            if size <= min(width, len(run)):
                return [Chunk(run[min(first, len(run) - size)], size)]
    return [chunk for run in runs for chunk in _chunks(run, width)]


def _pattern(offsets: Sequence[Offset], chunks: Sequence[Chunk]) -> Pattern:
    place = {chunk.start.next(i): (number, i) for number, chunk in enumerate(chunks) for i in range(chunk.width)}
    return Pattern(tuple(chunks), tuple(place[offset] for offset in offsets))
