"""A process that tries cases: what kills it, hangs it or fills its memory ends that process only.

The parent's side is `Worker`, the process runs `serve`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.campaigns.patience import LOOK, MOST, Patience

__all__ = ["Verdict", "Worker"]

ROOT = Path(__file__).parents[2]
#: Bytes of memory at which a worker is replaced: compiled kernels and Numba's types stay for a while.
MOST_MEMORY = 1500 << 20
#: Seconds for a worker to start, and to write where it is when it is ended.
STARTING, GRACE = 180.0, 15.0
#: Characters of a worker's standard error that are shown, from its end.
SHOWN = 6000


@dataclass(frozen=True)
class Verdict:
    """What came of a case: why it failed, or nothing, what to count it as, and the seconds of a core that it took."""

    failure: str = ""
    labels: tuple[str, ...] = ()
    seconds: float = 0.0


class Worker:
    """Tries the cases of a campaign's module one by one in a process, which is started when one is needed."""

    def __init__(self, module: str, limit: float, python: str | None = None) -> None:
        self.restarts = 0
        self._module, self._limit, self._python = module, limit, python or sys.executable
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="tl_dpnp-campaign-")
        self._errors = open(Path(self._folder.name) / "errors", "a+b")  # noqa: SIM115 (until `stop`)

    def verdict(self, kind: str, case: Any) -> Verdict:
        """Try a case, given itself or as its seed; a process that dies or hangs has failed.

        Raises RuntimeError where no process can be started.
        """
        if self._process is None:
            self._start()
        assert self._connection is not None
        self._errors.truncate(0)
        patience = Patience(self._process.pid, self._limit)
        try:
            self._connection.send((kind, case, self._limit * MOST))
            while not self._connection.poll(min(LOOK, self._limit)):
                if patience.is_over:
                    return self._lost(hung=True)
            verdict, memory = self._connection.recv()
        except (EOFError, OSError):
            return self._lost()
        if memory > MOST_MEMORY:
            self._end()
            self.restarts += 1
        return verdict

    def kill(self) -> None:
        """End the process while another thread may be waiting for a verdict."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> None:
        """End the process and remove its files."""
        self._end()
        self._errors.close()
        self._folder.cleanup()

    def _start(self) -> None:
        self._connection, other = Pipe()
        code = f"from {__name__} import serve; serve({self._module!r}, {other.fileno()})"
        cache = {"TL_DPNP_CACHE_DIR": str(Path(self._folder.name) / "cache")}
        self._process = subprocess.Popen(
            [self._python, "-X", "faulthandler", "-c", code], stdin=subprocess.DEVNULL, stdout=self._errors,
            stderr=self._errors, pass_fds=[other.fileno()], env={**os.environ, **cache, "PYTHONPATH": str(ROOT)},
            cwd=ROOT, start_new_session=True,
        )
        other.close()
        try:
            started = self._connection.poll(STARTING) and self._connection.recv()
        except (EOFError, OSError):
            started = None
        if not started:
            self._end()
            raise RuntimeError(f"{self._python} cannot start a worker for {self._module}:\n{self._text()}")

    def _lost(self, hung: bool = False) -> Verdict:
        """Return the verdict on a case whose process is lost, with what that wrote to standard error."""
        status = None
        if hung and self._process is not None:
            self._process.send_signal(signal.SIGABRT)  # which has faulthandler write where it is
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._process.wait(GRACE)
        self._end()
        text = self._text()
        if hung or text.startswith("Timeout (") or "\nTimeout (" in text:
            why = f"hung: no end after {self._limit:g} s with a core"
        elif status is not None and status < 0:
            why = f"died: signal {-status} ({signal.Signals(-status).name})"
        else:
            why = f"died: exit status {status}"
        return Verdict(f"{why}; standard error:\n{text[-SHOWN:] or '(nothing)'}")

    def _text(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")

    def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def serve(module: str, descriptor: int) -> None:
    """Answer each case with its verdict and the memory of the process, until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    connection = Connection(descriptor)
    campaign = importlib.import_module(module).CAMPAIGN
    connection.send("ready")
    while True:
        try:
            kind, case, limit = connection.recv()
        except EOFError:
            break
        start = time.process_time()
        faulthandler.dump_traceback_later(limit, exit=True)  # where the parent is no more
        try:
            verdict = campaign.check(kind, campaign.make(kind, case) if isinstance(case, int) else case)
        except Exception as error:
            verdict = Verdict(f"raised {type(error).__name__}:\n{traceback.format_exc()[-SHOWN:]}")
        faulthandler.cancel_dump_traceback_later()
        connection.send((replace(verdict, seconds=time.process_time() - start), _memory()))
    os._exit(0)  # other campaigns look at how processes end


def _memory() -> int:
    """Return the bytes that are resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

