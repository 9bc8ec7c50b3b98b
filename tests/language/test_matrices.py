"""Cooperative matrices in text and in the builder: what is written, and each rule with the place of its error."""

from __future__ import annotations

import json

import pytest

from tl_dpnp.errors import TLError, TLVerifyError, UnsupportedError
from tl_dpnp.language import FunctionBuilder, coopmatrix, memref, parse, print_module
from tl_dpnp.language.serialization import from_data, to_data
from tl_dpnp.scalars import C32, F16, F32, F64, I32, INDEX

ACC, A, B = (f"coopmatrix<f32x4x4,matrix_{use}>" for use in ("acc", "a", "b"))
PARAMETERS = (
    "%M: memref<f32x8x8>, %v: memref<f32x8>, %H: memref<f64x8x8>, %G: group<memref<f32x8x8>>, %f: f32, %i: index"
)
#: Values of which the instructions below are made.
VALUES = f"""
    %C = constant 0.0 : {ACC}
    %A = cooperative_matrix_load %M[%i, 0] : {A}
    %B = cooperative_matrix_load %M[0, %i] : {B}
    %Z = constant [1.0, 2] : coopmatrix<c32x4x4,matrix_acc>
    %N = constant 3 : coopmatrix<i32x4x4,matrix_acc>
"""
_MODIFIERS = ["", ".n", ".t", ".t.rows_checked", ".cols_checked", ".n.both_checked"]
INSTRUCTIONS = [
    *(f"%r = cooperative_matrix_load{modifiers} %M[%i, 2] : {A}" for modifiers in _MODIFIERS),
    *(f"cooperative_matrix_store{modifiers} %A, %M[%i, 2]" for modifiers in _MODIFIERS),
    f"%r = cooperative_matrix_atomic_load.t.rows_checked.device.acquire %M[%i, 2] : {ACC}",
    "cooperative_matrix_atomic_store.cols_checked.subgroup.release %C, %M[%i, 2]",
    *(f"%r = cooperative_matrix_atomic_{kind}.t.device.acquire_release %A, %M[%i, 2] : {A}"
      for kind in ("add", "max", "min")),
    "cooperative_matrix_prefetch 2, %M[%i, 2], 8, 16",
    f"%r = cooperative_matrix_construct %f : {B}", f"%r = cooperative_matrix_construct 1.5 : {B}",
    f"%r = constant 1 : {ACC}",
    f"%r = cooperative_matrix_mul_add %A, %B, %C : {ACC}",
    "%r = cooperative_matrix_mul_add %A, %B, %C : coopmatrix<f16x4x4,matrix_acc>",
    f"%r = cooperative_matrix_scale %f, %A : {A}", f"%r = cooperative_matrix_scale 2, %A : {A}",
    *(f"%r = cooperative_matrix_reduce_{kind}.{direction} %A : coopmatrix<f32x{shape},matrix_a>"
      for kind in ("add", "max", "min") for direction, shape in (("row", "4x1"), ("column", "1x4"))),
    f"%r = cooperative_matrix_apply (%k, %l, %m)=%A -> {A} {{ yield (%m) }}",
    f"%r = cooperative_matrix_apply (%k, %l, %m, %n)=%A,%N -> {A} {{ %o = cast %n : f32 yield (%o) }}",
    f"%r = cooperative_matrix_apply (%k, %l, %m)=%C -> {B} {{ yield (1.0) }}",
    "%r = cooperative_matrix_extract %A[0] : f32", f"%r = cooperative_matrix_insert %f, %A[0] : {A}",
    *(f"%r = {kind} %C, %C : {ACC}" for kind in ("add", "sub", "mul", "div", "rem", "min", "max")),
    *(f"%r = {kind} %N, %N : coopmatrix<i32x4x4,matrix_acc>" for kind in ("and", "or", "xor", "shl", "shr")),
    f"%r = neg %A : {A}", f"%r = abs %A : {A}", "%r = not %N : coopmatrix<i32x4x4,matrix_acc>",
    "%r = conj %Z : coopmatrix<c32x4x4,matrix_acc>", f"%r = re %Z : {ACC}", f"%r = im %Z : {ACC}",
    "%r = cast %A : coopmatrix<f64x4x4,matrix_a>", f"%r = cast %N : {B}", f"%r = bitcast %N : {A}",
    f"%r = for %k = 0, 3 init(%c=%C) -> ({ACC}) {{ yield (%c) }}",
    f"%p = equal %i, 0 : bool %r = if %p -> ({ACC}, f32) {{ yield (%C, %f) }} else {{ yield (%C, 1.0) }}".replace(
        "%r =", "%r, %s ="),
]


