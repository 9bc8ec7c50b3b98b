"""How much of the machine other programs take while something is measured."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["OtherPrograms", "wait_for_quiet"]

#: Part of the cores that other programs may take before a measurement counts as disturbed.
DISTURBED = 0.1
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")


class OtherPrograms:
    """Counts, from its making on, the processor time of all programs but this process (``/proc/stat``, in ticks)."""

    def __init__(self) -> None:
        self._busy, self._own, self._start = _busy(), time.process_time(), time.perf_counter()

    def share(self) -> float:
        """Return the part of all cores' time that other programs have had since then."""
        other = _busy() - self._busy - (time.process_time() - self._own)
        total = (time.perf_counter() - self._start) * (os.cpu_count() or 1)
        return min(1.0, max(0.0, other / total))


def _busy() -> float:
    """Return the seconds that all cores have not been idle: user, nice, system, interrupts, time of other guests."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        user, nice, system, _idle, _waiting, *rest = map(int, file.readline().split()[1:])
    return _TICK * (user + nice + system + sum(rest[:3]))


def wait_for_quiet(patience: float, glance: float = 0.3) -> None:
    """Wait until other programs leave the cores alone for a moment, but no longer than `patience` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        others = OtherPrograms()
        time.sleep(glance)
        if others.share() < DISTURBED:
            return
