"""The dialects: each spelling of 0.4 means what that of 0.3 does, mixed in any way, and both are printed."""

from __future__ import annotations

import random
import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies.programs import programs
from tests.strategies.writer import ALL_TYPES, Features
from tl_dpnp.errors import TLError, TLVerifyError, UnsupportedError
from tl_dpnp.language import ops, parse, print_module, printer
from tl_dpnp.language.assembly import operand_text
from tl_dpnp.language.types import GroupType
from tl_dpnp.scalars import F32, I32, INDEX, SCALAR_TYPES

PARAMETERS = (
    "%a: f32, %b: f32, %i: index, %n: i32, %Z: c32, %p: bool, %A: memref<f32x4x4>, %v: memref<f32x4>, "
    "%w: memref<f32x4>, %s: memref<f32>, %D: memref<f32x4x4x?>, %E: memref<f32x8x6>, %G: group<memref<f32x4x?>>"
)
M, V, S = "memref<f32x4x4>", "memref<f32x4>", "memref<f32>"


def body(text, parameters=PARAMETERS):
    """Return the operations of a function body, after its round trips."""
    module = parse(f"func @f({parameters}) {{\n{text}\n}}")
    for dialect in ("0.3", "0.4"):
        assert parse(print_module(module, dialect)) == module
    return module.functions[0].body.operations


