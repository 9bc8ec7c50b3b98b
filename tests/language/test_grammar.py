"""The grammar: both spellings, and each point that the references leave open."""

from __future__ import annotations

import math
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tl_dpnp.errors import TLError, TLSyntaxError, TLVerifyError
from tl_dpnp.language import ops, parse, print_module
from tl_dpnp.language.types import GroupType
from tl_dpnp.scalars import C32, F16, F32, F64, I1, I8, I32, INDEX, SCALAR_TYPES, U8

PARAMETERS = (
    "%a: f32, %b: f32, %i: index, %j: index, %n: i32, %u: u32, %p: i1, %q: i1, %A: memref<f32x4x4>, "
    "%B: memref<f32x4x4>, %C: memref<f32x4x4>, %v: memref<f32x4>, %w: memref<f32x4>, %s: memref<f32>"
)
M, V, S = "memref<f32x4x4>", "memref<f32x4>", "memref<f32>"
MMM = f"f32, {M}, {M}, f32, {M}"
MVV = f"f32, {M}, {V}, f32, {V}"
VVM = f"f32, {V}, {V}, f32, {M}"
VVV = f"f32, {V}, {V}, f32, {V}"


def body(text: str, parameters: str = PARAMETERS) -> tuple[ops.Operation, ...]:
    """Return the operations of a function body."""
    module = parse(f"func @f({parameters}) {{\n{text}\n}}")
    assert parse(print_module(module)) == parse(print_module(module, "0.3")) == module
    return module.functions[0].body.operations


def rejected(text: str, parameters: str = PARAMETERS) -> str:
    """Return the message of the syntax error of a function body."""
    with pytest.raises(TLSyntaxError) as caught:
        parse(f"func @f({parameters}) {{\n{text}\n}}")
    return str(caught.value)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        *((f"%r = {kind} %a, 1.5 : f32", f"%r = arith.{kind} %a, 1.5 : f32") for kind in "add sub mul div rem".split()),
        ("%r = neg %a : f32", "%r = arith.neg %a : f32"),
        ("%r = cast %p : bool -> bool", "%r = cast %p : i1 -> i1"),
        (f"gemm.n.t.high, 1.0, %A, %B, 0.0, %C : {MMM}", f"gemm.n.t.high 1.0, %A, %B, 0.0, %C : {MMM}"),
        (f"gemm.atomic.n.t.default 1.0, %A, %B, 0.0, %C : {MMM}",
         f"gemm.n.t.default.atomic 1.0, %A, %B, 0.0, %C : {MMM}"),
        (f"gemv.t.highest 1.0, %A, %v, 0.0, %w : {MVV}", f"gemv.t.highest 1.0, %A, %v, 0.0, %w : {MVV}"),
        (f"gemm.atomic.n.t 1.0, %A, %B, 0.0, %C : {MMM}", f"gemm.n.t.atomic 1.0, %A, %B, 0.0, %C : {MMM}"),
        (f"gemm.n.t, 1.0, %A, %B, 0.0, %C : {MMM}", f"gemm.n.t 1.0, %A, %B, 0.0, %C : {MMM}"),
        (f"gemv.atomic.t , %a, %A, %v, %b, %w : {MVV}", f"gemv.t.atomic %a, %A, %v, %b, %w : {MVV}"),
        (f"ger.atomic, 1.0, %v, %w, 0.0, %C : {VVM}", f"ger.atomic 1.0, %v, %w, 0.0, %C : {VVM}"),
        (f"hadamard_product , 1.0, %v, %v, 0.0, %w : {VVV}", f"hadamard 1.0, %v, %v, 0.0, %w : {VVV}"),
        (f"sum.atomic.n, 1.0, %A, 0.0, %v : f32, {M}, f32, {V}", f"sum.n.atomic 1.0, %A, 0.0, %v : f32, {M}, f32, {V}"),
        (f"axpby.atomic.t 1, %A, 0, %B : f32, {M}, f32, {M}", f"axpby.t.atomic 1.0, %A, 0.0, %B : f32, {M}, f32, {M}"),
        (f"%r = subview %A[0:?, :] : {M}", f"%r = subview %A[:, 0 : ?] : {M}"),
        ("for %k = 0, 4 : index { }", "for %k = 0, 4, 1 { }"),
        ("if %p { yield : }", "if %p { yield }"),
        (f"%r = expand %v[0->2x?] : {V}", f"%r = expand %v[0 -> 2 x ?] : {V}"),
        (f"%r=load %A[0,%i]:{M}", "%r = load\t%A [ 0 , %i ]\r\n : ; text\n memref < f32 x 4 x 4 , strided < 1 , 4 > >"),
    ],
)
def test_spellings_of_the_same(older: str, newer: str) -> None:
    assert body(older) == body(newer)


