"""Whether the strides of an array fit the layout of a memref; cache lines.

Mode i of the memref is axis i of the array; strides count elements.  The language's layouts are column-major:
1 ≤ S(1) and S(i−1)·s(i−1) ≤ S(i) (tensor language reference, section "Strided layout").
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tl_dpnp.language.types import MemrefType
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["Misfit", "aligned", "element_layout", "fitted_strides", "sizes_in_elements"]



class Misfit(Exception):
    """The strides do not fit; the text says which and why."""


def aligned(size: int) -> int:
    """Return a number of bytes rounded up to whole cache lines."""
    return -(-size // CACHE_LINE) * CACHE_LINE


def sizes_in_elements(shape: tuple[int, ...], per_byte: int) -> tuple[int, ...]:
    """Return the sizes of an array whose bytes each hold `per_byte` elements along axis 0."""
    return shape if per_byte == 1 or not shape else (shape[0] * per_byte, *shape[1:])


def element_layout(
    memref: MemrefType, shape: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes and strides, in elements of the memref, of an array.

    They are the array's own but for integers below 8 bits, several of which share a byte along axis 0.
    """
    per_byte = memref.element.per_byte
    if per_byte == 1 or not shape:
        return tuple(shape), tuple(strides)
    first = 1 if shape[0] <= 1 or strides[0] == 1 else strides[0] * per_byte
    return sizes_in_elements(tuple(shape), per_byte), (first, *(stride * per_byte for stride in strides[1:]))


def fitted_strides(
    memref: MemrefType, shape: Sequence[int], strides: Sequence[int], repeatable: Collection[int] = ()
) -> tuple[int, ...]:
    """Return the strides that a kernel may use for an array of `shape` and `strides`.

    They are the array's own, except where they mean nothing: an axis of size 1 and every axis of an empty array may
    have any stride, and get the declared one or else the smallest that the layout allows.  Modes that are `repeatable`
    may have the stride 0 where none is declared: the array has the same elements for each index.  Raises `Misfit`.
    """
    result: list[int] = []
    required = 1
    for mode, (size, stride, declared) in enumerate(zip(shape, strides, memref.strides, strict=True)):
        if size == 1 or 0 in shape:
            result.append(required if declared is None else declared)
            required = max(1, required * size)
            continue
        if declared is not None and stride != declared:
            raise Misfit(f"the stride of axis {mode} is {stride}, the layout asks for {declared}")
        if stride == 0 and declared is None and mode in repeatable:
            result.append(0)
            continue
        if stride < required:
            what = "1" if required == 1 else f"{required}, the extent of the axes before it"
            raise Misfit(f"the stride of axis {mode} is {stride}; column-major layout asks for at least {what}")
        result.append(stride)
        required = stride * size
    return tuple(result)
