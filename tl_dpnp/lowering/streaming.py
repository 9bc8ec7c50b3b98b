"""Which results a nest may store past the caches, with streaming (non-temporal) stores.

An ordinary store of a whole cache line first reads the line, which a streaming store does not: from memory a product
moves a quarter less.  It pays for whole lines only, and for results that the nest does not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.kernels.llvm import CACHE_LINE
from tl_dpnp.lowering.nest import Access, Buffer, Loop, Nest, Node, leaves

__all__ = ["holds_lines_only", "stores_lines", "streamed"]


def streamed(nest: Nest, width: int) -> str | None:
    """Return the operand that may be stored in whole lines if its address is a multiple of one; None if there is none.

    `width` is the number of lanes of a vector: it must fill a line.
    """
    for leaf in leaves(nest.body):
        target = leaf.assign.target.buffer
        if target.scope != "global" or leaf.assign.update != "set" or width * target.element.bytes != CACHE_LINE:
            continue
        read = any(access.buffer.name == target.name for other in leaves(nest.body) for access in other.assign.reads)
        if not read and _is_made_of_lines(target):
            return target.name
    return None


def _is_made_of_lines(buffer: Buffer) -> bool:
    """Whether each column is a whole number of lines, and starts with one if the first does."""
    if not buffer.shape or buffer.strides[0] != 1:
        return False
    sizes = (buffer.shape[0], *buffer.strides[1:])
    return all(isinstance(size, int) and size * buffer.element.bytes % CACHE_LINE == 0 for size in sizes)


def stores_lines(access: Access, running: Sequence[Loop]) -> bool:
    """Whether the loops that are running move an access by whole lines only."""
    by_variable = {loop.variable: loop for loop in running}
    for index, stride in zip(access.indices, access.buffer.strides, strict=True):
        for loop in (by_variable[variable] for variable in index if variable in by_variable):
            for distance in (loop.start, loop.step):
                line = isinstance(distance, int) and isinstance(stride, int) and (
                    distance * stride * access.buffer.element.bytes % CACHE_LINE == 0)
                if not line:
                    return False
    return all(variable not in loop.variables[1:] for loop in running for i in access.indices for variable in i)


def holds_lines_only(node: Node, buffer: str | None) -> bool:
    """Whether a node does nothing but store to the operand."""
    return buffer is not None and isinstance(node, Loop) and all(
        leaf.assign.target.buffer.name == buffer for leaf in leaves((node,)))
