"""Lists of arrays in repeated calls: other arrays each time, without OpenCL and without tables of their own."""

from __future__ import annotations

import gc
import random as chance
import sys
import threading

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.test_short_calls import _all_are_short, on_opencl  # noqa: F401
from tl_dpnp import OverlapWarning, TLError, TLTypeError
from tl_dpnp.runtime.sycl import host_functions, lists
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: C_g = alpha A_g B, where A and C are lists.
PRODUCTS = """
func @products(%alpha: f32, %A: group<memref<f32x{m}x{k}>>, %B: memref<f32x{k}x{n}>, %C: group<memref<f32x{m}x{n}>>) {{
  %g = group_id
  %a = load %A[%g] : group<memref<f32x{m}x{k}>>
  %c = load %C[%g] : group<memref<f32x{m}x{n}>>
  gemm.n.n %alpha, %a, %B, 0.0, %c
      : f32, memref<f32x{m}x{k}>, memref<f32x{k}x{n}>, f32, memref<f32x{m}x{n}>
}}
"""
FIXED, OPEN = PRODUCTS.format(m=3, k=4, n=2), PRODUCTS.format(m="?", k="?", n="?")


def arrays(count, *shape, seed=0, kind=dpnp):
    values = np.random.default_rng(seed).integers(-4, 5, (count, *shape)).astype("f4")
    return [kind.asarray(np.asfortranarray(value), order="F") for value in values]


def on_host(array):
    return dpt.asnumpy(array) if isinstance(array, dpt.usm_ndarray) else array.asnumpy()


def without_looking(kernel, monkeypatch):
    """Return a context in which only functions for repeated calls run calls of a kernel."""
    patched = monkeypatch.context()
    patched.__enter__().setattr(type(kernel), "_call", lambda *_: pytest.fail("the call was looked at anew"))
    return patched


@pytest.mark.parametrize("source", [FIXED, OPEN])
@pytest.mark.parametrize("kind", [dpnp, dpt])
@pytest.mark.parametrize("wrap", [list, tuple])
def test_other_arrays_in_each_call_take_the_short_way(source, kind, wrap, monkeypatch):
    kernel, (b,) = tl_dpnp.compile(source), arrays(1, 4, 2)
    for call in range(8):
        a, c = arrays(5, 3, 4, seed=call, kind=kind), arrays(5, 3, 2, kind=kind)
        if call == 4:
            patched = without_looking(kernel, monkeypatch)
        kernel(2.0, wrap(a), b, wrap(c))
        for one, result in zip(a, c, strict=True):
            np.testing.assert_array_equal(on_host(result), 2 * on_host(one) @ on_host(b))
    patched.__exit__(None, None, None)
    assert "the machine code is called" in kernel.diagnostics()


def test_arrays_of_many_shapes_are_told_apart(on_opencl):  # noqa: F811
    """Each has sizes of its own, which the kernel has from the call that the function was made of."""
    kernel, (b,) = tl_dpnp.compile(OPEN.replace("f32x?x?>>, %B", "f32x?x?,strided<1,?>>>, %B").replace(
        "%A[%g] : group<memref<f32x?x?>>", "%A[%g] : group<memref<f32x?x?,strided<1,?>>>").replace(
        ": f32, memref<f32x?x?>,", ": f32, memref<f32x?x?,strided<1,?>>,")), arrays(1, 4, 2)
    pick = chance.Random(3)
    shapes = [[pick.randint(1, 6) for _ in range(3)] for _ in range(3)]
    for call in range(30):
        rows = pick.choice(shapes)
        gap = pick.choice([0, 0, 0, 2])
        a = [arrays(1, m + gap, 4, seed=call)[0][:m] for m in rows]
        c = [arrays(1, m, 2)[0] for m in rows]
        kernel(1.0, a, b, c)
        for one, result in zip(a, c, strict=True):
            np.testing.assert_array_equal(on_host(result), on_host(one) @ on_host(b))
    assert len(on_opencl) < 15


def test_a_list_that_changed_is_looked_at(monkeypatch):
    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    a, c = arrays(3, 3, 4), arrays(3, 3, 2)
    for _ in range(4):
        kernel(1.0, a, b, c)
    a[1] = arrays(1, 3, 4, seed=9)[0]
    kernel(1.0, a, b, c)
    np.testing.assert_array_equal(c[1].asnumpy(), a[1].asnumpy() @ b.asnumpy())
    wrong = [arrays(1, 4, 3)[0], a[0].astype("f8"), None, a[0].asnumpy(), [a[0]], dpnp.ones((6, 4), dtype="f4")[::2]]
    for other in wrong:
        with pytest.raises(TLError):
            kernel(1.0, [*a[:2], other], b, c)
    with pytest.raises(TLError, match="work-groups"):
        kernel(1.0, [*a, a[0]], b, c)
    c[2].flags.writable = False
    with pytest.raises(TLError, match="read-only"):
        kernel(1.0, a, b, c)
    c[2].flags.writable = True
    a.append(arrays(1, 3, 4, seed=5)[0])
    c.append(arrays(1, 3, 2)[0])
    kernel(1.0, a, b, c)
    np.testing.assert_array_equal(c[3].asnumpy(), a[3].asnumpy() @ b.asnumpy())


