"""Tiles by ``cp.async``: all threads of a block copy panels to a ring of stages, multiply them, and store.

The copies of a tile begin before the sums of the one before are stored.  The first panel of a sum is the one that is
not full, so that the loop over the others needs no bounds.

Where D := L R + D, the sums of ``mma.sync`` begin with D: all its elements of a thread are on their way at once, to
registers that there are anyway, while panels are waited for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tl_dpnp.kernels.blocked.complex_epilogue import ComplexEpilogue
from tl_dpnp.kernels.blocked.copies import Panel
from tl_dpnp.kernels.blocked.epilogue import Epilogue
from tl_dpnp.kernels.blocked.multiply import WarpTile
from tl_dpnp.kernels.blocked.product import LEFT, RIGHT, BlockedProduct
from tl_dpnp.records import dataclass

__all__ = ["MultistageProduct"]

#: Copies that threads start together, at least, where there are steps to spare: if one comes behind loads from shared
#: memory, the assembler puts three empty instructions in front of it.
_TOGETHER = 3
#: After how many steps copies are started, at least.  With two of three, the assembler (CUDA 13.0 and 13.5) moved the
#: last products of a panel of f64 tiles of 32 x 16 behind the barrier, next to the first ones of the following panel,
#: which do not wait for their sums: results were wrong.
_PLACES = 3
_REGISTERS = ".reg .b32 read, write, fa, fb, fa0, fb0, left, eg, ek;"


@dataclass(frozen=True)
class MultistageProduct(BlockedProduct):
    """See `BlockedProduct`; operands and results are of one type, f32, f64, c32 or c64.

    Each warp computes a `warp_tile`; panels are `panel_depth` deep, and `stages` of them have room.  Up to `old`
    elements of D, fewer of those that are larger than f32, are on their way to a thread at a time.  With `accumulates`,
    alpha and beta are known to be 1, with `real_factors` to be real.
    """

    warp_tile: WarpTile
    panel_depth: int
    stages: int
    old: int = 32
    accumulates: bool = False
    real_factors: bool = True

    def __str__(self) -> str:
        return f"tiles of {self.rows} x {self.columns}, {self.stages} stages of {self._stage} bytes"

    @property
    def depth(self) -> int:
        return self.panel_depth

    @property
    def warps(self) -> int:
        return self.rows // self.warp_tile.rows * (self.columns // self.warp_tile.columns)

    @property
    def sums(self) -> list[tuple[int, int]]:
        return self.warp_tile.sums

    @property
    def panels(self) -> tuple[Panel, Panel]:
        """The panels of a stage, of L and of R."""
        tile, depth = self.warp_tile, self.depth
        left, right = (
            Panel(name, operand, extent, depth, tile.size, consecutive, tile.pitches(consecutive, extent, depth),
                  32 * self.warps, tile.lanes(consecutive))
            for name, operand, extent, consecutive in zip(
                ("l", "r"), (LEFT, RIGHT), (self.rows, self.columns), self.consecutive, strict=True))
        return left, right

    @property
    def _stage(self) -> int:
        return sum(panel.bytes for panel in self.panels)

    @property
    def used_memory(self) -> int:
        size = len(self.sums) * 32 * self.warps * self.warp_tile.size
        return max(self.stages * self._stage, size if self.has_clusters else 0)

    @property
    def _begins_with_old(self) -> bool:
        """Whether sums begin with D: lanes whose sums are in vectors along rows would load what is far apart."""
        return self.accumulates and self.warp_tile.vector == 1

    @property
    def epilogue(self) -> Epilogue:
        """Each warp has a part of the stage that no panel comes to before all sums are stored."""
        tile = self.warp_tile
        old = 0 if self._begins_with_old else self.old * 4 // tile.size
        kind: Callable[..., Epilogue] = Epilogue
        if self._is_complex:
            kind = functools.partial(ComplexEpilogue, real_factors=self.real_factors)
        return kind(
            tile.rows, tuple(self.sums), tile.vector, tile.first_columns, self._column_groups, 1,
            self._stage // self.warps // 16 * 16, 1, "bar.warp.sync 0xffffffff;", self._sum, self.result,
            self.rows_consecutive, self.has_clusters, old)

    @property
    def _body(self) -> list[str]:
        return [
            _REGISTERS, *(panel.registers for panel in self.panels), self.warp_tile.registers, *self._prepare(),
            "setp.ne.u32 stored, x, x; bra BEGIN;", *self._multiply(),
            *self._reduce(32 * self.warps, "bar.sync 0;"),
            "mov.u32 om, tm; mov.u32 on, tn; mov.u32 og, tg; add.u32 tile, tile, blocks;", *self._begin(),
            "STORE: @!stored bra CLEAR;", *self._store(),
            "CLEAR: setp.ge.u32 p, tile, tiles; @p bra DONE;", *self._clear(),
            *(self._load_old() if self._begins_with_old else []), "bra TILE;",
        ]

    def _prepare(self) -> list[str]:
        """Find this thread's places."""
        left, right = self.panels
        tile, warp_rows = self.warp_tile, self.rows // self.warp_tile.rows
        return [
            "mov.u32 base, $19;",
            # Parts of a sum but the first begin behind the panel that is not full.
            f"sub.u32 start, begin, 1; mad.lo.u32 start, start, {self.depth}, first; setp.eq.u32 p, begin, 0; "
            f"@p mov.u32 start, 0; @!p mov.u32 first, {self.depth};",
            *left.prepare("base"), f"add.u32 x, base, {left.bytes};", *right.prepare("x"),
            *tile.place(),
            f"rem.u32 x, warp, {warp_rows}; mad.lo.u32 er, x, {tile.rows}, er;",
            f"div.u32 y, warp, {warp_rows}; mul.lo.u32 y, y, {tile.columns};",
            f"mad.lo.u32 fa0, er, {left.pitches[0]}, base; mad.lo.u32 fa0, ek, {left.pitches[1]}, fa0;",
            f"add.u32 x, y, {tile.right_column}; add.u32 z, base, {left.bytes};",
            f"mad.lo.u32 fb0, x, {right.pitches[0]}, z; mad.lo.u32 fb0, ek, {right.pitches[1]}, fb0;",
            "add.u32 ec, ec, y;",
        ]

    def _begin(self) -> list[str]:
        """Find a tile, if there is one, and let its first panels come."""
        left, right = self.panels
        lines = ["BEGIN: setp.ge.u32 p, tile, tiles; @p bra STORE;", *self._position(),
                 *left.begin("tm", "m", "tg"), *right.begin("tn", "n", "tg"), "mov.u32 read, 0; mov.u32 write, 0;"]
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
        return lines + self._fetch_old("thread", 32 * self.warps)

    def _store(self) -> list[str]:
        """Store the sums of the tile that starts at row om and column on of matrix og."""
        tile, warp_rows = self.warp_tile, self.rows // self.warp_tile.rows
        return [
            *tile.place(), f"rem.u32 x, warp, {warp_rows}; mad.lo.u32 om, x, {tile.rows}, om;",
            f"div.u32 x, warp, {warp_rows}; mad.lo.u32 on, x, {tile.columns}, on;",
            f"add.u32 buffer, base, {(self.stages - 1) * self._stage}; "
            f"mad.lo.u32 buffer, warp, {self.epilogue.memory}, buffer;",
            *self.epilogue.store()]

    def _load_old(self) -> list[str]:
        """Load what sums begin with; of blocks that share a sum only the first one does."""
        tile, warp_rows = self.warp_tile, self.rows // self.warp_tile.rows
        lines = [
            *(["setp.ne.u32 p, rank, 0; @p bra TILE;"] if self.has_clusters else []),
            *tile.place(), f"rem.u32 x, warp, {warp_rows}; mad.lo.u32 er, x, {tile.rows}, er; add.u32 er, er, tm;",
            f"div.u32 x, warp, {warp_rows}; mad.lo.u32 ec, x, {tile.columns}, ec; add.u32 ec, ec, tn;",
            "cvt.u64.u32 w, er; mad.lo.s64 dp, w, $16, $15; cvt.u64.u32 w, ec; mad.lo.s64 dp, w, $17, dp;",
            "cvt.u64.u32 w, tg; mad.lo.s64 dp, w, $18, dp; sub.s32 x, m, er; sub.s32 y, n, ec;",
        ]
        for column in sorted({column for _, column in self.sums}):
            lines.append(f"setp.gt.s32 present, y, {column}; mul.lo.s64 dc, $17, {column}; add.s64 dc, dc, dp;")
            for number, (row, other) in enumerate(self.sums):
                if other == column:
                    place = f"[dc+{row * tile.size}]"
                    if not self.rows_consecutive:
                        lines.append(f"mul.lo.s64 dr, $16, {row}; add.s64 dr, dr, dc;")
                        place = "[dr]"
                    load = (f"ld.global.v2.{self._sum} {{d{2 * number}, d{2 * number + 1}}}" if self._is_complex
                            else f"ld.global.{self._sum} d{number}")
                    lines.append(f"setp.gt.and.s32 q, x, {row}, present; @q {load}, {place};")
        return lines

    def _to_stage(self) -> list[str]:
        return [f"add.u32 {panel.name}w, {panel.name}w0, write;" for panel in self.panels]

    def _advance(self, name: str) -> list[str]:
        return [f"add.u32 {name}, {name}, {self._stage}; setp.eq.u32 p, {name}, {self.stages * self._stage}; "
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
        copies = _in_turn([line for panel in self.panels for line in panel.copies("@more")], groups - 1)
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
            lines += _mixed(tile.multiply(group % 2), [] if last else copies[group])
        return [*lines, *self._advance("write"), *left.to_next(), *right.to_next(),
                "sub.s32 left, left, 1; sub.u32 step, step, 1; @again bra STEP;", "setp.eq.u32 stored, x, x;"]


def _in_turn(lines: Sequence[str], places: int) -> list[list[str]]:
    """Return which of some lines stand at each of so many places: several where there are more places than needed."""
    result: list[list[str]] = [[] for _ in range(places)]
    parts = min(places, max(_PLACES, -(-len(lines) // _TOGETHER)))
    for part in range(parts):
        first, end = (number * len(lines) // parts for number in (part, part + 1))
        result[part * places // parts] = list(lines[first:end])
    return result


def _mixed(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return lines with others evenly between them."""
    result = []
    for number, line in enumerate(lines):
        result.append(line)
        place = len(lines) - 1 - number
        result += others[number * len(others) // len(lines) : (number + 1) * len(others) // len(lines)] if place else (
            others[number * len(others) // len(lines) :])
    return result
