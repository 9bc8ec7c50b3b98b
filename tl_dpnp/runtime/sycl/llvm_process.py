"""The process in which LLVM makes SPIR-V: what LLVM does not expect ends the process that it runs in.

It is started by the first compilation, before the kernel is lowered, and again by the next one after it has ended.  It
lives as long as this process, and ends by itself where its standard input does.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import IO

from tl_dpnp.errors import LoweringError
from tl_dpnp.runtime.sycl import llvm_worker
from tl_dpnp.runtime.sycl.llvm_worker import ENDED, HEADER, REFUSED

__all__ = ["LLVM", "LLVMProcess"]

#: What a task may take.
_SECONDS = 300
#: Characters of what the process wrote that an error repeats.
_MOST_TEXT = 2000
#: Runs a file by itself, without what its packages import, from its byte code where Python has kept that.  It imports
#: Python's own modules only: neither the current folder is looked into nor, since `_environment` has none, PYTHONPATH.
_START = """import sys
sys.path[:] = filter(None, sys.path)
from importlib.machinery import SourceFileLoader
worker = {"__name__": "llvm_worker"}
exec(SourceFileLoader("llvm_worker", sys.argv[1]).get_code("llvm_worker"), worker)
worker["main"](sys.argv[2])"""


class _GoneError(Exception):
    """The process has ended, or does not answer."""


class LLVMProcess:
    """One process, which does one task at a time; threads take turns."""

    def __init__(self, command: Sequence[str] | None = None) -> None:
        """Start nothing yet; `command` is to start another program that does the same."""
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._written: IO[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def start(self) -> None:
        """Have the process start, unless it runs or another thread sees to it: what comes later need not wait then."""
        if self._lock.acquire(blocking=False):
            try:
                self._running()
            finally:
                self._lock.release()

    def optimise(self, text: str) -> str:
        """Return a module in LLVM IR, its functions inlined and optimised; raises what `translate` does."""
        return self._do(b"optimise", text).decode()

    def translate(self, text: str) -> bytes:
        """Return the SPIR-V of a module in LLVM IR.

        Raises `LoweringError` where LLVM refuses the module, does not come to an end, or crashes; what is asked for
        afterwards is not affected.
        """
        return self._do(b"translate", text)

    def _do(self, task: bytes, text: str) -> bytes:
        with self._lock:
            process = self._running()
            try:
                self._send(process, task, text.encode())
                status, content = self._receive(process), self._receive(process)
            except (_GoneError, OSError):
                written = self._end()
                raise _ended(process.returncode, written) from None
            except BaseException:
                self._end()
                raise
            if status == ENDED:
                raise _ended(int(content), self._what_was_written())
        if status == REFUSED:
            raise LoweringError(f"LLVM refuses the kernel: {content.decode(errors='replace')}")
        return content

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, started if need be, with nothing written to its standard error yet."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None or self._written is None:
            command = self._command or _command()
            self._written = tempfile.TemporaryFile(prefix="tl_dpnp-")  # noqa: SIM115 (`_end` closes it)
            # A session of its own, so that Ctrl-C is for this process alone.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._written, start_new_session=True,
                env=_environment(),
            )
            if not self._owner:
                atexit.register(self._at_exit)
            self._owner = os.getpid()
        self._written.seek(0)
        self._written.truncate()
        return self._process

    def _send(self, process: subprocess.Popen[bytes], *parts: bytes) -> None:
        assert process.stdin is not None
        for part in parts:
            process.stdin.write(HEADER.pack(len(part)) + part)
        process.stdin.flush()

    def _receive(self, process: subprocess.Popen[bytes]) -> bytes:
        (size,) = HEADER.unpack(self._read(process, HEADER.size))
        return self._read(process, size)

    def _read(self, process: subprocess.Popen[bytes], size: int) -> bytes:
        assert process.stdout is not None
        end, content = time.monotonic() + _SECONDS, bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while len(content) < size:
                if not selector.select(max(0, end - time.monotonic())):
                    raise _GoneError
                part = os.read(process.stdout.fileno(), size - len(content))
                if not part:
                    raise _GoneError
                content += part
        return bytes(content)

    def _what_was_written(self) -> str:
        if self._written is None:
            return ""
        self._written.seek(0)
        return self._written.read().decode(errors="replace").strip()[-_MOST_TEXT:]

    def _end(self) -> str:
        """End the process and what it has forked, and return the end of what they wrote to their standard error."""
        process, self._process = self._process, None
        if process is None:
            return ""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was not sent
                pipe.close()
        written = self._what_was_written()
        if self._written is not None:
            self._written.close()
        return written

    def _at_exit(self) -> None:
        if self._owner == os.getpid():
            self._end()

    def _forget(self) -> None:
        """Leave the process to the parent of a fork: its answers are for that."""
        self._process, self._lock = None, threading.Lock()


def _command() -> list[str]:
    """Return what starts the process: an interpreter that imports no more than it needs (``-S``: no site-packages)."""
    if not sys.executable:
        raise LoweringError("LLVM runs in a process of its own, and there is no interpreter to start it with: "
                            "set sys.executable")
    package = find_spec("llvmlite")
    folders = (package and package.submodule_search_locations) or ()
    libraries = (os.path.join(folder, "binding", "libllvmlite.so") for folder in folders)
    library = next(filter(os.path.exists, libraries), None)
    if library is None:
        raise LoweringError("kernels are compiled by LLVM as llvmlite 0.50 has it, and there is no libllvmlite.so of "
                            f"{package.origin if package else 'llvmlite'}: install llvmlite again")
    return [sys.executable, "-S", "-c", _START, llvm_worker.__file__, library]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _ended(code: int, written: str) -> LoweringError:
    how = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
    if code == -signal.SIGKILL:
        how += f": it was killed, or did not answer within {_SECONDS} s"
    return LoweringError(f"LLVM ended while it compiled the kernel ({how}); it wrote: {written or 'nothing'}")


#: The one of this process.
LLVM = LLVMProcess()
