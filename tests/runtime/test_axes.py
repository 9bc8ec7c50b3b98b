"""Calls of programs that know more axes of a launch than one: how far these reach, and who says so."""

from __future__ import annotations

import pickle

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.errors import TLBindingError, TLBoundsError, TLTypeError

#: x[i, j] += s · y[j]
SCALED = """func @scaled(%x: memref<f32x?x?>, %y: memref<f32x?>, %s: f32) {
  %i = group_id.x : index
  %j = group_id.y : index
  %a = load %x[%i, %j] : f32
  %b = load %y[%j] : f32
  %c = mul %b, %s : f32
  %d = add %a, %c : f32
  store %d, %x[%i, %j]
}"""
COUNTED = "func @counted(%x: memref<i32>) { %j = group_id.y : index %k = cast %j : i32 %o = atomic_add %k, %x[] : i32 }"


@pytest.fixture(scope="module")
def scaled():
    return tl_dpnp.compile(SCALED)


def arrays(m=3, n=4):
    return dpnp.zeros((m, n), dtype="f4", order="F"), dpnp.arange(n, dtype="f4")


def test_repeated_calls_take_the_scalars_and_sizes_of_each(scaled):
    for m, n in ((3, 4), (4, 3), (3, 4)):
        x, y = arrays(m, n)
        for scale in (1.0, 2.0, 4.0):
            scaled(x, y, scale)
        scaled.submit(x, y, s=8.0).wait()
        scaled(x, y, 16.0, group_size=(m, n - 1, 1))
        expected = np.tile(31.0 * np.arange(n), (m, 1))
        expected[:, -1] = 15 * (n - 1)
        np.testing.assert_array_equal(dpnp.asnumpy(x), expected)


def test_in_c_order_and_recorded(scaled):
    x, y = dpnp.zeros((4, 3), dtype="f4"), dpnp.arange(4, dtype="f4")
    scaled.in_c_order(x, y, 1.0)
    with tl_dpnp.record() as graph:
        scaled(x.T, y, 2.0)
        scaled(x.T, y, 4.0, group_size=(1, 4, 1))
    graph()
    expected = np.tile(3.0 * np.arange(4), (3, 1))
    expected[0] += 4 * np.arange(4)
    np.testing.assert_array_equal(dpnp.asnumpy(x).T, expected)


def test_a_number_alone_is_that_along_x(scaled):
    x, y = arrays()
    scaled(x, y, 1.0, group_size=2)
    np.testing.assert_array_equal(dpnp.asnumpy(x), np.arange(4.0) * np.array([[1], [1], [0]]))
    scaled(x, y, 1.0, group_size=np.int64(3))
    assert dpnp.asnumpy(x)[2].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("group_size", "error", "message"), [
    ((4, 4, 1), TLBindingError, r"group_size=\(4, 4, 1\) is too large for @scaled: mode 0 of %x has size 3"),
    ((3, 5, 1), TLBindingError, r"mode 1 of %x has size 4, and every work-group indexes it by group_id.y"),
    ((3, -1, 1), TLBindingError, "the number of work-groups cannot be negative"),
    ((3, 4, 1 << 62), TLBindingError, "their number must fit 64 bits"),
    ((3, 4), TLTypeError, "or three along x, y and z"), ((3, 4.0, 1), TLTypeError, "or three along x, y and z"),
    ((3, True, 1), TLTypeError, "or three along x, y and z"), ("3", TLTypeError, "or three along x, y and z"),
])
@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_extents_that_do_not_fit_are_refused(group_size, error, message, target):
    with pytest.raises(error, match=message):
        tl_dpnp.compile(SCALED, target=target)(*arrays(), 1.0, group_size=group_size)


def test_sizes_along_an_axis_must_agree(scaled):
    x, _ = arrays()
    with pytest.raises(TLBindingError, match="work-groups of @scaled along y is ambiguous: mode 1 of %x has size 4, "
                                             r"mode 0 of %y has size 5"):
        scaled(x, dpnp.zeros(5, dtype="f4"), 1.0)


def test_an_axis_that_nothing_tells_of_has_to_be_given():
    kernel, x = tl_dpnp.compile(COUNTED), dpnp.zeros((), dtype="i4")
    for group_size in (None, 4):
        with pytest.raises(TLBindingError, match="along y cannot be inferred") as caught:
            kernel(x, group_size=group_size)
        assert caught.value.diagnostics[0].hint == "give it by hand: group_size=(x, y, z)"
    kernel(x, group_size=(2, 4, 3))
    assert int(x) == 2 * 3 * (1 + 2 + 3)


