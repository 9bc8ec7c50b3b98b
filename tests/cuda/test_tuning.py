"""Tuning on CUDA devices: copies of what kernels write, with a driver whose memory is NumPy's, and refusals."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.exporters import Exporter
from tl_dpnp.runtime.cuda import replicas as cuda_replicas
from tl_dpnp.runtime.cuda.arrays import cuda_device

SOURCE = """
func @f(%x: memref<f32x?>, %y: memref<f32x?x?,strided<?,?>>, %A: group<memref<i32x?>, offset: ?>, %z: memref<f64x?>) {
  %g = group_id
  %0 = load %y[0, 0] : memref<f32x?x?,strided<?,?>>
  %1 = load %x[0] : memref<f32x?>
  store %1, %y[0, 0] : memref<f32x?x?,strided<?,?>>
  %a = load %A[%g] : group<memref<i32x?>, offset: ?>
  store 1, %a[0] : memref<i32x?>
  store 1.0, %z[0] : memref<f64x?>
}
"""


class FakeDriver:
    class Memory:
        def __init__(self, ordinal, size):
            self.ordinal, self.size = ordinal, size
            self.bytes = np.full(size + 256, 0xAA, "uint8")
            self.address = self.bytes.ctypes.data + -self.bytes.ctypes.data % 256

    @staticmethod
    def copy(ordinal, source, target, size):
        ctypes.memmove(target, source, size)

    @staticmethod
    def synchronize(ordinal):
        pass


def seen(array):
    """Return what an array with `__cuda_array_interface__` holds."""
    class View:
        __array_interface__ = array.__cuda_array_interface__

    return np.asarray(View())


def test_copies_are_laid_out_as_what_is_written_and_can_be_restored(monkeypatch):
    monkeypatch.setattr(cuda_replicas, "driver", FakeDriver)
    monkeypatch.setattr("tl_dpnp.runtime.cuda.arrays._device_of", lambda array: 0)
    random = np.random.default_rng(0)
    x = random.random(4).astype("float32")
    y = random.random((30, 9)).astype("float32", order="F")[::2, 1::3]
    whole = np.arange(40, dtype="int32")
    elements = [whole[10:15], whole[20:28], whole[5:5]]
    z = random.random(0)
    given = [Exporter(x), Exporter(y), tl_dpnp.group([Exporter(part) for part in elements], offset=3), Exporter(z)]
    kernel = tl_dpnp.compile(SOURCE, target="cuda")
    binding = kernel._binding
    call = binding.bind(given, 2)
    replicas = cuda_replicas.CudaReplicas(call, given, binding.program.usage, cuda_device(0))
    assert replicas.arguments[0] is given[0]
    copy = replicas.arguments[1]
    view = seen(copy)
    assert (view.shape, view.strides) == (y.shape, y.strides)
    assert view.ctypes.data % 64 == y.ctypes.data % 64
    np.testing.assert_array_equal(view, y)
    assert not np.shares_memory(view, y)
    group = replicas.arguments[2]
    assert (len(group), group.offset) == (3, 3)
    for taken, part in zip(group, elements, strict=True):
        reached = seen(taken).ctypes.data + 4 * 3
        if len(part):
            contents = np.frombuffer((ctypes.c_char * part.nbytes).from_address(reached), "int32")
            np.testing.assert_array_equal(contents, whole[part[0] + 3 : part[0] + 3 + len(part)])
    assert seen(replicas.arguments[3]).shape == (0,)
    bound = binding.bind(replicas.arguments, 2)
    assert bound.arguments[1].strides == call.arguments[1].strides
    assert not replicas.exact
    old = y.copy()
    view[:] = 0
    replicas.restore()
    np.testing.assert_array_equal(view, old)
    np.testing.assert_array_equal(y, old)


@pytest.mark.parametrize("form", ["staged", "tiled"])
def test_forms_without_schedules_are_not_tuned(form):
    with pytest.raises(tl_dpnp.UnsupportedError, match="has no schedules to search"):
        tl_dpnp.compile(SOURCE, target="cuda", form=form).tune()
