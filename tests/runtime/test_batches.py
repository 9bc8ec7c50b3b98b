"""Short calls whose batch is another one each time: one function for all sizes, and the same checks as any call."""

from __future__ import annotations

import random as chance
import threading
import warnings
from dataclasses import replace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import AXPY, COUNT, FUSED, on_device
from tests.runtime.test_short_calls import CHAIN, bits, compiled
from tl_dpnp import LayoutError, OverlapWarning, TLBindingError, config
from tl_dpnp.language import FunctionBuilder, memref
from tl_dpnp.lowering.plan import EXCEEDS_ALL
from tl_dpnp.runtime.sycl import helpers, host_calls
from tl_dpnp.runtime.sycl.devices import describe
from tl_dpnp.runtime.sycl.helper_code import STATE
from tl_dpnp.runtime.sycl.host_call_code import TIME_BITS
from tl_dpnp.runtime.sycl.launch import DirectLaunch, exceeded_by
from tl_dpnp.scalars import F32
from tl_dpnp.target.catalog import SHORT_CALLS

#: y[g] := x[g] + the size of the batch.
SIZED = """
func @sized(%x: memref<i64x?>, %y: memref<i64x?>) {
  %g = group_id
  %n = size %x[0] : memref<i64x?>
  %m = cast %n : index -> i64
  %0 = load %x[%g] : memref<i64x?>
  %1 = arith.add %0, %m : i64
  store %1, %y[%g] : memref<i64x?>
}
"""
#: y[:,g] := alpha x[:,g] + y[:,g] for rows of any length.
ROWS = """
func @rows(%alpha: f32, %x: memref<f32x?x?>, %y: memref<f32x?x?>) {
  %g = group_id
  %0 = subview %x[:,%g] : memref<f32x?x?>
  %1 = subview %y[:,%g] : memref<f32x?x?>
  axpby.n %alpha, %0, 1.0, %1 : f32, memref<f32x?>, f32, memref<f32x?>
}
"""
#: x := y in each work-group, and z[g] := 1: y, which no work-group indexes, must be as long as the batch.
WHOLE = """
func @whole(%x: memref<f32x?>, %y: memref<f32x?>, %z: memref<f32x?>) {
  %g = group_id
  store 1.0, %z[%g] : memref<f32x?>
  %0 = load %x[%g] : memref<f32x?>
  axpby.n 1.0, %y, 0.0, %x : f32, memref<f32x?>, f32, memref<f32x?>
}
"""


@pytest.fixture(autouse=True)
def _all_are_short(monkeypatch):
    """Take two calls for enough, and the time of a busy machine for short."""
    monkeypatch.setattr(host_calls, "CALLS_BEFORE", 2)
    monkeypatch.setattr(host_calls, "NUMBERS", replace(host_calls.NUMBERS, longest=1e3))


@pytest.fixture
def on_opencl(monkeypatch):
    """The numbers of work-groups of the launches that OpenCL ran."""
    runs = []
    run = DirectLaunch.run_on_device

    def noted(self, *arguments):
        runs.append(self.groups)
        return run(self, *arguments)

    monkeypatch.setattr(DirectLaunch, "run_on_device", noted)
    return runs


@pytest.fixture(scope="module", autouse=True)
def _help_is_asked_for():
    helpers.start(1)


def counted(kernel, sizes, step=1):
    for size in sizes:
        x = dpnp.arange(size + 2, dtype="int64")
        kernel(x[:size], step)
        assert dpnp.asnumpy(x).tolist() == [*range(step, size + step), size, size + 1], size


def known(source=COUNT):
    """A kernel that knows batches of any size."""
    kernel = tl_dpnp.compile(source)
    counted(kernel, (7, 9, 8, 10))
    assert len(kernel._direct.functions) == 1
    return kernel


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_results_are_the_same_bits(seed, on_opencl):
    pick = chance.Random(seed)
    m, n, k = (pick.randint(1, 20) for _ in range(3))
    generator = np.random.default_rng(seed)
    source = CHAIN.format(m=m, n=n, k=k)
    kernel, plain = tl_dpnp.compile(source), compiled(source, short=False)
    B = on_device(generator.standard_normal((k, n)))
    sizes = [pick.randint(2, 300) for _ in range(30)]
    for batch in sizes:
        a, c = (generator.standard_normal(shape) for shape in ((m, k, batch), (m, n, batch)))
        alpha, beta = generator.standard_normal(2).tolist()
        short, slow, A = on_device(c), on_device(c), on_device(a)
        kernel(alpha, A, B, short, beta)
        ran = len(on_opencl)
        plain(alpha, A, B, slow, beta)
        del on_opencl[ran:]
        assert bits(short) == bits(slow), batch
    # Calls of few work-groups may have a variant of their own, and sizes at which arrays exceed a cache.
    assert len(on_opencl) <= 2 * 4
    assert sum(count not in on_opencl for count in sizes) > 15


