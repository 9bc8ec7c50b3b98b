"""Parser: from source text to verified IR.

The grammar is `tensor.lark` with the rules of the instructions; `syntax` explains what is wrong with a text that it
does not derive, `elaborate` turns the parse tree into the IR, `verifier` checks it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import lru_cache

from lark import Lark, Token, UnexpectedInput
from lark.lark import PostLex

from tl_dpnp.errors import Diagnostic, TLSyntaxError, TLVerifyError
from tl_dpnp.language.elaborate import Elaborator
from tl_dpnp.language.grammar import grammar_text
from tl_dpnp.language.ops import Module
from tl_dpnp.language.source import Source
from tl_dpnp.language.syntax import syntax_errors
from tl_dpnp.language.type_rules import has_poison
from tl_dpnp.language.verifier import find_errors, sort_diagnostics

__all__ = ["parse"]


class _KeepWords(PostLex):
    """Makes the lexer keep WORD, which no rule uses: a word that is no keyword becomes a token, not a lexer's error."""

    always_accept = ("WORD",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


_lock = threading.Lock()


@lru_cache(maxsize=1)
def _load_grammar() -> Lark:
    return Lark(grammar_text(), parser="lalr", lexer="basic", postlex=_KeepWords(), propagate_positions=True)


def _grammar() -> Lark:
    """Return the parser of the grammar, built at the first use, once for all threads."""
    with _lock:
        return _load_grammar()


def parse(text: str, filename: str = "<string>") -> Module:
    """Return the verified IR of a program; `filename` names it in diagnostics.

    Raises `TLSyntaxError` if the text does not follow the grammar and `TLVerifyError` if it breaks a rule of the
    language; either carries a diagnostic for each error that was found, in source order.
    """
    source = Source(text, filename)
    grammar = _grammar()
    try:
        tree = grammar.parse(text)
    except UnexpectedInput as error:
        raise TLSyntaxError.from_diagnostics(syntax_errors(grammar, source, error)) from None
    elaborator = Elaborator(source)
    module = elaborator.module(tree)
    diagnostics: list[Diagnostic] = elaborator.diagnostics
    if not elaborator.too_deep:
        diagnostics += find_errors(module, elaborator.operand_spans, source.line)
    if diagnostics:
        raise TLVerifyError.from_diagnostics(sort_diagnostics(diagnostics))
    for operation in (each for function in module for each in function.body.walk()):
        assert not has_poison(operation), f"{operation.span}: no diagnostic says what is wrong with an operand"
    return module
