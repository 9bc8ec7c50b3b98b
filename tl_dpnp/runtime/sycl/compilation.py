"""The host that a kernel is compiled by: numba-dpex where it is installed, LLVM alone where it is not."""

from __future__ import annotations

from importlib.util import find_spec

from tl_dpnp.lowering.pipeline import LoweredKernel
from tl_dpnp.runtime.device_code import DeviceCode

__all__ = ["build"]


def build(lowered: LoweredKernel) -> DeviceCode:
    """Compile a lowered kernel to SPIR-V; thread-safe.  Raises `LoweringError` where that is refused."""
    if find_spec("numba_dpex") is not None:
        from tl_dpnp.runtime.sycl.numba_dpex_adapter import build as build_by_host
    else:
        from tl_dpnp.runtime.sycl.llvm_adapter import build as build_by_host
    return build_by_host(lowered)
