"""Everything that the runtime asks of dpctl beyond its public arrays and queues.

This is the only module that touches private parts of dpctl.  Tested with dpctl 0.17.0.  Private are:

- ``usm_ndarray._pointer``: address of the first element, the offset of a view included (``usm_data._pointer`` and the
  array interface give the base of the allocation);
- ``usm_ndarray._element_offset``: elements of its allocation before the first of a view;

``SyclQueue._submit_keep_args_alive`` is not used: its host task takes the interpreter's lock.  It waits for ever where
a thread that has the lock submits to the queue and another waits for it, and aborts a process that ends.

``native_interface`` gives the addresses of functions of dpctl's C API (``dpctl_capi.h``), which Cython keeps in
capsules whose names are their signatures, and of those of ``libDPCTLSyclInterface``, and where arrays have their
fields, which is in a public header and checked.

``SyclQueue.submit_async`` is public, but what it accepts as an argument is not written down: ctypes integers and
floats do, and the address of USM memory may come as a 64-bit integer.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import dpctl
import dpctl.memory
import dpctl.program
import dpctl.utils
import numpy as np

from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arrays import DeviceTable
from tl_dpnp.runtime.sycl.tensor_adapter import ExecutionPlacementError, array_module, tensor, usm_ndarray
from tl_dpnp.runtime.sycl.turns import Turn, turn_to_wait

__all__ = [
    "DEVICE_TYPES", "ExecutionPlacementError", "KernelHandle", "SubmitError", "address_of", "allocation_of", "array_at",
    "array_facts", "build_program", "completed_event", "default_queue", "element_offset", "in_flight", "kernel_of",
    "loaded_library", "native_interface", "placed_array_facts", "scratch", "submitted_by_dpnp", "upload",
    "wait_for", "wait_for_event",
]

#: Types of what stands for queues and devices: equal ones are the same.
DEVICE_TYPES = (dpctl.SyclQueue, dpctl.SyclDevice, dpctl.SyclContext, tensor.Device)
#: What `submit_async` raises for a launch that the driver refuses.
SubmitError = dpctl.SyclKernelSubmitError


def default_queue() -> Any:
    """Return the queue that dpctl and dpnp use for arrays of the default device.

    Raises `UnsupportedError` where there is no device.
    """
    try:
        device = dpctl.select_default_device()
    except dpctl.SyclDeviceCreationError as error:
        raise UnsupportedError("there is no SYCL device to run or compile for: `python -m tl_dpnp -s` says what may be "
                               'wrong; target="reference" needs none') from error
    return dpctl.get_device_cached_queue(device)


def wait_for(queue: Any) -> None:
    """Wait for all that was submitted to a queue."""
    turn_to_wait(queue).wait_for_all(queue)
    in_flight.forget_complete()


def wait_for_event(event: Any) -> None:
    """Wait for an event, in turns with waits for its queue where that is known."""
    turn = in_flight.turn_of(event)
    if turn is None:
        event.wait()
    else:
        turn.wait_for(event)
    in_flight.forget_complete()


#: The address of the first element of a `usm_ndarray`.
address_of = attrgetter("_pointer")
#: All facts of a `usm_ndarray` that a call depends on but its address, in one go: this is on the path of every call.
array_facts = attrgetter("shape", "strides", "dtype.num", "sycl_queue", "flags.writable")
#: The same with the address.
placed_array_facts = attrgetter("_pointer", "shape", "strides", "dtype.num", "sycl_queue", "flags.writable")


def element_offset(array: Any) -> int:
    """Return how many elements of a `usm_ndarray`'s allocation lie before its first."""
    offset: int = array._element_offset
    return offset


def upload(values: Any, queue: Any) -> DeviceTable:
    """Copy integers (any shape, row after row) to the device of `queue` and wait until they are there.

    CPUs take shared memory, which is written in place (3 µs); a copy to device memory takes ten times as long.
    """
    host = np.ascontiguousarray(values, dtype=np.int64)
    if host.size == 0:
        return DeviceTable(None, 0)
    if queue.sycl_device.is_cpu:
        memory = dpctl.memory.MemoryUSMShared(host.nbytes, queue=queue)
        np.frombuffer(memory, dtype=np.int64)[:] = host.ravel()
    else:
        memory = dpctl.memory.MemoryUSMDevice(host.nbytes, queue=queue)
        memory.copy_from_host(host.ravel().view(np.uint8))
    return DeviceTable(memory, memory._pointer)


