"""Files that appear under their names when they are complete, and the removal of what killed processes left of them.

A file is written under a temporary name that says who writes it: the machine, down to its boot and its space of process
numbers, and the process.  Whether another process lives can only be asked on the same machine; a folder may be shared
by many over a network.  Ages are differences of times of one file server, whose clock need not be ours.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re

__all__ = ["remove_leftovers", "write_whole"]

_NAME = re.compile(r"\.(?P<machine>[0-9a-f]{16})-(?P<process>[0-9]+)-[0-9a-f]{16}\.tmp|\.[a-z0-9_]{8}\.tmp")
#: Seconds after which a temporary file is left over, whoever wrote it: writing takes milliseconds.
_AGE = 24 * 3600


def write_whole(path: str, data: bytes) -> float:
    """Write a file, readable for the user alone, so that it is there under its name only when it is complete.

    Returns the time on its file server.
    """
    temporary = os.path.join(os.path.dirname(path), f".{_machine()}-{os.getpid()}-{os.urandom(8).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            now = os.fstat(descriptor).st_mtime
        os.replace(temporary, path)
        return now
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_leftovers(folder: str, now: float) -> None:
    """Remove temporary files in a folder that no process will complete; `now` is the time on its file server.

    Several processes may do that at the same time.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name is None:
                continue
            with contextlib.suppress(OSError):  # gone by now, or not ours
                age = now - entry.stat(follow_symlinks=False).st_mtime
                if age > _AGE or _is_dead(name):
                    os.unlink(entry.path)


def _is_dead(name: re.Match[str]) -> bool:
    """Return whether the process that wrote a file is known not to live any more."""
    if name["machine"] != _machine():
        return False
    try:
        os.kill(int(name["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return False


@functools.cache
def _machine() -> str:
    """Return a name for where a process number means one process: this boot of the machine and this container.

    Where it cannot be told, nobody else has the name.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            where = file.read() + os.readlink(b"/proc/self/ns/pid")
    except OSError:
        where = os.urandom(16)
    return hashlib.sha256(where).hexdigest()[:16]
