"""What a compilation leaves behind once its kernel is gone: nothing, in Numba no more than elsewhere."""

from __future__ import annotations

import gc

import dpnp
import numba_dpex
import pytest

import tl_dpnp
from tl_dpnp.kernels.llvm import Intrinsic

PRODUCT = """
func @product(%A: memref<f32x8x8>, %B: memref<f32x8x8>, %C: memref<f32x8x8>) {{
  gemm.n.n {alpha}, %A, %B, 1.0, %C : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
}}
"""


def run(alpha):
    kernel = tl_dpnp.compile(PRODUCT.format(alpha=alpha), cache=False)
    arrays = [dpnp.ones((8, 8), dtype="float32") for _ in range(3)]
    kernel(*map(tl_dpnp.rev, arrays))
    assert float(arrays[2][0, 0]) == alpha * 8 + 1


@pytest.fixture(scope="module")
def warm():
    """Compile twice: the first time Numba and the driver load what they need."""
    for alpha in (1.0, 2.0):
        run(alpha)


def test_numba_keeps_no_intrinsics(warm):
    def alive():
        gc.collect()
        return sum(isinstance(thing, Intrinsic) for thing in gc.get_objects())

    before = alive()
    for alpha in (3.0, 4.0, 5.0):
        run(alpha)
    assert alive() == before


def test_numba_dpex_registers_nothing_twice(warm):
    context = numba_dpex.kernel(lambda item: None).targetctx

    def implementations():
        return sum(len(selector.versions) for selector in context._defns.values())

    before = implementations()
    for alpha in (6.0, 7.0, 8.0):
        run(alpha)
    assert implementations() == before


def test_a_slot_stands_for_one_kernel_at_a_time(warm):
    """Kernels of different numbers and types of intrinsics share functions that Numba knows."""
    sums = """func @f(%n: index, %x: memref<f64x?>, %y: memref<f64>) {
      sum.n 1.0, %x, 0.0, %y : f64, memref<f64x?>, f64, memref<f64>
      %v = load %y[] : memref<f64>
      %w = math.exp %v : f64
      %u = math.min %n, 3 : index
      %c = cast %u : index -> f64
      %t = arith.add %w, %c : f64
      store %t, %y[] : memref<f64>
    }"""
    kernel = tl_dpnp.compile(sums, cache=False)
    x, y = dpnp.zeros(5), dpnp.zeros(())
    for _ in range(2):
        kernel(9, x, y)
        assert float(y) == 4
        run(9.0)
        kernel.recompile()
