"""OpenCL beneath dpctl: its functions, and launches without SYCL's part of the cost.

A launch through dpctl and SYCL takes a CPU 6 µs and more, of which OpenCL needs 3.  `DirectKernel` is launched by
OpenCL itself, on in-order queues of our own in the same context.  Kernels take addresses as 64-bit integers, and a CPU
has one address space, so OpenCL need not be told of the memory that they use.

OpenCL's side is its C API (OpenCL 3.0 specification, sections 5.1, 5.8 and 5.9 to 5.11).  SYCL's side are
``get_native`` and ``make_kernel`` (SYCL 2020 specification, appendix "OpenCL backend specification"), templates
over functions of ``libsycl``, which are called by their mangled names.  dpctl's side is its C API: ``SyclKernel_Make``
copies the ``sycl::kernel`` that a pointer leads to.  Only this module and
`tl_dpnp.runtime.sycl.opencl_programs_adapter` touch any of the three.  Tested with dpcpp-cpp-rt 2024.2.2
and dpctl 0.17.0, 2026.2.0 and 0.22.1.

C++ exceptions cannot pass, so everything that may fail is asked of OpenCL, whose functions return error codes.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import weakref
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_bool, c_char_p, c_int8, c_int32, c_size_t, c_uint32, c_void_p, py_object
from types import SimpleNamespace
from typing import Any

import dpctl.program._program as dpctl_programs

from tl_dpnp.runtime.sycl.dpctl_adapter import loaded_library
from tl_dpnp.runtime.sycl.turns import inside

__all__ = [
    "DirectKernel", "LaunchError", "MissingFunctionError", "error_name", "functions", "release_with", "run_in_order",
    "supports", "why_unsupported",
]

_OPENCL, _SYCL, _DPCTL = "opencl", "sycl", "dpctl"
#: A function: its library (`loaded_library`), its name there, the types of its result and of its arguments.
_Function = tuple[str, str, Any, tuple[Any, ...] | None]
#: By our names.
_FUNCTIONS: dict[str, _Function] = {
    "context_info": (_OPENCL, "clGetContextInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "program_info": (_OPENCL, "clGetProgramInfo", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "create_program": (_OPENCL, "clCreateProgramWithBinary", c_void_p, (
        c_void_p, c_uint32, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_char_p), c_void_p, POINTER(c_int32))),
    "create_program_from_il": (_OPENCL, "clCreateProgramWithIL", c_void_p, (
        c_void_p, c_char_p, c_size_t, POINTER(c_int32))),
    "build_info": (_OPENCL, "clGetProgramBuildInfo", c_int32, (
        c_void_p, c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)),
    "create_kernel": (_OPENCL, "clCreateKernel", c_void_p, (c_void_p, c_char_p, POINTER(c_int32))),
    "build_program": (_OPENCL, "clBuildProgram", c_int32, (
        c_void_p, c_uint32, POINTER(c_void_p), c_char_p, c_void_p, c_void_p)),
    "clone_kernel": (_OPENCL, "clCloneKernel", c_void_p, (c_void_p, POINTER(c_int32))),
    "set_argument": (_OPENCL, "clSetKernelArg", c_int32, (c_void_p, c_uint32, c_size_t, c_void_p)),
    "create_queue": (_OPENCL, "clCreateCommandQueueWithProperties", c_void_p, (
        c_void_p, c_void_p, c_void_p, POINTER(c_int32))),
    # Called for each launch, always with values of ctypes: checking them once more would take 0.2 µs.
    "enqueue": (_OPENCL, "clEnqueueNDRangeKernel", c_int32, None),
    "finish": (_OPENCL, "clFinish", c_int32, None),
    "release_queue": (_OPENCL, "clReleaseCommandQueue", c_int32, (c_void_p,)),
    "release_context": (_OPENCL, "clReleaseContext", c_int32, (c_void_p,)),
    "release_device": (_OPENCL, "clReleaseDevice", c_int32, (c_void_p,)),
    "release_kernel": (_OPENCL, "clReleaseKernel", c_int32, (c_void_p,)),
    "release_program": (_OPENCL, "clReleaseProgram", c_int32, (c_void_p,)),
    # getNative() const of sycl::context, sycl::device and sycl::kernel: the caller releases what they return.
    "native_context": (_SYCL, "_ZNK4sycl3_V17context9getNativeEv", c_void_p, (c_void_p,)),
    "native_device": (_SYCL, "_ZNK4sycl3_V16device9getNativeEv", c_void_p, (c_void_p,)),
    "native_kernel": (_SYCL, "_ZNK4sycl3_V16kernel9getNativeEv", c_void_p, (c_void_p,)),
    "operator_new": (_SYCL, "_Znwm", c_void_p, (c_size_t,)),
    "delete_kernel": (_DPCTL, "DPCTLKernel_Delete", None, (c_void_p,)),
}
#: What makes a kernel of SYCL, by the version of its library.  They return objects that are not trivial, so the first
#: argument is where to put them, and retain what is native.
_MAKERS: tuple[dict[str, _Function], dict[str, _Function]] = ({
    # libsycl.so.7: sycl::detail::make_kernel(native kernel, const context&, backend)
    "make_kernel": (_SYCL, "_ZN4sycl3_V16detail11make_kernelEmRKNS0_7contextENS0_7backendE", None, (
        c_void_p, c_void_p, c_void_p, c_int8)),
}, {
    # libsycl.so.9: make_kernel_bundle(native program, const context&, keep ownership, state, backend), and of that
    # make_kernel(const context&, const kernel_bundle<executable>&, native kernel, keep ownership, backend)
    "make_bundle": (_SYCL, "_ZN4sycl3_V16detail18make_kernel_bundleEmRKNS0_7contextEbNS0_12bundle_stateENS0_7backendE",
                    None, (c_void_p, c_void_p, c_void_p, c_bool, c_int8, c_int8)),
    "make_kernel_of_bundle": (
        _SYCL, "_ZN4sycl3_V16detail11make_kernelERKNS0_7contextERKNS0_13kernel_bundleILNS0_12bundle_stateE2EEEmbNS0_"
        "7backendE", None, (c_void_p, c_void_p, c_void_p, c_void_p, c_bool, c_int8)),
    "delete_bundle": (_DPCTL, "DPCTLKernelBundle_Delete", None, (c_void_p,)),
})
#: Values of OpenCL's enumerations.
_CONTEXT_DEVICES = 0x1081
#: The names of OpenCL's error codes that say what to do about them.
_ERROR_NAMES = {
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE", -5: "CL_OUT_OF_RESOURCES", -6: "CL_OUT_OF_HOST_MEMORY",
    -11: "CL_BUILD_PROGRAM_FAILURE", -42: "CL_INVALID_BINARY", -46: "CL_INVALID_KERNEL_NAME",
}


class MissingFunctionError(Exception):
    """A function is missing from the installed libraries; the text says which."""


def error_name(code: int) -> str:
    """Return an error code of OpenCL in words."""
    return f"code {code}" + (f" ({_ERROR_NAMES[code]})" if code in _ERROR_NAMES else "")


@functools.cache
def functions() -> SimpleNamespace:
    """Return the functions of `_FUNCTIONS` by name, and ``sycl_kernel``; raises `MissingFunctionError`."""
    try:
        found = SimpleNamespace(**_found(_FUNCTIONS), sycl_kernel=_sycl_kernel())
        try:
            found.__dict__.update(_found(_MAKERS[0]))
        except AttributeError:
            found.__dict__.update(_found(_MAKERS[1]))
    except (OSError, AttributeError, KeyError) as problem:
        raise MissingFunctionError(str(problem)) from problem
    return found


def _found(table: Mapping[str, _Function]) -> dict[str, Any]:
    """Return the functions of a table; raises `OSError` or `AttributeError` where one is missing."""
    found = {}
    for name, (library, symbol, result, arguments) in table.items():
        function = loaded_library(library)[symbol]
        function.restype = result
        if arguments is not None:
            function.argtypes = arguments
        found[name] = function
    return found


def _sycl_kernel() -> Any:
    """Return dpctl's ``SyclKernel_Make``, which Cython keeps in a capsule whose name is its signature."""
    capsule = dpctl_programs.__pyx_capi__["SyclKernel_Make"]
    python = ctypes.pythonapi
    signature = ctypes.PYFUNCTYPE(c_char_p, py_object)(("PyCapsule_GetName", python))(capsule)
    address = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", python))(capsule, signature)
    return ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p)(address)