#: The same in 0.3 and in 0.4.
SPELLINGS = [
    *((f"%r = arith.{kind} %n, %n : i32", f"%r = {kind} %n, %n : i32") for kind in ops.ARITHMETIC),
    *((f"%r = arith.{kind} %n : i32", f"%r = {kind} %n : i32") for kind in ("neg", "not")),
    ("%r = arith.conj %Z : c32", "%r = conj %Z : c32"),
    ("%r = cmplx %a, 2.5 : f32 -> c32", "%c = constant 2.5 : f32 %r = cmplx %a, %c : c32"),
    *((f"%r = {word} %Z : c32 -> f32", f"%r = {word} %Z : f32") for word in ("re", "im")),
    *((f"%r = arith.{kind} %p, true : i1", f"%r = {kind} %p, true : bool") for kind in ("and", "or", "xor")),
    *((f"%r = math.{kind} %a : f32", f"%r = {kind} %a : f32")
      for kind in ("exp", "log", "exp2", "log2", "sin", "cos", "abs")),
    *((f"%r = math.{kind} %a, %b : f32", f"%r = {kind} %a, %b : f32") for kind in ("min", "max")),
    *((f"%r = cmp.{kind} %a, 1.5 : f32", f"%r = {word} %a, 1.5 : bool") for kind, word in ops.COMPARISONS.items()),
    ("%r = cmp.lt 2, %n : i32", "%c = constant 2 : i32 %r = less_than %c, %n : bool"),
    ("%r = cmp.ne %p, false : i1", "%r = not_equal %p, false : bool"),
    ("%r = cast %n : i32 -> f64", "%r = cast %n : f64"),
    ("%r = cast 1 : i32 -> f64", "%c = constant 1 : i32 %r = cast %c : f64"),
    (f"%r = size %A[1] : {M}", "%r = size %A[1] : index"),
    (f"store %a, %A[%i, 0] : {M}", "store %a, %A[%i, 0]"),
    (f"store 1, %A[%i, 3] : {M}", "%c = constant 3 : index store 1, %A[%i, %c]"),
    (f"store 1.5, %s[] : {S}", "%c = constant 1.5 : f32 store %c, %s[]"),
    ("%r = group_id", "%r = group_id.x : index"),
    ("%r = group_size", "%r = num_groups.x : index"),
    ("%t = alloca -> memref<f32x4,strided<2>>", "%t = alloca : memref<f32x4,strided<2>,local>"),
    ("barrier", "barrier.global"), ("barrier", "barrier.local.global"),
    (f"%r = load %A[0, %i] : {M}", "%r = load %A[0, %i] : f32"),
    ("%r = load %G[%i] : group<memref<f32x4x?>>", "%r = load %G[%i] : memref<f32x4x?>"),
    ("%r = load %G[%i] : group<memref<f32x4x?>>", "%r = load %G[%i] : group<memref<f32x4x?> x ?>"),
    ("%r = subview %D[:, :, %i] : memref<f32x4x4x?>", "%r = subview %D[:, 0:?, %i] : memref<f32x4x4>"),
    ("%r = subview %D[0:?, 0:?, %i] : memref<f32x4x4x?>", "%r = subview %D[0:?, :, %i] : memref<f32x4x4,global>"),
    ("%r = subview %E[1:?, 2:4] : memref<f32x8x6>", "%r = subview %E[1:?, 2:4] : memref<f32x7x4,strided<1,8>>"),
    ("%r = subview %E[1:?, 2:4] : memref<f32x8x6>", "%r = subview %E[1:?, 2:4] : memref<f32x7x4,strided<1,?>>"),
    (f"%r = subview %A[0:4, 0:4] : {M}", "%c = constant 0 : index %r = subview %A[%c:4, 0:4] : memref<f32x4x4>"),
    ("%r = subview %E[0, %i] : memref<f32x8x6>", "%r = subview %E[0:0, %i:0] : memref<f32>"),
    ("%r = subview %E[2:3, 5] : memref<f32x8x6>", "%r = subview %E[2:3, 5:0] : memref<f32x3>"),
    (f"%r = expand %v[0 -> 2 x ?] : {V}", "%r = expand %v[0 -> 2x?] : memref<f32x2x2>"),
    ("%r = expand %E[0 -> 2x%i] : memref<f32x8x6>", "%r = expand %E[0 -> 2 x %i] : memref<f32x2x?x6,strided<1,2,8>>"),
    (f"%r = fuse %A[0, 1] : {M}", "%r = fuse %A[0, 1] : memref<f32x16>"),
    ("for %k = 0, 4 { }", "%c0 = constant 0 : index %c4 = constant 4 : index for %k = %c0, %c4 { }"),
    ("for %k = 0, %n : i32 { }", "%c = constant 0 : i32 for %k = %c, %n { }"),
    ("for %k = %n, 9, 2 : i32 { }", "%c = constant 9 : i32 %d = constant 2 : i32 for %k = %n, %c, %d { }"),
    ("for %k = 0, 4 { }", "for %k=0,4 { } attributes{unroll=4, \"mine\"=[1, {}]}"),
    ("foreach %k = 0, 4 { }", "foreach (%k) = (0), (4) { }"),
    ("foreach %k = %n, 4 : i32 { }", "foreach (%k) = (%n), (4) { }"),
    ("if %p { yield }", "if %p { yield () }"),
    ("%r, %q = if %p -> (f32, i32) { yield %a, 2 : f32, i32 } else { yield 1, %n : f32, i32 }",
     "%c = constant 1.0 : f32 %r, %q = if %p -> (f32, i32) { yield (%a, 2) } else { yield (%c, %n) }"),
    ("%r = if true -> (i1) { yield %p : i1 } else { yield false : i1 }",
     "%c = constant true : bool %r = if %c -> (bool) { yield (%p) } else { yield (false) }"),
    (f"axpby.n 2.0, %A, 0.0, %A : f32, {M}, f32, {M}", "axpby 2, %A, 0, %A"),
    (f"axpby.t.atomic %a, %A, 1.0, %A : f32, {M}, f32, {M}", "axpby.atomic.t %a, %A, 1.0, %A"),
    (f"sum.n 2.0, %A, 0.0, %v : f32, {M}, f32, {V}", "%c = constant 0 : f32 sum 2.0, %A, %c, %v"),
    (f"gemv.n 1.0, %A, %v, 0.0, %w : f32, {M}, {V}, f32, {V}", "gemv 1.0, %A, %v, 0.0, %w"),
    (f"ger.atomic 1.0, %v, %w, 1.0, %A : f32, {V}, {V}, f32, {M}", "ger.atomic 1.0, %v, %w, 1.0, %A"),
    (f"hadamard 1.0, %v, %v, 0.0, %w : f32, {V}, {V}, f32, {V}", "hadamard_product 1.0, %v, %v, 0.0, %w"),
    *((f"gemm.{one}.{two}{word} %a, %A, %A, 0.0, %A : f32, {M}, {M}, f32, {M}", text + " %a, %A, %A, 0.0, %A")
      for one in "nt" for two in "nt" for word in ("", ".atomic", ".high", ".high.atomic")
      for text in (f"gemm.{one}.{two}{word}", *([f"gemm.{one}{word}"] if two == "n" else []),
                   *([f"gemm{word}"] if one == two == "n" else []))),
    (f"gemm.t.n.atomic 1.0, %A, %A, 0.0, %A : f32, {M}, {M}, f32, {M}", "gemm.atomic.t 1.0, %A, %A, 0.0, %A"),
]


