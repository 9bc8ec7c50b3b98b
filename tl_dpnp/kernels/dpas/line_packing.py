"""Panels of local memory that messages of blocks fill from matrices whose lines have any distance.

Messages want lines that are multiples of 8 bytes apart.  Of every second, fourth or eighth line that is so for all
distances: those that leave the same rest are a matrix of their own, with an address of its own.  They are loaded as
words of 32 bits; where a line does not begin with a word its elements are some bytes further on in registers, which
moves bring to where DPAS takes them.  A matrix may begin where its lines do, as those of a batch may that are odd: it
has moves for each such place.  The fragments are stored in local memory by messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import aliases
from tl_dpnp.kernels.dpas.block_messages import inline_assembly, start_of
from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, RULES, Block
from tl_dpnp.kernels.dpas.fragments import Matrix
from tl_dpnp.kernels.dpas.local_messages import MOST_MOVED, WORD_BYTES, Address, PackingByMessages
from tl_dpnp.kernels.dpas.pieces import WORD_BITS, Piece
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.dpas.sub_groups import broadcast
from tl_dpnp.kernels.llvm import I32, I64, constant, index, vector_of
from tl_dpnp.records import dataclass

__all__ = ["Line", "LineLayout", "LineOperand", "LinePacking", "conditions_of", "line_layout"]

#: Registers of a message's lines and of fragments that a sub-group has at a time, at most.
_MOST_LOADED, _MOST_FILLED = 32, 16
#: Registers that an instruction rounds.
_TOGETHER = 2
#: Types of inline assembly, by their bytes.
_UNSIGNED = {1: "ub", 2: "uw", 4: "ud"}
#: Units of a panel, the last ones, whose registers are kept until all is stored.
_LAST = 2


class Line(NamedTuple):
    """Where an element of DPAS's fragments begins in what is loaded.

    A message has a number; the register is one of it.  Distances and sizes are bytes.
    """

    message: int
    register: int
    offset: int
    to: int
    step: int
    length: int


@dataclass(frozen=True)
class LineLayout:
    """How an operand of a size is packed: `rows` of `row_bytes`, `pitch` bytes apart, are its lines in memory.

    Those of A are elements of neighbouring rows of C, one line for each place along k; those of B are along k.  Of
    each `period` lines one belongs to a message.  A unit of work has so many `blocks` of fragments, by `steps` along k.
    Where it is `direct`, what messages load are fragments, and nothing is moved: those of B are columns of C then that
    are a `period` apart (`columns`).  The first line begins so many bytes behind a word (`begin`).
    """

    row: DpasRow
    of_a: bool
    rows: int
    row_bytes: int
    pitch: int
    period: int
    blocks: int
    steps: int
    direct: bool = False
    begin: int = 0

    @property
    def begins(self) -> range:
        """Where the first line may begin: where others do."""
        return range(0, WORD_BYTES, math.gcd(WORD_BYTES, self.pitch))

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return (self.row.source1 if self.of_a else self.row.source2).bits // 8

    @property
    def fragment(self) -> int:
        """Bytes of a fragment."""
        elements = self.row.execution_size if self.of_a else self.row.repeat
        return elements * self.row.k * self.size

    @property
    def lines(self) -> int:
        """Lines in memory that a unit loads."""
        return self.steps * self.row.k if self.of_a else self.blocks * self.row.repeat

    @property
    def block(self) -> Block:
        """What a message loads: a register for each line, or fragments."""
        if self.direct and not self.of_a:
            width = self.row.k * self.size // WORD_BYTES
            return Block("plain", WORD_BITS, width, self.lines // self.period, self.steps)
        return Block("plain", WORD_BITS, RULES.row_bytes // WORD_BYTES, self.lines // self.period)

    @property
    def filled(self) -> int:
        """Bytes of a unit's fragments: those of a step one behind the other."""
        return self.blocks * self.steps * self.fragment

    @property
    def parts(self) -> int:
        """The values that a unit's fragments are in: those of a step are dealt out to them."""
        return self.period if self.direct else 1

    @property
    def run(self) -> int:
        """Bytes of fragments that follow one another in a value, and in a panel."""
        return self.blocks * self.fragment // self.parts

    @property
    def instructions(self) -> int:
        """Instructions that make fragments of what was loaded."""
        if not self.direct:
            return len([*self.moves()])
        return -(-self.filled // (_TOGETHER * RULES.register_bytes)) if self.row.source1.name == "tf32" else 0

    @property
    def columns(self) -> tuple[int, ...]:
        """Of an operand B: the columns of a unit in the order in which its fragments have them."""
        lines = range(self.lines)
        return tuple(line for rest in range(self.parts) for line in lines[rest :: self.parts])

    def shift(self, rest: int) -> int:
        """Return how many bytes behind the beginning of a word the lines of a rest begin."""
        return (self.begin + rest * self.pitch) % WORD_BYTES

    def behind(self, rest: int) -> int:
        """Return how many elements of the next line, or of none, are loaded as the last ones of lines of a rest."""
        return -(self.begin + rest * self.pitch + self.row_bytes) % WORD_BYTES // self.size

    def rows_of(self, step: int) -> Iterator[tuple[int, int, int]]:
        """Yield the lines of an operand B in a step's fragments: the value, the byte in it, and the message."""
        if self.direct:
            height, length = self.lines // self.period, self.row.k * self.size
            yield from ((rest, (step * height + line) * length, rest)
                        for rest in range(self.period) for line in range(height))
            return
        for number, move in enumerate(self.moves()):
            if number // self.lines == step:
                yield 0, move.to, move.message

    def moves(self) -> Iterator[Line]:
        """Yield which bytes of what is loaded become which of fragments: `length` elements, `step` elements apart."""
        row, size = self.row, self.size
        per_word = WORD_BYTES // size
        for step in range(self.steps):
            for block in range(self.blocks):
                start = (step * self.blocks + block) * self.fragment
                if self.of_a:
                    for k in range(row.k):
                        register, rest = divmod(step * row.k + k, self.period)
                        word, part = divmod(k, per_word)
                        yield Line(rest, register, self.shift(rest) + block * row.execution_size * size,
                                   start + word * row.execution_size * WORD_BYTES + part * size, per_word,
                                   row.execution_size)
                else:
                    for line in range(row.repeat):
                        register, rest = divmod(block * row.repeat + line, self.period)
                        yield Line(rest, register, self.shift(rest) + step * row.k * size,
                                   start + line * row.k * size, 1, row.k)


def line_layout(
    row: DpasRow, piece: Piece, strides: tuple[object, ...], lines: object, k: object, panel: int, tile: int
) -> LineLayout | None:
    """Return how A or B, whose pieces are such, is packed by messages, None where it is not.

    Strides are along lines and along k, panels have so many pieces, and a sub-group's tile has so many blocks of lines;
    anything but an int is not known.
    """
    size, of_a = piece.bits // 8, piece.across
    contiguous, pitch = strides if of_a else strides[::-1]
    if (row.execution_size != 16 or contiguous != 1 or size not in (1, 2, 4) or row.a_elements != row.repeat
            or not isinstance(pitch, int) or not isinstance(lines, int) or not isinstance(k, int)):
        return None
    rows, row_bytes = (k, lines * size) if of_a else (lines, k * size)
    period = RULES.pitch_multiple // math.gcd(RULES.pitch_multiple, pitch * size)
    # What lies before a line in its first 64 bytes, and in its last word behind it, counts as a part of it.  Where each
    # line is one of the message's, that is known at the call only (`conditions_of`).
    longest = row_bytes + (RULES.address + WORD_BYTES if period > 1 else 0)
    if not (period <= rows and (period > 1 or size == WORD_BYTES)
            and RULES.least_bytes <= row_bytes and longest <= period * pitch * size
            and period * pitch * size <= RULES.most_bytes and rows <= RULES.most_lines):
        return None
    found = [layout for blocks in (1, 2, 4) for steps in (1, 2, 4) if piece.blocks % blocks == 0 and panel % steps == 0
             for direct in (False, True)
             if _fits(layout := LineLayout(row, of_a, rows, row_bytes, pitch * size, period, blocks, steps, direct))
             and (not direct or tile % blocks == 0)]
    return max(found, key=lambda layout: (layout.direct, layout.blocks * layout.steps, layout.blocks), default=None)


def _fits(layout: LineLayout) -> bool:
    """Whether a unit has what it needs in registers, and not too many of them."""
    if layout.direct:
        begin_with_words = not any(map(layout.shift, range(layout.period)))
        whole = layout.period == 1 and layout.blocks == 1 if layout.of_a else layout.blocks % layout.period == 0
        return (begin_with_words and whole and not (layout.of_a and layout.size < WORD_BYTES)
                and layout.lines <= _MOST_LOADED and layout.block.size <= RULES.registers * RULES.register_bytes
                and layout.block.count * layout.block.width * WORD_BYTES <= RULES.row_bytes
                and layout.filled <= _MOST_LOADED * RULES.register_bytes)
    ends = [line.offset + line.length * layout.size for line in layout.moves()]
    return (layout.lines % layout.period == 0 and layout.lines <= _MOST_LOADED and max(ends) <= RULES.row_bytes
            and layout.filled <= _MOST_FILLED * RULES.register_bytes)


def conditions_of(builder: ir.IRBuilder, layout: LineLayout, matrix: Matrix) -> list[ir.Value]:
    """Return what has to hold at run time, as values of one bit: that a matrix begins where it may, with room."""
    address = builder.ptrtoint(matrix.pointer, I64)
    result = [builder.icmp_unsigned("==", builder.and_(address, index(layout.begins.step - 1)), index(0))]
    if layout.period == 1:
        _, before, _ = start_of(builder, address, layout.pitch)
        room = constant(I32, layout.pitch - layout.row_bytes)
        result.append(builder.icmp_signed("<=", before, room))
    return result


@dataclass(frozen=True)
class LineOperand:
    """An operand of a work-group: its first line, `base`, where its panel is, and how sub-groups share the work.

    The units of a piece are `across`, those of a panel `along` k.
    """

    layout: LineLayout
    matrix: Matrix
    piece: Piece
    first_line: ir.Value
    base: ir.Value
    panel: int
    subgroups: int

    @property
    def across(self) -> int:
        """Units along the lines of a piece."""
        return self.piece.blocks // self.layout.blocks

    @property
    def along(self) -> int:
        """Units along k of a panel."""
        return self.panel // self.layout.steps

    @cached_property
    def each(self) -> tuple[int, int]:
        """Units of a sub-group, across and along k."""
        for count in range(1, self.along + 1):
            if self.along % count == 0 and self.across * (self.along // count) <= self.subgroups:
                return 1, count
        return -(-self.across // self.subgroups), self.along

    def place(self, across: int, along: int) -> tuple[int, int]:
        """Return the column, in words, and the row of a message's lines from those of a first unit on."""
        layout = self.layout
        lines = across * layout.blocks * self.piece.lines
        k = along * layout.steps * layout.row.k
        columns, rows = (lines, k) if layout.of_a else (k, lines)
        return columns * layout.size // WORD_BYTES, rows // layout.period


@dataclass(frozen=True)
class LinePacking(PackingByMessages):
    """Packs operands of a sub-group, the one of a `number` (of 64 bits), where messages are not emulated."""

    operands: tuple[LineOperand, ...]
    number: ir.Value

    @cached_property
    def _shares(self) -> list[_Share]:
        return [self._share(operand) for operand in self.operands]

    def begin(self) -> list[ir.Value]:
        """Emit headers and addresses; they are changed in place, and nothing is carried from a panel to the next."""
        _ = self._shares
        return []

    @property
    def moves(self) -> bool:
        """Not where messages load fragments as they are."""
        return not all(share.operand.layout.direct for share in self._shares)

    @property
    def fills(self) -> bool:
        """Messages load zeros from beyond the matrix, unless there are elements of its next lines in their words."""
        return not any(share.operand.layout.behind(rest) for share in self._shares
                       for rest in range(share.operand.layout.period))

    def pack(
        self, start: ir.Value, end: ir.Value, carried: Sequence[ir.Value], settles: bool
    ) -> list[ir.Value]:
        """Fill a panel, with zeros beyond the end of the matrix."""
        for share in self._shares:
            layout = share.operand.layout
            for begin in layout.begins:
                own = share._replace(operand=replace(share.operand, layout=replace(layout, begin=begin)))
                is_this = self.builder.icmp_unsigned("==", share.begin, constant(I32, begin))
                with self.builder.if_then(is_this):
                    stored = self._filled(own, start)
                    if settles and share is self._shares[-1]:
                        self._wait_for(stored[-_LAST:])
        return []

    def _filled(self, share: _Share, start: ir.Value) -> list[tuple[ir.Value, int]]:
        """Fill what a sub-group does of an operand's panel; returns the values that were stored, and their bytes."""
        stored = list[tuple[ir.Value, int]]()
        across, along = share.operand.each
        here = (0, 0)
        units = [(i, j) for i in range(across) for j in range(along)]
        for unit, following in zip(units, [*units[1:], (0, share.operand.along)], strict=True):
            loaded = [self.messages.load(header, share.operand.layout.block, share.operand.layout.block.type)
                      for header in share.headers]
            there = share.operand.place(*following)
            for header in share.headers:
                for field, old, new in zip((COLUMN, ROW), here, there, strict=True):
                    if old != new:
                        self.messages.move(header, field, new - old)
            here = there
            stored += self._stored(share, unit, start, loaded)
        return stored

    def _wait_for(self, stored: Sequence[tuple[ir.Value, int]]) -> None:
        """Wait here for registers that messages still read, not in each iteration of the loop that follows."""
        for value, size in stored:
            (name,), lines = aliases(self.builder, {0: size}, "ud", WORD_BITS)
            lines += [f"mov (M1_NM,1) {name}({offset // RULES.register_bytes},0)<1> 0x0:ud"
                      for offset in range(0, size, MOST_MOVED)]
            inline_assembly(self.builder, ir.VoidType(), lines, "rw", [value])

    # --- what a sub-group does of a panel ----------------------------------------------------------------------------

    def _share(self, operand: LineOperand) -> _Share:
        builder = self.builder
        across, along = operand.each
        own = builder.trunc(self.number, I32)
        if across > 1:
            first_across = self._least(builder.mul(own, constant(I32, across)), operand.across - across)
            first_along: ir.Value = constant(I32, 0)
        else:
            parts = constant(I32, operand.along // along)
            own = self._least(own, operand.across * (operand.along // along) - 1)
            first_across = builder.udiv(own, parts)
            first_along = builder.mul(builder.urem(own, parts), constant(I32, along))
        layout, piece = operand.layout, operand.piece
        blocks = builder.mul(first_across, constant(I32, layout.blocks))
        steps = builder.mul(first_along, constant(I32, layout.steps))
        words = builder.add(builder.mul(steps, constant(I32, piece.size)),
                            builder.mul(blocks, constant(I32, piece.fragment)))
        to = builder.gep(operand.base, [builder.zext(words, I64)])
        line = builder.add(builder.trunc(operand.first_line, I32), builder.mul(blocks, constant(I32, piece.lines)))
        k = builder.mul(steps, constant(I32, layout.row.k))
        headers = self._headers(operand, line, k)
        begin: ir.Value = constant(I32, 0)
        if len(layout.begins) > 1:
            address = builder.trunc(builder.ptrtoint(operand.matrix.pointer, I64), I32)
            begin = broadcast(builder, builder.and_(address, constant(I32, WORD_BYTES - 1)))
        return _Share(operand, headers, k, self.local.start(to, MOST_MOVED), begin)

    def _least(self, value: ir.Value, most: int) -> ir.Value:
        last = constant(I32, most)
        return self.builder.select(self.builder.icmp_unsigned("<", value, last), value, last)

    def _headers(self, operand: LineOperand, line: ir.Value, k: ir.Value) -> list[ir.Value]:
        """Return the header of each message for the unit of a line and a k: what differs is found in a lane for each.

        A line's address is rounded down, and what lies before it is a part of it.
        """
        builder, layout = self.builder, operand.layout
        lane = self.messages.lane
        first = builder.ptrtoint(operand.matrix.pointer, I64)
        address = builder.add(first, builder.mul(lane, index(layout.pitch)))
        # Where there are several messages, each one's lines have room for what lies before them.
        pitch = layout.pitch if layout.period == 1 else None
        base, cut, _ = start_of(builder, address, pitch)
        *_, ahead = start_of(builder, first, pitch)
        words = constant(I32, -WORD_BYTES)
        end = builder.and_(builder.add(cut, constant(I32, layout.row_bytes + WORD_BYTES - 1)), words)
        high = builder.sub(constant(I32, layout.rows - 1), builder.trunc(lane, I32))
        fields = {
            0: builder.trunc(base, I32), 1: builder.trunc(builder.lshr(base, index(32)), I32),
            2: builder.sub(end, constant(I32, 1)),
            3: builder.add(builder.lshr(high, constant(I32, layout.period.bit_length() - 1)), ahead),
        }
        column, row = (line, k) if layout.of_a else (k, line)
        per_word = constant(I32, WORD_BYTES // layout.size)
        common = self.messages.spread({
            4: constant(I32, layout.period * layout.pitch - 1), COLUMN: builder.udiv(column, per_word),
            ROW: builder.add(builder.udiv(row, constant(I32, layout.period)), ahead),
            7: constant(I32, layout.block.field),
        })
        arguments = [common, builder.lshr(cut, constant(I32, WORD_BYTES.bit_length() - 1)), *fields.values()]
        constraints = ",".join(["=rw", *["rw"] * len(arguments)])
        result = []
        for rest in range(layout.period):
            lines = ["mov (M1_NM,16) $0(0,0)<1> $1(0,0)<1;1,0>",
                     f"add (M1_NM,1) $0(0,{COLUMN})<1> $0(0,{COLUMN})<0;1,0> $2(0,{rest})<0;1,0>"]
            lines += [f"mov (M1_NM,1) $0(0,{field})<1> ${number}(0,{rest})<0;1,0>"
                      for number, field in enumerate(fields, 3)]
            result.append(inline_assembly(builder, I32, lines, constraints, arguments))
        return result

    def _stored(
        self, share: _Share, unit: tuple[int, int], start: ir.Value, loaded: Sequence[ir.Value]
    ) -> list[tuple[ir.Value, int]]:
        """Store the fragments of a unit; returns the values that they are in, and their bytes."""
        operand, layout = share.operand, share.operand.layout
        values = self._rounded(layout, loaded) if layout.direct else [self._moved(layout, loaded)]
        self._ended(share, unit[1], start, values)
        first = unit[1] * layout.steps * operand.piece.size + unit[0] * layout.blocks * operand.piece.fragment
        run = layout.run
        runs = [(value, step * run + offset, (first + step * operand.piece.size) * WORD_BYTES + part * run + offset)
                for step in range(layout.steps) for part, value in enumerate(values)
                for offset in range(0, run, min(run, MOST_MOVED))]
        addresses: list[Address] = self.local.addresses(share.start, MOST_MOVED, [place for *_, place in runs])
        for (value, offset, _), address in zip(runs, addresses, strict=True):
            self.local.store(address, value, offset, min(run, MOST_MOVED))
        return [(value, layout.filled // layout.parts) for value in values]

    def _rounded(self, layout: LineLayout, loaded: Sequence[ir.Value]) -> list[ir.Value]:
        """Return fragments as messages loaded them, rounded in place."""
        for value in loaded if self.accumulators.rounds else ():
            (words,), lines = aliases(self.builder, {0: layout.block.size}, "ud", WORD_BITS)
            (floats,), declared = aliases(self.builder, {0: layout.block.size}, "f", WORD_BITS)
            lines += declared
            for first in range(0, layout.block.registers, _TOGETHER):
                together = RULES.register_bytes // WORD_BYTES * min(_TOGETHER, layout.block.registers - first)
                lines.append(f"fcvt (M1_NM,{together}) {words}({first},0)<1> {floats}({first},0)<1;1,0>")
            inline_assembly(self.builder, ir.VoidType(), lines, "rw", [value])
        return list(loaded)

    def _moved(self, layout: LineLayout, loaded: Sequence[ir.Value]) -> ir.Value:
        """Return the fragments of a unit, made of what messages loaded."""
        sizes = {0: layout.filled, **dict.fromkeys(range(1, len(loaded) + 1), layout.block.size)}
        lines, names, floats = list[str](), dict[int, list[str]](), list[str]()
        rounds = self.accumulators.rounds
        if rounds:
            floats, lines = aliases(self.builder, sizes, "f", WORD_BITS)
        for move in layout.moves():
            # Words where moved elements begin with one, and none of the next line is in the last one.
            is_whole = not (layout.of_a or layout.behind(move.message) or move.offset % WORD_BYTES)
            width = WORD_BYTES if is_whole else layout.size
            if width not in names:
                names[width], declared = aliases(
                    self.builder, sizes, _UNSIGNED[width], 8 * width)
                lines += declared
            to, at = divmod(move.to, RULES.register_bytes)
            how, sources = ("fcvt", floats) if rounds else ("mov", names[width])
            together = move.length * layout.size // width
            lines.append(
                f"{how} (M1_NM,{together}) {names[width][0]}({to},{at // width})<{move.step}> "
                f"{sources[1 + move.message]}({move.register},{move.offset // width})<1;1,0>")
        constraints = ",".join(["=rw", *["rw"] * len(loaded)])
        return inline_assembly(
            self.builder, vector_of(I32, layout.filled // RULES.register_bytes), lines, constraints, loaded)

    def _ended(self, share: _Share, along: int, start: ir.Value, values: Sequence[ir.Value]) -> None:
        """Let what was loaded of B behind the end of k be zeros: of A there are zeros, but these times NaN are NaN."""
        layout, builder = share.operand.layout, self.builder
        k = layout.row_bytes // layout.size
        left = k % layout.row.k
        if layout.of_a or not left or not any(map(layout.behind, range(layout.period))):
            return
        type_ = _UNSIGNED[layout.size]
        sizes = dict.fromkeys(range(len(values)), layout.filled // layout.parts)
        names, declared = aliases(builder, sizes, type_, 8 * layout.size)
        for step in range(layout.steps):
            lines = list(declared)
            lines += [f"mov (M1_NM,1) {names[value]}({to // RULES.register_bytes},"
                      f"{to % RULES.register_bytes // layout.size})<1> 0x0:{type_}"
                      for value, begin, message in layout.rows_of(step)
                      for place in range(left, min(left + layout.behind(message), layout.row.k))
                      for to in [begin + place * layout.size]]
            here = builder.add(builder.trunc(start, I32), share.k)
            before = (along * layout.steps + step) * layout.row.k
            with builder.if_then(builder.icmp_unsigned("==", here, constant(I32, k - left - before))):
                inline_assembly(builder, ir.VoidType(), lines, ",".join(["rw"] * len(values)), values)


class _Share(NamedTuple):
    """What a sub-group moves of an operand: headers of its first unit, its first k in a panel, and where it stores.

    The operand's first line begins so many bytes behind a word.
    """

    operand: LineOperand
    headers: list[ir.Value]
    k: ir.Value
    start: ir.Value
    begin: ir.Value
