"""Groups that are given as an array of pointers on the device."""

from __future__ import annotations

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.exporters import Exporter
from tl_dpnp.runtime.call.flattening import flatten
from tl_dpnp.runtime.call.overlap import Footprint, overlap_of
from tl_dpnp.runtime.cuda.driver_adapter import device_count

SOURCE = """
func @f(%alpha: f32, %A: group<memref<f32x4x3>>, %B: group<memref<f32x3x4>{length}>, %C: memref<f32x4x4x?>) {{
  %g = group_id
  %a = load %A[%g] : group<memref<f32x4x3>>
  %b = load %B[%g] : group<memref<f32x3x4>{length}>
  %c = subview %C[:,:,%g] : memref<f32x4x4x?>
  gemm.n.n %alpha, %a, %b, 1.0, %c : f32, memref<f32x4x3>, memref<f32x3x4>, f32, memref<f32x4x4>
}}
"""
OPEN = """
func @open(%A: group<memref<f32x?x3>>) {
  %g = group_id
  %a = load %A[%g] : group<memref<f32x?x3>>
  axpby.n 1.0, %a, 2.0, %a : f32, memref<f32x?x3>, f32, memref<f32x?x3>
}
"""
on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")


def kernel(length="", source=SOURCE):
    return tl_dpnp.compile(source.format(length=length) if source is SOURCE else source, target="cuda")


def pointers(count, dtype="int64"):
    return Exporter(np.arange(count).astype(dtype))


def result(count):
    return Exporter(np.zeros((4, 4, count), "float32", order="F"))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_their_address_is_an_argument_and_their_number_that_of_work_groups(dtype):
    binding = kernel()._binding
    arguments = [2.0, pointers(5, dtype), pointers(5), result(5)]
    call = binding.bind(arguments)
    flat = flatten(binding, call, call.queue)
    assert call.groups == 5
    assert not flat.tables
    arrays = binding.arrays(arguments)
    places = dict(zip(flat.addresses, map(binding.kind.address_of, arrays), strict=True))
    assert list(places.values()) == [argument.array.ctypes.data for argument in arguments[1:]]
    others = [2.0, pointers(5, dtype), pointers(5), result(5)]
    assert binding.key(others, binding.arrays(others)) == binding.key(arguments, arrays)
    fewer = [2.0, pointers(4, dtype), pointers(4), result(4)]
    assert binding.key(fewer, binding.arrays(fewer)) != binding.key(arguments, arrays)


def test_lists_and_pointers_are_told_apart():
    binding = kernel()._binding
    listed = [Exporter(np.zeros((4, 3), "float32", order="F")) for _ in range(5)]
    mixed = [2.0, listed, pointers(5), result(5)]
    assert binding.bind(mixed).groups == 5
    assert len(binding.arrays(mixed)) == 3
    both = [2.0, pointers(5), pointers(5), result(5)]
    assert binding.key(mixed, binding.arrays(mixed)) != binding.key(both, binding.arrays(both))
    assert listed[0].streams  # the list, not the pointers alone, is what the key looks at


@pytest.mark.parametrize(("given", "error", "text"), [
    (pointers(5, "int32"), tl_dpnp.TLTypeError, r"int64 or uint64 with their addresses, .* of int32 and shape \(5,\)"),
    (Exporter(np.zeros((1, 5), "int64")), tl_dpnp.TLTypeError, r"shape \(1, 5\)"),
    (Exporter(np.arange(10)[::2]), tl_dpnp.LayoutError, "2 elements apart"),
    (np.arange(5), tl_dpnp.TLTypeError, "a NumPy array, which lives in the host's memory"),
    (pointers(4), tl_dpnp.TLBindingError, "%B takes 5 arrays, it was given 4"),
    (3, tl_dpnp.TLTypeError, "takes a list of arrays or a tl_dpnp.group, it was given a int"),
])
def test_what_does_not_fit_is_refused(given, error, text):
    with pytest.raises(error, match=text):
        kernel(" x 5")(2.0, pointers(5), given, result(5))


