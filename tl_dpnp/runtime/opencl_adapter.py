"""OpenCL beneath dpctl: programs as the driver's binaries, and launches without SYCL's part of the cost.

dpctl builds kernels from SPIR-V.  That takes the CPU runtime some 30 ms for a small kernel, and the start of its
compiler comes on top; a binary that it built before is loaded in one millisecond.

A launch through dpctl and SYCL takes a CPU 6 µs and more, of which OpenCL needs 3.  `DirectKernel` is launched by
OpenCL itself, on in-order queues of our own in the same context.  Kernels take addresses as 64-bit integers, and a CPU
has one address space, so OpenCL need not be told of the memory that they use.

OpenCL's side is its C API (OpenCL 3.0 specification, sections 5.1, 5.8.1 and 5.9 to 5.11).  SYCL's side are
``get_native`` and ``make_kernel_bundle`` (SYCL 2020 specification, appendix "OpenCL backend specification"), templates
over functions of ``libsycl``, which are called here by their mangled names.  dpctl's side is its C API:
``SyclProgram_Make`` copies the ``sycl::kernel_bundle`` that a pointer leads to.  This is the only module that touches
any of the three.  Tested with dpcpp-cpp-rt 2024.2.2 and dpctl 0.17.0.

C++ exceptions cannot pass, so everything that may fail is asked of OpenCL, whose functions return error codes.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_bool, c_char_p, c_int8, c_int32, c_size_t, c_uint32, c_void_p, py_object
from types import SimpleNamespace
from typing import Any

import dpctl.program._program as dpctl_programs

__all__ = [
    "BinaryError", "DirectKernel", "LaunchError", "binary_of", "load_program", "run_in_order", "supports",
    "why_unsupported",
]

_OPENCL, _SYCL, _DPCTL = "libOpenCL.so.1", "libsycl.so.7", "libDPCTLSyclInterface.so.0"
#: Our name of a function: its library, its name there, the types of its result and of its arguments.
_FUNCTIONS: dict[str, tuple[str, str, Any, tuple[Any, ...] | None]] = {
    "context_info": (_OPENCL, "clGetContextInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "kernel_info": (_OPENCL, "clGetKernelInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "program_info": (_OPENCL, "clGetProgramInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "create_program": (_OPENCL, "clCreateProgramWithBinary", c_void_p, (
        c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_char_p), c_void_p, POINTER(c_int32))),
    "build_program": (_OPENCL, "clBuildProgram", c_int32, (
        c_void_p, c_uint32, c_void_p, c_char_p, c_void_p, c_void_p)),
    "clone_kernel": (_OPENCL, "clCloneKernel", c_void_p, (c_void_p, POINTER(c_int32))),
    "set_argument": (_OPENCL, "clSetKernelArg", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p)),
    "create_queue": (_OPENCL, "clCreateCommandQueueWithProperties", c_void_p, (
        c_void_p, c_void_p, c_void_p, POINTER(c_int32))),
    # Called for each launch, always with values of ctypes: checking them once more would take 0.2 µs.
    "enqueue": (_OPENCL, "clEnqueueNDRangeKernel", c_int32, None),
    "finish": (_OPENCL, "clFinish", c_int32, None),
    "release_queue": (_OPENCL, "clReleaseCommandQueue", c_int32, (c_void_p,)),
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
    """Return whether this module can serve the device of a queue: a CPU under OpenCL, alone in its context."""
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
        device, code = _device_of(functions, native), c_int32()
        program: int = functions.create_program(native, 1, byref(device), byref(c_size_t(len(binary))),
                                                byref(c_char_p(binary)), None, byref(code))
        _check(code.value, "clCreateProgramWithBinary")
        return program
    finally:
        functions.release_context(native)


def _device_of(functions: SimpleNamespace, context: int) -> c_void_p:
    """Return the one device of a context of OpenCL."""
    device = c_void_p()
    _check(functions.context_info(context, _CONTEXT_DEVICES, ctypes.sizeof(device), byref(device), None),
           "clGetContextInfo")
    return device


def _check(code: int, function: str) -> None:
    if code != 0:
        raise BinaryError(f"{function} fails with code {code}")


# --- launches --------------------------------------------------------------------------------------------------------


class LaunchError(Exception):
    """OpenCL refuses a launch or reports that it failed; the text says what fails, with OpenCL's code."""


