"""Tiles by warpgroups: each, with 64 rows, multiplies with ``wgmma`` from shared memory, and one more warp loads.

Source: PTX ISA 9.0, section 9.7.15.
"""

from __future__ import annotations

from tl_dpnp.kernels.mma.tile_product import BOX_ROWS, TileProduct
from tl_dpnp.kernels.mma.warpgroup import THREADS, WarpgroupRow, multiplied, warpgroup_row

__all__ = ["WarpgroupTiles"]


class WarpgroupTiles(TileProduct):
    """See `TileProduct`; the sums of a thread are those of one block of 16 rows and all columns."""

    @property
    def row(self) -> WarpgroupRow:
        return warpgroup_row(self.element, self.columns)

    @property
    def _groups(self) -> int:
        return self.rows // BOX_ROWS

    @property
    def _group_threads(self) -> int:
        return THREADS

    @property
    def _group_columns(self) -> int:
        return self.columns

    @property
    def _most_buffers(self) -> int:
        return 4

    @property
    def _registers(self) -> str:
        return f".reg .f32 d<{self.row.words}>; .reg .b64 da, db, ha, hb;"

    @property
    def warps(self) -> int:
        return self._loader // 32 + 1

    @property
    def _loader(self) -> int:
        """The thread that loads."""
        return self._groups * THREADS

    @property
    def together(self) -> tuple[int, ...]:
        return (2,)

    @property
    def _synchronize(self) -> str:
        return f"add.u32 x, group, 1; bar.sync x, {THREADS};"

    def _prepare(self) -> list[str]:
        left, right = self.panels
        return [
            f"mov.b64 ha, {left.descriptor:#x}; mov.b64 hb, {right.descriptor:#x};",
            f"and.b32 x, thread, {THREADS - 1}; setp.eq.u32 one, x, 0;",
            f"mul.lo.u32 cm, group, {BOX_ROWS}; mov.u32 cn, 0;",
            "shr.u32 y, thread, 5; and.b32 y, y, 3; shl.b32 y, y, 4;",
        ]

    def _start(self) -> list[str]:
        return [f"setp.ge.u32 p, thread, {self._loader}; @p bra LOADER;"]

    def _load(self) -> list[str]:
        return [f"LOADER: setp.ne.u32 p, thread, {self._loader}; @p bra LOADED;",
                "NEXT: setp.ge.u32 p, tile, tiles; @p bra LAST_STAGES;", *self._position(), "mov.u32 step, 0;",
                "PANELS:", *self._bring(), "add.u32 step, step, 1; setp.lt.u32 p, step, steps; @p bra PANELS;",
                "add.u32 tile, tile, blocks; bra NEXT; LAST_STAGES: @!paired bra LOADED; mov.u32 step, 0;",
                # A block must not end before the other one has said that its last stages are empty.
                "STAGES:", *self._wait_for_stage(), "}", *self._next_stage(),
                f"add.u32 step, step, 1; setp.lt.u32 p, step, {self.stages}; @p bra STAGES;",
                "LOADED: @shared barrier.cluster.wait;"]

    def _consume(self, meanwhile: list[str]) -> list[str]:
        left, right = self.panels
        return [
            f"add.u32 right, left, {left.bytes}; mad.lo.u32 left, group, {left.offset(BOX_ROWS, 0)}, left;",
            # In clusters, addresses of shared memory have bits that are no part of those in descriptors.
            "bfe.u32 left, left, 4, 14; bfe.u32 right, right, 4, 14;",
            "cvt.u64.u32 da, left; cvt.u64.u32 db, right; or.b64 da, da, ha; or.b64 db, db, hb;",
            "wgmma.fence.sync.aligned;", *multiplied(self.row, left, right, self.depth),
            "wgmma.commit_group.sync.aligned;", *meanwhile,
            # The instructions before these have read their stage: it may be filled again.
            "wgmma.wait_group.sync.aligned 1;",
            f"setp.eq.u32 p, step, 0; @p bra KEPT; @!one bra KEPT; {_release('KEPT')} KEPT: mov.u32 used, empty;",
        ]

    def _finish_products(self) -> list[str]:
        return ["wgmma.wait_group.sync.aligned 0;", f"@!one bra LAST; {_release('LAST')} LAST:"]


def _release(label: str) -> str:
    """Say that a stage is empty, also to the block that brings half of it, and go on at a label."""
    return (f"mbarrier.arrive.shared::cta.b64 _, [used]; @!paired bra {label}; mapa.shared::cluster.u32 x, used, peer; "
            "mbarrier.arrive.shared::cluster.b64 _, [x];")
