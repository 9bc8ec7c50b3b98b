"""Whatever the text: an IR or a `TLError`, soon.  The mutations are seeded; a failure prints its text."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.language.test_reference_examples import FUSED_KERNEL, IF, VIEWS
from tl_dpnp.errors import TLError, TLSyntaxError, TLVerifyError
from tl_dpnp.language import parse, print_module

PROGRAMS = [FUSED_KERNEL, IF] + [
    f"func @f(%0: {operand}, %1: index, %2: index) {{ %r = {instruction} : {operand} }}"
    for instruction, operand, _ in VIEWS
]
FRAGMENTS = [
    "func", "@f", "%0", "%x", "{", "}", "(", ")", "[", "]", "<", ">", ",", ":", "->", "?", "x", "=", ".n", ".t",
    ".atomic", "memref<f32x4>", "group<memref<f32>>", "0", "-1", "9" * 30, "1e999", "0x1.8p3", "nan", "true", "yield",
    "else", ";",
    "\x00", "\n", "\r", "é", "\U0001f600", "\ud800", "f32", "i1", "gemm", "alloca", "for", "foreach", "if", "barrier",
]  # fmt: skip


def check(text: str) -> None:
    """Parse; what is accepted must survive printing, what is not must give a diagnostic that renders."""
    try:
        module = parse(text)
    except TLError as caught:
        error = caught
    else:
        assert parse(print_module(module)) == module, text
        return
    assert error.diagnostics, text
    assert all(diagnostic.span is not None for diagnostic in error.diagnostics), text
    assert str(error), text


def mutate(text: str, random_: random.Random) -> str:
    """Return the text with a few characters or fragments removed, doubled, replaced or inserted."""
    for _ in range(random_.randint(1, 4)):
        start = random_.randrange(len(text) + 1)
        end = min(len(text), start + random_.choice((0, 1, 1, 3, 10)))
        piece = random_.choice(("", text[start:end] * 2, random_.choice(FRAGMENTS), chr(random_.randrange(128))))
        text = text[:start] + piece + text[end:]
    return text


def test_mutations_of_valid_programs() -> None:
    random_ = random.Random(2)
    for _ in range(2000):
        check(mutate(random_.choice(PROGRAMS), random_))


def test_random_fragments() -> None:
    random_ = random.Random(3)
    for _ in range(500):
        head = random_.choice(("", "func @f() {", "func @f(%x: memref<f32x4>) { "))
        check(head + " ".join(random_.choices(FRAGMENTS, k=random_.randint(1, 40))))


@settings(max_examples=200)
@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_garbage(text: str) -> None:
    check(text)


def nested(depth: int, head: str = "if true") -> str:
    return "func @f() {" + f"{head} {{" * depth + "}" * depth + "}"


def test_nesting_up_to_the_limit() -> None:
    check(nested(63))
    parse(nested(63))


@pytest.mark.parametrize("head", ["if true", "for %i = 0, 4", "foreach %i = 0, 4", "%x = if true -> (f32)"])
@pytest.mark.parametrize("depth", [64, 1000, 20_000])
def test_deep_nesting(head: str, depth: int) -> None:
    with pytest.raises(TLVerifyError, match="regions are nested more than 64 deep"):
        parse(nested(depth, head))


@pytest.mark.parametrize(
    "text",
    [
        "func @f() {" + "if true {" * 20_000,
        "func @f(" + "(" * 20_000,
        "func @f(%a: " + "memref<" * 20_000,
        "func @f() {" + "}" * 20_000,
        "{" * 20_000,
        "func @f() {} " * 1000 + "(",
        "\x00" * 20_000,
        "%" * 20_000,
        "func @f() { %x = arith.add " + "9" * 100_000 + ", 1 : i64 }",
        "func @f() { %x = arith.add 0." + "9" * 100_000 + "e" + "9" * 1000 + ", 1 : f64 }",
        "func @f() { %x = cast 0x" + "f" * 10_000 + "p" + "9" * 1000 + " : f64 -> f64 }",
        "func @f(%" + "a" * 100_000 + ": f33) {}",
        "func @f(%a: memref<f32" + "x4" * 10_000 + ">) {}",
        "; " + "comment " * 100_000,
        "func @f(%a: memref<f32> {alignment=" + "[" * 20_000 + "1" + "]" * 20_000 + "}) {}",
        "func @f(%a: memref<f32> {shape_gcd=" + "{unroll=" * 20_000 + "1" + "}" * 20_000 + "}) {}",
        "$n0 = [1, 1]\n" + "".join(f"$n{n} = [$n{n - 1}, $n{n - 1}]\n" for n in range(1, 100)) + "func @f() {}",
    ],
)
def test_hostile_text(text: str) -> None:
    with pytest.raises(TLError) as caught:
        parse(text)
    assert len(str(caught.value)) < 100_000


def test_unterminated() -> None:
    for end in range(len(FUSED_KERNEL) - 6):
        with pytest.raises(TLSyntaxError):
            parse(FUSED_KERNEL[:end])


def test_large_programs_take_linear_time() -> None:
    line = "  %r{0} = arith.add %a, %r{1} : f32\n"
    text = "func @f(%a: f32, %r0: f32) {\n" + "".join(line.format(n, n - 1) for n in range(1, 10_000)) + "}"
    start = time.process_time()
    parse(text)
    assert time.process_time() - start < 20.0  # some 60 microseconds for each instruction, on a slow machine


def test_many_errors() -> None:
    text = "func @f(%a: f32) {\n" + "".join(f"  %r{n} = arith.add %a, %x{n} : f32\n" for n in range(2000)) + "}"
    with pytest.raises(TLVerifyError) as caught:
        parse(text)
    assert len(caught.value.diagnostics) == 2000


@pytest.mark.parametrize("wrong", [1, 20, 21, 500])
def test_the_text_of_an_error_shows_the_first_twenty_mistakes(wrong: int) -> None:
    lines = "".join(f"  %x{number} = arith.neg %a : f64\n" for number in range(wrong))
    with pytest.raises(TLVerifyError) as caught:
        parse(f"func @f(%a: f32) {{\n{lines}}}\n")
    text = str(caught.value)
    assert len(caught.value.diagnostics) == wrong
    assert text.count("error:") == min(wrong, 20)
    assert text.endswith(f"\nand {wrong - 20} more, in the error's attribute diagnostics") == (wrong > 20)
