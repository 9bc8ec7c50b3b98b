"""Programs that leave sizes open have kernels for the sizes of their first calls."""

from __future__ import annotations

import pickle

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp import config
from tl_dpnp.errors import TLBindingError, TLBoundsError
from tl_dpnp.runtime.specialization import MOST_SPECIALIZATIONS

PRODUCTS = """func @products(%a: memref<f32x?x?x?>, %b: memref<f32x?x?x?>, %c: memref<f32x?x?x?>) {
  %g = group_id
  %x = subview %a[:,:,%g] : memref<f32x?x?x?>
  %y = subview %b[:,:,%g] : memref<f32x?x?x?>
  %z = subview %c[:,:,%g] : memref<f32x?x?x?>
  gemm.n.n 1, %x, %y, 0, %z : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}"""


def integers(rng: np.random.Generator, *shape: int) -> dpnp.ndarray:
    return dpnp.asarray(np.asfortranarray(rng.integers(-4, 5, shape).astype(np.float32)), order="F")


def check(kernel: tl_dpnp.Kernel, rng: np.random.Generator, m: int, n: int, k: int, groups: int) -> None:
    a, b, c = integers(rng, m, k, groups), integers(rng, k, n, groups), integers(rng, m, n, groups)
    kernel(a, b, c)
    np.testing.assert_array_equal(c.asnumpy(), np.einsum("ikg,kjg->ijg", a.asnumpy(), b.asnumpy()))


def test_sizes_of_the_first_calls_have_kernels_and_others_the_general_one():
    rng = np.random.default_rng(3)
    kernel = tl_dpnp.compile(PRODUCTS)
    sizes = [tuple(map(int, rng.integers(1, 30, 3))) for _ in range(MOST_SPECIALIZATIONS + 3)]
    for _ in range(2):
        for size in sizes:
            check(kernel, rng, *size, groups=int(rng.integers(1, 5)))
    types = [signature.parameters[0] for signature in kernel.signatures]
    assert len(types) == MOST_SPECIALIZATIONS + 1
    m, _, k = sizes[0]
    assert f"memref<f32x{m}x{k}x?>" in types
    assert "memref<f32x?x?x?>" in types


def test_the_number_of_work_groups_makes_no_other_kernel():
    rng, kernel = np.random.default_rng(4), tl_dpnp.compile(PRODUCTS)
    for groups in range(5):
        check(kernel, rng, 9, 7, 5, groups)
    (signature,) = kernel.signatures
    assert signature.parameters[2] == "memref<f32x9x7x?>"


@pytest.mark.parametrize("change", [{"form": "vector"}, {"form": "subgroup"}, {"debug": True}])
def test_options_that_decide_about_the_kernel_leave_sizes_open(change):
    rng, kernel = np.random.default_rng(5), tl_dpnp.compile(PRODUCTS, **change)
    check(kernel, rng, 9, 7, 5, 3)
    check(kernel, rng, 8, 8, 8, 2)
    assert [signature.parameters[0] for signature in kernel.signatures] == ["memref<f32x?x?x?>"]


def test_the_setting_leaves_sizes_open():
    with config.scope(SPECIALIZE=False):
        kernel = tl_dpnp.compile(PRODUCTS)
    check(kernel, np.random.default_rng(6), 9, 7, 5, 3)
    assert [signature.parameters[0] for signature in kernel.signatures] == ["memref<f32x?x?x?>"]


def test_gaps_between_columns_are_part_of_the_size():
    rng, kernel = np.random.default_rng(7), tl_dpnp.compile(PRODUCTS)
    whole = integers(rng, 16, 5, 3)
    b, c = integers(rng, 5, 4, 3), integers(rng, 9, 4, 3)
    for first in (0, 3):
        part = whole[first : first + 9]
        kernel(part, b, c)
        np.testing.assert_array_equal(c.asnumpy(), np.einsum("ikg,kjg->ijg", part.asnumpy(), b.asnumpy()))
    packed = dpnp.asarray(whole[:9], order="F")
    kernel(packed, b, c)
    np.testing.assert_array_equal(c.asnumpy(), np.einsum("ikg,kjg->ijg", packed.asnumpy(), b.asnumpy()))
    assert {signature.parameters[0] for signature in kernel.signatures} == {
        "memref<f32x9x5x?,strided<1,16,?>>", "memref<f32x9x5x?>"}


