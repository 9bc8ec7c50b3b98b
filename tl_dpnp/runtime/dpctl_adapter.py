"""Everything that the runtime asks of dpctl beyond its public arrays and queues.

This is the only module that touches private parts of dpctl.  Tested with dpctl 0.17.0.  Private are:

- ``usm_ndarray._pointer``: address of the first element, the offset of a view included (``usm_data._pointer`` and the
  array interface give the base of the allocation);
- ``usm_ndarray._element_offset``: elements of its allocation before the first of a view;
- ``SyclQueue._submit_keep_args_alive``: holds Python objects until events are complete, about 12 µs; returns the
  event of the host task that lets go of them.

``SyclQueue.submit_async`` is public, but what it accepts as an argument is not written down: ctypes integers and
floats do, and the address of USM memory may come as a 64-bit integer.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import dpctl
import dpctl.memory
import dpctl.program
import numpy as np
from dpctl.utils import ExecutionPlacementError

from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.runtime.platforms import DeviceTable

__all__ = [
    "ExecutionPlacementError", "KernelHandle", "SubmitError", "address_of", "allocation_of", "array_facts",
    "build_program", "completed_event", "default_queue", "element_offset", "keep_alive", "kernel_of",
    "placed_array_facts", "scratch", "turn_to_wait", "upload", "wait_for",
]

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


_turns_lock = threading.Lock()
_turns: weakref.WeakValueDictionary[int, threading.Lock] = weakref.WeakValueDictionary()


def turn_to_wait(queue: Any) -> threading.Lock:
    """Return the lock to hold while waiting for a queue; it is the same for all Python objects of one queue.

    The OpenCL runtime for CPUs crashes now and then if several threads wait for the same out-of-order queue at the
    same time: its markers, which depend on one another, release each other twice (2024.2.2).
    """
    with _turns_lock:
        return _turns.setdefault(hash(queue), threading.Lock())


def wait_for(queue: Any) -> None:
    """Wait for all that was submitted to a queue."""
    with turn_to_wait(queue):
        queue.wait()


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


def keep_alive(queue: Any, objects: Sequence[object], event: Any) -> None:
    """Hold references to `objects` until `event` is complete."""
    _tasks.add(queue, tuple(objects), event)


class _Tasks:
    """dpctl's host tasks that hold references; each takes the interpreter's lock when its event is complete.

    One that does so while the interpreter ends aborts the process, so the end waits for them.  What is submitted after
    that, by daemon threads, is waited for and keeps its references until the process is gone.
    """

    def __init__(self) -> None:
        self._pending: list[Any] = []
        self._many = 2 * _FEW
        self._ended = self._forgetting = False
        self._process = os.getpid()
        # A signal handler or a finalizer may submit, too.
        self._lock = threading.RLock()

    def add(self, queue: Any, objects: tuple[object, ...], event: Any) -> None:
        with self._lock:
            ended = self._ended
            if ended:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))
            else:
                self._pending.append(queue._submit_keep_args_alive(objects, [event]))
                if not _FEW < len(self._pending) < self._many:
                    self._forget()
        if ended:
            event.wait()

    def _forget(self) -> None:
        """Let go of those that are complete: SYCL keeps their kernels.

        A few are looked at with each that is added, many when there are twice as many as there were left the last time.
        """
        if self._forgetting:  # this is a signal handler's submit in the middle of another
            return
        self._forgetting = True
        try:
            for place in reversed(range(len(self._pending))):
                if self._pending[place].execution_status == _COMPLETE:
                    del self._pending[place]
            self._many = 2 * max(_FEW, len(self._pending))
        finally:
            self._forgetting = False

    def __len__(self) -> int:
        return len(self._pending)

    def finish(self) -> None:
        """Wait for all of them, whatever Ctrl-C says: each is as short as what it waits for."""
        if os.getpid() != self._process:  # after a fork, when nobody will ever complete them
            return
        while self._pending or not self._ended:
            try:
                with self._lock:
                    self._ended = True
                if self._pending:
                    self._pending[-1].wait()
                    self._pending.pop()
            except KeyboardInterrupt:
                continue


_COMPLETE = dpctl.event_status_type.complete
_FEW = 16
_tasks = _Tasks()
atexit.register(_tasks.finish)


def completed_event(queue: Any, depends: Sequence[Any]) -> Any:
    """Return an event that is complete as soon as `depends` are: that of a launch without work-groups."""
    return queue.submit_barrier(list(depends)) if depends else dpctl.SyclEvent()


def allocation_of(array: Any) -> tuple[Any, int]:
    """Return the memory object that a `usm_ndarray` lies in, and the offset of its first element there, in bytes."""
    memory = array.usm_data
    return memory, address_of(array) - memory._pointer
