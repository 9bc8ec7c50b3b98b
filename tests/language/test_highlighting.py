"""The lexer for Pygments knows the words of the grammar, and loses nothing of a text."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from lark import Lark
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, Whitespace

from tl_dpnp.language import highlighting, ops, parser
from tl_dpnp.language.grammar import grammar_text
from tl_dpnp.language.highlighting import TensorLexer

ROOT = Path(__file__).parents[2]
#: The programs in the documents, and those with errors that the diagnostics are tested with.
PROGRAMS = [
    block
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for block in re.findall(r"^func @.*?^}", path.read_text(), re.DOTALL | re.MULTILINE)
]
WRONG = [path.read_text() for path in (ROOT / "tests" / "diagnostics" / "corpus").rglob("*.tl")]

PROGRAM = """; a comment
func @scale(%alpha: f32, %A: group<memref<f32x16x?>, offset: 2>) {
  %0 = group_id
  %1 = load %A[%0] : group<memref<f32x16x?>>
  gemm.n.t 1.5e-3, %1, %1, -2, %1 : f32, memref<f32x16x?>, memref<f32x16x?>, f32, memref<f32x16x?>
}
"""


def tokens(text):
    return [(kind, value) for _, kind, value in TensorLexer().get_tokens_unprocessed(text)]


def kinds(text):
    return {value: kind for kind, value in tokens(text)}


def test_kinds_of_tokens():
    found = kinds(PROGRAM)
    assert {
        "; a comment": Comment.Single, "func": Keyword.Declaration, "@scale": Name.Function, "%alpha": Name.Variable,
        "f32": Keyword.Type, "group": Keyword.Type, "memref": Keyword.Type, "offset": Keyword.Type, "x": Operator,
        "16": Number.Integer, "?": Operator, "group_id": Keyword, "load": Keyword, "gemm": Keyword, ".n": Keyword,
        ".t": Keyword, "1.5e-3": Number.Float, "-2": Number.Integer, "=": Operator, ":": Punctuation, "(": Punctuation,
    }.items() <= found.items()


@pytest.mark.parametrize("text", ["gemmm", "group_idd", ".tt", "i33"])
def test_words_that_the_grammar_lacks_are_no_keywords(text):
    assert tokens(text) == [(Name, text)]


@pytest.mark.parametrize("kind", ops.INSTRUCTIONS, ids=lambda kind: kind.__name__)
def test_every_instruction_is_coloured(kind):
    """A new one is, without a word in the lexer."""
    words = {word for body in kind.grammar().values() for word in re.findall(r'"(\.?[a-z_0-9]+)"', body)}
    assert words
    assert all(found in Keyword for word in words for found in [kinds(word)[word]])


def test_every_terminal_of_the_grammar_has_a_kind():
    found = {each.name for each in parser.loaded_grammar().terminals if type(each.pattern).__name__ == "PatternRE"}
    assert found - {"WORD"} <= highlighting._KINDS.keys()


def test_tokens_are_those_of_the_parser():
    lexer = Lark(grammar_text(), parser="lalr", lexer="basic")
    for text in PROGRAMS:
        expected = [str(token) for token in lexer.lex(text)]
        assert [value for kind, value in tokens(text) if kind not in (Whitespace, Comment.Single)] == expected


def test_nothing_is_lost_and_programs_have_no_errors():
    assert len(PROGRAMS) > 5
    assert len(WRONG) > 50
    for text in PROGRAMS + WRONG:
        assert "".join(value for _, value in tokens(text)) == text
    assert [found for text in PROGRAMS for found in tokens(text) if found[0] is Error] == []


def test_what_is_no_token_is_an_error_and_the_rest_goes_on():
    assert tokens("~%a") == [(Error, "~"), (Name.Variable, "%a")]
    assert tokens("%") == [(Error, "%")]
    assert tokens("") == []


def test_pygments_finds_it_by_its_entry_point():
    (line,) = re.findall(r'entry-points\."pygments.lexers"\]\n.* = "(.*)"', (ROOT / "pyproject.toml").read_text())
    module, _, name = line.partition(":")
    lexer = getattr(import_module(module), name)
    assert lexer is TensorLexer
    assert "tl" in lexer.aliases
    assert "*.tl" in lexer.filenames
    html = highlight(PROGRAM, lexer(), HtmlFormatter())
    assert '<span class="nv">%alpha</span>' in html
    assert '<span class="err">' not in html


