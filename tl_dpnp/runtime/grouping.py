"""Making groups of arrays on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tl_dpnp.errors import TLBindingError, TLTypeError
from tl_dpnp.runtime.call.arrays import HOST_ARRAYS
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.platform_choice import platform_of

__all__ = ["group"]


def group(arrays: Sequence[Any], *, offset: int | None = None) -> Group:
    """Make a group of `arrays` that can be passed to kernels again and again without uploading its tables.

    `arrays` is a sequence of dpnp or dpctl arrays on one queue, or of arrays on one CUDA device, each with its own
    sizes and strides where the parameter's memref type has ``?``; views count, and the sequence may be empty.  An array
    stands for the sequence of its sub-arrays along axis 0.  NumPy arrays make a group for ``target="reference"`` alone.
    The group is of the memory that they have when it is made,
    which few functions exchange, such as ``array.partition`` of dpnp and ``tensor.set_`` of PyTorch.  `offset`, in
    elements, may be negative; it takes effect with parameters of type ``group<…, offset: ?>`` (tensor language
    reference, section "Group type").  Without one it is 0, and of a group the offset that it has.

    Raises `TLTypeError` for an element that is no such array and `dpctl.utils.ExecutionPlacementError` for mixed
    queues.  Fit with a parameter's type is checked when the group is passed.
    """
    if offset is None:
        offset = arrays.offset if isinstance(arrays, Group) else 0
    if isinstance(offset, bool) or not isinstance(offset, int | np.integer):
        raise TLTypeError(f"the offset of a group is a number of elements, an int, not {offset!r}")
    if not -(1 << 63) <= offset < 1 << 63:
        raise TLBindingError(f"the offset of a group must fit 64 bits: {offset}")
    try:
        elements = list(arrays)
    except TypeError:
        raise TLTypeError(f"a group is made of a sequence of arrays, not of a {type(arrays).__name__}") from None
    on_host = bool(elements) and all(isinstance(element, np.ndarray) for element in elements)
    return Group(elements, HOST_ARRAYS if on_host else platform_of(elements).arrays, int(offset))
