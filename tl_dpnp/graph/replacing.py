"""`dataclasses.replace` and ``_replace`` of named tuples, followed as functions of the user are."""

from __future__ import annotations

import dataclasses
import types
from collections import namedtuple
from collections.abc import Callable
from typing import Any

__all__ = ["replacing"]

_Tuple = namedtuple("_Tuple", "")
#: The code of these methods, which is the same for all named tuples.
_REPLACE, _MAKE = _Tuple._replace.__code__, _Tuple._make.__func__.__code__  # type: ignore[attr-defined]


def replacing(function: types.FunctionType) -> Callable[..., Any] | None:
    """Return what does the same as one of these functions by means of hooks; it takes the interceptor first."""
    if function is dataclasses.replace:
        return _of_data_class
    return _of_named_tuple if function.__code__ is _REPLACE else None


def _of_data_class(hooks: Any, owner: Any, /, **changes: Any) -> Any:
    kind = type(owner)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    # All fields: variables of the class and arguments of __init__ alone are not among those that `fields` gives.
    if not fields or len(fields) != len(kind.__dataclass_fields__) or not all(field.init for field in fields):
        return hooks.foreign(dataclasses.replace)(owner, **changes)
    kept = {field.name: hooks.attribute(owner, field.name) for field in fields if field.name not in changes}
    return hooks.call(kind)(**kept, **changes)


def _of_named_tuple(hooks: Any, owner: Any, /, **changes: Any) -> Any:
    kind = type(owner)
    make = getattr(kind._make, "__func__", None)
    if getattr(make, "__code__", None) is not _MAKE or not changes.keys() <= set(kind._fields):
        return hooks.foreign(kind._replace)(owner, **changes)  # it says which names are wrong
    return tuple.__new__(kind, [
        changes[name] if name in changes else hooks.item(owner, place) for place, name in enumerate(kind._fields)
    ])
