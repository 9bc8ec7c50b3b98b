"""A lexer of the language for Pygments, which Sphinx, notebooks and ``pygmentize`` colour programs with.

Pygments finds it by an entry point, as ``tl`` and for files ``*.tl``.  What is a token, and which words are keywords,
is read off the grammar; only what the terminals of the grammar look like stands here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from pygments.lexer import Lexer
from pygments.token import (
    Comment,
    Error,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Whitespace,
)

from tl_dpnp.language.lark_adapter import words_of
from tl_dpnp.language.parser import loaded_grammar

__all__ = ["TensorLexer", "kind_of", "terminals"]

#: Pygments' kinds of the grammar's terminals.
_KINDS = {
    "LOCAL_IDENTIFIER": Name.Variable, "GLOBAL_IDENTIFIER": Name.Function, "DEFINITION": Name.Constant,
    "BOOLEAN_CONSTANT": Keyword.Constant, "FLOATING_CONSTANT": Number.Float, "INTEGER_CONSTANT": Number.Integer,
    "SCALAR_TYPE": Keyword.Type, "_X": Operator, "STRING": String.Double, "CALCULATION": String.Interpol,
    "DYNAMIC": Operator, "WHITE_SPACE": Whitespace, "COMMENT": Comment.Single,
}
#: Rules of the grammar whose words are parts of types.
_TYPES = ("void_type", "memref_type", "address_space", "strided_layout", "group_type", "group_offset",
          "coopmatrix_type", "matrix_use")


@functools.cache
def terminals() -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return the names and the expressions of the terminals in the order in which they are tried, and kinds of words.

    Those of fixed text are words, of which ``WORD`` finds all, and ``SIGN``.
    """
    grammar = loaded_grammar()
    fixed = words_of(grammar)
    words = {text: Keyword for text in fixed.values() if text.strip(".").isidentifier()}
    for rule in grammar.rules:
        if str(rule.origin.name) in _TYPES:
            words |= {fixed[each.name]: Keyword.Type for each in rule.expansion if fixed.get(each.name) in words}
    words["func"] = Keyword.Declaration
    by_priority = sorted(grammar.terminals, key=lambda each: -each.priority)
    parts = [(each.name, each.pattern.to_regexp()) for each in by_priority if each.name not in fixed]
    signs = sorted((text for text in fixed.values() if text not in words), key=len, reverse=True)
    return [*parts, ("SIGN", "|".join(map(re.escape, signs)))], words


@functools.cache
def _pattern() -> re.Pattern[str]:
    """Return an expression with a group for each terminal."""
    return re.compile("|".join(f"(?P<{name}>{expression})" for name, expression in terminals()[0]))


def kind_of(terminal: str, text: str) -> Any:
    """Return Pygments' kind of a text that a terminal of `terminals` has found."""
    if terminal == "WORD":
        return terminals()[1].get(text, Name)
    if terminal == "SIGN":
        return Operator if text in ("=", "->", "?") else Punctuation
    return _KINDS[terminal]


class TensorLexer(Lexer):  # type: ignore[misc]  # Pygments has no types
    """Colours programs in the tensor language, all dialects; what is none of its tokens is an error."""

    name = "Tensor language"
    aliases: ClassVar[list[str]] = ["tl", "tensor-language"]
    filenames: ClassVar[list[str]] = ["*.tl"]

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """Yield the position, the kind and the text of each token; together they are the whole text."""
        pattern, place = _pattern(), 0
        while place < len(text):
            match = pattern.match(text, place)
            found = text[place] if match is None else match[0]
            yield place, Error if match is None else kind_of(str(match.lastgroup), found), found
            place += len(found)
