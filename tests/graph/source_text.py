"""Code of a text."""

from __future__ import annotations

import linecache
from types import CodeType

__all__ = ["with_source"]


def with_source(text: str, file: str, mode: str) -> CodeType:
    """Return the code of a text that is in no file; its source can be found, as that of a notebook's cell can."""
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    return compile(text, file, mode, dont_inherit=True)