def test_printer_writes_the_newer_spelling() -> None:
    module = parse(f"func @f({PARAMETERS}) {{ %r = add %a, 1 : f32 hadamard_product 1, %v, %v, 0, %w : {VVV} }}")
    assert "%r = arith.add %a, 1.0 : f32" in print_module(module, "0.3")
    assert f"hadamard 1.0, %v, %v, 0.0, %w : {VVV}" in print_module(module, "0.3")
    assert "%c0 = constant 1.0 : f32\n  %r = add %a, %c0 : f32" in print_module(module)
    assert "hadamard %c0, %v, %v, %c1, %w\n" in print_module(module)


@pytest.mark.parametrize("name", [name for name, type_ in SCALAR_TYPES.items() if not type_.is_subbyte])
def test_scalar_types(name: str) -> None:
    function = parse(f"func @f(%a: {name}, %A: memref<{name}x2x?>, %G: group<memref<{name}>>) {{}}").functions[0]
    assert [value.type.element for value in function.parameters[1:2]] == [SCALAR_TYPES[name]]  # type: ignore[union-attr]
    assert function.parameters[0].type == SCALAR_TYPES[name]
    assert parse(print_module(ops.Module((function,)))) == ops.Module((function,))


@pytest.mark.parametrize(
    ("text", "shape", "strides"),
    [
        ("memref<f32>", (), ()),
        ("memref<f32,strided<>>", (), ()),
        ("memref<f32x8x?>", (8, None), (1, 8)),
        ("memref<f32x8x?,strided<1,8>>", (8, None), (1, 8)),
        ("memref<f32 x 8 x ? , strided<2, ?>>", (8, None), (2, None)),
        ("memref<f32x?x4>", (None, 4), (1, None)),
        ("memref<indexx3>", (3,), (1,)),
        ("memref<f32x+8>", (8,), (1,)),
    ],
)
def test_memref_types(text: str, shape: tuple[object, ...], strides: tuple[object, ...]) -> None:
    type = parse(f"func @f(%a: {text}) {{}}").functions[0].parameters[0].type
    assert (type.shape, type.strides) == (shape, strides)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "offset"), [("", 0), (", offset: 0", 0), (",offset:-3", -3), (", offset: ?", None), (" , offset : 64", 64)]
)
def test_group_offsets(text: str, offset: int | None) -> None:
    module = parse(f"func @f(%G: group<memref<f32x4>{text}>) {{}}")
    type = module.functions[0].parameters[0].type
    assert isinstance(type, GroupType)
    assert type.offset == offset
    assert parse(print_module(module)) == module


def test_group_may_be_named_without_its_offset() -> None:
    (load,) = body("%r = load %G[0] : group<memref<f32x4>>", "%G: group<memref<f32x4>, offset: ?>")
    assert str(load.operands[0].type) == "group<memref<f32x4>, offset: ?>"


@pytest.mark.parametrize(
    ("attributes", "work_group_size", "subgroup_size"),
    [
        ("", None, None),
        ("work_group_size(32,2)", (32, 2), None),
        ("subgroup_size(16)", None, 16),
        ("work_group_size(32, 2) subgroup_size(16)", (32, 2), 16),
        ("subgroup_size(16) work_group_size(32, 2)", (32, 2), 16),
    ],
)
def test_attributes(attributes: str, work_group_size: object, subgroup_size: object) -> None:
    module = parse(f"func @f() {attributes} {{}}")
    function = module.functions[0]
    assert (function.work_group_size, function.subgroup_size) == (work_group_size, subgroup_size)
    assert parse(print_module(module)) == module


