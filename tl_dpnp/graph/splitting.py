"""Where graphs that are too large for one kernel are cut.

The code of a kernel, and the time to compile it, grow with its nodes.  A graph with very many of them, such as a
recurrence that is unrolled, is cut where little has to be kept in memory, and the next kernel begins there.  The parts
between steps of a recurrence are alike, and so they share one kernel.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.nodes import (
    Accumulate,
    Arange,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Map,
    Node,
    Number,
    Parameter,
    Reduce,
    Reshape,
    View,
    operands_of,
    topological,
)
from tl_dpnp.records import dataclass

__all__ = ["Parts", "split"]

#: The most code that becomes one kernel, in element-wise functions, and the most of a part where it is more.
#: A step of a gated recurrent unit is about 65; so much takes a compiler a second.  One kernel takes less time than
#: several, to run (1.3 to 2 times) and, unless they are alike, to compile; very large ones have little room in caches.
_LARGEST, _PART = 320, 80
_PRODUCT, _REDUCTION = 8, 4
#: The code of an elimination, by the rows of its matrices; no node may have more than half a part.
_ELIMINATION = {1: 3, 2: 10, 3: 22, 4: 40}


@dataclass(frozen=True)
class Parts:
    """The parts of a graph: the number of each node's, and the nodes that are read in a later part than their own."""

    number: dict[Node, int]
    kept: tuple[Node, ...]

    def before(self, node: Node) -> dict[Node, str]:
        """Return what is kept of the parts before that of `node`, with the reason why it is."""
        own = self.number.get(node, 0)
        return {other: "the graph is too large for one kernel" for other in self.kept if self.number[other] < own}

    def together(self, node: Node, other: Node) -> bool:
        """Return whether two nodes are in one part."""
        return self.number.get(node, 0) == self.number.get(other, 0)


def split(roots: Sequence[Node]) -> Parts:
    """Return the parts of the graph that computes `roots`: only one, without numbers, if it is small."""
    nodes = topological(tuple(roots))
    if sum(map(_weight, nodes)) <= _LARGEST:
        return Parts({}, ())
    order = _longest_first(roots, nodes)
    last_use = _last_uses(order)
    number: dict[Node, int] = {}
    start = 0
    for part, stop in enumerate(_ends(order, last_use, roots)):
        number |= dict.fromkeys(order[start:stop], part)
        start = stop
    return Parts(number, tuple(node for node, last in last_use.items() if number[node] < number[order[last]]))


def _weight(node: Node) -> int:
    match node:
        case Contract():
            return _PRODUCT
        case Reduce() | Accumulate():
            return _REDUCTION
        case Map():
            return FUNCTIONS[node.kind].code
        case Assemble():
            return len(node.operands)
        case Eliminate(operands=operands):
            return _ELIMINATION[operands[0].shape[-1]]
        case Arange() | Array() | Number() | Parameter() | View() | Reshape():
            return 0
    return 1


def _longest_first(roots: Sequence[Node], nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes, operands first, each as late as it can be: of several operands the one with most below first.

    So the steps of a recurrence stay apart, while what reads inputs alone stands where it is used.
    """
    depth: dict[Node, int] = {}
    for node in nodes:
        depth[node] = 1 + max((depth[operand] for operand in operands_of(node)), default=0)
    order: dict[Node, None] = {}
    stack = [(root, False) for root in sorted(roots, key=depth.__getitem__, reverse=True)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order[node] = None
        elif node not in order:
            stack.append((node, True))
            stack += [(operand, False) for operand in sorted(operands_of(node), key=depth.__getitem__)]
    return list(order)


def _last_uses(order: Sequence[Node]) -> dict[Node, int]:
    """Return, for each node that is computed and read, where it is read last, itself or through a view."""
    last_use: dict[Node, int] = {}
    for position, node in enumerate(order):
        pending = [] if isinstance(node, View) else list(operands_of(node))
        while pending:
            operand = pending.pop()
            if isinstance(operand, View):
                pending += operands_of(operand)
            elif not isinstance(operand, Arange | Array | Number | Parameter):
                last_use[operand] = position
    return last_use


def _ends(order: Sequence[Node], last_use: dict[Node, int], roots: Sequence[Node]) -> list[int]:
    """Return the end of each part in `order`."""
    sizes = [0] * (len(order) + 1)  # of what is kept after each position, as differences at first
    places = {node: position for position, node in enumerate(order)}
    written = set(roots)
    for node, last in last_use.items():
        if node not in written:
            sizes[places[node]] += node.size * node.dtype.itemsize
            sizes[last] -= node.size * node.dtype.itemsize
    sizes = list(accumulate(sizes))
    code = list(accumulate(map(_weight, order)))
    ends, before = [], 0
    while code[-1] - before > _PART:
        first = bisect_left(code, before + _PART // 2)
        among = range(first, max(first + 1, bisect_right(code, before + _PART)))  # one node may be more than a part
        best = min(among, key=lambda place: (sizes[place], -place))
        ends.append(best + 1)
        before = code[best]
    return [*ends, len(order)]
