"""Whether arguments of a call share memory, and the warning about those that a kernel writes."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tl_dpnp.errors import OverlapWarning, warn
from tl_dpnp.runtime.call.arguments import Argument, BoundCall, GroupArgument, MemrefArgument, PointersArgument
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.program import Program

__all__ = ["Footprint", "OverlapWatch", "extent", "has_address", "overlap_of", "overlapping"]

#: Bound on the search for a common element; beyond it arrays whose ranges overlap count as overlapping.
_MAX_WORK = 100_000


def overlap_of(program: Program, call: BoundCall) -> tuple[int, str] | None:
    """Return the position of an argument that is written and overlaps another, and a text that says so, or None."""
    found = overlapping([argument.reached for argument in call.arguments], program.usage.written)
    if found is None:
        return None
    output, other = (program.parameters[position] for position in found)
    return found[0], f"the argument for {output} is written and overlaps the one for {other}"


def overlapping(arguments: Sequence[Sequence[ArrayView]], written: Collection[int]) -> tuple[int, int] | None:
    """Return the positions of an argument that is `written` and of another that shares memory with it, or None.

    Each argument is a sequence of views: one for a memref, one for each element of a group.  Views within one
    argument may overlap.
    """
    found = [(*span, position, view) for position, views in enumerate(arguments)
             for span, view in zip(_byte_ranges(views), views, strict=True) if span[0] < span[1]]
    if not written or _are_apart({entry[:3] for entry in found}):
        return None
    active: list[tuple[int, int, int, ArrayView]] = []
    for entry in sorted(found, key=lambda entry: entry[:3]):
        start, _, position, view = entry
        active = [other for other in active if other[1] > start]
        for _, _, other_position, other_view in active:
            if position == other_position or not {position, other_position} & set(written):
                continue
            if _share_memory(view, other_view):
                return (position, other_position) if position in written else (other_position, position)
        active.append(entry)
    return None


def _are_apart(spans: Iterable[tuple[int, int, int]]) -> bool:
    """Whether ranges of addresses, with a number behind them, do not overlap."""
    return all(before[1] <= after[0] for before, after in itertools.pairwise(sorted(spans)))


def extent(view: ArrayView) -> tuple[int, int]:
    """Return where the memory of a view begins and ends, in bytes from its first element; both are 0 if it is empty."""
    if 0 in view.shape:
        return 0, 0
    steps = [stride * (size - 1) for size, stride in zip(view.shape, view.strides, strict=True)]
    below, above = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
    return below * view.dtype.itemsize, (above + 1) * view.dtype.itemsize


def _byte_ranges(views: Iterable[ArrayView]) -> list[tuple[int, int]]:
    """Return the addresses where the memory of each view begins and ends; those that look alike are looked at once."""
    seen: dict[Hashable, tuple[int, int]] = {}
    ranges: list[tuple[int, int]] = []
    for view in views:
        look = (view.shape, view.strides, view.dtype)
        if look not in seen:
            seen[look] = extent(view)
        below, above = seen[look]
        ranges.append((view.address + below, view.address + above))
    return ranges


class _Shadow:
    """An array that NumPy can compare by address, but that is never read."""

    def __init__(self, view: ArrayView) -> None:
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "data": (view.address, True),
            "shape": view.shape,
            "strides": tuple(stride * view.dtype.itemsize for stride in view.strides),
            "typestr": view.dtype.str,
        }


def _share_memory(first: ArrayView, second: ArrayView) -> bool:
    try:
        return np.shares_memory(np.asarray(_Shadow(first)), np.asarray(_Shadow(second)), max_work=_MAX_WORK)
    except np.exceptions.TooHardError:
        return True


class _Placed(NamedTuple):
    """An argument whose addresses come with each call: one array, or those of a list.

    The memory lies from `low` to `high` in bytes from each address, in a list that of the arrays that reach furthest.
    `length` is how many arrays there are.
    """

    low: int
    high: int
    length: int
    is_listed: bool
    is_written: bool


class Footprint:
    """What is known of the memory of a call's arguments while the addresses of memrefs and of lists change.

    The arrays of a `tl_dpnp.group` stay where they are.
    """

    def __init__(self, call: BoundCall, written: Collection[int]) -> None:
        groups = [(_merged(_byte_ranges(argument.reached)), position in written)
                  for position, argument in enumerate(call.arguments)
                  if isinstance(argument, GroupArgument) and not argument.is_listed]
        #: The arguments with addresses, in order.
        self.placed = [_placed(argument, position in written) for position, argument in enumerate(call.arguments)
                       if has_address(argument)]
        #: The numbers of those that may not come near one another.
        self.pairs = [(first, second) for first, second in itertools.combinations(range(len(self.placed)), 2)
                      if self.placed[first].is_written or self.placed[second].is_written]
        #: Those that may not come near arrays of groups: the number, and where those arrays end and begin, together
        #: where they follow one another, in order.
        self.beside = [
            (place, [end for _, end in ranges], [start for start, _ in ranges])
            for place, argument in enumerate(self.placed) for ranges, also in groups if argument.is_written or also
        ]
        #: Whether there are arrays of groups.
        self.has_groups = bool(groups)
        self._has_lists = any(argument.is_listed for argument in self.placed)
        self._apart: object = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing can come near another argument that matters."""
        return not (self.pairs or self.beside)

    def may_overlap(self, addresses: Sequence[int], arrays: Sequence[Any]) -> bool:
        """Whether an array that is written comes near another argument; `addresses` are those of `arrays`, of a list
        that of its table."""
        if self._has_lists:
            return self._lists_may_overlap(addresses, arrays)
        for first, second in self.pairs:
            one, other = self.placed[first], self.placed[second]
            apart = addresses[first] - addresses[second]
            if apart + one.low < other.high and other.low < apart + one.high:
                return True
        for place, ends, starts in self.beside:
            low, high = addresses[place] + self.placed[place].low, addresses[place] + self.placed[place].high
            after = bisect_left(ends, low + 1)
            if after < len(starts) and starts[after] < high:
                return True
        return False

    def _lists_may_overlap(self, addresses: Sequence[int], arrays: Sequence[Any]) -> bool:
        places = [array.addresses if argument.is_listed else np.array([address], np.int64)
                  for array, address, argument in zip(arrays, addresses, self.placed, strict=True)]
        key = [each.tobytes() for each in places]
        if key == self._apart:
            return False
        bounds = [(each + argument.low, each + argument.high)
                  for each, argument in zip(map(np.sort, places), self.placed, strict=True)]
        if any(_come_near(*bounds[first], *bounds[second]) for first, second in self.pairs) or any(
                _come_near(*bounds[place], np.array(starts, np.int64), np.array(ends, np.int64))
                for place, ends, starts in self.beside):
            return True
        self._apart = key
        return False


