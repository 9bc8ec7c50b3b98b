"""From LLVM IR to SPIR-V with the translator that comes with numba-dpex.

Tested with dpcpp-llvm-spirv 2024.2.0.
"""

from __future__ import annotations

import subprocess

import dpcpp_llvm_spirv
import llvmlite.binding as llvm

from tl_dpnp.errors import LoweringError

__all__ = ["SPIRV_ARGUMENTS", "translate"]

#: The extensions of SPIR-V that the emitters use.
SPIRV_ARGUMENTS = [
    "--spirv-ext=+SPV_EXT_shader_atomic_float_add,+SPV_INTEL_arbitrary_precision_integers,+SPV_INTEL_subgroups,"
    "+SPV_INTEL_inline_assembly,"
    # Vectors of any number of elements.  LLVM makes some of its own, where part of a temporary that is read by whole
    # vectors is filled by a loop that it takes for a copy of bytes (scalar replacement of aggregates).
    "+SPV_INTEL_vector_compute",
    # Calls that Intel's CPU runtime knows by LLVM's name (`tl_dpnp.kernels.llvm.masked_load`).
    "--spirv-allow-unknown-intrinsics=llvm.masked",
]
_SECONDS = 300


def translate(text: str) -> bytes:
    """Return the SPIR-V of a module in LLVM IR; raises LoweringError where the translator refuses it."""
    module = llvm.parse_assembly(text)
    module.verify()
    command = [dpcpp_llvm_spirv.get_llvm_spirv_path(), *SPIRV_ARGUMENTS, "-o", "-", "-"]
    run = subprocess.run(command, input=module.as_bitcode(), capture_output=True, timeout=_SECONDS, check=False)
    if run.returncode:
        raise LoweringError(f"llvm-spirv refuses the kernel: {run.stderr.decode(errors='replace').strip()}")
    return bytes(run.stdout)
