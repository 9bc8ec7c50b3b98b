"""Results that are stored past the caches, as in calls whose arrays exceed them."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp import config
from tl_dpnp.lowering.plan import EXCEEDS_ALL, EXCEEDS_ONE
from tl_dpnp.runtime.sycl import launch

SOURCE = """
func @product(%a: memref<{t}x{m}x{k}x?>, %b: memref<{t}x{k}x{n}x?>, %c: memref<{t}x{m}x{n}x?>) {{
  %g = group_id
  %x = subview %a[:,:,%g] : memref<{t}x{m}x{k}x?>
  %y = subview %b[:,:,%g] : memref<{t}x{k}x{n}x?>
  %z = subview %c[:,:,%g] : memref<{t}x{m}x{n}x?>
  gemm.n.n 1, %x, %y, {beta}, %z : {t}, memref<{t}x{m}x{k}>, memref<{t}x{k}x{n}>, {t}, memref<{t}x{m}x{n}>
}}"""


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("offset", [0, 1, 16], ids="{} elements off".format)
@pytest.mark.parametrize(("m", "n", "k", "beta", "element"), [
    (32, 5, 8, 0, "f32"), (16, 9, 8, 2, "f32"), (24, 3, 8, 0, "f64"),
    # Columns of these are no whole lines.
    (35, 35, 8, 0, "f32"), (120, 7, 8, 0, "f32"), (9, 40, 8, 0, "f64"), (20, 20, 8, 0, "f32"), (20, 20, 8, 3, "f32"),
    # These have other tiles where operands come from memory.
    (56, 9, 56, 0, "f32"), (120, 9, 40, 0, "f32"), (64, 16, 64, 2, "f64"), (35, 9, 35, 0, "f64"),
])
@pytest.mark.parametrize("level", [EXCEEDS_ONE, EXCEEDS_ALL])
def test_results_of_any_alignment(monkeypatch, offset, m, n, k, beta, element, level):
    monkeypatch.setattr(launch, "exceeded_caches", lambda call, device: level)
    groups, dtype = 7, {"f32": np.float32, "f64": np.float64}[element]
    generator = np.random.default_rng(m)

    def array(*shape: int) -> dpnp.ndarray:
        count = int(np.prod(shape))
        memory = dpnp.asarray(generator.integers(-4, 5, count + offset).astype(dtype))
        return memory[offset:].reshape(shape)

    a, b, c = array(groups, k, m), array(groups, n, k), array(groups, n, m)
    expected = b.asnumpy() @ a.asnumpy() + beta * c.asnumpy()
    kernel = tl_dpnp.compile(SOURCE.format(m=m, n=n, k=k, beta=beta, t=element))
    kernel(*map(tl_dpnp.rev, (a, b, c)))
    np.testing.assert_array_equal(c.asnumpy(), expected)


@pytest.mark.parametrize(("m", "n"), [(32, 32), (35, 35)])
def test_neighbours_keep_their_values(monkeypatch, m, n):
    monkeypatch.setattr(launch, "exceeded_caches", lambda call, device: EXCEEDS_ALL)
    memory = dpnp.full(m * n + 64, 7, dtype="float32")
    kernel = tl_dpnp.compile(SOURCE.format(m=m, n=n, k=8, beta=0, t="f32"))
    a, b = dpnp.ones((1, 8, m), dtype="float32"), dpnp.ones((1, n, 8), dtype="float32")
    for start in (0, 3, 16, 33):
        memory[:] = 7
        kernel(tl_dpnp.rev(a), tl_dpnp.rev(b), tl_dpnp.rev(memory[start : start + m * n].reshape((1, n, m))))
        expected = np.full(memory.shape, 7)
        expected[start : start + m * n] = 8
        np.testing.assert_array_equal(memory.asnumpy(), expected)


def test_results_without_whole_lines_are_staged():
    kernel = tl_dpnp.compile(SOURCE.format(m=35, n=35, k=8, beta=0, t="f32"))
    device = next(device for device in tl_dpnp.devices() if device.is_cpu)
    staged = device.vector_bytes == 64
    (llvm,) = kernel.inspect_llvm().values()
    assert ("vmovntps" in llvm) == staged


@pytest.mark.parametrize("element", ["i8", "i16", "i64", "f16"])
def test_elements_of_any_size(monkeypatch, element):
    monkeypatch.setattr(launch, "exceeded_caches", lambda call, device: EXCEEDS_ALL)
    dtype = {"i8": "i1", "i16": "i2", "i64": "i8", "f16": "f2"}[element]
    generator = np.random.default_rng(5)
    a, b = (dpnp.asarray(generator.integers(-2, 3, shape).astype(dtype)) for shape in ((3, 8, 35), (3, 13, 8)))
    c = dpnp.zeros((3, 13, 35), dtype=dtype)
    kernel = tl_dpnp.compile(SOURCE.format(m=35, n=13, k=8, beta=0, t=element))
    kernel(*map(tl_dpnp.rev, (a, b, c)))
    np.testing.assert_array_equal(c.asnumpy(), b.asnumpy() @ a.asnumpy())


WIDEST = max(device.vector_bytes for device in tl_dpnp.devices() if device.is_cpu)
TRANSPOSED = """
func @product(%a: memref<f64x48x64x?>, %b: memref<f64x48x{n}x?>, %c: memref<f64x64x{n}x?>) {{
  %g = group_id
  %x = subview %a[:,:,%g] : memref<f64x48x64x?>
  %y = subview %b[:,:,%g] : memref<f64x48x{n}x?>
  %z = subview %c[:,:,%g] : memref<f64x64x{n}x?>
  gemm.t.n 1, %x, %y, 0, %z : f64, memref<f64x48x64>, memref<f64x48x{n}>, f64, memref<f64x64x{n}>
}}"""


@pytest.mark.parametrize("beyond", [0, EXCEEDS_ALL], ids=["in cache", "from memory"])
@pytest.mark.parametrize(("n", "step"), [
    (8, "reverse_compute_at(C_registers, m.0)" if WIDEST == 64 else "within=m.0"),
    (16, "within=m.0"), (40, "within=m.0"),
])
def test_a_transposed_factor_is_copied_for_one_tile_of_rows_at_a_time(monkeypatch, n, step, beyond):
    """But where C is narrower than two vectors of 64 bytes, it is written back transposed instead."""
    monkeypatch.setattr(launch, "exceeded_caches", lambda call, device: beyond)
    generator = np.random.default_rng(n)
    a, b = (generator.integers(-4, 5, shape).astype(np.float64) for shape in ((5, 64, 48), (5, n, 48)))
    result = dpnp.full((5, n, 64), np.nan)
    with config.scope(CORE="zen4" if WIDEST == 64 else "auto"):  # the tiles of which divide these sizes
        kernel = tl_dpnp.compile(TRANSPOSED.format(n=n))
    kernel(*(tl_dpnp.rev(dpnp.asarray(x)) for x in (a, b)), tl_dpnp.rev(result))
    assert step in kernel.lower().schedule
    np.testing.assert_array_equal(result.asnumpy(), b @ a.swapaxes(1, 2))
