"""Write the TextMate grammar of the language, which editors colour programs by: ``python -m tools.textmate``.

It is made of what the lexer for Pygments is made of, the grammar of the parser: `tests/language/test_textmate.py`
compares the file with what this makes, and its colours with the lexer's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from tl_dpnp.language.highlighting import kind_of, terminals

FILE = Path(__file__).parents[1] / "editors" / "vscode" / "tl.tmLanguage.json"
#: TextMate's names of Pygments' kinds, which themes know; white space has none.
SCOPES: dict[Any, str | None] = {
    Comment.Single: "comment.line.semicolon.tl", Keyword: "keyword.other.tl",
    Keyword.Declaration: "storage.type.function.tl", Keyword.Type: "support.type.tl",
    Keyword.Constant: "constant.language.tl", Name.Function: "entity.name.function.tl",
    Name.Variable: "variable.other.tl", Name.Constant: "variable.other.constant.tl",
    Number.Float: "constant.numeric.float.tl", Number.Integer: "constant.numeric.integer.tl",
    String.Double: "string.quoted.double.tl", String.Interpol: "string.interpolated.tl",
    Operator: "keyword.operator.tl", Punctuation: "punctuation.tl", Whitespace: None,
}


def _words(kinds: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Yield patterns of the keywords by their kinds, and of all other words, which have no colour."""
    for kind in dict.fromkeys(kinds.values()):
        listed = "|".join(re.escape(word) for word in sorted(kinds) if kinds[word] is kind)
        yield {"match": f"(?:{listed})(?![A-Za-z0-9_])", "name": str(SCOPES[kind])}
    yield {"match": r"\.?[A-Za-z_][A-Za-z0-9_]*"}


def _signs(pattern: str) -> Iterator[dict[str, str]]:
    """Yield patterns of operators and of punctuation, longer ones first."""
    for sign in pattern.split("|"):
        yield {"match": sign, "name": str(SCOPES[kind_of("SIGN", sign.replace("\\", ""))])}


def grammar() -> dict[str, Any]:
    """Return the grammar: at each place the first pattern that fits counts, as in the lexer."""
    found, words = terminals()
    patterns: list[dict[str, str]] = []
    for name, expression in found:
        match name:
            case "WORD":
                patterns += _words(words)
            case "SIGN":
                patterns += _signs(expression)
            case _:
                scope = SCOPES[kind_of(name, "")]
                patterns.append({"match": expression} | ({"name": scope} if scope else {}))
    return {
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "comment": "Written by python -m tools.textmate.",
        "name": "Tensor language", "scopeName": "source.tl", "fileTypes": ["tl"], "patterns": patterns,
    }


def text() -> str:
    """Return the grammar as a file has it."""
    return json.dumps(grammar(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
