"""Products of two work-groups at once, where they share a factor."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.scalars import SCALAR_TYPES

#: The bytes of a vector of the host: rows that fill one are computed for two work-groups at once.
(VECTOR_BYTES,) = {device.vector_bytes for device in tl_dpnp.devices() if device.is_cpu}
#: As many elements of f32.
LANES = VECTOR_BYTES // 4
CHAIN = """
func @chain(%alpha: {t}, %a: group<memref<{t}x{m}x8>>, %b: memref<{t}x8x8>, %c: memref<{t}x8x13>,
            %d: memref<{t}x{m}x13x?>) {{
  %g = group_id
  %x = load %a[%g] : group<memref<{t}x{m}x8>>
  %z = subview %d[:,:,%g] : memref<{t}x{m}x13x?>
  %t = alloca -> memref<{t}x{m}x8>
  gemm.n.t 1, %x, %b, 0, %t : {t}, memref<{t}x{m}x8>, memref<{t}x8x8>, {t}, memref<{t}x{m}x8>
  gemm.n.n %alpha, %t, %c, 1, %z : {t}, memref<{t}x{m}x8>, memref<{t}x8x13>, {t}, memref<{t}x{m}x13>
}}"""
#: One product of {m} rows; {b} is its second factor, a slice of the batch or not.
PRODUCT = """
func @product(%a: memref<f32x{m}x4x?>, %b: memref<f32x4x5x?>, %c: memref<f32x{m}x5x?>) {{
  %g = group_id
  %x = subview %a[:,:,%g] : memref<f32x{m}x4x?>
  %y = subview %b[:,:,{b}] : memref<f32x4x5x?>
  %z = subview %c[:,:,%g] : memref<f32x{m}x5x?>
  gemm.n.n 1.0, %x, %y, {beta}, %z : f32, memref<f32x{m}x4>, memref<f32x4x5>, f32, memref<f32x{m}x5>
}}"""


def product(m: int = LANES, b: str = "0", beta: str = "0.0") -> str:
    return PRODUCT.format(m=m, b=b, beta=beta)


def jammed(kernel: tl_dpnp.Kernel) -> bool:
    return "_jammed" in kernel.lower().source


@pytest.mark.drawn(2)
@pytest.mark.parametrize("groups", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("element", ["f32", "f64", "i32", "c32", "c64"])
def test_chain(element, groups):
    dtype = np.dtype(SCALAR_TYPES[element].storage)
    m = VECTOR_BYTES // dtype.itemsize
    generator = np.random.default_rng(groups)

    def integers(*shape: int) -> np.ndarray:
        imaginary = 1j * generator.integers(-3, 4, shape) if element.startswith("c") else 0
        return (generator.integers(-3, 4, shape) + imaginary).astype(dtype)

    a, b, c, d = integers(groups, 8, m), integers(8, 8), integers(13, 8), integers(groups, 13, m)
    kernel = tl_dpnp.compile(CHAIN.format(t=element, m=m))
    assert jammed(kernel)
    result = dpnp.asarray(d)
    # The arrays of the group do not lie in order.
    arrays = [None] * groups
    for i in reversed(range(groups)):
        arrays[i] = tl_dpnp.rev(dpnp.asarray(a[i]))
    kernel(2, arrays, tl_dpnp.rev(dpnp.asarray(b)), tl_dpnp.rev(dpnp.asarray(c)), tl_dpnp.rev(result),
           **({} if groups else {"group_size": 0}))
    np.testing.assert_array_equal(result.asnumpy(), d + 2 * (c @ (b.T @ a)))


@pytest.mark.parametrize(("factor", "beta", "together"), [("0", "0.0", True), ("1", "0.5", True), ("%g", "0.0", False)])
def test_the_second_factor_must_be_shared(factor, beta, together):
    kernel = tl_dpnp.compile(product(LANES, factor, beta))
    assert jammed(kernel) == together
    generator = np.random.default_rng(0)
    shapes = (5, 4, LANES), (5, 5, 4), (5, 5, LANES)
    a, b, c = (generator.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    result = dpnp.asarray(c)
    kernel(*(tl_dpnp.rev(dpnp.asarray(x)) for x in (a, b)), tl_dpnp.rev(result))
    second = b if factor == "%g" else b[int(factor)]
    np.testing.assert_array_equal(result.asnumpy(), second @ a + float(beta) * c)


@pytest.mark.parametrize("source", [
    product(2 * LANES),  # two vectors high: its broadcasts are shared already
    product(LANES // 4),  # columns share vectors
    product(LANES * 11 // 16),  # half a vector, and columns share the others
    product().replace("subview %c[:,:,%g]", "subview %c[:,:,0]"),  # all write the same
    product().replace("%g = group_id", "%h = group_id\n  %g = arith.mul %h, %h : index"),
], ids=["high", "low", "a rest", "one result", "computed index"])
def test_others_run_one_by_one(source):
    assert not jammed(tl_dpnp.compile(source))


@pytest.mark.parametrize("options", [{"debug": True}, {"schedules": {"gemm_0": lambda schedule: None}}],
                         ids=["debug", "own schedule"])
def test_what_asks_for_single_work_groups_gets_them(options):
    if "schedules" in options:
        options = {"schedule": options["schedules"]}
    assert not jammed(tl_dpnp.compile(product(), **options))
