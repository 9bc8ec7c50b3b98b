"""Arguments to tune a kernel with where the user has none at hand: arrays of ones, of given sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import dpnp
from dpctl.memory import USMAllocationError

from tl_dpnp.errors import TLBindingError, UnsupportedError, nearest
from tl_dpnp.language.ir import Value
from tl_dpnp.language.types import GroupType, MemrefType, canonical_strides
from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray
from tl_dpnp.scalars import ScalarType

__all__ = ["sample_arguments"]

_INSTEAD = "tune from Python, with arrays of yours"
Shape = tuple[int, ...]


def sample_arguments(
    parameters: Sequence[Value], queue: Any, shapes: Mapping[str, Shape], batch: int
) -> list[Any]:
    """Return an argument for each parameter of a kernel, on a queue: scalars are 1, arrays hold ones.

    `shapes` has the sizes of arrays by the names of their parameters; all other sizes that types leave open are
    `batch`, and so are the lengths of groups.  Raises `TLBindingError` for shapes that do not fit, and
    `UnsupportedError` for arrays of integers of less than a byte.
    """
    known = [parameter.name for parameter in parameters if not isinstance(parameter.type, ScalarType)]
    for name in shapes:
        if name not in known:
            near = nearest(name, known)
            raise TLBindingError(f"there is no array %{name} to give a shape; there are "
                                 f"{', '.join(f'%{each}' for each in known)}" + (f": write {near}=" if near else ""))
    return [_argument(parameter, queue, shapes.get(parameter.name), batch) for parameter in parameters]


def _argument(parameter: Value, queue: Any, shape: Shape | None, batch: int) -> Any:
    match parameter.type:
        case MemrefType() as memref:
            return _array(parameter.name, memref, queue, shape, batch)
        case GroupType(memref=memref, length=length, offset=offset):
            if offset != 0:
                raise UnsupportedError(f"no arguments are made for %{parameter.name}, with its offset: {_INSTEAD}")
            count = batch if length is None else length
            return [_array(parameter.name, memref, queue, shape, batch) for _ in range(count)]
    return 1


def _array(name: str, memref: MemrefType, queue: Any, shape: Shape | None, batch: int) -> Any:
    if memref.element.per_byte > 1:
        raise UnsupportedError(f"no arguments are made for %{name}, of {memref.element}: {_INSTEAD}")
    found = tuple(batch if size is None else size for size in memref.shape) if shape is None else shape
    fits = len(found) == len(memref.shape) and all(
        wanted in (None, size) for wanted, size in zip(memref.shape, found, strict=True))
    if not fits:
        raise TLBindingError(f"the shape {'x'.join(map(str, found))} does not fit %{name}: {memref}")
    packed = canonical_strides(found)
    strides = tuple(size if given is None else given for given, size in zip(memref.strides, packed, strict=True))
    extent = 1 + sum((size - 1) * stride for size, stride in zip(found, strides, strict=True) if stride)
    try:
        memory = dpnp.ones(max(1, extent), dtype=memref.element.storage, sycl_queue=queue).get_array()
    except (MemoryError, USMAllocationError):
        raise TLBindingError(f"there is no memory for %{name} of shape {'x'.join(map(str, found))}") from None
    if not math.prod(found):
        strides = packed
    return usm_ndarray(found, dtype=memref.element.storage, buffer=memory, strides=strides)
