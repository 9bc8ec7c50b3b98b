"""Launches for callers that have checked everything beforehand.

The graph layer knows sizes, strides and dtypes of a call before it knows the arrays.  It prepares a launch once and
then runs it with the scalars and addresses of each call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tl_dpnp.language.types import MemrefType
from tl_dpnp.runtime.call.arguments import Argument, BoundCall, MemrefArgument, ScalarArgument
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.kernel import Kernel
from tl_dpnp.runtime.platforms import Launch

__all__ = ["InterpretedLaunch", "Shape", "prepare_launch"]


class Shape(NamedTuple):
    """What is known of an array before the call: sizes and strides (in elements) of its modes, and the dtype.

    Its first element lies `offset` bytes behind memory that is aligned for any access.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0


def prepare_launch(
    kernel: Kernel, shapes: Sequence[Shape | None], groups: int, queue: Any, like: Any = None
) -> Launch:
    """Compile `kernel` for the device of `queue` and return a launch of `groups` work-groups.

    `shapes` has an entry for each parameter, None for scalars, which come first.  The caller answers for it that
    they fit the parameters' types and that no access is out of bounds.  Where the arrays' package has a current stream,
    `like` is one of its arrays.
    """
    arguments: list[Argument] = []
    for parameter, shape in zip(kernel.parameters, shapes, strict=True):
        if shape is None:
            arguments.append(ScalarArgument())
            continue
        assert isinstance(parameter.type, MemrefType)
        view = ArrayView(like, shape.offset, shape.sizes, shape.strides, shape.dtype, queue, True)
        arguments.append(MemrefArgument(view, shape.strides))
    return kernel.prepare(BoundCall(tuple(arguments), queue, groups, is_inferred=True), queue)


class InterpretedLaunch:
    """A launch of a kernel in the interpreter, on arrays in the memory of the host."""

    queue: Any = None
    group_size: int | None = None

    def __init__(self, kernel: Kernel, shapes: Sequence[Shape | None], groups: int) -> None:
        self._kernel, self._groups = kernel, groups
        self._shapes = [shape for shape in shapes if shape is not None]
        self.binding: Any = None

    def run(self, arguments: Sequence[Any], addresses: Sequence[int]) -> None:
        """Run the kernel with scalars, and arrays whose first elements have these addresses.

        The axes of these may interleave in memory, which arguments of users must not.
        """
        self._kernel.interpret([*arguments, *map(_array_at, addresses, self._shapes)], self._groups)

    def start(self, arguments: Sequence[Any], addresses: Sequence[int], depends: Sequence[Any]) -> Any:
        """Refuse what nobody asks of the interpreter."""
        raise NotImplementedError

    fixed = start


def _array_at(address: int, shape: Shape) -> np.ndarray[Any, Any]:
    """Return the NumPy array at an address."""
    if not prod(shape.sizes):
        return np.empty(shape.sizes, shape.dtype)
    steps = [stride * shape.dtype.itemsize for stride in shape.strides]
    ways = [(size - 1) * step for size, step in zip(shape.sizes, steps, strict=True)]
    before, behind = -sum(way for way in ways if way < 0), sum(way for way in ways if way > 0)
    memory = (ctypes.c_uint8 * (before + behind + shape.dtype.itemsize)).from_address(address - before)
    buffer: Any = memory
    return np.ndarray(shape.sizes, shape.dtype, buffer, before, steps)