def test_arrays_of_lists_that_overlap_are_seen():
    """Wherever in memory an array that is written lies beside those of a list; arrays that are read may be the same."""
    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    memory = dpnp.zeros(300, dtype="f4")

    def matrix(first, *shape):
        return dpnp.reshape(memory[first:first + shape[0] * shape[1]], shape, order="F")

    starts = [40, 70, 40]
    a, c = [matrix(start, 3, 4) for start in starts], arrays(3, 3, 2)
    for _ in range(4):
        kernel(1.0, a, b, c)
    (function,) = kernel._direct.functions
    for first in range(10, 100):
        is_apart = all(first + 6 <= start or start + 12 <= first for start in starts)
        assert function((1.0, a, b, [c[0], c[1], matrix(first, 3, 2)])) == is_apart
    with pytest.warns(OverlapWarning):
        kernel(1.0, a, b, [c[0], c[1], matrix(45, 3, 2)])


@pytest.mark.parametrize("first", [40, 51, 34, 200])
def test_the_thorough_way_sees_overlap_with_arrays_of_later_lists(first, monkeypatch):
    """What was right for the arrays of an earlier list is asked again for those of another one."""
    monkeypatch.setattr(host_functions, "_MOST_LISTED", 0)
    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    memory = dpnp.zeros(300, dtype="f4")
    c = [dpnp.reshape(memory[first:first + 6], (3, 2), order="F")]
    for _ in range(4):
        kernel(1.0, arrays(1, 3, 4), b, c)
    a = [dpnp.reshape(memory[40:52], (3, 4), order="F")]
    if first == 200 or first == 34:
        kernel(1.0, a, b, c)
    else:
        with pytest.warns(OverlapWarning):
            kernel(1.0, a, b, c)


def test_lists_in_c_order_take_the_short_way(monkeypatch):
    kernel, b = tl_dpnp.compile(FIXED), dpnp.asarray(np.arange(8, dtype="f4").reshape(2, 4))
    for call in range(6):
        a = [dpnp.asarray(np.random.default_rng(call).integers(-4, 5, (4, 3)).astype("f4")) for _ in range(3)]
        c = [dpnp.zeros((2, 3), dtype="f4") for _ in range(3)]
        if call == 4:
            monkeypatch.setattr(type(kernel), "_run", lambda *_: pytest.fail("the call was looked at anew"))
        kernel.in_c_order(1.0, a, b, c)
        for one, result in zip(a, c, strict=True):
            np.testing.assert_array_equal(result.asnumpy(), b.asnumpy() @ one.asnumpy())


def test_calls_give_back_what_they_hold():
    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    a, c = arrays(3, 3, 4), arrays(3, 3, 2)
    contents = [one.get_array() for one in (*a, *c)]
    for _ in range(4):
        kernel(1.0, a, b, c)
    gc.collect()
    before = [*map(sys.getrefcount, (a, c, *a, *c, *contents))]
    for _ in range(100):
        kernel(1.0, a, b, c)
        for wrong in ([*a[:2], None], [*a[:2], b], a[:2], [a[0], a[0].asnumpy(), a[1]]):
            with pytest.raises(TLError):
                kernel(1.0, wrong, b, c)
    del wrong
    gc.collect()
    assert [*map(sys.getrefcount, (a, c, *a, *c, *contents))] == before


def test_lists_of_classes_of_the_users_take_the_thorough_way():
    """Machine code calls none of their methods, which may raise."""

    class Growing(list):
        calls = 0

        def __getitem__(self, place):
            Growing.calls += 1
            raise RuntimeError

    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    for call in range(6):
        a, c = Growing(arrays(3, 3, 4, seed=call)), arrays(3, 3, 2)
        kernel(1.0, a, b, c)
        for one, result in zip(a, c, strict=True):
            np.testing.assert_array_equal(result.asnumpy(), one.asnumpy() @ b.asnumpy())
    assert not Growing.calls
    assert not kernel._direct.functions


def test_long_lists_and_empty_ones_are_right():
    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    for count in (0, 1, 700):  # of which all pairs would be too many to compare
        for call in range(4):
            a, c = arrays(count, 3, 4, seed=call), arrays(count, 3, 2)
            kernel(1.0, a, b, c)
            assert all((result.asnumpy() == one.asnumpy() @ b.asnumpy()).all()
                       for one, result in zip(a, c, strict=True))
    with pytest.raises(TLTypeError):
        kernel(1.0, arrays(1, 3, 4)[0], b, [])


def test_tables_of_lists_are_bounded_and_shared_by_threads(monkeypatch):
    tables = lists._Tables()
    monkeypatch.setattr(lists, "_tables", tables)
    monkeypatch.setattr(tables, "MOST_TABLES", 3, raising=False)
    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    problems = []

    def work(seed):
        for call in range(30):
            a, c = arrays(4, 3, 4, seed=seed + call), arrays(4, 3, 2)
            kernel.submit(1.0, a, b, c).wait()
            if any((result.asnumpy() != one.asnumpy() @ b.asnumpy()).any() for one, result in zip(a, c, strict=True)):
                problems.append(seed)

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(tables._made) <= 3
    assert tables._addresses == sum(len(key[1]) // 8 for key in tables._made)


def test_a_recorded_list_stays():
    """Its table lives as long as what was recorded, whatever other lists come after it."""
    kernel, (b,) = tl_dpnp.compile(FIXED), arrays(1, 4, 2)
    a, c = arrays(3, 3, 4, seed=1), arrays(3, 3, 2)
    with tl_dpnp.record() as recording:
        kernel(1.0, a, b, c)
    expected = [one.asnumpy() @ b.asnumpy() for one in a]
    for call in range(2 * lists._Tables.MOST_TABLES):
        kernel.submit(1.0, arrays(3, 3, 4, seed=call), b, arrays(3, 3, 2)).wait()
    del a
    gc.collect()
    recording()
    for result, values in zip(c, expected, strict=True):
        np.testing.assert_array_equal(result.asnumpy(), values)