@pytest.mark.parametrize("text", INSTRUCTIONS)
def test_text_is_printed_and_read_again(text):
    module = parse(f"func @f({PARAMETERS}) attributes{{subgroup_size=4}} {{ parallel {{ {VALUES} {text} }} }}")
    assert parse(print_module(module)) == module
    assert from_data(json.loads(json.dumps(to_data(module)))) == module
    with pytest.raises(UnsupportedError, match="cannot say"):
        print_module(module, "0.3")


#: Text, part of the message, part of the hint.
MISTAKES = [
    ("%r = constant 0.0 : coopmatrix<f32x3x4,matrix_a>", "3 rows, which is no power of two", "write 2 or 4"),
    ("%r = constant 0.0 : coopmatrix<f32x0x4,matrix_a>", "0 rows", "1, 2, 4"),
    ("%r = constant 0.0 : coopmatrix<f32x4x0,matrix_a>", "0 columns", "at least 1"),
    ("%r = constant true : coopmatrix<boolx4x4,matrix_a>", "numbers of at least 8 bits", "write i8"),
    (f"%r = constant 1.5 : {ACC.replace('f32', 'i32')}", "1.5 is no value of i32", "integer"),
    (f"%r = cooperative_matrix_load %M[5, 0] : {A}", "4 elements from index 5 on end outside of mode 0",
     ".rows_checked"),
    (f"%r = cooperative_matrix_load.t %M[0, 5] : {A}", "outside of mode 1", ".rows_checked"),
    (f"%r = cooperative_matrix_load.rows_checked %M[0, -1] : {A}", "the index -1 of mode 1 is negative", "from 0 on"),
    (f"%r = cooperative_matrix_load %v[0] : {A}", "needs a memref of order 2", "subview of two modes"),
    (f"%r = cooperative_matrix_load %G[0, 0] : {A}", "needs a memref", "load one memref of the group"),
    (f"%r = cooperative_matrix_load %M[0] : {A}", "takes 2 indices, but 1 given", "one index for each mode"),
    (f"%r = cooperative_matrix_load %H[0, 0] : {A}", "elements of type f64, and the matrix components of f32", "f64"),
    ("cooperative_matrix_store %f, %M[0, 0]", "needs a cooperative matrix, but %f is a scalar of type f32", "name of"),
    (f"%r = cooperative_matrix_atomic_load.release %M[0, 0] : {A}", "cannot have .release semantics", ".acquire"),
    ("cooperative_matrix_prefetch -1, %M[0, 0], 1, 1", "the level of a prefetch is -1", "at least 0"),
    ("cooperative_matrix_prefetch 0, %M[0, 0], 0, 1", "a prefetch of 0 rows", "at least 1"),
    (f"%r = cooperative_matrix_mul_add %B, %A, %C : {ACC}", "%B has the use matrix_b, but matrix_a", "matrix_a"),
    (f"%r = cooperative_matrix_mul_add %A, %B, %C : {A}", "%r has the use matrix_a", "matrix_acc"),
    (f"%r = cooperative_matrix_mul_add %A, %B, %N : {ACC}", "%A has components of f32, which do not convert to i32",
     "cast %A"),
    ("%r = cooperative_matrix_mul_add %A, %B, %C : coopmatrix<f32x4x8,matrix_acc>", "the product is 4x4", "size"),
    (f"%r = cooperative_matrix_scale %i, %A : {A}", "%i has type index, but type f32 is needed", "cast"),
    (f"%r = cooperative_matrix_scale 2.0, %A : {ACC}", f"%r has type {A}, not {ACC}", f"write {A}"),
    (f"%r = cooperative_matrix_reduce_add.row %A : {A}", "%r has type coopmatrix<f32x4x1,matrix_a>", "write coop"),
    ("%r = cooperative_matrix_reduce_max.row %Z : coopmatrix<c32x4x1,matrix_acc>", "components of c32", "re and im"),
    (f"%r = cooperative_matrix_apply (%k, %l)=%A -> {A} {{ yield (1.0) }}", "has 2 names", "(%i, %j, %v)"),
    (f"%r = cooperative_matrix_apply (%k, %l, %m)=%A -> {B} {{ yield (%m) }}", "gives a matrix of type", "use a value"),
    (f"%r = cooperative_matrix_apply (%k, %l, %m)=%A -> {A} {{ yield (%k) }}", "%k has type i32", "cast %k"),
    (f"%r = cooperative_matrix_apply (%k, %l, %m)=%A -> {A} {{ }}", "does not end in a yield", "yield ... : f32"),
    (f"%r = cooperative_matrix_apply (%k, %l, %m)=%A -> {A} {{ barrier yield (%m) }}",
     "barrier stands inside a cooperative_matrix_apply", "move it out"),
    (f"%r = cooperative_matrix_apply (%k, %l, %m)=%A -> {A} {{ %n = add %A, %A : {A} yield (%m) }}",
     "stands inside a cooperative_matrix_apply", "parallel"),
    ("%r = cooperative_matrix_extract %A[4] : f32", "holds 4 components of %A, and has no 4", "from 0 to 3"),
    ("%r = cooperative_matrix_extract %A[-1] : f32", "there is no component -1", "from 0 on"),
    ("%r = cooperative_matrix_extract %A[0] : f64", "%r has type f32, not f64", "write f32"),
    (f"%r = add %A, %C : {A}", f"%C has type {ACC}, not {A}", f"use a value of type {A}"),
    (f"%r = add %A, 1.0 : {A}", "gives the constant no type", f"%matrix = constant 1.0 : {A}"),
    (f"%r = and %A, %A : {A}", "and works on integers", "cast"),
    (f"%r = exp %A : {A}", "exp works on scalars", "cooperative_matrix_apply"),
    ("%r = equal %A, %A : bool", "cmp.eq works on scalars", None),
    ("%r = cast %A : coopmatrix<f32x4x8,matrix_a>", "cast gives", "use a value of type coopmatrix<f32x4x8,matrix_a>"),
    (f"%r = cast %A : {B}", "cast gives", "matrix_acc"), ("%r = cast %A : f32", "gives one, not", "annotate"),
    (f"%r = re %A : {A}", "re works on complex numbers", "c32"),
]