def _come_near(
    starts: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], other_starts: np.ndarray[Any, Any],
    other_ends: np.ndarray[Any, Any],
) -> bool:
    """Whether one of some ranges overlaps one of others; the starts and the ends of the others are in order."""
    after = np.searchsorted(other_ends, starts, side="right")
    inside = after < other_ends.size
    return bool((other_starts[after[inside]] < ends[inside]).any())


def has_address(argument: Argument) -> bool:
    """Whether the address of an argument, or that of its table, comes with each call."""
    return isinstance(argument, MemrefArgument | PointersArgument) or (
        isinstance(argument, GroupArgument) and argument.is_listed)


def _placed(argument: Argument, is_written: bool) -> _Placed:
    if not isinstance(argument, GroupArgument):
        return _Placed(*extent(argument.views[0]), 1, False, is_written)
    extents = [(start - view.address, end - view.address) for view, (start, end) in
               zip(argument.views, _byte_ranges(argument.reached), strict=True)]
    return _Placed(min((low for low, _ in extents), default=0), max((high for _, high in extents), default=0),
                   len(extents), True, is_written)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ranges as ones that are apart and in order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted({span for span in ranges if span[0] < span[1]}):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


class OverlapWatch:
    """Warns, once for a kernel, of a call with an argument that is written and overlaps another.

    `is_over` says that nothing is to be watched, or nothing more.
    """

    def __init__(self, program: Program, debug: bool) -> None:
        self._program = program
        # With debug=True such a call is refused.
        self.is_over = debug or not program.usage.written

    def look(self, call: BoundCall) -> None:
        """Warn if arguments of a call overlap."""
        found = None if self.is_over else overlap_of(self._program, call)
        if found is not None:
            name = self._program.name
            warn(f"argument {found[0] + 1} of @{name}: {found[1]}: the results depend on the order of its reads and "
                 "writes, which is not defined; pass arrays that share no memory", OverlapWarning)
            self.is_over = True
