"""Parsing with a memory on disk: of a text that was parsed before, what calls have to know is read, and no more.

The IR is kept beside that, for what needs more, such as compiling.  The parser is not even loaded.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

from tl_dpnp.language.ir import Function, Module
from tl_dpnp.runtime.call.interface import INTERFACES
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.store.cache import Entry, key_of, open_cache
from tl_dpnp.runtime.store.fingerprint import compiler_fingerprint
from tl_dpnp.runtime.watching import Span, in_words, span

__all__ = ["Defined", "programs_of"]

#: Compile-time variables by their names, without ``$``.
Defined = Mapping[str, bool | int | float | str]


def programs_of(
    text: str, filename: str = "<string>", cache: bool = True, define: Defined | None = None
) -> tuple[Program, ...]:
    """Return the functions of a text, verified, as `tl_dpnp.language.parse` does and with the same errors.

    Only texts without errors are kept.  `cache` is False to leave the disk cache alone.
    """
    defined = tuple((name, repr(value)) for name, value in sorted((define or {}).items(), key=repr))
    folder = open_cache() if cache else None
    if folder is None:
        return _programs(_parse(text, filename, define), text, defined)
    key = key_of(["IR", text, filename, [[repr(name), value] for name, value in defined], compiler_fingerprint()])
    entry = folder.load(key)
    if entry is not None:
        try:
            interfaces = tuple(map(INTERFACES.decode, entry.facts["interfaces"]))
        except (KeyError, TypeError, ValueError):
            pass  # written by something else under the same key: as good as missing
        else:
            kept = _KeptModule(entry.content, text, filename, define)
            return tuple(Program(functools.partial(kept.function, place), text, defined, interface)
                         for place, interface in enumerate(interfaces))
    module = _parse(text, filename, define)
    programs = _programs(module, text, defined)
    folder.store(key, _entry(module, programs))
    return programs


def _programs(module: Module, text: str, defined: tuple[tuple[str, str], ...]) -> tuple[Program, ...]:
    return tuple(Program(function, text, defined) for function in module)


def _entry(module: Module, programs: tuple[Program, ...]) -> Entry:
    from tl_dpnp.language.serialization import to_data

    interfaces = [INTERFACES.encode(program.interface) for program in programs]
    return Entry({"interfaces": interfaces}, json.dumps(to_data(module)).encode())


class _KeptModule:
    """The IR of a text as the cache has it, read when a function of it is needed first."""

    def __init__(self, data: bytes, text: str, filename: str, define: Defined | None) -> None:
        self._data, self._parsed_from = data, (text, filename, define)

    @functools.cached_property
    def _functions(self) -> tuple[Function, ...]:
        from tl_dpnp.language.serialization import from_data

        try:
            return from_data(json.loads(self._data)).functions
        except ValueError:  # as above
            return _parse(*self._parsed_from).functions

    def function(self, place: int) -> Function:
        """Return a function of the module."""
        return self._functions[place]


def _parse(text: str, filename: str, define: Defined | None) -> Module:
    from tl_dpnp.language.parser import parse as parse_text

    with span("compile", f"parse {filename}", _in_words, lines=text.count("\n") + 1):
        return parse_text(text, filename, define)


def _in_words(made: Span) -> str:
    return f"{made.name}: {made.details['lines']} lines in {in_words(made)}"