@pytest.mark.parametrize(("older", "newer"), SPELLINGS)
def test_the_same_in_both_dialects(older, newer):
    assert body(older) == body(newer)


@pytest.mark.parametrize("text", ["{}", "subgroup_size=16", "work_group_size=[32, 2], subgroup_size=16", '"x"="y"'])
def test_function_attributes(text):
    inside = text.strip("{}")
    module = parse(f"func @f() attributes{{{inside}}} {{ }}")
    size, subgroup = ((32, 2) if "work" in text else None), (16 if "subgroup" in text else None)
    assert module.functions[0] == ops.Function("f", (), ops.Region(), size, subgroup)
    for dialect in ("0.3", "0.4"):
        assert parse(print_module(module, dialect)) == module


def test_a_named_constant_is_known_when_the_kernel_is_compiled():
    """It is checked as a literal is, and a beta of 0 leaves the output unread."""
    (sum,) = body("%c = constant 0 : f32 sum %a, %A, %c, %v")
    assert sum.output not in sum.reads
    with pytest.raises(TLError, match="the index 4 is out of bounds of mode 0"):
        body("%c = constant 4 : index %r = load %v[%c] : f32")
    with pytest.raises(TLError, match="integer division by zero"):
        body("%c = constant 0 : i32 %r = div %n, %c : i32")


def test_a_named_constant_belongs_to_its_region():
    first, second = body("if %p { %c = constant 1 : f32 store %c, %s[] } else { %c = constant 2 : f32 store %c, %s[] } "
                         "for %k = 0, 4 { %c = constant 3 : i32 %r = add %c, %n : i32 }")
    values = [operation.operands[0].value for region in (*first.regions, *second.regions) for operation in region]
    assert values == [1.0, 2.0, 3]
    with pytest.raises(TLError, match="%c is not defined"):
        body("if %p { %c = constant 1 : f32 } store %c, %s[]")


def test_a_size_that_a_constant_gives_is_known_but_may_be_annotated_as_open():
    text = ("%c = constant 2 : index %x = subview %v[0:%c] : memref<f32x?> "
            "%y = subview %x[0:1] : memref<f32x?> %z = subview %x[:] : memref<f32x?>")
    assert [str(operation.result.type) for operation in body(text)] == ["memref<f32x2>", "memref<f32x1>",
                                                                        "memref<f32x2>"]


def test_an_annotation_repeats_what_was_annotated():
    """Strides may be left open; older spellings name the operand's type as it was written, or as it is known."""
    for annotation in ("memref<f32x4x4,strided<1,?>>", V):
        _, second, _ = body(
            "%x = subview %E[0:4, 0:4] : memref<f32x4x4,strided<1,?>> "
            f"%y = subview %x[:, 0] : {annotation} "
            "axpby.n 1.0, %x, 0.0, %A : f32, memref<f32x4x4,strided<1,?>>, f32, memref<f32x4x4>"
        )
        assert str(second.result.type) == V


def test_a_slice_of_no_elements_removes_its_mode_in_the_newer_spelling_only():
    with pytest.raises(TLError, match="the size 0 of a slice is not positive"):
        body("%r = subview %E[2:3, 5:0] : memref<f32x8x6>")


def test_local_memory_is_told_by_newer_annotations_only():
    local = "%t = alloca : memref<f32x4x4,local> "
    assert body(f"{local} %x = subview %t[:, 0] : {M}") == body(f"{local} %x = subview %t[:, 0] : memref<f32x4,local>")
    assert body(f"{local} gemm.n.n 1.0, %t, %A, 0.0, %A : f32, {M}, {M}, f32, {M}")
    (text,) = (line for line in print_module(parse(f"func @f() {{ {local} %x = subview %t[:, 0] : {M} }}")).split("\n")
               if "subview" in line)
    assert text.endswith(": memref<f32x4,local>")


