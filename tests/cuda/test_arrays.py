"""Arrays that offer DLPack only, without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

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