def release_with(owner: object, release: Any, native: c_void_p) -> None:
    """Release an object of OpenCL with its owner; not at the end of the process, when OpenCL may be gone."""
    weakref.finalize(owner, release, native).atexit = False


def supports(queue: Any) -> bool:
    """Return whether this module can serve the device of a queue: a CPU under OpenCL, alone in its context."""
    device = queue.sycl_device
    return (bool(device.is_cpu) and device.backend.name == "opencl" and queue.sycl_context.device_count == 1
            and why_unsupported() is None)


def why_unsupported() -> str | None:
    """Return what the installed libraries lack, or None if they have all that is needed."""
    try:
        functions()
    except MissingFunctionError as problem:
        return str(problem)
    return None


def _device_of(opencl: SimpleNamespace, context: int) -> c_void_p:
    """Return the one device of a context of OpenCL."""
    device = c_void_p()
    code = opencl.context_info(context, _CONTEXT_DEVICES, ctypes.sizeof(device), byref(device), None)
    if code:
        raise LaunchError(f"clGetContextInfo fails with {error_name(code)}")
    return device


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
        self._functions = functions()
        self.lanes = _lanes(queue)
        self._kernel = c_void_p(_clone(self._functions, kernel))
        release_with(self, self._functions.release_kernel, self._kernel)
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
            raise LaunchError(f"clSetKernelArg fails with {error_name(code)} for argument {place}")

    def start(self, lane: _Lane) -> None:
        """Put a launch into a lane; raises `LaunchError`."""
        code = self._functions.enqueue(lane.queue, self._kernel, *self._ranges, _NO_EVENTS, None, None)
        if code:
            raise LaunchError(f"clEnqueueNDRangeKernel fails with {error_name(code)}")