def test_the_kernel_is_told_the_size(on_opencl):
    kernel, pick = tl_dpnp.compile(SIZED), chance.Random(1)
    for size in [pick.randint(2, 400) for _ in range(40)]:
        x, y = dpnp.arange(size, dtype="int64"), dpnp.zeros(size, dtype="int64")
        kernel(x, y)
        assert dpnp.asnumpy(y).tolist() == list(range(size, 2 * size))
    assert len(on_opencl) == 2


def test_empty_batches_and_those_of_one(on_opencl):
    kernel = known()
    counted(kernel, [0, 1, 5, 1, 0, 2, 1, 300, 0, 1, 1, 3])
    assert set(on_opencl) == {7, 9, 0, 1}


def test_other_open_sizes_are_other_kinds_of_calls():
    kernel, pick = tl_dpnp.compile(ROWS), chance.Random(2)
    generator = np.random.default_rng(2)
    for _ in range(120):
        length, size = pick.randint(0, 3), pick.randint(0, 40)
        x, y = (generator.integers(-9, 9, (length, size)).astype("float32") for _ in range(2))
        result = on_device(y)
        kernel(2.0, on_device(x), result)
        assert np.array_equal(dpnp.asnumpy(result), 2 * x + y), (length, size)


def test_gaps_and_arrays_in_c_order():
    kernel, pick = tl_dpnp.compile(ROWS), chance.Random(3)
    for _ in range(100):
        size, rows, step = pick.randint(0, 40), pick.choice((3, 5)), pick.choice((1, 1, 2, 3))
        x = dpnp.arange(rows * size * step, dtype="float32").reshape(size * step, rows)[::step]
        y = dpnp.ones((size, rows), dtype="float32")
        if pick.random() < 0.5:
            kernel.in_c_order(2.0, x, y)
        else:
            kernel(2.0, tl_dpnp.rev(x), tl_dpnp.rev(y))
        assert np.array_equal(dpnp.asnumpy(y), 2 * dpnp.asnumpy(x) + 1)


def test_groups_beside_a_batch():
    """The number of work-groups is that of the group's arrays, so there is one size of the batch for each group."""
    kernel = tl_dpnp.compile(FUSED)
    generator = np.random.default_rng(4)
    b, c = (generator.integers(-3, 3, shape).astype("float32") for shape in ((8, 8), (8, 16)))
    B, C = on_device(b), on_device(c)
    for size in (3, 5, 4, 3, 6, 5, 2, 7):
        a = generator.integers(-3, 3, (size, 16, 8)).astype("float32")
        D = dpnp.zeros((16, 16, size), dtype="float32", order="F")
        kernel(1.0, [*map(on_device, a)], B, C, D)
        assert np.array_equal(dpnp.asnumpy(D), np.moveaxis(a @ b.T @ c, 0, -1))
        with pytest.raises(TLBindingError):
            kernel(1.0, [*map(on_device, a)][1:], B, C, D)


def test_threads_with_batches_of_their_own():
    kernel = known()
    failures = []

    def run(seed):
        pick = chance.Random(seed)
        try:
            counted(kernel, [pick.randint(0, 60) for _ in range(150)], seed)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(kernel._direct.functions) <= 2


# --- what is looked at in each call ----------------------------------------------------------------------------------


def test_batches_that_differ_are_refused():
    kernel = tl_dpnp.compile(SIZED)
    for size in (4, 5, 6, 7):
        kernel(dpnp.zeros(size, dtype="int64"), dpnp.zeros(size, dtype="int64"))
    assert kernel._direct.functions
    for first, second in ((6, 7), (7, 6), (1, 2), (2, 1), (0, 3), (900, 899)):
        y = dpnp.zeros(second, dtype="int64")
        with pytest.raises(TLBindingError, match="ambiguous"):
            kernel(dpnp.zeros(first, dtype="int64"), y)
        assert not dpnp.asnumpy(y).any()


