"""Parsing with a memory on disk: a text that was parsed before is read as IR, and the parser is not even loaded."""

from __future__ import annotations

from collections.abc import Mapping

from tl_dpnp.language.ops import Module
from tl_dpnp.language.serialization import from_data, to_data
from tl_dpnp.runtime.store.cache import Entry, key_of, open_cache
from tl_dpnp.runtime.store.fingerprint import compiler_fingerprint

__all__ = ["Defined", "parse"]

#: Compile-time variables by their names, without ``$``.
Defined = Mapping[str, bool | int | float | str]


def parse(text: str, filename: str = "<string>", cache: bool = True, define: Defined | None = None) -> Module:
    """Return the verified IR of a program, as `tl_dpnp.language.parse` does and with the same errors.

    Only programs without errors are kept.  `cache` is False to leave the disk cache alone.
    """
    folder = open_cache() if cache else None
    if folder is None:
        return _parse(text, filename, define)
    defined = [[repr(name), repr(value)] for name, value in sorted((define or {}).items(), key=repr)]
    key = key_of(["IR", text, filename, defined, compiler_fingerprint()])
    entry = folder.load(key)
    if entry is not None:
        try:
            return from_data(entry.facts["module"])
        except (KeyError, TypeError, ValueError):
            pass  # written by something else under the same key: as good as missing
    module = _parse(text, filename, define)
    folder.store(key, Entry({"module": to_data(module)}))
    return module


def _parse(text: str, filename: str, define: Defined | None) -> Module:
    from tl_dpnp.language.parser import parse as parse_text

    return parse_text(text, filename, define)
