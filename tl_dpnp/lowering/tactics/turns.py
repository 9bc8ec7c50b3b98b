"""The cycles that a multiprocessor takes for a work-group in the staged form, by what the blocks that it holds do."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from tl_dpnp.records import dataclass
from tl_dpnp.target.multiprocessor import LANES, Multiprocessor

__all__ = ["Turn", "overlapped"]

#: What the time of all units counts beside that of the one that bounds a product: of two alike, the idler is better.
_DISTURBANCE = 0.03


@dataclass(frozen=True)
class Turn:
    """A turn of a block: `teams` compute a work-group each, and `moved` bytes go in and out for each of them.

    The block has so many `warps`, whose threads have so many 32-bit `registers`, and `memory` bytes of local memory.  A
    warp takes so many `instructions`.  Between two turns a block takes `between` cycles; where it `waits`, copies and
    products of a block take turns.  Otherwise those of a single block take as long as their `norm`, with that as the
    exponent, and those of several as long as the longer one.
    """

    unit: Multiprocessor
    teams: int
    warps: int
    registers: int
    memory: int
    moved: int
    instructions: float
    between: float
    waits: bool
    norm: float = math.inf

    @functools.cached_property
    def blocks(self) -> int:
        """How many blocks a multiprocessor has room for."""
        unit, threads = self.unit, self.warps * LANES
        return min(unit.local_memory // (self.memory + unit.block_memory), unit.registers // (threads * self.registers),
                   unit.threads // threads, unit.blocks)

    def cycles(self, accesses: float) -> float:
        """Return the cycles for a work-group by how often a warp accesses shared memory.

        They are those of what bounds it, and a part of all others.
        """
        unit, blocks = self.unit, self.blocks
        # Warps are dealt out to as many schedulers as there are instructions in a cycle.
        schedulers = unit.instructions
        issuing = -(-self.warps * blocks // schedulers) * self.instructions + (
            blocks * unit.copy_instructions / schedulers)
        moving = blocks * self.teams * self.moved / unit.memory_bytes
        accessing = blocks * (self.warps * accesses + self.teams * self.moved / (4 * unit.banks))
        # What a warp loads it waits for, unless others of its scheduler compute meanwhile.
        waiting = min(issuing, accessing) / max(1, self.warps * blocks / schedulers)
        computing = max(max(issuing, accessing) + unit.exposed * waiting,
                        unit.alone * self.instructions + unit.waited * accesses)
        if self.waits:
            turn = max(moving, computing) + min(moving, computing) / blocks
        else:
            norm = self.norm if blocks == 1 else math.inf
            turn = overlapped(norm, (moving, computing + self.between / blocks))
        return (turn + _DISTURBANCE * (issuing + accessing)) / (self.teams * blocks)


def overlapped(norm: float, cycles: Sequence[float]) -> float:
    """Return the cycles of what goes on at the same time: their norm, with that as the exponent, up to the largest."""
    return max(cycles) if math.isinf(norm) else float(sum(each**norm for each in cycles) ** (1 / norm))
