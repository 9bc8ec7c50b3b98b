"""The one place that touches numba-dpex: from a kernel shell and its intrinsics to SPIR-V.

Tested with numba-dpex 0.23.0, Numba 0.59.1 and llvmlite 0.42.0.  Private parts used:

- ``SPIRVKernelDispatcher._compiler._compile_core``: Numba's pipeline up to an LLVM library;
- ``SPIRVTargetContext.prepare_spir_kernel``: the kernel around the device function;
- ``SPIRVCodeLibrary.finalize`` and ``final_module``: linking, inlining and LLVM's own optimisation.

numba-dpex knows neither sub-group sizes nor required work-group sizes: both are function metadata, added to the
kernel in the LLVM text.  Numba's environment pointer, a variable in address space 0 that is never used, is removed:
SPIR-V does not allow it.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import Any

from tl_dpnp.runtime import bootstrap

bootstrap.install()

import numba_dpex  # noqa: E402
from numba.core import types  # noqa: E402
from numba.core.compiler_lock import global_compiler_lock  # noqa: E402
from numba.core.target_extension import target_override  # noqa: E402
from numba.extending import intrinsic as numba_intrinsic  # noqa: E402
from numba_dpex.core.types.kernel_api.index_space_ids import NdItemType  # noqa: E402
from numba_dpex.kernel_api_impl.spirv.target import SPIRV_TARGET_NAME  # noqa: E402

from tl_dpnp.errors import UnsupportedError  # noqa: E402
from tl_dpnp.kernels.llvm import Intrinsic  # noqa: E402
from tl_dpnp.lowering.pipeline import LoweredKernel  # noqa: E402
from tl_dpnp.runtime.spirv import translate  # noqa: E402
from tl_dpnp.scalars import ScalarType  # noqa: E402

__all__ = ["DeviceCode", "build"]

_NUMBA_TYPES = {
    "i1": types.boolean, "i8": types.int8, "i16": types.int16, "i32": types.int32, "i64": types.int64,
    "index": types.int64, "u8": types.uint8, "u16": types.uint16, "u32": types.uint32, "u64": types.uint64,
    "f32": types.float32, "f64": types.float64,
}
#: LLVM's inliner, from 0 to 3, as numba-dpex's option of the same name.
_INLINE_THRESHOLD = 2

_lock = threading.Lock()


@dataclass(frozen=True)
class DeviceCode:
    """A compiled kernel: its SPIR-V module, its name in there, and the LLVM IR that it was made from."""

    spirv: bytes
    entry: str
    llvm: str


def build(lowered: LoweredKernel) -> DeviceCode:
    """Compile a lowered kernel through numba-dpex; thread-safe."""
    shell = lowered.shell
    namespace: dict[str, Any] = {"inf": float("inf"), "nan": float("nan")}
    namespace.update((name, _as_numba(entry)) for name, entry in shell.intrinsics.items())
    exec(compile(shell.text, "<tl_dpnp kernel>", "exec"), namespace)
    signature = [_NUMBA_TYPES[argument.type.name] for argument in shell.arguments]
    with _lock, global_compiler_lock:
        dispatcher = numba_dpex.kernel(namespace[shell.name])
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


def _as_numba(entry: Intrinsic) -> Any:
    """Wrap an intrinsic for Numba: a typing function with as many parameters, and its code generator."""
    signature = _numba_type(entry.result)(*(_numba_type(parameter) for parameter in entry.parameters))

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        value = entry.emit(builder, list(arguments))
        return context.get_dummy_value() if value is None else value

    names = "".join(f", a{i}" for i in range(len(entry.parameters)))
    namespace: dict[str, Any] = {"signature": signature, "generate": generate}
    exec(f"def {entry.name}(typing_context{names}):\n    return signature, generate\n", namespace)
    return numba_intrinsic(target=SPIRV_TARGET_NAME)(namespace[entry.name])


def _numba_type(scalar: ScalarType | None) -> Any:
    if scalar is None:
        return types.void
    if scalar.name not in _NUMBA_TYPES:
        raise UnsupportedError(f"the sycl target does not compute with {scalar} yet; use target='reference'")
    return _NUMBA_TYPES[scalar.name]


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
    pattern = rf"(?m)^(define [^\n]*@{plan.entry}\([^\n]*) \{{$"
    text, count = re.subn(pattern, rf"\1 {attached} {{", text)
    assert count == 1, "the kernel is missing from its module"
    return text + "\n" + "\n".join(nodes) + "\n"
