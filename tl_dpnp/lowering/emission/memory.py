"""The memory accesses of a nest: addresses, loads and stores of elements and of vectors.

Addresses are built from a base that is the same for all lanes of a sub-group, plus the lane, plus a constant: the CPU
runtime recognises consecutive accesses only in this form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import zip_longest
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.complex_numbers import part_of
from tl_dpnp.kernels.elements import alignment_of, load_element, load_subbyte, load_subbytes, store_element
from tl_dpnp.kernels.llvm import (
    GLOBAL,
    I8,
    I32,
    MOST_LANES,
    first_lanes,
    get_lane,
    index,
    lanes,
    lanes_below,
    mask_of,
    most_lanes,
    set_lane,
    shuffle,
    splat,
    undefined,
    value_type,
    vector_of,
)
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.lowering.emission.blocks import Blocks, without_repeats
from tl_dpnp.lowering.emission.patterns import (
    SHUFFLE_OPERANDS,
    Chunk,
    Offset,
    Pattern,
    are_neighbours,
    load_pattern,
    store_runs,
)
from tl_dpnp.lowering.emission.variables import PerLane, Variables
from tl_dpnp.lowering.nest import Access, Loop
from tl_dpnp.lowering.streaming import StreamedResult
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, F64
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["ALIGNED", "Ahead", "Memory", "NestArguments"]


class Ahead(NamedTuple):
    """What to do about operands that exceed the caches.

    Where it is `wanted`, `buffers` are to be prefetched: for each, by name, the distance to the next one and its size,
    in bytes.  Where it `streams`, the result `streamed` is to be computed elsewhere and stored past the caches; it
    comes with the distance to the next one.  Products on tiles fetch without being asked to what will `have_room` in
    the nearest cache.  What is read `once` is fetched as such: the core keeps it until then.
    """

    wanted: ir.Value
    buffers: Mapping[str, tuple[ir.Value, int]]
    streams: ir.Value
    streamed: tuple[StreamedResult, ir.Value] | None = None
    have_room: bool = False
    once: bool = True


@dataclass(frozen=True)
class NestArguments:
    """What a nest is applied to: the address of each buffer, its run-time sizes and strides, its scalars.

    Without `ahead` a ``prefetch`` in a schedule has no effect.  `alignments` are what addresses are known to be
    multiples of, in bytes, where that is more than an element.  `scratch` points to the words of local memory that a
    packed product takes.  The `constant` buffers are expected to be the same memory in many calls, and nothing writes
    to that memory between them.  `multiples` are what run-time strides are known to be multiples of, in elements.
    """

    pointers: Mapping[str, ir.Value]
    dimensions: Mapping[str, ir.Value]
    scalars: Mapping[str, ir.Value]
    ahead: Ahead | None = None
    alignments: Mapping[str, int] = field(default_factory=dict)
    scratch: ir.Value | None = None
    constant: frozenset[str] = frozenset()
    multiples: Mapping[str, int] = field(default_factory=dict)


#: Bytes of the elements that are kept in all lanes of a vector.
_BYTES: dict[type, int] = {ir.FloatType: F32.bytes, ir.DoubleType: F64.bytes}
#: Bytes of the narrowest register of vectors.
_REGISTER = 16
#: Bytes that a vector takes at most, and that addresses of `Memory.aligned` are multiples of.
ALIGNED = 16


@dataclass
class Memory:
    """Emits loads and stores; what was loaded in a block is not loaded again before a store.

    Where `rows_mixed` is not 0, vectors are made of so many rows of each of several columns, whose elements other
    vectors have in all lanes.  With `masks`, lanes beyond the `active_lanes` of a vector, which repeat the last one,
    are not loaded where the others are neighbours in memory, and with `masks_stores` not stored; else these are stored
    in pieces: a load waits for a store with a mask in front of it, as if that had stored all lanes.  In sums that are
    `near`, elements for all lanes are at constant distances from one address.
    """

    builder: ir.IRBuilder
    arguments: NestArguments
    variables: Variables
    vector_width: int
    rows_mixed: int = 0
    masks: bool = False
    masks_stores: bool = False
    near: Callable[[Loop], bool] = lambda _: False
    blocks: Blocks | None = None
    loaded: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    broadcasts: dict[int, ir.Value] = field(default_factory=dict)
    #: Vectors of one element in all lanes, by the element and their width.
    splats: dict[tuple[int, int], ir.Value] = field(default_factory=dict)
    #: Words of elements as an instruction takes them, by the type and what was loaded.
    words: dict[tuple[object, ...], ir.Value] = field(default_factory=dict)
    #: Buffers whose address and strides are multiples of 16 bytes, as the code around the present place found out.
    aligned: set[str] = field(default_factory=set)
    #: The lanes of a vector that have an iteration; 0 outside of vectorized loops.
    active_lanes: int = 0
    #: Masks of the first lanes of vectors, by their number and that of all.
    known_masks: dict[tuple[int, int], ir.Value] = field(default_factory=dict)
    #: Which lanes of a vector take part, where only the run shows it.
    mask: ir.Value | None = None
    #: The parts of a vector that has lanes of two loops, one for each iteration of the outer one.  Each has the mask.
    parts: int = 1
    #: The first lanes of a vector that reaches back over others, which have stored these elements.
    lanes_stored_before: int = 0
    #: The lanes of the widest vector where a column is multiplied whose vectors differ; 0 elsewhere.
    widest: int = 0
    #: Vectors of an element in all lanes that were made for such a column.
    wholes: list[ir.Value] = field(default_factory=list)
    #: The innermost unrolled loop of a sum around the present place.
    unrolled: Loop | None = None
    #: Whether the present place is in such a sum.
    in_near_sum: bool = False

    def forget(self) -> None:
        """Load everything anew from here on."""
        self.loaded, self.broadcasts, self.splats, self.words = {}, {}, {}, {}

    def width(self, access: Access) -> int:
        """Return the number of lanes of an access."""
        return max((self.variables.width(entry) for entry in access.indices), default=1)

    def load(self, access: Access) -> ir.Value:
        """Load an element or a vector."""
        if access.part is not None:
            return self.load_part(access)
        width = self.width(access)
        offsets = self.offsets(access, width)
        if access.is_integer_load:
            assert len(set(offsets)) == 1
            return self.broadcast(self.integer_load(access, offsets[0]), width)
        if width == 1:
            return self.chunk(access, Chunk(offsets[0], 1))
        if self.is_masked(access, offsets):
            return self.masked_parts(access, offsets)
        shared = access.buffer.element in (F32, F64) and self.shares_broadcasts(access.buffer.element.bytes, width)
        block = self.block(access, width)
        widest, extent = max(width, self.vector_width), self.extent(access)
        overlaps = self.overlaps(access)
        pattern = load_pattern(offsets, widest, extent, shared=shared, block=block, overlaps=overlaps)
        if block and sum(chunk.width for chunk in pattern.chunks) > widest:
            block, pattern = frozenset(), load_pattern(offsets, widest, extent, shared=shared, overlaps=overlaps)
        values = [self.chunk(access, chunk) for chunk in pattern.chunks]
        alike = {lanes(value.type) for value in values}
        if len(alike) == 1 and alike != {1}:
            places = [number * min(alike) + place for number, place in pattern.lanes]
            joined = self.joined(self.key(access, pattern.chunks), values, 1 if block else SHUFFLE_OPERANDS)
            if len(joined) <= SHUFFLE_OPERANDS:
                whole = len(joined) == 1 and places == list(range(lanes(joined[0].type)))
                return joined[0] if whole else shuffle(self.builder, joined[0], joined[1:], places)
        return self.combined(values, pattern)

    @contextmanager
    def unrolling(self, loop: Loop) -> Iterator[None]:
        """Emit the iterations of an unrolled loop, which is that of a sum or another."""
        around = self.unrolled
        self.unrolled = loop if loop.reduction else around
        yield
        self.unrolled = around

    @contextmanager
    def summing(self, loop: Loop) -> Iterator[None]:
        """Emit an iteration of a loop that runs, which is that of a sum or another."""
        around, self.in_near_sum = self.in_near_sum, self.near(loop)
        yield
        self.in_near_sum = around

    def block(self, access: Access, width: int) -> frozenset[Offset]:
        """Return what the steps of a sum read that are loaded together with the present one."""
        loop, values = self.unrolled, self.variables.values
        if self.blocks is None or loop is None or not any(loop.variable in entry for entry in access.indices):
            return frozenset()
        present = values[loop.variable]
        assert isinstance(present, int)
        found: set[Offset] = set()
        for step in self.blocks.steps(loop, present):
            values[loop.variable] = step
            found.update(self.offsets(access, width))
        values[loop.variable] = present
        return frozenset(found)

    def load_part(self, access: Access) -> ir.Value:
        """Load the real or the imaginary part: alone where it is one of an element, which all lanes take."""
        element, part, whole = access.buffer.element, int(access.part == "im"), replace(access, part=None)
        if self.width(access) > 1:
            return part_of(self.builder, self.load(whole), part)
        (offset,) = self.offsets(access, 1)
        key = self.key(access, (offset, access.part))
        if key not in self.loaded:
            pointer = self.pointer(whole, offset)
            number = value_type(element.part).as_pointer(pointer.type.addrspace)
            place = self.builder.gep(self.builder.bitcast(pointer, number), [index(part)])
            self.loaded[key] = load_element(self.builder, element.part, place)
        return self.loaded[key]

    def chunk(self, access: Access, chunk: Chunk) -> ir.Value:
        """Load consecutive elements."""
        key = self.key(access, chunk)
        if key not in self.loaded and access.buffer.element.is_subbyte:
            self.loaded[key] = self.subbytes(access, chunk)
        if key not in self.loaded:
            near = self.in_near_sum and chunk.width == 1 and not chunk.start.strides
            pointer = self.near_pointer(access, chunk.start.known) if near else self.pointer(access, chunk.start)
            self.loaded[key] = load_element(
                self.builder, access.buffer.element, pointer, chunk.width, self.alignment(access, chunk.start)
            )
        return self.loaded[key]

    def near_pointer(self, access: Access, known: int) -> ir.Value:
        """Return the address of an element at a constant distance from one that LLVM does not take apart.

        It would add a base and an index in each instruction instead, to save a register.
        """
        key = self.key(access, "address")
        if key not in self.loaded:
            address = self.pointer(access, Offset((), 0))
            self.loaded[key] = target_of(self.builder).opaque(self.builder, address)
        return self.builder.gep(self.loaded[key], [index(known)]) if known else self.loaded[key]

    def is_masked(self, access: Access, offsets: Sequence[Offset]) -> bool:
        """Whether the lanes without an iteration are left out of an access to neighbours in memory."""
        if self.mask is not None:
            return True
        active = self.active_lanes
        return (self.masks and 1 < active < len(offsets) and not access.buffer.element.is_subbyte
                and are_neighbours(offsets[:active]))

    def mask_below(self, left: int | ir.Value, numbers: range, width: int) -> ir.Value:
        """Return the mask of the lanes of a vector, which begins with these numbers, below what is left of them.

        One that is known is the same each time, so that what is loaded with it is not loaded again.
        """
        if not isinstance(left, int):
            return lanes_below(self.builder, left, numbers, width)
        active = min(left, numbers.stop) - numbers.start
        return self.known_masks.setdefault((active, width), first_lanes(active, width))

    def masked_load(self, access: Access, offset: Offset, width: int, mask: ir.Value | None = None) -> ir.Value:
        """Load the active lanes of a vector; the others are 0."""
        mask = mask or self.mask or first_lanes(self.active_lanes, width)
        key = self.key(access, (offset, width, self.active_lanes if self.mask is None else id(mask)))
        if key not in self.loaded:
            self.loaded[key] = load_element(
                self.builder, access.buffer.element, self.pointer(access, offset), width,
                self.alignment(access, offset), mask)
        return self.loaded[key]

    def masked_parts(self, access: Access, offsets: Sequence[Offset]) -> ir.Value:
        """Load the active lanes of each part of a vector; parts that are the same are loaded once."""
        if self.parts == 1 or self.mask is None:
            return self.masked_load(access, offsets[0], len(offsets))
        assert isinstance(self.mask, ir.Constant)
        active = [lane.constant for lane in self.mask.constant]
        if are_neighbours(offsets):
            mask = self.known_masks.setdefault((id(self.mask), self.parts), mask_of(active * self.parts))
            return self.masked_load(access, offsets[0], len(offsets), mask)
        starts = offsets[:: len(active)]
        if len(set(starts)) == 1:
            return self.repeated(access, starts[0], sum(active), len(active))
        loaded = [self.masked_load(access, start, len(active)) for start in starts]
        while len(loaded) > 1:
            width = 2 * lanes(loaded[0].type)
            loaded = [shuffle(self.builder, first, [second], range(width))
                      for first, second in zip(loaded[::2], loaded[1::2], strict=True)]
        return loaded[0]

    def repeated(self, access: Access, start: Offset, count: int, width: int) -> ir.Value:
        """Load neighbours, fewer than fill a part of a vector, for each part of it; the other lanes are 0.

        Pieces of as many as a broadcast takes are put in by masks, which needs no shuffles.
        """
        numbers, done = range(width * self.parts), 0
        result: ir.Value = ir.Constant(vector_of(value_type(access.buffer.element), len(numbers)), None)
        for size in (1 << bit for bit in reversed(range(width.bit_length())) if count >> bit & 1):
            piece = self.chunk(access, Chunk(start.next(done), size))
            whole = splat(self.builder, piece, len(numbers)) if size == 1 else shuffle(
                self.builder, piece, [], [lane % size for lane in numbers])
            mask = mask_of([done <= lane % width < done + size for lane in numbers])
            result = self.builder.select(mask, whole, result)
            done += size
        return result

    def integer_load(self, access: Access, offset: Offset) -> ir.Value:
        """Load an element through an integer register."""
        element, key = access.buffer.element, self.key(access, Chunk(offset, 1))
        if key not in self.loaded:
            pointer = self.pointer(access, offset)
            word = self.builder.bitcast(pointer, ir.IntType(element.bits).as_pointer(pointer.type.addrspace))
            loaded = self.builder.load(word, align=self.alignment(access, offset))
            opaque = target_of(self.builder).opaque(self.builder, loaded)
            self.loaded[key] = self.builder.bitcast(opaque, value_type(element))
        return self.loaded[key]

    def subbytes(self, access: Access, chunk: Chunk) -> ir.Value:
        """Load consecutive elements several of which share a byte: whole bytes where they are known to be such."""
        element = access.buffer.element
        pointer, place = self.byte_pointer(access, chunk.start)
        if chunk.width == 1:
            return load_subbyte(self.builder, element, pointer, place)
        if place == 0 and chunk.width % element.per_byte == 0:
            return load_subbytes(self.builder, element, pointer, chunk.width)
        result = undefined(vector_of(I8, chunk.width))
        for lane in range(chunk.width):
            value = self.chunk(access, Chunk(chunk.start.next(lane), 1))
            result = self.builder.insert_element(result, value, ir.Constant(I32, lane))
        return result

    def key(self, access: Access, what: object) -> tuple[object, ...]:
        """Identify something that was loaded from the address of an access."""
        return (access.buffer.name, *map(self.variables.running_key, access.indices), what)

    def joined(self, key: tuple[object, ...], values: list[ir.Value], most: int) -> list[ir.Value]:
        """Put vectors of the same width one behind the other, as far as a vector holds them, and keep the result.

        Up to so many are left as they are.
        """
        if len(values) <= most:
            return values
        kept = self.loaded.get(key)
        if kept is not None:
            return [kept]
        while len(values) > 1 and lanes(values[0].type) < most_lanes(values[0].type):
            count = 2 * lanes(values[0].type)
            pairs = zip_longest(values[::2], values[1::2])
            values = [shuffle(self.builder, low, [] if high is None else [high], range(count)) for low, high in pairs]
        if len(values) == 1:
            if most == 1:
                # LLVM would load the elements of each step for themselves.
                values = [target_of(self.builder).kept(self.builder, values[0])]
            self.loaded[key] = values[0]
        return values

    def combined(self, values: list[ir.Value], pattern: Pattern) -> ir.Value:
        """Build a vector from what was loaded: each lane from its place in one of the chunks."""
        width = len(pattern.lanes)
        if width == 1 or len(values) == 1:
            return self.broadcast(values[0], width)
        if all(lanes(value.type) == 1 for value in values) and len(values) == width:
            # No element is shared: they are put together one by one.
            result = undefined(vector_of(values[0].type, width))
            for lane, (number, _) in enumerate(pattern.lanes):
                result = set_lane(self.builder, result, values[number], lane)
            return result
        result = None
        for number, value in enumerate(values):
            placed = self.broadcast(value, width) if lanes(value.type) == 1 else shuffle(
                self.builder, value, [], [place if own == number else 0 for own, place in pattern.lanes])
            chosen = [lane + width * (own == number) for lane, (own, _) in enumerate(pattern.lanes)]
            result = placed if result is None else shuffle(self.builder, result, [placed], chosen)
        assert result is not None
        return result

    def broadcast(self, value: ir.Value, width: int) -> ir.Value:
        """Return an element in all lanes; where columns are mixed, whole vectors of it are kept for that.

        LLVM would mix the elements instead: with half a vector of each, and a shuffle more for each whole one.
        """
        size = _BYTES.get(type(value.type), 0)
        if not self.shares_broadcasts(size, width):
            return splat(self.builder, value, width)
        if id(value) not in self.broadcasts:
            self.broadcasts[id(value)] = target_of(self.builder).kept(self.builder, splat(self.builder, value, width))
        return self.broadcasts[id(value)]

    def splat(self, value: ir.Value, width: int) -> ir.Value:
        """Return an element in all lanes, the same vector as before; LLVM would have to find out that it is."""
        key = id(value), width  # instructions stay where they are, in their block; constants may go
        if width == 1 or isinstance(value, ir.Constant):
            return splat(self.builder, value, width)
        if key not in self.splats:
            lowest = _BYTES.get(type(value.type), 0) * self.widest >= _REGISTER
            self.splats[key] = self.lowest_of_whole(value, width) if lowest else splat(self.builder, value, width)
        return self.splats[key]

    def lowest_of_whole(self, value: ir.Value, width: int) -> ir.Value:
        """Return an element in the first lanes of the widest vector, of which LLVM knows no source: it is made once."""
        if width < self.widest:
            return shuffle(self.builder, self.splat(value, self.widest), [], range(width))
        self.wholes.append(target_of(self.builder).kept(self.builder, splat(self.builder, value, width)))
        return self.wholes[-1]

    def end_column(self) -> None:
        """Hold the whole vectors that were made for a column whose vectors differ until here.

        LLVM 18 writes a sum over an element that is not needed any more, and spills sums that change their registers
        in each step, above all where the element took more of one than the sum does.
        """
        for vector in self.wholes:
            target_of(self.builder).hold(self.builder, vector)
        self.widest, self.wholes = 0, []

    def shares_broadcasts(self, size: int, width: int) -> bool:
        """Whether whole vectors of an element of so many bytes serve several accesses of this width.

        A vector of 8 lanes that has only one or two rows of a column is put together from pairs in as few instructions.
        """
        return size * width == CACHE_LINE and self.rows_mixed > (0 if width == MOST_LANES else 2)

    def store(self, access: Access, value: ir.Value) -> None:
        """Store an element or a vector; what else was loaded from memory that may be the same is forgotten."""
        width = lanes(value.type)
        element = access.buffer.element
        left_out = self.lanes_stored_before if access.buffer.scope == "global" else 0
        offsets = self.offsets(access, width)
        kept = without_repeats(offsets) if self.blocks is not None or self.parts > 1 else [*range(width)]
        if kept != [*range(width)]:
            value = shuffle(self.builder, value, [], kept)
            offsets, width = tuple(offsets[lane] for lane in kept), len(kept)
        if self.mask is not None or (self.masks_stores and not left_out and self.is_masked(access, offsets)):
            store_element(self.builder, element, value, self.pointer(access, offsets[0]),
                          self.alignment(access, offsets[0]), self.mask or first_lanes(self.active_lanes, width))
            self.changed(access)
            return
        for start, chunk in store_runs(offsets[left_out:], overlaps=self.overlaps(access)):
            part, first = value, left_out + start
            if chunk.width == 1 < width:
                part = get_lane(self.builder, value, first)
            elif chunk.width < width:
                part = shuffle(self.builder, value, [], range(first, first + chunk.width))
            pointer = self.pointer(access, chunk.start)
            store_element(self.builder, element, part, pointer, self.alignment(access, chunk.start))
        self.changed(access)

    def overlaps(self, access: Access) -> bool:
        """Whether chunks of neighbours may overlap: not in temporaries, which are soon read again.

        Processors hand on what a store has not written yet only to loads that lie within it.  And LLVM's back end for
        x86 (14 to 18) moves a load of the upper half of a vector behind later stores: where chunks overlap, its other
        passes make such loads of what a loop copies between temporaries.
        """
        return access.buffer.scope != "global" or self.arguments.pointers[access.buffer.name].type.addrspace == GLOBAL

    def changed(self, access: Access) -> None:
        """Forget what was loaded from memory that may be that of an access."""
        # Operands may alias one another; the copies of a nest alias nothing.
        own = access.buffer.scope != "global"
        self.loaded = {key: old for key, old in self.loaded.items() if own and key[0] != access.buffer.name}

    # --- addresses ---------------------------------------------------------------------------------------------------

    def offsets(self, access: Access, width: int) -> tuple[Offset, ...]:
        """Return where the lanes of an access are, as far as it is known at compile time."""
        known = [0] * width
        strides: list[tuple[tuple[str, int], ...]] = [()] * width
        for entry, stride in zip(access.indices, access.buffer.strides, strict=True):
            counts = self.variables.known(entry)
            if counts == 0:
                continue
            counts = [counts] * width if isinstance(counts, int) else counts
            if isinstance(stride, int):
                known = [before + count * stride for before, count in zip(known, counts, strict=True)]
            else:
                strides = [_plus(own, stride.name, count) for own, count in zip(strides, counts, strict=True)]
        return tuple(map(Offset, strides, known))

    def extent(self, access: Access) -> int | None:
        """Return how many elements follow the address of an access that does not move; None where it does."""
        buffer = access.buffer
        static = all(isinstance(size, int) for size in (*buffer.shape, *buffer.strides))
        return buffer.elements if static and not self.is_moving(access) else None

    def is_consecutive(self, access: Access, variable: str) -> bool:
        """Whether the elements of an access are neighbours in memory along a loop."""
        strides = [s for entry, s in zip(access.indices, access.buffer.strides, strict=True) if variable in entry]
        return strides == [1]

    def is_moving(self, access: Access) -> bool:
        """Whether the address depends on variables that are known at run time only."""
        return any(self.variables.running(entry) for entry in access.indices)

    def pointer(self, access: Access, offset: Offset) -> ir.Value:
        """Return the address of an element: uniform part, then lane, then constant."""
        uniform: list[tuple[ir.Value, ir.Value]] = []
        per_lane: list[tuple[ir.Value, ir.Value]] = []
        for entry, stride in zip(access.indices, access.buffer.strides, strict=True):
            step = index(stride) if isinstance(stride, int) else self.arguments.dimensions[stride.name]
            for value in self.variables.running(entry):
                if isinstance(value, PerLane):
                    per_lane.append((value.value, step))
                else:
                    uniform.append((value, step))
        scaled = [(index(count), self.arguments.dimensions[name]) for name, count in offset.strides]
        pointer = self.arguments.pointers[access.buffer.name]
        for terms in (uniform, per_lane, scaled):
            pointer = self.advance(pointer, terms)
        return self.builder.gep(pointer, [index(offset.known)]) if offset.known else pointer

    def byte_pointer(self, access: Access, offset: Offset) -> tuple[ir.Value, ir.Value | int]:
        """Return the address of a byte, and the place from its lowest bits on, of an element that shares one.

        Strides but the first one are whole bytes, and so are indices of the first mode that are known to be multiples.
        """
        element = access.buffer.element
        shift = index(element.per_byte.bit_length() - 1)

        def in_bytes(elements: ir.Value) -> ir.Value:
            known = isinstance(elements, ir.Constant)
            return index(elements.constant >> shift.constant) if known else self.builder.ashr(elements, shift)

        uniform: list[tuple[ir.Value, ir.Value]] = []
        per_lane: list[tuple[ir.Value, ir.Value]] = []
        place: ir.Value | None = None
        for mode, (entry, stride) in enumerate(zip(access.indices, access.buffer.strides, strict=True)):
            whole = mode > 0 or all(self.variables.multiples.get(name, 1) % element.per_byte == 0
                                    for name in entry if self.variables.is_running(name))
            step = index(stride) if isinstance(stride, int) else self.arguments.dimensions[stride.name]
            for running in self.variables.running(entry):
                value = running.value if isinstance(running, PerLane) else running
                if not whole:
                    place = value if place is None else self.builder.add(place, value)
                    continue
                factors = (value, in_bytes(step)) if mode else (in_bytes(value), index(1))
                (per_lane if isinstance(running, PerLane) else uniform).append(factors)
        scaled = [(index(count), in_bytes(self.arguments.dimensions[name])) for name, count in offset.strides]
        pointer = self.arguments.pointers[access.buffer.name]
        for terms in (uniform, per_lane, scaled):
            pointer = self.advance(pointer, terms)
        known, rest = divmod(offset.known, element.per_byte)
        pointer = self.builder.gep(pointer, [index(known)]) if known else pointer
        if place is None:
            return pointer, rest
        return pointer, self.builder.add(place, index(rest)) if rest else place

    def alignment(self, access: Access, offset: Offset) -> int:
        """Return what the address of an element is known to be a multiple of, in bytes: that of an element or more."""
        element = access.buffer.element.bytes
        least = alignment_of(self.builder, access.buffer.element)
        is_aligned = access.buffer.name in self.aligned
        given = ALIGNED if is_aligned else self.arguments.alignments.get(access.buffer.name, 1)
        known = math.gcd(given, offset.known * element)
        multiples = self.arguments.multiples
        for dimension, count in () if is_aligned else offset.strides:
            known = math.gcd(known, count * multiples.get(dimension, 1) * element)
        for entry, stride in zip(access.indices, access.buffer.strides, strict=True):
            for name in entry:
                if self.variables.is_running(name):
                    step = self.variables.multiples.get(name, 1)
                    if isinstance(stride, int):
                        unit = stride * element
                    else:
                        unit = ALIGNED if is_aligned else multiples.get(stride.name, 1) * element
                    known = math.gcd(known, step * unit)
        return max(known, least)

    def advance(self, pointer: ir.Value, terms: list[tuple[ir.Value, ir.Value]]) -> ir.Value:
        """Move an address by a sum of products."""
        offset: ir.Value | None = None
        for value, stride in terms:
            one = isinstance(stride, ir.Constant) and stride.constant == 1
            term = value if one else self.builder.mul(value, stride)
            offset = term if offset is None else self.builder.add(offset, term)
        return pointer if offset is None else self.builder.gep(pointer, [offset])


def _plus(strides: tuple[tuple[str, int], ...], name: str, count: int) -> tuple[tuple[str, int], ...]:
    """Return multiples of strides, with so many more of one."""
    before = dict(strides)
    return tuple({**before, name: before.get(name, 0) + count}.items()) if count else strides
