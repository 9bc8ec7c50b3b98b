"""Large products by warpgroups: a whole kernel in PTX, whose blocks stay and compute one tile after another.

One thread brings panels of both operands by tensor maps to a ring of stages in shared memory; two warpgroups multiply
them, each for 64 rows of the tile.  The result leaves through shared memory, by a tensor map as well, which cuts off
what lies beyond the matrices; what panels have beyond them is zero.
Sources: PTX ISA 9.0, sections 9.7.9.27 (cp.async.bulk.tensor), 9.7.13.15 (mbarrier), 9.7.14.5.16 (stmatrix) and 9.7.15
(wgmma); CUDA C++ Programming Guide, section "Tensor Memory Access".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, Intrinsic
from tl_dpnp.kernels.mma.rows import ELEMENTS
from tl_dpnp.kernels.mma.warpgroup import SWIZZLE, THREADS, Panel, WarpgroupRow
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.kernels.targets.nvvm import asm
from tl_dpnp.scalars import F32, INDEX

__all__ = ["DEPTH", "TILE_ROWS", "WARPS", "TileProduct"]

#: Rows of a tile and depth of a panel; warps of a block: two warpgroups, and one warp that loads.
TILE_ROWS, DEPTH, WARPS = 128, 64, 9
_GROUPS, _LOADER = 2, 256
#: A box of the result, 64 rows of 128 bytes, and how many of them a warpgroup has room for.
_BOX, _MOST_BOXES = 64 * SWIZZLE, 4
#: Bytes at which panels and boxes start.
_ALIGNMENT = 1024
#: Rows of tiles that are computed column by column, so that blocks at the same time share operands in the L2 cache.
_BAND = 8

_REGISTERS = """{
.reg .pred p, q, one;
.reg .b32 thread, base, bars, olds, stage, phase, oldphase, tile, tiles, each, band, blocks, step, steps, loadstep;
.reg .b32 rows, columns, m, n, g, x, y, z, full, empty, used, left, right, group, own, at0, at1, at2, at3;
.reg .b64 da, db, ha, hb;
.reg .b32 w0, w1, w2, w3;
.reg .b16 h0, h1;
.reg .f32 o0, o1;"""
_LOAD = "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
_STORE = "cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group"


@dataclass(frozen=True)
class TileProduct:
    """D := alpha L R + beta D for matrices L (m x k) and R (k x n), whose elements are 16 bits, and D (m x n).

    Along memory go the columns of D; those of L if `left_along_k`, otherwise its rows; the rows of R if
    `right_along_k`, otherwise its columns.  `batched` says of L, R and D which have a third dimension, the batch.
    Without `scales` alpha is 1, without `keeps` beta is 0 and D is not read.  A tile has 128 x `columns` elements;
    the ring has as many stages as `shared_memory` bytes of a block allow.
    """

    element: str
    result: str
    columns: int
    left_along_k: bool
    right_along_k: bool
    batched: tuple[bool, bool, bool]
    scales: bool
    keeps: bool
    shared_memory: int

    def __str__(self) -> str:
        return (f"tiled form, by {self.row.name}: tiles of {TILE_ROWS} x {self.columns}, {self.stages} stages of "
                f"{self._stage} bytes")

    @property
    def row(self) -> WarpgroupRow:
        """The instruction."""
        return WarpgroupRow(self.columns, 16, ELEMENTS[self.element], ELEMENTS[self.element], ELEMENTS["f32"])

    @cached_property
    def panels(self) -> tuple[Panel, Panel]:
        """The panels of a stage."""
        return Panel(TILE_ROWS, DEPTH, 2, self.left_along_k), Panel(self.columns, DEPTH, 2, self.right_along_k)

    @property
    def _stage(self) -> int:
        return sum(panel.bytes for panel in self.panels)

    @property
    def box_columns(self) -> int:
        """Columns of a box of the result."""
        return SWIZZLE * 8 // ELEMENTS[self.result].bits

    @property
    def _boxes(self) -> int:
        return self.columns // self.box_columns

    @property
    def _buffers(self) -> int:
        return min(_MOST_BOXES, self._boxes)

    @property
    def stages(self) -> int:
        """Stages of the ring."""
        rest = 2 * _ALIGNMENT + _GROUPS * self._buffers * _BOX  # room to align, barriers, the result
        return (self.shared_memory - rest) // self._stage

    @property
    def used_memory(self) -> int:
        """Bytes of shared memory of a block."""
        return self.stages * self._stage + _GROUPS * self._buffers * _BOX + 2 * _ALIGNMENT

    @property
    def boxes(self) -> tuple[tuple[int, int], ...]:
        """Sizes of what a copy by the tensor map of L, of R and of D moves: along memory, and across."""
        return *(panel.box for panel in self.panels), (self.box_columns, 64)

    def intrinsic(self) -> Intrinsic:
        """``tile_product(rows, columns, steps, products, alpha, beta, left, right, result)``.

        Those are the tiles of a column and of a row of tiles, the panels along k, the matrices of the batch, factors,
        and the addresses of tensor maps.
        """
        def emit(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
            shared = b.ptrtoint(target_of(b).local_memory(b, self.used_memory), I32)
            asm(b, self.text, "l,l,l,l,f,f,l,l,l,r,~{memory}", ir.VoidType(), [*arguments, shared])

        types = (INDEX, INDEX, INDEX, INDEX, F32, F32, INDEX, INDEX, INDEX)
        return Intrinsic("tile_product", types, None, emit)

    # --- the text ----------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The body of the kernel as inline PTX."""
        registers = f".reg .f32 d<{self.row.words}>;"
        return "\n".join([_REGISTERS, registers, *self._prologue(), *self._multiply(), *self._load(), _END])

    def _prologue(self) -> list[str]:
        results = self.stages * self._stage
        barriers = results + _GROUPS * self._buffers * _BOX
        lines = [
            "mov.u32 x, %tid.x; mov.u32 y, %tid.y; mad.lo.u32 thread, y, 32, x;",
            f"add.u32 base, $9, {_ALIGNMENT - 1}; and.b32 base, base, {-_ALIGNMENT & 0xFFFFFFFF:#x};",
            f"add.u32 bars, base, {barriers}; add.u32 olds, bars, {16 * self.stages};",
            "setp.ne.u32 p, thread, 0; @p bra READY;",
        ]
        counts = [1] * self.stages + [_GROUPS] * self.stages + [1] * (_GROUPS * self._buffers * self.keeps)
        lines += [f"mbarrier.init.shared::cta.b64 [bars+{8 * i}], {count};" for i, count in enumerate(counts)]
        return [
            *lines,
            "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;",
            "READY: bar.sync 0;",
            "cvt.u32.u64 rows, $0; cvt.u32.u64 columns, $1; cvt.u32.u64 steps, $2; cvt.u32.u64 tiles, $3;",
            f"mul.lo.u32 each, rows, columns; mul.lo.u32 tiles, tiles, each; mul.lo.u32 band, columns, {_BAND};",
            "mov.u32 tile, %ctaid.x; mov.u32 blocks, %nctaid.x; mov.u32 stage, 0; mov.u32 phase, 0;",
            f"mov.u32 oldphase, 0; setp.ge.u32 p, thread, {_LOADER}; @p bra LOADER;",
        ]

    def _position(self) -> list[str]:
        """Find the tile: m and n are its first row and column, g its matrix of the batch."""
        return [
            "div.u32 g, tile, each; mul.lo.u32 x, g, each; sub.u32 x, tile, x;",
            f"div.u32 y, x, band; mul.lo.u32 m, y, {_BAND}; sub.u32 z, rows, m; min.u32 z, z, {_BAND};",
            "mul.lo.u32 y, y, band; sub.u32 x, x, y; rem.u32 y, x, z; div.u32 n, x, z; add.u32 m, m, y;",
            f"mul.lo.u32 m, m, {TILE_ROWS}; mul.lo.u32 n, n, {self.columns};",
        ]

    def _multiply(self) -> list[str]:
        left, right = self.panels
        row, sums = self.row, range(self.row.words)
        flags = ", ".join(map(str, row.immediates(self.left_along_k, self.right_along_k)))
        registers = ", ".join(f"d{i}" for i in sums)
        products = []
        for k in range(0, DEPTH, row.k):
            products.append(f"{row.instruction} {{{registers}}}, da, db, 1, {flags};")
            if k + row.k < DEPTH:
                products.append(f"add.s64 da, da, {left.step(row.k)}; add.s64 db, db, {right.step(row.k)};")
        release = "and.b32 x, thread, 127; setp.ne.u32 p, x, 0;"
        return [
            f"shr.u32 group, thread, 7; mov.b64 ha, {left.descriptor:#x}; mov.b64 hb, {right.descriptor:#x};",
            f"and.b32 x, thread, {THREADS - 1}; setp.eq.u32 one, x, 0;",
            *self._result_places(),
            "sub.u32 loadstep, steps, 1; min.u32 loadstep, loadstep, 2;" if self.keeps else "",
            "TILE: setp.ge.u32 p, tile, tiles; @p bra DONE;",
            *self._position(),
            *(f"mov.f32 d{i}, 0f00000000;" for i in sums),
            "mov.u32 step, 0;",
            "STEP: shl.b32 full, stage, 3; add.u32 full, full, bars;",
            "FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], phase; @!q bra FULL;",
            f"mad.lo.u32 left, stage, {self._stage}, base; add.u32 right, left, {left.bytes};",
            f"mad.lo.u32 left, group, {left.offset(64, 0)}, left; shr.u32 left, left, 4; shr.u32 right, right, 4;",
            "cvt.u64.u32 da, left; cvt.u64.u32 db, right; or.b64 da, da, ha; or.b64 db, db, hb;",
            "wgmma.fence.sync.aligned;", *products, "wgmma.commit_group.sync.aligned;",
            *(self._fetch_first() if self.keeps else []),
            # The instructions before these have read their stage: it may be filled again.
            "wgmma.wait_group.sync.aligned 1;",
            f"{release} setp.eq.or.u32 p, step, 0, p; @p bra KEPT; mbarrier.arrive.shared::cta.b64 _, [used]; KEPT:",
            f"add.u32 used, full, {8 * self.stages};", *self._next_stage(),
            "add.u32 step, step, 1; setp.lt.u32 p, step, steps; @p bra STEP;",
            "wgmma.wait_group.sync.aligned 0;",
            f"{release} @p bra LAST; mbarrier.arrive.shared::cta.b64 _, [used]; LAST:",
            *self._store(),
            "add.u32 tile, tile, blocks; bra TILE;",
        ]

    def _next_stage(self) -> list[str]:
        return [f"add.u32 stage, stage, 1; setp.eq.u32 p, stage, {self.stages};",
                "@p xor.b32 phase, phase, 1; @p mov.u32 stage, 0;"]

    def _load(self) -> list[str]:
        lines = [f"LOADER: setp.ne.u32 p, thread, {_LOADER}; @p bra DONE;",
                 "NEXT: setp.ge.u32 p, tile, tiles; @p bra DONE;", *self._position(), "mov.u32 step, 0;",
                 f"PANELS: shl.b32 full, stage, 3; add.u32 full, full, bars; add.u32 empty, full, {8 * self.stages};",
                 "xor.b32 x, phase, 1;",
                 "EMPTY: mbarrier.try_wait.parity.shared::cta.b64 q, [empty], x; @!q bra EMPTY;",
                 f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {self._stage};",
                 f"mad.lo.u32 left, stage, {self._stage}, base; shl.b32 y, step, {DEPTH.bit_length() - 1};"]
        place = 0
        for number, (panel, first) in enumerate(zip(self.panels, "mn", strict=True)):
            for box in range(panel.boxes):
                along, across = ("y", first) if panel.along_k else ("z", "y")
                lines.append(f"add.u32 z, {first}, {64 * box}; add.u32 x, left, {place};")
                lines.append(self._tensor_copy(_LOAD, number, along, across, "x", "full"))
                place += panel.box_bytes
        return [*lines, *self._next_stage(), "add.u32 step, step, 1; setp.lt.u32 p, step, steps; @p bra PANELS;",
                "add.u32 tile, tile, blocks; bra NEXT;"]

    def _tensor_copy(self, copy: str, number: int, along: str, across: str, place: str, barrier: str = "") -> str:
        """Return a copy by the tensor map of L, R or D, from or to a place of shared memory."""
        batched = self.batched[number]
        outside = f"[${6 + number}, {{{along}, {across}{', g' if batched else ''}}}]"
        head = copy.format(rank=2 + batched)
        return f"{head} [{place}], {outside}, [{barrier}];" if barrier else f"{head} {outside}, [{place}];"

    # --- the result --------------------------------------------------------------------------------------------------

    @property
    def _is_narrow(self) -> bool:
        return self.result != "f32"

    def _result_places(self) -> list[str]:
        """Find where this thread's elements are in the first box, for each quarter of its columns.

        For f32 those are the pairs of the thread itself; for 16 bits the row of 16 bytes that it gives ``stmatrix``.
        """
        lines = [
            f"mad.lo.u32 own, group, {self._buffers * _BOX}, base; add.u32 own, own, {self.stages * self._stage};",
            "and.b32 x, thread, 31; shr.u32 y, thread, 5; and.b32 y, y, 3; shl.b32 y, y, 4;",
        ]
        if self._is_narrow:
            lines += ["and.b32 z, x, 15; add.u32 y, y, z; shr.u32 z, x, 4; mov.u32 left, own;"]
        else:
            lines += ["shr.u32 z, x, 2; add.u32 y, y, z; and.b32 z, x, 1; mad.lo.u32 left, z, 8, own;",
                      "shr.u32 z, x, 1; and.b32 z, z, 1;"]
        lines += [f"mad.lo.u32 left, y, {SWIZZLE}, left; and.b32 y, y, 7;"]
        for quarter in range(4):
            lines.append(f"add.u32 x, z, {2 * quarter}; xor.b32 x, x, y; mad.lo.u32 at{quarter}, x, 16, left;")
        if self.keeps:
            lines.append(f"mad.lo.u32 olds, group, {8 * self._buffers}, olds;")
        return lines

    def _fetch_first(self) -> list[str]:
        """Let the old elements of D come while products are computed, as soon as earlier results have left."""
        fetches = [line for box in range(self._buffers) for line in self._fetch(box)]
        return ["setp.ne.u32 q, step, loadstep; @q bra FETCHED; @!one bra FETCHED;",
                "cp.async.bulk.wait_group.read 0;", *fetches, "FETCHED:"]

    def _fetch(self, box: int) -> list[str]:
        buffer = box % self._buffers
        return [
            f"add.u32 x, olds, {8 * buffer}; mbarrier.arrive.expect_tx.shared::cta.b64 _, [x], {_BOX};",
            f"add.u32 y, n, {self.box_columns * box}; mad.lo.u32 z, group, 64, m; add.u32 w0, own, {buffer * _BOX};",
            self._tensor_copy(_LOAD, 2, "y", "z", "w0", "x"),
        ]

    def _store(self) -> list[str]:
        lines = []
        for box in range(self._boxes):
            buffer = box % self._buffers
            if self.keeps:
                phase = "oldphase" if self._boxes == self._buffers else str(box // self._buffers)
                lines += [f"OLD{box}: mbarrier.try_wait.parity.shared::cta.b64 q, [olds+{8 * buffer}], {phase};",
                          f"@!q bra OLD{box};"]
            for quarter in range(4):
                lines += (self._narrow if self._is_narrow else self._wide)(box, quarter, buffer * _BOX)
            # The next box goes where the oldest one leaves; with old elements that was waited for when they came.
            free = "" if self.keeps else f"@one cp.async.bulk.wait_group.read {self._buffers - 2};"
            lines += [
                f"fence.proxy.async.shared::cta; {free}", "add.u32 x, group, 1; bar.sync x, 128;",
                f"@!one bra STORED{box}; mad.lo.u32 z, group, 64, m; add.u32 y, n, {self.box_columns * box};",
                f"add.u32 w0, own, {buffer * _BOX};", self._tensor_copy(_STORE, 2, "y", "z", "w0"),
                "cp.async.bulk.commit_group;",
            ]
            if self.keeps and self._buffers <= box + 2 < self._boxes:
                lines += ["cp.async.bulk.wait_group.read 2;", *self._fetch(box + 2)]
            lines.append(f"STORED{box}:")
        if self.keeps and self._boxes == self._buffers:
            lines.append("xor.b32 oldphase, oldphase, 1;")
        return lines

    def _finish(self, element: str, old: str) -> str:
        scaled = f"mul.f32 {element}, {element}, $4;" if self.scales else ""
        return f"{scaled} fma.rn.f32 {element}, $5, {old}, {element};" if self.keeps else scaled

    def _wide(self, box: int, quarter: int, offset: int) -> list[str]:
        """Store eight columns of f32: two pairs of each thread, eight rows apart."""
        first = 4 * (4 * box + quarter)
        lines = []
        for element in (first, first + 2):
            place = f"[at{quarter}+{offset + 8 * SWIZZLE * (element - first) // 2}]"
            pair = f"d{element}", f"d{element + 1}"
            if self.keeps:
                lines.append(f"ld.shared.v2.f32 {{o0, o1}}, {place};")
            lines += [self._finish(one, old) for one, old in zip(pair, ("o0", "o1"), strict=True)]
            lines.append(f"st.shared.v2.f32 {place}, {{{', '.join(pair)}}};")
        return lines

    def _narrow(self, box: int, quarter: int, offset: int) -> list[str]:
        """Store sixteen columns of 16 bits: four matrices of 8 x 8."""
        first = 4 * (8 * box + 2 * quarter)
        place = f"[at{quarter}+{offset}]"
        matrices = "{w0, w1, w2, w3}"
        lines = [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {matrices}, {place};"] if self.keeps else []
        for word in range(4):
            low, high = f"d{first + 2 * word}", f"d{first + 2 * word + 1}"
            if self.keeps and self.result == "bf16":
                lines.append(f"shl.b32 x, w{word}, 16; mov.b32 o0, x; and.b32 x, w{word}, 0xffff0000; mov.b32 o1, x;")
            elif self.keeps:
                lines.append(f"mov.b32 {{h0, h1}}, w{word}; cvt.f32.f16 o0, h0; cvt.f32.f16 o1, h1;")
            lines += [self._finish(low, "o0"), self._finish(high, "o1")]
            lines.append(f"cvt.rn.{self.result}x2.f32 w{word}, {high}, {low};")
        return [*lines, f"stmatrix.sync.aligned.m8n8.x4.shared.b16 {place}, {matrices};"]


_END = "DONE: cp.async.bulk.wait_group 0; }"
