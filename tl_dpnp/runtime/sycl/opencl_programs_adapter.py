"""Programs of OpenCL beneath dpctl: built from SPIR-V, or loaded as what the driver made of it, and given back.

Building takes the CPU runtime some 30 ms for a small kernel, and the start of its compiler comes on top; a binary that
it built before is loaded in one millisecond.  The CPU runtime takes one to four MB for a program and gives all back
with the last reference.  dpctl 0.17 never lets go of the last: it retains each program once more than it releases it,
and so it does with each kernel that it is asked for.  So programs and kernels are OpenCL's here, SYCL is handed the
kernel (``make_kernel``), and dpctl the kernel of SYCL.

See `tl_dpnp.runtime.sycl.opencl_adapter` for the functions.
"""

from __future__ import annotations

import ctypes
import mmap
from ctypes import byref, c_char_p, c_int32, c_size_t, c_void_p
from types import SimpleNamespace
from typing import Any

from tl_dpnp.runtime.sycl.dpctl_adapter import KernelHandle
from tl_dpnp.runtime.sycl.opencl_adapter import error_name, functions, release_with, why_unsupported

__all__ = ["ProgramError", "binary_of", "build", "builds", "load"]

# Values of OpenCL's and SYCL's enumerations.
_PROGRAM_BINARY_SIZES, _PROGRAM_BINARIES, _PROGRAM_BUILD_LOG = 0x1165, 0x1166, 0x1183
_BUILD_PROGRAM_FAILURE = -11
_BACKEND_OPENCL, _EXECUTABLE = 1, 2
#: CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_RESOURCES and CL_OUT_OF_HOST_MEMORY.
_OUT_OF_MEMORY = (-4, -5, -6)
#: A sycl::kernel is a std::shared_ptr, as a sycl::kernel_bundle is.
_SIZE_OF_KERNEL = 2 * ctypes.sizeof(c_void_p)
#: Bytes of address space that must be left for a build, and for each byte of SPIR-V: the compiler inside the CPU
#: runtime ends the process where it gets no memory, so that is found out before.  Small kernels take up to 4 MiB, large
#: ones some 25 bytes for each of SPIR-V.
_BUILD_SPACE, _BUILD_SPACE_PER_BYTE = 16 << 20, 50


class ProgramError(Exception):
    """OpenCL refuses a program or gives no binary of it; the text says which function fails, and the driver's log."""


class _Program:
    """A program of OpenCL, released with the last reference."""

    __slots__ = ("__weakref__", "native")

    def __init__(self, native: int) -> None:
        self.native = c_void_p(native)
        release_with(self, functions().release_program, self.native)


def builds(queue: Any) -> bool:
    """Return whether this module can make kernels for the device of a queue: one of OpenCL's.

    A bundle that newer versions of SYCL want has to be built for all devices of its context, or the process ends.
    """
    if queue.sycl_device.backend.name != "opencl" or why_unsupported() is not None:
        return False
    return hasattr(functions(), "make_kernel") or queue.sycl_context.device_count == 1


def build(spirv: bytes, entry: str, queue: Any, options: str = "") -> KernelHandle:
    """Have the driver build SPIR-V for the device of a queue, and return its kernel `entry`; raises `ProgramError`."""
    _require_address_space(_BUILD_SPACE + _BUILD_SPACE_PER_BYTE * len(spirv))
    opencl, code = functions(), c_int32()
    context = opencl.native_context(queue.sycl_context.addressof_ref())
    try:
        native = opencl.create_program_from_il(context, spirv, len(spirv), byref(code))
    finally:
        opencl.release_context(context)
    _check(code.value, "clCreateProgramWithIL")
    return _kernel_of(_Program(native), entry, queue, options)


def load(binary: bytes, entry: str, queue: Any) -> KernelHandle:
    """Return the kernel `entry` of a binary from `binary_of`, for the context of a queue; raises `ProgramError`."""
    opencl, code = functions(), c_int32()
    context = opencl.native_context(queue.sycl_context.addressof_ref())
    device = c_void_p(opencl.native_device(queue.sycl_device.addressof_ref()))
    try:
        native = opencl.create_program(context, 1, byref(device), byref(c_size_t(len(binary))),
                                       byref(c_char_p(binary)), None, byref(code))
    finally:
        opencl.release_device(device)
        opencl.release_context(context)
    _check(code.value, "clCreateProgramWithBinary")
    return _kernel_of(_Program(native), entry, queue)


def binary_of(handle: KernelHandle) -> bytes:
    """Return the binary of the program of a kernel that is from `build` or `load`; raises `ProgramError`."""
    opencl, native, size = functions(), handle.program.native, c_size_t()
    _check(opencl.program_info(native, _PROGRAM_BINARY_SIZES, ctypes.sizeof(size), byref(size), None),
           "clGetProgramInfo")
    if size.value == 0:
        raise ProgramError("clGetProgramInfo gives no binary")
    binary = ctypes.create_string_buffer(size.value)
    target = c_void_p(ctypes.addressof(binary))
    _check(opencl.program_info(native, _PROGRAM_BINARIES, ctypes.sizeof(target), byref(target), None),
           "clGetProgramInfo")
    return binary.raw


def _kernel_of(program: _Program, entry: str, queue: Any, options: str = "") -> KernelHandle:
    """Build a program and return its kernel as dpctl's."""
    opencl, code = functions(), c_int32()
    device = c_void_p(opencl.native_device(queue.sycl_device.addressof_ref()))
    try:
        failure = opencl.build_program(program.native, 1, byref(device), options.encode(), None, None)
        if failure:
            raise ProgramError(_why_not_built(failure, _build_log(opencl, program, device)))
    finally:
        opencl.release_device(device)
    native = c_void_p(opencl.create_kernel(program.native, entry.encode(), byref(code)))
    _check(code.value, "clCreateKernel")
    place = opencl.operator_new(_SIZE_OF_KERNEL)
    _make_kernel(opencl, place, native, program, queue.sycl_context.addressof_ref())
    opencl.release_kernel(native)
    try:
        return KernelHandle(opencl.sycl_kernel(place, entry.encode()), program)
    finally:
        opencl.delete_kernel(place)


def _make_kernel(opencl: SimpleNamespace, place: int, native: c_void_p, program: _Program, context: int) -> None:
    """Put a kernel of SYCL at a place, which retains that of OpenCL, and the program where SYCL asks for it."""
    if hasattr(opencl, "make_kernel"):
        opencl.make_kernel(place, native, context, _BACKEND_OPENCL)
        return
    bundle = opencl.operator_new(_SIZE_OF_KERNEL)
    # What SYCL is told not to keep is retained by it, and released with its own object.
    opencl.make_bundle(bundle, program.native, context, False, _EXECUTABLE, _BACKEND_OPENCL)
    opencl.make_kernel_of_bundle(place, context, bundle, native, False, _BACKEND_OPENCL)
    opencl.delete_bundle(bundle)


def _build_log(opencl: SimpleNamespace, program: _Program, device: c_void_p) -> str:
    size = c_size_t()
    if opencl.build_info(program.native, device, _PROGRAM_BUILD_LOG, 0, None, byref(size)) or not size.value:
        return ""
    log = ctypes.create_string_buffer(size.value)
    if opencl.build_info(program.native, device, _PROGRAM_BUILD_LOG, len(log), log, None):
        return ""
    return log.value.decode(errors="replace").strip()


def _why_not_built(code: int, log: str) -> str:
    """Return why ``clBuildProgram`` failed, as far as its code and the build log tell."""
    reason = f"clBuildProgram fails with {error_name(code)}"
    if code in _OUT_OF_MEMORY or (code == _BUILD_PROGRAM_FAILURE and "error" not in log.lower()):
        reason += f": most likely too little memory is left; {_MEMORY_HINT}"
    return f"{reason}\nbuild log:\n{log}" if log else f"{reason}; the build log is empty"


_MEMORY_HINT = "look at the limit of address space (ulimit -v), that of mappings (vm.max_map_count), and free memory"


def _require_address_space(size: int) -> None:
    """Raise `ProgramError` unless `size` bytes of address space are left."""
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=0).close()
    except OSError as problem:
        raise ProgramError(f"that may take {size >> 20} MiB of memory, and there is not as much address space left: "
                           f"{_MEMORY_HINT}") from problem


def _check(code: int, function: str) -> None:
    if code != 0:
        raise ProgramError(f"{function} fails with {error_name(code)}")
