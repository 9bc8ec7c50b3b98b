"""What the benchmarks share: programs, data that was checked, timing in turns, fresh processes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

# Rivals are measured at their best: these make OpenBLAS, and so NumPy, use kernels for another processor.
for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)

FUSED_SAMPLE = """
func @fused_kernel(%alpha: f32,
                   %A: group<memref<f32x16x8>>,
                   %B: memref<f32x8x8>,
                   %C: memref<f32x8x16>,
                   %D: memref<f32x16x16x?>) {
  %0 = group_id
  %1 = load %A[%0] : group<memref<f32x16x8>>
  %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
  %tmp0 = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %1, %B, 0.0, %tmp0
      : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n %alpha, %tmp0, %C, 1.0, %2
      : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}
"""


def medians(functions: list[Callable[[], object]], seconds: float = 3.0) -> list[float]:
    """Return the median time of each function in seconds.  They take turns for about `seconds` in all."""
    times: list[list[float]] = [[] for _ in functions]
    for function in functions:
        function()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, measured in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            measured.append(time.perf_counter() - start)
    return [statistics.median(measured) for measured in times]


def gemm_source(m: int, n: int, k: int, element: str = "f32") -> str:
    """Return the program C[:,:,g] := A[:,:,g] · B[:,:,g]."""
    a, b, c = (f"memref<{element}x{rows}x{columns}" for rows, columns in [(m, k), (k, n), (m, n)])
    return f"""
func @gemm(%A: {a}x?>, %B: {b}x?>, %C: {c}x?>) {{
  %g = group_id
  %a = subview %A[:,:,%g] : {a}x?>
  %b = subview %B[:,:,%g] : {b}x?>
  %c = subview %C[:,:,%g] : {c}x?>
  gemm.n.n 1.0, %a, %b, 0.0, %c : {element}, {a}>, {b}>, {element}, {c}>
}}
"""


class BatchedGemm:
    """The same batch of products for tl_dpnp, dpnp and NumPy, on arrays that all three find in their best layout.

    The language is column-major: a batch of matrices is the reverse of a C-ordered array of their transposes, and
    C = A · B is Cᵀ = Bᵀ · Aᵀ in that array.  `batch` fills `megabytes` with all three operands unless it is given.
    """

    def __init__(self, m: int, n: int, k: int, megabytes: int = 64, batch: int | None = None) -> None:
        import dpnp
        import numpy as np

        import tl_dpnp

        self.batch = batch or megabytes * 10**6 // (4 * (m * k + k * n + m * n))
        self.flops = 2 * m * n * k * self.batch
        random = np.random.default_rng(0)
        self._a = random.standard_normal((self.batch, k, m), dtype=np.float32)
        self._b = random.standard_normal((self.batch, n, k), dtype=np.float32)
        self._c = np.empty((self.batch, n, m), dtype=np.float32)
        self._a_device, self._b_device = dpnp.asarray(self._a), dpnp.asarray(self._b)
        self._c_device = dpnp.full((self.batch, n, m), float("nan"), dtype=dpnp.float32)
        self._arguments = tuple(map(tl_dpnp.rev, (self._a_device, self._b_device, self._c_device)))
        self._kernel = tl_dpnp.compile(gemm_source(m, n, k))
        self._matmul, self._queue = dpnp.matmul, self._c_device.sycl_queue
        self._numpy_matmul = np.matmul
        self.tl_dpnp()
        self.numpy()
        np.testing.assert_allclose(dpnp.asnumpy(self._c_device), self._c, rtol=1e-3, atol=1e-4)

    def tl_dpnp(self) -> None:
        """Compute the batch with a compiled kernel."""
        self._kernel(*self._arguments)

    def dpnp(self) -> None:
        """Compute the batch with dpnp."""
        self._matmul(self._b_device, self._a_device, out=self._c_device)
        self._queue.wait()

    def numpy(self) -> None:
        """Compute the batch with NumPy."""
        self._numpy_matmul(self._b, self._a, out=self._c)


#: Runs in a process of its own: compiles the fused sample, calls it once, prints times in seconds as JSON.
_FIRST_RESULT = """
import json, sys, time
source, import_first, arrays, parent_clock = json.loads(sys.stdin.read())
if import_first:
    import numba_dpex
import importlib, numpy, tl_dpnp
arrays = importlib.import_module(arrays)
def ones(*shape):
    # From NumPy, so that dpnp compiles no kernel of its own on the way.
    return arrays.asarray(numpy.ones(shape, numpy.float32, order="F"))
cpu = time.process_time()
kernel = tl_dpnp.compile(source)
A, B, C, D = [ones(16, 8)], ones(8, 8), ones(8, 16), ones(16, 16, 1)
kernel(1.0, A, B, C, D)
cpu = time.process_time() - cpu
wall = time.time() - parent_clock
assert (arrays.asnumpy(D) == 65).all()
print(json.dumps({"cpu": cpu, "wall": wall, "numba": "numba" in sys.modules}))
"""


def first_result(cache: str, import_first: bool = False, arrays: str = "dpnp") -> dict[str, Any]:
    """Start a process that compiles the fused sample and calls it once, with `cache` as its cache folder.

    `arrays` is the module that the arrays come from: ``dpnp`` or ``dpctl.tensor``.

    Returns ``wall``, the seconds from the start of the process to the result; ``cpu``, the processor seconds of
    compilation and call after the imports (numba-dpex among them with `import_first`); and whether it loaded numba.
    """
    message = json.dumps([FUSED_SAMPLE, import_first, arrays, time.time()])
    environment = {**os.environ, "TL_DPNP_CACHE_DIR": cache, "TL_DPNP_CACHE": "1"}
    # Python keeps the byte code of what it imports unless it is told not to; then every start compiles our sources.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", _FIRST_RESULT]
    result = subprocess.run(command, input=message, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    values: dict[str, Any] = json.loads(result.stdout)
    return values


def cold_and_warm(import_first: bool = False, arrays: str = "dpnp") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `first_result` with an empty cache, and then with the cache that it left."""
    with tempfile.TemporaryDirectory() as cache:
        return first_result(cache, import_first, arrays), first_result(cache, import_first, arrays)
