"""Tiles of tf32 whose operands do not lie along k: ``wgmma`` takes such from registers, or they are transposed.

L is loaded from shared memory to registers, while the products of earlier steps are computed.  A lane holds rows g and
g + 8 of its warp's 16 and columns t and t + 4 of a step, with g = lane / 4 and t = lane mod 4 (`rows.MmaRow`).  Which
rows of the panel these are is free, as those of D follow: here two that are neighbours in memory, one load of 8 bytes.
Those of a warp are in the chunks of 16 bytes number 5 (g / 2 mod 2) xor g / 4 xor 2 (warp mod 2) of a line.  With the
swizzle, what is accessed at once then lies in different banks: in loads, and on the way of sums to D, whose rows or
columns go along memory.

R is transposed in place, where it has to be, by further warps: blocks of 4 x 4 elements go through registers, and those
on a diagonal of a box change places with one another only.
Source: PTX ISA 9.0, section 9.7.15, "Register Fragments" and "Shared Memory Matrix Layout".
"""

from __future__ import annotations

from dataclasses import replace

from tl_dpnp.kernels.mma.rows import LANES
from tl_dpnp.kernels.mma.warpgroup import SWIZZLE, Panel
from tl_dpnp.kernels.mma.warpgroup_tiles import WarpgroupTiles
from tl_dpnp.records import dataclass

__all__ = ["RegisterOperandTiles"]

#: Rows, or columns, of what a line of memory has of an operand: those of a box.
_LINE = SWIZZLE // 4
_BOX = _LINE * SWIZZLE
#: Registers of a thread, of the 168 that there are, in which sums and L leave enough for the rest.
_HELD = 128
#: Say that the stage before is empty, also to the block that brings half of it.  With a branch here, the assembler lets
#: each product wait for the one before.
_RELEASE = ["setp.ne.and.u32 p, step, 0, one; @p mbarrier.arrive.shared::cta.b64 _, [used]; and.pred p, p, paired;",
            "mapa.shared::cluster.u32 x, used, peer; @p mbarrier.arrive.shared::cluster.b64 _, [x];",
            "mov.u32 used, empty;"]


