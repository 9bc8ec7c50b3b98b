"""What a call is ordered after, and what comes after it."""

from __future__ import annotations

import threading
import time
import weakref

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import COUNT, FUSED, on_device, random
from tl_dpnp import TLBindingError, TLError, TLTypeError
from tl_dpnp.runtime.sycl import dpctl_adapter, opencl_adapter, turns
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: Each work-group takes its time: some 10 ms for the steps below.
SLOW = """
func @slow(%x: memref<i64x?>, %n: index) {
  %g = group_id
  for %i = 0, %n : index {
    %0 = load %x[%g] : memref<i64x?>
    %1 = arith.mul %0, 3 : i64
    %2 = arith.add %1, 1 : i64
    store %2, %x[%g] : memref<i64x?>
  }
}
"""
STEPS = 5_000_000


def expected(steps):
    """Return x after so many steps x := 3 x + 1 from 0, modulo 2⁶⁴, as a signed number."""
    return int(np.int64(np.uint64(((pow(3, steps, 1 << 65) - 1) // 2) % (1 << 64))))


@pytest.fixture(params=[False, True], ids=["out of order", "in order"])
def queue(request):
    """Queues of either kind on the default device."""
    device = dpctl.select_default_device()
    return dpctl.SyclQueue(device, property="in_order") if request.param else dpctl.SyclQueue(device)


@pytest.fixture(params=["direct", "dpctl"], autouse=True)
def path(request, monkeypatch):
    """Both ways to launch: by OpenCL itself, and through dpctl as on devices that it does not serve."""
    if request.param == "dpctl":
        monkeypatch.setattr("tl_dpnp.runtime.sycl.launch.supports", lambda queue: False)


def test_a_call_comes_after_what_was_submitted(queue):
    slow, count = tl_dpnp.compile(SLOW), tl_dpnp.compile(COUNT)
    x = dpt.zeros(4, dtype="int64", sycl_queue=queue)
    slow.submit(x, STEPS)
    count(x, 1)
    assert dpt.to_numpy(x).tolist() == [expected(STEPS) + 1] * 4


def test_a_call_comes_after_copies_of_dpctl(queue):
    count = tl_dpnp.compile(COUNT)
    source, target = (dpctl.memory.MemoryUSMShared(1 << 24, queue=queue) for _ in range(2))
    for value in (3, 5):
        np.frombuffer(source, np.int64)[:] = value
        queue.memcpy_async(target, source, 1 << 24)
        count(dpt.usm_ndarray(1 << 21, dtype="int64", buffer=target), 1)
        assert set(np.frombuffer(target, np.int64).tolist()) == {value + 1}


def test_what_is_submitted_comes_after_calls(queue):
    slow, count = tl_dpnp.compile(SLOW), tl_dpnp.compile(COUNT)
    x = dpt.zeros(4, dtype="int64", sycl_queue=queue)
    slow(x, STEPS)
    count.submit(x, 1).wait()
    assert dpt.to_numpy(x).tolist() == [expected(STEPS) + 1] * 4


def test_a_call_comes_after_a_chain_of_events(queue):
    slow, count = tl_dpnp.compile(SLOW), tl_dpnp.compile(COUNT)
    x = dpt.zeros(4, dtype="int64", sycl_queue=queue)
    event = slow.submit(x, STEPS)
    event = count.submit(x, 1, depends=[event])
    count.submit(x, 1, depends=[event])
    count(x, 1)
    assert dpt.to_numpy(x).tolist() == [expected(STEPS) + 3] * 4


def test_arrays_of_equal_layout_share_a_launch():
    kernel = tl_dpnp.compile(COUNT)
    arrays = [dpnp.zeros(5, dtype="int64") for _ in range(50)]
    for step in range(3):
        for number, array in enumerate(arrays):
            kernel(array, number + step)
    for number, array in enumerate(arrays):
        assert set(array.asnumpy().tolist()) == {3 * number + 3}


def test_threads_share_a_launch_with_arrays_and_scalars_of_their_own():
    kernel = tl_dpnp.compile(COUNT)
    arrays = [dpnp.zeros(7, dtype="int64") for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(number):
        barrier.wait()
        for step in range(500):
            kernel(arrays[number], 1000 * number + step)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, array in enumerate(arrays):
        assert set(array.asnumpy().tolist()) == {500 * 1000 * number + sum(range(500))}


def test_threads_wait_for_a_queue_one_at_a_time(queue, monkeypatch):
    """OpenCL's runtime for CPUs does not survive more of them for long."""
    monkeypatch.setattr("tl_dpnp.runtime.sycl.launch.submitted_by_dpnp", lambda queue: [])  # it takes queues of dpctl

    class Observed:
        def __init__(self, queue):
            self.queue = queue

        def __getattr__(self, name):
            return getattr(self.queue, name)

        def wait(self):
            waiting.append(self)
            most.append(len(waiting))
            self.queue.wait()
            time.sleep(0.002)
            waiting.remove(self)

    waiting, most = [], []
    kernels, arrays = [], []
    for _ in range(4):
        kernel, x = tl_dpnp.compile(COUNT), dpt.zeros(4, dtype="int64", sycl_queue=queue)
        kernel(x, 1)
        launch, *_ = kernel._launch((x, 1), None)
        launch.queue = Observed(x.sycl_queue)
        kernels.append(kernel)
        arrays.append(x)
    threads = [threading.Thread(target=kernel, args=(x, 1)) for kernel, x in zip(kernels, arrays, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(dpt.to_numpy(x).tolist() == [2] * 4 for x in arrays)
    assert max(most, default=1) == 1


def test_arguments_are_checked_at_every_call():
    kernel = tl_dpnp.compile(COUNT)
    x = dpt.zeros(4, dtype="int64")
    kernel(x, 1)
    for arguments, kind in [
        ((x, 1.5), TLTypeError), ((x, 2**70), TLBindingError), ((x,), TLTypeError), ((x, 1, 1), TLTypeError),
        ((dpt.zeros(4, dtype="float64"), 1), TLTypeError), ((np.zeros(4, np.int64), 1), TLTypeError),
    ]:  # fmt: skip
        with pytest.raises(kind):
            kernel(*arguments)
    x.flags.writable = False
    with pytest.raises(TLBindingError, match="read-only"):
        kernel(x, 1)
    assert dpt.to_numpy(x).tolist() == [1] * 4


def test_the_same_array_is_looked_at_again():
    kernel = tl_dpnp.compile(COUNT)
    x = dpt.zeros((4, 1), dtype="int64")
    x.shape = (4,)
    kernel(x, 1)
    kernel(x, 1)
    x.shape = (2, 2)
    with pytest.raises(TLBindingError, match="shape"):
        kernel(x, 1)
    x.shape = (4,)
    kernel(x, 1)
    assert dpt.to_numpy(x).tolist() == [3] * 4
    y = dpnp.zeros(6, dtype="int64")
    kernel(y, 1)
    y._array_obj = x  # what dpnp's in-place operators may do
    kernel(y, 1)
    assert dpt.to_numpy(x).tolist() == [4] * 4


def test_arrays_are_let_go_of():
    kernel = tl_dpnp.compile(COUNT)
    for number in range(3):
        x = dpt.zeros(4, dtype="int64")
        kernel(x, number)
        alive = weakref.ref(x)
        del x
        assert alive() is None


def test_subclasses_of_arrays_are_arrays():
    class Mine(dpt.usm_ndarray):
        pass

    kernel, x = tl_dpnp.compile(COUNT), dpt.zeros(4, dtype="int64")
    mine = Mine((4,), dtype="int64", buffer=x)
    for _ in range(2):
        kernel(mine, 2)
    assert dpt.to_numpy(x).tolist() == [4] * 4


@pytest.mark.parametrize("form", ["vector", "subgroup"])
def test_two_dimensional_ranges_and_groups(form):
    kernel = tl_dpnp.compile(FUSED, form=form)
    A = [on_device(random(16, 8, seed=i)) for i in range(5)]
    B, C, D = on_device(random(8, 8)), on_device(random(8, 16, seed=9)), on_device(np.zeros((16, 16, 5), "f4"))
    for _ in range(2):
        kernel(1.0, A, B, C, D)
    result = 2 * np.stack([a.asnumpy() @ B.asnumpy().T @ C.asnumpy() for a in A], axis=-1)
    assert np.array_equal(D.asnumpy(), result)


def test_a_refused_launch_is_an_error(monkeypatch):
    kernel, x = tl_dpnp.compile(COUNT), dpt.zeros(4, dtype="int64")
    kernel(x, 1)
    launch, *_ = kernel._launch((x, 1), None)

    def refuse(*arguments):
        raise opencl_adapter.LaunchError("clEnqueueNDRangeKernel fails with code -5")

    monkeypatch.setattr(opencl_adapter.DirectKernel, "start", refuse)
    if hasattr(launch, "direct"):
        with pytest.raises(TLError, match=r"refuses the launch of \[\d+\] work-items(.|\n)*code -5"):
            kernel(x, 1)
        monkeypatch.undo()
    kernel(x, 1)
    assert dpt.to_numpy(x).tolist() == [2] * 4


def test_waits_take_turns_with_calls(queue):
    kernel, x = tl_dpnp.compile(COUNT), dpt.zeros(4, dtype="int64", sycl_queue=queue)
    kernel(x, 1)
    turn = turns.turn_to_wait(queue)
    for thing in (queue, x, tl_dpnp.group([x])):
        waiting = threading.Thread(target=tl_dpnp.wait, args=(thing,))
        with turn.lock:
            waiting.start()
            time.sleep(0.05)
            assert waiting.is_alive()
        waiting.join(60)
        assert not waiting.is_alive()


def test_a_signal_handler_may_submit_while_a_turn_is_looked_up(queue):
    """As if it came in the middle of that; it waited for a lock of its own thread before."""
    kernel, x = tl_dpnp.compile(COUNT), dpt.zeros(4, dtype="int64", sycl_queue=queue)
    kernel(x, 1)
    done = threading.Event()

    def interrupted():
        with turns._turns_lock:
            kernel.submit(x, 1).wait()
            kernel.submit(x, 1).wait()
        done.set()

    threading.Thread(target=interrupted, daemon=True).start()
    assert done.wait(60)
    tl_dpnp.wait(x)
    assert dpt.to_numpy(x).tolist() == [3] * 4


def test_waits_are_for_all_that_was_submitted(queue):
    slow = tl_dpnp.compile(SLOW)
    x = dpt.zeros(4, dtype="int64", sycl_queue=queue)
    for thing in (queue, x, dpnp.asarray(x), tl_dpnp.group([x]), None):
        event = slow.submit(x, STEPS)
        tl_dpnp.wait(event if thing is None else thing)
        assert event.execution_status == dpctl.event_status_type.complete
    tl_dpnp.wait()
    tl_dpnp.wait(tl_dpnp.group([]), queue, x)


@pytest.mark.parametrize("thing", [3, None, np.zeros(3), [1], threading.Event()])
def test_what_cannot_be_waited_for(thing):
    with pytest.raises(TLTypeError, match="wait takes a queue, an event, an array on a device or a group, not"):
        tl_dpnp.wait(thing)


def test_threads_that_submit_and_wait_do_not_wait_for_one_another(queue):
    kernel = tl_dpnp.compile(COUNT)
    arrays = [dpt.zeros(100, dtype="int64", usm_type="shared", sycl_queue=queue) for _ in range(5)]
    submitted, called, waited = arrays[:3], arrays[3], arrays[4]
    kernel(called, 0)

    def submit(x):
        event = None
        for step in range(300):
            event = kernel.submit(x, step, depends=[] if event is None else [event])
            if step % 7 == 0:
                tl_dpnp.wait(event)
        tl_dpnp.wait(event)

    def call():
        for step in range(300):
            kernel(called, step)

    def wait():
        for _ in range(300):
            tl_dpnp.wait(waited)

    work = [*(threading.Thread(target=submit, args=(x,), daemon=True) for x in submitted),
            *(threading.Thread(target=target, daemon=True) for target in (call, wait))]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join(120)
        assert not thread.is_alive()
    for x in (*submitted, called):
        assert set(dpt.to_numpy(x).tolist()) == {sum(range(300))}


def test_a_wait_for_what_was_submitted_is_alone(queue):
    """The runtime for CPUs hangs where it meets a thread that waits for a kernel of its own."""
    slow, x = tl_dpnp.compile(SLOW), dpt.zeros(4, dtype="int64", sycl_queue=queue)
    slow(x, 1)
    slow.submit(x, STEPS)
    waiting = threading.Thread(target=tl_dpnp.wait, args=(queue,))
    with turns.inside:
        waiting.start()
        time.sleep(0.05)
        assert waiting.is_alive()
    waiting.join(60)
    assert not waiting.is_alive()
    with turns.inside:  # all is complete, and nobody need be alone
        tl_dpnp.wait(queue)


def test_a_thread_is_alone_after_a_while_in_any_case(monkeypatch):
    monkeypatch.setattr(turns, "_PATIENCE", 0.1)
    entered = threading.Event()

    def enter():
        with turns.inside.alone():
            entered.set()
            time.sleep(0.3)

    with turns.inside:
        thread = threading.Thread(target=enter)
        thread.start()
        assert entered.wait(60)
    with turns.inside:  # it has its place
        assert thread.is_alive()
    thread.join()


def test_a_handler_may_wait_while_its_thread_waits(queue):
    kernel, x = tl_dpnp.compile(COUNT), dpt.zeros(4, dtype="int64", sycl_queue=queue)
    kernel(x, 1)
    turn = turns.turn_to_wait(queue)
    with turn.lock, turns.inside.alone(), turns.inside:
        kernel.submit(x, 1)
        kernel(x, 1)
        tl_dpnp.wait(x)
    assert dpt.to_numpy(x).tolist() == [3] * 4


def test_arguments_of_what_was_submitted_are_let_go_of(queue):
    slow = tl_dpnp.compile(SLOW)
    x = dpt.zeros(4, dtype="int64", sycl_queue=queue)
    slow(x, 1)
    alive = weakref.ref(x)
    event = slow.submit(x, STEPS)
    del x
    assert alive() is not None
    tl_dpnp.wait(event)
    assert alive() is None
    for _ in range(500):
        y = dpt.zeros(4, dtype="int64", sycl_queue=queue)
        slow.submit(y, 1).wait()
    assert len(dpctl_adapter.in_flight) < 50


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_what_dpnp_computes_is_complete_before(target):
    """Newer versions of dpnp return before it is; a submitted kernel is in its order, too."""
    kernel = tl_dpnp.compile(COUNT, target=target)
    for _ in range(3):
        x = dpnp.zeros(1 << 18, dtype="int64")
        for _ in range(30):
            x = dpnp.remainder(x * 7 + 5, 1001)
        kernel.submit(x[:100], 1).wait()
        plain = 0
        for _ in range(30):
            plain = (plain * 7 + 5) % 1001
        assert x[:100].asnumpy().tolist() == [plain + 1] * 100
