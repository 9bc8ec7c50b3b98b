"""The parser's tables are kept, and taken for the grammar that they were made of only."""

import pytest

from tl_dpnp.errors import TLSyntaxError
from tl_dpnp.language import parse, parser, tables

RIGHT = """func @f(%A: memref<f32x4x5>, %B: memref<f32x5x3>, %C: group<memref<f32x4x3>>) {
  %g = group_id
  %c = load %C[%g] : group<memref<f32x4x3>>
  gemm.n.n 1.0, %A, %B, 0.0, %c : f32, memref<f32x4x5>, memref<f32x5x3>, f32, memref<f32x4x3>
  foreach %i = 0, 4 { store 1.0, %c[%i, 0] : memref<f32x4x3> }
}"""
WRONG = "func @f(%a: memref<f32x4>) { gemm.n.n 1.0, %a; store %a }"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "FILE", tmp_path / "tensor.tables")
    parser._load_grammar.cache_clear()
    yield tables.FILE
    parser._load_grammar.cache_clear()


def made(monkeypatch):
    """Return a list that grows when tables are made."""
    calls = []
    make = tables._make
    monkeypatch.setattr(tables, "_make", lambda resolution: calls.append(resolution) or make(resolution))
    return calls


def result_and_error():
    with pytest.raises(TLSyntaxError) as caught:
        parse(WRONG)
    return parse(RIGHT), str(caught.value)


def test_tables_that_were_kept_are_those_of_the_grammar(file, monkeypatch):
    expected = result_and_error()
    parser.write_tables()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    parser._load_grammar.cache_clear()
    calls = made(monkeypatch)
    assert result_and_error() == expected
    assert not calls


def test_tables_of_another_grammar_are_not_taken(file, monkeypatch):
    parser.write_tables()
    parser._load_grammar.cache_clear()
    calls = made(monkeypatch)
    text = tables.grammar_text()
    monkeypatch.setattr(tables, "grammar_text", lambda: text + "\n")
    parse(RIGHT)
    assert len(calls) == 1
