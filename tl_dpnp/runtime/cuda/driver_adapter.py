"""The one place that touches CUDA's driver, through cuda-bindings.

Nothing of that is private, but every status that it returns is checked here.  Devices are numbered as the driver
numbers them; their primary contexts are used, which CuPy, PyTorch and Numba use as well.
Source: CUDA Driver API reference.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from cuda.bindings import driver

from tl_dpnp.errors import TLError, TLTypeError, UnsupportedError

__all__ = [
    "CompletedEvent", "Event", "ExecutableGraph", "Function", "Memory", "Parameters", "attributes", "context_address",
    "copy", "current", "device_count", "device_name", "driver_version", "elapsed", "function_address", "hold",
    "is_capturing", "ordinal_of", "synchronize", "tensor_map",
]

#: Types of elements in tensor maps, whose size in bytes is `_MAP_BYTES`.
_MAP_TYPES = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "tf32": "TFLOAT32"}
_MAP_BYTES = 128
#: Functions are asked for as of CUDA 12.0.
_INTERFACE_VERSION = 12000
_NOT_CAPTURED = driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
_SUCCESS = driver.CUresult.CUDA_SUCCESS
#: What a launch from a thread returns that has not used CUDA before.
_NO_CONTEXT = (driver.CUresult.CUDA_ERROR_INVALID_CONTEXT, driver.CUresult.CUDA_ERROR_NOT_INITIALIZED)


def _check(result: tuple[Any, ...]) -> Any:
    """Return what a call of the driver returned besides its status; raises `TLError` unless that is success."""
    if result[0] != _SUCCESS:
        _, name = driver.cuGetErrorName(result[0])
        _, text = driver.cuGetErrorString(result[0])
        raise TLError(f"CUDA's driver: {text.decode()} ({name.decode()})")
    return result[1] if len(result) == 2 else result[1:]


@functools.cache
def device_count() -> int:
    """Return how many CUDA devices there are: 0 without a driver."""
    try:
        if driver.cuInit(0)[0] != _SUCCESS:
            return 0
    except Exception as error:  # cuda-bindings has an exception of its own where there is no driver's library
        if type(error).__name__ != "DynamicLibNotFoundError" and not isinstance(error, RuntimeError):
            raise
        return 0
    return int(_check(driver.cuDeviceGetCount()))


def driver_version() -> str:
    """Return the CUDA version that the driver is for: "13.0"."""
    number = int(_check(driver.cuDriverGetVersion()))
    return f"{number // 1000}.{number % 1000 // 10}"


def device_name(ordinal: int) -> str:
    """Return the name of a device."""
    return str(_check(driver.cuDeviceGetName(256, driver.CUdevice(ordinal))).split(b"\0")[0].decode())


def attributes(ordinal: int, *names: str) -> list[int]:
    """Return attributes of a device by the end of their names in ``CUdevice_attribute``."""
    device = driver.CUdevice(ordinal)
    every = [getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}") for name in names]
    return [int(_check(driver.cuDeviceGetAttribute(attribute, device))) for attribute in every]


def ordinal_of(address: int) -> int:
    """Return the device that an address belongs to."""
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(_check(driver.cuPointerGetAttribute(attribute, address))) if address else 0


@functools.cache
def _context(ordinal: int) -> Any:
    """Return the primary context of a device, kept for good."""
    if ordinal >= device_count():
        raise UnsupportedError(f"there is no CUDA device {ordinal}: the driver finds {device_count()}")
    return _check(driver.cuDevicePrimaryCtxRetain(driver.CUdevice(ordinal)))


def context_address(ordinal: int) -> int:
    """Return the handle of the primary context of a device as an integer."""
    return int(_context(ordinal))


@functools.cache
def function_address(name: str) -> int:
    """Return the address of a function of the driver by its name in C."""
    address, _ = _check(driver.cuGetProcAddress(name.encode(), _INTERFACE_VERSION, 0))
    return int(address)


@contextmanager
def current(ordinal: int) -> Iterator[None]:
    """Make a device's context the current one."""
    _check(driver.cuCtxPushCurrent(_context(ordinal)))
    try:
        yield
    finally:
        _check(driver.cuCtxPopCurrent())


def synchronize(ordinal: int) -> None:
    """Wait for all work on a device."""
    with current(ordinal):
        _check(driver.cuCtxSynchronize())


def is_capturing(stream: int) -> bool:
    """Whether what is started on a stream becomes part of a graph."""
    return bool(_check(driver.cuStreamIsCapturing(driver.CUstream(stream))) != _NOT_CAPTURED)


def copy(ordinal: int, source: int, target: int, size: int) -> None:
    """Copy bytes between two addresses of a device, on the default stream."""
    with current(ordinal):
        _check(driver.cuMemcpyDtoD(target, source, size))


