"""Copies of matrices that are read or written across their columns: squares of them are transposed in registers."""

from __future__ import annotations

from collections.abc import Mapping

from tl_dpnp.lowering.contraction import OUTPUT, Contraction
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.schedule import Schedule

__all__ = ["MOST_PACKED", "copy_in_vectors", "count", "in_vectors", "pack", "strided_along", "transpose"]

#: Bytes of a copy of an operand that is read across its columns, and those of the widest vector: its columns begin at
#: whole vectors.
MOST_PACKED, _WIDEST = 1 << 17, 64


def strided_along(contraction: Contraction, axis: str) -> list[tuple[str, tuple[int, int]]]:
    """Return the matrices that are read across their columns where vectors run along an axis of C, ``m`` or ``n``.

    Each comes with its modes along and across that axis.  Only those are listed that fit into the work-item's own
    memory.
    """
    found = {}
    for leaf in leaves(contraction.nest.body):
        for access in leaf.assign.reads:
            buffer = access.buffer
            if buffer.in_registers or buffer.name == OUTPUT or len(buffer.shape) != 2:
                continue
            along = next((mode for mode, index in enumerate(access.indices) if index == (axis,)), None)
            static = [size for size in buffer.shape if isinstance(size, int)]
            if along is None or buffer.strides[along] == 1 or len(static) < 2 or static[along] == 1:
                continue
            column = -(-static[along] * buffer.element.bytes // _WIDEST) * _WIDEST
            if column * static[1 - along] <= MOST_PACKED:
                found[buffer.name] = (along, 1 - along)
    return list(found.items())


def pack(schedule: Schedule, buffer: str, modes: tuple[int, int], width: int, within: str | None = None) -> None:
    """Read a copy of a matrix that is consecutive along the first of its `modes`, made by transposing squares.

    With `within`, each iteration of that loop makes one of what it reads.
    """
    copy = schedule.cache_read(buffer, "registers", within)
    if within is not None:
        schedule.compute_at(copy, within)
    transpose(schedule, copy, modes, width)


def transpose(schedule: Schedule, copy: str, modes: tuple[int, int], width: int, within: str | None = None) -> None:
    """Make a stage's copy consecutive along the first of its `modes`, and copy by transposing squares in registers.

    With `within`, a copy of the output is written back in each iteration of that loop.
    """
    along, others = modes
    schedule.transform_layout(copy, along, others)
    schedule.storage_align(copy, others, width, 0)
    if within is not None:
        schedule.reverse_compute_at(copy, within)
    outer, inner = schedule.loops_of(copy)
    for near, renamed in in_vectors(schedule, outer, width):
        far = renamed.get(inner, inner)
        schedule.reorder(far, near)
        for square, again in in_vectors(schedule, far, width):
            schedule.vectorize(square)
            schedule.vectorize(again.get(near, near))


def copy_in_vectors(schedule: Schedule, buffer: str, width: int, within: str) -> None:
    """Read a copy of a matrix that is consecutive along its first mode, whose columns begin at whole vectors.

    Each iteration of the loop `within` makes one of what it reads.
    """
    copy = schedule.cache_read(buffer, "registers", within)
    schedule.compute_at(copy, within)
    schedule.storage_align(copy, 1, width, 0)
    _, along = schedule.loops_of(copy)
    for near, _ in in_vectors(schedule, along, width):
        schedule.vectorize(near)


def in_vectors(schedule: Schedule, loop: str, width: int) -> list[tuple[str, Mapping[str, str]]]:
    """Cut a loop into parts of at most one vector: their innermost loops, and how they name the loops inside."""
    if count(schedule, loop) <= width:
        return [(loop, {})]
    split = schedule.split(loop, width)
    rest = [] if split.remainder is None else [(split.remainder, split.renamed)]
    return [(split.inner, {}), *rest]


def count(schedule: Schedule, loop: str) -> int:
    """Return the number of iterations of a loop of known range."""
    range_ = schedule.range_of(loop)
    assert range_ is not None
    return len(range_)
