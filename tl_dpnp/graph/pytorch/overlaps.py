"""Arguments that share memory: `torch.compile` takes code of a call without any for calls with some.

PyTorch's tracing (2.13) guards that arguments are, or are not, the same tensor, and no more: code that was compiled for
tensors with memory of their own runs with views of one memory, too, where what it writes to one is not what it reads of
another, and code for such views looks for one memory behind all.  So each way to share memory is compiled on its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import torch

__all__ = ["Sharing", "sharing"]

#: Which tensors share memory: the places of two, where the second begins, and the layouts of both in their memory.
Sharing = tuple[tuple[Any, ...], ...]


def sharing(arguments: Iterable[Any], with_same: bool = False) -> Sharing:
    """Return how tensors among arguments, and in their lists, tuples and dicts, share memory; empty where none do.

    That one is given twice counts only `with_same`.  Tensors without memory, such as those that transforms of functions
    pass on, share none.
    """
    if torch.compiler.is_compiling():
        return ()
    tensors = list(_tensors(arguments))
    if len(tensors) < 2:
        return ()
    try:
        storages = [storage for each in tensors if (storage := each.untyped_storage()).nbytes()]
        ordered = sorted([(storage.data_ptr(), storage.nbytes()) for storage in storages])
        if all(start + size <= following for (start, size), (following, _) in pairwise(ordered)):
            return ()
        ranges = [(each.data_ptr(), _extent(each)) for each in tensors]
    except (RuntimeError, NotImplementedError):
        return ()
    return tuple(
        (place, other, start - first, _layout(tensors[place]), _layout(tensors[other]))
        for place, (first, size) in enumerate(ranges)
        for other, (start, length) in enumerate(ranges[place + 1 :], place + 1)
        if (with_same or tensors[place] is not tensors[other]) and first < start + length and start < first + size
    )


def _tensors(arguments: Iterable[Any]) -> Iterator[torch.Tensor]:
    for argument in arguments:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from _tensors(argument)
        elif isinstance(argument, dict):
            yield from _tensors(argument.values())


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return where a tensor is in its memory: code for views that share one makes them anew, where they were."""
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.untyped_storage().nbytes()


def _extent(tensor: torch.Tensor) -> int:
    """Return the bytes from a tensor's first element to behind its last one; strides are not negative."""
    if not tensor.numel():
        return 0
    last: int = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    size: int = tensor.element_size()
    return (last + 1) * size
