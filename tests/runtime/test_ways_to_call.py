"""All ways to call that machine code takes: numbers of work-groups, classes of numbers, C order, groups."""

from __future__ import annotations

import math
import random as chance

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.test_short_calls import CHAIN, _all_are_short  # noqa: F401
from tl_dpnp import LayoutError, OverlapWarning, TLBindingError, TLError, config

MARK = """
func @mark(%y: memref<i32x?>, %v: i32) {
  %g = group_id
  store %v, %y[%g] : memref<i32x?>
}
"""


def test_repeated_calls_with_a_number_of_work_groups_take_the_short_way(monkeypatch):
    """Each number has functions of its own, which run as many work-groups."""
    kernel, array = tl_dpnp.compile(MARK), dpnp.zeros(9, dtype="i4")
    for _ in range(4):
        for size in (None, 3, 5):
            kernel(array, 1, group_size=size)

    def looked_at(*_):
        raise AssertionError("the call was looked at anew")

    with monkeypatch.context() as patched:
        patched.setattr(type(kernel), "_call", looked_at)
        for value, size in ((2, None), (3, 5), (4, 3)):
            kernel(array, value, group_size=size)
        with pytest.raises(AssertionError, match="looked at anew"):
            kernel(array, 7, group_size=4)
    np.testing.assert_array_equal(array.asnumpy(), [4, 4, 4, 3, 3, 2, 2, 2, 2])


def test_numbers_of_work_groups_are_checked_beside_those_of_the_short_way():
    kernel, array = tl_dpnp.compile(MARK), dpnp.zeros(9, dtype="i4")
    for _ in range(4):
        kernel(array, 1, group_size=3)
    for size in (-1, "3", [3, 3, 3, 3]):
        with pytest.raises(TLError):
            kernel(array, 2, group_size=size)
    assert (array.asnumpy() <= 1).all()


@pytest.mark.parametrize("number", [3, np.float32(0.5), np.float64(1e30), np.int16(4)])
def test_numbers_of_any_class_take_the_short_way(number, monkeypatch):
    """Integers for floats and NumPy's numbers; one that does not fit is refused as it always is."""
    kernel = tl_dpnp.compile("""func @fill(%v: f64, %n: i32, %y: memref<f64x?>) {
      %0 = cast %n : i32 -> f64
      %1 = arith.add %v, %0 : f64
      %c0 = constant 0 : index
      store %1, %y[%c0] : memref<f64x?>
    }""")
    array, count = dpnp.zeros(1), np.int64(7) if isinstance(number, np.generic) else 7
    for _ in range(4):
        kernel(number, count, array)
    with monkeypatch.context() as patched:
        patched.setattr(type(kernel), "_call", None)
        kernel(number, count, array)
    assert float(array[0]) == float(number) + 7
    with pytest.raises(TLBindingError):
        kernel(type(number)(1), 1 << 40, array)
    kernel(type(number)(-1), 7, array)
    assert float(array[0]) == 6
    with pytest.raises(TLError):
        kernel(10 ** 400, 7, array)


@pytest.mark.parametrize("size", [None, 5])
def test_repeated_calls_in_c_order_take_the_short_way(size, monkeypatch):
    """Also with the launch that arrays in Fortran order have, whose functions look at other strides."""
    kernel = tl_dpnp.compile(CHAIN.format(m=4, n=4, k=4))
    fortran = [dpnp.asarray(np.full(shape, 2.0), order="F") for shape in ((4, 4, 5), (4, 4), (4, 4, 5))]
    rows = [dpnp.asarray(np.arange(math.prod(shape), dtype="f8").reshape(shape)) for shape in ((5, 4, 4), (4, 4))]
    result = dpnp.zeros((5, 4, 4))
    for _ in range(4):
        kernel(1.0, fortran[0], fortran[1], fortran[2], 0.0, group_size=size)
        kernel.in_c_order(1.0, rows[0], rows[1], result, 0.0, group_size=size)
    result[:] = 0
    with monkeypatch.context() as patched:
        patched.setattr(type(kernel), "_run", None)
        kernel.in_c_order(1.0, rows[0], rows[1], result, 0.0, group_size=size)
        kernel(1.0, fortran[0], fortran[1], fortran[2], 0.0, group_size=size)
    np.testing.assert_array_equal(result.asnumpy(), rows[1].asnumpy() @ rows[0].asnumpy())
    for call, arrays in ((kernel, (*rows, result)), (kernel.in_c_order, fortran)):
        with pytest.raises(LayoutError):
            call(1.0, *arrays, 0.0, group_size=size)


GATHER = """
func @gather(%A: group<memref<f32x4>>, %y: memref<f32x?>) {
  %g = group_id
  %a = load %A[%g] : group<memref<f32x4>>
  %c0 = constant 0 : index
  %0 = load %a[%c0] : memref<f32x4>
  store %0, %y[%g] : memref<f32x?>
}
"""