_NO_EVENTS = c_uint32(0)


class _Lane:
    """An in-order queue of OpenCL; one thread uses it at a time."""

    __slots__ = ("__weakref__", "_finish", "queue")

    def __init__(self, opencl: SimpleNamespace, context: int, device: c_void_p) -> None:
        code = c_int32()
        self.queue = c_void_p(opencl.create_queue(context, device, None, byref(code)))
        if code.value:
            raise LaunchError(f"clCreateCommandQueueWithProperties fails with {error_name(code.value)}")
        release_with(self, opencl.release_queue, self.queue)
        self._finish = opencl.finish

    def finish(self) -> None:
        """Wait for all launches; raises `LaunchError` if that fails.

        The waiting thread takes part in the work at once, which it does 3 µs later when it waits for an event.
        """
        with inside:
            code = self._finish(self.queue)
        if code:
            raise LaunchError(f"clFinish fails with {error_name(code)}")


class _Lanes:
    """The lanes of one context: as many as launches that threads wait for at the same time."""

    def __init__(self, opencl: SimpleNamespace, context: int) -> None:
        self._make = functools.partial(_Lane, opencl, context, _device_of(opencl, context))
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
    opencl = functions()
    context: int = opencl.native_context(queue.sycl_context.addressof_ref())
    with _lanes_lock:
        if context in _lanes_of_context:
            opencl.release_context(context)
        else:
            _lanes_of_context[context] = _Lanes(opencl, context)
        return _lanes_of_context[context]


def run_in_order(kernels: Sequence[DirectKernel]) -> None:
    """Launch kernels of one context one after another, and wait until the last is done; raises `LaunchError`."""
    lanes = kernels[0].lanes
    lane = lanes.take()
    try:
        for kernel in kernels:
            kernel.start(lane)
    finally:  # also where a signal handler raises in between
        lane.finish()
    lanes.put_back(lane)


def _clone(opencl: SimpleNamespace, kernel: Any) -> int:
    native, code = opencl.native_kernel(kernel.addressof_ref()), c_int32()
    try:
        clone: int = opencl.clone_kernel(native, byref(code))
    finally:
        opencl.release_kernel(native)
    if code.value:
        raise LaunchError(f"clCloneKernel fails with {error_name(code.value)}")
    return clone
