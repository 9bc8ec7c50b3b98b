"""Arrays of other packages on SYCL devices: seen through ``__sycl_usm_array_interface__`` or DLPack."""

from __future__ import annotations

import gc
import types
import weakref

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import AXPY, FUSED, ByDLPack
from tests.runtime.test_binding import COPY
from tl_dpnp.errors import TLBindingError, TLTypeError
from tl_dpnp.runtime.sycl.arrays import view_of
from tl_dpnp.runtime.sycl.tensor_adapter import ExecutionPlacementError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

TARGETS = pytest.mark.parametrize("target", ["sycl", "reference"])


class ByInterface:
    """An array of a package that dpctl does not know."""

    def __init__(self, array):
        self.array = array

    @property
    def __sycl_usm_array_interface__(self):
        return {**self.array.__sycl_usm_array_interface__}


WAYS = pytest.mark.parametrize("way", [ByInterface, ByDLPack])


@WAYS
@pytest.mark.parametrize("view", [
    lambda a: a, lambda a: a[2:5], lambda a: a[::-2], lambda a: a.T, lambda a: a[1:4, ::2].T, lambda a: a[:, ::-1],
    lambda a: a[3, 2:4], lambda a: a[0:0],
])  # fmt: skip
def test_views_lie_where_they_lie(way, view):
    array = view(dpt.reshape(dpt.arange(42, dtype="float32"), (6, 7)))
    seen = view_of(way(array))
    assert (seen.address, seen.shape, seen.dtype) == (array._pointer, array.shape, array.dtype)
    assert seen.queue == array.sycl_queue
    if array.size:
        assert seen.strides == array.strides
    np.testing.assert_array_equal(dpt.asnumpy(seen.array), dpt.asnumpy(array))


@WAYS
@TARGETS
def test_they_are_used_in_place_call_after_call(way, target):
    kernel = tl_dpnp.compile(AXPY, target=target)
    base, x = dpt.zeros(20, dtype="float32"), dpt.ones(5, dtype="float32")
    for count in range(1, 40):
        kernel(1.0, way(x), way(base[3:8]))
        if count % 13 == 0:  # between two, arrays of dpctl
            kernel(-1.0, x=x, y=base[3:8])
            kernel(1.0, x, way(base[3:8]))
    assert dpt.asnumpy(base).tolist() == [0.0] * 3 + [39.0] * 5 + [0.0] * 12


@WAYS
@TARGETS
def test_groups_of_them(way, target):
    draw = np.random.default_rng(1)
    a, b, c = (draw.integers(-3, 4, shape).astype("f4") for shape in [(6, 16, 8), (8, 8), (8, 16)])
    A = [way(dpt.asarray(matrix, order="F")) for matrix in a]
    B, C = (way(dpt.asarray(matrix, order="F")) for matrix in (b, c))
    kernel = tl_dpnp.compile(FUSED, target=target)
    for given in (A, tl_dpnp.group(A)):
        D = dpt.zeros((16, 16, 6), dtype="float32", order="F")
        kernel(1.0, given, B, C, way(D))
        np.testing.assert_array_equal(dpt.asnumpy(D).transpose(2, 0, 1), a @ b.T @ c)


@WAYS
def test_what_is_read_only_stays_so(way):
    kernel = tl_dpnp.compile(AXPY)
    x, y = dpt.ones(4, dtype="float32"), dpt.ones(4, dtype="float32")
    y.flags.writable = False
    kernel(1.0, way(y), x)
    assert dpt.asnumpy(x).tolist() == [2.0] * 4
    with pytest.raises(TLBindingError, match="%y is written, but the array is read-only"):
        kernel(1.0, way(x), way(y))


def test_the_interface_may_say_that_memory_is_read_only():
    array = ByInterface(dpt.ones(4, dtype="float32"))
    interface = array.__sycl_usm_array_interface__
    fixed = type("Fixed", (), {"__sycl_usm_array_interface__": {**interface, "data": (interface["data"][0], True)}})()
    with pytest.raises(TLBindingError, match="read-only"):
        tl_dpnp.compile(AXPY)(1.0, array, fixed)