def scratch(count: int, queue: Any) -> tuple[DeviceTable, Any]:
    """Return a zeroed table of `count` integers that the device writes and the host reads, and its NumPy view."""
    memory = dpctl.memory.MemoryUSMShared(8 * count, queue=queue)
    view = np.frombuffer(memory, dtype=np.int64)
    view[:] = 0
    return DeviceTable(memory, memory._pointer), view


@dataclass(frozen=True, eq=False)
class KernelHandle:
    """A kernel that the driver has loaded for one context; the program must live as long as the kernel."""

    kernel: Any
    program: Any


def build_program(spirv: bytes, entry: str, queue: Any, options: str = "") -> Any:
    """Have the driver of `queue` build SPIR-V with a kernel `entry`; raises `LoweringError` if it does not take it."""
    try:
        return dpctl.program.create_program_from_spirv(queue, spirv, options)
    except dpctl.program.SyclProgramCompilationError as error:
        raise LoweringError(f"the driver of {queue.sycl_device.name} refuses the SPIR-V of {entry}: "
                            f"{str(error).strip() or 'it does not say why'}") from error


def kernel_of(program: Any, entry: str) -> KernelHandle:
    """Return the kernel `entry` of a `dpctl.program.SyclProgram`; raises `LoweringError` if there is none."""
    if not program.has_sycl_kernel(entry):
        raise LoweringError(f"the program has no kernel {entry!r}")
    return KernelHandle(program.get_sycl_kernel(entry), program)


def submitted_by_dpnp(queue: Any) -> list[Any]:
    """Return the events of what dpnp has submitted to a queue and may not be complete.

    Up to dpctl 0.17 operations are complete when they return; newer ones put their events in order with one another.
    """
    managers = getattr(dpctl.utils, "SequentialOrderManager", None)
    return [] if managers is None else managers[queue].submitted_events


_COMPLETE = dpctl.event_status_type.complete


class InFlight:
    """What was submitted and may not be complete: events, with their queues' turns and what must live until then.

    Objects are let go of by later submissions and waits, and at the end, which waits for all: memory that a kernel
    writes to must not go before it is done.
    """

    def __init__(self) -> None:
        self._pending: OrderedDict[int, tuple[Any, Turn, tuple[object, ...]]] = OrderedDict()
        self._lock = threading.RLock()  # a finalizer or a signal handler may submit
        self._ended = False
        atexit.register(self._finish, os.getpid())

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, queue: Any, objects: Sequence[object], event: Any) -> None:
        """Hold references to `objects` until `event` is complete."""
        with self._lock:
            # One is added and two are looked at, so that those that are complete do not accumulate.
            gone = self._take_complete(2)
            ended, turn = self._ended, turn_to_wait(queue)
            self._pending[id(event)] = event, turn, tuple(objects)
        del gone
        if ended:  # a daemon thread; what it is given lives until the process is gone
            turn.wait_for(event)

    def forget_complete(self) -> None:
        """Let go of the objects of all events that are complete."""
        if self._pending:
            with self._lock:
                gone = self._take_complete(len(self._pending))
            del gone

    def turn_of(self, event: Any) -> Turn | None:
        """Return the turn to wait for an event; None for one that is not known."""
        known = self._pending.get(id(event))
        return None if known is None else known[1]

    def _take_complete(self, most: int) -> list[Any]:
        """Return what belongs to the complete ones of the next few events; the lock must not be held when it goes."""
        complete = []
        for _ in range(min(most, len(self._pending))):
            key, kept = self._pending.popitem(last=False)
            if kept[0].execution_status == _COMPLETE:
                complete.append(kept)
            else:
                self._pending[key] = kept
        return complete

    def _finish(self, process: int) -> None:
        """Wait for all of them, whatever Ctrl-C says."""
        if os.getpid() != process:  # in a fork nobody completes them
            return
        while self._pending or not self._ended:
            try:
                with self._lock:
                    self._ended = True
                    waiting = list(self._pending.items())
                for key, (event, turn, _objects) in waiting:
                    turn.wait_for(event)
                    self._pending.pop(key, None)
            except KeyboardInterrupt:
                continue


in_flight = InFlight()


