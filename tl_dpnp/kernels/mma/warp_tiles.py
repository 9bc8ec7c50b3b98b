"""Tiles by warps: each has 64 x 64 elements, and multiplies with ``mma.sync`` what ``ldmatrix`` brings to registers.

This is for devices with tensor maps and without ``wgmma``.  The first thread loads besides: a warp for that would take
registers which the sums need.
Source: PTX ISA 9.0, sections 9.7.14.5.14 (mma) and 9.7.14.5.15 (ldmatrix).
"""

from __future__ import annotations

from tl_dpnp.kernels.mma.moves import MatrixLoad
from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow
from tl_dpnp.kernels.mma.tile_product import BOX_ROWS, TileProduct
from tl_dpnp.kernels.mma.warpgroup import SWIZZLE

__all__ = ["WarpTiles"]

#: Columns of a warp's part; rows, columns and depth of what one load of four matrices brings.
_COLUMNS, _LOADED = 64, 16
_RELEASE = "bar.warp.sync 0xffffffff; @one mbarrier.arrive.shared::cta.b64 _, [empty];"


class WarpTiles(TileProduct):
    """See `TileProduct`; the sums of a thread are those of four blocks of 16 x 64 elements."""

    @property
    def row(self) -> MmaRow:
        return ROWS[f"m16n8k16_{self.element}_{self.element}_f32"]

    @property
    def _groups(self) -> int:
        return self._bands * self.columns // _COLUMNS

    @property
    def _bands(self) -> int:
        """Warps above one another."""
        return self.rows // BOX_ROWS

    @property
    def _group_threads(self) -> int:
        return LANES

    @property
    def _group_columns(self) -> int:
        return _COLUMNS

    @property
    def _most_buffers(self) -> int:
        return 1

    @property
    def _registers(self) -> str:
        # Where a lane's rows of matrices are in the panels, in any stage and in the present one; matrices of L and R;
        # what is to be loaded next.
        places = ", ".join(f"{name}<{self.depth // _LOADED}>" for name in ("pl", "pr", "sl", "sr"))
        return (f".reg .f32 d<{BOX_ROWS * _COLUMNS // LANES}>; .reg .b32 {places}, a<16>, b<16>; "
                ".reg .b32 ltile, lstep, lstage, lphase, lm, ln, lg, count;")

    @property
    def warps(self) -> int:
        return self._groups

    @property
    def together(self) -> tuple[int, ...]:
        return ()

    @property
    def _synchronize(self) -> str:
        return "bar.warp.sync 0xffffffff;"

    def _prepare(self) -> list[str]:
        left, right = self.panels
        lines = [
            f"and.b32 x, thread, {LANES - 1}; setp.eq.u32 one, x, 0;",
            f"rem.u32 cm, group, {self._bands}; mul.lo.u32 cm, cm, {BOX_ROWS};",
            f"div.u32 cn, group, {self._bands}; mul.lo.u32 cn, cn, {_COLUMNS};",
        ]
        # A load gives matrices in the order of the fragments: those of L go down the rows first, of R along k.
        for name, panel, part, rows_first in (("pl", left, "cm", True), ("pr", right, "cn", False)):
            line, chunk = "and.b32 y, x, 15;", "shr.u32 z, x, 4;"
            if rows_first != panel.along_k:
                line = "and.b32 y, x, 7; shr.u32 z, x, 4; mad.lo.u32 y, z, 8, y;"
                chunk = "shr.u32 z, x, 3; and.b32 z, z, 1;"
            lines.append(f"{line} mul.lo.u32 y, y, {SWIZZLE}; mad.lo.u32 y, {part}, {SWIZZLE}, y; {chunk}")
            if panel is right:
                lines.append(f"add.u32 y, y, {left.bytes};")
            for number in range(self.depth // _LOADED):
                lines.append(f"add.u32 w0, z, {2 * number}; and.b32 w1, x, 7; xor.b32 w0, w0, w1; "
                             f"mad.lo.u32 {name}{number}, w0, 16, y;")
        return [*lines, "mov.u32 y, 0;"]

    def _start(self) -> list[str]:
        return ["mov.u32 ltile, tile; mov.u32 lstep, 0; mov.u32 lstage, 0; mov.u32 lphase, 0; mov.u32 count, 1;",
                "FIRST:", *self._bring_next("BEGUN"),
                f"add.u32 count, count, 1; setp.lt.u32 p, count, {self.stages}; @p bra FIRST;"]

    def _bring_next(self, label: str) -> list[str]:
        """Let the first thread bring the panels of the next step, if there is one."""
        return [
            f"setp.ne.u32 p, thread, 0; @p bra {label}; setp.ge.u32 p, ltile, tiles; @p bra {label};",
            f"setp.ne.u32 p, lstep, 0; @p bra {label}TILE;", *self._position("l"), f"{label}TILE:", *self._bring("l"),
            f"add.u32 lstep, lstep, 1; setp.lt.u32 p, lstep, steps; @p bra {label};",
            f"mov.u32 lstep, 0; add.u32 ltile, ltile, blocks; {label}:",
        ]

    def _consume(self, meanwhile: list[str]) -> list[str]:
        left, right = self.panels
        lines = [f"add.u32 s{side}{number}, left, p{side}{number};"
                 for side in "lr" for number in range(self.depth // _LOADED)]
        lines += self._bring_next("NEXT")
        steps = range(self.depth // self.row.k)
        for step in steps:
            lines += self._loads("a", "sl", step, left.along_k)
            lines += self._loads("b", "sr", step, right.along_k)
            if step == steps[-1]:
                lines += [*meanwhile, _RELEASE]
            for i in range(BOX_ROWS // self.row.m):
                a = ", ".join(f"a{4 * i + word}" for word in range(4))
                for j in range(_COLUMNS // self.row.n):
                    b = ", ".join(f"b{2 * j + word}" for word in range(2))
                    first = 4 * (i * _COLUMNS // self.row.n + j)
                    sums = ", ".join(f"d{first + word}" for word in range(4))
                    lines.append(f"{self.row.instruction} {{{sums}}}, {{{a}}}, {{{b}}}, {{{sums}}};")
        return lines

    def _loads(self, name: str, place: str, step: int, along_k: bool) -> list[str]:
        """Load the matrices of a step along k: blocks of 16 rows of L, or of 16 columns of R."""
        load = MatrixLoad(4, transposed=not along_k)
        lines = []
        for block in range(BOX_ROWS // _LOADED):
            number, line = (step, block) if along_k else (block, step)
            words = ", ".join(f"{name}{4 * block + word}" for word in range(4))
            lines.append(f"{load.instruction} {{{words}}}, [{place}{number}+{line * _LOADED * SWIZZLE}];")
        return lines

    def _finish_products(self) -> list[str]:
        return []