@WAYS
def test_the_reference_target_sees_interleaved_views_as_one_memory(way):
    """Their spans overlap, though they are memory objects of their own: writing one back must not undo the other."""
    base, source = dpt.zeros((2, 6), dtype="float32", order="F"), dpnp.asarray(
        [[1.0, 2, 3], [4, 5, 6]], dtype="f4", order="F")
    text = """func @copy(%A: memref<f32x?x?,strided<?,?>>, %B: memref<f32x?x?,strided<?,?>>,
                         %C: memref<f32x?x?,strided<?,?>>) {
      axpby.n 1.0, %A, 0.0, %B : f32, memref<f32x?x?,strided<?,?>>, f32, memref<f32x?x?,strided<?,?>>
      axpby.n 2.0, %A, 0.0, %C : f32, memref<f32x?x?,strided<?,?>>, f32, memref<f32x?x?,strided<?,?>>
    }"""
    tl_dpnp.compile(text, target="reference")(source, way(base[:, ::2]), way(base[:, 1::2]))
    assert dpt.asnumpy(base).tolist() == [[1, 2, 2, 4, 3, 6], [4, 8, 5, 10, 6, 12]]


@WAYS
def test_submit_keeps_their_memory_alive(way):
    kernel = tl_dpnp.compile(COPY)
    source = dpt.ones((400, 400), dtype="float32", order="F")
    out = dpt.zeros((400, 400), dtype="float32", order="F")
    given = way(source)
    gone = weakref.ref(source)
    event = kernel.submit(given, way(out))
    del source, given
    gc.collect()
    event.wait()
    assert (dpt.asnumpy(out) == 1).all()
    tl_dpnp.wait(out.sycl_queue)
    kernel._forget_launches()
    gc.collect()
    assert gone() is None


def test_the_interface_names_the_queue():
    queue = dpctl.SyclQueue()
    x, y = (dpt.ones(4, dtype="float32", sycl_queue=queue) for _ in range(2))
    tl_dpnp.compile(AXPY)(1.0, ByInterface(x), ByInterface(y))
    assert dpt.asnumpy(y).tolist() == [2.0] * 4
    with pytest.raises(ExecutionPlacementError, match="%x and the array for %y are on different queues"):
        tl_dpnp.compile(AXPY)(1.0, ByInterface(x), ByInterface(dpt.ones(4, dtype="float32")))


def test_dpctl_arrays_of_another_context_are_not_taken_by_dlpack():
    (part, *_) = dpctl.select_default_device().create_sub_devices(partition=[1])
    array = dpt.ones(4, dtype="float32", sycl_queue=dpctl.SyclQueue(part))
    with pytest.raises(TLTypeError, match=r"a ByDLPack that dpctl cannot use without a copy: .*context"):
        tl_dpnp.compile(AXPY)(1.0, ByDLPack(array), dpt.ones(4, dtype="float32"))


class _On:
    """Something that says by DLPack where it is."""

    def __init__(self, place):
        self.place = place

    def __dlpack_device__(self):
        return self.place, 0

    def __dlpack__(self, **options):
        raise BufferError("it is not to be had")


@pytest.mark.parametrize(("value", "text"), [
    (_On(1), r"a _On on a CPU(.|\n)*hint: copy it to the device: dpnp.asarray\(numpy.from_dlpack\(array\)\)"),
    (_On(2), r'a _On on a CUDA device(.|\n)*hint: compile the kernel with target="cuda"'),
    (_On(10), "a _On on a ROCm device"), (_On(77), "a _On on a device of DLPack type 77"),
    (_On(14), r"a _On that dpctl cannot use without a copy: (it is not to be had|Importing data via DLPack)"),
    (type("X", (), {"__sycl_usm_array_interface__": {}})(), "a X that dpctl cannot use without a copy: "),
    (_On, "a type, no array"),
])  # fmt: skip
@TARGETS
def test_what_is_no_array_of_a_sycl_device_is_refused(target, value, text):
    with pytest.raises(TLTypeError, match=text):
        tl_dpnp.compile(AXPY, target=target)(1.0, value, dpt.ones(4, dtype="float32"))


def test_the_stream_of_pytorch_is_waited_for(monkeypatch):
    """With a module in PyTorch's place: its exporter does not wait for what it has queued."""
    waited = []

    class Tensor(ByDLPack):
        device = "xpu:0"

        def __dlpack__(self, **options):
            assert waited, "exported before its stream was waited for"
            return super().__dlpack__(**options)

    def stream(device):
        return types.SimpleNamespace(synchronize=lambda: waited.append(device))

    torch = types.SimpleNamespace(Tensor=Tensor, xpu=types.SimpleNamespace(current_stream=stream))
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    x, y = dpt.ones(4, dtype="float32"), dpt.ones(4, dtype="float32")
    kernel = tl_dpnp.compile(AXPY)
    kernel(1.0, Tensor(x), y)
    before = len(waited)
    assert before
    kernel(1.0, Tensor(x), y)
    assert len(waited) > before
    assert set(waited) == {"xpu:0"}
    assert dpt.asnumpy(y).tolist() == [3.0] * 4
