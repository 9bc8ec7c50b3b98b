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
from typing import Any

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
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.device_code import (
    DeviceCode,
    TypedIntrinsic,
    faults_of,
    numba_types,
    shell_function,
    signature_of,
    typed_intrinsics,
)

__all__ = ["build"]

_TYPES = numba_types(types)
_lock = threading.Lock()
#: Registers of a multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
_REGISTERS = 1 << 16


def build(lowered: LoweredKernel, device: DeviceDescription) -> DeviceCode:
    """Compile a lowered kernel to PTX for a device, here or not; thread-safe."""
    shell, plan = lowered.shell, lowered.plan
    typed = typed_intrinsics(shell, _TYPES, types.void)
    function = shell_function(shell, {name: numba_intrinsic(_typing(name, typed[name])) for name in typed})
    signature = types.void(*signature_of(shell, _TYPES))
    capability = _capability(device)
    with _lock, global_compiler_lock, faults_of(typed):
        library, _ = compiler._compile_pyfunc_with_fixup(
            function, signature, device=False, abi="numba", cc=capability,
            launch_bounds=_launch_bounds(plan),
        )
        (ptx,) = library.get_asm_strs(cc=capability)
        ptx = re.sub(rf"\b{re.escape(library._entry_name)}\b", plan.entry, ptx)
        if plan.tiles is not None:
            ptx = _with_tensor_maps(ptx, len(shell.arguments) - 3)
        return DeviceCode(ptx.encode(), plan.entry, library.get_llvm_str())


def _typing(name: str, intrinsic: TypedIntrinsic) -> Any:
    """Return what Numba calls for an intrinsic: a function with as many parameters that gives its code generator."""
    names = "".join(f", a{i}" for i in range(len(intrinsic.entry.parameters)))
    namespace: dict[str, Any] = {"signature": intrinsic.signature, "generate": intrinsic.generate}
    exec(f"def {name}(typing_context{names}):\n    return signature, generate\n", namespace)
    return namespace[name]


def _launch_bounds(plan: LaunchPlan) -> int | tuple[int, int]:
    """Return the threads of a block and, where the registers of each are given, how many blocks have these together."""
    threads = plan.subgroup_size * plan.subgroups * plan.teams
    return (threads, max(1, _REGISTERS // (threads * plan.registers))) if plan.registers else threads


def _with_tensor_maps(ptx: str, first: int) -> str:
    """Return the PTX of a kernel whose parameters from the `first` on are 128 bytes each, instead of integers.

    Numba has no type for tensor maps, and the kernel wants their addresses: those of the parameters themselves
    (PTX ISA 9.0, section 7.1.2, "Kernel Function Parameter Attributes", and 9.7.9.21, cvta).
    """
    for number in range(first, first + 3):
        name = rf"(\S+_param_{number})\b"
        ptx, declared = re.subn(rf"\.param \.u64 {name}", r".param .align 64 .b8 \1[128]", ptx)
        ptx, read = re.subn(rf"ld\.param\.u64\s+(%rd\d+), \[{name}\];",
                            r"mov.b64 \1, \2;\n\tcvta.param.u64 \1, \1;", ptx)
        if (declared, read) != (1, 1):
            raise UnsupportedError(f"numba-cuda writes parameter {number} in another way than its version 0.30.4")
    return ptx


def _capability(device: DeviceDescription) -> tuple[int, int, str]:
    """Return the compute capability that "sm_90a" names: (9, 0, "a")."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", device.architecture)
    if match is None:
        raise UnsupportedError(f"{device} has no CUDA architecture to compile for: {device.architecture!r}")
    return int(match[1]), int(match[2]), match[3]
