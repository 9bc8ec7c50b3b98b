"""Programs of an OpenCL device as the driver's binaries, which dpctl neither gives nor takes.

dpctl builds kernels from SPIR-V.  That takes the CPU runtime some 30 ms for a small kernel, and the start of its
compiler comes on top; a binary that it built before is loaded in one millisecond.

OpenCL's side is its C API (OpenCL 3.0 specification, section 5.8.1).  SYCL's side are ``get_native`` and
``make_kernel_bundle`` (SYCL 2020 specification, appendix "OpenCL backend specification"), templates over functions of
``libsycl``, which are called here by their mangled names.  dpctl's side is its C API: ``SyclProgram_Make`` copies the
``sycl::kernel_bundle`` that a pointer leads to.  This is the only module that touches any of the three.  Tested with
dpcpp-cpp-rt 2024.2.2 and dpctl 0.17.0.

C++ exceptions cannot pass, so everything that may fail is asked of OpenCL, whose functions return error codes.
"""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, byref, c_bool, c_char_p, c_int8, c_int32, c_size_t, c_uint32, c_void_p, py_object
from types import SimpleNamespace
from typing import Any

import dpctl.program._program as dpctl_programs

__all__ = ["BinaryError", "binary_of", "load_program", "supports", "why_unsupported"]

_OPENCL, _SYCL, _DPCTL = "libOpenCL.so.1", "libsycl.so.7", "libDPCTLSyclInterface.so.0"
#: Our name of a function: its library, its name there, the types of its result and of its arguments.
_FUNCTIONS: dict[str, tuple[str, str, Any, tuple[Any, ...]]] = {
    "context_info": (_OPENCL, "clGetContextInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "kernel_info": (_OPENCL, "clGetKernelInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "program_info": (_OPENCL, "clGetProgramInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "create_program": (_OPENCL, "clCreateProgramWithBinary", c_void_p, (
        c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_char_p), c_void_p, POINTER(c_int32))),
    "build_program": (_OPENCL, "clBuildProgram", c_int32, (
        c_void_p, c_uint32, c_void_p, c_char_p, c_void_p, c_void_p)),
    "release_context": (_OPENCL, "clReleaseContext", c_int32, (c_void_p,)),
    "release_kernel": (_OPENCL, "clReleaseKernel", c_int32, (c_void_p,)),
    "release_program": (_OPENCL, "clReleaseProgram", c_int32, (c_void_p,)),
    # sycl::context::getNative() const, sycl::kernel::getNative() const: the caller releases what they return.
    "native_context": (_SYCL, "_ZNK4sycl3_V17context9getNativeEv", c_void_p, (c_void_p,)),
    "native_kernel": (_SYCL, "_ZNK4sycl3_V16kernel9getNativeEv", c_void_p, (c_void_p,)),
    # sycl::detail::make_kernel_bundle(native handle, const context&, keep ownership, bundle_state, backend) returns an
    # object that is not trivial, so the first argument is where to put it.
    "make_bundle": (
        _SYCL, "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextEbNS0_12bundle_stateENS0_7backendE", None,
        (c_void_p, c_void_p, c_void_p, c_bool, c_int8, c_int8)),
    "operator_new": (_SYCL, "_Znwm", c_void_p, (c_size_t,)),
    "delete_bundle": (_DPCTL, "DPCTLKernelBundle_Delete", None, (c_void_p,)),
}
# Values of OpenCL's and SYCL's enumerations.
_CONTEXT_DEVICES, _KERNEL_PROGRAM, _PROGRAM_BINARY_SIZES, _PROGRAM_BINARIES = 0x1081, 0x1194, 0x1165, 0x1166
_BACKEND_OPENCL, _STATE_EXECUTABLE = 1, 2
#: A sycl::kernel_bundle is a std::shared_ptr.
_SIZE_OF_BUNDLE = 2 * ctypes.sizeof(c_void_p)


class BinaryError(Exception):
    """OpenCL refuses a binary or gives none, or a function is missing; the text says which."""


