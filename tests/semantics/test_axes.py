"""Launches along three axes: each work-group knows its place, whatever target and whatever form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.semantics.support import TARGETS, fortran, whole

EXTENTS = [(5, 3, 2), (1, 1, 4), (7, 1, 1), (1, 6, 1), (0, 3, 2), (2, 0, 3)]
#: Each work-group notes its place and the extents of the launch.
PLACES = """func @f(%x: memref<index x ? x ? x ? x 6>) {
  %i = group_id.x : index  %j = group_id.y : index  %k = group_id.z : index
  %a = num_groups.x : index  %b = num_groups.y : index  %c = num_groups.z : index
  store %i, %x[%i, %j, %k, 0]  store %j, %x[%i, %j, %k, 1]  store %k, %x[%i, %j, %k, 2]
  store %a, %x[%i, %j, %k, 3]  store %b, %x[%i, %j, %k, 4]  store %c, %x[%i, %j, %k, 5]
}"""
#: C[:, :, i, j] := A[i] B[j] for groups of matrices.
PRODUCTS = """func @f(%A: group<memref<f32x{m}x{k}> x ?>, %B: group<memref<f32x{k}x{n}> x ?>,
                      %C: memref<f32x{m}x{n}x?x?>) {{
  %i = group_id.x : index  %j = group_id.y : index
  %a = load %A[%i] : memref<f32x{m}x{k}>
  %b = load %B[%j] : memref<f32x{k}x{n}>
  %c = subview %C[0:{m}, 0:{n}, %i, %j] : memref<f32x{m}x{n}>
  gemm 1.0, %a, %b, 0.0, %c
}}"""


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("extents", EXTENTS)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_work_groups_know_their_place_and_the_extents(target, extents, by_hand):
    x = fortran(np.full((*extents, 6), -1))
    target.run(PLACES, x, group_size=extents if by_hand else None)
    for place in itertools.product(*map(range, extents)):
        assert x[place].tolist() == [*place, *extents]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_places_where_control_flow_and_work_items_ask_for_them(target):
    x = fortran(np.zeros((8, 3, 4), "i8"))
    target.run("""func @f(%x: memref<i64x8x?x?>) {
      foreach (%i) = (0), (8) {
        %y = group_id.y : index  %z = group_id.z : index
        for %n = 0, 2 {
          %h = num_groups.y : index
          %a = mul %z, %h : index  %b = add %a, %y : index  %c = cast %b : i64
          %old = load %x[%i, %y, %z] : i64
          %new = add %old, %c : i64
          store %new, %x[%i, %y, %z]
        }
      }
    }""", x, group_size=(1, 3, 4))
    np.testing.assert_array_equal(x, np.broadcast_to(2 * (np.arange(3)[:, None] + 3 * np.arange(4)), x.shape))


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 8), (17, 5, 3)])
def test_products_of_all_pairs(target, m, n, k):
    a, b = ([whole(seed, *shape) for seed in range(count)] for count, shape in ((3, (m, k)), (4, (k, n))))
    c = fortran(np.full((m, n, 3, 4), np.nan, "f4"))
    target.run(PRODUCTS.format(m=m, n=n, k=k), a, b, c)
    for i, j in itertools.product(range(3), range(4)):
        np.testing.assert_array_equal(c[:, :, i, j], a[i] @ b[j])


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_axes_that_a_program_does_not_know_repeat_its_work(target):
    source = "func @f(%x: memref<i32x?>) { %i = group_id  %o = atomic_add 1, %x[%i] : i32 }"
    x = fortran(np.zeros(5, "i4"))
    kernel = target.compile(source)
    for extents in ((5, 1, 1), (5, 3, 2), 5, None, (5, 0, 1)):
        target.call(kernel, x, group_size=extents)
    assert x.tolist() == [9] * 5
