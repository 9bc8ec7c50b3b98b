"""Everything that the runtime asks of dpnp, without importing it.

This is the only module that touches private parts of dpnp.  Tested with dpnp 0.15.0 and 0.20.0.  Private is
``dpnp.ndarray._array_obj``, the `usm_ndarray` that holds the data; `dpnp.get_usm_ndarray` gives the same in ten times
the time, and subclasses may make it a property that computes the data when it is asked for.  In dpnp 0.20 it is a slot,
the only one: arrays have no other attributes, and there are no weak references to them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any

from tl_dpnp.runtime.sycl.tensor_adapter import usm_ndarray

__all__ = ["ARRAY_ATTRIBUTE", "is_dpnp_array", "is_plain_dpnp_array", "usm_array_of", "usm_arrays_of"]


#: Where a dpnp array has its `usm_ndarray`.
ARRAY_ATTRIBUTE = "_array_obj"


def is_plain_dpnp_array(value: object) -> bool:
    """Return whether `value` is a dpnp array itself, and of no class that is derived from that."""
    dpnp = sys.modules.get("dpnp")
    return dpnp is not None and type(value) is dpnp.ndarray


def is_dpnp_array(value: object) -> bool:
    """Return whether `value` is a dpnp array; none is while dpnp has not been imported."""
    dpnp = sys.modules.get("dpnp")
    return dpnp is not None and isinstance(value, dpnp.ndarray)


def usm_array_of(array: Any) -> Any:
    """Return the `usm_ndarray` of a dpnp array."""
    return array._array_obj


def usm_arrays_of(arrays: Sequence[Any]) -> list[Any]:
    """Return the `usm_ndarray` of each array; raises `AttributeError` for any but those of dpnp and dpctl."""
    return [array if type(array) is usm_ndarray else array._array_obj for array in arrays]


def dpnp_array_of(array: Any) -> Any:
    """Return the dpnp array that holds a `usm_ndarray`; `dpnp.asarray` does so in a hundred times the time."""
    dpnp = sys.modules["dpnp"]
    result = object.__new__(dpnp.ndarray)
    result._array_obj = array
    return result


@functools.cache
def strides_are_bytes() -> bool:
    """Return whether dpnp's arrays have their strides in bytes, as those of 0.20, and not in elements."""
    return bool(dpnp_array_of(usm_ndarray((2,), dtype="i2")).strides == (2,))


def reverses_floor_division(kind: type) -> bool:
    """Return whether ``number // array`` is ``array // number`` for dpnp's class of arrays, as in 0.15.

    The code of the method is run with a function in the place of dpnp's.
    """
    given: list[object] = []
    dpnp = SimpleNamespace(floor_divide=lambda *arguments: given.extend(arguments))
    FunctionType(vars(kind)["__rfloordiv__"].__code__, {"dpnp": dpnp})("array", "number")
    return given == ["array", "number"]


def content_slot(kind: type) -> Any:
    """Return the descriptor of the place where dpnp's class of arrays has its `usm_ndarray`, if that is a slot."""
    return vars(kind).get(ARRAY_ATTRIBUTE)


def become_plain(array: Any, content: Any, names: Iterable[str]) -> None:
    """Turn an array of a subclass without slots into a `dpnp.ndarray` itself, which holds a `usm_ndarray` and has no
    attributes of some names."""
    dpnp = sys.modules["dpnp"]
    for name in names if hasattr(array, "__dict__") else ():
        array.__dict__.pop(name, None)
    array.__class__ = dpnp.ndarray
    array._array_obj = content