def test_a_size_that_must_be_that_of_the_batch():
    kernel, y = tl_dpnp.compile(WHOLE), dpnp.arange(9, dtype="float32")
    for size in (3, 4, 5, 3, 6, 4):
        x, z = (dpnp.zeros(size, dtype="float32") for _ in range(2))
        kernel(x, y[:size], z)
        assert dpnp.asnumpy(x).tolist() == [*range(size)]
        for other in (size - 1, size + 1):
            with pytest.raises(TLBindingError, match="sizes do not fit"):
                kernel(x, y[:other], z)


def test_arrays_that_come_near_one_another_with_a_larger_batch():
    kernel = tl_dpnp.compile(ROWS)
    memory = dpnp.zeros((4, 65), dtype="float32", order="F")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (8, 9, 10, 12, 32, 2):
            kernel(1.0, memory[:, :size], memory[:, 32 : 32 + size])
            kernel(1.0, memory[:, 32 : 32 + size], memory[:, :size])
        assert kernel._direct.functions
        for first, second in ((0, 32), (32, 0)):
            with pytest.raises(OverlapWarning):
                kernel(1.0, memory[:, first : first + 33], memory[:, second : second + 33])
            kernel(1.0, memory[:, first : first + 32], memory[:, second : second + 32])


def test_arrays_of_a_group_are_not_written_by_a_larger_batch():
    source = """
func @f(%G: group<memref<f32x4>>, %y: memref<f32x4x?>) {
  %g = group_id
  %0 = load %G[0] : group<memref<f32x4>>
  %1 = subview %y[:,%g] : memref<f32x4x?>
  axpby.n 1.0, %0, 1.0, %1 : f32, memref<f32x4>, f32, memref<f32x4>
}"""
    kernel, memory = tl_dpnp.compile(source), dpnp.ones((4, 64), dtype="float32", order="F")
    group = tl_dpnp.group([memory[:, 40]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (5, 6, 7, 40, 3):
            kernel(group, memory[:, :size])
        assert kernel._direct.functions
        with pytest.raises(OverlapWarning):
            kernel(group, memory[:, :41])


def test_arrays_read_backwards_or_read_only_are_refused():
    kernel = known()
    x = dpnp.zeros(50, dtype="int64")
    for size in (3, 9, 50):
        with pytest.raises(LayoutError):
            kernel(x[:size][::-1], 1)
        x.flags["W"] = False
        with pytest.raises(TLBindingError, match="read-only"):
            kernel(x[:size], 1)
        x.flags["W"] = True
    assert not dpnp.asnumpy(x).any()
    counted(kernel, [4, 5])


def test_the_number_of_work_groups_by_hand():
    kernel = known()
    x = dpnp.zeros(50, dtype="int64")
    for size in (20, 21, 22, 23, 24, 25, 26):
        for _ in range(3):
            kernel(x[:size], 1, group_size=20)
    assert dpnp.asnumpy(x).tolist() == [21] * 20 + [0] * 30
    with pytest.raises(TLBindingError):
        kernel(x[:19], 1, group_size=20)


def test_attributes_of_the_batch():
    b = FunctionBuilder("f", {"x": memref(F32, 4, None)}, attributes={"x": {"shape_gcd": [4, 3]}})
    g = b.group_id()
    b.axpby(1.0, b.subview(b.x, slice(None), g), 1.0, b.subview(b.x, slice(None), g))
    kernel = tl_dpnp.compile(b)
    x = dpnp.ones((4, 60), dtype="float32", order="F")
    for size in (3, 6, 9, 12, 9, 3):
        kernel(x[:, :size])
        with pytest.raises(TLBindingError, match="shape_gcd"):
            kernel(x[:, : size + 1])


# --- which batches one function is for -------------------------------------------------------------------------------


def batch_of(kernel, *arguments):
    kernel._direct.functions = ()
    kernel(*arguments)
    return [entry.launch for entry in kernel._memo._kept.values()][-1].batch


def test_launches_of_a_batch_are_the_same_but_for_its_size():
    kernel, device = tl_dpnp.compile(ROWS), describe(dpnp.zeros(1).sycl_queue.sycl_device)
    pick, seen = chance.Random(5), set()
    for _ in range(12):
        size = int(2 ** pick.uniform(1, 22))
        x, y = (dpnp.zeros((4, size), dtype="float32", order="F") for _ in range(2))
        batch = batch_of(kernel, 1.0, x, y)
        assert batch.least <= size == batch.size <= batch.most
        exceeded = [exceeded_by(32 * other, device) for other in (batch.least, size, batch.most)]
        assert exceeded == [exceeded[1]] * 3
        if batch.least > 2:
            assert exceeded_by(32 * (batch.least - 1), device) == exceeded[0] - 1
        if exceeded[0] < EXCEEDS_ALL:
            assert exceeded_by(32 * (batch.most + 1), device) == exceeded[0] + 1
        seen.add((batch.likeness, exceeded[0]))
    assert len({likeness for likeness, _ in seen}) == len({exceeded for _, exceeded in seen}) > 1


def test_few_work_groups_may_have_another_variant():
    m = 24
    source = CHAIN.format(m=m, n=m, k=m)
    kernel = tl_dpnp.compile(source)
    device = describe(dpnp.zeros(1).sycl_queue.sycl_device)
    few = device.launches.items * device.compute_units
    B = dpnp.zeros((m, m), order="F")
    limits = set()
    for size in (2, few - 1, few, few + 5):
        A = dpnp.zeros((m, m, size), order="F")
        batch = batch_of(kernel, 1.0, A, B, dpnp.zeros((m, m, size), order="F"), 0.0)
        limits.add((size < few, batch.least, batch.most >= few))
    assert limits == {(True, 2, False), (False, few, True)}


def test_what_has_no_batch():
    x = dpnp.zeros(64, dtype="float32")
    assert batch_of(tl_dpnp.compile(AXPY), 1.0, x, dpnp.zeros(64, dtype="float32")) is None
    assert batch_of(tl_dpnp.compile(COUNT), dpnp.zeros(1, dtype="int64"), 1) is None
    first = COUNT.replace("memref<i64x?>", "memref<i64x?x3>").replace("[%g]", "[%g,1]")
    assert batch_of(tl_dpnp.compile(first), dpnp.zeros((9, 3), dtype="int64", order="F"), 1) is None


def test_settings_are_those_of_the_call(on_opencl):
    kernel = known()
    with config.scope(SHORT_CALLS=False):
        before = len(on_opencl)
        kernel._direct.functions = ()
        counted(kernel, [30, 31, 32])
        assert len(on_opencl) == before + 3


# --- times -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def timed():
    """A kernel, and the record of its function for launches, which has timed batches of up to 16."""
    kernel = known()
    kernel._direct.functions = ()
    counted(kernel, [16])
    record = next(iter(kernel._memo._kept.values())).launch.short._made.record
    assert record.measured == 16
    return kernel, record


def call_expected_to_take(nanoseconds, timed, size):
    """Call a kernel as if each of its work-groups had been seen to take so long."""
    kernel, record = timed
    kernel._direct.functions = ()  # which have records of their own
    record.alone = nanoseconds << TIME_BITS
    counted(kernel, [size])


def test_batches_that_take_long_are_opencls(on_opencl, timed):
    del on_opencl[:]
    kernel, record = timed
    record.longest = 2000
    for size in (20, 30, 19, 31, 25):
        call_expected_to_take(100, timed, size)
    assert on_opencl == [30, 31, 25]
    assert record.measured == 20
    call_expected_to_take(100, timed, 41)  # more than twice of what was timed: who knows
    assert len(on_opencl) == 3
    assert record.alone != 100 << TIME_BITS
    assert (record.measured, record.counted) == (41, 1)
    assert "the machine code is called" in kernel.diagnostics()
    call_expected_to_take(1000, timed, 6)  # not even the fewest are short any more
    assert on_opencl[3:] == [6]
    assert "they take too long" in kernel.diagnostics()


def test_help_is_asked_for_once_a_batch_is_large(on_opencl, timed, monkeypatch):
    asked = []

    def start(cores):
        asked.append(cores)
        STATE.started = 1

    monkeypatch.setattr(helpers, "start", start)
    del on_opencl[:]
    STATE.started = 0
    try:
        for size in (3, 4, 17, 20, 3, 19):
            call_expected_to_take(SHORT_CALLS.worth_sharing // 16, timed, size)
    finally:
        STATE.started = 1
    assert on_opencl == [17]
    assert len(asked) == 1
