"""What a campaign reports, and how the seeds of its cases follow from its own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["SEEDS", "Outcome", "case_seeds"]

#: Seeds are below this.
SEEDS = 2**32


@dataclass(frozen=True)
class Outcome:
    """Cases tried, a text for each that failed, with the command that repeats it, and remarks: counts by kind."""

    tried: int
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def closing_line(self, name: str, seed: int) -> str:
        """Return the last line of a campaign."""
        return f"{name}: {self.tried} tried, {len(self.failures)} failed, seed {seed}"


def case_seeds(seed: int) -> Iterator[int]:
    """Yield the seeds of the cases of a campaign without end: its own, then others."""
    rng = random.Random(seed)
    yield seed
    while True:
        yield rng.randrange(SEEDS)