@pytest.mark.parametrize(
    ("literal", "type", "value"),
    [
        ("1.5", F32, 1.5),
        (".5", F32, 0.5),
        ("5.", F32, 5.0),
        ("1e3", F32, 1000.0),
        ("1E3", F32, 1000.0),
        ("-1.e-3", F64, -0.001),
        ("+2.5", F32, 2.5),
        ("0x1.8p3", F32, 12.0),
        ("0x.8", F32, 0.5),
        ("-0x1p-1074", F64, -5e-324),
        ("0xA.", F32, 10.0),
        ("inf", F32, math.inf),
        ("-inf", F16, -math.inf),
        ("3", F32, 3.0),
        ("0.1", F32, 0.10000000149011612),
        ("1e-50", F32, 0.0),
        ("1e-45", F32, 1.401298464324817e-45),
        ("-128", I8, -128),
        ("+7", I8, 7),
        ("2.0", I8, 2),
        ("255", U8, 255),
        ("9223372036854775807", INDEX, 2**63 - 1),
        ("-9223372036854775807", INDEX, -(2**63) + 1),
        ("true", I1, True),
        ("0", I1, False),
        ("[1.5, -2]", C32, 1.5 - 2j),
        ("1.5", C32, 1.5 + 0j),
    ],
)
def test_constants(literal: str, type: object, value: object) -> None:
    (operation,) = body(f"store {literal}, %m[] : memref<{type}>", f"%m: memref<{type}>")
    constant = operation.operands[0]
    assert isinstance(constant, ops.Constant)
    assert (constant.value, constant.type) == (value, type)
    assert constant.value.__class__ is value.__class__


def test_nan_is_a_constant() -> None:
    (operation,) = body("store nan, %s[] : memref<f32>")
    assert math.isnan(operation.operands[0].value)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("literal", "type", "message"),
    [
        ("300", "i8", "the constant 300 is out of range of i8"),
        ("-1", "u8", "the constant -1 is out of range of u8"),
        ("1.5", "i32", "1.5 is no value of i32"),
        ("inf", "i32", "inf is no value of i32"),
        ("nan", "i32", "nan is no value of i32"),
        ("9223372036854775808", "i64", "the integer 9223372036854775808 is out of range"),
        ("-9223372036854775808", "i64", "the integer -9223372036854775808 is out of range"),
        ("9" * 5000, "f64", "is out of range"),
        ("1e400", "f64", "the constant 1e400 overflows double precision"),
        ("0x1p1024", "f64", "overflows double precision"),
        ("1e39", "f32", "is out of range of f32"),
        ("65520.0", "f16", "is out of range of f16"),
        ("true", "i32", "true is no value of i32"),
        ("true", "f32", "true is no value of f32"),
        ("2", "i1", "2 is no value of i1"),
        ("1.0", "i1", "1.0 is no value of i1"),
        ("[1.0, 2.0]", "f32", "is no value of f32"),
    ],
)
def test_constants_without_a_value(literal: str, type: str, message: str) -> None:
    with pytest.raises(TLVerifyError) as caught:
        body(f"store {literal}, %m[] : memref<{type}>", f"%m: memref<{type}>")
    assert message in str(caught.value)
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize("kind", ops.ARITHMETIC)
def test_arithmetic(kind: str) -> None:
    (operation,) = body(f"%r = arith.{kind} %n, 3 : i32")
    assert isinstance(operation, ops.Arith)
    assert operation.kind == kind


@pytest.mark.parametrize("kind", ops.MATHEMATICS)
def test_mathematics(kind: str) -> None:
    operands = ", ".join(["%a", "%b", "1.0"][: ops.MATHEMATICS[kind].operands])
    (operation,) = body(f"%r = math.{kind} {operands} : f32")
    assert isinstance(operation, ops.Math)
    assert operation.kind == kind


@pytest.mark.parametrize("kind", ops.COMPARISONS)
def test_comparisons(kind: str) -> None:
    (operation,) = body(f"%r = cmp.{kind} %a, 1.0 : f32")
    assert operation.results[0].type == I1


@pytest.mark.parametrize("text", ["2x?", "2 x ?", "2x ?", "2 x?"])
def test_expand_spacing(text: str) -> None:
    (operation,) = body(f"%r = expand %v[0 -> {text}] : {V}")
    assert str(operation.results[0].type) == "memref<f32x2x2>"


def test_expand_by_numbered_identifiers() -> None:
    expected = body("%r = expand %v[0 -> %1 x ?] : memref<f32x4>", "%1: index, %v: memref<f32x4>")
    assert body("%r = expand %v[0 -> %1x?] : memref<f32x4>", "%1: index, %v: memref<f32x4>") == expected
    assert "'%ix'" not in rejected(f"%r = expand %v[0 -> %ix?] : {V}")  # a name, and no x


@pytest.mark.parametrize(
    ("text", "values"), [("yield", 0), ("yield :", 0), ("yield %a : f32", 1), ("yield %a, 2.0 : f32, f32", 2)]
)
def test_yield(text: str, values: int) -> None:
    head = ["if %p", "%r = if %p -> (f32)", "%r, %t = if %p -> (f32, f32)"][values]
    (operation,) = body(f"{head} {{ {text} }} else {{ {text} }}")
    assert isinstance(operation, ops.If)
    assert [len(region.operations[-1].operands) for region in operation.regions] == [values, values]


