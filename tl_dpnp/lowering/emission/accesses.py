"""The elements that a vector loop loads and stores: where they lie, what they cost, and how they are collected.

Elements that lie a few places apart are collected out of whole vectors of what lies between the first and the last of
them, which is in the same array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from llvmlite import ir

from tl_dpnp.kernels.elements import alignment_of, from_storage, load_element, store_element
from tl_dpnp.kernels.llvm import (
    GLOBAL,
    constant,
    get_lane,
    index,
    lanes,
    power_of_two,
    set_lane,
    shuffle,
    undefined,
    vector_of,
)
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Expression
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = [
    "Access", "collected", "cost_of_access", "cost_of_operation", "is_function", "load_in_pieces", "pieces_of",
    "store_in_pieces",
]

#: Instructions, of one lane or of a vector, that take as long as a mathematical function and as a division.
_FUNCTION, _DIVISION = 20.0, 4.0
#: Instructions in which a lane of a vector is loaded or stored alone.
_COLLECTED = 3.0
_SHORT_FUNCTIONS = ("abs", "min", "max", "fma")
#: The vectors in which as many elements lie as are collected from them, for the elements not to be loaded one by one.
_VECTORS_FOR_AN_ELEMENT = 0.75


@dataclass(frozen=True)
class Access:
    """An element that a loop loads or stores: its memref, its indices, and how far it moves with each variable."""

    memref: MemrefDescriptor
    indices: tuple[ops.Operand, ...]
    steps: tuple[Expression, ...]
    is_load: bool = True

    @property
    def step(self) -> Expression:
        """How far it moves with an iteration."""
        return self.steps[0]

    @property
    def is_in_pieces(self) -> bool:
        """Whether a part of a vector is better loaded and stored in pieces than with a mask.

        Processors hand on to a load what a store before it has not written to the cache yet, but not where the store
        has a mask (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Forwarding and Memory Masking" in
        the chapter on AVX-512); and temporaries are read soon after they are written.
        """
        return self.step == 1 and self.memref.space != GLOBAL

    def is_collected(self, count: int) -> bool:
        """Whether the elements of so many iterations are taken out of whole vectors."""
        if not self.is_load or not isinstance(self.step, int) or self.step in (0, 1) or count < 2:
            return False
        return len(self.chunks(count)[0]) <= _VECTORS_FOR_AN_ELEMENT * count

    def chunks(self, count: int) -> tuple[list[int], int]:
        """Return where the vectors begin that hold the elements of `count` iterations, from that of the first one on,
        and their width; none of them reaches beyond these elements."""
        places = self.places(count)
        first, last = min(places), max(places)
        width = min(power_of_two(count), 1 << ((last + 1 - first).bit_length() - 1))
        return sorted({min(first + (place - first) // width * width, last + 1 - width) for place in places}), width

    def places(self, count: int) -> list[int]:
        """Return where the elements of `count` iterations lie, from that of the first one on."""
        assert isinstance(self.step, int)
        return [self.step * lane for lane in range(count)]


# --- costs -----------------------------------------------------------------------------------------------------------


def cost_of_access(access: Access, width: int) -> float:
    """Return the instructions that the access of `width` iterations takes: loads, and shuffles of two vectors each."""
    if width == 1 or access.step in (0, 1):
        return 1.0
    if access.is_collected(width):
        return 2.0 * len(access.chunks(width)[0]) - 1.0
    return _COLLECTED * width


def cost_of_operation(operation: ops.Operation, width: int = 1) -> float:
    """Return the instructions that a scalar instruction takes the time of, for one lane or for a vector."""
    match operation:
        case ops.Math() if is_function(operation):
            return _FUNCTION
        case ops.Arith(kind="div" | "rem", result=result):
            # There are no divisions of vectors of integers.
            return _DIVISION if ops.scalar_type(result).is_float else _DIVISION * width
        case ops.Yield():
            return 0.0
    return 1.0


def is_function(operation: ops.Operation) -> bool:
    """Return whether a scalar instruction is a mathematical function that is a call, or takes as long."""
    return isinstance(operation, ops.Math) and operation.kind not in _SHORT_FUNCTIONS


# --- parts of vectors ------------------------------------------------------------------------------------------------


def pieces_of(count: int) -> list[tuple[int, int]]:
    """Return the first lane and the width of each of the vectors that so many lanes are, the widest first."""
    pieces: list[tuple[int, int]] = []
    start = 0
    while start < count:
        width = 1 << ((count - start).bit_length() - 1)
        pieces.append((start, width))
        start += width
    return pieces


def load_in_pieces(
    builder: ir.IRBuilder, element: ScalarType, pointer: ir.Value, width: int, count: int
) -> ir.Value:
    """Load `count` consecutive elements into the first lanes of a vector; the others are 0."""
    parts = [(load_element(builder, element, builder.gep(pointer, [index(first)]), part),
              {first + place: place for place in range(part)}) for first, part in pieces_of(count)]
    return _put_together(builder, parts, width)


def store_in_pieces(
    builder: ir.IRBuilder, element: ScalarType, value: ir.Value, pointer: ir.Value, count: int
) -> None:
    """Store the first `count` lanes of a vector to consecutive elements."""
    for first, width in pieces_of(count):
        if width == 1:
            part = get_lane(builder, value, first)
        else:
            part = _shuffled(builder, value, value, [first + lane for lane in range(width)])
        store_element(builder, element, part, builder.gep(pointer, [index(first)]))


def collected(
    builder: ir.IRBuilder, access: Access, pointer: ir.Value, width: int, count: int
) -> ir.Value:
    """Load the elements of `count` iterations out of whole vectors, into the first lanes of a vector; the others are 0.

    `pointer` points to the element of the first iteration.
    """
    element, places = access.memref.type.element, access.places(count)
    starts, size = access.chunks(count)
    vector = vector_of(pointer.type.pointee, size).as_pointer(pointer.type.addrspace)
    parts = []
    rest = dict(enumerate(places))
    for start in starts:
        inside = {lane: place - start for lane, place in rest.items() if 0 <= place - start < size}
        rest = {lane: place for lane, place in rest.items() if lane not in inside}
        at = builder.bitcast(builder.gep(pointer, [index(start)]), vector)
        parts.append((builder.load(at, align=alignment_of(builder, element)), inside))
    return from_storage(builder, element, _put_together(builder, parts, width))


def _put_together(
    builder: ir.IRBuilder, parts: Sequence[tuple[ir.Value, Mapping[int, int]]], width: int
) -> ir.Value:
    """Return a vector of elements of several, and zeros; with each vector is which lane is from which of its places."""
    widest = max(width, *(lanes(part.type) for part, _ in parts))
    spread = []
    for part, where in parts:
        if lanes(part.type) == 1:
            (lane,) = where
            spread.append((set_lane(builder, undefined(vector_of(part.type, widest)), part, lane), {lane: lane}))
        elif lanes(part.type) < widest:
            sources = [where.get(lane) for lane in range(widest)]
            spread.append((_shuffled(builder, part, part, sources), {lane: lane for lane in where}))
        else:
            spread.append((part, dict(where)))
    while len(spread) > 1:
        pairs = [spread[n : n + 2] for n in range(0, len(spread), 2)]
        spread = [reduce(lambda left, right: _merged(builder, left, right), pair) for pair in pairs]
    (vector, where), = spread
    if len(where) == width:
        return _shuffled(builder, vector, vector, [where[lane] for lane in range(width)])
    zeros, first_zero = constant(vector.type, 0), lanes(vector.type)
    return _shuffled(builder, vector, zeros, [where.get(lane, first_zero) for lane in range(width)])


def _merged(
    builder: ir.IRBuilder, left: tuple[ir.Value, dict[int, int]], right: tuple[ir.Value, dict[int, int]]
) -> tuple[ir.Value, dict[int, int]]:
    """Return a vector that has the lanes of two in their places."""
    width = lanes(left[0].type)
    sources = {**left[1], **{lane: width + place for lane, place in right[1].items()}}
    vector = _shuffled(builder, left[0], right[0], [sources.get(lane) for lane in range(width)])
    return vector, {lane: lane for lane in sources}


def _shuffled(
    builder: ir.IRBuilder, left: ir.Value, right: ir.Value, sources: Sequence[int | None]
) -> ir.Value:
    """Return the lanes of two vectors, or of a single one, from these places; where there is none, any element."""
    count = lanes(left.type)
    if left is right:
        # The second vector is then undefined.
        return left if sources == [*range(count)] else shuffle(
            builder, left, [], [count if source is None else source for source in sources])
    return shuffle(builder, left, [right], [n if source is None else source for n, source in enumerate(sources)])
