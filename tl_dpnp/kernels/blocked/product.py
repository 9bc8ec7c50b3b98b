"""Large products whose operands threads copy: any sizes, transposes, strides, addresses, alpha and beta.

Blocks stay and compute one tile of a result after another.  All threads of a block copy panels of both operands to a
ring of stages in shared memory, asynchronously, while earlier ones are multiplied, and store their sums themselves.
The copies of a tile begin before the sums of the one before are stored.  The first panel of a sum is the one that is
not full, so that the loop over the others needs no bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llvmlite import ir

from tl_dpnp.kernels.blocked.copies import Consecutive, Panel
from tl_dpnp.kernels.blocked.multiply import WarpTile
from tl_dpnp.kernels.llvm import I32, Intrinsic
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.kernels.targets.nvvm import asm
from tl_dpnp.scalars import F32, F64, INDEX

__all__ = ["BlockedProduct"]

#: Rows of tiles that are computed column by column, so that blocks at the same time share operands in the L2 cache.
_BAND = 8

_REGISTERS = """{
.reg .pred p, q, more, again, keep, present, stored;
.reg .b32 thread, lane, warp, base, read, write, fa, fb, fa0, fb0, tile, tiles, each, band, blocks, rows, columns;
.reg .b32 m, n, steps, step, left, first, tm, tn, tg, om, on, og, er, ec, eg, ek, x, y, z;
.reg .b64 w, dp, dc, dr;"""


@dataclass(frozen=True)
class BlockedProduct:
    """D := alpha L R + beta D for matrices L (m x k), R (k x n) and D (m x n) of f32 or f64.

    A tile has `rows` x `columns` elements, of which each warp computes a `warp_tile`, and panels are `depth` deep;
    `stages` of them have room.  `consecutive` says what goes along memory in L and in R; D has consecutive rows if
    `rows_consecutive`.
    """

    rows: int
    columns: int
    warp_tile: WarpTile
    depth: int
    stages: int
    consecutive: tuple[Consecutive, Consecutive]
    rows_consecutive: bool

    def __str__(self) -> str:
        return f"tiles of {self.rows} x {self.columns}, {self.stages} stages of {self._stage} bytes"

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.rows // self.warp_tile.rows * (self.columns // self.warp_tile.columns)

    @property
    def panels(self) -> tuple[Panel, Panel]:
        """The panels of a stage, of L and of R."""
        tile, depth = self.warp_tile, self.depth
        left, right = (
            Panel(name, operand, extent, depth, tile.size, consecutive, tile.pitches(consecutive, extent, depth),
                  32 * self.warps, tile.lanes(consecutive))
            for name, operand, extent, consecutive in zip(
                ("l", "r"), (7, 11), (self.rows, self.columns), self.consecutive, strict=True))
        return left, right

    @property
    def _stage(self) -> int:
        return sum(panel.bytes for panel in self.panels)

    @property
    def used_memory(self) -> int:
        """Bytes of shared memory of a block."""
        return self.stages * self._stage

    @property
    def _element(self) -> str:
        return f"f{8 * self.warp_tile.size}"

    def intrinsic(self) -> Intrinsic:
        """``blocked_product_rows_columns(m, n, k, products, keeps, alpha, beta, L, R, D)``.

        L, R and D have four numbers each: address, and bytes between neighbours along the side and the sum, of D along
        rows and columns, and between matrices of the batch.  D is read if `keeps` is not 0.
        """
        letter, factor = ("f", F32) if self._element == "f32" else ("d", F64)

        def emit(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
            shared = b.ptrtoint(target_of(b).local_memory(b, self.used_memory), I32)
            constraints = ",".join(["l"] * 5 + [letter] * 2 + ["l"] * 12 + ["r", "~{memory}"])
            asm(b, self.text, constraints, ir.VoidType(), [*arguments, shared])

        types = (*(INDEX,) * 5, factor, factor, *(INDEX,) * 12)
        return Intrinsic(f"blocked_product_{self.rows}_{self.columns}", types, None, emit)

    # --- the text ----------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The body of the kernel as inline PTX."""
        return "\n".join([
            _REGISTERS, *(panel.registers for panel in self.panels), self.warp_tile.registers,
            f".reg .{self._element} o, v;", *self._prepare(), "bra BEGIN;", *self._multiply(),
            "mov.u32 om, tm; mov.u32 on, tn; mov.u32 og, tg; add.u32 tile, tile, blocks;", *self._begin(),
            *self._store(), "CLEAR: setp.ge.u32 p, tile, tiles; @p bra DONE;", *self._clear(), "bra TILE;", "DONE: }",
        ])

    def _prepare(self) -> list[str]:
        """Find numbers of the call, and this thread's places."""
        left, right = self.panels
        tile, warp_rows = self.warp_tile, self.rows // self.warp_tile.rows
        return [
            "mov.u32 x, %tid.x; mov.u32 y, %tid.y; mad.lo.u32 thread, y, 32, x; mov.u32 lane, x; mov.u32 warp, y;",
            "mov.u32 base, $19; cvt.u32.u64 m, $0; cvt.u32.u64 n, $1; cvt.u32.u64 x, $2; cvt.u32.u64 tiles, $3;",
            "setp.ne.s64 keep, $4, 0; setp.ne.s64 stored, 0, 0;",
            # The panels of a sum, at least one, and the depth of the first.
            f"add.u32 steps, x, {self.depth - 1}; div.u32 steps, steps, {self.depth}; max.u32 steps, steps, 1;",
            f"sub.u32 y, steps, 1; mul.lo.u32 y, y, {self.depth}; sub.u32 first, x, y;",
            f"add.u32 rows, m, {self.rows - 1}; div.u32 rows, rows, {self.rows};",
            f"add.u32 columns, n, {self.columns - 1}; div.u32 columns, columns, {self.columns};",
            f"mul.lo.u32 each, rows, columns; mul.lo.u32 tiles, tiles, each; mul.lo.u32 band, columns, {_BAND};",
            "mov.u32 tile, %ctaid.x; mov.u32 blocks, %nctaid.x;",
            *left.prepare("base"), f"add.u32 x, base, {left.bytes};", *right.prepare("x"),
            *tile.place(),
            f"rem.u32 x, warp, {warp_rows}; mad.lo.u32 er, x, {tile.rows}, er;",
            f"div.u32 y, warp, {warp_rows}; mul.lo.u32 y, y, {tile.columns};",
            f"mad.lo.u32 fa0, er, {left.pitches[0]}, base; mad.lo.u32 fa0, ek, {left.pitches[1]}, fa0;",
            # A thread's column of R is its column of D, but on tensor cores.
            *self._right_place("y", right), "add.u32 ec, ec, y;",
        ]

    def _right_place(self, start: str, right: Panel) -> list[str]:
        lines = [f"add.u32 x, {start}, {self.warp_tile.right_column};",
                 f"add.u32 z, base, {self.panels[0].bytes};"]
        return [*lines, f"mad.lo.u32 fb0, x, {right.pitches[0]}, z; mad.lo.u32 fb0, ek, {right.pitches[1]}, fb0;"]

    def _begin(self) -> list[str]:
        """Find a tile, if there is one, and let its first panels come."""
        left, right = self.panels
        lines = [
            "BEGIN: setp.ge.u32 p, tile, tiles; @p bra STORE;",
            "div.u32 tg, tile, each; mul.lo.u32 x, tg, each; sub.u32 x, tile, x;",
            f"div.u32 y, x, band; mul.lo.u32 tm, y, {_BAND}; sub.u32 z, rows, tm; min.u32 z, z, {_BAND};",
            "mul.lo.u32 y, y, band; sub.u32 x, x, y; rem.u32 y, x, z; div.u32 tn, x, z; add.u32 tm, tm, y;",
            f"mul.lo.u32 tm, tm, {self.rows}; mul.lo.u32 tn, tn, {self.columns};",
            *left.begin("tm", "m", "tg"), *right.begin("tn", "n", "tg"), "mov.u32 read, 0; mov.u32 write, 0;",
        ]
        for stage in range(self.stages - 1):
            lines += self._to_stage()
            condition = ""
            if stage > 0:
                condition = "@more"
                lines.append(f"setp.gt.u32 more, steps, {stage};")
            for panel in self.panels:
                lines += panel.copies(condition, is_first=stage == 0)
                lines += panel.to_next() if stage else panel.to_second()
            lines += ["cp.async.commit_group;", *self._advance("write")]
        return lines

    def _to_stage(self) -> list[str]:
        return [f"add.u32 {panel.name}w, {panel.name}w0, write;" for panel in self.panels]

    def _advance(self, name: str) -> list[str]:
        return [f"add.u32 {name}, {name}, {self._stage}; setp.eq.u32 p, {name}, {self.used_memory}; "
                f"@p mov.u32 {name}, 0;"]

    def _arrived(self) -> list[str]:
        """Wait for the panels that are multiplied next, and until all threads have read those before."""
        return [f"cp.async.wait_group {self.stages - 2}; bar.sync 0; add.u32 fa, fa0, read; add.u32 fb, fb0, read;"]

    def _multiply(self) -> list[str]:
        """Multiply the panels of a tile."""
        left, right = self.panels
        tile, groups = self.warp_tile, self.depth // self.warp_tile.k
        assert groups % 2 == 0
        pitches = left.pitches, right.pitches
        copies = [line for panel in self.panels for line in panel.copies("@more")]
        lines = [
            f"TILE: mov.u32 step, steps; sub.s32 left, steps, {self.stages - 1};",
            *self._arrived(), *tile.load(0, 0, *pitches, ""),
            "STEP: setp.gt.s32 more, left, 0; setp.gt.u32 again, step, 1;", *self._to_stage(),
        ]
        for group in range(groups):
            last = group == groups - 1
            if last:
                lines += ["cp.async.commit_group;", *self._advance("read"), *self._arrived()]
            lines += tile.load((group + 1) % groups, (group + 1) % 2, *pitches, "@again" if last else "")
            own = [] if last else copies[group * len(copies) // (groups - 1) : (group + 1) * len(copies) // (groups - 1)]
            lines += _mixed(tile.multiply(group % 2), own)
        return [*lines, *self._advance("write"), *left.to_next(), *right.to_next(),
                "sub.s32 left, left, 1; sub.u32 step, step, 1; @again bra STEP;", "setp.eq.s64 stored, 0, 0;"]

    def _clear(self) -> list[str]:
        zero = "0f00000000" if self._element == "f32" else "0d0000000000000000"
        return [f"mov.{self._element} d{i}, {zero};" for i in range(len(self.warp_tile.sums))]

    def _store(self) -> list[str]:
        """Store the sums of a tile, if there are any."""
        size, sums = self.warp_tile.size, self.warp_tile.sums
        lines = [
            "STORE: @!stored bra CLEAR;",
            "add.u32 om, om, er; add.u32 on, on, ec;",
            "cvt.u64.u32 w, om; mad.lo.s64 dp, w, $16, $15; cvt.u64.u32 w, on; mad.lo.s64 dp, w, $17, dp;",
            "cvt.u64.u32 w, og; mad.lo.s64 dp, w, $18, dp; sub.s32 om, m, om; sub.s32 on, n, on;",
        ]
        for column in sorted({column for _, column in sums}):
            lines.append(f"setp.le.s32 p, on, {column}; @p bra COLUMN{column}; "
                         f"mul.lo.s64 dc, $17, {column}; add.s64 dc, dc, dp;")
            for number, (row, own) in enumerate(sums):
                if own != column:
                    continue
                place = f"[dc+{row * size}]"
                if not self.rows_consecutive:
                    lines.append(f"mul.lo.s64 dr, $16, {row}; add.s64 dr, dr, dc;")
                    place = "[dr]"
                value = self._element
                lines += [
                    f"setp.gt.s32 present, om, {row}; setp.gt.and.s32 q, om, {row}, keep; "
                    f"mul.rn.{value} v, d{number}, $5;",
                    f"@q ld.global.{value} o, {place}; @q fma.rn.{value} v, $6, o, v; "
                    f"@present st.global.{value} {place}, v;",
                ]
            lines.append(f"COLUMN{column}:")
        return lines


def _mixed(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return lines with others evenly between them."""
    result = []
    for number, line in enumerate(lines):
        result.append(line)
        place = len(lines) - 1 - number
        result += others[number * len(others) // len(lines) : (number + 1) * len(others) // len(lines)] if place else (
            others[number * len(others) // len(lines) :])
    return result