@dataclass(frozen=True)
class RegisterOperandTiles(WarpgroupTiles):
    """See `TileProduct`: the rows of L lie along memory; those of D as well, not its columns, if `rows_consecutive`."""

    rows_consecutive: bool

    def __post_init__(self) -> None:
        assert (self.element, self.result, self.left_along_k) == ("tf32", "f32", False)

    @property
    def boxes(self) -> tuple[tuple[int, int], ...]:
        *operands, result = super().boxes
        return (*operands, (_LINE, self.box_columns) if self.rows_consecutive else result)

    @property
    def _registers(self) -> str:
        return (f"{super()._registers} .reg .b32 a<{self._steps * 4}>, chunk, pair, line, here0, here1; "
                ".reg .b32 v<32>, box, from, to, from0, from1;")

    @property
    def _steps(self) -> int:
        """Instructions for a panel, each of which has registers of its own for L."""
        return self.depth // self.row.k

    @property
    def operands(self) -> str:
        return super().operands if self.right_along_k else f"{super().operands}, one transposed"

    @property
    def has_registers(self) -> bool:
        return self.row.words + 4 * self._steps <= _HELD

    def _prepare(self) -> list[str]:
        return [
            *super()._prepare(),
            "and.b32 x, thread, 31; shr.u32 y, x, 2; and.b32 z, y, 1; shl.b32 pair, z, 3;",
            "bfe.u32 chunk, y, 1, 1; mul.lo.u32 chunk, chunk, 5; shr.u32 z, y, 2; xor.b32 chunk, chunk, z;",
            "shr.u32 z, thread, 4; and.b32 z, z, 2; xor.b32 chunk, chunk, z;",
            # The place of two rows at column t of the first step; t + 4 is four lines on, whose swizzle is another.
            "and.b32 x, thread, 3; xor.b32 y, chunk, x; mad.lo.u32 line, y, 16, pair; "
            f"mad.lo.u32 line, x, {SWIZZLE}, line; shr.u32 x, thread, 6; mad.lo.u32 line, x, {_BOX}, line;",
        ]

    # --- products ----------------------------------------------------------------------------------------------------

    def _consume(self, meanwhile: list[str]) -> list[str]:
        sums = ", ".join(f"d{i}" for i in range(self.row.words))
        flags = ", ".join(map(str, self.row.immediates()))
        lines = [f"TURNED_HERE: mbarrier.try_wait.parity.shared::cta.b64 q, [{self._turned}], phase; "
                 "@!q bra TURNED_HERE;"] if self._turning else []
        lines += [
            f"add.u32 right, left, {self.panels[0].bytes}; add.u32 here0, left, line; xor.b32 here1, here0, 64;",
            "bfe.u32 right, right, 4, 14; cvt.u64.u32 db, right; or.b64 db, db, hb;",
        ]
        for step in range(self._steps):
            # The instruction that has read these registers is done, and with the last one of a panel its stage.
            lines.append(f"wgmma.wait_group.sync.aligned {self._steps - 1};")
            if step == self._steps - 1:
                lines += _RELEASE
            words = [f"a{4 * step + i}" for i in range(4)]
            at = step * self.row.k * SWIZZLE
            lines += [
                f"ld.shared.v2.b32 {{{words[0]}, {words[1]}}}, [here0+{at}];",
                f"ld.shared.v2.b32 {{{words[2]}, {words[3]}}}, [here1+{at + 4 * SWIZZLE}];",
                f"wgmma.fence.sync.aligned; {self.row.instruction} {{{sums}}}, {{{', '.join(words)}}}, db, 1, {flags};",
                "wgmma.commit_group.sync.aligned;",
                f"add.s64 db, db, {self._multiplied.step(self.row.k)};",
            ]
        return [*lines, *meanwhile]

    @property
    def _multiplied(self) -> Panel:
        """The panel of R as it is multiplied."""
        return replace(self.panels[1], along_k=True)

    # --- transposition of R ------------------------------------------------------------------------------------------

    @property
    def _turning(self) -> int:
        """Warps that transpose R: as many as the registers allow that the others take."""
        return 0 if self.right_along_k else 3 * self._groups // 2

    @property
    def warps(self) -> int:
        return super().warps + self._turning

    @property
    def _barriers(self) -> list[str]:
        return super()._barriers + [str(self._turning * LANES)] * (self.stages if self._turning else 0)

    @property
    def _turned(self) -> str:
        """The barrier that says that R is transposed in the stage of the barrier `full`."""
        return f"full+{8 * len(super()._barriers)}"

    def _start(self) -> list[str]:
        first = self._loader + LANES
        turn = [f"setp.ge.u32 p, thread, {first}; @p bra TURNER;"] if self._turning else []
        return [*turn, *super()._start()]

    def _load(self) -> list[str]:
        return [*(self._transpose() if self._turning else []), *super()._load()]

    def _transpose(self) -> list[str]:
        """Let rows of R, which lie along memory, lie along k: a warp transposes every so many boxes.

        Eight lanes have a diagonal of a box, whose blocks are at rows 4x and columns 4y; the other half of the box has
        diagonals that are four further on.
        """
        return [
            f"TURNER: shr.u32 z, thread, 5; sub.u32 z, z, {self._loader // LANES + 1}; mov.u32 box, z;",
            "bfe.u32 x, thread, 3, 2; and.b32 y, thread, 7; xor.b32 x, x, y; "
            f"mul.lo.u32 z, z, {_BOX}; add.u32 z, z, {self.panels[0].bytes};",
            f"mad.lo.u32 from, x, {4 * SWIZZLE}, z; mad.lo.u32 to, y, {4 * SWIZZLE}, z;",
            "and.b32 z, x, 1; shl.b32 z, z, 2; xor.b32 z, z, y; mad.lo.u32 from, z, 16, from;",
            "and.b32 z, y, 1; shl.b32 z, z, 2; xor.b32 z, z, x; mad.lo.u32 to, z, 16, to;",
            "TURN_TILE: setp.ge.u32 p, tile, tiles; @p bra LOADED; mov.u32 step, 0;",
            "TURN: shl.b32 full, stage, 3; add.u32 full, full, bars;",
            "TURN_FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], phase; @!q bra TURN_FULL;",
            f"mad.lo.u32 left, stage, {self._stage}, base; add.u32 y, left, to;",
            f"add.u32 from0, left, from; xor.b32 x, from, {4 * 4 * SWIZZLE}; add.u32 from1, left, x;",
            *(line for first in range(0, self.panels[1].boxes, self._turning) for line in self._transpose_box(first)),
            f"TURNED: fence.proxy.async.shared::cta; mbarrier.arrive.shared::cta.b64 _, [{self._turned}];",
            *self._next_stage(), "add.u32 step, step, 1; setp.lt.u32 p, step, steps; @p bra TURN;",
            "add.u32 tile, tile, blocks; bra TURN_TILE;",
        ]

    def _transpose_box(self, first: int) -> list[str]:
        """Transpose one of the boxes from the first one on, if there are so many."""
        offset, boxes = first * _BOX, self.panels[1].boxes
        lines = [f"setp.ge.u32 p, box, {boxes - first}; @p bra TURNED;"] if first + self._turning > boxes else []
        halves = [(half, line) for half in range(2) for line in range(4)]
        for half, line in halves:
            words = ", ".join(f"v{16 * half + 4 * line + i}" for i in range(4))
            lines.append(f"xor.b32 z, from{half}, {16 * line}; "
                         f"ld.shared.v4.b32 {{{words}}}, [z+{offset + SWIZZLE * line}];")
        lines.append("bar.warp.sync 0xffffffff;")
        for half, line in halves:
            words = ", ".join(f"v{16 * half + 4 * i + line}" for i in range(4))
            lines.append(f"xor.b32 z, y, {4 * 16 * half + 16 * line}; "
                         f"st.shared.v4.b32 [z+{offset + SWIZZLE * line}], {{{words}}};")
        return lines

    # --- the result --------------------------------------------------------------------------------------------------

    def _own_places(self) -> list[str]:
        lines = ["and.b32 x, thread, 3; bfe.u32 z, thread, 6, 1;"]
        if self.rows_consecutive:  # columns 2x of a half of the box that has other rows
            return [
                *lines, f"mad.lo.u32 left, z, {self._half}, own; add.u32 left, left, pair; shl.b32 x, x, 1; "
                f"xor.b32 y, chunk, x; mad.lo.u32 left, y, 16, left; mad.lo.u32 at0, x, {SWIZZLE}, left;"]
        return [
            *lines, f"mul.lo.u32 y, z, {_LINE}; mad.lo.u32 y, chunk, 4, y; shr.u32 z, pair, 2; add.u32 y, y, z;",
            "and.b32 z, x, 1; mad.lo.u32 left, z, 8, own; shr.u32 z, x, 1;",
            f"mad.lo.u32 left, y, {SWIZZLE}, left; and.b32 y, y, 7; xor.b32 z, z, y; mad.lo.u32 at0, z, 16, left;"]

    @property
    def _half(self) -> int:
        """Bytes of what one copy takes of a box whose rows lie along memory."""
        return self.box_columns * SWIZZLE

    def _pairs(self, first: int, quarter: int, offset: int) -> list[tuple[list[str], tuple[int, int], str]]:
        # Quarters are at other lines or at other chunks of one, the two pairs at neighbouring lines.
        if self.rows_consecutive:
            sums, turn, offset = ((0, 2), (1, 3)), 0, offset + 8 * quarter * SWIZZLE
        else:
            sums, turn = ((0, 1), (2, 3)), 32 * quarter
        return [([f"xor.b32 x, at0, {turn + 16 * line};"], (first + one, first + other),
                 f"x+{offset + SWIZZLE * line}")
                for line, (one, other) in enumerate(sums)]

    def _copy_box(self, box: int, copy: str, barrier: str = "") -> list[str]:
        if not self.rows_consecutive:
            return super()._copy_box(box, copy, barrier)
        one = self._tensor_copy(copy, 2, "y", "z", "w0", barrier)
        return [f"add.u32 y, m, cm; add.u32 z, n, {self.box_columns * box}; {self._buffer(box)}",
                one, f"add.u32 y, y, {_LINE}; add.u32 w0, w0, {self._half};", one]