class DirectKernel:
    """A copy of a kernel with arguments of its own, which OpenCL launches over one range.

    The ranges are those of SYCL.  `values` are the arguments as ctypes values, in order, None for those that are set
    before each launch.  Setting and launching are two steps: several threads must not do that to one copy at the same
    time.
    """

    __slots__ = ("__weakref__", "_functions", "_kernel", "_ranges", "lanes")

    def __init__(
        self, kernel: Any, queue: Any, values: Sequence[Any], global_range: Sequence[int], local_range: Sequence[int]
    ) -> None:
        self._functions = _functions()
        self.lanes = _lanes(queue)
        self._kernel = c_void_p(_clone(self._functions, kernel))
        _finally(self, self._functions.release_kernel, self._kernel)
        sizes = c_size_t * len(global_range)
        # SYCL numbers the dimensions the other way round.
        self._ranges = (c_uint32(len(global_range)), None, sizes(*global_range[::-1]), sizes(*local_range[::-1]))
        for place, value in enumerate(values):
            if value is not None:
                self.set_argument(place, value)

    def set_argument(self, place: int, value: Any) -> None:
        """Set one argument to a ctypes value; raises `LaunchError`."""
        code = self._functions.set_argument(self._kernel, place, ctypes.sizeof(value), byref(value))
        if code:
            raise LaunchError(f"clSetKernelArg fails with code {code} for argument {place}")

    def start(self, lane: _Lane) -> None:
        """Put a launch into a lane; raises `LaunchError`."""
        code = self._functions.enqueue(lane.queue, self._kernel, *self._ranges, _NO_EVENTS, None, None)
        if code:
            raise LaunchError(f"clEnqueueNDRangeKernel fails with code {code}")


_NO_EVENTS = c_uint32(0)


class _Lane:
    """An in-order queue of OpenCL; one thread uses it at a time."""

    __slots__ = ("__weakref__", "_finish", "queue")

    def __init__(self, functions: SimpleNamespace, context: int, device: c_void_p) -> None:
        code = c_int32()
        self.queue = c_void_p(functions.create_queue(context, device, None, byref(code)))
        if code.value:
            raise LaunchError(f"clCreateCommandQueueWithProperties fails with code {code.value}")
        _finally(self, functions.release_queue, self.queue)
        self._finish = functions.finish

    def finish(self) -> None:
        """Wait for all launches; raises `LaunchError` if that fails.

        The waiting thread takes part in the work at once, which it does 3 µs later when it waits for an event.
        """
        code = self._finish(self.queue)
        if code:
            raise LaunchError(f"clFinish fails with code {code}")


class _Lanes:
    """The lanes of one context: as many as launches that threads wait for at the same time."""

    def __init__(self, functions: SimpleNamespace, context: int) -> None:
        self._make = functools.partial(_Lane, functions, context, _device_of(functions, context))
        self._idle: list[_Lane] = []
        self.put_back = self._idle.append

    def take(self) -> _Lane:
        """Return a lane that nobody uses; `put_back` returns it, unless something went wrong."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()


_lanes_lock = threading.Lock()
_lanes_of_context: dict[int, _Lanes] = {}


def _lanes(queue: Any) -> _Lanes:
    """Return the lanes of the context of a queue.  Their context lives as long as the process."""
    functions = _functions()
    context: int = functions.native_context(queue.sycl_context.addressof_ref())
    with _lanes_lock:
        if context in _lanes_of_context:
            functions.release_context(context)
        else:
            _lanes_of_context[context] = _Lanes(functions, context)
        return _lanes_of_context[context]


def run_in_order(kernels: Sequence[DirectKernel]) -> None:
    """Launch kernels of one context one after another, and wait until the last is done; raises `LaunchError`."""
    lanes = kernels[0].lanes
    lane = lanes.take()
    for kernel in kernels:
        kernel.start(lane)
    lane.finish()
    lanes.put_back(lane)


def _clone(functions: SimpleNamespace, kernel: Any) -> int:
    native, code = functions.native_kernel(kernel.addressof_ref()), c_int32()
    try:
        clone: int = functions.clone_kernel(native, byref(code))
    finally:
        functions.release_kernel(native)
    if code.value:
        raise LaunchError(f"clCloneKernel fails with code {code.value}")
    return clone


def _finally(owner: object, release: Any, native: c_void_p) -> None:
    """Release an object of OpenCL with its owner; not at the end of the process, when OpenCL may be gone."""
    weakref.finalize(owner, release, native).atexit = False


@functools.cache
def _functions() -> SimpleNamespace:
    """Return the functions of `_FUNCTIONS` by name, and ``make_program``; raises `BinaryError` if one is missing."""
    found = SimpleNamespace()
    try:
        for name, (library, symbol, result, arguments) in _FUNCTIONS.items():
            # dpctl has loaded them all; another copy would know nothing of its objects.
            function = ctypes.CDLL(library, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)[symbol]
            function.restype = result
            if arguments is not None:
                function.argtypes = arguments
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