def supports(queue: Any) -> bool:
    """Return whether binaries can be had for the device of a queue: a CPU under OpenCL, alone in its context."""
    device = queue.sycl_device
    return (bool(device.is_cpu) and device.backend.name == "opencl" and queue.sycl_context.device_count == 1
            and why_unsupported() is None)


def why_unsupported() -> str | None:
    """Return what the installed libraries lack, or None if they have all that is needed."""
    try:
        _functions()
    except BinaryError as problem:
        return str(problem)
    return None


def binary_of(kernel: Any) -> bytes:
    """Return the binary of the program that a `dpctl.program.SyclKernel` belongs to; raises `BinaryError`."""
    functions = _functions()
    native = functions.native_kernel(kernel.addressof_ref())
    try:
        program, size = c_void_p(), c_size_t()
        _check(functions.kernel_info(native, _KERNEL_PROGRAM, ctypes.sizeof(program), byref(program), None),
               "clGetKernelInfo")
        _check(functions.program_info(program, _PROGRAM_BINARY_SIZES, ctypes.sizeof(size), byref(size), None),
               "clGetProgramInfo")
        if size.value == 0:
            raise BinaryError("clGetProgramInfo gives no binary")
        binary = ctypes.create_string_buffer(size.value)
        target = c_void_p(ctypes.addressof(binary))
        _check(functions.program_info(program, _PROGRAM_BINARIES, ctypes.sizeof(target), byref(target), None),
               "clGetProgramInfo")
        return binary.raw
    finally:
        functions.release_kernel(native)


def load_program(binary: bytes, queue: Any) -> Any:
    """Return the `dpctl.program.SyclProgram` of a binary, for the context of a queue; raises `BinaryError`."""
    functions = _functions()
    context = queue.sycl_context.addressof_ref()
    program = _create(functions, binary, context)
    try:
        _check(functions.build_program(program, 0, None, None, None, None), "clBuildProgram")
        bundle = functions.operator_new(_SIZE_OF_BUNDLE)
        functions.make_bundle(bundle, program, context, False, _STATE_EXECUTABLE, _BACKEND_OPENCL)
        try:
            return functions.make_program(bundle)
        finally:
            functions.delete_bundle(bundle)
    finally:
        functions.release_program(program)


def _create(functions: SimpleNamespace, binary: bytes, context: int) -> int:
    native = functions.native_context(context)
    try:
        device, code = c_void_p(), c_int32()
        _check(functions.context_info(native, _CONTEXT_DEVICES, ctypes.sizeof(device), byref(device), None),
               "clGetContextInfo")
        program: int = functions.create_program(native, 1, byref(device), byref(c_size_t(len(binary))),
                                                byref(c_char_p(binary)), None, byref(code))
        _check(code.value, "clCreateProgramWithBinary")
        return program
    finally:
        functions.release_context(native)


def _check(code: int, function: str) -> None:
    if code != 0:
        raise BinaryError(f"{function} fails with code {code}")


@functools.cache
def _functions() -> SimpleNamespace:
    """Return the functions of `_FUNCTIONS` by name, and ``make_program``; raises `BinaryError` if one is missing."""
    found = SimpleNamespace()
    try:
        for name, (library, symbol, result, arguments) in _FUNCTIONS.items():
            # dpctl has loaded them all; another copy would know nothing of its objects.
            function = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)[symbol]
            function.restype, function.argtypes = result, arguments
            setattr(found, name, function)
        found.make_program = _make_program()
    except (OSError, AttributeError, KeyError) as problem:
        raise BinaryError(str(problem)) from problem
    return found


def _make_program() -> Any:
    """Return dpctl's ``SyclProgram_Make``, which Cython keeps in a capsule whose name is its signature."""
    capsule = dpctl_programs.__pyx_capi__["SyclProgram_Make"]
    python = ctypes.pythonapi
    signature = ctypes.PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", python))(capsule)
    address = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", python))(capsule, signature)
    return ctypes.PYFUNCTYPE(py_object, c_void_p)(address)