def test_sizes_are_constants_of_the_kernel():
    kernel = tl_dpnp.compile("""func @f(%a: memref<f64x?x?>, %x: memref<f64x?>, %y: memref<f64x?>) {
      gemv.n 1, %a, %x, 0, %y : f64, memref<f64x?x?>, memref<f64x?>, f64, memref<f64x?>
      %n = size %y[0] : memref<f64x?>
      %last = arith.sub %n, 1 : index
      foreach %i = 0, %n {
        %v = load %y[%i] : memref<f64x?>
        %w = load %x[0] : memref<f64x?>
        %s = arith.add %v, %w : f64
        store %s, %y[%i] : memref<f64x?>
      }
      %z = subview %y[%last:1] : memref<f64x?>
      axpby.n 1, %z, 1, %z : f64, memref<f64x1>, f64, memref<f64x1>
    }""")
    for m, k in ((6, 4), (1, 9), (17, 17)):
        rng = np.random.default_rng(m)
        a, x, y = (integers(rng, *shape).astype("float64") for shape in ((m, k), (k,), (m,)))
        kernel(a, x, y)
        expected = a.asnumpy() @ x.asnumpy() + x.asnumpy()[0]
        expected[-1] *= 2
        np.testing.assert_array_equal(y.asnumpy(), expected)


def test_a_size_that_the_program_is_not_defined_for_takes_the_general_kernel():
    """An index that is a constant is checked when a program is compiled, and before that there is no size."""
    source = """func @f(%n: index, %a: memref<f32x?x?>, %x: memref<f32x?>, %y: memref<f32x?>) {
      gemv.n 1, %a, %x, 0, %y : f32, memref<f32x?x?>, memref<f32x?>, f32, memref<f32x?>
      %inside = cmp.lt 5, %n : index
      if %inside {
        %v = load %y[5] : memref<f32x?>
        store %v, %y[0] : memref<f32x?>
      }
    }"""
    kernel = tl_dpnp.compile(source)
    for m in (3, 8):
        a, x, y = (dpnp.ones(shape, dtype="float32", order="F") for shape in ((m, m), (m,), (m,)))
        kernel(m, a, x, y)
        np.testing.assert_array_equal(y.asnumpy(), np.full(m, m))
    small = [dpnp.ones(shape, dtype="float32", order="F") for shape in ((3, 3), (3,), (3,))]
    with pytest.raises(TLBoundsError, match="out of bounds: 5"):
        tl_dpnp.compile(source, debug=True)(8, *small)


def test_sizes_that_do_not_fit_one_another_are_refused():
    kernel = tl_dpnp.compile(PRODUCTS)
    a, b, c = (dpnp.ones(shape, dtype="float32", order="F") for shape in ((3, 4, 2), (5, 6, 2), (3, 6, 2)))
    with pytest.raises(TLBindingError, match="K"):
        kernel(a, b, c)
    assert not kernel.signatures


def test_a_kernel_of_sizes_is_tuned_for_them():
    rng, kernel = np.random.default_rng(8), tl_dpnp.compile(PRODUCTS)
    arrays = integers(rng, 24, 24, 50), integers(rng, 24, 24, 50), integers(rng, 24, 24, 50)
    report = kernel.tune(*arrays, budget=0.5, progress=False)
    assert "gemm_0" in str(report)
    check(kernel, rng, 24, 24, 24, 50)
    assert {signature.parameters[0] for signature in kernel.signatures} == {"memref<f32x24x24x?>"}


def test_a_pickled_kernel_compiles_for_sizes_too():
    kernel = pickle.loads(pickle.dumps(tl_dpnp.compile(PRODUCTS)))
    check(kernel, np.random.default_rng(9), 6, 7, 8, 2)
    assert kernel.signatures[0].parameters[0] == "memref<f32x6x8x?>"