def test_results_that_come_near_the_arrays_of_a_group_take_the_long_way():
    """The short way refuses what overlaps, as the check in Python does, wherever in memory it lies."""
    memory, pick = dpnp.arange(400, dtype="f4"), chance.Random(5)
    starts = sorted(pick.sample(range(100, 300, 4), 12))
    group = tl_dpnp.group([memory[start:start + 4] for start in starts])
    kernel, apart = tl_dpnp.compile(GATHER), dpnp.zeros(12, dtype="f4")
    for _ in range(4):
        kernel(group, apart)
    (function,) = kernel._direct.functions
    np.testing.assert_array_equal(apart.asnumpy(), starts)
    taken = set()
    for first in range(60, 340):
        kept = memory.asnumpy()
        free = not any(start < first + 12 and first < start + 4 for start in starts)
        assert function((group, memory[first:first + 12])) == free
        taken.add(free)
        memory[:] = dpnp.asarray(kept)
    assert taken == {True, False}
    with pytest.warns(OverlapWarning):
        kernel(group, memory[starts[3] - 4:starts[3] + 8])


def test_more_numbers_of_work_groups_than_are_kept_are_right():
    kernel, array = tl_dpnp.compile(MARK), dpnp.zeros(40, dtype="i4")
    for _ in range(3):
        for size in range(40, 0, -1):
            kernel(array, size, group_size=size)
    np.testing.assert_array_equal(array.asnumpy(), range(1, 41))


MIXED = """
func @mixed(%al: f64, %n: i32, %A: memref<f64x?x?x?,strided<1,?,?>>, %G: group<memref<f64x?x?>>,
            %C: memref<f64x?x?x?,strided<1,?,?>>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f64x?x?,strided<1,?>>
  %b = load %G[%g] : group<memref<f64x?x?>>
  %c = subview %C[:,:,%g] : memref<f64x?x?,strided<1,?>>
  %f = cast %n : i32 -> f64
  %s = arith.add %al, %f : f64
  gemm.n.n %s, %a, %b, 0.0, %c
      : f64, memref<f64x?x?,strided<1,?>>, memref<f64x?x?>, f64, memref<f64x?x?,strided<1,?>>
}
"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.filterwarnings("ignore::tl_dpnp.OverlapWarning")
def test_the_short_way_gives_the_results_and_the_errors_of_the_thorough_one(seed):
    """Calls of all kinds, in turns: views, gaps, groups, lists, both orders, numbers that fit and others."""
    pick, values = chance.Random(seed), np.random.default_rng(seed)
    short, thorough = tl_dpnp.compile(MIXED), tl_dpnp.compile(MIXED)
    m, n, k, batch = (pick.randint(1, 6) for _ in range(4))

    def array(*shape):
        return dpnp.asarray(np.asfortranarray(values.integers(-3, 4, shape).astype("f8")), order="F")

    def in_c(one):
        return dpnp.asarray(np.ascontiguousarray(dpnp.asnumpy(one).T))

    factors = [array(m, k, batch), array(m, k, batch), array(m + 2, k, batch)[1:-1], array(m, k, batch)[:, :, ::-1],
               array(m, k + 1, batch)]
    results = [array(m, n, batch), array(m, n, batch), array(m + 3, n, batch)[1:-2], array(m, n, batch + 1)]
    listed, others = ([array(k, n) for _ in range(batch)] for _ in range(2))
    gaps = [array(k + 2, n)[:-2] for _ in range(batch)]
    lists = [tl_dpnp.group(listed), listed, tuple(listed), others, gaps, [*others, gaps[0]]]
    kinds = {False: (factors, lists, results)}
    turned = [in_c(one) for one in listed]
    kinds[True] = [in_c(one) for one in factors], [tl_dpnp.group(turned), turned, [*map(in_c, others)]], [
        in_c(one) for one in results]
    usual = [1.0, 2.0, 3, np.float32(2)], [1, 2, np.int32(3)], [None, None, 1, batch]
    strange = ([math.inf, True, "x", 10 ** 400, math.nan, None], [2 ** 40, 1.5, True, np.int8(-1)],
               [0, -1, batch + 1, (batch, 1, 1), np.int64(1), "2"])
    agreed = {True: 0, False: 0}
    for _ in range(200):
        in_order = pick.random() < 0.4
        a, g, c = (pick.choice(some) for some in kinds[in_order if pick.random() < 0.97 else not in_order])
        alpha, number, size = (pick.choice(odd if pick.random() < 0.1 else plain)
                               for plain, odd in zip(usual, strange, strict=True))
        before, found = dpnp.asnumpy(c).copy(), []
        for kernel in (thorough, short):
            call = kernel.in_c_order if in_order else kernel
            problem = ""
            with config.scope(SHORT_CALLS=kernel is short):
                try:
                    call(alpha, number, a, g, c, group_size=size)
                except (TLError, TypeError) as error:
                    problem = f"{type(error).__name__}: {error}"
            found.append((problem, dpnp.asnumpy(c).tobytes()))
            c[...] = dpnp.asarray(before)
        assert found[0] == found[1]
        agreed[not found[0][0]] += 1
    assert agreed[True] > 20
    assert agreed[False] > 20
    assert short._direct.functions
