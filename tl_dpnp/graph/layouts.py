"""Which axis of a temporary is the fastest in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tl_dpnp.graph.nodes import Map, Node, Reduce, Reshape
from tl_dpnp.graph.sums import has_short_rows

__all__ = ["preferred_layouts"]


def preferred_layouts(
    stored: Sequence[Node], shapes: Mapping[Node, tuple[int, ...]]
) -> dict[Node, tuple[int, ...]]:
    """Return the axes, the fastest first, of temporaries that are better not in C order.

    A matrix whose rows do not fill vectors has its columns fastest if these are longer; so has one whose rows are
    reduced, because vectors then run over different results.  `shapes` are those of the parts in a work-group.
    """
    fixed = {node.operand for node in stored if isinstance(node, Reshape)}
    layouts: dict[Node, tuple[int, ...]] = {}
    for node in stored:
        axes = tuple(axis for axis in reversed(range(len(node.shape))) if shapes[node][axis] > 1)
        if len(axes) == 2 and node not in fixed and not isinstance(node, Reshape) and (
            has_short_rows(shapes[node], node.dtype) or _rows_are_reduced(node, axes[0], stored)
        ):
            layouts[node] = axes[::-1]
    return layouts


def _rows_are_reduced(node: Node, axis: int, stored: Sequence[Node]) -> bool:
    """Return whether a reduction over `axis` reads the node, directly or through element-wise functions."""
    for reduction in stored:
        if isinstance(reduction, Reduce) and axis in reduction.axes and reduction.operand.shape == node.shape:
            pending = [reduction.operand]
            while pending:
                below = pending.pop()
                if below is node:
                    return True
                if isinstance(below, Map) and below not in stored:
                    pending += [operand for operand in below.operands if operand.shape == node.shape]
    return False
