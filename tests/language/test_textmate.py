"""The TextMate grammar of editors is that of the parser, and colours programs as the lexer for Pygments does."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pygments.token import Error, Name, Whitespace

from tests.language.test_highlighting import PROGRAMS, WRONG
from tl_dpnp.language.highlighting import TensorLexer, terminals
from tools import textmate

EDITOR = textmate.FILE.parent
#: Calculations and strings over several lines: editors colour line by line.
BY_LINES = "one\n!calc(1\n2 +)"


def coloured(text: str) -> Iterator[tuple[str | None, str]]:
    """Yield the scopes of a text as an editor finds them, which has no scope for what no pattern is for."""
    patterns = [(re.compile(each["match"]), each.get("name"))
                for each in json.loads(textmate.FILE.read_text())["patterns"]]
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        place = 0
        while place < len(line):
            found = [(match, scope) for pattern, scope in patterns if (match := pattern.match(line, place))]
            match, scope = found[0] if found else (None, None)
            yield scope, match[0] if match else line[place]
            place = match.end() if match else place + 1


def expected(text: str) -> list[tuple[str | None, str]]:
    return [(None if kind in (Name, Error) else textmate.SCOPES[kind], value)
            for _, kind, value in TensorLexer().get_tokens_unprocessed(text) if kind is not Whitespace]


def test_the_file_is_what_the_grammar_gives():
    assert textmate.FILE.read_text() == textmate.text(), "python -m tools.textmate writes it anew"


@pytest.mark.parametrize("texts", [PROGRAMS, WRONG], ids=["programs", "errors"])
def test_colours_are_those_of_pygments(texts):
    is_space = re.compile(dict(terminals()[0])["WHITE_SPACE"]).fullmatch
    for text in texts:
        assert [(scope, value) for scope, value in coloured(text) if not is_space(value)] == expected(text)


def test_editors_colour_line_by_line():
    assert [value for _, value in coloured(BY_LINES)] != [value for _, value in expected(BY_LINES)]


def test_the_extension_names_files_that_are_there():
    contributes = json.loads((EDITOR / "package.json").read_text())["contributes"]
    (language,), (grammar,) = contributes["languages"], contributes["grammars"]
    assert language["extensions"] == [".tl"]
    assert grammar["scopeName"] == textmate.grammar()["scopeName"]
    assert (EDITOR / grammar["path"]).samefile(textmate.FILE)
    assert json.loads((EDITOR / language["configuration"]).read_text())["comments"] == {"lineComment": ";"}
    assert Path(EDITOR.parent / "README.md").exists()
