"""The one place that touches numba-dpex: from the body of a kernel to SPIR-V.

Tested with numba-dpex 0.23.0, Numba 0.59.1 and llvmlite 0.42.0.  Private parts used:

- ``SPIRVKernelDispatcher._compiler._compile_core``: Numba's pipeline up to an LLVM library;
- ``SPIRVTargetContext.prepare_spir_kernel``: the kernel around the device function;
- ``codegen().create_library``, ``SPIRVCodeLibrary.finalize`` and ``final_module``: linking, inlining and LLVM's own
  optimisation;
- ``codegen.SPIR_DATA_LAYOUT``, which says nothing of the integers that a device has.

What Numba is told of a function it keeps for ever, with all that the function leads to, so all kernels call the same
one, `_body`, and those whose arguments have equal types share what Numba makes of them, their host.

What kernels ask of devices (`tl_dpnp.runtime.sycl.kernel_metadata`) is added in the LLVM text.  Numba's environment
pointer, a variable in address space 0 that is never used, is removed: SPIR-V does not allow it.
"""

from __future__ import annotations

import functools
import re
import threading
from typing import Any, NamedTuple

from tl_dpnp.runtime import bootstrap

bootstrap.install()

import numba_dpex  # noqa: E402
from llvmlite import binding  # noqa: E402
from numba.core import types  # noqa: E402
from numba.core.compiler_lock import global_compiler_lock  # noqa: E402
from numba.core.target_extension import target_override  # noqa: E402
from numba.extending import intrinsic  # noqa: E402
from numba_dpex.core.types.kernel_api.index_space_ids import NdItemType  # noqa: E402
from numba_dpex.kernel_api_impl.spirv import codegen  # noqa: E402
from numba_dpex.kernel_api_impl.spirv.target import SPIRV_TARGET_NAME  # noqa: E402

from tl_dpnp.kernels.targets import target_for  # noqa: E402
from tl_dpnp.lowering.pipeline import LoweredKernel  # noqa: E402
from tl_dpnp.runtime.device_code import MOST_HOSTS, DeviceCode, call_body, host_function, signature_of  # noqa: E402
from tl_dpnp.runtime.sycl.kernel_metadata import kernel_metadata  # noqa: E402
from tl_dpnp.runtime.sycl.spirv import translate  # noqa: E402

__all__ = ["build"]

_TARGET = target_for("opencl")
#: LLVM's inliner, from 0 to 3, as numba-dpex's option of the same name.
_INLINE_THRESHOLD = 2

codegen.SPIR_DATA_LAYOUT[64] = _TARGET.data_layout
_lock = threading.Lock()


class _Host(NamedTuple):
    """A kernel of numba-dpex that calls a body which is not there yet: its context, its LLVM IR, its name in there."""

    context: Any
    llvm: str
    name: str


