"""The verifier: a malformed program for each rule, the place of its diagnostic, and no error beside the one meant."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from tl_dpnp.errors import TLSyntaxError, TLVerifyError
from tl_dpnp.language import FunctionBuilder, memref, ops, parse, verify
from tl_dpnp.language.ops import Constant, Function, Module, Region, Value
from tl_dpnp.language.types import MemrefType
from tl_dpnp.scalars import F32, I1, I8, I32, INDEX

M, V, S = "memref<f32x4x4>", "memref<f32x4>", "memref<f32>"
R = "memref<f32x4x8>"
PARAMETERS = (
    "%a: f32, %h: f64, %i: index, %k: i64, %n: i32, %u: u32, %p: i1, %z: c32, %A: memref<f32x4x4>, "
    "%R: memref<f32x4x8>, %v: memref<f32x4>, %s: memref<f32>, %t: memref<f32x2x2x2>, %D: memref<f32x?x4>, "
    "%H: memref<f64x4x4>, %P: memref<i1x4>, %Q: memref<i8x4>, %I: memref<i32x4>, %U: memref<u32x4>, "
    "%G: group<memref<f32x4x4>>"
)

#: Text of a body, column of the error in the first line, part of its message, part of its hint.
CASES = [
    # names
    ("%x = arith.add %y, %a : f32", 16, "%y is not defined", "define it before"),
    ("%x = load %AA[0, 0] : memref<f32x4x4>", 11, "%AA is not defined", "did you mean %A?"),
    ("%x = arith.add %x, %a : f32", 16, "%x is not defined", "line 2 defines it, once it is done: define it before"),
    ("%y = arith.neg %x : f32\n%x = arith.neg %a : f32", 16, "%x is not defined", "line 3 defines it, behind its use"),
    ("%y = arith.neg %x : f32 %x = arith.neg %a : f32", 16, "%x is not defined", "line 2 defines it, behind its use"),
    ("for %e = 0, 4 { %x = neg %a : f32 } store %x, %s[] : memref<f32>", 43, "%x is not defined",
     "line 2 defines it, inside the for: define it before"),
    ("for %e = 0, %e { }", 13, "%e is not defined", "line 2 defines it, inside the for: define it before"),
    ("%1 = arith.neg %a : f32 %x = arith.add %a, %12 : f32", 44, "%12 is not defined", "define it before this line"),
    ("%aa1 = neg %a : f32 %aa2 = size %v[0] : memref<f32x4> %x = load %v[%aa] : memref<f32x4>", 68,
     "%aa is not defined", "did you mean %aa2?"),
    ("%vec = size %v[0] : memref<f32x4> %x = load %vecs[0] : memref<f32x4>", 45, "%vecs is not defined",
     "define it before this line"),
    ("%a = group_id", 1, "%a is already defined in line 1", "a name of its own"),
    ("for %a = 0, 4 { }", 5, "%a is already defined in line 1", None),
    ("if %p { %A = group_id }", 9, "%A is already defined in line 1", None),
    ("for %e = 0, 4 { for %e = 0, 4 { } }", 21, "%e is already defined in line 2", None),
    (
        "if %p { %e = group_id } %f = size %v[0] : memref<f32x4> %g = arith.add %e, 1 : index",
        72,
        "%e is not defined",
        None,
    ),
    # annotations
    ("%x = arith.add %a, %n : f32", 25, "%n has type i32, not f32", "write %f32_n = cast %n"),
    ("%x = load %A[0, 0] : memref<f32x4x5>", 22, "%A has type memref<f32x4x4>, not memref<f32x4x5>", "memref<f32x4x4>"),
    ("%x = load %A[0, 0] : memref<f32x4x4,strided<1,5>>", 22, "%A has type memref<f32x4x4>", None),
    ("%x = cast %n : i64 -> f32", 16, "%n has type i32, not i64", None),
    ("%x = cmp.lt %n, 1 : f32", 21, "%n has type i32, not f32", None),
    # constants
    ("%x = arith.add %n, 1.5 : i32", 20, "1.5 is no value of i32", None),
    ("%x = cast 300 : i8 -> i32", 11, "the constant 300 is out of range of i8", "-128 to 127"),
    ("store 1e60, %v[0] : memref<f32x4>", 7, "is out of range of f32", "the largest value"),
    # arithmetic
    ("%x = arith.shl %a, %a : f32", 1, "arith.shl works on integers, not on f32", None),
    ("%x = arith.and %a, %a : f32", 1, "arith.and works on integers and i1, not on f32", None),
    (
        "%x = arith.add %p, true : i1",
        1,
        "arith.add works on integers, floats and complex numbers, not on i1",
        "arith.and",
    ),
    ("%x = arith.rem %z, %z : c32", 1, "arith.rem works on integers and floats, not on c32", None),
    ("%x = arith.neg %p : i1", 1, "arith.neg works on", "arith.not"),
    ("%x = arith.not %a : f32", 1, "arith.not works on integers and i1, not on f32", None),
    ("%x = arith.div %n, 0 : i32", 20, "integer division by zero", "other than 0"),
    ("%x = rem %u, 0 : u32", 14, "integer division by zero", None),
    ("%x = math.exp %n : i32", 1, "math.exp works on floats and complex numbers, not on i32", None),
    ("%x = math.fma %a, %a : f32", 19, "math.fma takes 3 operands, but 2 given", None),
    ("%x = cmp.lt %z, %z : c32", 1, "complex numbers have no order", "cmp.eq"),
    ("%x = cast %z : c32 -> f32", 11, "imaginary part", None),
    # types
    ("%x = alloca -> memref<f32x0>", 27, "the size of mode 0 is 0", "at least 1"),
    ("%x = alloca -> memref<f32x-4>", 27, "the size of mode 0 is -4", None),
    ("%x = alloca -> memref<f32x4x4,strided<1>>", 16, "the layout has 1 stride but the shape has 2 modes", None),
    ("%x = alloca -> memref<f32x4x4,strided<0,4>>", 39, "the stride of mode 0 is 0", None),
    ("%x = alloca -> memref<f32x4x4,strided<1,3>>", 41, "the stride 3 of mode 1 is below 4", "at least 4"),
    ("%x = alloca -> memref<f32x9223372036854775807x4>", 16, "more than 2^63 - 1 bytes", None),
    ("%x = alloca -> memref<f32x9223372036854775808>", 27, "is out of range", None),
    (f"%x = alloca -> memref<f32{'x1' * 65}>", 16, "the memref has 65 modes", "at most 64"),
    ("%x = alloca -> memref<f32x?>", 16, "which has a dynamic mode", "constant"),
    ("%x = alloca -> memref<f32x4x4,strided<1,?>>", 16, "which has a dynamic stride", None),
    # load, store
    (f"%x = load %A[0] : {M}", 11, "takes 2 indices, but 1 given", "one index for each mode"),
    (f"%x = load %A[4, 0] : {M}", 14, "the index 4 is out of bounds of mode 0, whose size is 4", "from 0 to 3"),
    (f"%x = load %A[0, -1] : {M}", 17, "the index -1 of mode 1 is negative", None),
    (f"%x = load %A[%n, 0] : {M}", 14, "an index must have type index, but %n has type i32", "cast %n : i32 -> index"),
    (f"%x = load %A[0, %k] : {M}", 17, "an index must have type index, but %k has type i64", None),
    (f"%x = load %G[0, 0] : group<{M}>", 17, "a group takes one index, but 2 are given", None),
    (f"%x = load %G[-1] : group<{M}>", 14, "the index -1 is negative", None),
    (f"%x = load %G[0] : {V}", 19, f"{V} is neither the type of %G nor that of %x", M),
    (f"store %h, %A[0, 0] : {M}", 7, "%h has type f64, but type f32 is needed", "cast %h : f64 -> f32"),
    (f"store %a, %A[0, 4] : {M}", 17, "the index 4 is out of bounds of mode 1", None),
    (f"store %a, %A[0] : {M}", 11, "takes 2 indices, but 1 given", None),
    # views
    (f"%x = size %A[2] : {M}", 14, "mode 2 is out of range", "from 0 to 1"),
    ("%x = size %G[1] : index", 14, "mode 1 is out of range of a group", "write mode 0"),
    (f"%x = size %s[0] : {S}", 14, "mode 0 is out of range", "no modes"),
    (f"%x = size %A[9223372036854775808] : {M}", 14, "is out of range", None),
    (f"%x = expand %v[1 -> 2x2] : {V}", 16, "mode 1 is out of range", None),
    (f"%x = expand %v[0 -> 2x3] : {V}", 21, "multiply to 6, but mode 0 has size 4", None),
    (f"%x = expand %v[0 -> 3x?] : {V}", 21, "3 does not divide 4", None),
    (f"%x = expand %v[0 -> 3 x %i] : {V}", 21, "3 does not divide 4", None),
    (f"%x = expand %v[0 -> ?x?] : {V}", 1, "at most one size", None),
    (f"%x = expand %v[0 -> 0x4] : {V}", 21, "the size 0 of expand is not positive", None),
    (f"%x = expand %v[0 -> %n x 4] : {V}", 21, "a size of expand must have type index", None),
    (f"%x = fuse %A[0, 2] : {M}", 17, "mode 2 is out of range", None),
    (f"%x = fuse %A[1, 1] : {M}", 17, "fuse needs rising modes", None),
    (f"%x = fuse %A[1, 0] : {M}", 17, "fuse needs rising modes", None),
    (f"%x = subview %A[0] : {M}", 14, "takes 2 entries, but 1 given", None),
    (f"%x = subview %A[4, :] : {M}", 17, "the index 4 is out of bounds", None),
    (f"%x = subview %A[0:0, :] : {M}", 19, "the size 0 of a slice is not positive", None),
    (f"%x = subview %A[%i:-1, :] : {M}", 20, "the size -1 of a slice is not positive", None),
    (f"%x = subview %A[2:4, :] : {M}", 19, "the slice ends at 6, out of bounds of mode 0", "offset : size"),
    (f"%x = subview %A[%i:5, :] : {M}", 20, "the slice ends at 5, out of bounds", None),
    (f"%x = subview %A[-1:2, :] : {M}", 17, "the offset -1 of mode 0 is negative", None),
    (f"%x = subview %A[4:?, :] : {M}", 17, "the offset 4 leaves nothing of mode 0", None),
    (f"%x = subview %A[%n:2, :] : {M}", 17, "an offset must have type index", None),
    # control
    ("if %a { }", 4, "the condition must have type i1, but has type f32", "comparison"),
    ("for %x = 0, 4, 0 { }", 16, "the step of a for loop is 0", "at least 1"),
    ("for %x = 0, 4, -1 : i32 { }", 16, "the step of a for loop is -1", None),
    ("for %x = 0, 4 : f32 { }", 17, "the variable of a loop has type f32", None),
    ("for %x = 0, %n { }", 13, "%n has type i32, not index", None),
    ("foreach %x = 0, 300 : i8 { }", 17, "the constant 300 is out of range of i8", None),
    ("%x = if %p -> (f32) { yield %a : f32 }", 1, "an if that returns values has no else", "add else"),
    ("%x = if %p -> (f32) { } else { yield %a : f32 }", 1, "the then region of an if that returns", "yield ... : f32"),
    ("%x = if %p -> (f32) { yield %a : f32 } else { }", 1, "the else region of an if that returns", None),
    (
        "%x = if %p -> (f32) { yield %n : i32 } else { yield %a : f32 }",
        29,
        "%n has type i32, but the if returns f32",
        None,
    ),
    ("%x = if %p -> (f32) { yield } else { yield %a : f32 }", 23, "yield gives 0 values, but its if returns 1", None),
    ("%x = if %p -> (f32) { yield %a : f32 barrier } else { yield %a : f32 }", 23, "yield is not the last", None),
    (
        "%x = if %p -> (f32) { yield %a, %a : f32 } else { yield %a : f32 }",
        23,
        "yield names 2 values but 1 type",
        None,
    ),
    ("%x = if %p { }", 6, "the if returns 0 values, but has 1 name before it", None),
    ("%x = if %p -> () { }", 6, "the if returns 0 values, but has 1 name before it", None),
    ("if %p -> (f32) { yield %a : f32 } else { yield %n : i32 }", 48, "%n has type i32, but the if returns f32", None),
    ("if %p -> (f32) { yield %a : f32 } else { }", 1, "the else region of an if that returns values does not", None),
    ("if %p -> (f32) { yield %a : f32 }", 1, "an if that returns values has no else", None),
    ("if %p { yield %a : f32 }", 9, "yield gives 1 value, but its if returns 0", "leave it out"),
    ("yield", 1, "yield stands in the body of a function", None),
    ("foreach %x = 0, 4 { yield }", 21, "yield stands in the body of a foreach", None),
    ("for %x = 0, 4 { yield %a : f32 }", 17, "yield gives 1 value, but its for returns 0", None),
    # collective instructions
    (
        f"foreach %x = 0, 4 {{ axpby.n 1.0, %A, 0.0, %A : f32, {M}, f32, {M} }}",
        21,
        "instruction axpby stands inside a",
        "for",
    ),
    (
        "foreach %x = 0, 4 { if %p { for %y = 0, 4 { barrier } } }",
        45,
        "instruction barrier stands inside a foreach",
        None,
    ),
    ("foreach %x = 0, 4 { foreach %y = 0, 4 { } }", 21, "instruction foreach stands inside a foreach", None),
    ("foreach %x = 0, 4 { %y = alloca -> memref<f32> }", 21, "instruction alloca stands inside a foreach", None),
    # lifetimes
    ("lifetime_stop %A", 15, "%A is not the result of an alloca", None),
    (
        f"%x = alloca -> {M} %y = fuse %x[0,1] : {M} lifetime_stop %y",
        82,
        "%y is not the result of an alloca",
        "stop %x",
    ),
    (f"%x = alloca -> {M} lifetime_stop %x lifetime_stop %x", 63, "%x is used after its lifetime_stop", None),
    (f"%x = alloca -> {M} lifetime_stop %x %y = load %x[0, 0] : {M}", 59, "%x is used after its lifetime_stop", None),
    (
        f"%x = alloca -> {M} %y = fuse %x[0,1] : {M} lifetime_stop %x %z0 = load %y[0] : memref<f32x16>",
        96,
        "%y, a view of %x, is used after its lifetime_stop",
        "behind the last use",
    ),
    (f"%x = alloca -> {M} for %y = 0, 4 {{ lifetime_stop %x }}", 62, "in another region than that of its alloca", None),
    # linear algebra
    (f"gemm.n.n 1.0, %A, %R, 0.0, %A : f32, {M}, {R}, f32, {M}", 28, "N is 8 in %R but 4 in %A", "MxK, KxN -> MxN"),
    (f"gemm.n.t 1.0, %A, %R, 0.0, %A : f32, {M}, {R}, f32, {M}", 19, "K is 4 in %A but 8 in the transpose of %R", None),
    (f"gemm.t.n 1.0, %R, %A, 0.0, %A : f32, {R}, {M}, f32, {M}", 28, "M is 8 in the transpose of %R but 4 in %A", None),
    (
        f"gemm.n.n 1.0, %A, %v, 0.0, %A : f32, {M}, {V}, f32, {M}",
        19,
        "needs a matrix (order 2) here, but %v is a memref",
        None,
    ),
    (f"gemm.n.n 1.0, %A, %A, 0.0, %a : f32, {M}, {M}, f32, f32", None, "expected a memref type", None),
    (f"gemv.n 1.0, %R, %v, 0.0, %v : f32, {R}, {V}, f32, {V}", 17, "K is 8 in %R but 4 in %v", None),
    (f"ger 1.0, %v, %v, 0.0, %R : f32, {V}, {V}, f32, {R}", 23, "N is 4 in %v but 8 in %R", None),
    ("cumsum 1.0, %A, 2, 0.0, %A", 17, f"mode 2 is out of range of {M}", "write a mode from 0 to 1"),
    ("cumsum 1.0, %A, -1, 0.0, %A", 17, f"mode -1 is out of range of {M}", "write a mode from 0 to 1"),
    ("cumsum 1.0, %s, 0, 0.0, %s", 13, "cumsum needs a mode to sum along, but %s is a memref<f32>", "order 1 or more"),
    ("cumsum 1.0, %A, 0, 0.0, %v", 25, "cumsum needs a matrix (order 2) here, but %v", "AxB -> AxB"),
    ("cumsum 1.0, %A, 0, 0.0, %R", 25, "B is 4 in %A but 8 in %R", "AxB -> AxB"),
    # atomic accesses
    ("%x = atomic_load %A[0, 0] : f64", 29, "%x has type f32, not f64", "write f32"),
    ("%x = atomic_load %A[0] : f32", 18, "memref<f32x4x4> takes 2 indices", None),
    ("%x = atomic_load %v[4] : f32", 21, "the index 4 is out of bounds", "from 0 to 3"),
    ("%x = atomic_load %v[%n] : f32", 21, "an index must have type index", "cast %n"),
    ("%x = atomic_load %a[0] : f32", 18, "atomic_load needs a memref, but %a is a scalar", "the name of a memref"),
    ("%x = atomic_load %G[0] : f32", 18, "atomic_load needs a memref, but %G is a group", "load one memref"),
    ("%x = atomic_load %P[0] : bool", 18, "atomic_load does not work on elements of type i1", "integers"),
    ("%x = atomic_load.release %v[0] : f32", 1, "atomic_load cannot have .release semantics", ".acquire"),
    ("atomic_store.acquire_release %a, %v[0]", 1, "cannot have .acquire_release semantics", ".relaxed, .release"),
    ("atomic_store %a, %I[0]", 14, "%a has type f32, but type i32 is needed", "cast %a"),
    ("%x = atomic_add %a, %I[0] : i32", 17, "%a has type f32, but type i32 is needed", "cast %a"),
    ("%x = atomic_add 1.5, %I[0] : i32", 17, "1.5 is no value of i32", None),
    (f"hadamard 1.0, %s, %s, 0.0, %s : f32, {S}, {S}, f32, {S}", 15, "hadamard needs a vector (order 1)", None),
    (f"hadamard 1.0, %A, %R, 0.0, %A : f32, {M}, {R}, f32, {M}", 19, "N is 4 in %A but 8 in %R", "MxN, MxN -> MxN"),
    (f"axpby.n 1.0, %R, 0.0, %A : f32, {R}, f32, {M}", 23, "N is 8 in %R but 4 in %A", None),
    (
        "axpby.n 1.0, %t, 0.0, %t : f32, memref<f32x2x2x2>, f32, memref<f32x2x2x2>",
        14,
        "axpby needs a scalar memref",
        None,
    ),
    (f"sum.n 1.0, %A, 0.0, %A : f32, {M}, f32, {M}", 21, "sum needs a vector (order 1) here, but %A", None),
    (f"sum.n 1.0, %v, 0.0, %v : f32, {V}, f32, {V}", 21, "sum needs a scalar memref (order 0) here, but %v", None),
    (f"sum.t 1.0, %R, 0.0, %v : f32, {R}, f32, {V}", 21, "M is 8 in the transpose of %R but 4 in %v", None),
    (
        "axpby.n 1, %P, 0, %P : i32, memref<i1x4>, i32, memref<i1x4>",
        12,
        "axpby does not work on elements of type i1",
        None,
    ),
    (
        f"axpby.n 1.0, %H, 0.0, %A : f32, memref<f64x4x4>, f32, {M}",
        14,
        "elements of type f64, which cannot become f32",
        "f32",
    ),
    (f"axpby.n %h, %A, 0.0, %A : f64, {M}, f32, {M}", 9, "%h has type f64, which cannot become f32", None),
    ("axpby.n 1, %U, 0, %I : i32, memref<u32x4>, i32, memref<i32x4>", 12, "type u32, which cannot become i32", None),
    ("axpby.n 300, %Q, 0, %Q : i8, memref<i8x4>, i8, memref<i8x4>", 9, "the constant 300 is out of range of i8", None),
]


@pytest.mark.parametrize(("text", "column", "message", "hint"), CASES)
def test_rule(text: str, column: int | None, message: str, hint: str | None) -> None:
    with pytest.raises((TLVerifyError, TLSyntaxError)) as caught:
        parse(f"func @f({PARAMETERS}) {{\n{text}\n}}")
    diagnostics = caught.value.diagnostics
    assert any(message in diagnostic.message for diagnostic in diagnostics), caught.value
    (first, *rest) = diagnostics
    assert all(diagnostic.message == first.message for diagnostic in rest), caught.value
    if column is not None:
        assert first.span is not None
        assert (first.span.line, first.span.column) == (2, column), caught.value
        assert isinstance(caught.value, TLVerifyError)
    if hint is not None:
        assert hint in (first.hint or ""), caught.value


@pytest.mark.parametrize(
    "text",
    [
        # several element types where that is lossless
        "axpby.n 1, %Q, 0, %I : i8, memref<i8x4>, i32, memref<i32x4>",
        f"axpby.n %a, %A, 0.0, %H : f32, {M}, f64, memref<f64x4x4>",
        # a dynamic size fits every size
        f"gemm.n.n 1.0, %A, %D, 0.0, %A : f32, {M}, memref<f32x?x4>, f32, {M}",
        "%x = subview %D[%i:%i, 1] : memref<f32x?x4>",
        # names are free again behind their region
        "for %x = 0, 4 { } for %x = 0, 4 { } foreach %x = 0, 4 { } if %p { %x = group_id } else { %x = group_id }",
        # replicated instructions inside foreach, and what is inside them
        "foreach %x = 0, 4 { if %p { store %a, %v[%x] : memref<f32x4> } for %y = 0, 2 { %e = add %y, %x : index } }",
        # lifetimes
        f"%x = alloca -> {M} lifetime_stop %x barrier",
        f"for %y = 0, 4 {{ %x = alloca -> {M} lifetime_stop %x }}",
        # orders
        f"axpby.t 1.0, %s, 0.0, %s : f32, {S}, f32, {S} axpby.t 1.0, %v, 0.0, %v : f32, {V}, f32, {V}",
        f"sum.t 1.0, %v, 0.0, %s : f32, {V}, f32, {S} sum.n 1.0, %R, 0.0, %v : f32, {R}, f32, {V}",
        # i1 and floats
        "%x = arith.xor %p, true : i1 %y = arith.not %x : i1 %e = cast %a : f32 -> i1 %g = arith.div %a, 0.0 : f32",
        "%x = cmp.lt %p, true : i1 %y = cmp.eq %z, %z : c32",
        "if %p { yield } for %x = 0, 4 { yield }",
    ],
)
def test_accepted(text: str) -> None:
    parse(f"func @f({PARAMETERS}) {{\n{text}\n}}")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("work_group_size(0, 1)", "the work-group size (0, 1) is not positive"),
        ("subgroup_size(0)", "the sub-group size 0 is not positive"),
        ("subgroup_size(-8)", "the sub-group size -8 is not positive"),
        ("work_group_size(24, 1) subgroup_size(16)", "24 of work_group_size is no multiple of the sub-group size 16"),
        ("subgroup_size(16) subgroup_size(16)", "the attribute subgroup_size is given twice"),
        ("work_group_size(16,1) subgroup_size(16) work_group_size(16,1)", "work_group_size is given twice"),
    ],
)
def test_attributes(attributes: str, message: str) -> None:
    with pytest.raises(TLVerifyError) as caught:
        parse(f"func @f() {attributes} {{}}")
    assert message in caught.value.diagnostics[0].message
    assert len(caught.value.diagnostics) == 1


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("void", "a parameter cannot be void"),
        ("memref<f32x0>", "the size of mode 0 is 0"),
        ("group<memref<f32x4x4,strided<1,2>>>", "the stride 2 of mode 1 is below 4"),
    ],
)
def test_parameter_types(type: str, message: str) -> None:
    with pytest.raises(TLVerifyError) as caught:
        parse(f"func @f(%a: {type}) {{}}")
    assert message in caught.value.diagnostics[0].message


def test_functions_and_parameters_have_names_of_their_own() -> None:
    with pytest.raises(TLVerifyError) as caught:
        parse("func @f(%a: f32, %a: f32) {}\nfunc @f() {}")
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [
        "%a is already defined in line 1",
        "the function @f is already defined in line 1",
    ]


def test_all_errors_of_a_module_in_source_order() -> None:
    text = """func @f(%A: memref<f32x4x4>, %n: i32) {
  %x = load %A[%n, 0] : memref<f32x4x4>
  %y = arith.add %x, %x : f32
  %z = arith.add %q, %y : f32
  barrier
}
func @g(%v: memref<f32x0>) {
  yield :
  %w = load %v[0] : memref<f32x4>
}
"""
    with pytest.raises(TLVerifyError) as caught:
        parse(text, "kernel.tl")
    places = [str(diagnostic.span) for diagnostic in caught.value.diagnostics]
    assert places == ["kernel.tl:2:16", "kernel.tl:4:18", "kernel.tl:7:24", "kernel.tl:8:3"]


def test_text_of_an_error() -> None:
    with pytest.raises(TLVerifyError) as caught:
        parse("func @f(%A: memref<f32x4>) {\n  %A = group_id\n}", "kernel.tl")
    assert str(caught.value) == (
        "kernel.tl:2:3: error: %A is already defined in line 1\n"
        "  2 |   %A = group_id\n"
        "    |   ^^\n"
        "  hint: give the value a name of its own\n"
        "kernel.tl:1:9: note: the first definition is here\n"
        "  1 | func @f(%A: memref<f32x4>) {\n"
        "    |         ^^"
    )


@pytest.mark.parametrize("text", ["func", "func @f() { yield }"])
def test_errors_pickle(text: str) -> None:
    with pytest.raises((TLSyntaxError, TLVerifyError)) as caught:
        parse(text)
    error = pickle.loads(pickle.dumps(caught.value))
    assert type(error) is type(caught.value)
    assert error.diagnostics == caught.value.diagnostics
    assert str(error) == str(caught.value)


# --- IR that no text gave ---------------------------------------------------------------------------------------------


def module_of(*operations: ops.Operation, parameters: tuple[Value, ...] = ()) -> Module:
    """Return a module of one function."""
    return Module((Function("f", parameters, Region(operations)),))


X = Value("x", F32)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (ops.Load(source=Value("m", MemrefType(F32, (4,))), indices=(), result=X), "takes 1 index, but 0 given"),
        (ops.Arith(kind="pow", lhs=X, rhs=X, result=Value("y", F32)), "there is no instruction arith.pow"),
        (ops.Arith(kind="add", lhs=X, rhs=Value("n", I32), result=Value("y", F32)), "%n has type i32, but type f32"),
        (ops.Compare(kind="lt", lhs=X, rhs=X, result=Value("y", F32)), "%y has type f32, but the operation gives i1"),
        (ops.GroupId(result=Value("bad name", INDEX)), "%bad name is no legal name"),
        (ops.GroupId(result=Value("y", I32)), "%y has type i32, but the operation gives index"),
        (ops.Unary(kind="neg", operand=Constant(0.1, F32), result=Value("y", F32)), "is not exact in type f32"),
        (ops.Unary(kind="neg", operand=Constant(200, I8), result=Value("y", I8)), "out of range of i8"),
        (ops.Unary(kind="not", operand=Constant(1, I1), result=Value("y", I1)), "is not exact in type i1"),
        (ops.Alloca(result=Value("y", F32)), "alloca gives a memref"),
        (
            ops.Unary(kind="neg", operand=Value("n", F32), result=Value("y", F32)),
            "used as f32, but it is defined as i32",
        ),
        (ops.Axpby(alpha=X, inputs=(X,), beta=X, output=X, transposes=(False,)), "axpby needs a memref"),
        (ops.Axpby(alpha=X, inputs=(X,), beta=X, output=X), "axpby takes 1 transpose, but 0 given"),
    ],
)
def test_verify(operation: ops.Operation, message: str) -> None:
    parameters = (X, Value("n", I32), Value("m", MemrefType(F32, (4,))))
    with pytest.raises(TLVerifyError) as caught:
        verify(module_of(operation, parameters=parameters))
    assert message in str(caught.value)


def test_verify_names_the_operation_that_has_no_place() -> None:
    with pytest.raises(TLVerifyError, match="in `lifetime_stop %x`"):
        verify(module_of(ops.LifetimeStop(source=X), parameters=(X,)))


def test_verify_accepts_what_was_parsed() -> None:
    verify(parse("func @f(%A: memref<f32x4x4>) { %x = load %A[0, 0] : memref<f32x4x4> }"))


def test_nesting_is_limited() -> None:
    region = Region()
    for _ in range(5000):
        region = Region((ops.If(condition=Constant(True, I1), outputs=(), then=region),))
    with pytest.raises(TLVerifyError, match="nested more than 64 deep"):
        verify(Module((Function("f", (), region),)))


def test_function_is_found_by_its_place() -> None:
    builder = FunctionBuilder("f", A=memref(F32, 4))
    function = replace(builder.function(), subgroup_size=-1)
    with pytest.raises(TLVerifyError, match=r"test_verifier\.py:\d+:\d+: error: the sub-group size -1"):
        verify(Module((function,)))
