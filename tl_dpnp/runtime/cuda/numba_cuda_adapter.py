"""The one place that touches numba-cuda's compiler: from the body of a kernel to PTX.

Tested with numba-cuda 0.30.4, Numba 0.68.1 and llvmlite 0.50.0.  Private parts used:

- ``compiler._compile_pyfunc_with_fixup``: what the public ``cuda.compile`` calls; it gives the library, which has the
  LLVM IR of the kernel;
- ``CUDACodeLibrary._entry_name`` and ``llvm_strs``: the kernel's name, and that LLVM IR;
- ``nvvm.compile_ir``, ``nvvm.NVVM.get_ir_version`` and ``nvrtc.get_arch_option``: what the library compiles it with.

No GPU is needed.
"""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

import numpy

if not hasattr(numpy, "row_stack"):
    # numba-cuda 0.30 names a function that NumPy 2.5 has removed.
    setattr(numpy, "row_stack", numpy.vstack)  # noqa: B010 (NumPy's stubs know no such attribute to set)

from numba.cuda import compiler, types
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.cudadrv import nvrtc, nvvm
from numba.cuda.extending import intrinsic

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels.targets import target_for
from tl_dpnp.lowering.pipeline import LoweredKernel
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.device_code import MOST_HOSTS, DeviceCode, call_body, host_function, signature_of
from tl_dpnp.target.device import Device

__all__ = ["build"]

_TARGET = target_for("cuda")
_lock = threading.Lock()
#: Registers of a multiprocessor (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
_REGISTERS = 1 << 16
#: The optimisation that numba-cuda asks libNVVM for.
_OPTIMIZATION = 3


@dataclass(frozen=True)
class _Host:
    """A kernel of numba-cuda that calls a body which is not there yet: its LLVM IR, and its name in there."""

    llvm: tuple[str, ...]
    name: str


@intrinsic  # type: ignore[untyped-decorator]
def _body(_typing_context: Any, arguments: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        call_body(builder, values[0], _TARGET.calling_convention)
        return context.get_dummy_value()

    return types.void(arguments), generate


def build(lowered: LoweredKernel, device: Device) -> DeviceCode:
    """Compile a lowered kernel to PTX for a device, here or not; thread-safe."""
    plan = lowered.plan
    capability = _capability(device)
    key = signature_of(lowered.arguments, types), capability, _launch_bounds(plan)
    with _lock, global_compiler_lock:
        host = _host(*key)
        llvm = [*host.llvm, _with_version(lowered.llvm)]
        binary = nvvm.compile_ir(llvm, arch=nvrtc.get_arch_option(*capability), opt=_OPTIMIZATION)
    ptx = binary.decode().strip("\x00").strip()
    ptx = re.sub(rf"\b{re.escape(host.name)}\b", plan.entry, ptx)
    if plan.tiles is not None:
        ptx = _with_tensor_maps(ptx, len(lowered.arguments) - 3)
    return DeviceCode(ptx.encode(), plan.entry, "\n\n".join(llvm))


@functools.lru_cache(MOST_HOSTS)
def _host(
    signature: tuple[Any, ...], capability: tuple[int, int, str], launch_bounds: int | tuple[int, int]
) -> _Host:
    """Return the host for arguments of these types."""
    function = host_function(len(signature), "", _body)
    library, _ = compiler._compile_pyfunc_with_fixup(
        function, types.void(*signature), device=False, abi="numba", cc=capability, launch_bounds=launch_bounds,
    )
    return _Host(tuple(library.llvm_strs), library._entry_name)


def _with_version(llvm: str) -> str:
    """Return a module with the version of NVVM IR that libNVVM wants (NVVM IR specification, "Module")."""
    number = 1 + max(map(int, re.findall(r"(?m)^!(\d+) =", llvm)), default=-1)
    version = ", ".join(f"i32 {part}" for part in nvvm.NVVM().get_ir_version())
    return f"{llvm}\n!nvvmir.version = !{{!{number}}}\n!{number} = !{{{version}}}\n"


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


def _capability(device: Device) -> tuple[int, int, str]:
    """Return the compute capability that "sm_90a" names: (9, 0, "a")."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", device.architecture)
    if match is None:
        raise UnsupportedError(f"{device} has no CUDA architecture to compile for: {device.architecture!r}")
    return int(match[1]), int(match[2]), match[3]
