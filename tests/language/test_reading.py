"""Trees that are read quickly are those of lark."""

from __future__ import annotations

import random
import time

import pytest
from lark import Token, Tree

from tests.campaigns.text import everything
from tests.diagnostics.mutations import mutate
from tests.diagnostics.test_corpus import MALFORMED, read
from tests.diagnostics.test_fuzz import EXAMPLES
from tests.drawing import seed_of
from tests.language.test_dialects import PARAMETERS, SPELLINGS
from tl_dpnp.errors import TLError, TLSyntaxError
from tl_dpnp.language import print_module
from tl_dpnp.language.parser import _derived, loaded_grammar, parse
from tl_dpnp.language.reading import Reader
from tl_dpnp.language.source import Source


def by_lark(text: str) -> Tree[Token] | None:
    """Return lark's tree of a text without compile-time variables; None for malformed text."""
    try:
        return _derived(loaded_grammar(), Source(text, ""), {})
    except TLSyntaxError:
        return None


def described(node: Tree[Token] | Token | None) -> object:
    """Return all that the parser looks at in a node."""
    if isinstance(node, Tree):
        start = getattr(node.meta, "start_pos", -1)
        return node.data, start, getattr(node.meta, "end_pos", -1), [described(child) for child in node.children]
    return node and (node.type, str(node), node.value, node.start_pos, node.end_pos)


def test_trees_are_those_of_lark(request: pytest.FixtureRequest) -> None:
    rng, reader, alike = random.Random(seed_of(request.config)), Reader(loaded_grammar()), 0
    texts = rng.sample(everything(), 300)
    for text in (*texts, *(mutate(rng.choice(texts), texts, rng) for _ in range(600)), "", " ", ";"):
        found, expected = reader.read(text), by_lark(text)
        if found is None and ("$" in text or "!calc" in text):
            continue
        assert (found is None) == (expected is None), text
        assert described(found) == described(expected), text
        alike += found is not None
    assert alike > 100


@pytest.mark.parametrize("types", [
    ["memref<f32x4x4>"] * 2, ["memref <f32x4,strided<2>>"] * 3, ["group<memref<f32x4x4>x3>", "memref<f32x4x4>"] * 2,
    ["memref<f32 ; >\n x4>"] * 2, ["memref<f32x4>", "memref<f32x4,local>", "memref<f32x4,local>"],
    ["memref<f32x4,strided<>>", "memref<f32x4>"] * 2,
])
def test_types_that_are_repeated_have_places_of_their_own(types: list[str]) -> None:
    text = f"func @f({', '.join(f'%a{number}: {type}' for number, type in enumerate(types))}) {{ }}"
    found, expected = Reader(loaded_grammar()).read(text), by_lark(text)
    assert found is not None or expected is None
    assert described(found) == described(expected)


def outcome(text: str) -> str:
    """Return what a text says, or what is wrong with it."""
    try:
        return print_module(parse(text))
    except TLError as error:
        return str(error)


def test_programs_and_errors_are_those_of_lark_s_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    spelled = [f"func @f({PARAMETERS}) {{\n{text}\n}}" for pair in SPELLINGS for text in pair]
    spelled += [f"func @f(%A: memref<f32x4x4>) {{ cumsum 1, %A, {mode}, 0, %A }}" for mode in range(3)]
    texts = [text for text in (*EXAMPLES, *spelled, *map(read, MALFORMED)) if "$" not in text]
    expected = []
    for limit in (10**9, 0):
        monkeypatch.setattr("tl_dpnp.language.parser.QUICKLY", limit)
        found = [outcome(text) for text in texts]
        expected = expected or found
        assert found == expected


def test_white_space_of_any_length_takes_linear_time() -> None:
    start = time.process_time()
    assert Reader(loaded_grammar()).read("func @f() { }" + " \n;;\n" * 20_000 + "`") is None
    assert time.process_time() - start < 2


def test_places_in_long_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tl_dpnp.language.parser.QUICKLY", 0)
    text = "\n" * 5 + "func @f(%a: f32) {\r\n\t%b = add %a,\n  1 : i32\n}"
    with pytest.raises(ValueError, match=r"<string>:8:7: error: %a has type f32, not i32"):
        parse(text)
