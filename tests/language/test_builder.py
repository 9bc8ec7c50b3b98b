"""The builder writes the IR that the parser gives for the same program, and names the caller's line in its errors."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.language.test_reference_examples import FUSED_KERNEL
from tl_dpnp.errors import TLVerifyError
from tl_dpnp.language import ALL, FunctionBuilder, build_module, group, memref, parse, print_module
from tl_dpnp.language.builder import coopmatrix
from tl_dpnp.scalars import BF16, C32, F32, F64, I1, I4, I32, INDEX

M, V, X = memref(F32, 4, 4), memref(F32, 4), coopmatrix(F32, 4, 4, "matrix_a")


def test_fused_kernel() -> None:
    b = FunctionBuilder(
        "fused_kernel",
        alpha=F32,
        A=group(memref(F32, 16, 8)),
        B=memref(F32, 8, 8),
        C=memref(F32, 8, 16),
        D=memref(F32, 16, 16, None),
    )
    i = b.group_id()
    a = b.load(b.A, i)
    d = b.subview(b.D, ALL, ALL, i)
    tmp = b.alloca(memref(F32, 16, 8), name="tmp0")
    b.gemm(1.0, a, b.B, 0.0, tmp, transpose_b=True)
    b.gemm(b.alpha, tmp, b.C, 1.0, d)
    assert b.build() == parse(FUSED_KERNEL)


def test_every_operation() -> None:
    b = FunctionBuilder(
        "f",
        {"A": M, "v": V, "s": memref(F32), "G": group(M, offset=None), "a": F32, "n": I32},
        work_group_size=(16, 1),
        subgroup_size=16,
    )
    x = b.add(b.a, 1)
    x = b.sub(x, b.mul(b.div(x, 2), b.rem(x, 3)))
    x = b.neg(b.math("fma", x, 2.0, b.math("exp", b.a)))
    n = b.arith("shl", b.n, 3)
    n = b.arith("not", b.arith("add", 1, 2, type=I32))
    k = b.cast(n, INDEX)
    c = b.cmp("lt", k, b.group_size())
    m = b.load(b.G, b.group_id())
    t = b.alloca(V)
    b.store(1.5, t, 0)
    b.barrier()
    e = b.expand(m, 0, 2, None)
    f = b.fuse(m, 0, 1, name="fused")
    u = b.subview(m, (1, 2), k)
    w = b.subview(m, (k, None), (0, b.size(m, 0)))
    assert [str(value.type) for value in (e, f, u, w)] == [
        "memref<f32x2x2x4>", "memref<f32x16>", "memref<f32x2>", "memref<f32x?x?,strided<1,4>>",
    ]  # fmt: skip
    with b.if_(c, F32, I32, names=["r"]) as branch:
        b.yield_(b.load(t, 1), 3)
    with b.else_():
        b.yield_(0.0, b.n)
    b.add(branch.results[0], x)
    with b.if_(True):
        b.axpby(1, b.A, 0, m, transpose=True, atomic=True)
    with b.for_(0, k, 2) as i, b.for_(0, 3, type=I32):
        b.gemv(1, b.A, b.v, 0, t, transpose=True)
        b.store(b.a, b.A, i, 0)
    with b.foreach(0, 4, name="lane") as lane:
        b.store(b.load(t, lane), b.v, lane)
    b.ger(x, b.v, t, 1.0, m)
    b.hadamard(1.0, b.v, t, 0.0, b.v)
    assert b.atomic_load(t, k, scope="device", semantics="acquire").type == F32
    b.atomic_store(0.5, t, 1)
    for update in (b.atomic_add, b.atomic_min, b.atomic_max):
        assert update(x, t, k, scope="device").type == F32
    with pytest.raises(TLVerifyError, match="there is no scope 'world'"):
        b.atomic_add(x, t, k, scope="world")
    b.cumsum(1.0, b.A, 1, 0.0, m, atomic=True)
    with b.for_carrying([x, b.n], 0, k) as loop:
        b.yield_(b.add(loop.carried[0], 1), loop.carried[1])
    b.store(loop.outputs[0], t, 0)
    b.sum(1.0, b.A, 0.0, t)
    b.sum(1.0, t, 0.0, b.s)
    b.lifetime_stop(t)
    module = b.build()
    assert parse(print_module(module)) == module
    assert parse(print_module(module)).functions[0].work_group_size == (16, 1)


def test_results_are_numbered_around_the_parameters() -> None:
    b = FunctionBuilder("f", {"0": F32, "x": F32})
    assert [str(b.group_id()), str(b.group_id(name="y")), str(b.group_id())] == ["%1", "%y", "%2"]
    assert [value.name for value in b.parameters] == ["0", "x"]


def test_numbers_take_the_type_of_their_place() -> None:
    b = FunctionBuilder("f", h=BF16, z=C32, m=memref(F64, 8))
    b.store(numpy.float32(0.5), b.m, numpy.int32(3))
    b.mul(b.z, 2 + 1j)
    assert b.add(b.h, 1.00390625).type == BF16
    text = print_module(b.build(), "0.3")
    assert "store 0.5, %m[3] : memref<f64x8>" in text
    assert "arith.mul %z, [2.0, 1.0] : c32" in text
    assert "arith.add %h, 1.0 : bf16" in text


def test_several_functions() -> None:
    module = build_module(FunctionBuilder("f"), FunctionBuilder("g"))
    assert module == parse("func @f() {} func @g() {}")
    with pytest.raises(TLVerifyError, match="the function @f is already defined"):
        build_module(FunctionBuilder("f"), FunctionBuilder("f"))


def misuse(number: int, b: FunctionBuilder) -> None:
    """Break one rule; every case is on a line of its own."""
    match number:
        case 0:
            b.load(b.A, 0)
        case 1:
            b.load(b.A, 4, 0)
        case 2:
            b.gemm(1.0, b.A, b.v, 0.0, b.A)
        case 3:
            b.add(1, 2)
        case 4:
            b.add(b.n, 1.5)
        case 5:
            b.store("text", b.v, 0)  # type: ignore[arg-type]
        case 6:
            b.alloca(memref(F32, None))
        case 7:
            b.subview(b.v, slice(1, 2))
        case 8:
            b.yield_(1.0)
        case 9:
            b.lifetime_stop("A")  # type: ignore[arg-type]
        case 10:
            b.gemm(1.0, b.G, b.A, 0.0, b.G)
        case 11:
            b.group_id(name="A")
        case 12:
            with b.else_():
                pass
        case 13:
            with b.for_(0, 4, 0):
                pass
        case 14:
            b.subview(b.v, (1, 2, 3))  # type: ignore[arg-type]
        case 15:
            b.add(b.A, 1)
        case 16:
            FunctionBuilder("f", A=memref(F32, 0))


@pytest.mark.parametrize(
    ("number", "message"),
    list(
        enumerate(
            [
                "takes 2 indices, but 1 given",
                "the index 4 is out of bounds",
                "%v is a memref<f32x4>",
                "give the type: type=F32",
                "1.5 is no value of i32",
                "'text' is no operand",
                "which has a dynamic mode",
                "write (offset, size) or ALL",
                "yield_ gives 1 value, but 0 are returned here",
                "'A' is no operand",
                "load one memref of the group first",
                "%A is already defined",
                "else_ does not follow an if_",
                "the step of a for loop is 0",
                "a slice is a pair",
                "%A is a memref<f32x4x4>",
                "the size of mode 0 is 0",
            ]
        )
    ),
)
def test_errors_name_the_line_of_the_caller(number: int, message: str) -> None:
    b = FunctionBuilder("f", A=M, v=V, n=I32, G=group(M))
    with pytest.raises(TLVerifyError) as caught:
        misuse(number, b)
    assert message in str(caught.value).replace("a scalar is needed, but %A is a memref", "%A is a memref")
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert span.file == __file__
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[span.line - 1]
    assert caught.value.diagnostics[0].source_line == line
    assert line[span.column - 1] != " "
    assert "b." in line or "FunctionBuilder" in line


def test_values_end_with_their_region() -> None:
    b = FunctionBuilder("f", v=V)
    with b.for_(0, 4) as i:
        pass
    b.load(b.v, i)
    with pytest.raises(TLVerifyError, match="%0 is not defined"):
        b.build()


def test_collective_in_foreach_is_found_by_its_place() -> None:
    b = FunctionBuilder("f")
    with b.foreach(0, 4):
        b.barrier()
    with pytest.raises(TLVerifyError, match="the collective instruction barrier stands inside a foreach") as caught:
        b.build()
    assert caught.value.diagnostics[0].source_line == "        b.barrier()"


def test_region_is_dropped_when_its_block_fails() -> None:
    b = FunctionBuilder("f", a=F32, v=V)
    with pytest.raises(TLVerifyError), b.for_(0, 4) as i:
        b.store(b.a, b.v, b.cast(i, I32))
    assert b.build() == parse("func @f(%a: f32, %v: memref<f32x4>) {}")


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match="neither a method nor a parameter 'B'"):
        _ = FunctionBuilder("f", A=M).B


def test_unfinished_region() -> None:
    b = FunctionBuilder("f")
    with pytest.raises(TLVerifyError, match="still inside a region"), b.for_(0, 4):
        b.build()


@pytest.mark.parametrize("precision", ["highest", "high", "default"])
def test_precision(precision: str) -> None:
    b = FunctionBuilder("f", A=M, v=V)
    b.gemm(1.0, b.A, b.A, 0.0, b.A, transpose_a=True, precision=precision)
    b.gemv(1.0, b.A, b.v, 0.0, b.v, precision=precision)
    text = f"""func @f(%A: {M}, %v: {V}) {{
      gemm.t.n.{precision} 1.0, %A, %A, 0.0, %A : f32, {M}, {M}, f32, {M}
      gemv.n.{precision} 1.0, %A, %v, 0.0, %v : f32, {M}, {V}, f32, {V}
    }}"""
    assert b.build() == parse(text)
    assert print_module(b.build()) == print_module(parse(text))


def test_precision_of_other_products() -> None:
    b = FunctionBuilder("f", A=memref(BF16, 4, 4), C=M)
    with pytest.raises(TLVerifyError, match=r"\.high is for products of f32, not of bf16, bf16, f32"):
        b.gemm(1.0, b.A, b.A, 0.0, b.C, precision="high")
    with pytest.raises(TLVerifyError, match=r"gemm has no precision 'low'(.|\n)*there are highest, high, default"):
        b.gemm(1.0, b.C, b.C, 0.0, b.C, precision="low")  # type: ignore[arg-type]


def test_integers_below_8_bits() -> None:
    A = memref(I4, 8, 4)
    b = FunctionBuilder("f", A=A, C=memref(I32, 4, 4))
    b.gemm(1, b.A, b.A, 0, b.C, transpose_a=True)
    assert b.build() == parse(
        f"func @f(%A: {A}, %C: memref<i32x4x4>) {{ gemm.t.n 1, %A, %A, 0, %C : i32, {A}, {A}, i32, memref<i32x4x4> }}"
    )
    with pytest.raises(TLVerifyError, match="%0 has type i4, which only cast takes"):
        b.store(b.load(b.A, 0, 0), b.C, 0, 0)
    with pytest.raises(TLVerifyError, match="the size 3 of mode 0 ends inside a byte"):
        FunctionBuilder("f", A=memref(I4, 3))


#: What is no operand but a Python number or a name, given as something else: the call, and what the error says.
UNFIT = {
    "mode of size": (lambda b: b.size(b.A, 0.0), "a mode is an int, not 0.0"),
    "mode of expand": (lambda b: b.expand(b.A, "0", 2, 2), "a mode is an int, not '0'"),
    "mode of fuse": (lambda b: b.fuse(b.A, 0, 1.0), "a mode is an int, not 1.0"),
    "mode of cumsum": (lambda b: b.cumsum(1.0, b.v, None, 0.0, b.v), "a mode is an int, not None"),
    "alignment": (lambda b: b.alloca(V, alignment=64.0), "an alignment is an int, not 64.0"),
    "type of memory": (lambda b: b.alloca(None), "alloca takes the type of a memref, it was given None"),
    "transpose": (lambda b: b.gemm(1.0, b.A, b.A, 0.0, b.A, transpose_a="n"), "transpose_a is True or False, not 'n'"),
    "atomic": (lambda b: b.axpby(1.0, b.A, 0.0, b.A, atomic=None), "atomic is True or False, not None"),
    "transpose of a matrix": (lambda b: b.cooperative_matrix_load(X, b.A, 0, 0, transpose="t"), "transpose is True or"),
    "component": (lambda b: b.cooperative_matrix_extract(b.cooperative_matrix_construct(0.0, X), 0.0),
                  "the number of a component is an int, not 0.0"),
    "rows": (lambda b: b.cooperative_matrix_prefetch(0, b.A, 0, 0, 4.0, 4), "a number of rows is an int, not 4.0"),
    "tile": (lambda b: b.foreach_tile([0], [9], [4.0]).__enter__(), "a size of a tile is an int, not 4.0"),
    "carried number": (lambda b: b.for_carrying([1.0], 0, 4).__enter__(), "1.0 is no operand"),
    "type of a branch": (lambda b: b.if_(b.c, "f32").__enter__(), "if_ takes the types that it returns, it was given"),
    "returned memref": (lambda b: b.if_(b.c, V).__enter__(), "an if returns scalars and cooperative matrices, not a m"),
    "name": (lambda b: b.add(b.n, 1, name=5), "a name is text, not 5"),
    "huge integer": (lambda b: b.store(10**400, b.v, 0), "the constant of 1329 bits is out of range of f32"),
    "huge index": (lambda b: b.load(b.v, 10**5000), "bits is out of range of index"),
    "huge fraction": (lambda b: b.store(Fraction(10**400, 3), b.v, 0), "a number is larger than any float"),
    "name of a function": (lambda b: FunctionBuilder(5), "a name is text, not 5"),
    "name of a parameter": (lambda b: FunctionBuilder("f", {5: F32}), "a name is text, not 5"),
    "one size": (lambda b: FunctionBuilder("f", work_group_size=16), "work_group_size is a pair of ints, not 16"),
    "sizes as text": (lambda b: FunctionBuilder("f", work_group_size="16"), "is a pair of ints, not '16'"),
    "a float": (lambda b: FunctionBuilder("f", work_group_size=(16.0, 1)), "is an int or None, not 16.0"),
    "sub-group size": (lambda b: FunctionBuilder("f", subgroup_size="16"), "a sub-group size is an int or None, not"),
    "attributes": (lambda b: FunctionBuilder("f", v=V, attributes={"v": 64}), "are given by their names, not as 64"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_python_gives_is_checked(name: str) -> None:
    """It is an error at the line of the call, and neither taken for something else nor found by a later pass."""
    call, message = UNFIT[name]
    b = FunctionBuilder("f", A=M, v=V, n=I32, c=I1)
    with pytest.raises(TLVerifyError) as caught:
        call(b)
    assert message in str(caught.value)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.span.file == __file__


def test_numbers_of_numpy_are_taken() -> None:
    b = FunctionBuilder("f", A=M, work_group_size=(numpy.int64(16), numpy.int8(1)), subgroup_size=numpy.int32(16))
    b.size(b.A, numpy.int64(1))
    b.gemm(1.0, b.A, b.A, 0.0, b.A, transpose_a=numpy.True_, transpose_b=numpy.False_)
    assert b.build() == parse(f"""func @f(%A: {M}) work_group_size(16, 1) subgroup_size(16) {{
        %0 = size %A[1] : {M}
        gemm.t.n 1.0, %A, %A, 0.0, %A : f32, {M}, {M}, f32, {M}
    }}""")


@pytest.mark.parametrize("reach", [lambda x: x[0], list, len, lambda x: 1.0 in x], ids=["index", "list", "len", "in"])
def test_elements_are_not_reached_by_python(reach: Callable[[Any], object]) -> None:
    b = FunctionBuilder("f", v=V)
    with pytest.raises(TypeError, match=r"%v is a value of the tensor language(.|\n)*b\.load\(x, i\)"):
        reach(b.v)


def test_attributes_that_say_nothing_are_none() -> None:
    """Neither text nor builder keep them, so that what is printed is the same module."""
    plain = parse(f"func @f(%v: {V}) {{}}")
    for given in ({}, {"shape_gcd": []}, {"stride_gcd": (), "shape_gcd": ()}):
        b = FunctionBuilder("f", v=V, attributes={"v": given})
        assert b.build() == plain
        assert parse(print_module(b.build())) == plain
    for text in ("{}", "{shape_gcd=[]}", '{"other"=1, stride_gcd=[]}'):
        assert parse(f"func @f(%v: {V} {text}) {{}}") == plain
