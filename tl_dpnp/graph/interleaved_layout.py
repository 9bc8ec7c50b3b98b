"""The interleaved layout: an element of several matrices of a batch, then the next one of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tl_dpnp.graph.memrefs import lies_evenly
from tl_dpnp.graph.nodes import Node
from tl_dpnp.graph.placement import Placement, Places
from tl_dpnp.graph.work_group import Buffer
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Value, memref_type

__all__ = ["interleaved_axes", "interleaved_layouts", "write_transposed"]


def interleaved_axes(places: Places, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the axes of a node, the fastest first, with that of the matrices in front; None if it has none."""
    if 0 not in places:
        return None
    lanes = places.index(0)
    return (lanes, *(axis for axis in reversed(range(len(shape))) if axis != lanes and shape[axis] > 1))


def interleaved_layouts(
    placement: Placement, shapes: Mapping[Node, tuple[int, ...]]
) -> dict[Node, tuple[int, ...]]:
    """Return the axes, the fastest first, of the nodes of an interleaved region; `shapes` are those in a work-group."""
    layouts = {node: interleaved_axes(placement.places[node], shape) for node, shape in shapes.items()}
    return {node: axes for node, axes in layouts.items() if axes is not None}


def write_transposed(b: FunctionBuilder, source: Buffer, target: Buffer) -> bool:
    """Copy a buffer to one whose axes are those of `source` but for that of the matrices, which is the last in one of
    both and the first in the other; returns False, and writes nothing, where they are another way, or no floats.
    """
    back = source.axes[0] != target.axes[-1]
    outer, inner = (target, source) if back else (source, target)
    if (
        not (source.is_plain and target.is_plain and memref_type(source.memref).element.is_float)
        or outer.axes[1:] + outer.axes[:1] != inner.axes or len(outer.axes) < 2
    ):
        return False
    first = _with_one_mode(b, outer.memref, 1, len(outer.axes) - 1)
    second = _with_one_mode(b, inner.memref, 0, len(outer.axes) - 2)
    if first is None or second is None:
        return False
    given, written = (second, first) if back else (first, second)
    b.axpby(1.0, given, 0.0, written, transpose=True)
    return True


def _with_one_mode(b: FunctionBuilder, memref: Value, first: int, last: int) -> Value | None:
    """Return a memref with some modes as one, None where they do not lie evenly."""
    if first == last:
        return memref
    return b.fuse(memref, first, last) if lies_evenly(memref_type(memref), first, last) else None
