"""How large the disk cache is, and the removal of old entries.

Entries and contents are removed while other processes read and write: one whose content is gone is as good as missing,
and its kernel is compiled again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time

from tl_dpnp.records import dataclass

__all__ = ["CacheSize", "measure", "prune"]

_ENTRY = re.compile(r"[0-9a-f]{64}\.json")
_CONTENT = re.compile(r"[0-9a-f]{64}\.bin")


@dataclass(frozen=True)
class CacheSize:
    """Entries, and the bytes that they and their contents take."""

    entries: int
    bytes: int

    def __str__(self) -> str:
        unit = next((unit for unit in _UNITS if self.bytes >= unit[0]), _UNITS[-1])
        return f"{self.entries} {'entry' if self.entries == 1 else 'entries'}, {self.bytes / unit[0]:.1f} {unit[1]}"


_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True)
class _File:
    """A file of the cache: its size in bytes, when it was written, and for an entry the file of its content."""

    path: str
    size: int
    written: float
    content: str | None = None


def measure(folder: str) -> CacheSize:
    """Return the size of a cache; that of a folder that is not there is 0."""
    entries, contents = _files(folder)
    return _size(entries, [*contents.values()])


def prune(folder: str, *, days: float | None = None, limit: int | None = None) -> CacheSize:
    """Remove entries that were written longer than so many days ago, then the oldest until `limit` bytes are left.

    Contents that no entry refers to go in any case.  Returns the size of what was removed.
    """
    entries, contents = _files(folder)
    kept = [entry for entry in entries if days is None or time.time() - entry.written <= days * 86400]
    kept.sort(key=lambda entry: entry.written, reverse=True)
    used: set[str] = set()
    total = 0
    for count, entry in enumerate(kept):
        total += entry.size
        if entry.content in contents and entry.content not in used:
            used.add(entry.content)
            total += contents[entry.content].size
        if limit is not None and total > limit:
            kept = kept[:count]
            break
    used = {entry.content for entry in kept if entry.content is not None}
    remaining = {entry.path for entry in kept}
    gone = [entry for entry in entries if entry.path not in remaining]
    unused = [file for name, file in contents.items() if name not in used]
    for file in (*gone, *unused):  # entries first: what a reader finds is whole for as long as possible
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file.path)
    return _size(gone, unused)


def _size(entries: list[_File], contents: list[_File]) -> CacheSize:
    return CacheSize(len(entries), sum(file.size for file in (*entries, *contents)))


def _files(folder: str) -> tuple[list[_File], dict[str, _File]]:
    """Return the entries in a folder, and the contents by the names of their files; other files are left alone."""
    entries: list[_File] = []
    contents: dict[str, _File] = {}
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as found:
        for each in found:
            with contextlib.suppress(FileNotFoundError):  # another process removes them as well
                status = each.stat(follow_symlinks=False)
                if _ENTRY.fullmatch(each.name):
                    entries.append(_File(each.path, status.st_size, status.st_mtime, _content(each.path)))
                elif _CONTENT.fullmatch(each.name):
                    contents[each.name] = _File(each.path, status.st_size, status.st_mtime)
    return entries, contents


def _content(path: str) -> str | None:
    """Return the name of the file that an entry has its content in, None for none, and for an entry that is damaged."""
    try:
        with open(path, encoding="utf-8") as file:
            name = json.load(file)["body"]["content"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return f"{name}.bin" if name else None
