"""What is private to lark is checked before it is relied on: with another lark all is slower, and as right."""

from __future__ import annotations

import types
from collections.abc import Iterator

import lark
import pytest
from lark.parse_tree_builder import ExpandSingleChild

from tests.diagnostics.test_corpus import MALFORMED, read
from tl_dpnp.errors import TLSyntaxError
from tl_dpnp.language import lark_adapter, parser
from tl_dpnp.language.lark_adapter import OtherLark, parser_tables
from tl_dpnp.language.reading import Reader, differs
from tl_dpnp.language.source import Source
from tl_dpnp.runtime import system_info

LONG = "\n".join(f"func @f{number}(%A: memref<f32x4x4>, %a: f32) {{\n  axpby.n %a, %A, 0.0, %A : f32, memref<f32x4x4>, "
                 f"f32, memref<f32x4x4>\n}}" for number in range(120))


@pytest.fixture(autouse=True)
def _another_reader() -> Iterator[None]:
    parser._reader.cache_clear()
    yield
    parser._reader.cache_clear()


def check_that_lark_parses(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Check that long texts are read by lark, for a reason that the command for problems gives, too."""
    assert why in (parser.why_slow() or "")
    monkeypatch.setattr(Reader, "read", lambda *_: pytest.fail("the reader was used"))
    module = parser.parse(LONG)
    assert [function.name for function in module] == [f"f{number}" for number in range(120)]
    with pytest.raises(TLSyntaxError, match=r"t\.tl:363:1: error: expected"):
        parser.parse(f"{LONG}\n\n\n)", "t.tl")
    (problem,) = system_info._parser_problems()
    assert why in problem.what
    assert problem.fix == f"run: pip install lark=={lark_adapter.TESTED[-1]}"


def test_this_lark_is_known() -> None:
    assert lark.__version__ in lark_adapter.TESTED
    assert parser.why_slow() is None
    assert not [*system_info._parser_problems()]


def test_builders_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    class ExpandOnlyChild(ExpandSingleChild):  # type: ignore[misc]
        """What another lark may call it, or do beside it."""

    callbacks = parser.loaded_grammar().parser.parser.parser.callbacks  # type: ignore[attr-defined]
    builder = next(builder for builder in callbacks.values() if isinstance(builder.node_builder, ExpandSingleChild))
    monkeypatch.setattr(builder.node_builder, "__class__", ExpandOnlyChild)
    check_that_lark_parses(monkeypatch, "lark builds trees by ExpandOnlyChild")


def test_tables_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OtherLark, match="no attribute 'lexer'"):
        parser_tables(types.SimpleNamespace(parser=types.SimpleNamespace()))  # type: ignore[arg-type]
    parser.parse("func @f() { }")  # lark's lexer is made at the first use
    monkeypatch.delattr(parser.loaded_grammar().parser.lexer.lexer, "g_regex_flags")  # type: ignore[attr-defined]
    check_that_lark_parses(monkeypatch, "the tables of lark's parser are other ones: AttributeError")


def test_an_unknown_version_is_compared_with_lark_s_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lark, "__version__", "1.99.0")
    assert parser.why_slow() is None
    parser._reader.cache_clear()
    derived = parser._derived

    def other(*arguments: object) -> object:
        tree = derived(*arguments)  # type: ignore[arg-type]
        next(tree.find_data("memref_type")).children.reverse()
        return tree

    with monkeypatch.context() as patch:
        patch.setattr(parser, "_derived", other)
        assert parser.why_slow() == "lark's trees are other ones"
    check_that_lark_parses(monkeypatch, "lark's trees are other ones")


def test_tables_of_an_unknown_version_that_mean_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lark, "__version__", "1.99.0")
    monkeypatch.setattr(Reader, "_row", lambda *_: {})
    assert "mean something else: KeyError" in str(parser.why_slow()) or "other ones" in str(parser.why_slow())
    check_that_lark_parses(monkeypatch, "")


def test_the_sample_has_what_rules_are_made_of() -> None:
    """Else another lark would be taken for this one: lists, what is left out, inlined rules, only children, tokens."""
    grammar = parser.loaded_grammar()
    reader, used = Reader(grammar), set()
    reduction = reader._reduction

    def noted(production: lark_adapter.Production) -> object:
        used.update((child.place is None, child.is_token, child.is_inlined, production.expands, production.is_inlined)
                    for child in production.children)
        return reduction(production)

    reader._reduction = noted  # type: ignore[method-assign,assignment]
    assert not differs(reader.read(parser._SAMPLE), parser._derived(grammar, Source(parser._SAMPLE, ""), {}))
    everything = {(child.place is None, child.is_token, child.is_inlined, each.expands, each.is_inlined)
                  for rule, builder in grammar.parser.parser.parser.callbacks.items()  # type: ignore[attr-defined]
                  for each in [lark_adapter._production(rule, builder)] for child in each.children}
    assert used == everything


@pytest.mark.parametrize("text", [read(name) for name in MALFORMED])
def test_errors_without_the_parts_of_a_stopped_parser(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        parser.parse(text)
    except TLSyntaxError as error:
        expected = error.diagnostics[0].span
    except ValueError:
        return  # it has a tree
    else:
        return
    monkeypatch.setattr(lark_adapter, "_PARTS", ("parser_state.heap",))
    with pytest.raises(TLSyntaxError) as caught:
        parser.parse(text)
    found = caught.value.diagnostics[0].span
    assert found is not None
    assert expected is not None
    assert found.line >= expected.line  # where a line is not finished, what begins the next one is at fault
    assert "^" in str(caught.value)
