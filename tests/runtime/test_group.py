"""Groups: lists of arrays and handles."""

from __future__ import annotations

import gc
import itertools

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import FUSED, RAGGED, on_device, random
from tl_dpnp import LayoutError, TLBindingError, TLTypeError
from tl_dpnp.runtime.call import group as group_module
from tl_dpnp.runtime.sycl.tensor_adapter import ExecutionPlacementError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

TARGETS = pytest.mark.parametrize("target", ["sycl", "reference"])

#: y[g] := sum of the elements of x[g], each moved by the group's own offset.
SUMS = """
func @sums(%x: group<memref<f32x?>, offset: ?>, %y: memref<f32x?>) {
  %g = group_id
  %1 = load %x[%g] : group<memref<f32x?>, offset: ?>
  %2 = subview %y[%g] : memref<f32x?>
  sum.n 1.0, %1, 0.0, %2 : f32, memref<f32x?>, f32, memref<f32>
}
"""


def ragged_arguments(count=7, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, (count, 3))
    A = [on_device(random(m, k, seed=i)) for i, (m, n, k) in enumerate(sizes)]
    B = [on_device(random(k, n, seed=i + 100)) for i, (m, n, k) in enumerate(sizes)]
    C = [dpnp.full((m, n), np.nan, dtype="float32", order="F") for m, n, k in sizes]
    return A, B, C


def check_products(A, B, C):
    for a, b, c in zip(A, B, C, strict=True):
        assert (c.asnumpy() == a.asnumpy() @ b.asnumpy()).all()


@TARGETS
@pytest.mark.parametrize("wrap", [list, tuple, tl_dpnp.group])
def test_elements_have_sizes_of_their_own(target, wrap):
    kernel = tl_dpnp.compile(RAGGED, target=target)
    for seed in range(3):
        A, B, C = ragged_arguments(seed=seed)
        kernel(wrap(A), wrap(B), wrap(C))
        check_products(A, B, C)


@pytest.mark.parametrize("wrap", [list, tuple, tl_dpnp.group])
def test_the_reference_takes_groups_of_numpy_arrays(wrap):
    kernel = tl_dpnp.compile(RAGGED, target="reference")
    A, B, C = ([np.asfortranarray(array.asnumpy()) for array in arrays] for arrays in ragged_arguments())
    kernel(wrap(A), wrap(B), wrap(C))
    for a, b, c in zip(A, B, C, strict=True):
        assert (c == a @ b).all()


def test_the_offset_of_a_group_of_numpy_arrays():
    pools, y = [np.arange(9, dtype="float32"), np.arange(9, dtype="float32")], np.full(2, np.nan, "float32")
    group = tl_dpnp.group([pool[2:4] for pool in pools], offset=3)
    tl_dpnp.compile(SUMS, target="reference")(group, y)
    assert y.tolist() == [5 + 6] * 2
    tl_dpnp.wait(group)  # on no queue: nothing to wait for


def test_groups_of_numpy_arrays_are_for_the_reference_alone():
    host, array = [np.zeros(4, "float32")], dpnp.zeros(1, dtype="float32")
    for target in ("sycl", "reference"):
        with pytest.raises(TLTypeError, match=r"%x\[0\] takes an array of float32, it was given a NumPy array"):
            tl_dpnp.compile(SUMS, target=target)(tl_dpnp.group(host), array)
    with pytest.raises(TLTypeError, match="%y takes an array of float32, it was given a NumPy array"):
        tl_dpnp.compile(SUMS, target="reference")(tl_dpnp.group([array]), host[0])


@TARGETS
def test_elements_may_be_views_with_strides_of_their_own(target):
    kernel = tl_dpnp.compile(RAGGED, target=target)
    pool = on_device(random(40, 40))
    host = pool.asnumpy()
    A = [pool[i : i + 4, 2 * i : 2 * i + 3] for i in range(6)]
    B = [pool[i : i + 3, i : i + 5] for i in range(6)]
    C = [dpnp.zeros((4 + i, 5), dtype="float32", order="F")[:4, :] for i in range(6)]
    kernel(A, B, C)
    for i in range(6):
        assert (C[i].asnumpy() == host[i : i + 4, 2 * i : 2 * i + 3] @ host[i : i + 3, i : i + 5]).all()