def test_if_without_results() -> None:
    assert body("if %p -> () { barrier yield } else { yield : }") == body("if %p { barrier yield } else { yield : }")


def test_results_without_names_get_some_that_the_text_does_not_have() -> None:
    branches = "{ yield %a, 1 : f32, i32 } else { yield 2.0, %n : f32, i32 }"
    unnamed, named = body(f"if %p -> (f32, i32) {branches} %unnamed1, %unnamed2 = if %q -> (f32, i32) {branches}")
    assert [value.name for value in unnamed.results] == ["unnamed0", "unnamed3"]
    assert [value.type for value in unnamed.results] == [value.type for value in named.results] == [F32, I32]


def test_conditions() -> None:
    first, second, third = body("if true { } if false { } else { } if %p { }")
    assert (first.operands[0].value, second.operands[0].value) == (True, False)  # type: ignore[union-attr]
    assert third.operands[0].type == I1
    for condition in ("1", "0", "1.0"):
        assert "expected a value of type i1, true or false" in rejected(f"if {condition} {{ }}")


def test_loops() -> None:
    text = "for %k = 0, 4 { } for %k = %n, 8, 2 : i32 { } foreach %k = 0, 4 { } foreach %k = %u, 9 : u32 { }"
    first, second, third, fourth = body(text)
    assert isinstance(first, ops.For)
    assert isinstance(second, ops.For)
    assert isinstance(third, ops.Foreach)
    assert isinstance(fourth, ops.Foreach)
    assert first.step == ops.Constant(1, INDEX)
    variables = [variable for loop in (first, second, third, fourth) for variable in loop.loop_variables]
    assert [str(variable.type) for variable in variables] == ["index", "i32", "index", "u32"]


@pytest.mark.parametrize(("text", "types"), [
    ("foreach (%x) = (0), (4) { }", "index"),
    ("foreach (%x, %y) = (0, 1), (4, 9) { }", "index index"),
    ("foreach (%x, %y) = (0, %n), (%u, 9) { }", "u32 i32"),
    ("foreach (%x, %y, %z) = (0, 0, 1), (2, 3, 4) : i8, index, u64 { }", "i8 index u64"),
])
def test_loops_over_several_indices(text, types) -> None:
    (loop,) = body(text)
    assert isinstance(loop, ops.Foreach)
    assert " ".join(str(variable.type) for variable in loop.variables) == types


@pytest.mark.parametrize(("text", "message"), [
    ("foreach (%x, %y) = (0), (4, 4) { }", "a foreach over 2 indices has 1 first values"),
    ("foreach (%x) = (0), (4, 4) { }", "a foreach over 1 indices has 2 ends"),
    ("foreach (%x, %y) = (0, 0), (4, 4) : i8 { }", "a foreach over 2 indices has 1 types"),
    ("foreach (%x, %y) = (0, %n), (%u, %u) { }", "cast %u : u32 -> i32"),
    ("foreach (%x, %x) = (0, 0), (4, 4) { }", "%x"),
    ("foreach (%x, %y) = (0, 0), (4, 1.5) { }", "1.5"),
    ("foreach (%x, %y) = (0, %a), (4, 9) { }", "the variable of a loop has type f32"),
    ("foreach () = (), () { }", "%"),
])
def test_wrong_loops_over_several_indices(text, message) -> None:
    with pytest.raises(TLError, match=re.escape(message)) as caught:
        body(text)
    assert len(caught.value.diagnostics) == 1


def test_comments_and_line_ends() -> None:
    text = "; head\r\nfunc @f() ; name\r\n{\r\nbarrier ; }\r\n}\r\n; end"
    assert parse(text) == parse("func @f() { barrier }")


def test_spans() -> None:
    module = parse("func @f(%a: f32) {\n  %r = arith.add %a,\n    1.5 : f32\n}", "kernel.tl")
    (operation,) = module.functions[0].body
    assert str(operation.span) == "kernel.tl:2:3"
    assert (operation.span.end_line, operation.span.end_column) == (3, 14)
    assert str(operation.results[0].span) == "kernel.tl:2:3"
    assert str(operation.operands[0].span) == "kernel.tl:1:9"  # where %a is defined
    assert str(operation.operands[1].span) == "kernel.tl:3:5"


