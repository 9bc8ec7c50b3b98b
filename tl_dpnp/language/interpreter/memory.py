"""Memrefs as strided NumPy views, so that views alias as the language says.

A memref is an array of its element's storage dtype; mode i is axis i.  Views share the array's memory.
Source: tensor language reference, sections "Alloca", "Expand", "Fuse", "Load", "Store" and "Subview".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tl_dpnp.language.interpreter.fault import BoundsFault, Fault
from tl_dpnp.language.interpreter.scalar import Array
from tl_dpnp.language.type_rules import MAXIMUM_ORDER
from tl_dpnp.language.types import MemrefType
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = [
    "Entry", "Group", "allocate", "allocate_with", "element", "expand", "fuse", "poison", "require_whole_bytes",
    "restride", "shifted", "subview",
]

#: The modes of NumPy's arrays, at most: those of the language since version 2.
_MOST_MODES: int = getattr(np, "MAXDIMS", MAXIMUM_ORDER)
#: An evaluated subview entry: an index, or (offset, size) where the size None means what is left of the mode.
Entry = int | tuple[int, int | None]


@dataclass(frozen=True)
class Group:
    """A group argument: its memrefs, already moved by the offset when they are loaded."""

    arrays: tuple[Array, ...]
    offset: int

    def load(self, index: int) -> Array:
        """Return memref `index`, its pointer moved by the group's offset."""
        if not 0 <= index < len(self.arrays):
            raise BoundsFault(f"index {index} is outside the group of {len(self.arrays)} memrefs")
        return shifted(self.arrays[index], self.offset)


