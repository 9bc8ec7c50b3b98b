"""What programs assert of arrays: checked at each call, and used for wide accesses."""

from __future__ import annotations

import re

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.errors import TLBindingError
from tl_dpnp.language.builder import FunctionBuilder, memref
from tl_dpnp.scalars import F32

#: C[g] := A[g] A[g]
SQUARES = """func @squares(%A: memref<f32x16x16x?,strided<1,?,?>> {A}, %C: memref<f32x16x16x?> {C}) {{
  %i = group_id.x : index
  %a = subview %A[0:16, 0:16, %i] : memref<f32x16x16,strided<1,?>>
  %c = subview %C[0:16, 0:16, %i] : memref<f32x16x16>
  gemm 1.0, %a, %a, 0.0, %c
}}"""
ASSERTED = SQUARES.format(A="{alignment=64, stride_gcd=[1, 16, 16]}", C="{alignment=64}")
GROUPED = """func @f(%A: group<memref<f32x?x?,strided<1,?>> x ?> {alignment=64, shape_gcd=[4], stride_gcd=[1, 8]},
                    %C: memref<f32x?>) {
  %i = group_id.x : index
  %a = load %A[%i] : memref<f32x?x?,strided<1,?>>
  %v = load %a[0, 0] : f32
  store %v, %C[%i]
}"""
TARGETS = ["sycl", "reference"]


def squares(count=3, stride=16, shift=0):
    """Return matrices in a buffer, that begin `shift` elements behind an address that is a multiple of 64."""
    buffer = dpnp.zeros(16 * stride * count + 64, dtype="f4")
    begin = -buffer.__sycl_usm_array_interface__["data"][0] // 4 % 16 + shift
    whole = dpnp.reshape(buffer[begin:begin + 16 * stride * count], (stride, 16, count), order="F")
    whole[...] = dpnp.asarray(np.random.default_rng(1).integers(-3, 4, whole.shape), dtype="f4")
    return whole[:16]


@pytest.mark.parametrize("stride", [16, 32])
@pytest.mark.parametrize("target", TARGETS)
def test_results_are_the_same(stride, target):
    kernel, c = tl_dpnp.compile(ASSERTED, target=target), squares()
    for _ in range(3):
        a = squares(stride=stride)
        kernel(a, c)
        values = dpnp.asnumpy(a)
        np.testing.assert_array_equal(dpnp.asnumpy(c), np.einsum("mkg,kng->mng", values, values))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("given", "message"), [
    ({"shift": 1}, r"argument 1 of @squares: %A breaks its attribute alignment: the address 0x\w+ is no multiple"),
    ({"stride": 24}, "%A breaks its attribute stride_gcd: the stride 24 of mode 1, in elements, is no multiple of 16"),
])
def test_arrays_that_break_an_assertion_are_refused_at_each_call(given, message, target):
    kernel, c = tl_dpnp.compile(ASSERTED, target=target), squares()
    for _ in range(3):  # also when others of that layout were taken before
        kernel(squares(), c)
        with pytest.raises(TLBindingError, match=message):
            kernel(squares(**given), c)
        with pytest.raises(TLBindingError, match="%C breaks"):
            kernel(squares(), squares(shift=4))
    with pytest.raises(TLBindingError, match="%A breaks"):
        kernel.submit(squares(shift=4), c)


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_of_groups_are_looked_at_one_by_one(target):
    kernel, c = tl_dpnp.compile(GROUPED, target=target), dpnp.zeros(2, dtype="f4")
    good = [squares(1)[:, :, 0], squares(1, 24)[:8, :, 0]]
    kernel(good, c)
    for bad, message in ((squares(1, 20)[:, :, 0], "stride_gcd: the stride 20 of mode 1"),
                         (squares(1)[:6, :, 0], "shape_gcd: the size 6 of mode 0"),
                         (squares(1, shift=2)[:, :, 0], "alignment")):
        for argument in ([good[0], bad], tl_dpnp.group([good[0], bad])):
            with pytest.raises(TLBindingError, match=rf"argument 1 of @f: %A\[1\] breaks its attribute {message}"):
                kernel(argument, c)
    kernel(tl_dpnp.group(good), c)


@pytest.mark.parametrize("target", TARGETS)
def test_a_group_that_a_kernel_without_attributes_took_is_looked_at(target):
    bad = tl_dpnp.group([squares(1, 20)[:, :, 0]])
    c = dpnp.zeros(1, dtype="f4")
    tl_dpnp.compile(re.sub(r"\{alignment.*?\}", "", GROUPED), target=target)(bad, c)
    with pytest.raises(TLBindingError, match="stride_gcd"):
        tl_dpnp.compile(GROUPED, target=target)(bad, c)


@pytest.mark.parametrize("target", TARGETS)
def test_a_mode_of_one_element_may_have_any_stride_and_an_empty_array_lies_anywhere(target):
    source = """func @f(%A: memref<f32x?x?,strided<?,?>> {alignment=64, stride_gcd=[4, 4]}, %s: f32) {
      %i = group_id.x : index  store %s, %A[%i, 0] }"""
    kernel, base = tl_dpnp.compile(source, target=target), squares(1, 16)[:, :, 0]
    one = base[:1]
    kernel(one, 2.0)
    kernel(base[::4, :1], 3.0)
    assert dpnp.asnumpy(base)[::4, 0].tolist() == [3.0] * 4
    kernel(base[1:1, 1:], 1.0)
    with pytest.raises(TLBindingError, match="stride_gcd: the stride 1 of mode 0"):
        kernel(base[:2], 1.0)


def alignments(text):
    return set(map(int, re.findall(r"load <\d+ x float>.* align (\d+)", text)))


def test_vectors_are_loaded_as_aligned_as_asserted():
    asserted, plain = (tl_dpnp.compile(text).lower().llvm for text in (ASSERTED, SQUARES.format(A="", C="")))
    assert max(alignments(plain)) == 4
    assert min(alignments(asserted)) >= 32
    weaker = ASSERTED.replace("[1, 16, 16]", "[1, 2, 16]")
    assert alignments(tl_dpnp.compile(weaker).lower().llvm) & {8}


def test_alloca_takes_an_alignment():
    source = """func @f(%A: memref<f32x16x16>) {
      %t = alloca {alignment=128} : memref<f32x16x16,local>
      axpby 2.0, %A, 0.0, %t
      axpby 1.0, %t, 1.0, %A
    }"""
    a = dpnp.ones((16, 16), dtype="f4", order="F")
    tl_dpnp.compile(source)(a)
    assert (dpnp.asnumpy(a) == 3).all()


def test_a_builder_has_attributes():
    b = FunctionBuilder("f", {"A": memref(F32, 16, None)}, attributes={"A": {"alignment": 64, "shape_gcd": [16, 4]}})
    b.store(1.0, b.A, 0, 0)
    b.alloca(memref(F32, 4), alignment=16, name="t")
    kernel = tl_dpnp.compile(b)
    assert "%A: memref<f32x16x?> {alignment=64, shape_gcd=[16, 4]}" in kernel.source_text
    assert "%t = alloca {alignment=16} : memref<f32x4,local>" in kernel.source_text
    with pytest.raises(TLBindingError, match="shape_gcd: the size 3 of mode 1 is no multiple of 4"):
        kernel(dpnp.zeros((16, 3), dtype="f4", order="F"))