@pytest.mark.parametrize(
    "text",
    [
        "%r = group_idd",
        "%r = group_id1",
        "barrierbarrier",
        "%r = Group_id",
        f"axpby.n , 1.0, %A, 0.0, %B : f32, {M}, f32, {M}",
        f"gemm.n 1.0, %A, %B, 0.0, %C : {MMM}",
        f"gemm.n.atomic.t 1.0, %A, %B, 0.0, %C : {MMM}",
        f"gemm.high.n.t 1.0, %A, %B, 0.0, %C : {MMM}",
        f"ger.high 1.0, %v, %w, 0.0, %C : {VVM}",
        f"gemm.atomic.n.t.atomic 1.0, %A, %B, 0.0, %C : {MMM}",
        f"gemv 1.0, %A, %v, 0.0, %w : {MVV}",
        f"gemm.n 1.0, %A, %v, 0.0, %w : {MVV}",
        f"ger.n 1.0, %v, %w, 0.0, %C : {VVM}",
        "%r = arith.add 0X1p3, 1.0 : f32",
        "%r = arith.add 0x10, 1.0 : f32",
        "%r = arith.add %a, - 1 : f32",
        f"%r = load %A[true, 0] : {M}",
        f"%r = load %A[0.0, 0] : {M}",
        f"%r = expand %v[0 -> 4] : {V}",
        f"%r = expand %v[0 -> true x 4] : {V}",
        f"%r = subview %v[0:4:1] : {V}",
        "%_x = group_id",
        "%r, %t = group_id",
        "group_id",
        "yield %a f32",
        "func @g() {}",
        "%r = alloca memref<f32x4>",
        "%r = alloca -> f32",
        "%r = if %p -> (memref<f32>) { }",
        "%r = math.gamma %a : f32",
        "store %a : memref<f32>",
    ],
)
def test_rejected(text: str) -> None:
    message = rejected(text)
    assert "expected" in message or "unexpected" in message
    assert "<string>:2:" in message


@pytest.mark.parametrize("text", ["", " \n\t", "; nothing"])
def test_empty_program(text: str) -> None:
    with pytest.raises(TLSyntaxError, match="the program is empty"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "position", "message", "hint"),
    [
        ("func @f() { gem.n.n }", "1:13", "expected an instruction or '}', found the unknown word 'gem'", "gem"),
        ("func @f() { %x = lod %a }", "1:18", "found the unknown word 'lod'", "did you mean load?"),
        ("func @f(%a f32) {}", "1:12", "expected ':', found 'f32'", "the form is: func @name"),
        ("func @f(%a: f32x8) {}", "1:16", "expected ')', ',' or '{', found 'x'", "a tensor is written memref<"),
        ("func @f(%a: float) {}", "1:13", "expected a type, found the unknown word 'float'", "the type is written f32"),
        ("func @f() {", "1:12", "the program ends where an instruction or '}' is expected", "add }"),
        ("func @f() { group_id }", "1:13", "expected an instruction or '}'", "give its result a name: %i = group_id"),
        ("func @f() {\n  # text\n}", "2:3", "unexpected character '#'", "a comment starts with ;"),
        ("func @f() { \x00 }", "1:13", "unexpected character '\\x00'", None),
        ("func @f() {} }", "1:14", "found '}'", None),
        ("func @f(%a: memref<f32x4) {}", "1:25", "expected 'x', ',' or '>', found ')'", "memref<f32x16x?>"),
        ("func @f() { %a = arith.add 0X1p3, 1 : f32 }", "1:29", "unknown word 'X1p3'", "a small 0x"),
    ],
)
def test_syntax_diagnostics(text: str, position: str, message: str, hint: str | None) -> None:
    with pytest.raises(TLSyntaxError) as caught:
        parse(text, "kernel.tl")
    diagnostic = caught.value.diagnostics[0]
    assert str(diagnostic.span) == f"kernel.tl:{position}"
    assert message in diagnostic.message
    assert diagnostic.source_line is not None
    if hint is not None:
        assert hint in (diagnostic.hint or "")


def test_several_syntax_errors_in_one_run() -> None:
    text = "func @f() {\n  gemm.n\n  barrier\n  %x = lod\n  barrier\n}\nfun @g() {}\nfunc @h() { yeld }"
    with pytest.raises(TLSyntaxError) as caught:
        parse(text)
    assert [diagnostic.span.line for diagnostic in caught.value.diagnostics if diagnostic.span] == [2, 4, 7, 8]


def test_threads_share_the_grammar() -> None:
    with ThreadPoolExecutor(8) as pool:
        modules = list(pool.map(parse, [f"func @f{number}() {{ barrier }}" for number in range(64)]))
    assert [module.functions[0].name for module in modules] == [f"f{number}" for number in range(64)]
