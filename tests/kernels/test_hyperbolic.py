"""The hyperbolic tangent of kernels, in scalars and in vectors, against that of a wider type."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp

LOOPS = {
    "vectors": "foreach (%i) = (0), (%n) {{",
    "scalars": "for %i = 0, %n : index {{",
}
SOURCE = """func @hyperbolic(%n: index, %x: memref<{type}x?>, %y: memref<{type}x?>) {{
  {loop}
    %a = load %x[%i] : memref<{type}x?>
    %b = math.tanh %a : {type}
    store %b, %y[%i] : memref<{type}x?>
  }}
}}"""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("name", "dtype", "least"), [("f32", np.float32, -45), ("f64", np.float64, -323)])
def test_tanh_is_close_everywhere(loop, name, dtype, least):
    rng = np.random.default_rng(-least)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, -np.finfo(dtype).smallest_subnormal]
    x = np.concatenate([
        rng.normal(size=20_000), rng.uniform(-45, 45, 10_000), 10.0 ** rng.uniform(least, 3, 10_000),
        np.linspace(-0.7, 0.7, 10_001), special,
    ]).astype(dtype)
    y = dpnp.zeros(x.size, dtype=dtype)
    tl_dpnp.compile(SOURCE.format(type=name, loop=LOOPS[loop].format()))(x.size, dpnp.asarray(x), y)
    result = dpnp.asnumpy(y)

    expected = np.tanh(x.astype(np.longdouble))
    finite = ~np.isnan(x)
    units = np.abs(result - expected)[finite] / np.spacing(np.abs(expected[finite]).astype(dtype))
    assert units.max() < 2.6, x[finite][units.argmax()]
    assert np.array_equal(np.isnan(result), np.isnan(x))
    assert np.array_equal(np.signbit(result[finite]), np.signbit(x[finite]))
    assert np.array_equal(result[-7:-3], [0.0, -0.0, 1.0, -1.0])
    assert result[-1] == special[-1]
