"""Sources and arrays that the runtime's tests share."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import dpnp
import numpy as np
import pytest

from tl_dpnp.runtime.offline import tools

#: For tests that compile for Intel GPUs offline.
_missing = [*tools.missing_tools(), *["numba_dpex"] * (find_spec("numba_dpex") is None)]
needs_tools = pytest.mark.skipif(bool(_missing), reason=f"not installed: {', '.join(_missing)} (make tools)")

#: y[i] := alpha x[i] + y[i], for one vector of any length.
AXPY = """
func @axpy(%alpha: f32, %x: memref<f32x?>, %y: memref<f32x?>) {
  axpby.n %alpha, %x, 1.0, %y : f32, memref<f32x?>, f32, memref<f32x?>
}
"""

#: D[g] += alpha (A[g] Bᵀ) C for a group A and a batch D.
FUSED = """
func @fused(%alpha: f32, %A: group<memref<f32x16x8>>, %B: memref<f32x8x8>, %C: memref<f32x8x16>,
            %D: memref<f32x16x16x?>) {
  %0 = group_id
  %1 = load %A[%0] : group<memref<f32x16x8>>
  %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
  %t = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %1, %B, 0.0, %t : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n %alpha, %t, %C, 1.0, %2 : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}
"""

#: C[g] := A[g] B[g], each work-group with sizes of its own.
RAGGED = """
func @ragged(%A: group<memref<f32x?x?>>, %B: group<memref<f32x?x?>>, %C: group<memref<f32x?x?>>) {
  %g = group_id
  %a = load %A[%g] : group<memref<f32x?x?>>
  %b = load %B[%g] : group<memref<f32x?x?>>
  %c = load %C[%g] : group<memref<f32x?x?>>
  gemm.n.n 1.0, %a, %b, 0.0, %c : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}
"""

#: x[g] := x[g] + step for each work-group.
COUNT = """
func @count(%x: memref<i64x?>, %step: i64) {
  %g = group_id
  %0 = load %x[%g] : memref<i64x?>
  %1 = arith.add %0, %step : i64
  store %1, %x[%g] : memref<i64x?>
}
"""


class ByDLPack:
    """An array of a package that offers DLPack only."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


def on_device(array: Any, dtype: str | None = None) -> dpnp.ndarray:
    """Return a host array as a column-major dpnp array of the same values."""
    return dpnp.asarray(np.asfortranarray(array, dtype=dtype), order="F")


def random(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """Return an array of small integers, whose products and sums are exact in float32."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype, order="F")


def process(script: str) -> str:
    """Run a script with this interpreter and return what it prints; its status must be 0."""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout
