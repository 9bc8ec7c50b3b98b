"""``debug=True`` finds on the device what would otherwise read or write beside a memref."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp

FORMS = ["vector", "subgroup"]


def matrix(*shape: int) -> dpnp.ndarray:
    """Return a matrix of ones in column-major order."""
    return dpnp.ones(shape, dtype="float32", order="F")


@pytest.mark.parametrize("form", FORMS)
def test_sizes_of_views_that_an_instruction_takes_to_be_equal(form: str) -> None:
    source = """func @f(%a: memref<f32x?x?>, %b: memref<f32x?x?>, %c: memref<f32x?x?>, %n: index) {
        %x = subview %a[0:%n, :] : memref<f32x?x?>
        gemm.n.n 1.0, %x, %b, 0.0, %c
            : f32, memref<f32x?x?,strided<1,?>>, memref<f32x?x?>, f32, memref<f32x?x?>
    }"""
    kernel = tl_dpnp.compile(source, form=form, debug=True)
    c = matrix(8, 7)
    kernel(matrix(8, 5), matrix(5, 7), c, 8)
    np.testing.assert_array_equal(dpnp.asnumpy(c), np.full((8, 7), 5.0))
    with pytest.raises(tl_dpnp.TLBoundsError, match=r":3:9: error: size of mode 0 of an operand of gemm .*: 6, .* 8"):
        kernel(matrix(8, 5), matrix(5, 7), matrix(8, 7), 6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("view", "start", "message"),
    [
        ("%x[%i:?]", 13, "offset of the slice is out of bounds: 13, where the most is 12"),
        ("%x[%i:?]", -1, "offset of the slice is out of bounds: -1"),
        ("%x[%i:4]", 9, "size of the slice is out of bounds: 4, where the most is 3"),
    ],
)
def test_slices(form: str, view: str, start: int, message: str) -> None:
    source = f"""func @f(%x: memref<f32x?>, %s: memref<f32>, %i: index) {{
        %v = subview {view} : memref<f32x?>
        sum.n 1.0, %v, 0.0, %s : f32, memref<f32x{"?" if "?" in view else 4}>, f32, memref<f32>
    }}"""
    kernel = tl_dpnp.compile(source, form=form, debug=True)
    x, total = dpnp.ones(12, dtype="float32"), dpnp.zeros((), dtype="float32")
    kernel(x, total, 8)
    assert float(total) == 4.0
    with pytest.raises(tl_dpnp.TLBoundsError, match=message):
        kernel(x, total, start)


@pytest.mark.parametrize("form", FORMS)
def test_an_index_inside_foreach_names_its_work_group(form: str) -> None:
    source = """func @f(%x: memref<i32x?x?>, %n: index) {
        %g = group_id
        foreach %i = 0, %n {
            store 1, %x[%i, %g] : memref<i32x?x?>
        }
    }"""
    kernel = tl_dpnp.compile(source, form=form, debug=True)
    x = dpnp.zeros((20, 3), dtype="int32", order="F")
    kernel(x, 20)
    assert int(x.sum()) == 60
    with pytest.raises(tl_dpnp.TLBoundsError, match=r":4:13: .*: 20, where the bound is 20 \(in work-group [012]"):
        kernel(x, 21)


@pytest.mark.parametrize("form", FORMS)
def test_a_work_group_ends_where_one_of_its_work_items_fails(form: str) -> None:
    """What comes behind the loop would use what was not computed there."""
    source = """func @f(%x: memref<i32x?>, %y: memref<i32x2>, %n: index) {
        store 1, %y[0] : memref<i32x2>
        foreach %i = 0, %n {
            store 2, %x[%i] : memref<i32x?>
        }
        store 3, %y[1] : memref<i32x2>
    }"""
    kernel = tl_dpnp.compile(source, form=form, debug=True)
    for count, expected in ((20, [1, 3]), (21, [1, 0]), (0, [1, 3])):
        x, y = dpnp.zeros(20, dtype="int32"), dpnp.zeros(2, dtype="int32")
        if expected[1]:
            kernel(x, y, count, group_size=1)
        else:
            with pytest.raises(tl_dpnp.TLBoundsError, match=r":4:13: .*: 20, where the bound is 20"):
                kernel(x, y, count, group_size=1)
        assert y.asnumpy().tolist() == expected


@pytest.mark.parametrize("form", FORMS)
def test_nobody_counts_to_a_number_that_was_not_loaded(form: str) -> None:
    """Work-items that fail leave no number of iterations for loops in which others wait for them."""
    source = """func @f(%first: index, %n: memref<i64x?>, %x: memref<i64x?>) {
        parallel {
            %lane = subgroup_local_id : i32
            %i = cast %lane : index
            %j = add %i, %first : index
            %m = load %n[%j] : i64
            %all = subgroup_reduce_add %m : i64
            %sum = for %k = 0, %m : i64 init(%before=%all) -> (i64) {
                %more = subgroup_reduce_add %k : i64
                %after = add %before, %more : i64
                yield (%after)
            }
            store %sum, %x[%i]
        }
    }"""
    kernel = tl_dpnp.compile(source, form=form, debug=True)
    for _ in range(2):
        x, n = dpnp.zeros(16, dtype="int64"), dpnp.full(16, 3, dtype="int64")
        kernel(0, n, x, group_size=4)
        assert x.asnumpy().tolist() == [16 * 3 + 16 * (0 + 1 + 2)] * 16
        with pytest.raises(tl_dpnp.TLBoundsError, match=r":6:13: .*where the bound is 16"):
            kernel(8, n, x, group_size=4)
