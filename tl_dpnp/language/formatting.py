"""Formatting of programs: spaces, indentation and empty lines as the printer has them, for texts that users write.

Nothing else is changed: names, constants, compile-time variables and comments stay, and so do the lines that
instructions are on.  The printer, which writes IR, knows none of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tl_dpnp.errors import TLError
from tl_dpnp.language.parser import parse

__all__ = ["formatted"]

_INDENT = "  "
#: Comments, strings and calculations stay as they are; a run of anything else ends at spaces and at signs.
_LEXEME = re.compile(r'(?P<space>[ \t\v\r]+)|(?P<end>\n)|(?P<comment>;[^\n]*)|"[^"\n]*"|!calc[ \t\v\r\n]*\([^()]*\)|->'
                     r'|[{}()\[\]<>,=:]|(?:(?!->)[^\s;"{}()\[\]<>,=:])+')
_CLOSING = {")": "(", "]": "[", ">": "<", "}": "{"}
#: The brace of a dictionary of attributes, which is none of a region, and where it stands without a space.
_DICTIONARY = "{…"
_ATTRIBUTES = (_DICTIONARY, "attributes")
_SIGNS = {*_CLOSING, "(", "[", "<", "{", ",", "=", ":", "->"}
#: What a line goes on after.
_UNFINISHED = (",", "=", ":", "->")


def formatted(
    text: str, filename: str = "<string>", define: Mapping[str, bool | int | float | str] | None = None
) -> str:
    """Return a program in the printer's layout.

    Compile-time variables that the text does not define have to be given, as to `tl_dpnp.language.parse`, and stay
    what they are.  Raises what that raises for programs that are not right.
    """
    parse(text, filename, define)
    result = _without_empty_lines(_Layout().lines(text))
    if _lexemes(result) != _lexemes(text):
        raise TLError(f"{filename}: formatting would change the program, which is a defect of tl_dpnp")
    return result


def _lexemes(text: str) -> list[str]:
    return [match[0].rstrip() for match in _LEXEME.finditer(text) if match.lastgroup in (None, "comment")]


def _without_empty_lines(lines: Iterator[str]) -> str:
    """Join lines; of several empty ones one stays, and none at the begin and the end of a region or the text."""
    kept: list[str] = []
    for line in lines:
        if line.strip() == "}" or line.lstrip().startswith("} "):
            while kept and not kept[-1]:
                kept.pop()
        if line or (kept and kept[-1] and not kept[-1].endswith("{")):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return "".join(f"{line}\n" for line in kept)


class _Layout:
    """Where a text is while it is laid out: the signs that are open, each with the column behind it."""

    def __init__(self) -> None:
        self._open: list[tuple[str, int]] = []
        self._line = ""
        self._before = ""
        self._is_first = True

    def lines(self, text: str) -> Iterator[str]:
        """Yield the lines."""
        spaced = False
        for match in _LEXEME.finditer(text):
            match match.lastgroup:
                case "space":
                    spaced = True
                case "end":
                    yield self._line.rstrip()
                    self._line, self._is_first, spaced = "", True, False
                case kind:
                    self._add(match[0].rstrip(), kind == "comment", spaced)
                    spaced = False
        yield self._line.rstrip()

    def _add(self, lexeme: str, is_comment: bool, spaced: bool) -> None:
        inner = self._open[-1] if self._open else ("", 0)
        if lexeme in _CLOSING and not is_comment:
            self._open.pop()
        if lexeme == "{" and (inner[0] in ("(", "[", _DICTIONARY) or self._before in ("attributes", "=")):
            kind = _DICTIONARY
        else:
            kind = lexeme
        if self._is_first:
            self._line = self._margin(lexeme)
        elif is_comment or (self._is_apart(lexeme, inner[0], spaced) and (kind, self._before) != _ATTRIBUTES):
            self._line += " "
        self._line += lexeme
        self._is_first = False
        if is_comment:
            return
        if lexeme in _CLOSING.values():
            self._open.append((kind, len(self._line)))
        self._before = kind

    def _margin(self, lexeme: str) -> str:
        """Return the spaces in front of the first lexeme of a line."""
        if self._open and self._open[-1][0] != "{":
            return " " * self._open[-1][1]
        depth = len(self._open) + 2 * (self._before in _UNFINISHED)
        return _INDENT * depth

    def _is_apart(self, lexeme: str, inside: str, spaced: bool) -> bool:
        """Return whether a space is in front of a lexeme; `inside` is the sign that it is inside of."""
        before = self._before
        if before in ("(", "[", "<", _DICTIONARY) or lexeme in (")", "]", ">", ",", "<"):
            return False
        if inside == _DICTIONARY:
            return before == "," and lexeme != "="
        if inside == "(" and "=" in (before, lexeme):
            return False
        match lexeme:
            case "(":
                return before in _SIGNS or (before[0] != "@" and spaced)
            case "[":
                return before[0] != "%"
            case ":":
                return before == "," or inside not in ("(", "[", "<")
        match before:
            case ",":
                return inside != "<" or lexeme == "offset"
            case ":":
                return inside != "["
        return spaced or lexeme in _SIGNS or before in _SIGNS
