"""Arrays of every element type, with any strides."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tl_dpnp
from tl_dpnp import LayoutError, TLTypeError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import SCALAR_TYPES

#: Types of whole bytes; those below are read only (`test_subbyte`).
NAMES = pytest.mark.parametrize("name", [name for name, type_ in SCALAR_TYPES.items() if not type_.is_subbyte])


def copier(name, **options):
    type_ = f"memref<{name}x?>"
    return tl_dpnp.compile(
        f"func @copy(%x: {type_}, %y: {type_}) {{ %n = size %x[0] : {type_}"
        f" for %i = 0, %n {{ %0 = load %x[%i] : {type_} store %0, %y[%i] : {type_} }} }}", **options)


def values(name):
    return (np.arange(5) % 2 if SCALAR_TYPES[name].is_boolean else np.arange(5) + 3).astype(SCALAR_TYPES[name].storage)


@NAMES
def test_the_device_takes_arrays_of_every_type(name):
    x, y = dpt.asarray(values(name)), dpt.zeros(5, dtype=SCALAR_TYPES[name].storage)
    kernel = copier(name)
    kernel(x, y)
    assert (dpt.to_numpy(y) == values(name)).all()


@NAMES
def test_the_reference_takes_arrays_of_every_type(name):
    kernel = copier(name, target="reference")
    x, y = dpt.asarray(values(name)), dpt.zeros(5, dtype=SCALAR_TYPES[name].storage)
    kernel(x, y)
    assert (dpt.to_numpy(y) == values(name)).all()
    host = np.zeros(5, SCALAR_TYPES[name].storage)
    kernel(values(name), host)
    assert (host == values(name)).all()


@NAMES
@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_arrays_of_other_types_are_refused(name, target):
    storage = SCALAR_TYPES[name].storage
    kernel = copier(name, target=target)
    for other in {type_.storage for type_ in SCALAR_TYPES.values()} - {storage}:
        with pytest.raises(TLTypeError, match=f"%y takes an array of {storage}.* it was given one of {other}"):
            kernel(dpt.asarray(values(name)), dpt.zeros(5, dtype=other))


@functools.cache
def copier_of_order_3(target):
    return tl_dpnp.compile("""
    func @copy(%A: memref<f64x?x?x?,strided<?,?,?>>, %B: memref<f64x?x?x?,strided<?,?,?>>) {
      %n = size %A[0] : memref<f64x?x?x?,strided<?,?,?>>
      %m = size %A[1] : memref<f64x?x?x?,strided<?,?,?>>
      %l = size %A[2] : memref<f64x?x?x?,strided<?,?,?>>
      for %i = 0, %n { for %j = 0, %m { for %k = 0, %l {
        %0 = load %A[%i, %j, %k] : memref<f64x?x?x?,strided<?,?,?>>
        store %0, %B[%i, %j, %k] : memref<f64x?x?x?,strided<?,?,?>>
      } } }
    }""", target=target)


@st.composite
def strided_arrays(draw, shape):
    """Draw a column-major dpctl array of a shape, with gaps, on an allocation with room around it."""
    strides, required = [], 1
    for size in shape:
        strides.append(required + draw(st.integers(0, 3)))
        required = max(1, strides[-1] * size)
    offset = draw(st.integers(0, 5))
    extent = offset + sum(stride * max(0, size - 1) for stride, size in zip(strides, shape, strict=True)) + 1
    base = dpt.asarray(np.arange(extent + draw(st.integers(0, 5)), dtype="float64"))
    return dpt.usm_ndarray(shape, dtype="float64", buffer=base, strides=tuple(strides), offset=offset)


@pytest.mark.parametrize("target", ["sycl", "reference"])
@settings(deadline=None, max_examples=60)
@given(data=st.data(), shape=st.tuples(*[st.integers(0, 4)] * 3))
def test_any_column_major_strides(target, data, shape):
    source, result = data.draw(strided_arrays(shape)), data.draw(strided_arrays(shape))
    base = dpt.usm_ndarray(result.usm_data.nbytes // 8, dtype="float64", buffer=result.usm_data)
    expected = dpt.to_numpy(result)  # with the bytes around the view
    expected[...] = dpt.to_numpy(source)
    before = dpt.to_numpy(base)
    touched = np.zeros(before.shape, bool)
    np.ndarray(shape, bool, touched, result.__sycl_usm_array_interface__["offset"], result.strides)[...] = True
    copier_of_order_3(target)(source, result)
    assert (dpt.to_numpy(result) == expected).all()
    assert (dpt.to_numpy(base)[~touched] == before[~touched]).all()


def test_row_major_strides_are_refused_in_every_order_of_axes():
    x = dpt.zeros((2, 3, 4), dtype="float64", order="F")
    for axes in [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        with pytest.raises(LayoutError, match="column-major layout asks for"):
            copier_of_order_3("sycl")(dpt.permute_dims(x, axes), dpt.permute_dims(x, axes))
