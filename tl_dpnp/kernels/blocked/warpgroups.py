"""Tiles by warpgroups: two of them multiply with ``wgmma`` what the threads of two others bring to shared memory.

With 512 threads of 128 registers, sums have room for 192 columns.

They load operands to registers from any place, 16-bit elements one by one or in pairs, round those of f32 to tf32, and
store them as ``wgmma`` wants them, with the swizzle of 128 bytes; operands of 32 bits have their depth along memory
there in any case.
Source: PTX ISA 9.0, sections 9.7.15 (wgmma) and 9.7.9.22 (cvt).
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from tl_dpnp.kernels.blocked.epilogue import Epilogue
from tl_dpnp.kernels.blocked.product import LEFT, RIGHT, BlockedProduct
from tl_dpnp.kernels.mma.rows import ELEMENTS, LANES
from tl_dpnp.kernels.mma.warpgroup import SWIZZLE, THREADS, Panel, WarpgroupRow, multiplied, warpgroup_row
from tl_dpnp.records import dataclass

__all__ = ["WarpgroupProduct"]

#: Warpgroups that multiply, rows of each, and warps that load.
_GROUPS, _GROUP_ROWS, _LOADERS = 2, 64, 8
_LOADING = _LOADERS * LANES
_ALIGNMENT = 1024
#: Pairs of elements that a thread loads one by one before it stores them; the next ones are asked for before.
_BATCH = 16
#: Bytes of shared memory in which a warpgroup exchanges sums: 16 columns of them, twice.
_EXCHANGED = 2 * 16 * 288
#: Registers of a thread, of which there are 512 (CUDA C++ Programming Guide, "Technical Specifications per Compute
#: Capability").
_OF_THREAD = 128
_REGISTERS = """.reg .b32 barrier, stage, phase, full, empty, used, left, right, group, loader, lu, ru, bars, ka;
.reg .pred one, even, e0, e1, f0, f1;
.reg .b64 da, db, ha, hb, lp, rp, lo, ro, here, next;"""


@dataclass(frozen=True)
class _Side:
    """An operand as threads load it: what names of registers begin with, its numbers, its panel and its extent."""

    name: str
    operand: int
    panel: Panel
    is_along_k: bool
    start: str
    size: str


@dataclass(frozen=True)
class WarpgroupProduct(BlockedProduct):
    """See `BlockedProduct`; operands are f16, bf16, or f32 that is rounded to tf32, sums are f32.

    A thread takes so many `other_registers` besides sums and what these are added to, by the assembler's report.  More
    than there are go to local memory, for which operands leave next to nothing of the L1 cache.
    """

    other_registers: ClassVar[int] = 24

    element: str
    shared_memory: int

    def __str__(self) -> str:
        return f"{self._row.name}: tiles of {self.rows} x {self.columns}, {self.stages} stages of {self._stage} bytes"

    @property
    def _size(self) -> int:
        return ELEMENTS[self.element].bits // 8

    @property
    def _row(self) -> WarpgroupRow:
        return warpgroup_row(self.element, self.columns)

    @property
    def depth(self) -> int:
        return SWIZZLE // self._size

    @property
    def warps(self) -> int:
        return (_GROUPS * THREADS) // LANES + _LOADERS

    @cached_property
    def _sides(self) -> tuple[_Side, _Side]:
        left, right = (
            _Side(name, operand, Panel(extent, self.depth, self._size, self._size == 4 or consecutive == "k"),
                  consecutive == "k", start, size)
            for name, operand, extent, consecutive, start, size in (
                ("l", LEFT, self.rows, self.consecutive[0], "tm", "m"),
                ("r", RIGHT, self.columns, self.consecutive[1], "tn", "n")))
        return left, right

    @property
    def _stage(self) -> int:
        return sum(side.panel.bytes for side in self._sides)

    @property
    def stages(self) -> int:
        """Stages of the ring."""
        return (self.shared_memory - 2 * _ALIGNMENT - _GROUPS * self.epilogue.memory) // self._stage

    @property
    def used_memory(self) -> int:
        return self.stages * self._stage + 2 * _ALIGNMENT + _GROUPS * self.epilogue.memory

    @cached_property
    def epilogue(self) -> Epilogue:
        """Each warpgroup exchanges its sums, while panels of the next tile come."""
        free = _OF_THREAD - self.other_registers - self._row.words
        return Epilogue(
            _GROUP_ROWS, tuple(self.sums), 1, (4, 2), self._column_groups, THREADS // LANES, _EXCHANGED, 2,
            f"bar.sync barrier, {THREADS};", self._sum, self.result, self.rows_consecutive, self.has_clusters,
            old=1 << free.bit_length() - 1)

    @property
    def sums(self) -> list[tuple[int, int]]:
        return [(row, column) for word in range(self._row.words) for row, column in [self._row.place(0, word, 0)]]

    # --- the text ----------------------------------------------------------------------------------------------------

    @property
    def _body(self) -> list[str]:
        left, right = (side.panel for side in self._sides)
        return [
            _REGISTERS, f".reg .f32 d<{self._row.words}>; .reg .b32 w<{max(self._words, 2 * _BATCH)}>;",
            f".reg .b16 h<{4 * _BATCH}>;",
            f"add.u32 base, $19, {_ALIGNMENT - 1}; and.b32 base, base, {-_ALIGNMENT & 0xFFFFFFFF:#x};",
            f"add.u32 bars, base, {self.stages * self._stage}; mov.u32 stage, 0; mov.u32 phase, 0;",
            "setp.ne.u32 p, thread, 0; @p bra READY;",
            *(f"mbarrier.init.shared::cta.b64 [bars+{8 * i}], {count};"
              for i, count in enumerate([_LOADING] * self.stages + [_GROUPS] * self.stages)),
            f"READY: bar.sync 0; mul.lo.u32 start, begin, {self.depth};",
            f"setp.ge.u32 p, thread, {_GROUPS * THREADS}; @p bra LOADER;",
            f"mov.b64 ha, {left.descriptor:#x}; mov.b64 hb, {right.descriptor:#x};",
            f"div.u32 group, thread, {THREADS}; rem.u32 x, thread, {THREADS}; setp.eq.u32 one, x, 0;",
            *self._multiply(), *self._load(),
        ]

    def _multiply(self) -> list[str]:
        left, right = (side.panel for side in self._sides)
        release = "mbarrier.arrive.shared::cta.b64 _, [used];"
        return [
            "TILE: setp.ge.u32 p, tile, tiles; @p bra DONE;", *self._position(), *self._clear(), "mov.u32 step, 0;",
            f"STEP: shl.b32 full, stage, 3; add.u32 full, full, bars; add.u32 empty, full, {8 * self.stages};",
            "FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], phase; @!q bra FULL;",
            f"mad.lo.u32 left, stage, {self._stage}, base; add.u32 right, left, {left.bytes};",
            # In clusters, addresses of shared memory have bits that are no part of those in descriptors.
            f"mad.lo.u32 left, group, {left.offset(_GROUP_ROWS, 0)}, left; bfe.u32 left, left, 4, 14; "
            "bfe.u32 right, right, 4, 14;",
            "cvt.u64.u32 da, left; cvt.u64.u32 db, right; or.b64 da, da, ha; or.b64 db, db, hb;",
            "wgmma.fence.sync.aligned;", *multiplied(self._row, left, right, self.depth),
            "wgmma.commit_group.sync.aligned;",
            # The instructions before these have read their stage: it may be filled again.
            "wgmma.wait_group.sync.aligned 1;",
            f"setp.eq.u32 p, step, 0; @p bra KEPT; @!one bra KEPT; {release} KEPT: mov.u32 used, empty;",
            *self._next_stage(), "add.u32 step, step, 1; setp.lt.u32 p, step, steps; @p bra STEP;",
            f"wgmma.wait_group.sync.aligned 0; @!one bra LAST; {release} LAST:",
            *self._reduce(_GROUPS * THREADS, f"bar.sync 1, {_GROUPS * THREADS};"),
            *self._store(),
            "add.u32 tile, tile, blocks; bra TILE;",
        ]

    def _store(self) -> list[str]:
        """Store the sums of a tile; barriers 0 and 1 are for all that multiply."""
        return [
            f"mad.lo.u32 om, group, {_GROUP_ROWS}, tm; mov.u32 on, tn; mov.u32 og, tg; add.u32 barrier, group, 2;",
            f"and.b32 member, warp, {THREADS // LANES - 1}; shr.u32 x, lane, 2; mad.lo.u32 er, member, 16, x; "
            "and.b32 x, lane, 3; shl.b32 ec, x, 1;",
            f"add.u32 buffer, bars, {_ALIGNMENT // 2}; mad.lo.u32 buffer, group, {self.epilogue.memory}, buffer;",
            *self.epilogue.store()]

    def _next_stage(self) -> list[str]:
        return [f"add.u32 stage, stage, 1; setp.eq.u32 p, stage, {self.stages};",
                "@p xor.b32 phase, phase, 1; @p mov.u32 stage, 0;"]

    # --- the threads that load ---------------------------------------------------------------------------------------

    def _load(self) -> list[str]:
        lines = [f"LOADER: sub.u32 loader, warp, {_GROUPS * THREADS // LANES}; setp.eq.u32 even, x, x;"]
        for side in self._sides:
            if not self._is_turned(side):
                lines += self._evenness(side)
        lines += ["NEXT: setp.ge.u32 p, tile, tiles; @p bra DONE;", *self._position()]
        for side in self._sides:
            lines += self._first_places(side)
        lines += [f"sub.u32 z, thread, {_GROUPS * THREADS};", *self._fetch_old("z", _LOADING),
                  "mov.u32 step, 0; sub.s32 ka, k, start;"]
        if self._size == 2:
            lines += ["@!even bra PAIRS;", *self._by_words(""), *self._by_pairs()]
        elif all(map(self._is_turned, self._sides)):
            lines += self._by_words("")
        else:
            lines += ["@!even bra WORDS;", *self._by_words("V", wide=True), "WORDS:", *self._by_words("")]
        return [*lines, "LOADED: add.u32 tile, tile, blocks; bra NEXT;"]

    def _evenness(self, side: _Side) -> list[str]:
        """Find whether several elements can be loaded at once, of as many bytes as a word or, of tf32, four words have.

        No address and no distance may be any but a multiple of that, and no size but one of the elements.
        """
        first, size = side.operand, "k" if side.is_along_k else side.size
        along, across = (first + 2, first + 1) if side.is_along_k else (first + 1, first + 2)
        elements = 2 if self._size == 2 else 4
        return [f"or.b64 w, ${first}, ${across}; or.b64 w, w, ${first + 3}; cvt.u32.u64 x, w; "
                f"and.b32 x, x, {elements * self._size - 1};",
                f"and.b32 y, {size}, {elements - 1}; or.b32 x, x, y; setp.eq.and.u32 even, x, 0, even; "
                f"setp.eq.and.s64 even, ${along}, {self._size}, even;"]

    def _by_words(self, mark: str, wide: bool = False) -> list[str]:
        """Load words a panel ahead: as soon as one is stored, that of the next panel is asked for.

        `mark` is part of the names of labels.  Words come one at a time, or four with `wide`.
        """
        units = [unit for side in self._sides for unit in self._units(side, wide=wide)]
        straight = [side for side in self._sides if wide and not self._is_turned(side)]
        places = [line for side in straight for line in self._wide_places(side)]
        return [
            *places, "setp.eq.u32 more, x, x;", *(line for loads, _ in units for line in loads),
            *self._wait_for_stage(f"PANELS{mark}", f"EMPTY{mark}"), *self._stage_places(wide), *self._next_panel(),
            "add.u32 x, step, 1; setp.lt.u32 more, x, steps;",
            *(line for loads, store in units for line in (store, *loads)),
            *self._end_stage(f"PANELS{mark}"), "bra LOADED;",
        ]

    def _by_pairs(self) -> list[str]:
        """Load the elements of a panel, store them in pairs, and go on to the next panel."""
        return [
            "PAIRS: setp.eq.u32 more, x, x;",
            *self._wait_for_stage("ELEMENTS", "FREE"), *self._stage_places(),
            *_pipelined([unit for side in self._sides for unit in self._units(side, in_pairs=True)]),
            *self._next_panel(), *self._end_stage("ELEMENTS"),
        ]

    def _wait_for_stage(self, label: str, wait: str) -> list[str]:
        return [
            f"{label}: shl.b32 full, stage, 3; add.u32 full, full, bars; add.u32 empty, full, {8 * self.stages};",
            f"xor.b32 x, phase, 1; {wait}: mbarrier.try_wait.parity.shared::cta.b64 q, [empty], x; @!q bra {wait};",
            f"mad.lo.u32 left, stage, {self._stage}, base; add.u32 right, left, {self._sides[0].panel.bytes};",
        ]

    def _end_stage(self, label: str) -> list[str]:
        return ["fence.proxy.async.shared::cta; mbarrier.arrive.shared::cta.b64 _, [full];", *self._next_stage(),
                f"add.u32 step, step, 1; setp.lt.u32 p, step, steps; @p bra {label};"]

    def _next_panel(self) -> list[str]:
        lines = [f"sub.s32 ka, ka, {self.depth};"]
        for side in self._sides:
            x = side.name
            lines.append(f"mul.lo.s64 w, ${side.operand + 2}, {self.depth}; add.s64 {x}p, {x}p, w;")
        return lines

    def _is_turned(self, side: _Side) -> bool:
        """Whether what goes along memory is not what goes along shared memory: four words are turned at a time."""
        return self._size == 4 and not side.is_along_k

    @property
    def _parts(self) -> int:
        """Elements of a word."""
        return 4 // self._size

    def _first_places(self, side: _Side) -> list[str]:
        """Find where the thread begins in the first panel of a tile, and what its lines are apart."""
        first, x = side.operand, side.name
        along, across = "x", "y"
        lines = [f"mul.lo.u32 x, lane, {self._parts};",
                 "mul.lo.u32 y, loader, 4;" if self._is_turned(side) else "mov.u32 y, loader;"]
        at_side, at_k = (across, along) if side.is_along_k else (along, across)
        line_stride = f"${first + (1 if side.is_along_k else 2)}"
        apart = 1 if self._is_turned(side) else _LOADERS
        return [
            *lines, f"add.u32 z, {side.start}, {at_side}; cvt.u64.u32 w, z;",
            f"mad.lo.s64 {x}p, w, ${first + 1}, ${first};",
            f"add.u32 z, start, {at_k}; cvt.u64.u32 w, z; mad.lo.s64 {x}p, w, ${first + 2}, {x}p;",
            f"cvt.u64.u32 w, tg; mad.lo.s64 {x}p, w, ${first + 3}, {x}p;",
            f"mul.lo.s64 {x}o, {line_stride}, {apart};",
        ]

    def _wide_places(self, side: _Side) -> list[str]:
        """Find where the thread begins, with a quarter of a warp for each line, instead of a warp."""
        x, first = side.name, side.operand
        return [
            f"shr.u32 x, lane, 3; mad.lo.u32 x, loader, 4, x; add.u32 x, x, {side.start}; cvt.u64.u32 w, x;",
            f"mad.lo.s64 {x}p, w, ${first + 1}, ${first};",
            f"and.b32 x, lane, 7; mad.lo.u32 x, x, 4, start; cvt.u64.u32 w, x; mad.lo.s64 {x}p, w, ${first + 2}, {x}p;",
            f"cvt.u64.u32 w, tg; mad.lo.s64 {x}p, w, ${first + 3}, {x}p; mul.lo.s64 {x}o, ${first + 1}, {LANES};",
        ]

    def _stage_places(self, wide: bool = False) -> list[str]:
        """Find where this thread's words go in a stage: the warp's lines are eight apart, the period of the swizzle."""
        lines = []
        for side, panel in zip(self._sides, ("left", "right"), strict=True):
            x = side.name
            if self._is_turned(side):
                lines += [f"and.b32 x, lane, 7; mad.lo.u32 y, lane, {SWIZZLE}, {panel};"]
            elif wide:
                lines += [
                    "shr.u32 x, lane, 3; mad.lo.u32 x, loader, 4, x; and.b32 y, x, 7; and.b32 z, lane, 7; "
                    f"xor.b32 z, y, z; mad.lo.u32 y, x, {SWIZZLE}, {panel}; mad.lo.u32 {x}u, z, 16, y;"]
                continue
            else:
                lines += [f"shr.u32 x, lane, 2; and.b32 y, lane, 3; mad.lo.u32 y, y, 4, {panel};",
                          f"mad.lo.u32 y, loader, {SWIZZLE}, y;"]
            lines += [f"xor.b32 z, x, loader; mad.lo.u32 {x}u, z, 16, y;"]
        return lines

    @property
    def _words(self) -> int:
        """Words of a panel of L and of one of R for each thread that loads."""
        return self._stage // _LOADING // 4

    def _units(self, side: _Side, in_pairs: bool = False, wide: bool = False) -> list[tuple[list[str], str]]:
        """Return the loads and the stores of a thread for a panel: of words, or with `in_pairs` of 16-bit elements.

        With `wide` four words are loaded at once where they follow one another.
        """
        first = 0 if side is self._sides[0] else self._sides[0].panel.bytes // _LOADING // 4
        if self._is_turned(side):
            return self._turned(side, first)
        return self._vectors(side, first) if wide else self._lines(side, first, in_pairs)

    def _vectors(self, side: _Side, first_word: int) -> list[tuple[list[str], str]]:
        """Copy four words along the sum of each of four lines at a time."""
        x, units = side.name, []
        for number in range(side.panel.rows // LANES):
            loads = [f"add.s64 here, here, {x}o;"]
            if number == 0:
                loads = [
                    "and.b32 y, lane, 7; shl.b32 y, y, 2; sub.s32 x, ka, y; setp.gt.and.s32 e0, x, 0, more;",
                    f"shr.u32 y, lane, 3; mad.lo.u32 y, loader, 4, y; sub.s32 z, {side.size}, {side.start}; "
                    f"sub.s32 z, z, y; mov.b64 here, {x}p;",
                ]
            words = [first_word + 4 * number + j for j in range(4)]
            vector = "{" + ", ".join(f"w{word}" for word in words) + "}"
            loads += [f"setp.gt.and.s32 f0, z, {LANES * number}, e0;", *(f"mov.b32 w{word}, 0;" for word in words),
                      f"@f0 ld.global.v4.b32 {vector}, [here];"]
            store = f"{' '.join(map(_rounded, words))} st.shared.v4.b32 [{x}u+{LANES * number * SWIZZLE}], {vector};"
            units.append((loads, store))
        return units

    def _lines(self, side: _Side, first_word: int, in_pairs: bool) -> list[tuple[list[str], str]]:
        """Copy lines of 128 bytes, of which each lane has a word."""
        x, first, panel = side.name, side.operand, side.panel
        along = f"${first + (2 if side.is_along_k else 1)}"
        per_box = (panel.rows if side.is_along_k else panel.depth) // _LOADERS
        units = []
        for number in range(panel.boxes * per_box):
            box, i = divmod(number, per_box)
            loads = [f"add.s64 here, here, {x}o;"]
            if i == 0:
                loads = [
                    # What is left along memory from the lane's first element on, and of lines from the warp's first.
                    f"mul.lo.u32 y, lane, {self._parts};",
                    "sub.s32 x, ka, y;" if side.is_along_k else
                    f"sub.s32 x, {side.size}, {side.start}; sub.s32 x, x, y; sub.s32 x, x, {64 * box};",
                    "setp.gt.and.s32 e0, x, 0, more; setp.gt.and.s32 e1, x, 1, more;",
                    f"sub.s32 z, {side.size}, {side.start}; sub.s32 z, z, loader;" if side.is_along_k else
                    "sub.s32 z, ka, loader;",
                    f"mul.lo.s64 here, {along}, {64 * box}; add.s64 here, here, {x}p;",
                ]
            word = (first_word + number) % (2 * _BATCH) if in_pairs else first_word + number
            place = f"[{x}u+{box * panel.box_bytes + _LOADERS * i * SWIZZLE}]"
            loads.append(f"setp.gt.and.s32 f0, z, {_LOADERS * i}, e0;")
            store = f"st.shared.b32 {place}, w{word};"
            if in_pairs:
                low, high = f"h{2 * word}", f"h{2 * word + 1}"
                loads.append(f"setp.gt.and.s32 f1, z, {_LOADERS * i}, e1; mov.b16 {low}, 0; mov.b16 {high}, 0; "
                             f"add.s64 next, here, {along}; @f0 ld.global.b16 {low}, [here]; "
                             f"@f1 ld.global.b16 {high}, [next];")
                store = f"mov.b32 w{word}, {{{low}, {high}}}; {store}"
            else:
                loads.append(f"mov.b32 w{word}, 0; @f0 ld.global.b32 w{word}, [here];")
            units.append((loads, f"{_rounded(word)} {store}" if self._size == 4 else store))
        return units

    def _turned(self, side: _Side, first_word: int) -> list[tuple[list[str], str]]:
        """Copy four neighbours along the sum of each of 32 rows, one for each lane, at a time."""
        x, first, panel = side.name, side.operand, side.panel
        units = []
        for number in range(panel.rows // LANES):
            loads = [
                f"sub.s32 x, {side.size}, {side.start}; sub.s32 x, x, lane; "
                f"setp.gt.and.s32 e0, x, {LANES * number}, more; mul.lo.u32 z, loader, 4; sub.s32 z, ka, z;",
                f"mul.lo.s64 here, ${first + 1}, {LANES * number}; add.s64 here, here, {x}p;",
            ]
            words = [first_word + 4 * number + j for j in range(4)]
            for j, word in enumerate(words):
                if j:
                    loads.append(f"add.s64 here, here, {x}o;")
                loads.append(f"setp.gt.and.s32 f0, z, {j}, e0; mov.b32 w{word}, 0; "
                             f"@f0 ld.global.b32 w{word}, [here];")
            store = " ".join(map(_rounded, words))
            place = f"[{x}u+{LANES * number * SWIZZLE}]"
            units.append((loads, f"{store} st.shared.v4.b32 {place}, {{{', '.join(f'w{word}' for word in words)}}};"))
        return units


def _rounded(word: int) -> str:
    return f"cvt.rna.tf32.f32 w{word}, w{word};"


def _pipelined(units: list[tuple[list[str], str]]) -> list[str]:
    """Return loads and stores of units such that a batch is asked for before the one before is stored."""
    batches = [units[first : first + _BATCH] for first in range(0, len(units), _BATCH)]
    lines = []
    for number in range(len(batches) + 1):
        if number < len(batches):
            lines += [line for loads, _ in batches[number] for line in loads]
        if number:
            lines += [store for _, store in batches[number - 1]]
    return lines