@TARGETS
@pytest.mark.parametrize("empty", [[], (), tl_dpnp.group([])])
def test_empty_groups_launch_nothing(target, empty):
    kernel = tl_dpnp.compile(RAGGED, target=target)
    kernel(empty, empty, empty)
    kernel.submit(empty, [], empty).wait()
    D = dpnp.ones((16, 16, 0), dtype="float32", order="F")
    fused = tl_dpnp.compile(FUSED, target=target)
    fused(1.0, empty, on_device(random(8, 8)), on_device(random(8, 16)), D)


def test_handles_are_uploaded_once(monkeypatch):
    uploads = []
    upload = group_module.upload
    monkeypatch.setattr(group_module, "upload", lambda *values: uploads.append(1) or upload(*values))
    kernel = tl_dpnp.compile(RAGGED)
    A, B, C = ragged_arguments()
    a, b, c = map(tl_dpnp.group, (A, B, C))
    for _ in range(3):
        kernel(a, b, c)
    assert len(uploads) == 6  # addresses and sizes, for each of three groups
    tl_dpnp.compile(RAGGED)(a, b, c)
    assert len(uploads) == 6  # another kernel of the same types
    kernel(A, b, c)
    kernel(A, b, c)
    assert len(uploads) == 7  # the sizes of a list, once as long as they do not change
    check_products(A, B, C)


def test_lists_are_looked_at_again():
    kernel = tl_dpnp.compile(RAGGED)
    A, B, C = ragged_arguments()
    kernel(A, B, C)
    A[2], B[2], C[2] = on_device(random(3, 4)), on_device(random(4, 5)), dpnp.zeros((3, 5), dtype="float32", order="F")
    kernel(A, B, C)
    check_products(A, B, C)
    kernel(A[1:4], B[1:4], C[1:4])


@TARGETS
def test_dynamic_offsets_travel_with_the_group(target):
    kernel = tl_dpnp.compile(SUMS, target=target)
    pools = [dpnp.arange(10, dtype="float32") + 100 * i for i in range(3)]
    parts = [pool[4 : 4 + n] for pool, n in zip(pools, (2, 3, 4), strict=True)]
    y = dpnp.zeros(3, dtype="float32")
    for offset in (0, 2, -3):
        kernel(tl_dpnp.group(parts, offset=offset), y)
        expected = [pool.asnumpy()[4 + offset : 4 + offset + n].sum() for pool, n in zip(pools, (2, 3, 4), strict=True)]
        assert y.asnumpy().tolist() == expected
    kernel(parts, y)
    assert y.asnumpy().tolist() == [part.asnumpy().sum() for part in parts]


def test_a_group_of_a_group_has_its_offset():
    moved = tl_dpnp.group([dpnp.arange(8, dtype="float32")[2:4]], offset=3)
    assert tl_dpnp.group(moved).offset == 3
    assert tl_dpnp.group(moved, offset=0).offset == 0
    assert tl_dpnp.group(list(moved)).offset == 0


def test_another_offset_is_another_group():
    """Kernels that have seen a group would not look at it again."""
    group = tl_dpnp.group([dpnp.zeros(3)])
    for name, value in (("offset", 1), ("arrays", ())):
        with pytest.raises(AttributeError):
            setattr(group, name, value)
    assert (group.offset, len(group.arrays)) == (0, 1)


def test_static_offsets_come_from_the_type():
    source = SUMS.replace("offset: ?", "offset: 2")
    kernel = tl_dpnp.compile(source)
    x, y = dpnp.arange(10, dtype="float32"), dpnp.zeros(1, dtype="float32")
    for group in ([x[:3]], tl_dpnp.group([x[:3]]), tl_dpnp.group([x[:3]], offset=2)):
        kernel(group, y)
        assert y.asnumpy().tolist() == [2 + 3 + 4]
    with pytest.raises(TLBindingError, match=r'%x has the offset 2, the group .* has 3(.|\n)*"offset: \?"'):
        kernel(tl_dpnp.group([x[:3]], offset=3), y)