def elapsed(ordinal: int, start: Callable[[int], None]) -> float:
    """Return the seconds that the device takes for what a function starts on the default stream, which it is given."""
    with current(ordinal):
        flags = driver.CUevent_flags.CU_EVENT_DEFAULT
        begin, end = (_check(driver.cuEventCreate(flags)) for _ in range(2))
        try:
            _check(driver.cuEventRecord(begin, driver.CUstream(0)))
            start(0)
            _check(driver.cuEventRecord(end, driver.CUstream(0)))
            _check(driver.cuEventSynchronize(end))
            return float(_check(driver.cuEventElapsedTime(begin, end))) * 1e-3
        finally:
            for event in (begin, end):
                driver.cuEventDestroy(event)


def tensor_map(
    address: int, element: str, sizes: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> bytes:
    """Return the tensor map of an array: copies move boxes, with a swizzle of 128 bytes, and zeros beyond the array.

    `strides` are those of all dimensions but the first, in bytes; `sizes` and `box` are in elements.  With ``tf32`` for
    the element copies round f32.
    """
    wide, narrow = driver.cuuint64_t, driver.cuuint32_t
    map_ = _check(driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_MAP_TYPES[element]}"), len(sizes), address,
        [*map(wide, sizes)], [*map(wide, strides)], [*map(narrow, box)], [narrow(1)] * len(sizes),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,  # of more, unaligned rows bring twice as much
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    ))
    return ctypes.string_at(map_.getPtr(), _MAP_BYTES)


