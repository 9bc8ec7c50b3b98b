"""Barriers within a nest: between the work-items that fill a copy in local memory and those that use it.

Going through a body in order, a barrier is set where a node reads what was written since the last barrier, or writes
what was read or written; the iterations of a loop follow one another in the same way.  The halves of a double buffer
are apart within an iteration.
"""

from __future__ import annotations

from dataclasses import field, replace

from tl_dpnp.lowering.nest import Access, Loop, Nest, Node, Synchronize, leaves, stages_of
from tl_dpnp.records import dataclass

__all__ = ["synchronize"]

#: A buffer, and the variable that tells which half; None for all of it.
_Place = tuple[str, str | None]


@dataclass(frozen=True)
class _Accessed:
    """What was read and written since the last barrier, or by a node."""

    reads: frozenset[_Place] = field(default=frozenset())
    writes: frozenset[_Place] = field(default=frozenset())

    def then(self, other: _Accessed) -> _Accessed:
        """Return both together."""
        return _Accessed(self.reads | other.reads, self.writes | other.writes)

    def conflicts(self, later: _Accessed) -> bool:
        """Whether a barrier must stand between this and what comes later."""
        return _meet(self.writes, later.reads | later.writes) or _meet(self.reads, later.writes)

    def widened(self) -> _Accessed:
        """Return the same accesses without telling halves apart: in another iteration they are swapped."""
        return _Accessed(frozenset((name, None) for name, _ in self.reads),
                         frozenset((name, None) for name, _ in self.writes))


def _meet(first: frozenset[_Place], second: frozenset[_Place]) -> bool:
    return any(a == c and (b == d or b is None or d is None) for a, b in first for c, d in second)


def synchronize(nest: Nest) -> Nest:
    """Return the nest with barriers; one at the start keeps nests apart that share local memory."""
    if not any(buffer.scope == "local" for buffer in nest.buffers.values()):
        return nest
    body, _ = _ordered(nest.body, _Accessed(), ())
    return replace(nest, body=(Synchronize(), *body))


def _ordered(
    nodes: tuple[Node, ...], pending: _Accessed, variables: tuple[str, ...]
) -> tuple[tuple[Node, ...], _Accessed]:
    """Return the nodes with barriers between them, and what is pending after them.

    `variables` are those of the loop whose body this is.
    """
    halved = _halved(nodes, variables)
    result: list[Node] = []
    for node in nodes:
        accessed = _accessed(node, halved)
        if pending.conflicts(accessed):
            result.append(Synchronize())
            pending = _Accessed()
        if isinstance(node, Loop) and _fills_and_uses(node):
            before = pending.widened()
            if node.static_range is None or len(node.static_range) > 1:
                # The last accesses of an iteration come before the first of the next one.
                before = before.then(_ordered(node.body, _Accessed(), node.variables)[1].widened())
            body, pending = _ordered(node.body, before, node.variables)
            pending = pending.widened()
            result.append(node.with_body(*body))
        else:
            pending = pending.then(accessed)
            result.append(node)
    return tuple(result), pending


def _fills_and_uses(loop: Loop) -> bool:
    """Whether a copy in local memory is both made and used inside a loop: only there are barriers needed."""
    accessed = _accessed(loop, set())
    both = {name for name, _ in accessed.reads} & {name for name, _ in accessed.writes}
    return any(stage.buffer in both for stage in stages_of(loop.body))


def _halved(nodes: tuple[Node, ...], variables: tuple[str, ...]) -> set[str]:
    """Return the buffers of whose halves the loop around the nodes chooses."""
    accesses = (a for leaf in leaves(nodes) for a in (*leaf.assign.reads, leaf.assign.target))
    return {a.buffer.name for a in accesses if a.buffer.doubled and a.indices[-1][0] in variables}


def _accessed(node: Node, halved: set[str]) -> _Accessed:
    def places(accesses: tuple[Access, ...]) -> frozenset[_Place]:
        return frozenset((a.buffer.name, a.indices[-1][0] if a.buffer.name in halved else None)
                         for a in accesses if a.buffer.scope == "local")

    result = _Accessed()
    for leaf in leaves((node,)):
        result = result.then(_Accessed(places(leaf.assign.reads), places((leaf.assign.target,))))
    return result