def restride(array: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Return a view from the array's first element on, with strides in elements.

    Raises `Fault` for more modes than NumPy has.
    """
    if len(shape) > _MOST_MODES:
        raise Fault(f"a memref of {len(shape)} modes, which the interpreter has as an array of NumPy {np.__version__}, "
                    f"with at most {_MOST_MODES}", "use fewer modes, or NumPy 2")
    return as_strided(array, tuple(shape), tuple(stride * array.itemsize for stride in strides))


def _strides(array: Array) -> list[int]:
    """Return the array's strides in elements."""
    return [stride // array.itemsize for stride in array.strides]


def allocate(memref: MemrefType) -> Array:
    """Return fresh poisoned memory in the layout of a static memref type."""
    shape = [size for size in memref.shape if size is not None]
    strides = [stride for stride in memref.strides if stride is not None]
    assert len(shape) == len(strides) == memref.order, memref
    result = allocate_with(shape, strides, np.dtype(memref.element.storage))
    poison(_owner(result), memref.element)
    return result


def allocate_with(shape: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return fresh memory with strides in elements; no size is 0."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return restride(np.empty(extent, dtype), shape, strides)


def poison(array: Array, element_type: ScalarType) -> None:
    """Fill with what is easily seen in a result: NaN, the byte 0xCB, true."""
    if element_type.is_float or element_type.is_complex:
        array[...] = np.uint16(0x7FC0) if element_type.storage == "uint16" else np.nan
    elif element_type.is_boolean:
        array[...] = True
    else:
        array[...] = np.frombuffer(b"\xcb" * array.itemsize, array.dtype)[0]


def element(array: Array, indices: Sequence[int]) -> Array:
    """Return the order-0 view of one element."""
    for mode, (index, size) in enumerate(zip(indices, array.shape, strict=True)):
        if not 0 <= index < size:
            raise BoundsFault(f"index {index} is outside mode {mode}, whose size is {size}")
    return _select(array, indices)


def _select(array: Array, selection: Sequence[int | slice]) -> Array:
    """Return the view that NumPy's basic indexing gives; the ellipsis keeps it a view where no mode is left."""
    keys: Any = (*selection, ...)
    view: Array = array[keys]
    return view


def require_whole_bytes(view: Array, entries: Sequence[Entry], element_type: ScalarType) -> None:
    """Raise where a view of integers below 8 bits starts or ends inside a byte, along mode 0.

    `entries` are those of the subview that it was made by, if it was.
    """
    for value in (view.shape[0], *(entry[0] for entry in entries[:1] if isinstance(entry, tuple))):
        if value % element_type.per_byte:
            raise BoundsFault(f"a size or offset {value} of mode 0 is inside a byte, which holds "
                              f"{element_type.per_byte} elements of {element_type}")


def subview(array: Array, entries: Sequence[Entry]) -> Array:
    """Return the view that the entries select; an index removes its mode."""
    selection: list[int | slice] = []
    for mode, (entry, mode_size) in enumerate(zip(entries, array.shape, strict=True)):
        match entry:
            case (offset, size):
                size = mode_size - offset if size is None else size
                if offset < 0 or size < 0 or offset + size > mode_size:
                    raise BoundsFault(f"slice {offset}:{size} is outside mode {mode}, whose size is {mode_size}")
                selection.append(slice(offset, offset + size))
            case index:
                if not 0 <= index < mode_size:
                    raise BoundsFault(f"index {index} is outside mode {mode}, whose size is {mode_size}")
                selection.append(index)
    return _select(array, selection)


def expand(array: Array, mode: int, sizes: Sequence[int | None]) -> Array:
    """Return the view with one mode as several; at most one size is None and is inferred."""
    known = math.prod(size for size in sizes if size is not None)
    mode_size = array.shape[mode]
    text = " x ".join("?" if size is None else str(size) for size in sizes)
    if any(size is not None and size < 0 for size in sizes):
        raise BoundsFault(f"expand of mode {mode} to {text}: a size is negative")
    if None in sizes and (known == 0 or mode_size % known != 0):
        raise BoundsFault(f"expand of mode {mode} to {text}: {known} does not divide its size {mode_size}")
    shape = [mode_size // known if size is None else size for size in sizes]
    if math.prod(shape) != mode_size:
        raise BoundsFault(f"expand of mode {mode} to {text}: the product is not its size {mode_size}")
    old = _strides(array)
    strides = [old[mode] * math.prod(shape[:position]) for position in range(len(shape))]
    return restride(array, [*array.shape[:mode], *shape, *array.shape[mode + 1 :]],
                    [*old[:mode], *strides, *old[mode + 1 :]])


def fuse(array: Array, first: int, last: int) -> Array:
    """Return the view with the modes `first` to `last` as one, which must be adjacent in memory."""
    strides = _strides(array)
    for mode in range(first, last):
        if strides[mode] * array.shape[mode] != strides[mode + 1]:
            raise BoundsFault(
                f"fuse of modes {first} to {last}: stride {strides[mode]} times size {array.shape[mode]} of mode "
                f"{mode} is not the stride {strides[mode + 1]} of mode {mode + 1}"
            )
    return restride(array, [*array.shape[:first], math.prod(array.shape[first : last + 1]), *array.shape[last + 1 :]],
                    [*strides[: first + 1], *strides[last + 1 :]])


def parts(array: Array) -> Array:
    """Return the view of complex elements as pairs of reals, a mode in front."""
    return restride(array.real, (2, *array.shape), (1, *(2 * stride for stride in _strides(array))))


def shifted(array: Array, offset: int) -> Array:
    """Return the view whose first element lies `offset` elements after the array's, inside the same buffer.

    The buffer is the memory of the array that owns it, found through ``array.base``; what lies outside raises.
    """
    if offset == 0:
        return array
    memory = _owner(array).ravel(order="K")
    start = array.ctypes.data - memory.ctypes.data + offset * array.itemsize
    end = start + sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    if array.size and not 0 <= start <= end <= memory.nbytes - array.itemsize:
        raise BoundsFault(f"the group's offset {offset} moves a memref outside its buffer")
    return np.ndarray(array.shape, array.dtype, memory.view(np.uint8), start if array.size else 0, array.strides)


def _owner(array: Array) -> Array:
    """Return the array at the end of the chain of bases, which must be dense so that its buffer is all its own."""
    owner, base = array, array.base
    while base is not None:
        owner = base if isinstance(base, np.ndarray) else owner
        base = getattr(base, "base", None)
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        raise Fault("a group with an offset needs arrays of a dense buffer", "allocate the buffer with numpy.empty")
    return owner
