"""Sums of a tile that the blocks of a cluster share: each gives its own to those whose boxes of the result they are.

They go to the shared memory of those blocks, where their panels were, of which no more come: a block says when that is.
Source: PTX ISA 9.0, sections 9.7.9.12 (st.async), 9.7.13.4 (barrier.cluster) and 9.7.13.15 (mbarrier); CUDA C++
Programming Guide, section "Distributed Shared Memory".
"""

from __future__ import annotations

from tl_dpnp.kernels.mma.cluster_shares import own_share
from tl_dpnp.records import dataclass

__all__ = ["SharedSums"]

#: Sums of a thread that are stored together, and their bytes.
_TOGETHER, _BYTES = 4, 16


@dataclass(frozen=True)
class SharedSums:
    """The sums of `threads` threads, by groups of `group_threads`, which `synchronize` lets wait for one another.

    `words` has, for each box of the result that a group has, the first of every four sums of a thread, d0 and so on.

    Registers: the number of the block in the cluster, `rank`, and of blocks, `parts`; the boxes of this block, from
    `low` to `high`, and the most of a block, `share`; the barriers `ready`, at which all other blocks have said that
    their memory is free, and `summed`, at which all sums have come; the start of that memory, `base`.
    """

    threads: int
    group_threads: int
    words: tuple[tuple[int, ...], ...]
    synchronize: str

    @property
    def registers(self) -> str:
        """Declarations."""
        return ".reg .b32 parts, rank, begin, low, high, share, ready, summed, own16; .reg .f32 o2, o3;"

    @property
    def box_bytes(self) -> int:
        """Bytes of all sums of a box of each group."""
        return self.threads * _BYTES * len(self.words[0])

    def bytes(self, parts: int) -> int:
        """Return the bytes that a block gets at most, if so many share a tile."""
        return (parts - 1) * -(-len(self.words) // parts) * self.box_bytes

    def find_share(self) -> list[str]:
        """Return the text that finds this block's boxes."""
        boxes = len(self.words)
        return [f"add.u32 share, parts, {boxes - 1}; div.u32 share, share, parts;", own_share(boxes, "low", "high")]

    def initialize(self, groups: int) -> list[str]:
        """Return the text by which one thread initializes the barriers; there are so many groups in a block."""
        return [f"sub.u32 x, parts, 1; mul.lo.u32 y, x, {groups};",
                "mbarrier.init.shared::cta.b64 [ready], y; mbarrier.init.shared::cta.b64 [summed], 1;",
                f"sub.u32 y, high, low; mul.lo.u32 x, x, y; mul.lo.u32 x, x, {self.box_bytes};",
                "mbarrier.arrive.expect_tx.shared::cta.b64 _, [summed], x;"]

    def skip_unless_own(self, box: int, label: str) -> str:
        """Return the text that goes to a label if a box is another block's."""
        return f"setp.gt.u32 p, low, {box}; setp.le.or.u32 p, high, {box}, p; @p bra {label};"

    def exchange(self) -> list[str]:
        """Return the text that adds up the sums of this block's boxes."""
        sent = [line for box in range(len(self.words)) for line in self._send(box)]
        added = [line for box in range(len(self.words)) for line in self._add(box)]
        return [
            f"{self.synchronize} barrier.cluster.wait;",
            f"rem.u32 z, thread, {self.group_threads}; add.u32 z, z, 1; setp.ge.u32 p, z, parts; @p bra SAID;",
            "add.u32 y, rank, z; rem.u32 y, y, parts; mapa.shared::cluster.u32 x, ready, y;",
            # Nothing is read that others have written; wider scopes take half a microsecond.
            "mbarrier.arrive.shared::cluster.b64 _, [x];",
            "SAID: mbarrier.try_wait.parity.shared::cta.b64 q, [ready], 0; @!q bra SAID;",
            f"mad.lo.u32 own16, thread, {_BYTES}, base;", *sent, "setp.eq.u32 p, low, high; @p bra ADDED;",
            "SUMS: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 q, [summed], 0; @!q bra SUMS;",
            "mov.u32 z, 0; PART:", *added, "add.u32 z, z, 1; add.u32 y, z, 1; setp.lt.u32 p, y, parts; @p bra PART;",
            "ADDED:",
        ]

    def _send(self, box: int) -> list[str]:
        """Give the sums of a box to the block whose it is, which knows this one by its distance."""
        lines = [f"mul.lo.u32 y, parts, {box + 1}; sub.u32 y, y, 1; div.u32 y, y, {len(self.words)};",
                 f"setp.eq.u32 p, y, rank; @p bra MINE{box}; add.u32 z, rank, parts; sub.u32 z, z, y; sub.u32 z, z, 1;",
                 "rem.u32 z, z, parts;", self._place(box),
                 "mapa.shared::cluster.u32 x, x, y; mapa.shared::cluster.u32 z, summed, y;"]
        for number, first in enumerate(self.words[box]):
            words = ", ".join(f"d{first + i}" for i in range(_TOGETHER))
            lines.append("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
                         f"[x+{self.threads * _BYTES * number}], {{{words}}}, [z];")
        return [*lines, f"MINE{box}:"]

    def _add(self, box: int) -> list[str]:
        """Add the sums of a box of the block at distance z."""
        lines = [self.skip_unless_own(box, f"ADDED{box}"), self._place(box)]
        for number, first in enumerate(self.words[box]):
            lines.append(f"ld.shared.v4.f32 {{o0, o1, o2, o3}}, [x+{self.threads * _BYTES * number}];")
            lines += [f"add.rn.f32 d{first + i}, d{first + i}, o{i};" for i in range(_TOGETHER)]
        return [*lines, f"ADDED{box}:"]

    def _place(self, box: int) -> str:
        """Find the place x of a thread's sums of a box, from the block at distance z."""
        return f"rem.u32 x, {box}, share; mad.lo.u32 x, z, share, x; mad.lo.u32 x, x, {self.box_bytes}, own16;"