@pytest.mark.parametrize(("text", "message", "hint"), MISTAKES)
def test_mistakes_have_a_place_and_a_hint(text, message, hint):
    source = f"func @f({PARAMETERS}) attributes{{subgroup_size=4}} {{ parallel {{ {VALUES}\n{text}\n }} }}"
    line = source.count("\n", 0, source.index(f"\n{text}\n") + 1) + 1
    with pytest.raises(TLError) as caught:
        parse(source)
    diagnostic = caught.value.diagnostics[0]
    assert message in diagnostic.message
    assert diagnostic.span.line == line
    assert hint in diagnostic.hint if hint else True


@pytest.mark.parametrize(("source", "message"), [
    (f"func @f(%A: {ACC}) {{ }}", "the parameter %A is a cooperative matrix"),
    (f"func @f(%M: memref<f32x8x8>) {{ %A = cooperative_matrix_load %M[0, 0] : {ACC} }}",
     "stands where the work-group acts as one"),
    (f"func @f() {{ %A = constant 1.0 : {ACC} %B = add %A, %A : {ACC} }}", "stands where the work-group acts as one"),
    (f"func @f() {{ foreach %k = 0, 4 {{ %A = constant 1.0 : {ACC} }} }}", "belong to single work-items"),
    (f"func @f() attributes{{subgroup_size=12}} {{ parallel {{ %A = constant 1.0 : {ACC} }} }}",
     "sub-groups of 12 work-items hold no"),
])
def test_places_where_there_are_no_matrices(source, message):
    with pytest.raises(TLError) as caught:
        parse(source)
    assert len(caught.value.diagnostics) == 1
    assert message in caught.value.diagnostics[0].message


