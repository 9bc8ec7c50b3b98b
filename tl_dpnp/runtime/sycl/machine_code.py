"""From SPIR-V to a kernel that can be launched, through the disk cache.

What the driver makes of SPIR-V is kept where it can be had (`tl_dpnp.runtime.sycl.opencl_adapter.supports`): building
takes the CPU runtime longer than all else in a warm start that is ours.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from tl_dpnp.errors import CacheWarning, LoweringError, warn
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.bootstrap import processor
from tl_dpnp.runtime.compiler import CompiledKernel
from tl_dpnp.runtime.store.cache import DiskCache, Entry, key_of
from tl_dpnp.runtime.sycl import opencl_adapter, opencl_programs_adapter
from tl_dpnp.runtime.sycl.dpctl_adapter import KernelHandle, build_program, kernel_of
from tl_dpnp.runtime.sycl.opencl_programs_adapter import ProgramError
from tl_dpnp.runtime.watching import span, timed
from tl_dpnp.target.device import Device

__all__ = ["build_options", "exchanges_values", "keep_machine_code", "load_kernel", "machine_code_key"]

#: Intel's options for 256 registers instead of 128, by backend.
_LARGE_REGISTER_FILE = {"level_zero": "-ze-opt-large-register-file", "opencl": "-cl-intel-256-GRF-per-thread"}

#: What the names have in common of the functions by which lanes exchange values: the module imports them.
_SUBGROUP_FUNCTIONS = b"sub_group_"


def load_kernel(
    compiled: CompiledKernel, device: Device, queue: Any, cache: DiskCache | None
) -> tuple[KernelHandle, bool]:
    """Return the kernel for the context of a queue, and whether the driver had to build it.

    It is not built if the cache has the machine code.  That is looked for only if the SPIR-V comes from there too: what
    was compiled anew replaces it.  Raises `LoweringError` if the driver refuses the SPIR-V.
    """
    if not opencl_adapter.supports(queue):
        cache = None
    if cache is not None and compiled.from_cache:
        key = machine_code_key(compiled.binary, device)
        found = cache.load(key)
        if found is not None:
            try:
                with span("compile", "loading by the driver", timed):
                    return opencl_programs_adapter.load(found.content, compiled.plan.entry, queue), False
            except ProgramError as problem:
                cache.warn_of(key, problem)
    with span("compile", "build by the driver", timed):
        handle = _built(compiled, device, queue)
    if cache is not None:
        keep_machine_code(compiled, device, queue, cache, handle)
    return handle, True


def _built(compiled: CompiledKernel, device: Device, queue: Any) -> KernelHandle:
    """Have the driver build a kernel; raises `LoweringError`."""
    entry, options = compiled.plan.entry, build_options(compiled.plan, device)
    if not opencl_programs_adapter.builds(queue):  # Level Zero
        return kernel_of(build_program(compiled.binary, entry, queue, options), entry)
    try:
        handle = opencl_programs_adapter.build(compiled.binary, entry, queue, options)
    except ProgramError as problem:
        raise LoweringError(f"the driver of {device.name} does not build the SPIR-V of {entry}: {problem}"
                            ) from problem
    _require_subgroups(handle, compiled, device)
    return handle


def _require_subgroups(handle: KernelHandle, compiled: CompiledKernel, device: Device) -> None:
    """Raise `LoweringError` if lanes of the kernel exchange values but were built as work-items without a sub-group.

    Intel's CPU runtime (2024.2) does that where its vectorizer gives up, for instance at a call with the same arguments
    in all lanes in a branch that only some take.  It says so on standard error alone, and broadcasts then give 0; the
    largest size of the kernel's sub-groups, 64 instead of what is required, tells it apart.
    """
    required, largest = compiled.plan.subgroup_size, handle.kernel.max_sub_group_size
    if device.is_cpu and exchanges_values(compiled) and largest != required:
        raise LoweringError(
            f"the driver of {device.name} does not vectorize {compiled.plan.entry}: the {required} lanes of its "
            f"sub-groups could not exchange values, and results would be wrong; compile it with form='vector', or "
            f"without emulate_dpas"
        )


def exchanges_values(compiled: CompiledKernel) -> bool:
    """Return whether lanes of a kernel exchange values."""
    return not compiled.plan.frame.is_alone and _SUBGROUP_FUNCTIONS in compiled.binary


def build_options(plan: LaunchPlan, device: Device) -> str:
    """Return what to ask of the driver: the registers that a kernel was made for, on GPUs; CPUs know no such option."""
    return "" if device.is_cpu or plan.registers != 256 else _LARGE_REGISTER_FILE.get(device.backend, "")


def keep_machine_code(
    compiled: CompiledKernel, device: Device, queue: Any, cache: DiskCache, handle: KernelHandle
) -> None:
    """Keep what the driver built, where it can be had."""
    if not opencl_adapter.supports(queue):
        return
    try:
        cache.store(machine_code_key(compiled.binary, device), Entry({}, opencl_programs_adapter.binary_of(handle)))
    except ProgramError as problem:
        warn(f"the machine code of {compiled.plan.entry} is not kept: {problem}", CacheWarning)


def machine_code_key(spirv: bytes, device: Device) -> str:
    """Return the key of the machine code for `spirv`: everything that it depends on.

    The CPU runtime compiles for the processor that it runs on, and has settings in the environment.
    """
    return key_of({
        "machine code of": hashlib.sha256(spirv).hexdigest(),
        "device": device.to_json(),
        "processor": processor().get("flags", ""),
        "settings": sorted(item for item in os.environ.items() if item[0].startswith("CL_CONFIG_")),
    })
