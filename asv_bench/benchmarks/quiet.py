"""How much of the machine other programs, and other machines on the same host, take while something is measured."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path

from .limits import Counting, FmaPeak

__all__ = ["OtherPrograms", "SharedCores", "SharedThreads", "wait_for_quiet"]

#: Part of the cores that other programs may take before a measurement counts as disturbed.
DISTURBED = 0.1
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")


class OtherPrograms:
    """Counts, from its making on, the processor time of all programs but this one (``/proc/stat``, in ticks).

    Its child processes are no other programs: peers take their turns in them.
    """

    def __init__(self) -> None:
        self._busy, self._own, self._start = _busy(), _own(), time.perf_counter()

    def share(self) -> float:
        """Return the part of all cores' time that other programs have had since then."""
        other = _busy() - self._busy - (_own() - self._own)
        total = (time.perf_counter() - self._start) * (os.cpu_count() or 1)
        return min(1.0, max(0.0, other / total))


class _Shared(ABC):
    """Waits while something shares what is measured, for `patience` seconds in all."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._turns = self._shared = 0

    def wait(self) -> None:
        """Work for a moment, and again until nothing slows that down or patience is at an end."""
        self._turns += 1
        while seconds := self._slowed_down():
            self._patience -= seconds
            if self._patience < 0:
                self._shared += 1
                return

    @property
    def share(self) -> float:
        """The part of the turns for which the waiting was in vain."""
        return self._shared / max(1, self._turns)

    @abstractmethod
    def _slowed_down(self) -> float:
        """Work for a moment, and return the seconds that it took; 0 where nothing slowed it down."""


class SharedCores(_Shared):
    """Waits while the host runs several cores of this machine on one of its own, for `patience` seconds in all.

    What a virtual machine calls a core may be one of the two threads of a core of its host.  Where the host puts two of
    them on the same one, both together multiply and add as fast as one alone; this comes and goes within seconds.  The
    FMA peak of all of them, compared with that of one, tells.
    """

    #: Part of the sum of their speeds that the cores must reach together.
    _APART = 0.8
    #: Multiply-adds in a chain: one or two milliseconds.
    _STEPS = 1_000_000

    def __init__(self, cores: int, patience: float) -> None:
        super().__init__(patience)
        one, self._all = (FmaPeak("f32", n, self._STEPS) for n in (1, cores)) if cores > 1 else (None, None)
        self._one = statistics.median(_seconds(one) for _ in range(9)) if one else 0.0

    def _slowed_down(self) -> float:
        if self._all is None:
            return 0.0
        seconds = _seconds(self._all)
        return seconds if self._one < self._APART * seconds else 0.0


class SharedThreads(_Shared):
    """Waits while something else runs on the other thread of this process's core, for `patience` seconds in all.

    With two threads a core of the host has half its buffers and half its decoding for each.  That halves what waits for
    caches and for sums, and leaves the FMA peak almost alone.  How fast integers are counted tells, compared with the
    fastest time so far.
    """

    #: Part of the highest speed that must be reached.
    _ALONE = 0.9
    #: Steps of the counting: a few tenths of a millisecond; for how many seconds it is timed at first.
    _STEPS, _FIRST = 500_000, 2.0
    #: The shortest time so far, of all cases of this process.
    _shortest = math.inf

    def __init__(self, patience: float) -> None:
        super().__init__(patience)
        self._count = Counting(self._STEPS)
        end = time.monotonic() + (self._FIRST if math.isinf(self._shortest) else 0.0)
        while time.monotonic() < end:
            self._slowed_down()

    def _slowed_down(self) -> float:
        seconds = _seconds(self._count)
        SharedThreads._shortest = min(SharedThreads._shortest, seconds)
        return seconds if self._shortest < self._ALONE * seconds else 0.0


def _seconds(function: Callable[[], None]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def _busy() -> float:
    """Return the seconds that all cores have not been idle: user, nice, system, interrupts, time of other guests."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        user, nice, system, _idle, _waiting, *rest = map(int, file.readline().split()[1:])
    return _TICK * (user + nice + system + sum(rest[:3]))


def _own() -> float:
    """Return the processor seconds of this process and of those that it, or one of them, has started."""
    ended = os.times()
    return (time.process_time() + ended.children_user + ended.children_system
            + sum(map(_seconds_of, _descendants("self"))))


def _descendants(process: str) -> Iterator[str]:
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(OSError):  # it may have ended
            for child in (thread / "children").read_text(encoding="ascii").split():
                yield child
                yield from _descendants(child)


def _seconds_of(process: str) -> float:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    user, system = map(int, text.rpartition(")")[2].split()[11:13])
    return _TICK * (user + system)


def wait_for_quiet(patience: float, glance: float = 0.3) -> None:
    """Wait until other programs leave the cores alone for a moment, but no longer than `patience` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        others = OtherPrograms()
        time.sleep(glance)
        if others.share() < DISTURBED:
            return
