"""Whether an array can be written while what is written is computed from it."""

from __future__ import annotations

from collections.abc import Callable

from tl_dpnp.graph.extents import location
from tl_dpnp.graph.nodes import Arange, Array, Map, Node, Number, Parameter, topological

__all__ = ["safe_in_place"]


def safe_in_place(node: Node, array: Array, overlaps: Callable[[Array], bool]) -> bool:
    """Return whether each element of `node` reads of the array's memory only the element that it will replace."""
    if node.shape != array.shape:
        return False
    stack, same = [node], location(array)
    while stack:
        current = stack.pop()
        match current:
            case Array():
                if overlaps(current) and location(current) != same:
                    return False
            case Map(operands=operands):
                stack += operands
            case Number() | Parameter() | Arange():
                pass
            case _:
                if any(isinstance(below, Array) and overlaps(below) for below in topological((current,))):
                    return False
    return True
