"""Results that are stored past the caches, as in calls whose arrays exceed them."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.runtime import launch

SOURCE = """
func @product(%a: memref<{t}x{m}x8x?>, %b: memref<{t}x8x{n}x?>, %c: memref<{t}x{m}x{n}x?>) {{
  %g = group_id
  %x = subview %a[:,:,%g] : memref<{t}x{m}x8x?>
  %y = subview %b[:,:,%g] : memref<{t}x8x{n}x?>
  %z = subview %c[:,:,%g] : memref<{t}x{m}x{n}x?>
  gemm.n.n 1, %x, %y, {beta}, %z : {t}, memref<{t}x{m}x8>, memref<{t}x8x{n}>, {t}, memref<{t}x{m}x{n}>
}}"""


@pytest.mark.parametrize("offset", [0, 1, 16], ids="{} elements off".format)
@pytest.mark.parametrize(("m", "n", "beta", "element"), [(32, 5, 0, "f32"), (16, 9, 2, "f32"), (24, 3, 0, "f64")])
def test_results_of_any_alignment(monkeypatch, offset, m, n, beta, element):
    monkeypatch.setattr(launch, "exceeds_caches", lambda call, device, cores=None: cores is None)
    groups, dtype = 7, {"f32": np.float32, "f64": np.float64}[element]
    generator = np.random.default_rng(m)

    def array(*shape: int) -> dpnp.ndarray:
        count = int(np.prod(shape))
        memory = dpnp.asarray(generator.integers(-4, 5, count + offset).astype(dtype))
        return memory[offset:].reshape(shape)

    a, b, c = array(groups, 8, m), array(groups, n, 8), array(groups, n, m)
    expected = b.asnumpy() @ a.asnumpy() + beta * c.asnumpy()
    kernel = tl_dpnp.compile(SOURCE.format(m=m, n=n, beta=beta, t=element))
    kernel(*map(tl_dpnp.rev, (a, b, c)))
    np.testing.assert_array_equal(c.asnumpy(), expected)
