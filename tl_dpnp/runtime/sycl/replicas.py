"""Copies of arrays in USM, for tuning."""

from __future__ import annotations

from typing import Any

import dpctl.memory

from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.call.replicas import Replicas
from tl_dpnp.runtime.sycl.arrays import USM_ARRAYS
from tl_dpnp.runtime.sycl.dpctl_adapter import allocation_of, wait_for
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray

__all__ = ["UsmReplicas"]


class UsmReplicas(Replicas):
    """See `Replicas`."""

    kind = USM_ARRAYS

    def allocate(self, size: int, queue: Any) -> Any:
        """Return memory of the device."""
        return dpctl.memory.MemoryUSMDevice(size, queue=queue)

    def replica(self, memory: Any, view: ArrayView, start: int, offset: int) -> Any:
        """Return a copy as a `usm_ndarray`."""
        origin, distance = allocation_of(view.array)
        size = view.dtype.itemsize

        def at(memory: Any, first: int) -> Any:
            return usm_ndarray(view.shape, dtype=view.dtype, strides=view.strides, buffer=memory, offset=first)

        copy = at(memory, start // size)
        if 0 not in view.shape:
            at(memory, start // size + offset)[...] = at(origin, distance // size + offset)
        return copy

    def duplicate(self, source: Any, target: Any) -> None:
        """Copy on the device."""
        target.copy_from_device(source)

    def finish(self, queue: Any) -> None:
        """Wait for the queue."""
        wait_for(queue)
