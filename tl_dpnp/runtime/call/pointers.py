"""Arrays of pointers on a device that stand for groups, as the batched functions of cuBLAS take them.

Source: cuBLAS Library reference, section "cublas<t>gemmBatched()": ``Aarray`` is an array of pointers in the memory of
the device, one for each matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tl_dpnp.errors import LayoutError, TLTypeError
from tl_dpnp.language.types import GroupType
from tl_dpnp.runtime.call.arguments import PointersArgument
from tl_dpnp.runtime.call.arrays import ArrayKind, NotAnArray
from tl_dpnp.runtime.call.group import Group

if TYPE_CHECKING:
    from tl_dpnp.runtime.call.binding import Binding

__all__ = ["are_pointers", "pointers_argument"]

#: Types of elements that hold a pointer.
_DTYPES = tuple(map(np.dtype, ("int64", "uint64")))


def are_pointers(kind: ArrayKind, argument: Any) -> bool:
    """Whether what was given for a group would be an array of pointers, and no group or list of arrays."""
    return kind.takes_pointers and not isinstance(argument, Group | list | tuple) and (
        hasattr(type(argument), "__cuda_array_interface__") or hasattr(type(argument), "__dlpack__"))


def pointers_argument(binding: Binding, position: int, group: GroupType, argument: Any) -> PointersArgument:
    """Return an argument for a group that is an array of pointers; what they point to is not looked at.

    Raises `TLTypeError` for another dtype or number of axes and for a group whose matrices have sizes or strides that
    only the call knows, which pointers do not say; `LayoutError` for gaps between the pointers.
    """
    parameter = binding.parameters[position]
    memref = group.memref
    try:
        view = binding.kind.view_of(argument)
    except NotAnArray as problem:
        message = f"{parameter} takes a list of arrays or a vector of pointers, it was given {problem.what}"
        raise binding.error(TLTypeError, position, message, problem.hint) from None
    if view.dtype not in _DTYPES or len(view.shape) != 1:
        raise binding.error(
            TLTypeError, position, f"{parameter} takes a list of arrays, or a vector of int64 or uint64 with their "
            f"addresses, it was given one array of {view.dtype} and shape {view.shape}",
            "pass a list of arrays, tl_dpnp.group(arrays) or a vector of addresses")
    if view.shape[0] > 1 and view.strides != (1,):
        raise binding.error(LayoutError, position, f"{parameter} takes pointers one after another, those that it was "
                            f"given are {view.strides[0]} elements apart", "copy them: pointers.contiguous()"
                            if hasattr(argument, "contiguous") else "copy them: pointers.copy()")
    if None in (*memref.shape, *memref.strides):
        raise binding.error(TLTypeError, position, f"{parameter} leaves sizes or strides of its arrays open, which "
                            "pointers do not say", "declare them, or pass a list of arrays")
    return PointersArgument(view, _known(memref.shape))


def _known(sizes: Sequence[int | None]) -> tuple[int, ...]:
    return tuple(size for size in sizes if size is not None)
