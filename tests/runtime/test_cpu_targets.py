"""The CPU runtime can be told to compile for fewer features than the processor has; kernels follow it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tl_dpnp.runtime.bootstrap import CPU_TARGETS, CPU_VECTOR_BYTES, processor

SCRIPT = """
import dpnp
import numpy as np
import tl_dpnp
from tl_dpnp.lowering.plan import EXCEEDS_ALL
from tl_dpnp.runtime.sycl import launch

(device,) = {device.vector_bytes for device in tl_dpnp.devices() if device.is_cpu}
for m, n, k, element in ((56, 9, 56, "f32"), (20, 20, 20, "f32"), (35, 9, 35, "f64"), (9, 9, 9, "f64")):
    types = [f"memref<{element}x{rows}x{columns}" for rows, columns in ((m, k), (k, n), (m, n))]
    parameters = ", ".join(f"%{name}: {type_}x?>" for name, type_ in zip("abc", types))
    source = f"func @f({parameters}) {{\\n%g = group_id\\n"
    for name, type_ in zip("abc", types):
        source += f"%{name}0 = subview %{name}[:,:,%g] : {type_}x?>\\n"
    source += f"gemm.n.n 1.0, %a0, %b0, 0.0, %c0 : {element}, {types[0]}>, {types[1]}>, {element}, {types[2]}>\\n}}"
    random = np.random.default_rng(0)
    a, b = (random.integers(-4, 5, shape).astype({"f32": "f4", "f64": "f8"}[element])
            for shape in ((5, k, m), (5, n, k)))
    for level in (0, EXCEEDS_ALL):
        launch.exceeded_caches = lambda call, device: level
        c = dpnp.zeros((5, n, m), dtype=a.dtype)
        tl_dpnp.compile(source)(*(tl_dpnp.rev(dpnp.asarray(array)) for array in (a, b)), tl_dpnp.rev(c))
        np.testing.assert_array_equal(c.asnumpy(), b @ a)
print(device)
"""


@pytest.mark.parametrize("target", ["core-avx2", "corei7"])
def test_kernels_have_the_vectors_of_the_target(target, tmp_path):
    if not CPU_TARGETS.get(target, frozenset()) <= set(processor().get("flags", "").split()):
        pytest.skip(f"the processor does not run code for {target}")
    environment = {**os.environ, "CL_CONFIG_CPU_TARGET_ARCH": target, "TL_DPNP_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(CPU_VECTOR_BYTES[target])]
