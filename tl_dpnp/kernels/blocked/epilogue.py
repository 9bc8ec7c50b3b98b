"""How threads store the sums of a tile: through shared memory, so that the lanes of a warp follow one another in D.

The warps of a group exchange the sums of some columns at a time.  Then each lane has others than those it added up:
32 neighbours of a column for the 32 lanes, or, of 16 bits, pairs of them where columns start at multiples of a word.
What was in D before is loaded in the same order, several elements before they are stored, since a load does not go
ahead of a store that may be to the same place.
Source: PTX ISA 9.0, sections 9.7.9 (ld, st, cvt) and 9.7.13 (bar).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tl_dpnp.kernels.mma.rows import LANES
from tl_dpnp.records import dataclass

__all__ = ["Epilogue", "Unit"]

#: Bytes after which banks of shared memory repeat.
_BANKS = 128
#: Elements that a thread stores together, or twice as many as it does of 16 bits.
_OLD = 8
_HALVES = ("f16", "bf16")


@dataclass(frozen=True)
class Unit:
    """What a lane stores of one column, `column` from the lane's first one on: one element, or two of 16 bits.

    `row` is where the lanes' first element in the group's part is, and `source` where its sum is in shared memory;
    `place` is the number of the column's group, for blocks that share sums.
    """

    column: int
    row: int
    source: int
    place: int


@dataclass(frozen=True)
class Epilogue:
    """D := alpha S + beta D for a part of a tile, `rows` high, whose sums S the threads of a group of `warps` have.

    `sums` are row and column of each sum, from the thread's first on; sums that follow one another along rows are
    `vector` at a time.  Threads have their first column at one of `first_columns`: how many, and how far apart.
    `column_groups` are columns of a thread that blocks of a cluster share out.  A group has `memory` bytes for what it
    exchanges, `buffers` times; `synchronize` lets its threads wait for one another.  S is of the type `sum`, D of
    `result`.  So many `old` elements of D are on their way to a thread at a time: the loads queue behind the copies of
    the next tile.  If these are 0, D := alpha S.

    Registers at the start: row, column and matrix of the part, om, on and og; the thread's first row and column in it,
    er and ec; the address of the group's memory, buffer; the warp's number in the group, member, if that has several.
    """

    rows: int
    sums: tuple[tuple[int, int], ...]
    vector: int
    first_columns: tuple[int, int]
    column_groups: tuple[tuple[int, ...], ...]
    warps: int
    memory: int
    buffers: int
    synchronize: str
    sum: str
    result: str
    rows_consecutive: bool
    has_clusters: bool
    old: int

    def __post_init__(self) -> None:
        assert self.warps in (1, self.first_columns[0])
        assert self.columns_at_once > 0

    @property
    def _size(self) -> int:
        """Bytes of a sum."""
        return 8 if self.sum == "f64" else 4

    @property
    def _element(self) -> int:
        """Bytes of an element of D."""
        return {"f64": 8, "f32": 4}.get(self.result, 2)

    @property
    def _in_pairs(self) -> bool:
        return self.result in _HALVES and self.rows_consecutive

    @property
    def pitch(self) -> int:
        """Bytes between columns in shared memory: lanes that write at once are in different banks."""
        own = LANES if self.vector == 1 else _BANKS // 2
        return self.rows * self._size + (own - self.rows * self._size) % _BANKS

    @property
    def column_bytes(self) -> int:
        """Bytes of shared memory for one column of each thread."""
        return self.first_columns[0] * self.pitch

    @property
    def columns_at_once(self) -> int:
        """Columns of each thread that are exchanged together."""
        return min(len({column for _, column in self.sums}), self.memory // self.buffers // self.column_bytes)

    @property
    def _together(self) -> tuple[int, int]:
        """Rows and columns that the lanes of a warp store at once."""
        rows = LANES if self.rows % LANES == 0 else LANES // 2
        assert self.rows % rows == 0
        return rows, LANES // rows

    @property
    def _step(self) -> int:
        """Columns between those that a warp stores one after the other."""
        return self._together[1] * self.first_columns[1]

    @property
    def registers(self) -> str:
        """Declarations."""
        # Two elements of 16 bits that were loaded together are taken apart only when they are needed, as is one, or
        # each load would be waited for at once.
        stored = "b32" if self.result in _HALVES else self.sum
        old = f".reg .{stored} old<{2 * self.old}>; " if self.old else ""
        return (f".reg .{self.sum} v, u, s<{2 * _OLD}>; {old}.reg .b16 half; "
                ".reg .b32 buffer, member, into, from, fromp, rest, restp; .reg .b64 dp, dc, dr, ds, dq, dqp; "
                ".reg .pred present, even0, even1;")

    def store(self) -> list[str]:
        """Return the text."""
        count = self.first_columns[0]
        rows, columns = self._together
        lines = [
            f"div.u32 x, ec, {self.first_columns[1]}; mad.lo.u32 into, x, {self.pitch}, buffer; "
            f"mad.lo.u32 into, er, {self._size}, into;",
            # The lane's row and column among those that are stored at once.
            f"and.b32 rest, lane, {rows - 1};",
            "mov.u32 z, member;" if self.warps > 1 else f"div.u32 z, lane, {rows};",
            f"mad.lo.u32 x, z, {self.pitch}, buffer; mad.lo.u32 from, rest, {self._size}, x;",
            f"mad.lo.u32 on, z, {self.first_columns[1]}, on; mul.lo.s64 ds, $17, {self._step};",
            "cvt.u64.u32 w, om; mad.lo.s64 dp, w, $16, $15; cvt.u64.u32 w, on; mad.lo.s64 dp, w, $17, dp;",
            "cvt.u64.u32 w, og; mad.lo.s64 dp, w, $18, dp; sub.s32 om, m, om; sub.s32 on, n, on;",
            "cvt.u64.u32 w, rest; mad.lo.s64 dq, w, $16, dp; sub.s32 x, om, rest; mov.u32 rest, x;",
        ]
        assert columns == 1 or self.warps == 1
        if self._in_pairs:
            lines += [
                f"mad.lo.u32 fromp, lane, {self._size}, from; mad.lo.s64 dqp, w, $16, dq; sub.s32 restp, rest, lane;",
                "cvt.u32.u64 x, dp; and.b32 x, x, 3; setp.eq.u32 even0, x, 0;",
                "add.s64 dc, dp, $17; cvt.u32.u64 x, dc; and.b32 x, x, 3; setp.eq.u32 even1, x, 0;",
            ]
        own = [(place, column) for place, group in enumerate(self.column_groups) for column in group]
        chunks = [own[first : first + self.columns_at_once] for first in range(0, len(own), self.columns_at_once)]
        offsets = [number % self.buffers * self.columns_at_once * self.column_bytes for number in range(len(chunks))]
        batches = [(number, *batch) for number, (chunk, offset) in enumerate(zip(chunks, offsets, strict=True))
                   for batch in self._batches(chunk, offset, count // self.warps // columns)]
        ahead = max(1, self.old // (2 * self._most if self._in_pairs else self._most))
        for index in range(min(ahead, len(batches))):
            lines += self._old(index, ahead, *batches[index][1:])
        for index, (number, parity, units) in enumerate(batches):
            if index == 0 or batches[index - 1][0] != number:
                lines += [*([] if self.buffers > 1 else [self.synchronize]),
                          *self._writes(chunks[number], offsets[number]), self.synchronize]
            lines += self._new(index, ahead, parity, units)
            if index + ahead < len(batches):
                lines += self._old(index + ahead, ahead, *batches[index + ahead][1:])
        # The next tile begins with the first buffer.
        return [*lines, self.synchronize] if len(chunks) % self.buffers else lines

    def _batches(self, own: Sequence[tuple[int, int]], offset: int, steps: int) -> Iterator[tuple[int, list[Unit]]]:
        """Yield what is loaded and stored together of some of a thread's columns, with the numbers of their groups.

        Their place in the group's memory is `offset`; warps make so many steps for each.  Columns whose parity decides
        whether they are stored in pairs are apart.
        """
        rows, columns = self._together
        sections: dict[int, list[Unit]] = {}
        for number, (place, column) in enumerate(own):
            for step in range(steps):
                for row in range(0, self.rows, 2 * LANES if self._in_pairs else rows):
                    source = offset + number * self.column_bytes + step * columns * self.pitch + row * self._size
                    section = sections.setdefault(column % 2 if self._in_pairs else 0, [])
                    section.append(Unit(column + step * self._step, row, source, place))
        for parity, units in sections.items():
            for first in range(0, len(units), self._most):
                yield parity, units[first : first + self._most]

    @property
    def _most(self) -> int:
        """Units that are loaded and stored together."""
        return _OLD // 4 if self._in_pairs else _OLD

    def _writes(self, own: Sequence[tuple[int, int]], offset: int) -> list[str]:
        """Write a thread's sums of some columns to shared memory."""
        lines = []
        for number, (_, column) in enumerate(own):
            mine = sorted((row, sum_) for sum_, (row, other) in enumerate(self.sums) if other == column)
            for first in range(0, len(mine), self.vector):
                row = mine[first][0]
                words = [word for _, sum_ in mine[first : first + self.vector] for word in self._words(sum_)]
                place = f"[into+{offset + number * self.column_bytes + row * self._size}]"
                lines.append(f"st.shared.{self.sum} {place}, {words[0]};" if len(words) == 1 else
                             f"st.shared.v{len(words)}.{self.sum} {place}, {{{', '.join(words)}}};")
        return lines

    def _words(self, number: int) -> tuple[str, ...]:
        """Return the registers of a sum."""
        return (f"d{number}",)

    # --- what a lane stores ------------------------------------------------------------------------------------------

    def _old(self, index: int, ahead: int, parity: int, units: Sequence[Unit]) -> list[str]:
        """Load what is in D, if it is added to."""
        if not self.old:
            return []
        first = index % ahead * 2 * self._most
        label = f"OLD{index}"
        lines = [f"@!keep bra {label};"]
        if self._in_pairs:
            lines += [f"@!even{parity} bra SINGLE{label};", *self._all_loads(first, units, in_pairs=True),
                      f"bra {label}; SINGLE{label}:"]
        return [*lines, *self._all_loads(first, units), f"{label}:"]

    def _all_loads(self, first: int, units: Sequence[Unit], in_pairs: bool = False) -> list[str]:
        lines, before = [], None
        for number, unit in enumerate(units):
            lines += [*self._find(unit, before, in_pairs), *self._loads(first + 2 * number, unit, in_pairs)]
            before = unit
        return lines

    def _new(self, index: int, ahead: int, parity: int, units: Sequence[Unit]) -> list[str]:
        """Store units, of two elements each for results of 16 bits, which may lie together."""
        first = index % ahead * 2 * self._most
        if not self._in_pairs:
            return self._all_stores(first, units)
        return [f"@!even{parity} bra SINGLE{index};", *self._all_stores(first, units, in_pairs=True),
                f"bra STORED{index}; SINGLE{index}:", *self._all_stores(first, units), f"STORED{index}:"]

    def _all_stores(self, first: int, units: Sequence[Unit], in_pairs: bool = False) -> list[str]:
        reads, stores, before = [], [], None
        for number, unit in enumerate(units):
            reads += self._reads(2 * number, unit, in_pairs)
            # Found again, which takes less than the registers that would keep it.
            stores += [*self._find(unit, before, in_pairs),
                       *self._stores(2 * number, first + 2 * number, unit, in_pairs)]
            before = unit
        return [*reads, *stores]

    def _find(self, unit: Unit, before: Unit | None, in_pairs: bool) -> list[str]:
        """Find a unit's column, and whether it is there, where that is not known of the unit before."""
        if before is not None and unit.column == before.column:
            return []
        if before is not None and unit.column == before.column + self._step:
            find = f"setp.gt.s32 present, on, {unit.column}; add.s64 dc, dc, ds;"
        else:
            find = (f"setp.gt.s32 present, on, {unit.column}; mul.lo.s64 dc, $17, {unit.column}; "
                    f"add.s64 dc, dc, {'dqp' if in_pairs else 'dq'};")
        if self.has_clusters:
            find += (f" setp.le.and.u32 present, low, {unit.place}, present;"
                     f" setp.gt.and.u32 present, high, {unit.place}, present;")
        return [find]

    def _parts(self, unit: Unit) -> list[tuple[int, str]]:
        """The rows of the elements of a unit that do not lie together, and the text that finds their addresses."""
        found = []
        for row in (unit.row, unit.row + LANES) if self._in_pairs else (unit.row,):
            found.append((row, f"[dc+{row * self._element}]" if self.rows_consecutive else "[dr]"))
        return found

    def _row(self, row: int) -> str:
        """Find whether a row is there, and where, if rows do not follow one another."""
        find = f"setp.gt.and.s32 q, rest, {row}, present;"
        return find if self.rows_consecutive else f"{find} mul.lo.s64 dr, $16, {row}; add.s64 dr, dr, dc;"

    def _loads(self, first: int, unit: Unit, in_pairs: bool) -> list[str]:
        """Load elements as they are stored."""
        kind = "u16" if self.result in _HALVES else self.result
        if in_pairs:
            place = f"[dc+{unit.row * 2}]"
            # Each to a register of its own: a load to that of another one would wait until that has come.
            return [f"setp.gt.and.s32 q, restp, {unit.row + 1}, present; "
                    f"@q ld.global.b32 old{first}, {place};",
                    f"setp.eq.and.s32 q, restp, {unit.row + 1}, present; @q ld.global.u16 old{first + 1}, {place};"]
        return [f"{self._row(row)} @q ld.global.{kind} old{first + part}, {place};"
                for part, (row, place) in enumerate(self._parts(unit))]

    def _reads(self, first: int, unit: Unit, in_pairs: bool) -> list[str]:
        """Read sums from shared memory."""
        if in_pairs:
            return [f"ld.shared.v2.{self.sum} {{s{first}, s{first + 1}}}, [fromp+{unit.source}];"]
        return [f"ld.shared.{self.sum} s{first + part}, [from+{unit.source + part * LANES * self._size}];"
                for part in range(len(self._parts(unit)))]

    def _stores(self, number: int, old: int, unit: Unit, in_pairs: bool) -> list[str]:
        """Store elements."""
        if in_pairs:
            place, is_last = f"[dc+{unit.row * 2}]", f"setp.eq.and.s32 q, restp, {unit.row + 1}, present;"
            single = [f"{is_last} @q mov.b32 old{old}, old{old + 1};"] if self.old else []
            return [*single, self._value(number, old, "v"), self._value(number + 1, old, "u", is_high=True),
                    f"setp.gt.and.s32 q, restp, {unit.row + 1}, present; cvt.rn.{self.result}x2.f32 x, u, v; "
                    f"@q st.global.b32 {place}, x;",
                    f"{is_last} cvt.rn.{self.result}.f32 half, v; @q st.global.b16 {place}, half;"]
        lines = []
        for part, (row, place) in enumerate(self._parts(unit)):
            lines += [self._row(row), self._value(number + part, old + part, "v")]
            lines.append(f"cvt.rn.{self.result}.f32 half, v; @q st.global.b16 {place}, half;"
                         if self.result in _HALVES else f"@q st.global.{self.result} {place}, v;")
        return lines

    def _value(self, number: int, old: int, value: str, is_high: bool = False) -> str:
        """Compute an element of D from a sum and what was there before, maybe the upper half of a word."""
        if not self.old:
            return f"mul.rn.{self.sum} {value}, s{number}, $5;"
        match self.result:
            case "f16":
                word = f"shr.u32 x, old{old}, 16;" if is_high else f"mov.b32 x, old{old};"
                widen = f"{word} @keep cvt.u16.u32 half, x; @keep cvt.f32.f16 o, half;"
            case "bf16":
                word = f"and.b32 x, old{old}, 0xffff0000;" if is_high else f"shl.b32 x, old{old}, 16;"
                widen = f"{word} @keep mov.b32 o, x;"
            case _:
                widen = f"mov.{self.result} o, old{old};"
        return (f"mul.rn.{self.sum} {value}, s{number}, $5; "
                f"@keep {widen} @keep fma.rn.{self.sum} {value}, $6, o, {value};")