def test_arrays_stand_for_their_sub_arrays():
    batch = dpnp.asarray(random(5, 4, 3), order="C")
    kernel = tl_dpnp.compile(SUMS)
    y = dpnp.zeros(5, dtype="float32")
    kernel(tl_dpnp.group(batch[:, 2]), y)
    assert (y.asnumpy() == batch.asnumpy()[:, 2].sum(axis=1)).all()
    group = tl_dpnp.group(batch)
    assert len(group) == 5
    assert group[1].shape == (4, 3)
    assert [array.shape for array in group] == [(4, 3)] * 5


@pytest.mark.parametrize(("elements", "error", "text"), [
    (lambda a: [a, a.asnumpy()], TLTypeError, r"%A\[1\] takes an array of float32, it was given a NumPy array"),
    (lambda a: [a, a, 1.0], TLTypeError, r"%A\[2\] takes an array of float32, it was given a float"),
    (lambda a: [a, a.astype("float64")], TLTypeError, r"%A\[1\] takes an array of float32, .* one of float64"),
    (lambda a: [a, dpnp.asarray(random(3, 2), order="C")], LayoutError, r"%A\[1\]: memref<f32x\?x\?> does not fit"),
    (lambda a: [a, a[0]], TLBindingError, r"%A\[1\]: .* shape \(any, any\), it was given \(2,\)"),
    (lambda a: a, TLTypeError, r"%A takes a list of arrays or a tl_dpnp.group"),
    (lambda a: iter([a]), TLTypeError, r"%A takes a list of arrays or a tl_dpnp.group, it was given a list_iterator"),
])  # fmt: skip
@TARGETS
def test_unfit_elements_are_named(target, elements, error, text):
    a = on_device(random(2, 2))
    with pytest.raises(error, match=text):
        tl_dpnp.compile(RAGGED, target=target)(elements(a), [a, a], [a, a])


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda a: tl_dpnp.group([a, a.asnumpy()]), TLTypeError, "array 1 of the group is a NumPy array"),
    (lambda a: tl_dpnp.group([a, 2]), TLTypeError, "array 1 of the group is a int, no array"),
    (lambda a: tl_dpnp.group(7), TLTypeError, "made of a sequence of arrays, not of a int"),
    (lambda a: tl_dpnp.group([a], offset=1.0), TLTypeError, "offset"),
    (lambda a: tl_dpnp.group([a], offset=2**63), TLBindingError, "64 bits"),
])  # fmt: skip
def test_groups_of_other_things_are_refused(make, error, text):
    with pytest.raises(error, match=text):
        make(on_device(random(2, 2)))


def test_groups_share_one_queue():
    x = dpt.ones(3, dtype="float32")
    y = dpt.ones(3, dtype="float32", sycl_queue=dpctl.SyclQueue())
    with pytest.raises(ExecutionPlacementError, match="array 0 of the group and array 1 of the group"):
        tl_dpnp.group([x, y])
    with pytest.raises(ExecutionPlacementError, match=r"the array for %x\[0\] and the array for %x\[1\]"):
        tl_dpnp.compile(SUMS)([x, y], dpnp.zeros(2, dtype="float32"))


def test_a_handle_is_checked_against_each_type():
    a = on_device(random(4, 4))
    handle = tl_dpnp.group([a])
    tl_dpnp.compile(RAGGED)(handle, [a], [dpnp.zeros((4, 4), dtype="float32", order="F")])
    with pytest.raises(TLBindingError, match=r"%A\[0\]: memref<f32x16x8> takes an array of shape \(16, 8\)"):
        tl_dpnp.compile(FUSED)(1.0, handle, a, a, a)


