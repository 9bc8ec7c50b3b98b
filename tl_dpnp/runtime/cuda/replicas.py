"""Copies of arrays on CUDA devices, for tuning."""

from __future__ import annotations

from typing import Any

from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.overlap import extent
from tl_dpnp.runtime.call.replicas import Replicas
from tl_dpnp.runtime.cuda import driver_adapter as driver
from tl_dpnp.runtime.cuda.arrays import CUDA_ARRAYS, CudaDevice

__all__ = ["CudaReplicas"]


class _Replica:
    """An array at an address, as other packages see it; `memory` is what it lies in."""

    def __init__(self, view: ArrayView, address: int, memory: driver.Memory) -> None:
        self.memory = memory
        size = view.dtype.itemsize
        self._interface = {
            "version": 3, "data": (address, False), "shape": view.shape, "typestr": view.dtype.str,
            "strides": tuple(stride * size for stride in view.strides),
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._interface


class CudaReplicas(Replicas):
    """See `Replicas`; a copy of an array takes all memory from its first element to its last."""

    kind = CUDA_ARRAYS

    def allocate(self, size: int, queue: CudaDevice) -> driver.Memory:
        """Return memory of the device, after all work on it: arrays may be on streams of their own."""
        driver.synchronize(queue.ordinal)
        return driver.Memory(queue.ordinal, size)

    def replica(self, memory: driver.Memory, view: ArrayView, start: int, offset: int) -> Any:
        """Return a copy with `__cuda_array_interface__`."""
        below, above = extent(view)
        if above > below:
            distance = offset * view.dtype.itemsize + below
            driver.copy(memory.ordinal, view.address + distance, memory.address + start + distance, above - below)
        return _Replica(view, memory.address + start, memory)

    def duplicate(self, source: driver.Memory, target: driver.Memory) -> None:
        """Copy on the device and wait for that."""
        driver.copy(source.ordinal, source.address, target.address, source.size)
        driver.synchronize(source.ordinal)

    def finish(self, queue: CudaDevice) -> None:
        """Wait for the device."""
        driver.synchronize(queue.ordinal)
