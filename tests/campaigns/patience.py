"""Processes that are given so many seconds, without those in which other processes had the cores that they wanted."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["run_patiently", "waited_for_cores"]

#: Seconds between looks at a process.
_LOOK = 1.0
#: Times the limit after which a process is ended even if it never had a core: it may spin.
_MOST = 20
#: Seconds for a process to write where its threads were.
_GRACE = 10.0


def waited_for_cores(process: int) -> float:
    """Return the seconds that the thread of a process which waited longest for a core waited; 0 if nobody knows.

    Source: Linux, Documentation/scheduler/sched-stats.rst, ``/proc/<pid>/schedstat``.
    """
    longest = 0
    for statistics in Path(f"/proc/{process}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError):  # the thread has just ended
            longest = max(longest, int(statistics.read_text().split()[1]))
    return longest / 1e9


def run_patiently(
    command: Sequence[str], limit: float, *, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end and return that, with its output.

    Raises subprocess.TimeoutExpired after `limit` seconds in which no other process kept it from a core; ``stderr``
    then ends with where its threads were, if ``faulthandler`` is on in it.
    """
    start = time.monotonic()
    with subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace") as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, errors = process.communicate(timeout=min(_LOOK, limit))
                    return subprocess.CompletedProcess(command, process.returncode, output, errors)
                taken = time.monotonic() - start
                if taken - waited_for_cores(process.pid) > limit or taken > _MOST * limit:
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