def test_the_length_of_a_group():
    module = parse("func @f(%G: group<memref<f32x4> x 3, offset: ?>, %i: index) { %x = load %G[%i] : memref<f32x4> }")
    assert module.functions[0].parameters[0].type.length == 3
    assert parse(print_module(module)) == module
    with pytest.raises(UnsupportedError, match="cannot say the length of group<"):
        print_module(module, "0.3")
    with pytest.raises(TLError, match="the index 3 is out of bounds of the group, whose length is 3"):
        parse("func @f(%G: group<memref<f32x4> x 3>) { %x = load %G[3] : memref<f32x4> }")


def test_the_size_of_a_group():
    module = parse("func @f(%G: group<memref<f32x4>>, %o: memref<index>) { %n = size %G[0] : index store %n, %o[] }")
    assert parse(print_module(module)) == module
    with pytest.raises(UnsupportedError, match="cannot say the size of a group"):
        print_module(module, "0.3")


@pytest.mark.parametrize("kind", ["exp", "log", "exp2", "log2", "sin", "cos"])
def test_native_functions(kind):
    module = parse(f"func @f(%a: f64) {{ %r = native_{kind} %a : f64 }}")
    (operation,) = module.functions[0].body
    assert operation.function == kind
    assert parse(print_module(module)) == module
    with pytest.raises(UnsupportedError, match=f"cannot say native_{kind}"):
        print_module(module, "0.3")
    with pytest.raises(TLError, match=f"it stands alone: %b = native_{kind} %a : f32"):
        parse(f"func @f(%a: f64) {{ %r = math.native_{kind} %a : f64 }}")


@pytest.mark.parametrize("alpha", ["2.0", "%a"])
@pytest.mark.parametrize("atomic", ["", ".atomic"])
def test_cumulative_sums(alpha, atomic):
    module = parse(f"func @f({PARAMETERS}) {{ cumsum{atomic} {alpha}, %A, 1, 0, %A }}")
    (operation,) = module.functions[0].body
    assert (operation.mode, operation.beta, operation.atomic) == (1, ops.Constant(0.0, F32), bool(atomic))
    assert parse(print_module(module)) == module
    with pytest.raises(UnsupportedError, match="cannot say cumsum"):
        print_module(module, "0.3")


@pytest.mark.parametrize(("order", "letter"), [(1, "A"), (27, "a"), (64, "$")])
def test_sizes_of_cumulative_sums_have_names(order, letter):
    """A mode of any number has one, and no transpose is advised where there are none."""
    given, other = ("".join(f"x{size}" for size in (*[1] * (order - 1), last)) for last in (2, 3))
    with pytest.raises(TLVerifyError) as caught:
        parse(f"func @f(%A: memref<f32{given}>, %B: memref<f32{other}>) {{ cumsum 1.0, %A, 0, 0.0, %B }}")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == f"the shapes do not fit: {letter} is 2 in %A but 3 in %B"
    assert diagnostic.hint.endswith("; change a size")


ATOMICS = [
    "%r = atomic_load%s %A[%i, 0] : f32", "atomic_store%s 1.0, %A[%i, 0]", "%r = atomic_add%s %a, %A[%i, 0] : f32",
    "%r = atomic_min%s %a, %A[%i, 0] : f32", "%r = atomic_max%s %a, %A[%i, 0] : f32",
]


@pytest.mark.parametrize("text", ATOMICS)
@pytest.mark.parametrize("modifiers", [
    "", ".device", ".sequentially_consistent", ".cross_device.sequentially_consistent", ".work_group.relaxed",
])
def test_atomic_accesses(text, modifiers):
    module = parse(f"func @f({PARAMETERS}) {{ {text.replace('%s', modifiers)} }}")
    (operation,) = module.functions[0].body
    expected = [".cross_device" in modifiers, ".device" in modifiers, "sequentially" in modifiers]
    assert [operation.scope == "cross_device", operation.scope == "device", operation.is_ordered] == expected
    printed = print_module(module)
    assert parse(printed) == module
    assert (modifiers in printed) is (modifiers != ".work_group.relaxed")
    with pytest.raises(UnsupportedError, match=f"cannot say {operation.mnemonic}"):
        print_module(module, "0.3")