def test_a_handle_keeps_its_arrays_alive():
    handle = tl_dpnp.group([dpnp.full(1000, i, dtype="float32") for i in range(50)])
    y = dpnp.zeros(50, dtype="float32")
    for _ in range(20):
        dpnp.full(1000, -1, dtype="float32")  # would take the place of arrays that were freed
        tl_dpnp.compile(SUMS)(handle, y)
        assert y.asnumpy().tolist() == [1000.0 * i for i in range(50)]


def test_repr():
    assert repr(tl_dpnp.group([dpnp.zeros(3, dtype="float32")], offset=-1)) == \
        "<tl_dpnp.Group of 1 arrays of float32, offset -1>"


def test_arrays_of_one_allocation():
    """They are column-major, begin at cache lines, and can be used as any arrays."""
    A, B, C = ragged_arguments()
    own = [tl_dpnp.empty_group([array.shape for array in arrays], "float32") for arrays in (A, B, C)]
    for arrays, group in zip((A, B), own[:2], strict=True):
        for array, place in zip(arrays, group, strict=True):
            place[...] = array
    tl_dpnp.compile(RAGGED)(*own)
    check_products(A, B, own[2].arrays)
    views = own[0].views
    assert all(view.address % 64 == 0 for view in views)
    assert all(0 <= after.address - view.address - view.nbytes < 64
               for view, after in itertools.pairwise(views))
    assert all(array.flags.f_contiguous for array in own[0])


def test_an_array_of_an_allocation_outlives_the_others_and_is_copied_alone():
    group = tl_dpnp.empty_group([(3, 4)] * 5, "float32")
    array = group[2]
    array[...] = 7
    del group
    gc.collect()
    dpnp.full(1 << 20, 3, dtype="float32")
    np.testing.assert_array_equal(array.asnumpy(), np.full((3, 4), 7))
    assert array.get_array().usm_data.nbytes == array.nbytes


@pytest.mark.parametrize("dtype", ["int8", "float64", np.complex128])
def test_one_allocation_of_any_type(dtype):
    shapes = [(3,), (5, 7), (), (2, 0, 3), (4, 3, 2)]
    group = tl_dpnp.empty_group(shapes, dtype, usm_type="shared")
    assert [array.shape for array in group] == shapes
    for number, array in enumerate(group):
        array[...] = number
    assert all((array.asnumpy() == number).all() for number, array in enumerate(group))
    assert {(array.dtype, array.usm_type) for array in group} == {(np.dtype(dtype), "shared")}


def test_shapes_may_come_one_by_one():
    assert [array.shape for array in tl_dpnp.empty_group(((size, 2) for size in (3, 1)), "float32")] == [(3, 2), (1, 2)]


@pytest.mark.parametrize("shapes", [[], [(0, 4)]])
def test_an_allocation_of_nothing(shapes):
    assert [array.shape for array in tl_dpnp.empty_group(shapes, "float32")] == shapes


@pytest.mark.parametrize(("shapes", "dtype", "text"), [
    ([(2, 3), 4], "float32", "shape 1 of the group is 4"),
    ([(2, -3)], "float32", "shape 0 of the group is .2, -3."),
    ([(2.0,)], "float32", "shape 0 of the group is"),
    (5, "float32", "takes a sequence of shapes, one for each array, not 5"),
    ((2, 3), "float32", r"write \[\(2, 3\)\]"),
    ([(2,)], "float31", "float31"),
    ([(2,)], object, "arrays on devices are of numbers"),
    ([(2,)], "S", "arrays on devices are of numbers"),
])
def test_allocations_that_cannot_be(shapes, dtype, text):
    with pytest.raises(TLTypeError, match=text):
        tl_dpnp.empty_group(shapes, dtype)


def test_empty_groups_are_column_major_and_take_no_order():
    """It was taken, and left the arrays column-major."""
    with pytest.raises(TypeError, match="empty_group\\(\\) got an unexpected keyword argument 'order'"):
        tl_dpnp.empty_group([(3, 4)], "float32", order="C")
