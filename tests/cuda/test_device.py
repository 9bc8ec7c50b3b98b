"""Kernels on a CUDA device; skipped where there is none."""

from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.drawn_products import drawn_axes, drawn_chain, drawn_product, drawn_sandwich
from tests.cuda.programs import AXPY, LAYOUTS, disagreements
from tests.cuda.staged_programs import CASES
from tests.cuda.tensorized import TENSORIZED, scheduled, shapes, source, types
from tests.cuda.test_offline import FUSED, large_product
from tests.strategies.programs import random_program
from tl_dpnp.kernels.mma.rows import ROWS
from tl_dpnp.runtime.cuda.driver_adapter import device_count

pytestmark = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")
cupy = pytest.importorskip("cupy", exc_type=ImportError)
torch = pytest.importorskip("torch", exc_type=ImportError)

PROGRAMS = int(os.environ.get("TL_DPNP_TEST_CUDA_PROGRAMS", "100"))
#: Times eight products, and three chains.
DRAWN = int(os.environ.get("TL_DPNP_TEST_CUDA_PRODUCTS", "12"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_agree_with_the_interpreter(layout):
    failures = []
    for seed in range(PROGRAMS):
        program = random_program(seed)
        found = disagreements(program, layout, debug=seed % 4 == 0)
        if found:
            failures.append("\n".join([f"random_program({seed})", *found]))
    assert not failures, "\n\n".join(failures[:5])


def arrays(*shapes, seed=0):
    random = np.random.default_rng(seed)
    return [random.integers(-4, 5, shape).astype(np.float32, order="F") for shape in shapes]


@pytest.mark.parametrize("transposes", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize(("dtype", "rows", "precision"), [
    ("float32", 128, "highest"), ("float32", 256, "highest"), ("float32", 256, "default"), ("float64", 128, "highest")])
@pytest.mark.parametrize("displaced", [False, True], ids=["aligned", "displaced"])
def test_large_products(transposes, dtype, rows, precision, displaced):
    size = 256
    a, b, c = (array.astype(dtype) for array in arrays((size, size), (size, size), (size, size)))
    left, right = (x.T if letter == "t" else x for x, letter in zip((a, b), transposes, strict=True))
    expected = 2 * left @ right - c
    given = []
    for array in (a, b, c):
        memory = cupy.empty(size * size + 1, dtype)
        given.append(memory[displaced : size * size + displaced].reshape((size, size), order="F"))
        given[-1][...] = cupy.asarray(array)
    program = large_product(size, f"f{dtype[5:]}", transposes, rows=rows)
    kernel = tl_dpnp.compile(program, target="cuda", precision=precision)
    kernel(*given, group_size=size // rows * (size // 128))
    np.testing.assert_array_equal(cupy.asnumpy(given[-1]), expected)


@pytest.mark.parametrize("name", TENSORIZED)
@pytest.mark.parametrize(("transposes", "copied", "buffers"), [("nn", "", 2), ("nt", "A", 2), ("tn", "AB", 2),
                                                               ("tt", "AB", 3), ("nn", "B", 5)])
def test_schedules_on_tensor_cores(name, transposes, copied, buffers):
    row = ROWS[name]
    m, n, k = shapes(row)
    a, b, c = arrays((m, k), (k, n), (m, n))
    element, result = (getattr(torch, {"f": "float"}.get(t[0], "bfloat") + t.lstrip("bf")) for t in types(row))
    given = [tl_dpnp.rev(torch.as_tensor(np.ascontiguousarray(x if letter == "t" else x.T), device="cuda").to(type_))
             for x, letter, type_ in ((a, transposes[0], element), (b, transposes[1], element), (c, "n", result))]
    kernel = tl_dpnp.compile(source(row, transposes), target="cuda",
                             schedule={"gemm_0": scheduled(row, copied, buffers)})
    kernel(*given)
    np.testing.assert_array_equal(given[2].cpu().double().numpy(), 2 * a @ b - c)


@pytest.mark.parametrize("library", ["cupy", "torch", "numba"])
def test_arrays_of_each_package(library):
    from numba import cuda

    def move(array):
        match library:
            case "cupy":
                return cupy.asarray(array)
            case "numba":
                return cuda.to_device(array)
        return tl_dpnp.rev(torch.as_tensor(np.ascontiguousarray(array.T), device="cuda"))

    def back(array):
        match library:
            case "cupy":
                return cupy.asnumpy(array)
            case "numba":
                return array.copy_to_host()
        return array.cpu().numpy()

    batch = 37
    a, b, c, d = arrays((16, 8, batch), (8, 8), (8, 16), (16, 16, batch))
    expected = d + 0.5 * np.einsum("ikg,jk,jn->ing", a, b, c)
    given = [[move(np.asfortranarray(a[:, :, g])) for g in range(batch)], move(b), move(c), move(d)]
    kernel = tl_dpnp.compile(FUSED, target="cuda")
    kernel(0.5, *given)
    np.testing.assert_array_equal(back(given[-1]), expected)
    kernel(0.5, tl_dpnp.group(given[0]), *given[1:])
    np.testing.assert_array_equal(back(given[-1]), 2 * expected - d)


def test_calls_run_on_the_current_stream():
    kernel = tl_dpnp.compile(AXPY, target="cuda")
    stream = torch.cuda.Stream()
    x, y = torch.ones(1 << 24, device="cuda"), torch.zeros(1 << 24, device="cuda")
    kernel(1.0, x, y)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for _ in range(20):
            y.mul_(2.0)
            kernel(1.0, x, y)
    stream.synchronize()
    assert (float(y.min()), float(y.max())) == (2.0**21 - 1, 2.0**21 - 1)
    other = cupy.cuda.Stream(non_blocking=True)
    p, q = cupy.ones(1 << 20, "float32"), cupy.zeros(1 << 20, "float32")
    cupy.cuda.Device().synchronize()
    with other:
        kernel(1.0, p, q)
        q *= 3
        event = kernel.submit(1.0, p, q)
    event.wait()
    assert float(q.min()) == 4.0


def test_arrays_whose_streams_differ_are_refused():
    kernel = tl_dpnp.compile(AXPY, target="cuda")
    x, y = torch.ones(8, device="cuda"), cupy.zeros(8, "float32")
    kernel(1.0, x, y)
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(tl_dpnp.TLBindingError, match="current streams differ"):
        kernel(1.0, x, y)
    assert float(y.sum()) == 8.0


def test_a_graph_of_calls_replays():
    kernel = tl_dpnp.compile(AXPY, target="cuda")
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    kernel(1.0, x, y)  # compiled and loaded before the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for step in range(100):
            kernel(float(step), x, y)
    y.zero_()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, torch.full_like(y, 3 * 4950.0))


def test_arguments_that_do_not_fit():
    kernel = tl_dpnp.compile(AXPY, target="cuda")
    x = cupy.ones(8, "float32")
    for wrong, error, text in (
        (np.ones(8, "float32"), tl_dpnp.TLTypeError, "a NumPy array, which lives in the host's memory"),
        (torch.ones(8), tl_dpnp.TLTypeError, "a PyTorch tensor on cpu"),
        (torch.ones(8, device="cuda", requires_grad=True), tl_dpnp.TLTypeError, r"pass tensor.detach\(\)"),
        (cupy.ones(8, "float64"), tl_dpnp.TLTypeError, "float64"),
        (cupy.ones(9, "float32"), tl_dpnp.TLBindingError, "the sizes do not fit"),
    ):
        with pytest.raises(error, match=text):
            kernel(1.0, wrong, x)


def test_bounds_are_checked_on_the_device():
    source = """func @f(%x: memref<i32x?x?>, %n: index) {
        %g = group_id
        foreach %i = 0, %n {
            store 1, %x[%i, %g] : memref<i32x?x?>
        }
    }"""
    kernel = tl_dpnp.compile(source, target="cuda", debug=True)
    x = cupy.zeros((20, 3), dtype="int32", order="F")
    kernel(x, 20)
    assert int(x.sum()) == 60
    with pytest.raises(tl_dpnp.TLBoundsError, match=r":4:13: .*: 20, where the bound is 20 \(in work-group [012]"):
        kernel(x, 21)


def test_threads_share_a_kernel():
    kernel = tl_dpnp.compile(AXPY, target="cuda", cache=False)
    results = [cupy.zeros(1000, "float32") for _ in range(8)]
    x = cupy.ones(1000, "float32")
    cupy.cuda.Device().synchronize()

    def work(number):
        for _ in range(50):
            kernel(float(number), x, results[number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cupy.cuda.Device().synchronize()
    assert [float(result.min()) for result in results] == [50.0 * number for number in range(8)]


@pytest.mark.skipif(device_count() < 2, reason="there is one CUDA device")
def test_the_work_goes_where_the_arrays_are():
    kernel = tl_dpnp.compile(AXPY, target="cuda")
    for ordinal in (1, 0, 1):
        x, y = torch.ones(100, device=f"cuda:{ordinal}"), torch.zeros(100, device=f"cuda:{ordinal}")
        kernel(2.0, x, y)
        assert y.device.index == ordinal
        assert float(y.sum()) == 200.0
    with pytest.raises(tl_dpnp.TLBindingError, match=r"cuda:1 and .* on cuda:0"):
        kernel(1.0, x, torch.ones(100, device="cuda:0"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("displaced", [False, True], ids=["aligned", "displaced"])
def test_the_staged_form_agrees_with_the_interpreter(name, displaced):
    """`displaced` arrays begin at an element that the copy engine does not take."""
    agrees_with_the_interpreter(CASES[name], int(displaced), (1, 7, 5000 if not CASES[name].groups else 700))


@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_products_agree_with_the_interpreter(seed):
    """The arrays begin at a drawn element, and there are drawn numbers of products."""
    draw = random.Random(seed)
    for number in range(8 * seed, 8 * seed + 8):
        case = drawn_product(number)
        batches = (draw.randint(1, 9), 133 if case.groups else draw.choice((700, 2111)))
        agrees_with_the_interpreter(case, draw.randint(0, 4), batches)
    for chain in (drawn_chain(seed), drawn_sandwich(seed), drawn_axes(seed)):
        agrees_with_the_interpreter(chain, draw.randint(0, 4), (draw.randint(1, 9), 1500))


def agrees_with_the_interpreter(case, displaced, batches):
    """Check a program on arrays that begin at the element `displaced` of memory, none of which it may write around."""
    kernel = tl_dpnp.compile(case.source, target="cuda", form="staged", precision=case.precision)
    reference = tl_dpnp.compile(case.source, target="reference")

    def move(array):
        memory = cupy.full(displaced + array.size + 8, 77, array.dtype)
        inner = memory[displaced:-8]
        inner[:] = cupy.asarray(array.ravel(order="F"))
        return inner.reshape(array.shape, order="F"), memory

    for batch in batches:
        expected = case.arguments(batch)
        given, memories = [], []
        for position, array in enumerate(expected):
            parts = [array[..., g] for g in range(batch)] if position in case.groups else [array]
            moved = [move(part) for part in parts]
            memories.append(moved)
            given.append([part for part, _ in moved] if position in case.groups else moved[0][0])
        kernel(*given)
        few = min(batch, 40)
        inputs = [array[..., :few].copy(order="F") if None in shape else array
                  for array, shape in zip(expected, case.shapes, strict=True)]
        reference(*[[part[..., g] for g in range(few)] if position in case.groups else part
                    for position, part in enumerate(inputs)])
        last = given[-1]
        result = cupy.stack(last, axis=-1) if isinstance(last, list) else last
        np.testing.assert_array_equal(cupy.asnumpy(result[..., :few]), inputs[-1], case.name)
        # Work-groups that are far apart compute the same from the same operands.
        again = [a if None not in shape else a[..., ::-1] for a, shape in zip(expected, case.shapes, strict=True)]
        back = [[cupy.asarray(np.asfortranarray(a[..., g])) for g in range(batch)] if position in case.groups
                else cupy.asarray(np.asfortranarray(a)) for position, a in enumerate(again)]
        kernel(*back)
        mirrored = cupy.stack(back[-1], axis=-1) if isinstance(back[-1], list) else back[-1]
        assert bool((mirrored[..., ::-1] == result).all()), case.name
        for moved in memories:
            for _, memory in moved:
                around = cupy.concatenate([memory[:displaced], memory[-8:]])
                assert bool((around == 77).all()), case.name


def test_a_tensor_that_got_other_memory_or_another_shape():
    kernel = tl_dpnp.compile(AXPY, target="cuda")
    x, y = torch.ones(10, device="cuda"), torch.zeros(10, device="cuda")
    kernel(1.0, x, y)
    kernel(1.0, x, y)
    other = torch.full((10,), 5.0, device="cuda")
    y.set_(other)
    kernel(1.0, x, y)
    assert float(other.sum()) == 60.0
    x.resize_(5)
    with pytest.raises(tl_dpnp.TLBindingError, match="the sizes do not fit"):
        kernel(1.0, x, y)