@pytest.mark.parametrize("word", ["group_id", "num_groups"])
@pytest.mark.parametrize("axis", ["x", "y", "z"])
def test_axes_of_a_launch(word, axis):
    module = parse(f"func @f() {{ %r = {word}.{axis} : index }}")
    (operation,) = module.functions[0].body
    assert (type(operation), operation.axis) == ({"group_id": ops.GroupId, "num_groups": ops.GroupSize}[word], axis)
    assert f"%r = {word}.{axis} : index" in print_module(module)
    assert parse(print_module(module)) == module
    if axis == "x":
        assert parse(print_module(module, "0.3")) == module
    else:
        with pytest.raises(UnsupportedError, match=f"the dialect 0.3 cannot say {word}.{axis}"):
            print_module(module, "0.3")


@pytest.mark.parametrize(("source", "target", "hint"), [
    ("f32", "f32", "the bits of f32 are those of i32"), ("i16", "f32", "the bits of i16 are those of f16 and bf16"),
    ("u32", "f32", None), ("index", "f64", None), ("f64", "i32", "those of i64"), ("c64", "i64", None),
    ("i64", "i64", "those of f64 and c32"), ("i1", "i16", None),
])
def test_bits_of_other_types_are_refused(source, target, hint):
    with pytest.raises(TLError, match=f"there is no bitcast from {source} to {target}") as caught:
        parse(f"func @f(%a: {source}) {{ %b = bitcast %a : {target} }}")
    given = caught.value.diagnostics[0].hint
    assert given is None if hint is None else hint in given


@pytest.mark.parametrize("word", ["re", "im"])
def test_parts_of_complex_numbers_annotate_the_result(word):
    module = parse(f"func @f(%z: c64) {{ %r = {word} %z : f64 %s = {word} %z : c64 -> f64 %w = conj %z : c64 }}")
    newer, older, conjugate = module.functions[0].body
    assert type(newer) is type(older) is {"re": ops.Re, "im": ops.Im}[word]
    assert newer.result.type == older.result.type == SCALAR_TYPES["f64"]
    assert (conjugate.kind, conjugate.result.type) == ("conj", SCALAR_TYPES["c64"])
    assert f"%r = {word} %z : f64" in print_module(module)
    assert f"%r = {word} %z : c64 -> f64" in print_module(module, "0.3")
    assert parse(print_module(module)) == parse(print_module(module, "0.3")) == module


@pytest.mark.parametrize(("constant", "type"), [("[3.0, -4.0]", "f32"), ("[0.0, -0.0]", "f64"), ("[nan, inf]", "f32")])
def test_the_modulus_of_a_constant_makes_the_round_trip(constant, type):
    """A constant with two parts is complex where the modulus is annotated, as a value is."""
    whole = {"f32": "c32", "f64": "c64"}[type]
    module = parse(f"func @f() {{ %k = constant {constant} : {whole}\n%b = abs %k : {type} }}")
    assert parse(f"func @f() {{ %b = math.abs {constant} : {type} }}") == module
    for dialect in ("0.3", "0.4"):
        assert parse(print_module(module, dialect)) == module
    for other in ("i32", whole, "f16"):
        with pytest.raises(TLVerifyError):
            parse(f"func @f() {{ %b = math.abs {constant} : {other} }}")


@pytest.mark.parametrize(("text", "message", "hint"), [
    ("re %x : f64", "re works on complex numbers, not on f64", "use c32 or c64"),
    ("cmplx %x, %x : f64", "cmplx makes complex numbers, not", "use c32 or c64"),
    ("cmplx %x, %x : c32", "cmplx", "cast"),
    ("im %z : f32", "im of c64 is not of type f32", "the parts of c64 are of type f64"),
    ("conj %x : f64", "arith.conj works on complex numbers, not on f64", "its own conjugate"),
    ("re [1, 2] : f64", "the constant has no type here", "constant"),
])
def test_parts_of_other_types_are_refused(text, message, hint):
    with pytest.raises(TLError, match=message) as caught:
        parse(f"func @f(%x: f64, %z: c64) {{ %b = {text} }}")
    assert hint in caught.value.diagnostics[0].hint


