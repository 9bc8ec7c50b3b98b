"""`isinstance` and `issubclass`: whether what they find follows from classes alone, so that a guard can look again."""

from __future__ import annotations

import abc
import types
from collections.abc import Iterator
from typing import Any

from tl_dpnp.graph.purity import is_user_code

__all__ = ["checked_classes", "is_certain", "is_decided_by_classes"]

#: Metaclasses whose checks go by bases, and by what is registered.
_CHECKS = frozenset((kind.__instancecheck__, kind.__subclasscheck__) for kind in (type, abc.ABCMeta))
_CLASS_OF_OBJECTS = vars(object)["__class__"]
#: The flag of classes that Python made, whose bases can be assigned (CPython's ``Py_TPFLAGS_HEAPTYPE``).
_MADE_BY_PYTHON = 1 << 9


def checked_classes(kinds: Any) -> Iterator[Any]:
    """Yield the classes that a class, a tuple of them or a union names; and whatever else is there."""
    if type(kinds) is tuple or type(kinds) is types.UnionType:
        for part in kinds if type(kinds) is tuple else kinds.__args__:
            yield from checked_classes(part)
    else:
        yield kinds


def is_decided_by_classes(kind: Any, base: Any) -> bool:
    """Return whether no code of the user says if `kind` counts as a subclass of `base`, or what an object's class is."""
    if not isinstance(base, type) or not isinstance(kind, type):
        return False
    metaclass = type(base)
    hook = getattr(base.__subclasshook__, "__func__", None)
    return (
        (metaclass.__instancecheck__, metaclass.__subclasscheck__) in _CHECKS
        and not (isinstance(hook, types.FunctionType) and is_user_code(hook))
        and next(vars(each)["__class__"] for each in kind.__mro__ if "__class__" in vars(each)) is _CLASS_OF_OBJECTS
    )


def is_certain(kind: type, base: type) -> bool:
    """Return whether it cannot change whether a class is a subclass of another one."""
    return kind is base or (type(base) is type and not kind.__flags__ & _MADE_BY_PYTHON)