def test_an_axis_whose_extent_alone_is_asked_for_is_1():
    x = dpnp.zeros((), dtype="i8")
    tl_dpnp.compile("func @f(%x: memref<index>) { %n = num_groups.z : index store %n, %x[] }")(x)
    assert int(x) == 1


def test_sizes_of_elements_are_compared_for_all_pairs():
    source = """func @f(%A: group<memref<f32x4x?> x ?>, %B: group<memref<f32x?x4> x ?>, %C: memref<f32x4x4>) {
      %i = group_id.x : index  %j = group_id.y : index
      %a = load %A[%i] : memref<f32x4x?>  %b = load %B[%j] : memref<f32x?x4,strided<1,?>>
      gemm.atomic 1.0, %a, %b, 1.0, %C
    }"""
    def matrices(*shapes):
        return [dpnp.ones(shape, dtype="f4", order="F") for shape in shapes]

    kernel, c = tl_dpnp.compile(source), dpnp.zeros((4, 4), dtype="f4", order="F")
    with pytest.raises(TLBindingError, match=r"in work-group \(0, 1, 0\): K is 3 in %a but 2 in %b"):
        kernel(matrices((4, 3), (4, 3)), matrices((3, 4), (2, 4)), c)
    kernel(matrices((4, 3), (4, 3)), matrices((3, 4), (3, 4), (3, 4)), c)
    assert (dpnp.asnumpy(c) == 18).all()


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_errors_name_the_place_of_the_work_group(target):
    source = """func @f(%x: memref<f32x?x?>) {
      %i = group_id.x : index  %j = group_id.y : index  %k = add %j, %i : index
      store 1.0, %x[%i, %k]
    }"""
    kernel = tl_dpnp.compile(source, target=target, debug=True)
    with pytest.raises(TLBoundsError, match=r"in work-group \(1, 3, 0\)"):
        kernel(dpnp.zeros((2, 4), dtype="f4", order="F"), group_size=(2, 4, 1))


def test_what_a_kernel_tells_of_itself_is_the_program_as_it_was_written(scaled):
    assert [parameter.name for parameter in scaled.parameters] == ["x", "y", "s"]
    assert "the number of work-groups (along x, y and z), by default" in scaled.__doc__
    again = pickle.loads(pickle.dumps(scaled))
    x, y = arrays()
    again(x, y, 1.0)
    assert dpnp.asnumpy(x)[2].tolist() == [0, 1, 2, 3]


def test_a_kernel_from_the_cache_knows_its_axes(tmp_path, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path))
    for hits in range(2):
        x, y = arrays()
        kernel = tl_dpnp.compile(SCALED)
        kernel(x, y, 1.0)
        assert dpnp.asnumpy(x)[2].tolist() == [0, 1, 2, 3]
        assert kernel.stats.cache_hits == hits


def test_tuning_takes_the_extents_of_a_call():
    source = """func @f(%A: memref<f32x16x16x?>, %B: memref<f32x16x16>, %C: memref<f32x16x16x?x?>) {
      %i = group_id.x : index  %j = group_id.y : index
      %a = subview %A[0:16, 0:16, %i] : memref<f32x16x16>
      %c = subview %C[0:16, 0:16, %i, %j] : memref<f32x16x16>
      gemm 1.0, %a, %B, 0.0, %c
    }"""
    kernel = tl_dpnp.compile(source)
    a, b = dpnp.ones((16, 16, 3), dtype="f4", order="F"), dpnp.ones((16, 16), dtype="f4", order="F")
    c = dpnp.zeros((16, 16, 3, 2), dtype="f4", order="F")
    assert kernel.tune(a, b, c, budget=0.5, progress=False).tried
    kernel(a, b, c)
    assert (dpnp.asnumpy(c) == 16).all()


def test_programs_of_one_axis_are_compiled_as_before():
    kernel = tl_dpnp.compile("func @f(%x: memref<i32x?>) { %i = group_id.x : index store 1, %x[%i] }")
    assert [argument.name for argument in kernel.lower().arguments][-3:] == ["groups", "chunk", "beyond"]
    assert "rem" not in kernel.lower().text
    assert "groups_x" not in str(kernel.lower().legend)