def test_carried_values():
    text = "%x, %y = for %k = 0, %n : i32 init(%x=%a, %y=1) -> (f32, i32) { %z = add %y, %k : i32 yield (%x, %z) }"
    module = parse(f"func @f({PARAMETERS}) {{ {text} }}")
    (loop,) = module.functions[0].body
    assert [value.type for value in (*loop.outputs, *loop.carried)] == [F32, I32, F32, I32]
    assert loop.initial[1] == ops.Constant(1, I32)
    assert parse(print_module(module)) == module
    with pytest.raises(UnsupportedError, match="cannot say the values that a for loop carries"):
        print_module(module, "0.3")


def test_unnamed_results_of_a_loop():
    module = parse(f"func @f({PARAMETERS}) {{ for %k = 0, 4 init(%x=%a) -> (f32) {{ yield (%x) }} }}")
    assert parse(print_module(module)) == module


def test_no_such_dialect():
    with pytest.raises(ValueError, match=re.escape("there is no dialect '0.2'; there are 0.3, 0.4")):
        print_module(parse("func @f() { }"), "0.2")


def test_what_is_printed_is_the_newest_dialect():
    text = """\
func @f(%A: memref<f32x4x4>, %n: index, %p: bool, %G: group<memref<f32x4> x ?>) attributes{subgroup_size=16} {
  %0 = alloca : memref<f32x4,local>
  %c0 = constant 0 : index
  %c1 = constant 2 : index
  for %i = %c0, %n, %c1 {
    %r, %s = if %p -> (f32, bool) {
      %1 = load %A[%i, %c0] : f32
      yield (%1, %p)
    } else {
      %c2 = constant 0.5 : f32
      %c3 = constant false : bool
      yield (%c2, %c3)
    }
  }
  %g = group_id.x : index
  %2 = load %G[%g] : memref<f32x4>
  %c4 = constant 1.0 : f32
  %c5 = constant 0.0 : f32
  sum.atomic %c4, %A, %c5, %0
  lifetime_stop %0
}
"""
    assert print_module(parse(text)) == text


class _Mixed(printer._Newer):
    """Writes each operation in one dialect or the other, and constants with and without names."""

    newer = False

    def __init__(self, function, rng):
        super().__init__(function)
        self.rng = rng

    def operand(self, operand):
        if isinstance(operand, ops.Constant) and not self.newer and self.rng.random() < 0.7:
            return operand_text(operand)
        return super().operand(operand)

    def type(self, type, is_local=False):
        return super().type(type, is_local) if self.newer else str(type)


class _MixedLines(printer._Lines):
    def operation(self, operation, indent):
        is_newer = operation.is_newer or any(isinstance(operand.type, GroupType) for operand in operation.operands)
        self.writing.newer = is_newer or self.writing.rng.random() < 0.5
        yield from super().operation(operation, indent)


