"""From the body of a kernel to SPIR-V by LLVM alone, for Pythons that numba-dpex has no release for.

Tested with llvmlite 0.50.0, which is LLVM 22.  A kernel is one function more in the module of its body: the entry,
which has the arguments and calls the body.  LLVM inlines and optimises that and writes SPIR-V, in a process of its own
(`tl_dpnp.runtime.sycl.llvm_process`).
"""

from __future__ import annotations

import re

from tl_dpnp.kernels.llvm import value_type
from tl_dpnp.kernels.targets import target_for
from tl_dpnp.lowering.body.emission import BODY_NAME
from tl_dpnp.lowering.pipeline import LoweredKernel
from tl_dpnp.runtime.device_code import DeviceCode
from tl_dpnp.runtime.sycl.casts import with_plain_casts
from tl_dpnp.runtime.sycl.inline_assembly import with_assembly, without_assembly
from tl_dpnp.runtime.sycl.kernel_metadata import kernel_metadata
from tl_dpnp.runtime.sycl.llvm_process import LLVM

__all__ = ["build", "kernel_module"]

_TARGET = target_for("opencl")
#: Calls that Intel's CPU runtime knows by LLVM's name (`tl_dpnp.kernels.llvm.masked_load`), as they were in LLVM 14.
#: The LLVM here has other arguments for them, so it is told of functions that it does not know, of names as long.
_INTRINSICS, _UNKNOWN = "llvm.masked.", "xlvm.masked."
#: OpenCL's ``fma``.  LLVM's target would make it an instruction of SPIR-V, for whose results Intel's CPU runtime does
#: not find registers: products took up to twice as long as with calls of the function, which numba-dpex writes.
_FMA, _UNKNOWN_FMA = "_Z3fma", "_Z3xma"


def build(lowered: LoweredKernel) -> DeviceCode:
    """Compile a lowered kernel; thread-safe.

    Raises `LoweringError` where LLVM refuses it or ends while it works on it.
    """
    module, assemblies = without_assembly(kernel_module(lowered))
    text = _with_metadata(with_plain_casts(LLVM.optimise(module)), lowered)
    binary = LLVM.translate(text.replace(_FMA, _UNKNOWN_FMA))
    for known, unknown in ((_INTRINSICS, _UNKNOWN), (_FMA, _UNKNOWN_FMA)):
        binary = binary.replace(unknown.encode(), known.encode())
    legend = "".join(f"; @{name} is asm {assembly.text!r}, {assembly.constraints!r}\n"
                     for name, assembly in assemblies.items())
    return DeviceCode(with_assembly(binary, assemblies), lowered.plan.entry,
                      legend + text.replace(_UNKNOWN, _INTRINSICS))


def kernel_module(lowered: LoweredKernel) -> str:
    """Return the module of a kernel: its body, and its entry.  Triple and data layout are left to LLVM."""
    body = re.sub(r"(?m)^target (triple|datalayout) = .*\n", "", lowered.llvm).replace(_INTRINSICS, _UNKNOWN)
    arguments = ", ".join(f"{value_type(argument.type)} %a{place}" for place, argument in enumerate(lowered.arguments))
    return f"""{body}
define spir_kernel void @{lowered.plan.entry}({arguments}) {{
  call {_TARGET.calling_convention} void @{BODY_NAME}({arguments})
  ret void
}}
"""


def _with_metadata(text: str, lowered: LoweredKernel) -> str:
    attached, nodes = kernel_metadata(lowered, text)
    text, count = re.subn(r"(?m)^(define spir_kernel [^\n]*) \{$", rf"\1 {attached} {{", text)
    assert count == 1, "the kernel is missing from its module"
    return "\n".join([text, *nodes, ""])
