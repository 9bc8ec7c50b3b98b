"""Strides and layouts, mostly without arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tl_dpnp
from tl_dpnp.language.types import MemrefType, canonical_strides
from tl_dpnp.runtime.call.layout import Misfit, fitted_strides
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import F32


def memref(*shape, strides=None):
    return MemrefType(F32, shape, strides)


@pytest.mark.parametrize(("type_", "shape", "strides", "expected"), [
    (memref(16, 8), (16, 8), (1, 16), (1, 16)),
    (memref(16, None), (16, 5), (1, 16), (1, 16)),
    (memref(None, None), (4, 5), (1, 9), (1, 9)),
    (memref(4, 5, strides=(2, 10)), (4, 5), (2, 10), (2, 10)),
    (memref(4, None, strides=(None, None)), (4, 5), (3, 20), (3, 20)),
    (memref(), (), (), ()),
    # an axis of size 1 may have any stride
    (memref(1, 8), (1, 8), (77, 1), (1, 1)),
    (memref(8, 1), (8, 1), (1, 1), (1, 8)),
    (memref(None, None, None), (3, 1, 2), (1, 0, 3), (1, 3, 3)),
    (memref(None, None, strides=(None, None)), (1, 1), (5, 7), (1, 1)),
    # so may every axis of an empty array
    (memref(None, None), (0, 3), (3, 1), (1, 1)),
    (memref(4, None, strides=(1, None)), (4, 0), (0, 1), (1, 4)),
])  # fmt: skip
def test_fitting_strides(type_, shape, strides, expected):
    assert fitted_strides(type_, shape, strides) == expected


@pytest.mark.parametrize(("type_", "shape", "strides", "text"), [
    (memref(16, 8), (16, 8), (8, 1), "the stride of axis 0 is 8, the layout asks for 1"),
    (memref(16, 8), (16, 8), (1, 20), "the stride of axis 1 is 20, the layout asks for 16"),
    (memref(None, None), (16, 4), (1, 8), "the stride of axis 1 is 8; column-major layout asks for at least 16"),
    (memref(None, strides=(None,)), (4,), (0,), "the stride of axis 0 is 0; column-major layout asks for at least 1"),
    (memref(None, strides=(None,)), (4,), (-1,), "the stride of axis 0 is -1"),
    (memref(None, None), (4, 4), (1, -4), "the stride of axis 1 is -4"),
])  # fmt: skip
def test_strides_that_do_not_fit(type_, shape, strides, text):
    with pytest.raises(Misfit, match=text):
        fitted_strides(type_, shape, strides)


@pytest.mark.parametrize(("strides", "expected"), [
    ((1, 4, 0), (1, 4, 0)), ((1, 0, 4), (1, 0, 4)), ((1, 0, 0), (1, 0, 0)), ((1, 0, 2), None), ((0, 0, 0), None),
    ((1, 0, 5), (1, 0, 5)),
])
def test_modes_that_may_repeat(strides, expected):
    type_ = memref(4, None, None, strides=(1, None, None))
    if expected is None:
        with pytest.raises(Misfit):
            fitted_strides(type_, (4, 5, 6), strides, (1, 2))
    else:
        assert fitted_strides(type_, (4, 5, 6), strides, (1, 2)) == expected
    with pytest.raises(Misfit):
        fitted_strides(type_, (4, 5, 6), strides)
    with pytest.raises(Misfit, match="the layout asks for 20"):
        fitted_strides(memref(4, 5, None), (4, 5, 6), (1, 4, 0), (2,))


@given(st.lists(st.integers(0, 4), max_size=4), st.lists(st.integers(-2, 40), min_size=4, max_size=4))
def test_what_is_accepted_obeys_the_layout_restriction(shape, strides):
    """Source: tensor language reference, section "Strided layout"."""
    type_ = MemrefType(F32, (None,) * len(shape), (None,) * len(shape))
    try:
        fitted = fitted_strides(type_, shape, strides[: len(shape)])
    except Misfit:
        return
    assert not fitted or fitted[0] >= 1
    for i in range(1, len(shape)):
        assert fitted[i - 1] * shape[i - 1] <= fitted[i] or 0 in shape
    for size, stride, own in zip(shape, fitted, strides, strict=False):
        assert stride == own or size == 1 or 0 in shape


@given(st.lists(st.integers(1, 9), max_size=4))
def test_packed_arrays_always_fit(shape):
    strides = canonical_strides(tuple(shape))
    assert fitted_strides(MemrefType(F32, tuple(shape)), shape, strides) == strides


@pytest.mark.parametrize("options", [{"target": "reference"}, {}], ids=["interpreter", "device"])
@pytest.mark.parametrize("in_group", [False, True])
def test_a_mode_of_one_element_may_have_any_stride(options, in_group):
    kind = "memref<f32x3x?x4,strided<2,?,6>>"
    kernel = tl_dpnp.compile(f"""func @double(%x: {f"group<{kind}>" if in_group else kind}) {{
        {f"%m = load %x[0] : group<{kind}>" if in_group else f"%m = subview %x[:, :, :] : {kind}"}
        %all = fuse %m[1, 2] : {kind}
        axpby.n 2.0, %all, 0.0, %all : f32, memref<f32x3x?,strided<2,?>>, f32, memref<f32x3x?,strided<2,?>>
    }}""", **options)
    for stride in (1, 6, 100):
        memory = np.arange(40, dtype="float32")
        expected = memory.copy()
        expected[:24:2] *= 2
        if options:
            array = np.lib.stride_tricks.as_strided(memory, (3, 1, 4), (8, 4 * stride, 24))
            kernel([array] if in_group else array, group_size=1)
        else:
            held = dpt.asarray(memory)
            array = dpt.usm_ndarray((3, 1, 4), dtype="float32", buffer=held, strides=(2, stride, 6))
            kernel([array] if in_group else array, group_size=1)
            memory = dpt.asnumpy(held)
        assert np.array_equal(memory, expected)
