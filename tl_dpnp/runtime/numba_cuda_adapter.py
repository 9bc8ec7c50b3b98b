"""The one place that touches numba-cuda's compiler: from a kernel shell and its intrinsics to PTX.

Tested with numba-cuda 0.30.4, Numba 0.68.1 and llvmlite 0.50.0.  Private parts used:

- ``compiler._compile_pyfunc_with_fixup``: what the public ``cuda.compile`` calls; it gives the library, which has the
  LLVM IR beside the PTX;
- ``CUDACodeLibrary._entry_name``: the kernel's name in the PTX.

No GPU is needed.
"""

from __future__ import annotations

import re
import threading

import numpy

if not hasattr(numpy, "row_stack"):
    # numba-cuda 0.30 names a function that NumPy 2.5 has removed.
    setattr(numpy, "row_stack", numpy.vstack)  # noqa: B010 (NumPy's stubs know no such attribute to set)

from numba.cuda import compiler, types
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.extending import intrinsic as numba_intrinsic

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.lowering.pipeline import LoweredKernel
from tl_dpnp.runtime.device_code import DeviceCode, numba_types, shell_function, signature_of

__all__ = ["build"]

_TYPES = numba_types(types)
_lock = threading.Lock()


def build(lowered: LoweredKernel, device: DeviceDescription) -> DeviceCode:
    """Compile a lowered kernel to PTX for a device, here or not; thread-safe."""
    shell, plan = lowered.shell, lowered.plan
    function = shell_function(shell, _TYPES, types.void, numba_intrinsic)
    signature = types.void(*signature_of(shell, _TYPES))
    capability = _capability(device)
    with _lock, global_compiler_lock:
        library, _ = compiler._compile_pyfunc_with_fixup(
            function, signature, device=False, abi="numba", cc=capability,
            launch_bounds=plan.subgroup_size * plan.subgroups * plan.teams,
        )
        (ptx,) = library.get_asm_strs(cc=capability)
        ptx = re.sub(rf"\b{re.escape(library._entry_name)}\b", plan.entry, ptx)
        return DeviceCode(ptx.encode(), plan.entry, library.get_llvm_str())


def _capability(device: DeviceDescription) -> tuple[int, int, str]:
    """Return the compute capability that "sm_90a" names: (9, 0, "a")."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", device.architecture)
    if match is None:
        raise UnsupportedError(f"{device} has no CUDA architecture to compile for: {device.architecture!r}")
    return int(match[1]), int(match[2]), match[3]
