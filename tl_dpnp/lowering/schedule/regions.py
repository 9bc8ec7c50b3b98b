"""Bounds inference: which region of a buffer is accessed in one iteration of a loop.

Indices are sums of variables.  Of each sum, the variables of the loops around the place are fixed: they are the base
of the region.  The others run: they give its extent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from tl_dpnp.lowering.nest import Bound, Dimension, Guard, Index, Leaf, Loop, RoundDown
from tl_dpnp.lowering.schedule.draft import Draft

__all__ = ["Extent", "exceeds", "extents", "require_box"]


class Extent(NamedTuple):
    """The part of one mode that is accessed: ``sum(base) + first`` up to, not including, ``sum(base) + stop``."""

    base: Index
    first: int
    stop: Bound


def _variables(loops: Sequence[Loop]) -> set[str]:
    return {variable for loop in loops for variable in loop.variables}


def _ranges(loops: Sequence[Loop]) -> dict[str, range | None]:
    """Return the values of each variable, None where they are not known."""
    ranges: dict[str, range | None] = {}
    for loop in loops:
        ranges[loop.variable] = loop.static_range
        ranges.update((derived.variable, derived.static_range) for derived in loop.derived)
    return ranges


def extents(draft: Draft, uses: Sequence[tuple[Leaf, tuple[Index, ...]]], depth: int, shape: tuple[Bound, ...]
            ) -> list[Extent]:
    """Return the region that the accesses reach together, mode by mode, within a buffer of the given shape.

    Each access comes with the assignment that makes it; the first `depth` nodes of its path are those around the
    region.  Raises ScheduleError where the accesses have different bases, or a range is not known.
    """
    result = []
    for mode, size in enumerate(shape):
        parts = [_extent(draft, leaf, indices[mode], depth, size) for leaf, indices in uses]
        base = parts[0].base
        draft.require(
            all(Counter(part.base) == Counter(base) for part in parts),
            f"mode {mode} is accessed relative to different loops",
        )
        stops = [part.stop for part in parts]
        stop: Bound = max(stop for stop in stops if isinstance(stop, int)) if all(
            isinstance(stop, int) for stop in stops) else size
        if isinstance(size, int) and isinstance(stop, int) and not base:
            stop = min(stop, size)
        result.append(Extent(base, min(part.first for part in parts), stop))
    return result


def _extent(draft: Draft, leaf: Leaf, index: Index, depth: int, size: Bound) -> Extent:
    around = _variables([node for node in leaf.path[:depth] if isinstance(node, Loop)])
    inside = [node for node in leaf.path[depth:] if isinstance(node, Loop)]
    ranges = _ranges(inside)
    base = tuple(name for name in index if name in around)
    running = [name for name in index if name not in around]
    known: list[tuple[str, range]] = []
    for name in running:
        values = ranges[name]
        if values is None:
            draft.require(not base, f"the range of {name} is not known")
            return Extent((), 0, size)
        known.append((name, values))
    if any(len(values) == 0 for _, values in known):
        return Extent(base, 0, 0)
    first = sum(min(values) for _, values in known)
    last = sum(max(values) for _, values in known)
    for names, bound in _guards(inside):
        if isinstance(bound, int) and not Counter(names) - Counter(running):
            rest = sum(max(values) for name, values in known if name not in names)
            last = min(last, bound - 1 + rest)
    return Extent(base, first, last + 1)


def _guards(loops: Sequence[Loop]) -> list[Guard]:
    return [guard for loop in loops for guard in loop.guards]


def exceeds(extent: Extent, size: Bound, around: Sequence[Loop]) -> bool:
    """Whether the region may reach beyond a mode of the given size, in any iteration of the loops around it."""
    if extent.stop == size and not extent.base:
        return False
    if not isinstance(extent.stop, int):
        return True
    ranges = _ranges(around)
    static = [ranges[name] for name in extent.base]
    if isinstance(size, int):
        values = [entry for entry in static if entry is not None]
        return len(values) < len(static) or extent.stop + sum(max(entry, default=0) for entry in values) > size
    return not _fits_dynamic(extent, size, around)


def _fits_dynamic(extent: Extent, size: Bound, around: Sequence[Loop]) -> bool:
    """Whether whole tiles of a run-time size are accessed: one loop steps over tiles, the others stay inside one."""
    ranges = _ranges(around)
    dynamic = [name for name in extent.base if ranges[name] is None]
    if len(dynamic) != 1 or not isinstance(extent.stop, int) or not isinstance(size, Dimension):
        return False
    inside = sum(max(entry, default=0) for name in extent.base if (entry := ranges[name]) is not None)
    for loop in around:
        if loop.variable == dynamic[0]:
            match loop.stop:
                case RoundDown(total, factor):
                    whole = factor % loop.step == 0 and loop.start == 0 and total == size
                    return whole and extent.stop + inside <= loop.step
                case Dimension():
                    return loop.stop == size and extent.stop + inside <= 1
    return False


def require_box(
    draft: Draft, uses: Sequence[tuple[Leaf, tuple[Index, ...]]], depth: int, shape: tuple[Bound, ...]
) -> None:
    """Raise ScheduleError unless the accesses reach every element of their region, and none beyond it.

    What is written back must have been written.
    """
    for leaf, indices in uses:
        around = _variables([node for node in leaf.path[:depth] if isinstance(node, Loop)])
        inside = [node for node in leaf.path[depth:] if isinstance(node, Loop)]
        derived = {entry.variable: entry for loop in inside for entry in loop.derived}
        ranges = _ranges(inside)
        for index in indices:
            running = [name for name in index if name not in around]
            for name in running:
                outer = name in derived and set(derived[name].index) & around
                draft.require(not outer, f"{name} is computed from loops around the place")
            if any(ranges[name] is None for name in running):
                draft.require(len(running) == 1 and running == list(index), f"the range of {running[0]} is not known")
                continue
            _require_dense(draft, [values for name in running if (values := ranges[name]) is not None], index)
        for names, bound in _guards(inside):
            draft.require(_is_clamp(names, bound, indices, shape, around) or _limits_fused(names, bound, inside),
                          f"the guard {' + '.join(names)} < {bound} cuts its region")
    firsts = {tuple(_extent(draft, leaf, index, depth, size) for index, size in zip(indices, shape, strict=True))
              for leaf, indices in uses}
    draft.require(len(firsts) == 1, "several parts of the nest write it")


def _require_dense(draft: Draft, ranges: list[range], index: Index) -> None:
    """Raise ScheduleError unless the sums of one value from each range are consecutive."""
    reach = 0
    for values in sorted((entry for entry in ranges if len(entry) > 1), key=lambda entry: entry.step):
        draft.require(values.step <= reach + 1, f"{' + '.join(index)} does not take every value")
        reach += max(values) - min(values)


def _is_clamp(
    names: Index, bound: Bound, indices: tuple[Index, ...], shape: tuple[Bound, ...], around: set[str]
) -> bool:
    """Whether a guard says no more than that an index stays within its mode, or within a tile that the place sees."""
    for index, size in zip(indices, shape, strict=True):
        if Counter(names) == Counter(index) and bound == size:
            return True
        running = [name for name in index if name not in around]
        if isinstance(bound, int) and Counter(names) == Counter(running):
            return True
    return False


def _limits_fused(names: Index, bound: Bound, loops: Sequence[Loop]) -> bool:
    """Whether a guard ends the iterations of a fused loop."""
    entries = [entry for loop in loops for entry in loop.derived if Counter(entry.index) == Counter(names)]
    totals = [entry.divisor * entry.modulus for entry in entries if entry.modulus is not None]
    return bound in totals
