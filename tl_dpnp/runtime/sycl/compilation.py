"""The host that a kernel is compiled by: numba-dpex where it is installed, LLVM alone where it is not."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec

from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.lowering.pipeline import LoweredKernel
from tl_dpnp.runtime.device_code import DeviceCode

__all__ = ["build", "prepare", "require_offline", "translate"]


def _is_numba_dpex_here() -> bool:
    return find_spec("numba_dpex") is not None


def prepare() -> None:
    """Have what `build` will wait for start, while a kernel is lowered; what goes wrong, `build` says."""
    if not _is_numba_dpex_here():
        from tl_dpnp.runtime.sycl.llvm_process import LLVM

        with contextlib.suppress(LoweringError, OSError):
            LLVM.start()


def build(lowered: LoweredKernel) -> DeviceCode:
    """Compile a lowered kernel to SPIR-V; thread-safe.  Raises `LoweringError` where that is refused."""
    if _is_numba_dpex_here():
        from tl_dpnp.runtime.sycl.numba_dpex_adapter import build as build_by_host
    else:
        from tl_dpnp.runtime.sycl.llvm_adapter import build as build_by_host
    return build_by_host(lowered)


def translate(text: str) -> bytes:
    """Return the SPIR-V of a whole module in LLVM IR; raises `LoweringError` where that is refused."""
    if _is_numba_dpex_here():
        from tl_dpnp.runtime.sycl.spirv import translate as translate_by_host

        return translate_by_host(text)
    from tl_dpnp.runtime.sycl.llvm_process import LLVM

    return LLVM.translate(text)


def require_offline(device: str) -> None:
    """Raise `UnsupportedError` where the SPIR-V is not that which compilers for other devices were tested with."""
    if not _is_numba_dpex_here():
        raise UnsupportedError(f"code for {device}, which is not here, is compiled only from what numba-dpex makes: "
                               "install tl_dpnp for Python 3.10 or 3.11")