@intrinsic(target=SPIRV_TARGET_NAME)  # type: ignore[untyped-decorator]
def _body(_typing_context: Any, arguments: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        call_body(builder, values[0], _TARGET.calling_convention)
        return context.get_dummy_value()

    return types.void(arguments), generate


def build(lowered: LoweredKernel) -> DeviceCode:
    """Compile a lowered kernel through numba-dpex; thread-safe."""
    signature = signature_of(lowered.arguments, types)
    with _lock, global_compiler_lock:
        host = _host(signature)
        text = _with_metadata(_linked(host, lowered.llvm), host.name, lowered)
    return DeviceCode(translate(text), lowered.plan.entry, text)


@functools.lru_cache(MOST_HOSTS)
def _host(signature: tuple[Any, ...]) -> _Host:
    """Return the host for arguments of these types."""
    dispatcher = numba_dpex.kernel(host_function(len(signature), "item, ", _body))
    _register_once(dispatcher.targetctx)
    with target_override(SPIRV_TARGET_NAME):
        result = dispatcher._compiler._compile_core((NdItemType(2), *signature), types.void)
    context, library = result.target_context, result.library
    kernel = context.prepare_spir_kernel(library.get_function(result.fndesc.llvm_func_name), result.fndesc.argtypes)
    # Without this LLVM would optimise each body once more, inlined into the function that the kernel calls.
    inlining = binding.ModulePassManager()
    inlining.add_function_inlining_pass(0)
    inlining.add_global_dce_pass()
    inlining.add_sroa_pass()
    inlining.add_instruction_combining_pass()
    inlining.run(kernel.module)
    return _Host(context, str(kernel.module), kernel.name)


def _linked(host: _Host, body: str) -> str:
    """Return the LLVM IR of a kernel, optimised: its host with its body inlined."""
    module = binding.parse_assembly(host.llvm)
    module.link_in(binding.parse_assembly(body))
    # Else LLVM would optimise the body twice, once by itself.
    inlining = binding.ModulePassManager()
    inlining.add_always_inliner_pass()
    inlining.add_global_dce_pass()
    inlining.run(module)
    library = host.context.codegen().create_library("tl_dpnp")
    library.add_llvm_module(module)
    library.inline_threshold = _INLINE_THRESHOLD
    library.finalize()
    return str(library.final_module)


def _register_once(context: Any) -> None:
    """Have a target context of numba-dpex ignore lists of implementations that it was given before.

    ``SPIRVTargetContext.load_additional_registries`` hands over two lists as a whole each time: they took 40 KB of each
    compilation, and Numba searches all of them for each call.  What is in a list twice takes precedence over what came
    in between, so the second time counts, too.
    """
    if "insert_func_defn" in vars(context):
        return
    insert = context.insert_func_defn
    given: dict[int, tuple[Any, int, int]] = {}

    def insert_new(implementations: Any) -> None:
        if isinstance(implementations, list):
            _, times, length = given.get(id(implementations), (None, 0, 0))
            given[id(implementations)] = implementations, times + 1, len(implementations)
            if times >= 2:
                implementations = implementations[length:]
        insert(implementations)

    context.insert_func_defn = insert_new
    # Besides, it puts the same functions of OpenCL into the same table, fifty times in a first compilation.
    context.replace_dpnp_ufunc_with_ocl_intrinsics = functools.cache(context.replace_dpnp_ufunc_with_ocl_intrinsics)


def _with_metadata(text: str, name: str, lowered: LoweredKernel) -> str:
    """Rename the kernel, give it its metadata, and drop Numba's environment pointers."""
    plan = lowered.plan
    text = re.sub(r"(?m)^@\S*NumbaEnv\S* = .*\n", "", text)
    text = _with_overflow_functions(text)
    text = text.replace(f'@"{name}"', f"@{plan.entry}").replace(f"@{name}(", f"@{plan.entry}(")
    attached, nodes = kernel_metadata(lowered, text)
    pattern = rf"(?m)^(define [^\n]*@{plan.entry}\([^\n]*) \{{$"
    text, count = re.subn(pattern, rf"\1 {attached} {{", text)
    assert count == 1, "the kernel is missing from its module"
    return text + "\n" + "\n".join(nodes) + "\n"


def _with_overflow_functions(text: str) -> str:
    """Return LLVM text without ``llvm.umul.with.overflow``, which the translator to SPIR-V does not know.

    LLVM asks with it whether a loop's addresses may wrap before it moves what the loop computes out of it.
    """
    widths = set(re.findall(r"@llvm\.umul\.with\.overflow\.i(\d+)\(", text))
    if not widths:
        return text
    text = re.sub(r"(?m)^declare .*@llvm\.umul\.with\.overflow\.i\d+\(.*\n", "", text)
    text = re.sub(r"@llvm\.umul\.with\.overflow\.i(\d+)\(", r"@tl_multiply_checked_i\1(", text)
    return text + "".join(_MULTIPLY_CHECKED.replace("iN", f"i{width}") for width in sorted(widths))


#: The product of two unsigned integers, and whether it has overflown.
_MULTIPLY_CHECKED = """
define internal { iN, i1 } @tl_multiply_checked_iN(iN %a, iN %b) alwaysinline {
  %product = mul iN %a, %b
  %zero = icmp eq iN %a, 0
  %divisor = select i1 %zero, iN 1, iN %a
  %quotient = udiv iN %product, %divisor
  %differs = icmp ne iN %quotient, %b
  %overflow = select i1 %zero, i1 false, i1 %differs
  %half = insertvalue { iN, i1 } undef, iN %product, 0
  %result = insertvalue { iN, i1 } %half, i1 %overflow, 1
  ret { iN, i1 } %result
}
"""