class Memory:
    """Memory of a device, freed with the object; the driver waits for the kernels that use it."""

    def __init__(self, ordinal: int, size: int) -> None:
        self.ordinal = ordinal
        self.size = size
        with current(ordinal):
            self.address = int(_check(driver.cuMemAlloc(size)))

    def write(self, values: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous array to the start of the memory and wait until it is there."""
        with current(self.ordinal):
            _check(driver.cuMemcpyHtoD(self.address, values.ctypes.data, values.nbytes))

    def read(self, dtype: str) -> np.ndarray[Any, Any]:
        """Return the whole memory as an array, after all work on the device."""
        result = np.empty(self.size // np.dtype(dtype).itemsize, dtype)
        with current(self.ordinal):
            _check(driver.cuCtxSynchronize())
            _check(driver.cuMemcpyDtoH(result.ctypes.data, self.address, self.size))
        return result

    def __del__(self) -> None:
        # At the end of the process the driver may be gone, and with it the memory.
        if getattr(self, "address", 0) and driver is not None:
            try:
                with current(self.ordinal):
                    driver.cuMemFree(self.address)
            except (TLError, TypeError):
                pass


class Event:
    """A point in a stream; `keep` are objects that live as long as it."""

    def __init__(self, ordinal: int, stream: int) -> None:
        self.ordinal = ordinal
        self.keep: tuple[object, ...] = ()
        with current(ordinal):
            flags = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
            self.handle = _check(driver.cuEventCreate(flags))
            _check(driver.cuEventRecord(self.handle, driver.CUstream(stream)))

    def wait(self) -> None:
        """Wait until all work before the point is done."""
        _check(driver.cuEventSynchronize(self.handle))

    def hold(self, stream: int) -> None:
        """Let a stream wait for the point."""
        _check(driver.cuStreamWaitEvent(driver.CUstream(stream), self.handle, 0))

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None and driver is not None:
            driver.cuEventDestroy(self.handle)


class CompletedEvent(Event):
    """An event of work that is done."""

    def __init__(self) -> None:
        self.handle, self.keep = None, ()

    def wait(self) -> None:
        """Return at once."""

    def hold(self, stream: int) -> None:
        """Do nothing."""


def hold(stream: int, events: Sequence[Any]) -> None:
    """Let a stream wait for events; raises `TLTypeError` for what is none."""
    for event in events:
        if not isinstance(event, Event):
            raise TLTypeError(f"depends= takes events that submit returned, not a {type(event).__name__}")
        event.hold(stream)


class ExecutableGraph:
    """What some functions start on the stream that they are given, recorded once: a CUDA graph."""

    def __init__(self, ordinal: int, starts: Sequence[Callable[[int], None]]) -> None:
        self.ordinal, self._lock, self._starts = ordinal, threading.Lock(), starts
        self.handle: Any = None
        with current(ordinal):
            stream = _check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
            try:
                # Calls of other libraries in the meantime have nothing to do with this stream.
                mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
                _check(driver.cuStreamBeginCapture(stream, mode))
                try:
                    for start in starts:
                        start(int(stream))
                finally:
                    captured = driver.cuStreamEndCapture(stream)
                graph = _check(captured)
                self.handle = _check(driver.cuGraphInstantiate(graph, 0))
                _check(driver.cuGraphDestroy(graph))
            finally:
                driver.cuStreamDestroy(stream)

    def start(self, stream: int) -> None:
        """Start everything on a stream; the driver runs the graph after itself where it is still running.

        A stream that is captured itself takes no graphs: the functions start there what they start.
        """
        if device_count() == 1 and int(driver.cuCtxGetCurrent()[1]):
            self._start(stream)
        else:
            with current(self.ordinal):
                self._start(stream)

    def _start(self, stream: int) -> None:
        queue = driver.CUstream(stream)
        if _check(driver.cuStreamIsCapturing(queue)) == _NOT_CAPTURED:
            with self._lock:
                _check(driver.cuGraphLaunch(self.handle, queue))
        else:
            for start in self._starts:
                start(stream)

    def __del__(self) -> None:
        if getattr(self, "handle", None) is not None and driver is not None:
            driver.cuGraphExecDestroy(self.handle)


class Function:
    """A kernel loaded on one device."""

    def __init__(self, cubin: bytes, entry: str, ordinal: int, local_memory: int) -> None:
        self.ordinal = ordinal
        self._clusters: dict[tuple[int, int, int], int] = {}
        with current(ordinal):
            self.module = _check(driver.cuModuleLoadData(cubin))
            self.handle = _check(driver.cuModuleGetFunction(self.module, entry.encode()))
            limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            _check(driver.cuFuncSetAttribute(self.handle, limit, local_memory))

    def blocks_per_unit(self, threads: int, local_memory: int) -> int:
        """Return how many work-groups run on a multiprocessor at the same time."""
        with current(self.ordinal):
            return int(_check(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(self.handle, threads, local_memory)))

    def clusters(self, threads: int, local_memory: int, cluster: int) -> int:
        """Return how many clusters of so many work-groups run on the device at the same time."""
        key = threads, local_memory, cluster
        if key not in self._clusters:
            with current(self.ordinal):
                config = _clustered(cluster, (threads, 1, 1), local_memory, driver.CUstream(0), cluster)
                self._clusters[key] = int(_check(driver.cuOccupancyMaxActiveClusters(self.handle, config)))
        return self._clusters[key]

    def launcher(
        self, grid: int, block: Sequence[int], local_memory: int, parameters: Parameters, cluster: int = 1
    ) -> Any:
        """Return a function that launches the kernel on a stream, given as an integer, in clusters of blocks."""
        handle, several = self.handle, device_count() > 1
        x, y, z = block
        pointers, streams = parameters.pointers, dict[int, Any]()

        def alone(queue: Any) -> Any:
            return driver.cuLaunchKernel(handle, grid, 1, 1, x, y, z, local_memory, queue, pointers, 0)

        def clustered(queue: Any) -> Any:
            return driver.cuLaunchKernelEx(_clustered(grid, block, local_memory, queue, cluster), handle, pointers, 0)

        launch = alone if cluster == 1 else clustered

        def start(stream: int) -> None:
            queue = streams.get(stream)
            if queue is None:
                queue = streams[stream] = driver.CUstream(stream)
            if several:
                with current(self.ordinal):
                    status = launch(queue)
            else:
                status = launch(queue)
                if status[0] in _NO_CONTEXT:
                    with current(self.ordinal):
                        status = launch(queue)
            if status[0] != _SUCCESS:
                _check(status)

        return start


def _clustered(grid: int, block: Sequence[int], local_memory: int, queue: Any, cluster: int) -> Any:
    """Return how a grid is launched in clusters of blocks."""
    attribute = driver.CUlaunchAttribute()
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster, 1, 1
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block
    config.sharedMemBytes, config.hStream = local_memory, queue
    config.attrs, config.numAttrs = [attribute], 1
    return config


class Parameters:
    """The arguments of a kernel in memory that the driver reads at each launch: eight bytes for each.

    After them come tensor maps, `maps` of them.
    """

    def __init__(self, values: Sequence[Any], maps: int = 0) -> None:
        #: The arguments as integers: those that are may be assigned.
        self.words = (ctypes.c_uint64 * len(values))()
        self._maps = (ctypes.c_char * (maps * _MAP_BYTES))()
        first = ctypes.addressof(self.words)
        self._views: dict[type, tuple[Any, int]] = {
            kind: ((kind * (8 // size * len(values))).from_buffer(self.words), 8 // size)
            for kind, size in ((ctypes.c_longlong, 8), (ctypes.c_double, 8), (ctypes.c_float, 4))
        }
        places = [first + 8 * place for place in range(len(values))]
        places += [ctypes.addressof(self._maps) + _MAP_BYTES * number for number in range(maps)]
        self._pointers = (ctypes.c_void_p * len(places))(*places)
        self.pointers = ctypes.addressof(self._pointers)
        self.lock = threading.RLock()
        for place, value in enumerate(values):
            if value is not None:
                self.set(place, value)

    def set(self, place: int, value: Any) -> None:
        """Write one argument: a `c_longlong`, `c_float` or `c_double`."""
        values, step = self._views[type(value)]
        values[place * step] = value.value

    def set_maps(self, maps: bytes) -> None:
        """Write the tensor maps, one after another."""
        self._maps.raw = maps