def completed_event(queue: Any, depends: Sequence[Any]) -> Any:
    """Return an event that is complete as soon as `depends` are: that of a launch without work-groups."""
    return queue.submit_barrier(list(depends)) if depends else dpctl.SyclEvent()


def allocation_of(array: Any) -> tuple[Any, int]:
    """Return the memory object that a `usm_ndarray` lies in, and the offset of its first element there, in bytes."""
    memory = array.usm_data
    return memory, address_of(array) - memory._pointer


def array_at(memory: Any, address: int, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None) -> Any:
    """Return a `usm_ndarray` whose first element lies at an address in a memory object; `strides` are in elements."""
    offset = (address - memory._pointer) // np.dtype(dtype).itemsize
    return usm_ndarray(shape, dtype=dtype, buffer=memory, strides=strides, offset=offset)


#: The names that libraries have in versions of dpctl and SYCL.
_LIBRARY_NAMES = {"sycl": ("libsycl.so.7", "libsycl.so.9"),
                  "dpctl": ("libDPCTLSyclInterface.so.0", "libDPCTLSyclInterface.so"), "opencl": ("libOpenCL.so.1",)}


@functools.cache
def loaded_library(name: str) -> ctypes.CDLL:
    """Return the library "sycl", "dpctl" or "opencl" that dpctl has loaded: another copy would know nothing of its
    objects.  Raises `OSError` where there is none of a known version.
    """
    dpctl.get_num_devices()  # newer versions of SYCL load OpenCL when they look for devices
    *others, last = _LIBRARY_NAMES[name]
    for other in others:
        with suppress(OSError):
            return ctypes.CDLL(other, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    return ctypes.CDLL(last, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)


#: Where a `usm_ndarray` has its address, shape and so on, in bytes: ``PyUSMArrayObject`` of the public headers
#: ``dpctl/tensor/_usmarray.h`` and ``dpnp/tensor/_usmarray.h``.  `base` is the memory, which has the queue.
_FIELDS = {"data": 24, "ndim": 32, "shape": 40, "strides": 48, "typenum": 56, "flags": 60, "base": 64}
_QUEUE_FUNCTIONS = ("DPCTLQueue_AreEq", "DPCTLQueue_Wait")
_SYSTEM_FUNCTIONS = ("clock_gettime", "sched_yield", "syscall")


def _fields_are_known(array: Any) -> bool:
    """Return whether an array in no order has its fields where they are expected; reads them from its memory."""
    def word(name: str, kind: Any = ctypes.c_int64) -> Any:
        return kind.from_address(id(array) + _FIELDS[name]).value

    if type(array).__basicsize__ < _FIELDS["base"] + 8:
        return False
    numbers = word("ndim", ctypes.c_int32), word("typenum", ctypes.c_int32)
    if numbers != (array.ndim, array.dtype.num) or word("data") != address_of(array):
        return False
    shape, strides = ((ctypes.c_int64 * array.ndim).from_address(word(name)) for name in ("shape", "strides"))
    return (tuple(shape), tuple(strides)) == (array.shape, array.strides) and int(word("base")) == id(array.usm_data)


@functools.cache
def native_interface() -> SimpleNamespace:
    """Return the addresses of C functions by their names: dpctl's of memory and queues, and some of the C library.

    With them come the bits of an array's flags that say that it is in C order and in Fortran's (`orders`), and
    `writable`, and the `fields` of arrays: their offsets by name, None where they are not as expected.
    """
    python, found = ctypes.pythonapi, SimpleNamespace()
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", python))
    content_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", python))

    def content(name: str, module: Any = array_module) -> int:
        capsule = module.__pyx_capi__[name]
        return int(content_of(capsule, name_of(capsule)))

    found.fields = _FIELDS if _fields_are_known(usm_ndarray((4, 3), dtype="float32")[::2]) else None
    found.Memory_GetQueueRef = content("Memory_GetQueueRef", dpctl.memory._memory)
    library = loaded_library("dpctl")
    for name in _QUEUE_FUNCTIONS:
        setattr(found, name, ctypes.cast(library[name], ctypes.c_void_p).value)
    for name in _SYSTEM_FUNCTIONS:
        setattr(found, name, ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value)
    *found.orders, found.writable = (
        ctypes.c_int.from_address(content(f"USM_ARRAY_{name}")).value
        for name in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITABLE"))
    return found
