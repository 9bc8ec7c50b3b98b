"""Arrays that offer DLPack only, without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import tl_dpnp
from tests.cuda.exporters import Exporter
from tl_dpnp.runtime.cuda.arrays import cuda_device

SOURCE = """
func @f(%x: memref<f32x3x?,strided<1,?>>, %y: memref<f32x?>) {
  axpby.n 1.0, %y, 1.0, %y : f32, memref<f32x?>, f32, memref<f32x?>
}
"""


@pytest.fixture(scope="module")
def binding():
    return tl_dpnp.compile(SOURCE, target="cuda")._binding


def test_they_are_bound_as_they_are_laid_out(binding):
    x = np.zeros((10, 3), "float32")[::2].T
    y = np.zeros(7, "float32")
    call = binding.bind([Exporter(x), Exporter(y, place=13)])
    first, second = (argument.view for argument in call.arguments)
    assert (first.shape, first.strides, first.address) == ((3, 5), (1, 6), x.ctypes.data)
    assert (second.shape, second.dtype, second.writable) == ((7,), np.dtype("float32"), True)
    assert call.queue == cuda_device(0)


def test_a_call_exports_each_once_to_the_default_stream(binding):
    given = [Exporter(np.zeros(shape, "float32", order="F")) for shape in ((3, 5), 7)]
    arrays = binding.arrays(given)
    key = binding.key(given, arrays)
    assert [exporter.streams for exporter in given] == [[1], [1]]
    others = [Exporter(np.zeros(shape, "float32", order="F")) for shape in ((3, 5), 8)]
    assert binding.key(given, binding.arrays(given)) == key
    assert binding.key(others, binding.arrays(others)) != key


def test_arrays_with_a_mask_are_refused(binding):
    class Masked:
        def __init__(self):
            self.array = np.zeros(7, "float32")

        @property
        def __cuda_array_interface__(self):
            return {**self.array.__array_interface__, "mask": self}

    with pytest.raises(tl_dpnp.TLTypeError, match="given an array with a mask, and kernels know no masks"):
        binding.bind([Exporter(np.zeros((3, 5), "float32", order="F")), Masked()])


def test_groups_take_them():
    group = tl_dpnp.group([Exporter(np.zeros(3, "float32")) for _ in range(2)])
    assert group.queue == cuda_device(0)
    assert [view.shape for view in group.views] == [(3,), (3,)]


def read_only():
    array = np.zeros(7, "float32")
    array.flags.writeable = False
    return array


class Refusing(Exporter):
    def __dlpack__(self, **options):
        raise BufferError("it is sparse")


@pytest.mark.parametrize(("given", "error", "text"), [
    (Exporter(np.zeros(7, "float32"), place=1), tl_dpnp.TLTypeError, "a Exporter on a CPU"),
    (Exporter(np.zeros(7, "float32"), place=8), tl_dpnp.TLTypeError, "on a device of DLPack type 8"),
    (Refusing(np.zeros(7, "float32")), tl_dpnp.TLTypeError, "cannot be exported: it is sparse"),
    (Exporter(np.zeros(7, "float64")), tl_dpnp.TLTypeError, "it was given one of float64"),
    (Exporter(read_only()), tl_dpnp.TLBindingError, "%y is written, but the array is read-only"),
    (np.zeros(7, "float32"), tl_dpnp.TLTypeError, "a NumPy array, which lives in the host's memory"),
])
def test_what_does_not_fit_is_refused(given, error, text):
    kernel = tl_dpnp.compile(SOURCE, target="cuda")
    with pytest.raises(error, match=text):
        kernel(Exporter(np.zeros((3, 5), "float32", order="F")), given)


BATCH = """
func @batch(%A: memref<f32x4x3x?{strides}>, %C: memref<f32x4x3x?,strided<1,4,?>>) {{
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x4x3x?{strides}>
  %c = subview %C[:,:,%g] : memref<f32x4x3x?,strided<1,4,?>>
  axpby.n 1.0, %a, 2.0, %c : f32, memref<f32x4x3>, f32, memref<f32x4x3>
}}
"""


def batches(count):
    """Return a batch in which one matrix is repeated, and one that is not."""
    matrix = np.zeros((4, 3), "float32", order="F")
    return as_strided(matrix, (4, 3, count), (4, 16, 0)), np.zeros((4, 3, count), "float32", order="F")


def test_a_matrix_that_is_repeated_is_taken_where_it_is_only_read():
    binding = tl_dpnp.compile(BATCH.format(strides=",strided<1,4,?>"), target="cuda")._binding
    repeated, own = batches(5)
    call = binding.bind([Exporter(repeated), Exporter(own)])
    assert (call.arguments[0].strides, call.groups) == ((1, 4, 0), 5)
    with pytest.raises(tl_dpnp.LayoutError, match="axis 2 is 0; column-major layout asks for at least 12"):
        binding.bind([Exporter(own), Exporter(repeated)])
    tall = np.broadcast_to(np.zeros((4, 1, 5), "float32", order="F"), (4, 3, 5))
    with pytest.raises(tl_dpnp.LayoutError, match="the stride of axis 1 is 0"):
        binding.bind([Exporter(tall), Exporter(own)])
    declared = tl_dpnp.compile(BATCH.format(strides=""), target="cuda")._binding
    with pytest.raises(tl_dpnp.LayoutError, match=r"declare %A: memref<f32x4x3x\?,strided<1,4,\?>>"):
        declared.bind([Exporter(repeated), Exporter(own)])


def test_arrays_that_offer_dlpack_only_are_reversed_where_they_are_exported():
    binding = tl_dpnp.compile(SOURCE, target="cuda")._binding
    x = np.zeros((5, 3), "float32")
    given = tl_dpnp.rev(Exporter(x))
    assert (given.shape, given.ndim) == ((3, 5), 2)
    call = binding.bind([given, Exporter(np.zeros(7, "float32"))])
    view = call.arguments[0].view
    assert (view.shape, view.strides, view.address, view.queue) == ((3, 5), (1, 3), x.ctypes.data, cuda_device(0))
    assert tl_dpnp.rev(given).array is x
    vector = Exporter(np.zeros(7, "float32"))
    assert tl_dpnp.rev([vector]) == [vector]


def jax_like(array):
    """Return an array of a class that only the package of its module tells from others."""
    kind = type("ArrayImpl", (Exporter,), {"__module__": "jaxlib._jax", "__cuda_array_interface__": None})
    return kind(array)


@pytest.mark.parametrize(("array", "words"), [
    (Exporter(np.zeros((3, 5), "float32")), 'pass cupy.asarray(cupy.from_dlpack(array), order="F")'),
    (jax_like(np.zeros((3, 5), "float32")), "pass tl_dpnp.rev(array.T), a column-major copy"),
    (jax_like(np.zeros((5, 3), "float32")), "pass tl_dpnp.rev(array), a view that copies nothing"),
])
def test_advice_is_in_the_words_of_the_package(array, words):
    kernel = tl_dpnp.compile(SOURCE, target="cuda")
    with pytest.raises(tl_dpnp.LayoutError) as caught:
        kernel(array, Exporter(np.zeros(7, "float32")))
    assert words in str(caught.value)
    assert "dpnp.asarray" not in str(caught.value).replace("tl_dpnp", "")
