"""Arrays that stand for others while a function is compiled ahead of its first call."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tl_dpnp.errors import TLTypeError
from tl_dpnp.graph.extents import reach
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import (
    WHERE,
    Content,
    array_around,
    array_facts,
    content_of,
    element_strides_of,
    first_element,
    is_writable,
    maker,
    viewed,
    xp,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["ArraySpec", "may_have_effects", "placeholders", "spec", "stand_in"]


@dataclass(frozen=True)
class ArraySpec:
    """The shape, dtype and place of an array that is not there; made by `tl_dpnp.spec`."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str = "C"
    where: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:
        more = [f"order={self.order!r}"] * (self.order != "C") + [f"{name}={value!r}" for name, value in self.where]
        return f"tl_dpnp.spec({', '.join([str(self.shape), repr(self.dtype.name), *more])})"

    def make(self) -> Any:
        """Return a new dpnp array of the kind."""
        array = xp.empty(self.shape, dtype=self.dtype, order=self.order, **dict(self.where))
        usm = content_of(array)
        _fill(usm, usm)
        return array


def spec(shape: Sequence[int] | int, dtype: DTypeLike, *, order: str = "C", **where: Any) -> ArraySpec:
    """Describe an array by its shape, in elements, and dtype, for `warmup` of a fused function.

    `order` is the layout in memory, ``"C"`` or ``"F"``.  `where` is what ``dpnp.empty`` takes: ``device``, ``usm_type``
    or ``sycl_queue``.  Raises `TLTypeError` for what is no shape, dtype, order or place.
    """
    try:
        sizes = tuple(map(operator.index, shape if isinstance(shape, Sequence) else (shape,)))
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        raise TLTypeError(f"shape={shape!r} is no sequence of sizes")
    try:
        element = np.dtype(dtype)
    except TypeError as problem:
        raise TLTypeError(f"dtype={dtype!r} is not understood: {problem}") from None
    if order not in ("C", "F"):
        raise TLTypeError(f"order={order!r} is not understood: it takes 'C' or 'F'")
    for name in where:
        if name not in WHERE:
            raise TLTypeError(f"spec() got an unexpected argument {name!r}: it takes shape, dtype, order, "
                              f"{', '.join(WHERE)}")
    return ArraySpec(sizes, element, order, tuple(where.items()))


def stand_in(array: Any) -> Any:
    """Return a content like another one in all but its contents, in memory of its own."""
    strides, (kind, queue) = element_strides_of(array), array_facts(array)[3:5]
    low, high = reach(array.shape, strides)
    memory = maker((high - low + 1 if array.size else 0,), array.dtype, kind)(queue)
    result = viewed(memory, array.shape, array.dtype, strides, -low if array.size else 0)
    _fill(memory, result)
    if not is_writable(array):
        result.flags.writable = False
    return result


def _fill(memory: Any, array: Any) -> None:
    """Fill memory and the array in it with values that do no harm.

    Integers are 0, since they may be indices, and floats 1, with 2 on the diagonals of square matrices, which have
    inverses and roots then.
    """
    is_float = array.dtype.kind in "fc"
    array_around(memory)[...] = 1 if is_float else 0
    if is_float and array.ndim >= 2 and array.shape[-1] == array.shape[-2] and 0 < array.size <= memory.size:
        *others, row, column = element_strides_of(array)
        diagonal = viewed(array, array.shape[:-1], array.dtype, (*others, row + column),
                          first_element(array_facts(array)))
        array_around(diagonal)[...] = 2


def placeholders(value: Any, made: dict[int, Any]) -> Any:
    """Return a value with new arrays for arrays and specs, also in lists, tuples and dicts.

    An array, list or dict that occurs twice is one twice; `made` has those that were met.
    """
    kind: Any = type(value)
    if id(value) in made:
        return made[id(value)]
    if kind is ArraySpec:
        return value.make()
    if kind is xp.ndarray or kind is Content:
        made[id(value)] = stand_in(value) if kind is Content else array_around(stand_in(content_of(value)))
        return made[id(value)]
    if kind is list:
        parts: list[Any] = []
        made[id(value)] = parts  # known before what is in it, which may be itself
        parts += [placeholders(part, made) for part in value]
        return parts
    if kind is tuple:
        return tuple([placeholders(part, made) for part in value])
    if kind is dict:
        items: dict[Any, Any] = {}
        made[id(value)] = items
        items.update({key: placeholders(part, made) for key, part in value.items()})
        return items
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return kind._make([placeholders(part, made) for part in value])
    return value


def may_have_effects(name: str, arguments: Any) -> bool:
    """Return whether a call of dpnp may do more than compute: draw random numbers, run functions, read files."""
    if isinstance(arguments, list | tuple):
        return name.startswith("random.") or any(may_have_effects(name, argument) for argument in arguments)
    runs = callable(arguments) and not isinstance(arguments, type)
    return runs or hasattr(arguments, "__next__") or hasattr(arguments, "read")
