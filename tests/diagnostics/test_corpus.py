"""Malformed programs and their diagnostics.

`corpus/<topic>/<name>.tl` is a malformed program, `<name>.txt` beside it the class of the error and its text, and
`<name>.fixed.tl`, for most of them, the program after its hint was followed.  ``pytest --update-golden`` writes the
texts anew: read them as the author of the program would.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tl_dpnp.errors import Diagnostic, TLError
from tl_dpnp.language import parse, print_module

CORPUS = Path(__file__).parent / "corpus"
FIXED = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.fixed.tl"))
MALFORMED = sorted({path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.tl")} - set(FIXED))

#: What a user must never see: names of the parser's terminals, of Python's types, of the implementation.
INTERNAL = re.compile(
    r"\b_*[A-Z]{2,}_[A-Z_0-9]+\b|__ANON|\$END|\b(?:LOCAL|GLOBAL)_IDENTIFIER|\bNoneType\b|\bTraceback\b|\bMemrefType\b"
    r"|\bScalarType\b|\bGroupType\b|<class |\bTree\(|\bToken\(|<error>|\bobject at 0x|\bNone\b"
)


def read(name: str) -> str:
    """Return a program as it is, line ends included."""
    return (CORPUS / name).read_bytes().decode("utf-8")


def caught(name: str) -> TLError:
    """Return the error of a malformed program."""
    with pytest.raises(TLError) as raised:
        parse(read(name), name)
    return raised.value


def with_notes(diagnostic: Diagnostic) -> Iterator[Diagnostic]:
    yield diagnostic
    for note in diagnostic.notes:
        yield from with_notes(note)


@pytest.mark.parametrize("name", MALFORMED)
def test_diagnostics(name: str, request: pytest.FixtureRequest) -> None:
    error = caught(name)
    text = f"{type(error).__name__}\n{error}\n"
    golden = CORPUS / f"{name.removesuffix('.tl')}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_bytes(text.encode("utf-8"))
    assert golden.exists(), f"{golden.name} is missing; write it with --update-golden and read it"
    assert text == golden.read_bytes().decode("utf-8")


@pytest.mark.parametrize("name", MALFORMED)
def test_place_and_words(name: str) -> None:
    lines = read(name).split("\n")
    error = caught(name)
    assert error.diagnostics
    for diagnostic in error.diagnostics:
        for part in with_notes(diagnostic):
            span = part.span
            assert span is not None, part
            assert span.file == name
            assert 1 <= span.line <= span.end_line <= len(lines), span
            assert 1 <= span.column <= len(lines[span.line - 1]) + 1, span
            assert (span.line, span.column) < (span.end_line, span.end_column), span
            assert part.source_line == lines[span.line - 1].rstrip("\r")
            assert len(part.message.split()) >= 3, "not a sentence"
            assert not part.message[0].isupper(), part.message
            assert not part.message.endswith((".", " ", ":")), part.message
            for words in (part.message, part.hint or ""):
                found = INTERNAL.search(re.sub("'[^']*'", "", words))  # what is quoted are the user's words
                assert found is None, words
        assert diagnostic.hint, diagnostic


@pytest.mark.parametrize("name", MALFORMED)
def test_source_order(name: str) -> None:
    places = [(d.span.line, d.span.column) for d in caught(name).diagnostics if d.span is not None]
    assert places == sorted(places)


@pytest.mark.parametrize("name", FIXED)
def test_following_the_hint_helps(name: str) -> None:
    assert name.replace(".fixed.tl", ".tl") in MALFORMED
    module = parse(read(name), name)
    assert parse(print_module(module)) == module


def test_count() -> None:
    assert len(MALFORMED) >= 600
    assert len(FIXED) >= 400
    texts = {path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.txt")}
    assert texts == {f"{name.removesuffix('.tl')}.txt" for name in MALFORMED}, "a text without a program"
    contents = [read(name) for name in MALFORMED]
    assert len(set(contents)) == len(contents), "two programs are the same"
