"""Large products whose operands threads copy: any sizes, transposes, strides, addresses, alpha and beta.

Blocks stay and compute one tile of a result after another.  `multistage` and `warpgroups` have the two ways to copy and
to multiply, and `epilogue` the way of the sums to the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.blocked.copies import Consecutive
from tl_dpnp.kernels.blocked.epilogue import Epilogue
from tl_dpnp.kernels.llvm import I32, Intrinsic
from tl_dpnp.kernels.mma.cluster_shares import own_share
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.kernels.targets.nvvm import asm
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32, F64, INDEX

__all__ = ["LEFT", "RIGHT", "BlockedProduct"]

#: The first of the four operands of the assembly for L and for R.
LEFT, RIGHT = 7, 11
#: Rows of tiles that are computed column by column, so that blocks at the same time share operands in the L2 cache.
_BAND = 8
#: Sums of a thread that follow one another and are added up by the same block of a cluster.
_TOGETHER = 4
#: Bytes of a line of the L2 cache.
_LINE = 128
#: Types whose sums are f64.
_DOUBLES = ("f64", "c64")
#: Bytes of elements of other sizes than 2.
_SIZES = {"f32": 4, "f64": 8, "c32": 8, "c64": 16}

_REGISTERS = """{
.reg .pred p, q, more, again, keep, stored;
.reg .b32 thread, lane, warp, base, tile, tiles, each, band, blocks, rows, columns;
.reg .b32 m, n, k, steps, step, first, parts, rank, begin, start, low, high, tm, tn, tg, om, on, og, er, ec, x, y, z;
.reg .b64 w;"""


@dataclass(frozen=True)
class BlockedProduct(ABC):
    """D := alpha L R + beta D for matrices L (m x k), R (k x n) and D (m x n).

    A tile has `rows` x `columns` elements.  `consecutive` says what goes along memory in L and in R; D, of the type
    `result`, has consecutive rows if `rows_consecutive`.  Where the device `has_clusters`, the blocks of a cluster
    share a tile: each computes a part of the sum, and they add these up through their shared memory.

    Of complex numbers each sum has two registers, those of its parts, and alpha and beta have two numbers each.
    """

    rows: int
    columns: int
    consecutive: tuple[Consecutive, Consecutive]
    result: str
    rows_consecutive: bool
    has_clusters: bool

    @property
    @abstractmethod
    def warps(self) -> int:
        """Warps of a block."""

    @property
    @abstractmethod
    def used_memory(self) -> int:
        """Bytes of shared memory of a block."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """Depth of a panel."""

    @property
    @abstractmethod
    def sums(self) -> list[tuple[int, int]]:
        """Row and column of each sum, d0 and so on, of a thread, from its first on, er and ec."""

    @property
    @abstractmethod
    def epilogue(self) -> Epilogue:
        """How sums are stored."""

    @property
    @abstractmethod
    def _body(self) -> list[str]:
        """The text between the declarations of all and the end, DONE."""

    @property
    def _sum(self) -> str:
        return "f64" if self.result in _DOUBLES else "f32"

    @property
    def _is_complex(self) -> bool:
        return self.result in ("c32", "c64")

    @property
    def _registers_of_sums(self) -> list[tuple[int, int]]:
        """Row and column of what each register d0 and so on has a sum, or a part of it, of."""
        return [place for place in self.sums for _ in range(2 if self._is_complex else 1)]

    def intrinsic(self) -> Intrinsic:
        """``blocked_product_rows_columns(m, n, k, products, keeps, alpha, beta, L, R, D)``.

        L, R and D have four numbers each: address, and bytes between neighbours along the side and the sum, of D along
        rows and columns, and between matrices of the batch.  D is read if `keeps` is not 0.  The imaginary parts of
        alpha and beta, of complex numbers, are behind all others.
        """
        letter, factor = ("d", F64) if self._sum == "f64" else ("f", F32)
        others = 2 if self._is_complex else 0
        types = (*(INDEX,) * 5, factor, factor, *(INDEX,) * 12, *(factor,) * others)

        def emit(b: ir.IRBuilder, arguments: Sequence[ir.Value]) -> None:
            shared = b.ptrtoint(target_of(b).local_memory(b, self.used_memory), I32)
            letters = ["l"] * 5 + [letter] * 2 + ["l"] * 12
            constraints = ",".join([*letters, "r", *[letter] * others, "~{memory}"])
            count = len(letters)
            asm(b, self.text, constraints, ir.VoidType(), [*arguments[:count], shared, *arguments[count:]])

        return Intrinsic(f"blocked_product_{self.rows}_{self.columns}", types, None, emit)

    @property
    def text(self) -> str:
        """The body of the kernel as inline PTX."""
        others = f".reg .{self._sum} o, o<4>;"
        return "\n".join([_REGISTERS, others, self.epilogue.registers, *self._numbers(), *self._body, "DONE: }"])

    def _numbers(self) -> list[str]:
        """Find numbers of the call."""
        return [
            "mov.u32 lane, %tid.x; mov.u32 warp, %tid.y; mad.lo.u32 thread, warp, 32, lane;",
            "cvt.u32.u64 m, $0; cvt.u32.u64 n, $1; cvt.u32.u64 k, $2; cvt.u32.u64 tiles, $3;",
            "setp.ne.s64 keep, $4, 0;",
            # The panels of a sum, at least one, and the depth of the first if all others are full.
            f"add.u32 steps, k, {self.depth - 1}; div.u32 steps, steps, {self.depth}; max.u32 steps, steps, 1;",
            f"sub.u32 y, steps, 1; mul.lo.u32 y, y, {self.depth}; sub.u32 first, k, y;",
            *self._own_steps(),
            f"add.u32 rows, m, {self.rows - 1}; div.u32 rows, rows, {self.rows};",
            f"add.u32 columns, n, {self.columns - 1}; div.u32 columns, columns, {self.columns};",
            f"mul.lo.u32 each, rows, columns; mul.lo.u32 tiles, tiles, each; mul.lo.u32 band, columns, {_BAND};",
            "mov.u32 tile, %ctaid.x; mov.u32 blocks, %nctaid.x;",
            *(["div.u32 tile, tile, parts; div.u32 blocks, blocks, parts;"] if self.has_clusters else []),
        ]

    def _own_steps(self) -> list[str]:
        """Find the first and the number of the panels that are this block's."""
        if not self.has_clusters:
            return ["mov.u32 begin, 0;"]
        return ["mov.u32 parts, %cluster_nctaid.x; mov.u32 rank, %cluster_ctarank;",
                own_share("steps", "begin", "x"), "sub.u32 steps, x, begin;"]

    def _position(self) -> list[str]:
        """Find the first row and column of a tile, tm and tn, and its matrix of the batch, tg."""
        return [
            "div.u32 tg, tile, each; mul.lo.u32 x, tg, each; sub.u32 x, tile, x;",
            f"div.u32 y, x, band; mul.lo.u32 tm, y, {_BAND}; sub.u32 z, rows, tm; min.u32 z, z, {_BAND};",
            "mul.lo.u32 y, y, band; sub.u32 x, x, y; rem.u32 y, x, z; div.u32 tn, x, z; add.u32 tm, tm, y;",
            f"mul.lo.u32 tm, tm, {self.rows}; mul.lo.u32 tn, tn, {self.columns};",
        ]

    def _fetch_old(self, thread: str, threads: int) -> list[str]:
        """Let what is in D come to the L2 cache, if it is read when the tile at row tm and column tn is stored.

        Each of so many threads asks for lines of one column, if it has one.
        """
        if not self.rows_consecutive:
            return []
        size = _SIZES.get(self.result, 2)
        lines = [f"@!keep bra FETCHED; sub.s32 y, m, tm; min.s32 y, y, {self.rows}; cvt.u64.u32 w, tm; "
                 "mad.lo.s64 dr, w, $16, $15; cvt.u64.u32 w, tg; mad.lo.s64 dr, w, $18, dr;"]
        for first in range(0, self.columns, threads):
            lines += [
                f"add.u32 x, {thread}, {first}; setp.ge.u32 p, x, {self.columns}; add.u32 x, x, tn; "
                "setp.ge.or.u32 p, x, n, p; @p bra FETCHED; cvt.u64.u32 w, x; mad.lo.s64 dc, w, $17, dr;",
                *(f"setp.gt.s32 p, y, {row}; @p prefetch.global.L2 [dc+{row * size}];"
                  for row in range(0, self.rows, _LINE // size)),
                # The last element may be in one line more.
                "sub.s32 x, y, 1; cvt.s64.s32 w, x; mad.lo.s64 dc, w, $16, dc; prefetch.global.L2 [dc];",
            ]
        return [*lines, "FETCHED:"]

    def _clear(self) -> list[str]:
        zero = "0d0000000000000000" if self._sum == "f64" else "0f00000000"
        return [f"mov.{self._sum} d{i}, {zero};" for i in range(len(self._registers_of_sums))]

    @cached_property
    def _column_groups(self) -> tuple[tuple[int, ...], ...]:
        """The columns of a thread's sums, from left to right, those together whose sums move together."""
        groups: list[set[int]] = []
        for first in range(0, len(self.sums), _TOGETHER):
            own = {column for _, column in self.sums[first : first + _TOGETHER]}
            meeting = [group for group in groups if group & own]
            groups = [group for group in groups if not group & own] + [own.union(*meeting)]
        return tuple(sorted(tuple(sorted(group)) for group in groups))

    def _reduce(self, threads: int, synchronize: str) -> list[str]:
        """Add up the parts of the blocks of a cluster: each block has the sums of some columns in the end.

        Those are the columns of groups from number `low` to `high`.  `threads` threads have sums, which `synchronize`
        lets wait for one another.
        """
        if not self.has_clusters:
            return []
        size, count = _SIZES[self._sum], len(self._column_groups)
        width, places = 16 // size, self._registers_of_sums
        together = "barrier.cluster.arrive; barrier.cluster.wait;"
        others = "{" + ", ".join(f"o{i}" for i in range(width)) + "}"
        lines = [
            f"mov.u32 low, 0; mov.u32 high, {count}; setp.eq.u32 p, parts, 1; @p bra WHOLE;",
            own_share(count, "low", "high"),
            f"{synchronize} mad.lo.u32 x, thread, 16, base;",
        ]
        for first in range(0, len(places), width):
            words = ", ".join(f"d{first + i}" for i in range(width))
            lines.append(f"st.shared.v{width}.{self._sum} [x+{first * threads * size}], {{{words}}};")
        lines += [f"{together} mov.u32 z, 1;",
                  "PART: add.u32 y, rank, z; rem.u32 y, y, parts; mapa.shared::cluster.u32 y, x, y;"]
        for number, group in enumerate(self._column_groups):
            lines.append(f"setp.le.u32 p, low, {number}; setp.gt.and.u32 p, high, {number}, p;")
            for first in range(0, len(places), width):
                if places[first][1] in group:
                    lines.append(f"@p ld.shared::cluster.v{width}.{self._sum} {others}, [y+{first * threads * size}];")
                    lines += [f"@p add.rn.{self._sum} d{first + i}, d{first + i}, o{i};" for i in range(width)]
        return [*lines, f"add.u32 z, z, 1; setp.lt.u32 p, z, parts; @p bra PART; {together}", "WHOLE:"]
