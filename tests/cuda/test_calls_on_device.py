"""How calls reach a CUDA device: direct calls, recordings, arrays by DLPack; skipped where there is none."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.exporters import CupyExporter
from tests.cuda.programs import AXPY
from tests.cuda.test_offline import FUSED
from tl_dpnp.runtime.cuda.direct import DirectCalls
from tl_dpnp.runtime.cuda.driver_adapter import device_count
from tl_dpnp.runtime.cuda.exchange import exchange_of

pytestmark = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")
cupy = pytest.importorskip("cupy", exc_type=ImportError)
torch = pytest.importorskip("torch", exc_type=ImportError)

PRODUCT = """
func @product(%A: memref<bf16x?x?>, %B: memref<bf16x?x?>, %C: memref<f32x?x?>) {
  gemm.n.n 1.0, %A, %B, 0.0, %C : f32, memref<bf16x?x?>, memref<bf16x?x?>, f32, memref<f32x?x?>
}
"""


def axpy(**options):
    return tl_dpnp.compile(AXPY, target="cuda", **options)


def ones(size):
    return torch.ones(size, device="cuda")


needs_exchange = pytest.mark.skipif(exchange_of(torch.Tensor) is None, reason="this PyTorch lacks DLPack's C exchange")


@needs_exchange
def test_repeated_calls_are_direct_whatever_tensors_they_get():
    kernel = axpy()
    results = [torch.zeros(size, device="cuda") for size in (10, 10, 20, 30, 40, 50, 60)]
    for _ in range(30):
        for number, y in enumerate(results):
            kernel(float(number), ones(y.shape), y)
    assert len(kernel._direct.functions) == DirectCalls.MOST_FUNCTIONS
    assert [y.tolist() for y in results] == [[30.0 * number] * len(y) for number, y in enumerate(results)]
    slow = threading.Event()
    kernel._launch = lambda *arguments: slow.set()
    x, y = ones(60), torch.zeros(60, device="cuda")
    kernel(2.0, x, y)
    assert not slow.is_set()
    assert y.tolist() == [2.0] * 60


@pytest.mark.parametrize("calls", [1, 3])
def test_calls_see_that_a_tensor_has_other_elements(calls):
    kernel = axpy()
    x, y = ones(10), torch.zeros(10, device="cuda")
    for _ in range(calls):
        kernel(1.0, x, y)
    x.data = x.data.view(torch.int32)  # in the same memory
    with pytest.raises(tl_dpnp.TLTypeError):
        kernel(1.0, x, y)


@needs_exchange
def test_direct_calls_see_what_became_of_a_tensor():
    kernel = axpy()
    x, y = ones(10), torch.zeros(10, device="cuda")
    for _ in range(3):
        kernel(1.0, x, y)
    assert kernel._direct.functions
    other = torch.full((10,), 5.0, device="cuda")
    y.set_(other)
    kernel(1.0, x, y)
    assert other.tolist() == [6.0] * 10
    x.requires_grad_()
    with pytest.raises(tl_dpnp.TLTypeError, match=r"pass tensor.detach\(\)"):
        kernel(1.0, x, y)
    x.requires_grad_(False)
    x.resize_(5)
    with pytest.raises(tl_dpnp.TLBindingError, match="the sizes do not fit"):
        kernel(1.0, x, y)
    with pytest.raises(tl_dpnp.TLTypeError, match=r"resolve_neg\(\)"):
        kernel(1.0, torch.ones(10, dtype=torch.complex64, device="cuda").conj().imag, y)
    with pytest.raises(tl_dpnp.TLBindingError, match="cannot hold"):
        kernel(1e300, y, other)
    kernel(1, y, other)
    kernel(float("inf"), ones(10), y)
    assert y.tolist() == [float("inf")] * 10


def test_direct_calls_run_on_the_current_stream_and_are_captured():
    kernel = axpy()
    x, y = ones(1 << 22), torch.zeros(1 << 22, device="cuda")
    for _ in range(3):
        kernel(0.0, x, y)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(20):
            y.mul_(2.0)
            kernel(1.0, x, y)
        assert (float(y.min()), float(y.max())) == (2.0**20 - 1, 2.0**20 - 1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for step in range(10):
            kernel(float(step), x, y)
    y.zero_()
    graph.replay()
    assert (float(y.min()), float(y.max())) == (45.0, 45.0)


def test_groups_and_threads_call_directly():
    batch = 9
    random = np.random.default_rng(0)
    a, b, c = (random.integers(-3, 4, shape).astype("float32") for shape in ((batch, 8, 16), (8, 8), (16, 8)))
    left = tl_dpnp.group([tl_dpnp.rev(torch.as_tensor(part, device="cuda")) for part in a])
    shared = [tl_dpnp.rev(torch.as_tensor(part, device="cuda")) for part in (b, c)]
    expected = torch.as_tensor(np.einsum("gki,kj,nj->gni", a, b, c), device="cuda")
    kernel = tl_dpnp.compile(FUSED, target="cuda")
    results = [torch.zeros(batch, 16, 16, device="cuda") for _ in range(6)]
    torch.cuda.synchronize()

    def work(number):
        for _ in range(40):
            kernel(float(number), left, *shared, tl_dpnp.rev(results[number]))
        torch.cuda.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, result in enumerate(results):
        assert torch.equal(result, 40 * number * expected)
    assert exchange_of(torch.Tensor) is None or kernel._direct.functions


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_recorded_calls_become_a_graph(library):
    kernel = axpy()
    package = torch if library == "torch" else cupy
    on_device = {"device": "cuda"} if library == "torch" else {}
    x, y = (package.ones(1000, dtype=package.float32, **on_device) for _ in range(2))
    with tl_dpnp.record() as graph:
        for step in range(100):
            kernel(float(step), x, y)
        kernel.submit(1.0, x, y).wait()
    assert len(graph) == 101
    assert "thread blocks of 32 x" in graph.inspect()
    assert float(y.sum()) == 1000.0
    for _ in range(3):
        assert graph() is None
    assert float(y.min()) == float(y.max()) == 3 * 4951.0 + 1
    event = graph.submit()
    graph.submit(depends=[event]).wait()
    assert float(y.min()) == float(y.max()) == 5 * 4951.0 + 1
    with pytest.raises(tl_dpnp.TLTypeError, match="depends= takes events"):
        graph.submit(depends=[1])


def test_a_graph_keeps_its_arrays_and_runs_on_the_current_stream():
    kernel = axpy()
    y = torch.zeros(1 << 20, device="cuda")
    with tl_dpnp.record() as graph:
        kernel(1.0, ones(1 << 20), y)
        kernel(1.0, torch.full((1 << 20,), 2.0, device="cuda"), y)
    torch.cuda.empty_cache()
    ones(1 << 20).fill_(100.0)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(10):
            y.mul_(2.0)
            graph()
        assert (float(y.min()), float(y.max())) == (3.0 * (2**10 - 1),) * 2
    with tl_dpnp.record() as outer:
        graph()
        kernel(1.0, y, y)
    y.fill_(1.0)
    outer()
    assert (float(y.min()), float(y.max())) == (8.0, 8.0)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        graph()
    captured.replay()
    assert (float(y.min()), float(y.max())) == (11.0, 11.0)


def test_large_products_and_checked_kernels_are_recorded():
    a, b = (torch.randint(-3, 4, (512, 512), device="cuda").to(torch.bfloat16) for _ in range(2))
    c = torch.zeros(512, 512, device="cuda")
    product = tl_dpnp.compile(PRODUCT, target="cuda")
    checked = tl_dpnp.compile("""func @f(%x: memref<f32x?x?>, %n: index) {
        %g = group_id
        foreach %i = 0, %n {
            store 1.0, %x[%i, %g] : memref<f32x?x?>
        }
    }""", target="cuda", debug=True)
    with tl_dpnp.record() as graph:
        product(*map(tl_dpnp.rev, (b, a, c)))
        checked(tl_dpnp.rev(c), 100)
    graph()
    expected = a.double() @ b.double()
    expected[:, :100] = 1.0
    assert torch.equal(c.double(), expected)
    with tl_dpnp.record() as graph:
        checked(tl_dpnp.rev(c), 513)
    with pytest.raises(tl_dpnp.TLBoundsError):
        graph()


def test_recordings_that_cannot_be():
    kernel = axpy()
    x = ones(8)
    with pytest.raises(tl_dpnp.TLBindingError, match="the sizes do not fit"), tl_dpnp.record():
        kernel(1.0, x, ones(9))
    with pytest.raises(tl_dpnp.TLError), tl_dpnp.record():
        kernel("1", x, x)
    p = cupy.zeros(8, "float32")
    with tl_dpnp.record() as graph:
        kernel(1.0, x, x)
        kernel(1.0, p, p)
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(tl_dpnp.TLBindingError, match="several current streams"):
        graph()
    graph()
    with tl_dpnp.record() as empty:
        pass
    empty()
    empty.submit().wait()
    assert float(x.sum()) == 16.0


def test_arrays_that_offer_dlpack_only():
    kernel = axpy()
    y = cupy.zeros(1 << 20, "float32")
    given = CupyExporter(cupy.ones(1 << 20, "float32")), CupyExporter(y)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(5):
            y += 1.0  # on the stream of the exporter, which the kernel waits for
            kernel(2.0, *given)
            cupy.cuda.Device().synchronize()
    assert float(y.min()) == float(y.max()) == 15.0
    assert given[0].streams
    assert set(given[0].streams) == {1}
    kernel(1.0, given[0], y)
    assert float(y.min()) == float(y.max()) == 16.0
    sums = cupy.zeros((2, 8), "float32")
    source = """func @f(%A: group<memref<f32x8>>) {
      %g = group_id
      %a = load %A[%g] : group<memref<f32x8>>
      axpby.n 1.0, %a, 1.0, %a : f32, memref<f32x8>, f32, memref<f32x8>
    }"""
    sums += 1.0
    grouped = tl_dpnp.compile(source, target="cuda")
    grouped([CupyExporter(row) for row in sums])
    grouped(tl_dpnp.group([CupyExporter(row) for row in sums]))
    assert float(sums.min()) == float(sums.max()) == 4.0
    with pytest.raises(tl_dpnp.TLTypeError, match="a CupyExporter on a CPU"):
        kernel(1.0, CupyExporter(np.ones(8, "float32"), place=1), y)


def test_tuning_measures_on_copies_and_keeps_what_is_faster(monkeypatch, tmp_path):
    from tl_dpnp.runtime.tune import tuning

    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path))
    sample = tuning.Workbench.sample

    def favouring(self, choice):
        seconds = sample(self, choice)
        assert 0 < seconds < 1
        return 1.0 if choice == self.default else 0.5

    batch = 500
    random = np.random.default_rng(1)
    a, b, c, d = (torch.as_tensor(random.integers(-3, 4, shape).astype("float32"), device="cuda")
                  for shape in ((batch, 8, 16), (8, 8), (16, 8), (batch, 16, 16)))
    source = FUSED.replace("group<memref<f32x16x8>>", "memref<f32x16x8x?>", 1).replace(
        "%1 = load %A[%0] : group<memref<f32x16x8>>", "%1 = subview %A[:,:,%0] : memref<f32x16x8x?>")
    before = d.clone()
    given = [tl_dpnp.rev(array) for array in (a, b, c, d)]
    kernel = tl_dpnp.compile(source, target="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        d.add_(1.0)
        before.add_(1.0)
        assert "@fused on " in repr(kernel.tune(0.5, *given, budget=2.0))
        assert torch.equal(d, before)
    torch.cuda.synchronize()
    monkeypatch.setattr(tuning.Workbench, "sample", favouring)
    # Long enough to compile candidates where other processes take the cores; it ends when nothing is left to try.
    report = kernel.tune(0.5, *given, budget=30.0)
    assert report.gain == 2.0
    assert len(report.tried) > 2
    assert torch.equal(d, before)
    kernel(0.5, *given)
    expected = before + 0.5 * torch.einsum("gki,kj,nj->gni", a, b, c)
    assert torch.equal(d, expected)
    again = tl_dpnp.compile(source, target="cuda")
    again(0.5, *given)
    assert torch.equal(d, 2 * expected - before)
    for tuned in (kernel, again):
        assert [signature.form for signature in tuned.signatures] == ["subgroup"]
        assert tuned.stats.tuned == 1


def test_repeated_calls_with_arrays_of_cupy_are_direct():
    kernel = axpy()
    results = [cupy.zeros(size, "float32") for size in (1000, 2000)]
    for _ in range(10):
        for number, y in enumerate(results):
            kernel(float(number + 1), cupy.ones(y.shape, "float32"), y)
    assert len(kernel._direct.functions) == 2
    assert [y.tolist() for y in results] == [[10.0] * 1000, [20.0] * 2000]
    with cupy.cuda.Stream(non_blocking=True) as stream:
        y = cupy.zeros(1 << 22, "float32")
        x = cupy.ones(1 << 22, "float32")
        for _ in range(20):
            y *= 2.0
            kernel(1.0, x, y)
        stream.synchronize()
    assert (float(y.min()), float(y.max())) == (2.0**20 - 1,) * 2
    with pytest.raises(tl_dpnp.TLBindingError, match="the sizes do not fit"):
        kernel(1.0, results[0], results[1])
    with pytest.raises(tl_dpnp.TLTypeError, match="float64"):
        kernel(1.0, results[0].astype("float64"), results[0])


@pytest.mark.skipif(device_count() < 2, reason="there is one CUDA device")
def test_repeated_calls_and_graphs_go_where_the_arrays_are():
    kernel = axpy()
    results = [torch.zeros(100, device=f"cuda:{ordinal}") for ordinal in range(2)]
    for turn in range(20):
        for ordinal, y in enumerate(results):
            x = torch.ones(100, device=y.device)
            if turn % 2:
                with torch.cuda.device(ordinal):
                    kernel(2.0, x, y)
            else:
                kernel(2.0, x, y)
    assert [float(y.sum()) for y in results] == [4000.0, 4000.0]
    assert len(kernel._direct.functions) == 2
    graphs = []
    for y in results:
        with tl_dpnp.record() as graph:
            kernel(1.0, torch.ones(100, device=y.device), y)
        graphs.append(graph)
    for graph in graphs * 3:
        graph()
    assert [float(y.sum()) for y in results] == [4300.0, 4300.0]

    def record_both():
        with tl_dpnp.record():
            for y in results:
                kernel(1.0, y, y)

    with pytest.raises(tl_dpnp.TLBindingError, match=r"on cuda:0 and .* on cuda:1"):
        record_both()


REPEATED = """
func @repeated(%A: memref<f32x8x8x?,strided<1,8,?>>, %B: memref<f32x8x8x?>, %C: memref<f32x8x8x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x8x8x?,strided<1,8,?>>
  %b = subview %B[:,:,%g] : memref<f32x8x8x?>
  %c = subview %C[:,:,%g] : memref<f32x8x8x?>
  gemm.n.n 1.0, %a, %b, 0.0, %c : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
}
"""
LARGE = REPEATED.replace("8x8", "?x?").replace("strided<1,8,?>", "strided<1,?,?>").replace("@repeated", "@large")


@pytest.mark.parametrize(("source", "size"), [(REPEATED, 8), (LARGE, 8), (LARGE, 130)])
@pytest.mark.parametrize("debug", [False, True])
def test_an_expanded_tensor_is_a_batch_of_one_matrix(source, size, debug):
    generator = torch.Generator("cuda").manual_seed(1)
    a = torch.randint(-4, 5, (1, size, size), device="cuda", generator=generator).float()
    b = torch.randint(-4, 5, (50, size, size), device="cuda", generator=generator).float()
    c = torch.zeros(50, size, size, device="cuda")
    kernel = tl_dpnp.compile(source, target="cuda", debug=debug)
    for _ in range(4):
        kernel(*map(tl_dpnp.rev, (a.expand(50, -1, -1), b, c)))
        assert torch.equal(c, b @ a)
        c.zero_()
        a.add_(1.0)


def test_arrays_of_jax_are_passed_reversed():
    jax = pytest.importorskip("jax", exc_type=ImportError)
    try:
        device = jax.devices("gpu")[0]
    except RuntimeError:
        pytest.skip("JAX finds no GPU")
    rows = np.arange(15, dtype="float32").reshape(3, 5)
    y = torch.zeros(3, 5, device="cuda:0")  # the current one may be another where JAX has begun
    kernel = tl_dpnp.compile(AXPY.replace("x?>", "x5x3>"), target="cuda")
    for turn in range(3):
        x = jax.device_put(rows + turn, device)
        kernel(2.0, tl_dpnp.rev(x), tl_dpnp.rev(y))
    assert y.tolist() == (6 * rows + 6).tolist()
    with pytest.raises(tl_dpnp.LayoutError, match=r"tl_dpnp.rev\(array\), a view that copies nothing"):
        kernel(2.0, jax.device_put(rows, device), tl_dpnp.rev(y))
    advised = tl_dpnp.rev(jax.device_put(rows.T, device).T)
    kernel(1.0, advised, tl_dpnp.rev(y))
    assert y.tolist() == (7 * rows + 6).tolist()


@needs_exchange
def test_a_list_is_what_its_tensors_are_now():
    kernel = tl_dpnp.compile(FUSED, target="cuda")
    random = np.random.default_rng(0)
    a, b, c = (random.integers(-3, 4, shape).astype("float32") for shape in ((9, 8, 16), (8, 8), (16, 8)))
    shared = [tl_dpnp.rev(torch.as_tensor(part, device="cuda")) for part in (b, c)]
    tensors = [torch.as_tensor(part, device="cuda") for part in a]
    result = torch.zeros(9, 16, 16, device="cuda")
    listed = tl_dpnp.rev(tensors)
    for turn in range(8):
        if turn % 2:  # a tensor is replaced by another one
            a[turn] = random.integers(-3, 4, (8, 16))
            listed[turn] = tl_dpnp.rev(torch.as_tensor(a[turn], device="cuda"))
        elif turn:  # a tensor is given other memory
            a[turn] = random.integers(-3, 4, (8, 16))
            listed[turn].set_(tl_dpnp.rev(torch.as_tensor(a[turn], device="cuda")))
        result.zero_()
        kernel(2.0, listed, *shared, tl_dpnp.rev(result))
        expected = 2 * np.einsum("gki,kj,nj->gni", a, b, c)
        assert np.array_equal(result.cpu().numpy(), expected)
    listed[3] = listed[3].cpu()
    with pytest.raises(tl_dpnp.TLTypeError, match=r"%\w+\[3\] takes .* a PyTorch tensor on cpu"):
        kernel(2.0, listed, *shared, tl_dpnp.rev(result))


@needs_exchange
def test_lists_of_other_tensors_share_a_launch_and_keep_their_tables():
    kernel = tl_dpnp.compile(FUSED, target="cuda")
    random = np.random.default_rng(0)
    b, c = (random.integers(-3, 4, shape).astype("float32") for shape in ((8, 8), (16, 8)))
    shared = [tl_dpnp.rev(torch.as_tensor(part, device="cuda")) for part in (b, c)]
    batches = random.integers(-3, 4, (300, 9, 8, 16)).astype("float32")  # more than there are tables
    lists = [tl_dpnp.rev(list(torch.as_tensor(batch, device="cuda"))) for batch in batches]
    results = torch.zeros(300, 9, 16, 16, device="cuda")
    for listed, result in zip(lists, results, strict=True):
        kernel(2.0, listed, *shared, tl_dpnp.rev(result))
    expected = 2 * np.einsum("bgki,kj,nj->bgni", batches, b, c)
    assert np.array_equal(results.cpu().numpy(), expected)
    assert len(kernel._memo._kept) == 1
    with tl_dpnp.record() as graph:
        kernel(1.0, lists[0], *shared, tl_dpnp.rev(results[0]))
        kernel(1.0, lists[1], *shared, tl_dpnp.rev(results[0]))
    event = kernel.submit(1.0, tuple(lists[2]), *shared, tl_dpnp.rev(results[2]))
    for listed, result in zip(lists[3:], results[3:], strict=True):  # they take the places of the tables
        kernel(1.0, listed, *shared, tl_dpnp.rev(result))
    del lists, listed
    graph()
    event.wait()
    torch.cuda.synchronize()
    expected[0] += (expected[0] + expected[1]) / 2
    expected[2:] *= 1.5
    assert np.array_equal(results.cpu().numpy(), expected)


@pytest.mark.parametrize("library", ["torch", "cupy", "DLPack"])
@pytest.mark.parametrize("debug", [False, True])
def test_lists_of_any_arrays_of_any_sizes(library, debug):
    source = """
    func @f(%A: group<memref<f32x?x?>>, %C: group<memref<f32x?x?>>) {
      %g = group_id
      %a = load %A[%g] : group<memref<f32x?x?>>
      %c = load %C[%g] : group<memref<f32x?x?>>
      axpby.n 1.0, %a, 2.0, %c : f32, memref<f32x?x?>, f32, memref<f32x?x?>
    }"""
    random = np.random.default_rng(1)
    kernel = tl_dpnp.compile(source, target="cuda", debug=debug)
    for count in (7, 0, 7, 8, 7):
        sizes = random.integers(1, 9, (count, 2))
        a, c = ([random.integers(-3, 4, size).astype("float32") for size in sizes] for _ in range(2))
        given = [[cupy.asarray(part, order="F") for part in parts] for parts in (a, c)]
        arguments = given
        if library == "torch":
            arguments = [[torch.as_tensor(part, device="cuda") for part in parts] for parts in given]
        elif library == "DLPack":
            arguments = [[CupyExporter(part) for part in parts] for parts in given]
        cupy.cuda.runtime.deviceSynchronize()
        kernel(*arguments)
        torch.cuda.synchronize()
        assert all(np.array_equal(one.get(), x + 2 * y) for one, x, y in zip(given[1], a, c, strict=True))


MIXED = """
func @mixed(%alpha: f32, %A: memref<f32x?x?x?>, %B: group<memref<f32x?x?>>, %C: memref<f32x?x?x?>, %v: memref<f32x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x?x?x?>
  %b = load %B[%g] : group<memref<f32x?x?>>
  %c = subview %C[:,:,%g] : memref<f32x?x?x?>
  gemm.n.n %alpha, %a, %b, 1.0, %c : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}
