"""Where temporaries live: lifetimes of ``alloca`` and their placement in one block of local memory.

A temporary lives from its ``alloca`` to its ``lifetime_stop``, or to the last use of any view of it; a use inside a
loop that the temporary was allocated outside of lasts until the end of that loop.  Temporaries whose lifetimes do
not overlap may share memory.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import replace

from tl_dpnp.errors import Diagnostic, UnsupportedError
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.rewrite import roots
from tl_dpnp.records import dataclass

__all__ = ["Placement", "aligned", "place_temporaries", "places_of", "size_in_bytes"]

#: Alignment of every temporary, in bytes: that of the widest vector access.
LOCAL_ALIGNMENT = 64
#: Bytes of the smallest atomic access of devices.
_WORD = 4


@dataclass(frozen=True)
class Placement:
    """One temporary: its place in local memory, in bytes, and the first and last position where it lives.

    Positions number the operations of the function in source order.
    """

    name: str
    type: MemrefType
    size: int
    first: int
    last: int
    offset: int = 0

    def overlaps(self, other: Placement) -> bool:
        """Whether the two share bytes."""
        return self.offset < other.offset + other.size and other.offset < self.offset + self.size

    def __str__(self) -> str:
        return f"%{self.name}: {self.type}, {self.size} bytes at {self.offset}, live from {self.first} to {self.last}"


def aligned(offset: int) -> int:
    """Return the next place in local memory, in bytes, where a temporary or a copy may start."""
    return -(-offset // LOCAL_ALIGNMENT) * LOCAL_ALIGNMENT


def size_in_bytes(type_: MemrefType) -> int:
    """Return the extent of a static memref, up to its last element."""
    last = sum((size - 1) * stride for size, stride in zip(type_.shape, type_.strides, strict=True)
               if size is not None and stride is not None)
    return type_.element.bytes_of(last + 1)


def place_temporaries(function: ops.Function, limit: int) -> dict[str, Placement]:
    """Return the placement of each temporary; `limit` is the device's local memory in bytes.

    Raises UnsupportedError, naming each temporary and its size, if they do not fit.
    """
    lifetimes = sorted(_lifetimes(function), key=lambda p: (-p.size, p.first))
    offsets = places_of([(entry.size, entry.first, entry.last) for entry in lifetimes])
    placed = [replace(entry, offset=offset) for entry, offset in zip(lifetimes, offsets, strict=True)]
    total = local_memory(placed)
    if total > limit:
        names = {o.result.name: o.span for o in function.body.walk() if isinstance(o, ops.Alloca)}
        notes = tuple(Diagnostic(f"%{p.name} of type {p.type} takes {p.size} bytes", names[p.name]) for p in placed)
        message = f"the temporaries of @{function.name} take {total} bytes of local memory; the device has {limit}"
        hint = "use smaller temporaries, or end their lifetimes earlier with lifetime_stop"
        raise UnsupportedError(message, [Diagnostic(message, function.span, hint, notes=notes)])
    return {p.name: p for p in placed}


def places_of(lifetimes: Sequence[tuple[int, int, int]]) -> list[int]:
    """Return a place for each temporary, in bytes, from its size and the first and last position where it lives."""
    offsets = [0] * len(lifetimes)
    placed: list[tuple[int, int, int, int]] = []  # by their places: where each begins and ends, in memory and in time
    # Large ones first: the small ones then fill what is left between them.
    for number in sorted(range(len(lifetimes)), key=lambda n: (-lifetimes[n][0], lifetimes[n][1])):
        size, first, last = lifetimes[number]
        offset = 0
        for start, stop, other_first, other_last in placed:
            if first <= other_last and other_first <= last and offset < stop and start < offset + size:
                offset = aligned(stop)
        offsets[number] = offset
        insort(placed, (offset, offset + size, first, last))
    return offsets


def local_memory(placed: list[Placement]) -> int:
    """Return the bytes of local memory that placements take together, in whole words.

    Atomic instructions access an element of 16 bits by the word that it is in.
    """
    return -(-max((p.offset + p.size for p in placed), default=0) // _WORD) * _WORD


def _lifetimes(function: ops.Function) -> list[Placement]:
    root = roots(function)
    types: dict[str, MemrefType] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    stopped: set[str] = set()
    position = 0

    def visit(region: ops.Region, loops: list[tuple[int, list[str]]]) -> None:
        """Walk a region; `loops` are the enclosing loops: their first position and the temporaries used in them."""
        nonlocal position
        for operation in region:
            position += 1
            if isinstance(operation, ops.Alloca):
                types[operation.result.name] = ops.memref_type(operation.result)
                first[operation.result.name] = last[operation.result.name] = position
            for operand in operation.operands:
                name = root.get(operand.name) if isinstance(operand, ops.Value) else None
                if name is not None and name in first and name not in stopped:
                    last[name] = position
                    for start, used in loops:
                        if first[name] < start:
                            used.append(name)
            if isinstance(operation, ops.LifetimeStop) and not loops:
                stopped.add(operation.source.name)
            if isinstance(operation, (ops.For, ops.Foreach)):
                inside: list[str] = []
                visit(operation.body, [*loops, (position, inside)])
                position += 1
                for name in inside:
                    last[name] = max(last[name], position)
            else:
                for inner in operation.regions:
                    visit(inner, loops)

    visit(function.body, [])
    return [Placement(n, types[n], size_in_bytes(types[n]), first[n], last[n]) for n in first]
