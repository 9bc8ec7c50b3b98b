"""The disk cache: programs and compiled kernels in a private folder.

An entry is a JSON file named by its key, with a checksum of its own, and, unless it has no content, a binary file named
by the hash of its content.  Both appear under their names when they are complete, so that readers and writers in other
processes see all of a file or nothing (`tl_dpnp.runtime.store.temporary_files`).
Whatever is wrong with the cache costs a warning and a compilation, never an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from typing import Any

from tl_dpnp import config
from tl_dpnp.errors import CacheWarning, TLError, warn
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.store.temporary_files import remove_leftovers, write_whole
from tl_dpnp.runtime.watching import Span, in_words, purpose, span

__all__ = ["DiskCache", "Entry", "cache_folder", "key_of", "open_cache", "why_unusable"]

_FORMAT = 2
#: Folders where this process has looked for what others left.
_tidied: set[str] = set()
#: What this process was warned of.
_said: set[str] = set()


class _Unusable(Exception):
    """The folder or a file cannot be trusted or used; the text says why."""


@dataclass(frozen=True)
class Entry:
    """One thing kept: JSON-serialisable `facts` and a binary, for example the SPIR-V of a kernel."""

    facts: dict[str, Any]
    content: bytes = b""


def key_of(parts: Any) -> str:
    """Return the key for JSON-serialisable `parts`: all that the entry depends on."""
    return hashlib.sha256(_canonical([_FORMAT, parts])).hexdigest()


def cache_folder() -> str:
    """Return the folder of the cache: the setting ``CACHE_DIR``, else ``tl_dpnp`` in the user's cache folder.

    Raises `TLError` for a user without a home, as there are in containers.
    """
    folder = config.get("CACHE_DIR")
    if folder is None:
        import platformdirs

        try:
            folder = platformdirs.user_cache_dir("tl_dpnp", appauthor=False)
        except RuntimeError:  # so newer versions say it
            folder = ""
        if not os.path.isabs(folder):
            raise TLError("the user has no home folder to keep kernels in: set TL_DPNP_CACHE_DIR, or HOME")
    return str(folder)


def _looked_at() -> tuple[str, str | None]:
    """Return the folder of the cache, which is made if it is not there, and why it cannot be used, None if it can."""
    folder = where = ""
    try:
        folder = cache_folder()
        where = f" in {folder}"
        _make_private(folder)
    except (TLError, _Unusable, OSError) as problem:
        return folder, f"the kernel cache{where} is not used: {problem}"
    return folder, None


def why_unusable() -> str | None:
    """Return why there can be no disk cache; None where it can be used.  Makes the folder if it is not there."""
    return _looked_at()[1]


def open_cache() -> DiskCache | None:
    """Return the disk cache, or None if it is switched off or cannot be used, with a `CacheWarning` for the latter."""
    if not config.get("CACHE"):
        return None
    folder, problem = _looked_at()
    if problem is not None:
        _warn_once(problem)
        return None
    return DiskCache(folder)


class DiskCache:
    """The entries below one folder, which must be private to the user."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, key: str) -> str:
        """Return where the JSON file of an entry lies."""
        return os.path.join(self.folder, key + ".json")

    def load(self, key: str) -> Entry | None:
        """Return the entry for `key`, or None; one that is damaged or not the user's is ignored with a warning."""
        with span("cache", f"load {_short(key)}", _load_in_words, purpose=purpose()) as made:
            entry = self._loaded(key)
            made.details.update(hit=entry is not None, bytes=0 if entry is None else len(entry.content))
        return entry

    def _loaded(self, key: str) -> Entry | None:
        try:
            document = json.loads(_read(self.path(key)))
            body = document["body"]
            if document["checksum"] != hashlib.sha256(_canonical(body)).hexdigest() or body["key"] != key:
                raise _Unusable("its checksum does not match")
            content = _read(self._content_path(body["content"])) if body["content"] else b""
            if _content_hash(content) != body["content"]:
                raise _Unusable("the checksum of its content does not match")
            if not isinstance(body["facts"], dict):
                raise _Unusable("it has no facts")
            return Entry(body["facts"], content)
        except FileNotFoundError:
            return None
        except (_Unusable, OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
            self.warn_of(key, problem)
            return None

    def warn_of(self, key: str, problem: Exception) -> None:
        """Warn that the entry for `key` is of no use."""
        warn(f"the cache entry {self.path(key)} is ignored: {problem or type(problem).__name__}", CacheWarning)

    def store(self, key: str, entry: Entry) -> None:
        """Write an entry; a failure costs a warning."""
        facts = {"purpose": purpose(), "bytes": len(entry.content)}
        with span("cache", f"store {_short(key)}", _store_in_words, **facts) as made:
            made.details["stored"] = self._stored(key, entry)

    def _stored(self, key: str, entry: Entry) -> bool:
        """Write an entry and return whether that could be done."""
        content_hash = _content_hash(entry.content)
        body = {"key": key, "content": content_hash, "facts": entry.facts}
        document = {"checksum": hashlib.sha256(_canonical(body)).hexdigest(), "body": body}
        try:
            if entry.content:
                write_whole(self._content_path(content_hash), entry.content)
            now = write_whole(self.path(key), _canonical(document))
            if self.folder not in _tidied:
                _tidied.add(self.folder)
                remove_leftovers(self.folder, now)
        except OSError as problem:
            _warn_once(f"the kernel cache in {self.folder} cannot be written: {problem}")
            return False
        return True

    def _content_path(self, content_hash: str) -> str:
        return os.path.join(self.folder, content_hash + ".bin")


def _short(key: str) -> str:
    """Return as much of a key as tells entries apart in a log: its file's name begins with it."""
    return key[:12]


def _load_in_words(made: Span) -> str:
    found = f"{made.details['bytes']} bytes" if made.details.get("hit") else "missed"
    return f"{made.name}{made.details['purpose']}: {found} in {in_words(made)}"


def _store_in_words(made: Span) -> str:
    outcome = f"{made.details['bytes']} bytes" if made.details.get("stored") else "not written"
    return f"{made.name}{made.details['purpose']}: {outcome} in {in_words(made)}"


def _content_hash(content: bytes) -> str:
    """Return the name of a content, nothing for none."""
    return hashlib.sha256(content).hexdigest() if content else ""


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _make_private(folder: str) -> None:
    """Create the folder if need be, for the user alone, and refuse one that others own or may write to."""
    os.makedirs(os.path.dirname(folder) or ".", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    status = os.stat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise _Unusable("it is no folder")
    _check_owner(status)


def _read(path: str) -> bytes:
    # Not blocking: opening a pipe would wait for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _Unusable("it is no file")
        _check_owner(status)
        return file.read()


def _check_owner(status: os.stat_result) -> None:
    """Raise `_Unusable` unless the user alone may have written there: it holds code that will be run."""
    if status.st_uid != os.geteuid():
        raise _Unusable(f"it belongs to another user (id {status.st_uid})")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _Unusable(f"others may write to it (mode {stat.S_IMODE(status.st_mode):04o}); chmod go-w would help")


def _warn_once(message: str) -> None:
    """Say what is wrong with the folder, once in a process: each of its kernels would say the same."""
    if message not in _said:
        warn(message, CacheWarning)
        _said.add(message)