"""


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("kind", ["list", "group"])
def test_arrays_in_c_order(library, kind):
    random = np.random.default_rng(2)
    kernel = tl_dpnp.compile(MIXED, target="cuda")
    given = (lambda array: torch.as_tensor(array, device="cuda")) if library == "torch" else cupy.asarray
    for m, n, k in ((5, 5, 5), (5, 7, 3), (7, 5, 3)):  # square ones, which only their order tells from their transposes
        host = [random.integers(-3, 4, shape).astype("float32") for shape in ((6, k, m), (6, n, k), (6, n, m), (4,))]
        a, b, c, v = map(given, host)
        group = list(b)
        arguments = (a, tl_dpnp.group(group) if kind == "group" else group, c, v)
        for _ in range(4):
            kernel.in_c_order(2.0, *arguments)
        event = kernel.in_c_order.submit(2.0, *arguments)
        event.wait()
        kernel.in_c_order(2.0, *arguments[:3], v=v)
        kernel.in_c_order(2.0, *arguments, group_size=6)
        with tl_dpnp.record() as graph:
            kernel.in_c_order(2.0, *arguments)
        graph()
        torch.cuda.synchronize()
        result = c.cpu().numpy() if library == "torch" else c.get()
        assert np.array_equal(result, host[2] + 16 * host[1] @ host[0])
    with pytest.raises(tl_dpnp.TLBindingError, match="the sizes do not fit"):
        kernel.in_c_order(2.0, given(host[0].transpose(0, 2, 1).copy()), *arguments[1:])


@needs_exchange
def test_repeated_calls_in_c_order_are_direct_and_see_the_order():
    kernel = tl_dpnp.compile(REPEATED.replace(",strided<1,8,?>", ""), target="cuda")
    a, b = (torch.randint(-4, 5, (20, 8, 8), device="cuda").float() for _ in range(2))
    c = torch.zeros(20, 8, 8, device="cuda")
    for _ in range(3):
        kernel.in_c_order(a, b, c)
    assert torch.equal(c, b @ a)
    slow = threading.Event()
    run, kernel._launch = kernel._launch, lambda *arguments: slow.set()
    c.zero_()
    kernel.in_c_order(*(array.clone() for array in (a, b)), c)
    assert not slow.is_set()
    assert torch.equal(c, b @ a)
    kernel._launch = run
    with pytest.raises(tl_dpnp.LayoutError):
        kernel(a, b, c)
    with pytest.raises(tl_dpnp.LayoutError):
        kernel.in_c_order(a.mT, b, c)
    kernel.in_c_order(a, b, c)
    assert torch.equal(c, b @ a)


@needs_exchange
def test_a_captured_graph_has_the_tables_of_its_lists(monkeypatch):
    monkeypatch.setattr("tl_dpnp.runtime.cuda.lists._tables.MOST_TABLES", 1)
    source = """func @double(%A: group<memref<f32x3>>) {
      %g = group_id
      %a = load %A[%g] : group<memref<f32x3>>
      axpby.n 1.0, %a, 1.0, %a : f32, memref<f32x3>, f32, memref<f32x3>
    }"""
    kernel = tl_dpnp.compile(source, target="cuda")
    first, second = (list(torch.ones(50, 3, device="cuda")) for _ in range(2))
    kernel(first)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(first)
    for _ in range(20):
        kernel(second)
        kernel([*second, *second])  # memory of tables is used for others
    graph.replay()
    graph.replay()
    assert torch.stack(first).eq(8).all()
