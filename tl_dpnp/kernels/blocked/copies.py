"""How threads bring a panel of an operand to shared memory: element by element, by ``cp.async``, from any strides.

A copy whose element is not there writes a zero.  Source: PTX ISA 9.0, section 9.7.9.25.3 (cp.async, ``ignore-src``).
"""

from __future__ import annotations

import math
from typing import Literal

from tl_dpnp.kernels.mma.rows import LANES
from tl_dpnp.records import dataclass

__all__ = ["Consecutive", "Panel"]

#: What goes along memory: the rows of L or the columns of R (the side of the result), the sum, or nothing for sure.
Consecutive = Literal["side", "k", ""]


@dataclass(frozen=True)
class Panel:
    """`extent` rows of L, or columns of R, times `depth` of the sum, for the threads of a block.

    Names of registers begin with `name`; `operand` is the number of the first of four operands of the assembly:
    address, and bytes between neighbours along the side, along the sum, and between matrices of the batch.  In shared
    memory neighbours are `pitches` bytes apart along the side and the sum.  `lanes` threads follow one another along
    memory where that is the sum.
    """

    name: str
    operand: int
    extent: int
    depth: int
    size: int
    consecutive: Consecutive
    pitches: tuple[int, int]
    threads: int
    lanes: int

    @property
    def bytes(self) -> int:
        """Size of the panel in shared memory."""
        along_side, along_k = self.pitches
        return self.extent * along_side if along_side > along_k else self.depth * along_k

    @property
    def _is_along_k(self) -> bool:
        return self.consecutive == "k"

    @property
    def _inner(self) -> int:
        """Threads along memory."""
        if self._is_along_k:
            return max(self.lanes, self.threads // self.extent)
        return math.gcd(self.extent, LANES)

    @property
    def _counts(self) -> tuple[int, int]:
        """Copies of a thread along memory, and across."""
        inner, outer = self._inner, self.threads // self._inner
        along, across = (self.depth, self.extent) if self._is_along_k else (self.extent, self.depth)
        assert self.threads % inner == along % inner == across % outer == 0
        return along // inner, across // outer

    @property
    def _side_steps(self) -> list[int]:
        """Elements along the side that a thread copies, from its first one on."""
        along, across = self._counts
        outer = self.threads // self._inner
        return [outer * i for i in range(across)] if self._is_along_k else [self._inner * i for i in range(along)]

    @property
    def registers(self) -> str:
        """Declarations.

        The thread's first element of a panel, whose place is `p`, and of a matrix; addresses while copying; bytes
        between copies across memory and along it, and between panels; its place along side and sum; whether an element
        along the side is missing.
        """
        x = self.name
        return (f".reg .b64 {x}p, {x}q, {x}r, {x}o, {x}i, {x}d; .reg .b32 {x}side, {x}k, {x}w, {x}w0; "
                f".reg .pred {x}no<{len(self._side_steps)}>;")

    def prepare(self, base: str) -> list[str]:
        """Find the thread's place in a panel, and what its copies are apart."""
        x, inner, outer = self.name, self._inner, self.threads // self._inner
        first, second = (f"{x}k", f"{x}side") if self._is_along_k else (f"{x}side", f"{x}k")
        side, k = f"${self.operand + 1}", f"${self.operand + 2}"
        along, across = (k, side) if self._is_along_k else (side, k)
        return [
            f"rem.u32 {first}, thread, {inner}; div.u32 {second}, thread, {inner};",
            f"mul.lo.s64 {x}o, {across}, {outer}; mul.lo.s64 {x}i, {along}, {inner};",
            f"mul.lo.s64 {x}d, {k}, {self.depth};",
            f"mad.lo.u32 {x}w0, {x}side, {self.pitches[0]}, {base}; mad.lo.u32 {x}w0, {x}k, {self.pitches[1]}, {x}w0;",
        ]

    def begin(self, start: str, size: str, product: str) -> list[str]:
        """Go to the first panel of a tile that starts at a row or column of so many, in a matrix of the batch.

        The sum begins with `start`.
        """
        x, first = self.name, self.operand
        lines = [
            f"add.u32 x, start, {x}k; cvt.u64.u32 w, x; mad.lo.s64 {x}p, w, ${first + 2}, ${first};",
            f"add.u32 x, {start}, {x}side; cvt.u64.u32 w, x; mad.lo.s64 {x}p, w, ${first + 1}, {x}p;",
            f"cvt.u64.u32 w, {product}; mad.lo.s64 {x}p, w, ${first + 3}, {x}p;",
            f"sub.u32 x, {size}, x;",
        ]
        return lines + [f"setp.le.s32 {x}no{i}, x, {step};" for i, step in enumerate(self._side_steps)]

    def to_second(self) -> list[str]:
        """Go from the first panel of a tile, which is `first` deep, to the second."""
        x = self.name
        return [f"cvt.u64.u32 w, first; mad.lo.s64 {x}p, w, ${self.operand + 2}, {x}p;"]

    def to_next(self) -> list[str]:
        """Go to the next panel."""
        return [f"add.s64 {self.name}p, {self.name}p, {self.name}d;"]

    def copies(self, condition: str = "", is_first: bool = False) -> list[str]:
        """Copy a panel to the place `w`, where a condition holds; the first one ends with `first` of the sum."""
        x, (along, across) = self.name, self._counts
        inner, outer = self._inner, self.threads // self._inner
        lines = []
        for j in range(across):
            source = f"mov.b64 {x}q, {x}p;" if j == 0 else f"add.s64 {x}q, {x}q, {x}o;"
            for i in range(along):
                place = f"[{x}q+{i * inner * self.size}]"
                if not self.consecutive:
                    source += f" mov.b64 {x}r, {x}q;" if i == 0 else f" add.s64 {x}r, {x}r, {x}i;"
                    place = f"[{x}r]"
                side, k = (outer * j, inner * i) if self._is_along_k else (inner * i, outer * j)
                target = f"[{x}w+{side * self.pitches[0] + k * self.pitches[1]}]"
                missing = f"{x}no{j if self._is_along_k else i}"
                if is_first:
                    source += f" sub.s32 x, first, {k}; setp.ge.or.s32 q, {x}k, x, {missing};"
                    missing = "q"
                # What has 16 bytes need not go by way of the L1 cache.
                cache = "cg" if self.size == 16 else "ca"
                lines.append(f"{source} {condition} cp.async.{cache}.shared.global {target}, {place}, {self.size}, "
                             f"{missing};")
                source = ""
        return lines
