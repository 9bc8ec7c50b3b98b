"""Recording calls of kernels and launching them together."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import AXPY, COUNT, FUSED, on_device, random
from tl_dpnp import LayoutError, TLBindingError, TLBoundsError, TLError, TLTypeError
from tl_dpnp.runtime.sycl.tensor_adapter import ExecutionPlacementError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

SCALE = """
func @scale(%x: memref<i64x?>, %factor: i64) {
  %g = group_id
  %0 = load %x[%g] : memref<i64x?>
  %1 = arith.mul %0, %factor : i64
  store %1, %x[%g] : memref<i64x?>
}
"""


@pytest.fixture(params=["direct", "dpctl"], autouse=True)
def path(request, monkeypatch):
    """Both ways to launch: by OpenCL itself, and through dpctl as on devices that it does not serve."""
    if request.param == "dpctl":
        monkeypatch.setattr("tl_dpnp.runtime.sycl.launch.supports", lambda queue: False)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def recorded(target="sycl", **options):
    """Return x and a graph that makes 3 x + 2 of x := x + 1 with three launches."""
    count, scale = (tl_dpnp.compile(source, target=target, **options) for source in (COUNT, SCALE))
    x = dpnp.zeros(4, dtype="int64")
    with tl_dpnp.record() as graph:
        count(x, 1)
        scale(x, 3)
        count.submit(x, 2)
    return x, graph


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_recorded_calls_run_when_the_graph_is_called(target):
    x, graph = recorded(target)
    assert x.asnumpy().tolist() == [0] * 4
    assert graph() is None
    assert x.asnumpy().tolist() == [5] * 4
    graph()
    assert x.asnumpy().tolist() == [20] * 4


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_a_graph_can_be_submitted(target):
    x, graph = recorded(target)
    event = graph.submit()
    assert isinstance(event, dpctl.SyclEvent)
    event = graph.submit(depends=iter([event]))
    graph.submit(depends=[event]).wait()
    assert x.asnumpy().tolist() == [65] * 4


def test_a_graph_comes_after_what_was_submitted_and_before_what_is_called():
    x, graph = recorded()
    count = tl_dpnp.compile(COUNT)
    for _ in range(20):
        x[:] = 0
        count.submit(x, 1)
        graph()
        assert x.asnumpy().tolist() == [8] * 4
        graph.submit()
        count(x, 1)
        assert x.asnumpy().tolist() == [30] * 4


def test_a_graph_says_what_it_holds():
    _, graph = recorded()
    assert len(graph) == 3
    assert graph.kernels == ("count", "scale", "count")
    assert repr(graph) == "<tl_dpnp.Graph of 3 launches>"
    lines = graph.inspect().splitlines()
    assert [line.split()[:2] for line in lines] == [["0", "@count:"], ["1", "@scale:"], ["2", "@count:"]]
    _, graph = recorded("reference")
    assert graph.inspect().splitlines()[1] == "1  @scale in the interpreter"


def test_values_are_those_of_the_recording():
    kernel = tl_dpnp.compile(AXPY)
    x, y, alpha = dpnp.ones(4, dtype="float32"), dpnp.zeros(4, dtype="float32"), np.float32(2)
    with tl_dpnp.record() as graph:
        kernel(alpha, x, y)
        alpha += 1
        kernel(alpha, x, y)
    kernel(100.0, x, x.copy())  # the same launch with other arguments
    x[:] = 10
    graph()
    assert y.asnumpy().tolist() == [50] * 4


def test_a_graph_keeps_its_arrays_and_groups():
    kernel = tl_dpnp.compile(FUSED)
    A = [on_device(random(16, 8, seed=i)) for i in range(3)]
    B, C, D = on_device(random(8, 8)), on_device(random(8, 16, seed=9)), on_device(np.zeros((16, 16, 3), "f4"))
    result = np.stack([a.asnumpy() @ B.asnumpy().T @ C.asnumpy() for a in A], axis=-1)
    with tl_dpnp.record() as graph:
        kernel(1.0, A, B, C, D)
        kernel(2.0, tl_dpnp.group(A[:]), B, C, D)
    A.clear()
    del B, C
    gc.collect()
    others = [on_device(np.full((16, 8), 7, "f4")) for _ in range(20)]
    graph()
    assert np.array_equal(D.asnumpy(), 3 * result)
    alive = weakref.ref(D._array_obj)
    del D, others
    assert alive() is not None
    del graph
    gc.collect()
    assert alive() is None


def test_a_graph_waits_for_a_list_of_events():
    x, graph = recorded()
    event = graph.submit()
    with pytest.raises(tl_dpnp.TLTypeError, match=r"depends= takes a list of events, .*write depends=\[event\]"):
        graph.submit(depends=event)
    graph.submit(depends=[event]).wait()
    assert x.asnumpy().tolist() == [20] * 4


@pytest.mark.parametrize("empty", ["no call", "no work-group"])
def test_an_empty_graph_does_nothing(empty):
    count, x = tl_dpnp.compile(COUNT), dpnp.zeros(4, dtype="int64")
    with tl_dpnp.record() as graph:
        if empty == "no work-group":
            count(x, 1, group_size=0)
    assert graph() is None
    graph.submit(depends=[count.submit(x, 1)]).wait()
    assert x.asnumpy().tolist() == [1] * 4


def test_recordings_do_not_nest_but_graphs_do():
    x, inner = recorded()
    with tl_dpnp.record() as graph:
        inner()
        inner()
        with pytest.raises(TLError, match="recording inside a recording"), tl_dpnp.record():
            pass
        with pytest.raises(TLError, match="call it"):
            inner.submit()
    assert len(graph) == 6
    assert x.asnumpy().tolist() == [0] * 4
    graph()
    assert x.asnumpy().tolist() == [20] * 4


def test_a_graph_is_of_use_only_when_its_recording_ended_well():
    count, x = tl_dpnp.compile(COUNT), dpnp.zeros(4, dtype="int64")
    with tl_dpnp.record() as graph:
        count(x, 1)
        with pytest.raises(TLError, match="still being recorded"):
            graph()
    with pytest.raises(ZeroDivisionError), tl_dpnp.record() as failed:  # noqa: PT012
        count(x, 1)
        raise ZeroDivisionError
    for run in (failed, failed.submit):
        with pytest.raises(TLError, match="failed to be recorded"):
            run()
    assert "failed" in repr(failed)
    assert len(failed) == 0
    count(x, 1)  # nothing is recorded any more
    graph()
    assert x.asnumpy().tolist() == [2] * 4


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_arguments_are_checked_while_they_are_recorded(target):
    count, x = tl_dpnp.compile(COUNT, target=target), dpnp.zeros((4, 4), dtype="int64", order="F")
    with tl_dpnp.record() as graph:
        for arguments, kind in [
            ((x[:, 0], 1.5), TLTypeError), ((x[0], 1), LayoutError), ((x[:, 0], 2**70), TLBindingError),
            ((x[:, 0],), TLTypeError),
        ]:  # fmt: skip
            with pytest.raises(kind):
                count(*arguments)
        count(x[:, 0], 1)
    assert len(graph) == 1


def test_all_arrays_of_a_graph_are_on_one_queue():
    count, device = tl_dpnp.compile(COUNT), dpctl.select_default_device()
    arrays = [dpt.zeros(4, dtype="int64", sycl_queue=dpctl.SyclQueue(device)) for _ in range(2)]
    with tl_dpnp.record() as graph:
        count(arrays[0], 1)
        with pytest.raises(ExecutionPlacementError, match="different queues"):
            count(arrays[1], 1)
    graph()
    assert [dpt.to_numpy(array)[0] for array in arrays] == [1, 0]


def test_recorded_submits_wait_for_the_events_that_they_are_given():
    count, x = tl_dpnp.compile(COUNT), dpnp.zeros(4, dtype="int64")
    with tl_dpnp.record() as graph:
        event = count.submit(x, 1)
        count.submit(x, 1, depends=[event])
    graph()
    assert x.asnumpy().tolist() == [2] * 4


def test_bounds_are_checked_in_graphs():
    kernel = tl_dpnp.compile(
        "func @f(%x: memref<i64x?>, %i: index) { %0 = load %x[%i] : memref<i64x?>"
        " %1 = arith.add %0, 1 : i64 store %1, %x[0] : memref<i64x?> }", debug=True)
    x = dpnp.zeros(4, dtype="int64")
    with tl_dpnp.record() as graph:
        kernel(x, 0)
        kernel(x, 0)
        kernel(x, 4)
    for run in (graph, graph.submit):
        with pytest.raises(TLBoundsError, match="4"):
            run()
    assert x.asnumpy()[0] == 4


def test_other_threads_run_while_one_records():
    count, x = tl_dpnp.compile(COUNT), dpnp.zeros(4, dtype="int64")
    with tl_dpnp.record() as graph:
        thread = threading.Thread(target=count, args=(x, 1))
        thread.start()
        thread.join()
    assert len(graph) == 0
    assert x.asnumpy().tolist() == [1] * 4


def test_threads_run_graphs_at_once():
    count = tl_dpnp.compile(COUNT)
    arrays = [dpnp.zeros(8, dtype="int64") for _ in range(4)]
    with tl_dpnp.record() as shared:
        pass
    graphs = []
    for array in arrays:
        with tl_dpnp.record() as graph:
            for step in range(10):
                count(array, step)
            shared()
        graphs.append(graph)

    def work(graph):
        for _ in range(100):
            graph()

    threads = [threading.Thread(target=work, args=(graph,)) for graph in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(set(array.asnumpy().tolist()) == {4500} for array in arrays)


def test_memory_stays_flat_when_graphs_come_and_go():
    count, x = tl_dpnp.compile(COUNT), dpnp.zeros(4, dtype="int64")

    def graphs(number):
        for _ in range(number):
            with tl_dpnp.record() as graph:
                for _ in range(5):
                    count(x, 1)
            graph()
            graph.submit().wait()

    graphs(200)
    before = resident_bytes()
    graphs(400)
    assert resident_bytes() - before < 2 << 20