def test_constants_may_stand_before_the_regions():
    module = parse(f"func @f(%M: memref<f32x8x8>) {{ %C = constant 1.0 : {ACC} parallel {{ "
                   "cooperative_matrix_store %C, %M[0, 0] } }")
    assert parse(print_module(module)) == module


def test_types_are_compile_time_variables():
    source = "func @f() {{ parallel {{ %A = constant 1.0 : {} }} }}"
    written = parse(source.format("coopmatrix<f32x8x4,matrix_b>"))
    assert parse("$t = coopmatrix<f32x8x4,matrix_b>\n" + source.format("$t")) == written
    assert parse("$t = f32 $n = 8\n" + source.format("coopmatrix<$t x $n x 4,matrix_b>")) == written


def test_the_builder_writes_the_same():
    b = FunctionBuilder("f", M=memref(F32, 8, 8), f=F32, i=INDEX, subgroup_size=4)
    a, other, acc = (coopmatrix(F32, 4, 4, f"matrix_{use}") for use in ("a", "b", "acc"))
    with b.parallel():
        C = b.cooperative_matrix_construct(0.0, acc)
        A = b.cooperative_matrix_load(a, b.M, b.i, 2, transpose=True, check="rows")
        B = b.cooperative_matrix_load(other, b.M, 0, b.i)
        with b.for_carrying([C], 0, 3) as loop:
            b.yield_(b.cooperative_matrix_mul_add(A, B, loop.carried[0]))
        D = b.cooperative_matrix_scale(b.f, b.add(loop.outputs[0], C))
        with b.cooperative_matrix_apply(D, A, type=a) as apply:
            b.yield_(b.mul(apply.components[0], b.cast(apply.row, F32)))
        E = b.cooperative_matrix_insert(b.cooperative_matrix_extract(apply.result, 0), apply.result, 1)
        b.cooperative_matrix_store(E, b.M, 0, 0, check="both")
        b.cooperative_matrix_prefetch(0, b.M, 0, 0, 8, 8)
        b.cooperative_matrix_atomic_store(b.cooperative_matrix_atomic_load(a, b.M, 0, 0), b.M, 4, 4)
        b.cooperative_matrix_atomic_add(E, b.M, 0, 4, scope="device")
        b.cooperative_matrix_reduce_max(E, "column")
        b.cast(b.math("max", C, C), coopmatrix(F64, 4, 4, "matrix_a"))
    module = b.build()
    assert parse(print_module(module)) == module


@pytest.mark.parametrize(("build", "message"), [
    (lambda b, A: b.add(A, 1.0), "1.0 is no coopmatrix"),
    (lambda b, A: b.cooperative_matrix_load(F32, b.M, 0, 0), "a cooperative matrix is needed"),
    (lambda b, A: b.cooperative_matrix_mul_add(A, A, A), "has the use matrix_acc, but matrix_a is needed"),
    (lambda b, A: coopmatrix(F16, 5, 4, "matrix_a"), "no power of two"),
    (lambda b, A: coopmatrix(C32, 4, 4, "a"), "there is no use 'a'"),
    (lambda b, A: b.cooperative_matrix_extract(b.cast(1, I32, source=I32), 0), "needs a cooperative matrix"),
])
def test_the_builder_refuses(build, message):
    b = FunctionBuilder("f", M=memref(F32, 8, 8))
    with b.parallel(), pytest.raises(TLVerifyError, match=message):
        build(b, b.cooperative_matrix_construct(1.0, coopmatrix(F32, 4, 4, "matrix_acc")))
