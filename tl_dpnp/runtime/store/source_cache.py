"""Parsing with a memory on disk: a text that was parsed before is read as IR, and the parser is not even loaded."""

from __future__ import annotations

from tl_dpnp.language.ops import Module
from tl_dpnp.language.serialization import from_data, to_data
from tl_dpnp.runtime.store.cache import Entry, key_of, open_cache
from tl_dpnp.runtime.store.fingerprint import compiler_fingerprint

__all__ = ["parse"]


def parse(text: str, filename: str = "<string>", cache: bool = True) -> Module:
    """Return the verified IR of a program, as `tl_dpnp.language.parse` does and with the same errors.

    Only programs without errors are kept.  `cache` is False to leave the disk cache alone.
    """
    folder = open_cache() if cache else None
    if folder is None:
        return _parse(text, filename)
    key = key_of(["IR", text, filename, compiler_fingerprint()])
    entry = folder.load(key)
    if entry is not None:
        try:
            return from_data(entry.facts["module"])
        except (KeyError, TypeError, ValueError):
            pass  # written by something else under the same key: as good as missing
    module = _parse(text, filename)
    folder.store(key, Entry({"module": to_data(module)}))
    return module


def _parse(text: str, filename: str) -> Module:
    from tl_dpnp.language.parser import parse as parse_text

    return parse_text(text, filename)
