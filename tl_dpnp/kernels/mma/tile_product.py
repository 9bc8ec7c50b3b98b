"""Large products: whole kernels in PTX, whose blocks stay and compute one tile of a result after another.

One thread brings panels of both operands by tensor maps to a ring of stages in shared memory, from where they are
multiplied.  The result leaves through shared memory, by a tensor map as well, which cuts off what lies beyond the
matrices; what panels have beyond them is zero.  `warpgroup_tiles`, `register_operands` and `warp_tiles` have the ways
to multiply.

The blocks of a cluster may share a tile, and then compute no other: each has some panels of the sum, and in the end
some boxes of the result (`shared_sums`).  Or two of them compute tiles below one another, and each brings half of what
they need of R to both.
Sources: PTX ISA 9.0, sections 9.7.9.27 (cp.async.bulk.tensor), 9.7.13.15 (mbarrier) and 9.7.14.5.16 (stmatrix); CUDA
C++ Programming Guide, section "Tensor Memory Access".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, Intrinsic
from tl_dpnp.kernels.mma.cluster_shares import own_share
from tl_dpnp.kernels.mma.rows import ELEMENTS, MmaRow
from tl_dpnp.kernels.mma.shared_sums import SharedSums
from tl_dpnp.kernels.mma.warpgroup import SWIZZLE, Panel, WarpgroupRow
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.kernels.targets.nvvm import asm
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, INDEX

__all__ = ["BOX_ROWS", "TileProduct"]

#: Rows of a box of the result, which has 128 bytes of columns.
BOX_ROWS = 64
_BOX = BOX_ROWS * SWIZZLE
#: Bytes at which panels and boxes start.
_ALIGNMENT = 1024
#: Rows of tiles that are computed column by column, so that blocks at the same time share operands in the L2 cache.
_BAND = 8

_REGISTERS = """{
.reg .pred p, q, one, shared, paired;
.reg .b32 thread, base, bars, olds, stage, phase, oldphase, tile, tiles, each, band, blocks, step, steps, loadstep;
.reg .b32 rows, columns, m, n, g, x, y, z, full, empty, used, left, right, group, own, at0, at1, at2, at3, cm, cn;
.reg .b32 together, member, peer, w0, w1, w2, w3;
.reg .b16 h0, h1;
.reg .f32 o0, o1;"""
_LOAD = "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
_STORE = "cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group"
_END = "DONE: cp.async.bulk.wait_group.read 0; }"


@dataclass(frozen=True)
class TileProduct(ABC):
    """D := alpha L R + beta D for matrices L (m x k) and R (k x n), whose elements are 16 bits or tf32, and D (m x n).

    Along memory go the columns of D; those of L if `left_along_k`, otherwise its rows; the rows of R if
    `right_along_k`, otherwise its columns.  `batched` says of L, R and D which have a third dimension, the batch.
    Without `scales` alpha is 1, without `keeps` beta is 0 and D is not read.  A tile has `rows` x `columns` elements;
    the ring has as many stages as `shared_memory` bytes of a block allow.
    """

    element: str
    result: str
    rows: int
    columns: int
    left_along_k: bool
    right_along_k: bool
    batched: tuple[bool, bool, bool]
    scales: bool
    keeps: bool
    shared_memory: int

    # --- what the ways to multiply differ in -------------------------------------------------------------------------

    @property
    @abstractmethod
    def row(self) -> WarpgroupRow | MmaRow:
        """The instruction."""

    @property
    @abstractmethod
    def _groups(self) -> int:
        """Groups of threads that compute parts of a tile of their own: 64 rows and `_group_columns`."""

    @property
    @abstractmethod
    def _group_threads(self) -> int:
        """Threads of such a group."""

    @property
    @abstractmethod
    def _group_columns(self) -> int:
        """Columns of a group's part."""

    @property
    @abstractmethod
    def _most_buffers(self) -> int:
        """Boxes of the result that a group has room for."""

    @property
    @abstractmethod
    def _registers(self) -> str:
        """Declarations of registers; d0, d1 and so on are a thread's sums, of blocks of 16 rows one after another."""

    @property
    @abstractmethod
    def _synchronize(self) -> str:
        """A barrier of a group."""

    @property
    @abstractmethod
    def warps(self) -> int:
        """Warps of a block."""

    @property
    @abstractmethod
    def together(self) -> tuple[int, ...]:
        """How many blocks of a cluster may compute tiles below one another, each of which brings a part of R to all."""

    @abstractmethod
    def _prepare(self) -> list[str]:
        """Find `one`, whether this is the first thread of its group, its part in a tile, `cm` and `cn`, and `y`.

        That is the first row of a box that this thread's warp stores.
        """

    @abstractmethod
    def _start(self) -> list[str]:
        """Let panels come."""

    @abstractmethod
    def _consume(self, meanwhile: list[str]) -> list[str]:
        """Multiply the panels of stage `left`, and arrive at `empty` or earlier stages' when they are read.

        `meanwhile` is to be done while products are computed; afterwards `full` is still the stage's barrier.
        """

    @abstractmethod
    def _finish_products(self) -> list[str]:
        """Wait for the sums of a tile and arrive for the last stage."""

    # --- places ------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{self.row.name}: tiles of {self.rows} x {self.columns}, {self.stages} stages of {self._stage} bytes"

    @property
    def _size(self) -> int:
        """Bytes of an element of an operand."""
        return ELEMENTS[self.element].bits // 8

    @property
    def depth(self) -> int:
        """How much of the sum a panel has."""
        return SWIZZLE // self._size

    @cached_property
    def panels(self) -> tuple[Panel, Panel]:
        """The panels of a stage."""
        return (Panel(self.rows, self.depth, self._size, self.left_along_k),
                Panel(self.columns, self.depth, self._size, self.right_along_k))

    @property
    def _stage(self) -> int:
        return sum(panel.bytes for panel in self.panels)

    @property
    def box_columns(self) -> int:
        """Columns of a box of the result."""
        return SWIZZLE * 8 // ELEMENTS[self.result].bits

    @property
    def _boxes(self) -> int:
        return self._group_columns // self.box_columns

    @property
    def _buffers(self) -> int:
        # All are used equally often, which the phases of their barriers rely on.
        return max(count for count in range(1, self._most_buffers + 1) if self._boxes % count == 0)

    @property
    def _barriers(self) -> list[str]:
        """How many arrive at each barrier: for stages that are full and empty, and for old elements.

        Register x has who says that a stage is empty.
        """
        return ["1"] * self.stages + ["x"] * self.stages + ["1"] * (self._groups * self._buffers * self.keeps)

    @property
    def _results(self) -> int:
        return self._groups * self._buffers * _BOX

    @property
    def stages(self) -> int:
        """Stages of the ring."""
        return (self.shared_memory - self._results - 2 * _ALIGNMENT) // self._stage

    @property
    def used_memory(self) -> int:
        """Bytes of shared memory of a block: stages, the result, barriers and room to align it all."""
        return self.stages * self._stage + self._results + 2 * _ALIGNMENT

    @property
    def boxes(self) -> tuple[tuple[int, int], ...]:
        """Sizes of what a copy by the tensor map of L, of R and of D moves: along memory, and across."""
        left, (along, across) = (panel.box for panel in self.panels)
        return left, (along, across // 2), (self.box_columns, BOX_ROWS)

    @cached_property
    def _shared_sums(self) -> SharedSums:
        """How the blocks of a cluster add up the sums of a tile."""
        blocks = BOX_ROWS * 32 // self._group_threads // 16
        columns = self.box_columns // 8
        words = tuple(tuple(4 * (block * self._group_columns // 8 + columns * box + column)
                            for block in range(blocks) for column in range(columns)) for box in range(self._boxes))
        return SharedSums(self._groups * self._group_threads, self._group_threads, words, self._synchronize)

    @property
    def operands(self) -> str:
        """What the time of a product depends on (`tl_dpnp.target.multiprocessor.TiledNumbers`)."""
        return "16 bits" if self._size == 2 else self.element

    @property
    def has_registers(self) -> bool:
        """Whether what a thread holds has room in its registers."""
        return True

    def has_room_for(self, parts: int) -> bool:
        """Whether so many blocks may share a tile: the sums that one of them gets have room where the panels were."""
        return self._shared_sums.bytes(parts) <= self.stages * self._stage

    def intrinsic(self) -> Intrinsic:
        """``tile_product_rows_columns(rows, columns, steps, products, together, alpha, beta, left, right, result)``.

        Those are the tiles of a column and of a row of tiles, the panels along k, the matrices of the batch, factors,
        and the addresses of tensor maps.
        """
        def emit(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
            shared = b.ptrtoint(target_of(b).local_memory(b, self.used_memory), I32)
            asm(b, self.text, "l,l,l,l,l,f,f,l,l,l,r,~{memory}", ir.VoidType(), [*arguments, shared])

        types = (*(INDEX,) * 5, F32, F32, INDEX, INDEX, INDEX)
        return Intrinsic(f"tile_product_{self.rows}_{self.columns}", types, None, emit)

    # --- the text ----------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The body of the kernel as inline PTX."""
        registers = [_REGISTERS, self._registers, self._shared_sums.registers]
        return "\n".join([*registers, *self._prologue(), *self._multiply(), _END])

    def _prologue(self) -> list[str]:
        barriers = self.stages * self._stage + self._results
        lines = [
            "mov.u32 x, %tid.x; mov.u32 y, %tid.y; mad.lo.u32 thread, y, 32, x;",
            f"add.u32 base, $10, {_ALIGNMENT - 1}; and.b32 base, base, {-_ALIGNMENT & 0xFFFFFFFF:#x};",
            f"add.u32 bars, base, {barriers}; add.u32 olds, bars, {16 * self.stages};",
            "cvt.u32.u64 rows, $0; cvt.u32.u64 columns, $1; cvt.u32.u64 steps, $2; cvt.u32.u64 tiles, $3;",
            f"mul.lo.u32 each, rows, columns; mul.lo.u32 tiles, tiles, each; mul.lo.u32 band, columns, {_BAND};",
            *self._own_share(), "setp.ne.u32 p, thread, 0; @p bra READY;",
        ]
        counts = self._barriers
        lines.append(f"mul.lo.u32 x, together, {self._groups};")
        lines += [f"mbarrier.init.shared::cta.b64 [bars+{8 * i}], {count};" for i, count in enumerate(counts)]
        return [
            *lines, f"add.u32 ready, bars, {8 * len(counts)}; add.u32 summed, ready, 8;",
            "@!shared bra FENCE;", *self._shared_sums.initialize(self._groups),
            "FENCE: fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;",
            "READY: bar.sync 0; @shared barrier.cluster.arrive.relaxed; @paired barrier.cluster.arrive.relaxed;",
            f"@paired barrier.cluster.wait; add.u32 ready, bars, {8 * len(counts)}; add.u32 summed, ready, 8;",
            "mov.u32 stage, 0; mov.u32 phase, 0; mov.u32 oldphase, 0;", *self._start(),
        ]

    def _own_share(self) -> list[str]:
        """Find the first tile of this block, its panels of the sum, and its boxes of the result, `low` to `high`."""
        return [
            "mov.u32 parts, %cluster_nctaid.x; mov.u32 rank, %cluster_ctarank; mov.u32 tile, %ctaid.x;",
            "div.u32 tile, tile, parts; mov.u32 blocks, %nctaid.x; div.u32 blocks, blocks, parts;",
            "cvt.u32.u64 together, $4; setp.gt.u32 paired, together, 1; div.u32 parts, parts, together;",
            "rem.u32 member, rank, together; div.u32 rank, rank, together; xor.b32 peer, member, 1;",
            "setp.gt.u32 shared, parts, 1;",
            own_share("steps", "begin", "x"), "sub.u32 steps, x, begin;", *self._shared_sums.find_share(),
        ]

    def _position(self, x: str = "") -> list[str]:
        """Find a tile: m and n are its first row and column, g its matrix of the batch; `x` begins all names."""
        return [
            f"div.u32 {x}g, {x}tile, each; mul.lo.u32 x, {x}g, each; sub.u32 x, {x}tile, x;",
            f"div.u32 y, x, band; mul.lo.u32 {x}m, y, {_BAND}; sub.u32 z, rows, {x}m; min.u32 z, z, {_BAND};",
            f"mul.lo.u32 y, y, band; sub.u32 x, x, y; rem.u32 y, x, z; div.u32 {x}n, x, z; add.u32 {x}m, {x}m, y;",
            f"mad.lo.u32 {x}m, {x}m, together, member;",
            f"mul.lo.u32 {x}m, {x}m, {self.rows}; mul.lo.u32 {x}n, {x}n, {self.columns};",
        ]

    def _multiply(self) -> list[str]:
        sums = range(BOX_ROWS * self._group_columns // self._group_threads)
        return [
            f"div.u32 group, thread, {self._group_threads};", *self._result_places(),
            "sub.u32 loadstep, steps, 1; min.u32 loadstep, loadstep, 2;" if self.keeps else "",
            "TILE: setp.ge.u32 p, tile, tiles; @p bra DONE;",
            *self._position(),
            *(f"mov.f32 d{i}, 0f00000000;" for i in sums),
            "mov.u32 step, 0;",
            f"STEP: shl.b32 full, stage, 3; add.u32 full, full, bars; add.u32 empty, full, {8 * self.stages};",
            "FULL: mbarrier.try_wait.parity.shared::cta.b64 q, [full], phase; @!q bra FULL;",
            f"mad.lo.u32 left, stage, {self._stage}, base;",
            *self._consume(self._fetch_first() if self.keeps else []),
            *self._next_stage(), "add.u32 step, step, 1; setp.lt.u32 p, step, steps; @p bra STEP;",
            *self._finish_products(), "@!shared bra ALONE;", *self._shared_sums.exchange(), "ALONE:", *self._store(),
            "add.u32 tile, tile, blocks; bra TILE;", *self._load(),
        ]

    def _load(self) -> list[str]:
        """Return what a thread does that only loads."""
        return []

    def _next_stage(self, x: str = "") -> list[str]:
        return [f"add.u32 {x}stage, {x}stage, 1; setp.eq.u32 p, {x}stage, {self.stages};",
                f"@p xor.b32 {x}phase, {x}phase, 1; @p mov.u32 {x}stage, 0;"]

    def _bring(self, x: str = "") -> list[str]:
        """Let the panels of a step come as soon as their stage is empty; `x` begins all names."""
        lines = [*self._wait_for_stage(x), ".reg .b32 place, u, v; .reg .b16 both; mov.b16 both, 3;",
                 f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {self._stage};",
                 f"mad.lo.u32 place, {x}stage, {self._stage}, base; add.u32 y, {x}step, begin; "
                 f"shl.b32 y, y, {self.depth.bit_length() - 1};"]
        left, right = self.panels
        for box in range(left.boxes):
            along, across = ("y", x + "m") if left.along_k else ("z", "y")
            lines += [f"add.u32 z, {x}m, {left.line * box};",
                      self._tensor_copy(_LOAD, 0, along, across, "place", "full", x),
                      f"add.u32 place, place, {left.box_bytes};"]
        for box in range(right.boxes):
            lines += self._bring_halves(right, box, x)
        return [*lines, "}", *self._next_stage(x)]

    def _wait_for_stage(self, x: str = "") -> list[str]:
        """Begin a block with a wait for a stage to be empty; `x` begins all names."""
        return [f"{{ .reg .b32 full, empty; shl.b32 full, {x}stage, 3; add.u32 full, full, bars;",
                f"add.u32 empty, full, {8 * self.stages}; xor.b32 x, {x}phase, 1;",
                "EMPTY: mbarrier.try_wait.parity.shared::cta.b64 q, [empty], x; @!q bra EMPTY;"]

    def _bring_halves(self, panel: Panel, box: int, x: str) -> list[str]:
        """Let both halves of a box of R come; where blocks compute tiles below one another, each brings one to both."""
        extent, size = self.boxes[1][1], panel.box_bytes // 2
        along, across = ("y", "z") if panel.along_k else ("v", "z")
        lines = [f"mov.u32 z, {x}n;" if panel.along_k else f"add.u32 v, {x}n, {panel.line * box}; mov.u32 z, y;"]
        single = [self._tensor_copy(_LOAD, 1, along, across, "place", "full", x),
                  f"add.u32 z, z, {extent}; add.u32 place, place, {size};",
                  self._tensor_copy(_LOAD, 1, along, across, "place", "full", x), f"add.u32 place, place, {size};"]
        copy = self._tensor_copy(f"{_LOAD}.multicast::cluster", 1, along, across, "u", "full", x, "both")
        return [*lines, f"@paired bra BOTH{box};", *single, f"bra BROUGHT{box};",
                f"BOTH{box}: mad.lo.u32 z, member, {extent}, z; mad.lo.u32 u, member, {size}, place; "
                f"{copy} add.u32 place, place, {panel.box_bytes};", f"BROUGHT{box}:"]

    def _tensor_copy(
        self, copy: str, number: int, along: str, across: str, place: str, barrier: str = "", x: str = "",
        blocks: str = "",
    ) -> str:
        """Return a copy by the tensor map of L, R or D, from or to a place of shared memory, of `blocks` of a cluster.
        """
        batched = self.batched[number]
        outside = f"[${7 + number}, {{{along}, {across}{f', {x}g' if batched else ''}}}]"
        head = copy.format(rank=2 + batched)
        to = f"[{barrier}], {blocks}" if blocks else f"[{barrier}]"
        return f"{head} [{place}], {outside}, {to};" if barrier else f"{head} {outside}, [{place}];"

    # --- the result --------------------------------------------------------------------------------------------------

    @property
    def _is_narrow(self) -> bool:
        return self.result != "f32"

    def _result_places(self) -> list[str]:
        """Find where this thread's elements are in the first box of its group."""
        return [
            f"mad.lo.u32 own, group, {self._buffers * _BOX}, base; add.u32 own, own, {self.stages * self._stage};",
            *self._prepare(), *self._own_places(),
            *([f"mad.lo.u32 olds, group, {8 * self._buffers}, olds;"] if self.keeps else []),
        ]

    def _own_places(self) -> list[str]:
        """Find where a thread's elements are in a box at `own`, for each quarter of its columns.

        For f32 those are the pairs of the thread itself; for 16 bits the row of 16 bytes that it gives ``stmatrix``.
        """
        lines = ["and.b32 x, thread, 31;"]
        if self._is_narrow:
            lines += ["and.b32 z, x, 15; add.u32 y, y, z; shr.u32 z, x, 4; mov.u32 left, own;"]
        else:
            lines += ["shr.u32 z, x, 2; add.u32 y, y, z; and.b32 z, x, 1; mad.lo.u32 left, z, 8, own;",
                      "shr.u32 z, x, 1; and.b32 z, z, 1;"]
        lines += [f"mad.lo.u32 left, y, {SWIZZLE}, left; and.b32 y, y, 7;"]
        for quarter in range(4):
            lines.append(f"add.u32 x, z, {2 * quarter}; xor.b32 x, x, y; mad.lo.u32 at{quarter}, x, 16, left;")
        return lines

    def _fetch_first(self) -> list[str]:
        """Let the old elements of D come while products are computed, as soon as earlier results have left.

        Where blocks share a tile, there is room for all boxes of one.
        """
        assert self._boxes <= 2 * self._buffers
        lines = ["setp.ne.u32 q, step, loadstep; @q bra FETCHED; @!one bra FETCHED; cp.async.bulk.wait_group.read 0;"]
        for box in range(self._boxes):
            lines += [*(["@!shared bra FETCHED;"] if box == self._buffers else []),
                      self._shared_sums.skip_unless_own(box, f"OTHER{box}"), *self._fetch(box), f"OTHER{box}:"]
        return [*lines, "FETCHED:"]

    def _copy_box(self, box: int, copy: str, barrier: str = "") -> list[str]:
        """Copy a box from or to D."""
        return [f"add.u32 y, n, cn; add.u32 y, y, {self.box_columns * box}; add.u32 z, m, cm; {self._buffer(box)}",
                self._tensor_copy(copy, 2, "y", "z", "w0", barrier)]

    def _buffer(self, box: int) -> str:
        """Find the place w0 of a box in shared memory."""
        return f"add.u32 w0, own, {box % self._buffers * _BOX};"

    def _fetch(self, box: int) -> list[str]:
        barrier = 8 * (box % self._buffers)
        return [f"add.u32 x, olds, {barrier}; mbarrier.arrive.expect_tx.shared::cta.b64 _, [x], {_BOX};",
                *self._copy_box(box, _LOAD, "x")]

    def _store(self) -> list[str]:
        buffers = self._buffers
        ahead = 2 if buffers > 1 else 1
        lines = []
        for box in range(self._boxes):
            free = ""
            lines.append(self._shared_sums.skip_unless_own(box, f"STORED{box}"))
            if self.keeps:
                phase, old = "oldphase", f"[olds+{8 * (box % buffers)}]"
                if self._boxes > buffers:  # the first of a buffer, also where it is the second and another block's
                    phase = "y"
                    lines.append(f"selp.u32 y, 0, {box // buffers}, shared;")
                lines.append(f"OLD{box}: mbarrier.try_wait.parity.shared::cta.b64 q, {old}, {phase}; @!q bra OLD{box};")
            elif buffers == 1:
                lines.append(f"@one cp.async.bulk.wait_group.read 0; {self._synchronize}")
            else:  # the next box goes where the oldest one leaves
                free = f"@one cp.async.bulk.wait_group.read {buffers - 2};"
            lines += [
                *self._fill(box), f"fence.proxy.async.shared::cta; {free} {self._synchronize}",
                f"@!one bra STORED{box};", *self._copy_box(box, _STORE), "cp.async.bulk.commit_group;",
            ]
            if self.keeps and buffers <= box + ahead < self._boxes:
                lines += [f"@shared bra STORED{box}; cp.async.bulk.wait_group.read {buffers - ahead};",
                          *self._fetch(box + ahead)]
            lines.append(f"STORED{box}:")
        if self.keeps and self._boxes == buffers:
            lines.append("xor.b32 oldphase, oldphase, 1;")
        return lines

    def _fill(self, box: int) -> list[str]:
        """Put a thread's sums into a box: blocks of 16 rows, a quarter of the columns after another."""
        blocks = BOX_ROWS * 32 // self._group_threads // 16
        columns = self.box_columns // 8
        lines = []
        for block in range(blocks):
            offset = box % self._buffers * _BOX + 16 * block * SWIZZLE
            for quarter in range(4):
                first = 4 * (block * self._group_columns // 8 + columns * box + columns // 4 * quarter)
                lines += (self._narrow if self._is_narrow else self._wide)(first, quarter, offset)
        return lines

    def _finish(self, element: str, old: str) -> str:
        scaled = f"mul.f32 {element}, {element}, $5;" if self.scales else ""
        return f"{scaled} fma.rn.f32 {element}, $6, {old}, {element};" if self.keeps else scaled

    def _pairs(self, first: int, quarter: int, offset: int) -> list[tuple[list[str], tuple[int, int], str]]:
        """Return for each of two pairs of sums of f32 what finds its place, the sums, and the place.

        They are eight rows apart.
        """
        return [([], (first, first + 1), f"at{quarter}+{offset}"),
                ([], (first + 2, first + 3), f"at{quarter}+{offset + 8 * SWIZZLE}")]

    def _wide(self, first: int, quarter: int, offset: int) -> list[str]:
        """Store eight columns of f32: two pairs of each thread."""
        lines = []
        for find, sums, address in self._pairs(first, quarter, offset):
            pair, here = [f"d{i}" for i in sums], f"[{address}]"
            lines += find
            if self.keeps:
                lines.append(f"ld.shared.v2.f32 {{o0, o1}}, {here};")
            lines += [self._finish(one, old) for one, old in zip(pair, ("o0", "o1"), strict=True)]
            lines.append(f"st.shared.v2.f32 {here}, {{{', '.join(pair)}}};")
        return lines

    def _narrow(self, first: int, quarter: int, offset: int) -> list[str]:
        """Store sixteen columns of 16 bits: four matrices of 8 x 8."""
        matrices, here = "{w0, w1, w2, w3}", f"[at{quarter}+{offset}]"
        lines = [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {matrices}, {here};"] if self.keeps else []
        for word in range(4):
            low, high = f"d{first + 2 * word}", f"d{first + 2 * word + 1}"
            if self.keeps and self.result == "bf16":
                lines.append(f"shl.b32 x, w{word}, 16; mov.b32 o0, x; and.b32 x, w{word}, 0xffff0000; mov.b32 o1, x;")
            elif self.keeps:
                lines.append(f"mov.b32 {{h0, h1}}, w{word}; cvt.f32.f16 o0, h0; cvt.f32.f16 o1, h1;")
            lines += [self._finish(low, "o0"), self._finish(high, "o1")]
            lines.append(f"cvt.rn.{self.result}x2.f32 w{word}, {high}, {low};")
        return [*lines, f"stmatrix.sync.aligned.m8n8.x4.shared.b16 {here}, {matrices};"]
