"""Processes that are given so many seconds, without those in which other processes had the cores that they wanted."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["LOOK", "MOST", "Patience", "run_patiently"]

#: Seconds between looks at a process.
LOOK = 1.0
#: Times the limit after which a process is ended even if it never had a core: it may spin.
MOST = 20
#: Seconds for a process to write where its threads were.
_GRACE = 10.0


class Patience:
    """Whether a process has had its seconds, from now on."""

    def __init__(self, process: int, limit: float) -> None:
        self._process, self._limit = process, limit
        self._start, self._before = time.monotonic(), _waits(process)

    @property
    def waited(self) -> float:
        """Seconds that the thread waited for a core which waited longest; 0 if nobody knows."""
        waits = _waits(self._process)
        return max((wait - self._before.get(thread, 0.0) for thread, wait in waits.items()), default=0.0)

    @property
    def is_over(self) -> bool:
        """Whether the limit has passed."""
        taken = time.monotonic() - self._start
        return taken - self.waited > self._limit or taken > MOST * self._limit


def _waits(process: int) -> dict[str, float]:
    """Return the seconds that each thread waited for a core.

    Source: Linux, Documentation/scheduler/sched-stats.rst, ``/proc/<pid>/schedstat``.
    """
    waits = {}
    for statistics in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # the thread has just ended
            waits[statistics.parent.name] = int(statistics.read_text().split()[1]) / 1e9
    return waits


def run_patiently(
    command: Sequence[str], limit: float, *, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end and return that, with its output.

    Raises subprocess.TimeoutExpired after `limit` seconds in which no other process kept it from a core; ``stderr``
    then ends with where its threads were, if ``faulthandler`` is on in it.
    """
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace") as process:
        patience = Patience(process.pid, limit)
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=min(LOOK, limit))
                    return subprocess.CompletedProcess(command, process.returncode, output, errors)
                if patience.is_over:
                    raise subprocess.TimeoutExpired(command, limit, stderr=_stacks(process))
        finally:
            process.kill()


def _stacks(process: subprocess.Popen[str]) -> str:
    """End a process and return what it wrote to standard error."""
    process.send_signal(signal.SIGABRT)
    try:
        return process.communicate(timeout=_GRACE)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1]