def test_their_number_must_be_that_of_the_others():
    with pytest.raises(tl_dpnp.TLBindingError, match="%A has 4 elements, %B has 5 elements"):
        kernel()(2.0, pointers(4), pointers(5), result(5))


def test_sizes_that_only_the_arrays_know_are_refused():
    with pytest.raises(tl_dpnp.TLTypeError, match=r"leaves sizes or strides .* open, which pointers do not say"):
        kernel(source=OPEN)(pointers(5))


def test_results_in_the_memory_of_pointers_overlap():
    made = kernel()
    memory = np.zeros(16 * 5, "float32")
    inside = Exporter(memory[:10].view("int64"))
    call = made._binding.bind([1.0, inside, pointers(5), Exporter(memory.reshape((4, 4, 5), order="F"))])
    position, text = overlap_of(made._program, call)
    assert (position, text) == (3, "the argument for %C is written and overlaps the one for %A")
    views = [argument.view for argument in call.arguments[1:]]
    footprint = Footprint(call, made._program.usage.written)
    assert footprint.may_overlap([view.address for view in views], [view.array for view in views])


@on_device
@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize(("form", "debug"), [(None, False), ("subgroup", False), (None, True)])
def test_kernels_read_them_at_each_launch(library, form, debug):
    cupy = pytest.importorskip("cupy", exc_type=ImportError)
    torch = pytest.importorskip("torch", exc_type=ImportError)
    random = np.random.default_rng(0)
    count = 700
    made = tl_dpnp.compile(SOURCE.format(length=""), target="cuda", form=form, debug=debug)
    first, second = ([cupy.asarray(random.integers(-4, 5, shape).astype("float32"))
                      for shape in ((count, 3, 4), (count, 4, 3))] for _ in range(2))

    def addresses(batch):
        found = batch.data.ptr + np.arange(count, dtype="int64") * batch[0].nbytes
        return torch.as_tensor(found, device="cuda") if library == "torch" else cupy.asarray(found)

    c = cupy.zeros((count, 4, 4), "float32")
    result = torch.as_tensor(c, device="cuda") if library == "torch" else c
    left, right = (addresses(batch) for batch in first)
    wanted = 0
    for turn in range(6):  # the same vectors, whose contents become other ones
        batches = (first, second)[turn % 2]
        left[:], right[:] = (addresses(batch) for batch in batches)
        made(2.0, left, right, tl_dpnp.rev(result))
        wanted = wanted + 2 * np.einsum("gij,gjk->gik", batches[1].get(), batches[0].get())
    assert np.array_equal(c.get(), wanted)
    fewer = [addresses(batch)[:5] for batch in first]  # other vectors, at other addresses
    made(1.0, *fewer, tl_dpnp.rev(result[:5]))
    assert np.array_equal(c.get()[:5], wanted[:5] + np.einsum("gij,gjk->gik", first[1].get(), first[0].get())[:5])
    copy = tl_dpnp.compile(OPEN.replace("x?x", "x2x"), target="cuda")
    with pytest.raises(tl_dpnp.UnsupportedError, match="give a list of arrays"):
        copy.tune(left, progress=False, budget=0.1)


@on_device
def test_graphs_read_them_at_each_start():
    torch = pytest.importorskip("torch", exc_type=ImportError)
    made = tl_dpnp.compile(OPEN.replace("x?x", "x2x"), target="cuda")
    memory = torch.ones(2, 20, 3, 2, device="cuda")
    given = torch.tensor([part.data_ptr() for part in memory[0]], device="cuda")
    with tl_dpnp.record() as graph:
        made(given)
    graph()
    given.copy_(torch.tensor([part.data_ptr() for part in memory[1]]))
    graph()
    graph()
    torch.cuda.synchronize()
    assert (memory[0] == 3).all()
    assert (memory[1] == 9).all()
