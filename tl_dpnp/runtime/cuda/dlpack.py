"""Arrays on CUDA devices that offer DLPack only, read by cuda.core.

Source: DLPack's Python specification (``__dlpack__``, ``__dlpack_device__``), which says what `stream` means.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tl_dpnp.runtime.call.arrays import JAX, ON_CUDA, NotAnArray, ReversedArray, dlpack_place, place_name

__all__ = ["ImportedArray", "comes_by_dlpack", "is_on_cuda"]

#: The legacy default stream, on which kernels with such arrays run: the exporter lets it wait for its own work.
_DEFAULT_STREAM = 1
_INSTEAD = "copy it to a CUDA device with its own package"


def comes_by_dlpack(kind: type) -> bool:
    """Whether arrays of a class have DLPack's methods but no ``__cuda_array_interface__``, or are JAX's."""
    if kind is ReversedArray or kind.__module__.partition(".")[0] in JAX:
        return True
    return hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__") and not hasattr(
        kind, "__cuda_array_interface__")


def is_on_cuda(array: Any) -> bool:
    """Whether an array says by DLPack that it is on a CUDA device."""
    return dlpack_place(array) in ON_CUDA


class ImportedArray:
    """An array as it was exported for one call; `strides` are in elements, `package` is where its class is from.

    Making it lets the default stream wait for what the exporter has queued; it holds what the exporter gave.  Raises
    `NotAnArray` for what is not on a CUDA device, cannot be exported or has elements that NumPy has no type for.
    """

    __slots__ = ("__weakref__", "address", "dtype", "ordinal", "package", "read_only", "shape", "strides", "_view")

    def __init__(self, array: Any) -> None:
        from cuda.core.utils import StridedMemoryView

        step = 1
        if isinstance(array, ReversedArray):
            array, step = array.array, -1
        name = f"a {type(array).__name__}"
        place = int(array.__dlpack_device__()[0])
        if place not in ON_CUDA:
            raise NotAnArray(f"{name} on {place_name(place)}", _INSTEAD)
        try:
            view = StridedMemoryView.from_dlpack(array, _DEFAULT_STREAM)
            dtype = view.dtype
        except BufferError as problem:
            raise NotAnArray(f"{name} that cannot be exported: {problem}", "export a copy") from None
        except NotImplementedError as problem:
            raise NotAnArray(f"{name} with elements that NumPy lacks: {problem}", "pip install ml_dtypes") from None
        self._view = view
        self.address, self.shape, self.dtype = view.ptr, tuple(view.shape)[::step], np.dtype(dtype)
        self.strides = tuple(view.strides)[::step]
        self.ordinal, self.read_only = view.device_id, view.readonly
        self.package = type(array).__module__.partition(".")[0]
