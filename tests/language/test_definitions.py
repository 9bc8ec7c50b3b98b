"""Compile-time variables: what they stand for, where they are visible, what they calculate, and what is rejected."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tl_dpnp.errors import TLError, TLSyntaxError
from tl_dpnp.language import parse, print_module


def same(text: str, plain: str, **options: object) -> None:
    assert parse(text, **options) == parse(plain)


SPELLINGS = [
    ("$n = 8 func @f(%a: memref<f32x$n>) { }", "func @f(%a: memref<f32x8>) { }"),
    ("$t = f32 func @f(%a: memref<$t x4>, %b: $t) { }", "func @f(%a: memref<f32x4>, %b: f32) { }"),
    ("$n = 8 $m = memref<f32x$n x$n> func @f(%a: $m, %g: group<$m x $n>) { }",
     "func @f(%a: memref<f32x8x8>, %g: group<memref<f32x8x8> x 8>) { }"),
    ("$g = group<memref<f32x4> x ?, offset: 2> func @f(%g: $g) { }",
     "func @f(%g: group<memref<f32x4>, offset: 2>) { }"),
    ("$s = [16, 2] func @f() attributes{work_group_size=$s} { }", "func @f() work_group_size(16, 2) { }"),
    ("$n = 8 func @f(%a: f32) { $x = 1.5 %b = add %a, $x : f32 }", "func @f(%a: f32) { %b = add %a, 1.5 : f32 }"),
    ("func @f(%p: bool) { $y = false %q = and %p, $y : bool }", "func @f(%p: bool) { %q = and %p, false : bool }"),
    ("func @f() { $n = 4 for %i = 0, $n { $m = $n for %j = 0, $m { } } } $n = 5",
     "func @f() { for %i = 0, 4 { for %j = 0, 4 { } } }"),
    ("func @f() { if true { $n = 1 for %i = 0, $n { } } else { $n = 2 for %i = 0, $n { } } }",
     "func @f() { if true { for %i = 0, 1 { } } else { for %i = 0, 2 { } } }"),
    ("$m = memref<f32x4> func @f(%a: $m) { } $n = 3 func @g(%a: memref<f32x$n>) { }",
     "func @f(%a: memref<f32x4>) { } func @g(%a: memref<f32x3>) { }"),
    ("func @f() { if true { $n = 2 %a = alloca -> memref<f32x$n> } else { $n = 3 %a = alloca -> memref<f32x$n> } }",
     "func @f() { if true { %a = alloca -> memref<f32x2> } else { %a = alloca -> memref<f32x3> } }"),
    ("$n = 4 $k = !calc(2 $n * 1 +) func @f(%a: memref<f32x$k>) { }", "func @f(%a: memref<f32x9>) { }"),
]
DEFINED = [text for text, _ in SPELLINGS]


@pytest.mark.parametrize(("text", "plain"), SPELLINGS)
def test_a_name_is_what_it_stands_for(text, plain):
    same(text, plain)


@pytest.mark.parametrize(("expression", "value"), [
    ("7", 7), ("2 3 ^", 8), ("2 3 -", -1), ("2 3 4 * +", 14), ("-7 2 /", -3), ("-7 2 %", -1), ("7 -2 %", 1),
    ("3 5 min", 3), ("3 5 max", 5), ("1 10 shl", 1024), ("-8 1 shr", -4), ("12 10 and", 8), ("12 10 or", 14),
    ("12 10 xor", 6), ("-1 9223372036854775807 ^", -1), ("0 0 ^", 1), ("1 99 ^", 1),
    ("2 62 ^ 2 62 ^ 1 - +", 2**63 - 1),
])
def test_calculations(expression, value):
    same(f"$n = !calc({expression}) func @f(%a: i64) {{ %b = add %a, $n : i64 }}",
         f"func @f(%a: i64) {{ %b = add %a, {value} : i64 }}")


@given(st.integers(0, 2**32))
def test_random_calculations(seed):
    """Against Python, where each step stays within 64 bits."""
    rng = random.Random(seed)
    operations = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "min": min, "max": max}

    def draw(depth):
        if depth == 0 or rng.random() < 0.2:
            number = rng.randint(-99, 99)
            return str(number), number
        (first, a), (second, b) = draw(depth - 1), draw(depth - 1)
        name = rng.choice(list(operations))
        return f"{first} {second} {name}", operations[name](a, b)

    text, value = draw(3)
    same(f"$n = !calc({text}) func @f(%a: i64) {{ %b = add %a, $n : i64 }}",
         f"func @f(%a: i64) {{ %b = add %a, {value} : i64 }}")


def test_definitions_are_lost_in_printing():
    assert "$" not in print_module(parse("$n = 8 func @f(%a: memref<f32x$n>) { }"))


@pytest.mark.parametrize(("define", "plain"), [
    ({"n": 8, "t": "f32"}, "func @f(%a: memref<f32x8>) { }"),
    ({"n": 9, "t": "f64"}, "func @f(%a: memref<f64x9>) { }"),
    ({"n": np.int64(9), "t": "f64"}, "func @f(%a: memref<f64x9>) { }"),
])
def test_variables_that_are_given(define, plain):
    text = "func @f(%a: memref<$t x$n>) { }"
    same(text, plain, define=define)
    with pytest.raises(TLError) as caught:
        parse(f"{text} func @f() {{ }}", define=define)
    assert (caught.value.diagnostics[0].span.line, caught.value.diagnostics[0].span.column) == (1, len(text) + 7)


@pytest.mark.parametrize("value", [True, 4, 1.5, np.uint8(4), np.int64(4), np.float32(1.5), 2**63 - 1, "f32",
                                   "memref<f32x4>", "[16, 1]", "!calc(1 2 +)"])
def test_values_that_may_be_given(value):
    parse("func @f() { }", define={"n": value})


@pytest.mark.parametrize(("value", "text"), [(float("nan"), "nan"), (np.inf, "inf"), (np.float32(-np.inf), "-inf")])
def test_floats_that_are_given_need_not_be_finite(value, text):
    same("func @f(%a: memref<f64>) { store $v, %a[] : memref<f64> }",
         f"func @f(%a: memref<f64>) {{ store {text}, %a[] : memref<f64> }}", define={"v": value})


@pytest.mark.parametrize("define", [{"n": "1 2"}, {"n": "add"}, {"n": ""}, {"1n": 4}, {"": 4}, {"n": None}, {"n": "#"},
                                    {"n": "!calc(1"}, {"n": "4 func @g() { }"},
                                    {1: 4}, {"n": 2**63}, {"n": -(2**63)}, {"n": 10**5000}])
def test_values_that_may_not_be_given(define):
    with pytest.raises(TLSyntaxError):
        parse("func @f() { }", define=define)


@pytest.mark.parametrize(("text", "column", "message"), [
    ("$n = 4", 7, "the program is empty"),
    ("$n = 4 $n = 5 func @f() { }", 8, "$n is already defined"),
    ("$n = 4 func @f() { $n = 5 }", 20, "$n is already defined"),
    ("func @f() { %a = add $q, 1 : f32 }", 22, "the unknown word '$q'"),
    ("func @f() { if true { $n = 1 } for %i = 0, $n { } }", 44, "the unknown word '$n'"),
    ("func @f() { for %i = 0, $n { } $n = 1 }", 25, "the unknown word '$n'"),
    ("$t = f32 func @f(%a: memref<f32x$t>) { }", 33, "expected a size or ?, found 'f32'"),
    ("$t = 4 func @f(%a: $t) { }", 20, "expected a type, found '4'"),
    ("$n = !calc(1 0 /) func @f() { }", 6, "division by zero"),
    ("$n = !calc(1 0 %) func @f() { }", 6, "division by zero"),
    ("$n = !calc(2 -1 ^) func @f() { }", 6, "the exponent -1 is negative"),
    ("$n = !calc(2 63 ^) func @f() { }", 6, "leaves 64 bits"),
    ("$n = !calc(9 9 ^ 9 ^) func @f() { }", 6, "leaves 64 bits"),
    ("$n = !calc(7 999999999 ^) func @f() { }", 6, "leaves 64 bits"),
    ("$n = !calc(1 2) func @f() { }", 6, "the calculation gives 2 values"),
    ("$n = !calc() func @f() { }", 6, "the calculation gives 0 values"),
    ("$n = !calc(1 +) func @f() { }", 6, "fewer than two operands"),
    ("$n = !calc(1 64 shl) func @f() { }", 6, "a shift by 64 bits"),
    ("$n = !calc(1.5) func @f() { }", 6, "'1.5' is neither an integer nor an operation"),
    ("$t = f32 $n = !calc($t 1 +) func @f() { }", 15, "$t is no integer"),
    ("$n = !calc($m 1 +) func @f() { }", 6, "$m is not defined"),
    ("func @f(%a: i32) { %b = add %a, !calc(1 2 +) : i32 }", 33, "found '!calc(1 2 +)'"),
    ("$n = func @f() { }", 1, "$n has no value"),
    ("$n = memref<f32 func @f() { }", 1, "the value of $n ends within its brackets"),
    ("$n = memref<f32x0> func @f() { }", 17, "the size of mode 0 is 0"),
    ("$n = 9223372036854775808 func @f() { }", 6, "is out of range"),
    ("func @f($n = 4 %a: f32) { }", 9, "found '$n'"),
])
def test_rejected(text, column, message):
    with pytest.raises(TLError) as caught:
        parse(text)
    diagnostic = caught.value.diagnostics[0]
    assert message in diagnostic.message
    assert (diagnostic.span.line, diagnostic.span.column) == (1, column)
    assert diagnostic.hint
