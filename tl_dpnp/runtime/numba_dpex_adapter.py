"""The one place that touches numba-dpex: from a kernel shell and its intrinsics to SPIR-V.

Tested with numba-dpex 0.23.0, Numba 0.59.1 and llvmlite 0.42.0.  Private parts used:

- ``SPIRVKernelDispatcher._compiler._compile_core``: Numba's pipeline up to an LLVM library;
- ``SPIRVTargetContext.prepare_spir_kernel``: the kernel around the device function;
- ``SPIRVCodeLibrary.finalize`` and ``final_module``: linking, inlining and LLVM's own optimisation.

numba-dpex knows neither sub-group sizes nor required work-group sizes: both are function metadata, added to the
kernel in the LLVM text.  So is the hint that turns the vectorizer of the OpenCL CPU runtime off (OpenCL C specification
3.0, section 6.13.2.1, vec_type_hint): Intel's 2024.2 drops loads between a part of the kernel where work-items diverge
and the exits of failed checks, and one program in forty crashes with ``debug=True``.  Numba's environment pointer, a
variable in address space 0 that is never used, is removed: SPIR-V does not allow it.
"""

from __future__ import annotations

import re
import threading

from tl_dpnp.runtime import bootstrap

bootstrap.install()

import numba_dpex  # noqa: E402
from numba.core import types  # noqa: E402
from numba.core.compiler_lock import global_compiler_lock  # noqa: E402
from numba.core.target_extension import target_override  # noqa: E402
from numba.extending import intrinsic as numba_intrinsic  # noqa: E402
from numba_dpex.core.types.kernel_api.index_space_ids import NdItemType  # noqa: E402
from numba_dpex.kernel_api_impl.spirv.target import SPIRV_TARGET_NAME  # noqa: E402

from tl_dpnp.lowering.pipeline import LoweredKernel  # noqa: E402
from tl_dpnp.runtime.device_code import DeviceCode, numba_types, shell_function, signature_of  # noqa: E402
from tl_dpnp.runtime.spirv import translate  # noqa: E402

__all__ = ["build"]

_TYPES = numba_types(types)
#: LLVM's inliner, from 0 to 3, as numba-dpex's option of the same name.
_INLINE_THRESHOLD = 2
#: Calls of what work-items do together: without the vectorizer each would be a sub-group of its own.
_SUBGROUP_FUNCTIONS = re.compile(r"call [^\n]*sub_group")

_lock = threading.Lock()


def build(lowered: LoweredKernel) -> DeviceCode:
    """Compile a lowered kernel through numba-dpex; thread-safe."""
    shell = lowered.shell
    function = shell_function(shell, _TYPES, types.void, numba_intrinsic(target=SPIRV_TARGET_NAME))
    signature = signature_of(shell, _TYPES)
    with _lock, global_compiler_lock:
        dispatcher = numba_dpex.kernel(function)
        with target_override(SPIRV_TARGET_NAME):
            result = dispatcher._compiler._compile_core((NdItemType(2), *signature), types.void)
        context, library = result.target_context, result.library
        kernel = context.prepare_spir_kernel(
            library.get_function(result.fndesc.llvm_func_name), result.fndesc.argtypes
        )
        library.inline_threshold = _INLINE_THRESHOLD
        library.finalize()
        text = _with_metadata(str(library.final_module), kernel.name, lowered)
    return DeviceCode(translate(text), lowered.plan.entry, text)


def _with_metadata(text: str, name: str, lowered: LoweredKernel) -> str:
    """Rename the kernel, give it its sizes as metadata, and drop Numba's environment pointers."""
    plan = lowered.plan
    text = re.sub(r"(?m)^@\S*NumbaEnv\S* = .*\n", "", text)
    text = text.replace(f'@"{name}"', f"@{plan.entry}").replace(f"@{name}(", f"@{plan.entry}(")
    used = [int(number) for number in re.findall(r"(?m)^!(\d+) =", text)]
    first = max(used, default=-1) + 1
    sizes = (plan.subgroup_size, plan.subgroups, 1)
    nodes = [f"!{first} = !{{{', '.join(f'i32 {size}' for size in sizes)}}}"]
    attached = f"!reqd_work_group_size !{first}"
    if plan.form == "subgroup":
        nodes.append(f"!{first + 1} = !{{i32 {plan.subgroup_size}}}")
        attached += f" !intel_reqd_sub_group_size !{first + 1}"
        if lowered.one_item_at_a_time and not _SUBGROUP_FUNCTIONS.search(text):
            nodes.append(f"!{first + 2} = !{{<16 x float> undef, i32 0}}")
            attached += f" !vec_type_hint !{first + 2}"
    pattern = rf"(?m)^(define [^\n]*@{plan.entry}\([^\n]*) \{{$"
    text, count = re.subn(pattern, rf"\1 {attached} {{", text)
    assert count == 1, "the kernel is missing from its module"
    return text + "\n" + "\n".join(nodes) + "\n"
