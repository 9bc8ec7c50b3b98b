"""A product of small matrices of any sizes by the threads of a team, from shared memory: C := alpha A B + beta C.

Each thread has a tile of C in registers, of chunks of a few consecutive rows and columns that are dealt out to the
threads in turns.  Chunks beyond the last row or column are computed from others and not stored, so that tiles need not
divide C.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.elements import load_element
from tl_dpnp.kernels.llvm import (
    I32,
    I64,
    LOCAL,
    constant,
    counted_loop,
    get_lane,
    if_then,
    index,
    int32,
    set_lane,
    undefined,
    value_type,
    vector_of,
)
from tl_dpnp.kernels.mma.operands import Finish, Matrix
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.kernels.targets.nvvm import asm, special_register
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, ScalarType

__all__ = ["RegisterProduct", "place_of_thread"]

#: Sums up to this length are unrolled whole; of longer ones, so many multiply-adds at most and terms of one iteration.
_WHOLE, _ITERATION, _TERMS = 16, 192, 8
#: Where a chunk of lines begins, an element that is known at run time and one that is known now, and its lines.
_Line = tuple[ir.Value, int, int]


@dataclass(frozen=True)
class RegisterProduct:
    """A product of m x k and k x n by `down` x `across` threads.

    A chunk has `rows` of C, or `columns`; of A, `depth[0]` elements along the sum are loaded together, of B `depth[1]`.
    Threads follow one another down the rows, or with `in_quads` by blocks of 2 x 2, whose first two share columns:
    shared memory gives vectors to two lanes at once where each lane reads what the next one does, or the next but one.
    In a product that is `staggered`, columns of B are an odd number of elements apart, and those of a thread an even
    number of columns: a thread begins its sum with the first or the second term, such that its pairs of B are aligned,
    and adds the term that is left at the end.
    In a product that is `shifted`, columns of A are an odd number of elements apart, and a thread has an even number of
    rows that follow one another, one place earlier where A begins at an odd one: pairs of them are aligned in every
    second column, and the pairs in between in the others.  Threads load, and do not store, what is an element before A
    and `overrun` elements behind it.
    In a product that is `rotated`, lines of an operand along the sum are so far apart that they begin in the same bank:
    a thread begins its sum so many terms later for each place along the rows, and along the columns, and goes on with
    the first term after the last one.  Such sums have whole steps.
    A product that `waits` stores when what the block copied back before has left shared memory; in one that
    `is_partial`, the team has threads beyond those, which do nothing.  Products of a team that has several are
    `in_line`: its threads follow one another, whatever rows and columns they have.
    """

    elements: tuple[ScalarType, ScalarType, ScalarType]
    m: int
    n: int
    k: int
    down: int
    across: int
    rows: int = 1
    columns: int = 1
    depth: tuple[int, int] = (1, 1)
    in_quads: bool = False
    waits: bool = False
    is_partial: bool = False
    staggered: bool = False
    shifted: bool = False
    rotated: tuple[int, int] = (0, 0)
    in_line: bool = False

    def __str__(self) -> str:
        height, width = self.tile
        special = {", of shifted rows": self.shifted, ", with rotated sums": any(self.rotated)}
        return f"tiles of {height} x {width} in registers" + "".join(text for text, is_so in special.items() if is_so)

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a thread's tile."""
        # A thread that begins one place earlier ends there, too.
        rows, count = (2, self.m + 1) if self.shifted else (self.rows, self.m)
        return (rows * -(-count // (rows * self.down)),
                self.columns * -(-self.n // (self.columns * self.across)))

    @property
    def overrun(self) -> int:
        """Elements behind A that are loaded."""
        return self.down * self.tile[0] - self.m if self.shifted else 0

    @property
    def computed(self) -> ScalarType:
        """The type of the sums: that of C, or f32 where that has 16 bits."""
        return F32 if self.elements[2].bytes < F32.bytes else self.elements[2]

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of floats for a term of a sum."""
        return 4 if self.computed.is_complex else 1

    @property
    def threads(self) -> int:
        """Threads of a team."""
        return self.down * self.across

    def place(self, thread: int) -> tuple[int, int]:
        """Return the place of a thread of the team: along the rows, and along the columns."""
        return place_of_thread(thread, self.down, self.in_quads)

    @property
    def length(self) -> int:
        """Terms of the sum that are in the loop."""
        return self.k - 1 if self.staggered else self.k

    @property
    def terms(self) -> int:
        """Terms of the sum in one iteration."""
        if self.length <= _WHOLE:
            return self.length
        height, width = self.tile
        step = max(self.depth)
        # In an even number of steps, what is loaded ahead in the last one has the registers of the first.
        return 2 * step * max(1, min(_TERMS, _ITERATION // (self.multiply_adds * height * width)) // (2 * step))

    # --- the code ----------------------------------------------------------------------------------------------------

    def emit(self, b: ir.IRBuilder, left: Matrix, right: Matrix, result: Matrix, finish: Finish) -> None:
        """Append the code; `finish(sum, old)` gives the element as it is stored, where `old()` loads the one before."""
        row, column = self._own_place(b)
        if self.is_partial:
            is_there = b.and_(b.icmp_unsigned("<", row, int32(self.down)),
                              b.icmp_unsigned("<", column, int32(self.across)))
            if_then(b, is_there, lambda: self._compute(b, row, column, left, right, result, finish))
        else:
            self._compute(b, row, column, left, right, result, finish)

    def _compute(
        self, b: ir.IRBuilder, row: ir.Value, column: ir.Value, left: Matrix, right: Matrix, result: Matrix,
        finish: Finish,
    ) -> None:
        """Append the code of a thread by its place in the team."""
        lines_b = self._lines(b, right.strides[1], column, self.columns, self.across, self.n)
        second = self._second(b, right, lines_b) if self.staggered else None
        first = self._first_row(b, left, row, second) if self.shifted else None
        lines_a = [] if first is not None else self._lines(b, left.strides[0], row, self.rows, self.down, self.m)
        begin = self._begin(b, row, column) if any(self.rotated) else None
        sums = self._summed(b, left, right, lines_a, lines_b, first, second, begin)
        if self.waits:
            asm(b, "cp.async.bulk.wait_group.read 0;", "~{memory}", ir.VoidType(), [])
            target_of(b).barrier(b)
        self._store(b, result, row, column, sums, finish, first)

    def _second(self, b: ir.IRBuilder, right: Matrix, lines_b: Sequence[_Line]) -> ir.Value:
        """Return 1 for a thread whose sum begins with the second term, since columns of B begin at odd elements."""
        return _parity(b, b.gep(right.pointer, [lines_b[0][0]]), self.elements[1])

    def _first_row(self, b: ir.IRBuilder, left: Matrix, row: ir.Value, second: ir.Value | None) -> ir.Value:
        """Return the first row of a thread's tile, from which on pairs of A are aligned in the first column."""
        begin = left.pointer if second is None else left.at(b, index(0), second).pointer
        height = b.mul(row, int32(self.tile[0]))
        return b.sub(height, b.trunc(_parity(b, begin, self.elements[0]), I32))

    def _begin(self, b: ir.IRBuilder, row: ir.Value, column: ir.Value) -> ir.Value:
        """Return the term with which a thread begins its sum."""
        places = [b.mul(place, int32(terms))
                  for place, terms in zip((row, column), self.rotated, strict=True) if terms]
        return b.urem(functools.reduce(b.add, places), int32(self.k))

    def _summed(
        self, b: ir.IRBuilder, left: Matrix, right: Matrix, lines_a: Sequence[_Line], lines_b: Sequence[_Line],
        first_row: ir.Value | None, second: ir.Value | None, begin: ir.Value | None,
    ) -> list[ir.Value]:
        """Append the sums of a thread's tile, and return them row by row."""
        height, width = self.tile
        step = max(self.depth)
        rest: list[ir.Value] = []

        def of_a(matrix: Matrix, start: ir.Value, first: int, count: int, paired: bool = True) -> list[ir.Value]:
            """Return the elements of A of some terms: those of each row one after another."""
            if first_row is None:
                return _values(b, matrix.pointer, lines_a, matrix.strides, self.elements[0],
                               self.depth[0] if paired else 1, start, first, count)
            begin = b.gep(matrix.pointer, [b.add(b.sext(first_row, I64), b.mul(start, index(matrix.strides[1])))])
            return _shifted_values(b, begin, height, matrix.strides[1], self.elements[0], first, count, paired)

        if second is not None:
            last = b.mul(b.sub(index(1), second), index(self.k - 1))
            rest = [*of_a(left, last, 0, 1, False),
                    *_values(b, right.pointer, lines_b, right.strides[::-1], self.elements[1], 1, last, 0, 1)]
            left, right = left.at(b, index(0), second), right.at(b, second, index(0))
        others = right.pointer, lines_b, right.strides[::-1], self.elements[1], self.depth[1]

        def loaded(start: ir.Value, first: int, end: int) -> list[ir.Value]:
            """Return what a step multiplies: the elements of each row of A, then of each column of B."""
            count = min(step, end - first)
            if begin is not None:
                place = b.add(begin, b.add(b.trunc(start, I32), int32(first)))
                around = b.sub(place, int32(self.k))
                start, first = b.zext(b.select(b.icmp_unsigned("<", place, int32(self.k)), place, around), I64), 0
            return [*of_a(left, start, first, count), *_values(b, *others, start, first, count)]

        def iteration(start: ir.Value, values: Sequence[ir.Value], end: int, following: bool) -> list[ir.Value]:
            """Return the sums after the terms up to `end`, and what is multiplied next; loads go ahead of their use."""
            sums, current = list(values[: height * width]), list(values[height * width :])
            for first in range(0, end, step):
                ahead: list[ir.Value] = []
                if following or first + step < end:
                    ahead = loaded(start, first + step, max(end, first + 2 * step) if following else end)
                sums, current = self._multiplied(b, current, sums), ahead
            return [*sums, *current]

        sums: list[ir.Value] = [constant(value_type(self.computed), 0.0)] * (height * width)
        loops = max(0, self.length // self.terms - 1) * self.terms
        values = [*sums, *loaded(index(0), 0, self.length)]
        if loops:
            values = counted_loop(b, index(0), index(loops), index(self.terms), values,
                                  lambda start, values: iteration(start, values, self.terms, True),
                                  runs_at_least_once=True, unrolled=False)
        sums = iteration(index(loops), values, self.length - loops, False)
        return self._multiplied(b, rest, sums) if rest else sums

    def _multiplied(
        self, b: ir.IRBuilder, values: Sequence[ir.Value], sums: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Return the sums with the terms of a step more."""
        height, width = self.tile
        count, sums = len(values) // (height + width), list(sums)
        for term, i, j in itertools.product(range(count), range(height), range(width)):
            of_a, of_b = values[i * count + term], values[(height + j) * count + term]
            place = i * width + j
            sums[place] = scalar_ops.fused_multiply_add(b, self.computed, of_a, of_b, sums[place])
        return sums

    def _own_place(self, b: ir.IRBuilder) -> tuple[ir.Value, ir.Value]:
        """Return what `place` gives for this thread, in 32 bits, which take half the instructions of 64."""
        row, column = (b.trunc(special_register(b, name), I32) for name in ("tid.x", "tid.y"))
        thread = row if self.in_line else b.add(row, b.mul(column, int32(self.down)))
        if not self.in_quads:
            return (b.urem(row, int32(self.down)), b.udiv(row, int32(self.down))) if self.in_line else (row, column)
        quad, half, one = b.lshr(thread, int32(2)), int32(self.down // 2), int32(1)
        beside = b.and_(b.lshr(thread, one), one)
        return (b.add(b.shl(b.urem(quad, half), one), b.and_(thread, one)),
                b.add(b.shl(b.udiv(quad, half), one), beside))

    def _lines(
        self, b: ir.IRBuilder, stride: int, own: ir.Value, size: int, parts: int, end: int
    ) -> list[_Line]:
        """Return the chunks of a thread.

        Where a chunk is beyond the `end` for a thread, it is the thread's one before, or the last one of all.
        """
        chunks = end // size
        found = []
        first = b.zext(b.mul(own, int32(size * stride)), I64)
        for number in range(-(-chunks // parts)):
            if (number + 1) * parts <= chunks:
                found.append((first, number * parts * size * stride, size))
                continue
            place = b.add(own, int32(number * parts))
            before = b.add(own, int32((number - 1) * parts)) if number else int32(chunks - 1)
            place = b.select(b.icmp_unsigned("<", place, int32(chunks)), place, before)
            found.append((b.zext(b.mul(place, int32(size * stride)), I64), 0, size))
        return found

    def _store(
        self, b: ir.IRBuilder, result: Matrix, row: ir.Value, column: ir.Value, sums: Sequence[ir.Value],
        finish: Finish, first_row: ir.Value | None,
    ) -> None:
        """Append the stores of a thread's tile, which has chunks of rows, or rows that follow one another."""
        height, width = self.tile
        stride, distance = result.strides
        size = self.rows if stride == 1 and _is_aligned(result, self.elements[2], self.rows, distance) else 1

        def guarded(place: ir.Value, last: int, end: int, body: Callable[[], None]) -> None:
            """Emit stores of a chunk that is there for all threads, or for those whose place is before the end."""
            if last < end:
                body()
            else:
                if_then(b, b.icmp_unsigned("<", place, int32(end)), body)

        def store(i: int, chunk: int, beside: int) -> None:
            """Emit the store of an element, or of `size` rows, in a column of a chunk."""
            if first_row is None:
                down, along = divmod(i, self.rows)
                line = b.add(b.mul(b.add(row, int32(down * self.down)), int32(self.rows)), int32(along))
            else:
                line = b.add(first_row, int32(i))
            first = b.mul(b.add(column, int32(chunk * self.across)), int32(self.columns))
            place = b.add(b.mul(line, int32(stride)), b.mul(b.add(first, int32(beside)), int32(distance)))
            j = chunk * self.columns + beside
            self._store_together(b, b.gep(result.pointer, [b.zext(place, I64)]),
                                 [sums[(i + part) * width + j] for part in range(size)], finish)

        def chunks_of_rows(chunk: int) -> None:
            for number in range(height // self.rows):
                def rows(number: int = number) -> None:
                    for beside in range(self.columns):
                        for along in range(0, self.rows, size):
                            store(number * self.rows + along, chunk, beside)

                guarded(b.add(row, int32(number * self.down)), number * self.down + self.down - 1,
                        self.m // self.rows, rows)

        def rows_that_follow(chunk: int) -> None:
            assert first_row is not None
            for i in range(height):
                def columns(i: int = i) -> None:
                    for beside in range(self.columns):
                        store(i, chunk, beside)

                # A row before the first one is a large number without a sign.
                guarded(b.add(first_row, int32(i)), i + (self.down - 1) * height if i else self.m, self.m, columns)

        for chunk in range(width // self.columns):
            guarded(b.add(column, int32(chunk * self.across)), chunk * self.across + self.across - 1,
                    self.n // self.columns, partial(chunks_of_rows if first_row is None else rows_that_follow, chunk))

    def _store_together(
        self, b: ir.IRBuilder, pointer: ir.Value, parts: Sequence[ir.Value], finish: Finish
    ) -> None:
        """Append the store of sums to elements that follow one another, as a vector if they are several."""
        if len(parts) == 1:
            b.store(finish(parts[0], lambda: b.load(pointer)), pointer)
            return
        size = len(parts)
        type_ = vector_of(pointer.type.pointee, size)
        pointer, alignment = b.bitcast(pointer, type_.as_pointer(LOCAL)), size * self.elements[2].bytes
        old: list[ir.Value] = []

        def before(part: int) -> ir.Value:
            if not old:
                old.append(b.load(pointer, align=alignment))
            return get_lane(b, old[0], part)

        vector: Any = undefined(type_)
        for part, total in enumerate(parts):
            vector = set_lane(b, vector, finish(total, partial(before, part)), part)
        b.store(vector, pointer, align=alignment)


def place_of_thread(thread: int, down: int, in_quads: bool) -> tuple[int, int]:
    """Return the place of a thread along the rows, of which there are `down`, and along the columns."""
    if not in_quads:
        return thread % down, thread // down
    quad = thread // 4
    return 2 * (quad % (down // 2)) + thread % 2, 2 * (quad // (down // 2)) + thread // 2 % 2


def _is_aligned(matrix: Matrix, element: ScalarType, count: int, distance: int) -> bool:
    """Whether so many consecutive elements, from a multiple of them on, are at a multiple of their size."""
    return distance % count == 0 and matrix.alignment % (count * element.bytes) == 0


def _parity(b: ir.IRBuilder, pointer: ir.Value, element: ScalarType) -> ir.Value:
    """Return whether an address is an odd multiple of the size of an element, as 0 or 1."""
    return b.and_(b.udiv(b.ptrtoint(pointer, I64), index(element.bytes)), index(1))


def _shifted_values(
    b: ir.IRBuilder, pointer: ir.Value, height: int, along: int, element: ScalarType, first: int, count: int,
    paired: bool,
) -> list[ir.Value]:
    """Return `count` elements along the sum of each of `height` rows that follow one another.

    Columns are an odd number `along` of elements apart, and pairs are loaded where they are aligned: from the pointer
    on in columns of even numbers.  If not `paired`, all elements are loaded alone.
    """
    columns: list[list[ir.Value]] = []
    for term in range(first, first + count):
        starts = range(term % 2, height - 1, 2) if paired else range(0)
        values: dict[int, ir.Value] = {}
        for row in starts:
            vector = load_element(b, element, b.gep(pointer, [index(row + term * along)]), 2, 2 * element.bytes)
            values |= {row: get_lane(b, vector, 0), row + 1: get_lane(b, vector, 1)}
        columns.append([
            values[row] if row in values else load_element(b, element, b.gep(pointer, [index(row + term * along)]))
            for row in range(height)])
    return [column[row] for row in range(height) for column in columns]


def _values(
    b: ir.IRBuilder, pointer: ir.Value, lines: Sequence[_Line], strides: tuple[int, int],
    element: ScalarType, depth: int, start: ir.Value, first: int, count: int,
) -> list[ir.Value]:
    """Return `count` elements along the sum of each line of the chunks; `strides` are those of lines and of the sum."""
    stride, along = strides
    found: list[ir.Value] = []
    step = b.mul(start, index(along))
    for begin, known, size in lines:
        base = b.gep(pointer, [b.add(begin, step)])
        chunk: list[list[ir.Value]] = [[] for _ in range(size)]
        if stride == 1 and size > 1:
            for term in range(count):
                place = b.gep(base, [index(known + (first + term) * along)])
                vector = load_element(b, element, place, size, size * element.bytes)
                for line in range(size):
                    chunk[line].append(get_lane(b, vector, line))
        else:
            for line in range(size):
                for term in range(0, count, depth):
                    place = b.gep(base, [index(known + line * stride + (first + term) * along)])
                    if depth == 1:
                        chunk[line].append(load_element(b, element, place))
                        continue
                    vector = load_element(b, element, place, depth, depth * element.bytes)
                    chunk[line] += [get_lane(b, vector, part) for part in range(depth)]
        found += [value for line in chunk for value in line]
    return found