@given(programs(Features(types=ALL_TYPES)), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_programs_in_each_dialect_and_mixed(program, seed):
    module = program.module
    dialects = ["0.4"]
    with suppress(UnsupportedError):
        print_module(module, "0.3")
        dialects.append("0.3")
    for dialect in dialects:
        text = print_module(module, dialect)
        assert parse(text) == module
        assert print_module(parse(text), dialect) == text
    text = "\n".join(_MixedLines(_Mixed(program.function, random.Random(seed))).function(program.function))
    assert parse(text) == module


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_carried_values_make_the_round_trip(seed):
    rng = random.Random(seed)
    types = [rng.choice([F32, I32, INDEX]) for _ in range(rng.randint(1, 4))]
    names = {F32: "%a", I32: "%n", INDEX: "%i"}
    initial = ", ".join(f"%x{place}={rng.choice([names[type], '1'])}" for place, type in enumerate(types))
    order = rng.sample(range(len(types)), len(types))
    yielded = [place if types[place] == types[other] else other for other, place in enumerate(order)]
    text = (f"{', '.join(f'%x{place}' for place in range(len(types)))} = for %k = 0, %i init({initial}) -> "
            f"({', '.join(map(str, types))}) {{ yield ({', '.join(f'%x{place}' for place in yielded)}) }}")
    module = parse(f"func @f({PARAMETERS}) {{ {text} }}")
    assert parse(print_module(module)) == module


@pytest.mark.parametrize("type", ["memref<f32x8x?,strided<1,?>>", "group<memref<f32x8x?> x ?>"])
@pytest.mark.parametrize("attributes", [
    "{alignment=64}", "{shape_gcd=[4, 2]}", "{stride_gcd=[1, 4]}", '{alignment=4, shape_gcd=[8], "mine"=[1]}', "{}",
])
def test_attributes_of_parameters(type, attributes):
    module = parse(f"func @f(%A: {type} {attributes}) {{ }}")
    assert len(module.functions[0].assertions) == (attributes != "{}")
    assert parse(print_module(module)) == module
    if attributes != "{}":
        assert module != parse(f"func @f(%A: {type}) {{ }}")
        with pytest.raises(UnsupportedError, match="cannot say the attributes of %A"):
            print_module(module, "0.3")


def test_attributes_of_temporaries():
    module = parse("func @f() { %t = alloca {alignment=64} : memref<f32x4,local> %u = alloca : memref<f32x4,local> }")
    aligned, plain = module.functions[0].body
    assert (aligned.alignment, plain.alignment) == (64, None)
    assert parse(print_module(module)) == module
    with pytest.raises(UnsupportedError, match=r"cannot say alloca \{alignment=64\}"):
        print_module(module, "0.3")


@pytest.mark.parametrize(("parameter", "message"), [
    ("%A: memref<f32x8> {alignment=6}", "the alignment 6 is no multiple of the 4 bytes of an element of f32"),
    ("%A: memref<f32x8> {alignment=0}", "the alignment 0 is no multiple"),
    ("%A: memref<f32x8> {alignment=[8]}", "the attribute alignment of a memref or group has no such value"),
    ("%A: memref<f32x8> {shape_gcd=[3]}", "shape_gcd says that the size of mode 0 is a multiple of 3, .* it is 8"),
    ("%A: memref<f32x8x?> {stride_gcd=[1, 5]}", "the stride of mode 1 is a multiple of 5, and in .* it is 8"),
    ("%A: memref<f32x8> {shape_gcd=[8, 8]}", "shape_gcd has 2 numbers, and memref<f32x8> has 1 mode"),
    ("%A: memref<f32x?> {shape_gcd=[0]}", "shape_gcd has a number below 1"),
    ("%A: group<memref<f32x8> x ?> {stride_gcd=[2]}", "the stride of mode 0 is a multiple of 2, and in .* it is 1"),
    ("%A: f32 {alignment=4}", "alignment is no attribute of a scalar"),
    ("%A: memref<f32x8> {unroll=4}", "unroll is no attribute of a memref or group"),
])
def test_assertions_that_cannot_hold(parameter, message):
    with pytest.raises(TLVerifyError, match=message):
        parse(f"func @f({parameter}) {{ }}")


def test_a_static_stride_of_a_mode_of_one_element_may_be_any():
    parse("func @f(%A: memref<f32x1x8,strided<1,8>> {stride_gcd=[4, 4]}) { }")


@pytest.mark.parametrize(("attribute", "message"), [
    ("alignment=256", "more than 128 bytes"), ("alignment=2", "no multiple of the 4 bytes"),
    ("shape_gcd=[1]", "shape_gcd is no attribute of an alloca"), ("alignment=true", "has no such value"),
])
def test_alignments_that_temporary_memory_cannot_have(attribute, message):
    with pytest.raises(TLVerifyError, match=message):
        parse(f"func @f() {{ %t = alloca {{{attribute}}} : memref<f32x4,local> }}")


def test_associated():
    module = parse("func @f(%A: memref<f32x4>, %G: group<memref<f32x4> x ?>) { %a = associated %A : bool "
                   "%g = associated %G : bool }")
    assert [type(operation) for operation in module.functions[0].body] == [ops.Associated] * 2
    assert parse(print_module(module)) == module
    with pytest.raises(UnsupportedError, match="cannot say associated"):
        print_module(module, "0.3")
    with pytest.raises(TLVerifyError, match="associated asks for a memref or a group"):
        parse("func @f(%a: f32) { %b = associated %a : bool }")
