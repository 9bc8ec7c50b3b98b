"""Barriers: order conflicting accesses of the work-items of a work-group.

Two accesses conflict when they touch the same memory and at least one writes it.  The pass walks the function with
the set of accesses since the last barrier, and puts a barrier before the first operation that conflicts with one of
them; a loop is walked until the set at its back edge no longer grows, so that its last iteration is ordered with its
next first one.  Memory is the same when it belongs to one parameter, or to temporaries that share local memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tl_dpnp.language import ops
from tl_dpnp.lowering.memory import Placement
from tl_dpnp.lowering.rewrite import replace_body, root_of, roots, with_regions

__all__ = ["insert_barriers"]


class _Access(NamedTuple):
    root: str
    writes: bool


_Pending = frozenset[_Access]


def insert_barriers(function: ops.Function, placements: Mapping[str, Placement]) -> ops.Function:
    """Return `function` with the barriers that its collective operations need."""
    known = roots(function)

    def same_memory(a: str, b: str) -> bool:
        if a in placements and b in placements:
            return placements[a].overlaps(placements[b])
        return a == b

    region, _ = _order(function.body, frozenset(), known, same_memory)
    return replace_body(function, region)


def _order(
    region: ops.Region, pending: _Pending, known: Mapping[str, str], same: Callable[[str, str], bool]
) -> tuple[ops.Region, _Pending]:
    """Return the region with its barriers, and the accesses since the last barrier at its end."""
    result: list[ops.Operation] = []
    for operation in region:
        if isinstance(operation, ops.Barrier):
            result.append(operation)
            pending = frozenset()
            continue
        own = _accesses(operation, known)
        if any((a.writes or b.writes) and same(a.root, b.root) for a in own for b in pending):
            result.append(ops.Barrier(span=operation.span))
            pending = frozenset()
        pending |= own
        if isinstance(operation, ops.For):
            operation, pending = _order_loop(operation, pending, known, same)
        elif isinstance(operation, ops.If):
            before, after = pending, pending if operation.otherwise is None else frozenset[_Access]()
            branches: list[ops.Region] = []
            for inner in operation.regions:
                ordered, end = _order(inner, before, known, same)
                branches.append(ordered)
                after |= end
            pending = after
            operation = with_regions(operation, branches)
        result.append(operation)
    return ops.Region(tuple(result)), pending


def _order_loop(
    loop: ops.For, entry: _Pending, known: Mapping[str, str], same: Callable[[str, str], bool]
) -> tuple[ops.For, _Pending]:
    pending = entry
    while True:
        body, end = _order(loop.body, pending, known, same)
        if end <= pending:
            # The loop may run no iteration at all: then what came before it is still pending.
            return with_regions(loop, [body]), pending
        pending |= end


def _accesses(operation: ops.Operation, known: Mapping[str, str]) -> frozenset[_Access]:
    """Return the memory that an operation touches, without that of the mixed regions inside it."""
    if isinstance(operation, ops.Foreach | ops.Parallel | ops.ForeachTile):
        return frozenset(access for inner in operation.body.walk() for access in _accesses(inner, known))
    written = {_Access(root_of(value, known), True) for value in operation.writes}
    return frozenset(written | {_Access(root_of(value, known), False) for value in operation.reads})
