"""What Python's own code finds in classes: whose methods it runs, and what `isinstance` and `issubclass` say.

Whether these follow from classes alone is asked here, so that a guard can look again.
"""

from __future__ import annotations

import abc
import types
from collections.abc import Iterator
from typing import Any

from tl_dpnp.graph.purity import is_user_code

__all__ = [
    "COMPARED", "SHOWN", "TAKEN", "checked_classes", "found_in", "has_items_of_the_user", "is_certain",
    "is_decided_by_classes", "runs_user_code",
]

#: Methods that run where objects are compared or are keys, where texts, truth values or other signs are asked for, and
#: where code in C takes an object for a number or a container.
COMPARED = frozenset("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __hash__".split())
SHOWN = frozenset("__bool__ __len__ __str__ __repr__ __format__ __neg__ __pos__ __invert__".split())
TAKEN = COMPARED | SHOWN | frozenset(
    "__abs__ __round__ __floor__ __ceil__ __trunc__ __divmod__ __rdivmod__ __pow__ __rpow__ __add__ __radd__ __mul__ "
    "__rmul__ __index__ __int__ __float__ __complex__ __bytes__ __iter__ __reversed__ __getitem__ __contains__".split())
#: Classes of functions, modules and classes themselves.
_OF_PYTHON = frozenset((types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, abc.ABCMeta))

#: Metaclasses whose checks go by bases, and by what is registered.
_CHECKS = frozenset((kind.__instancecheck__, kind.__subclasscheck__) for kind in (type, abc.ABCMeta))
_CLASS_OF_OBJECTS = vars(object)["__class__"]
#: The flag of classes that Python made, whose bases can be assigned (CPython's ``Py_TPFLAGS_HEAPTYPE``).
_MADE_BY_PYTHON = 1 << 9


def found_in(kind: type, name: str) -> Any:
    """Return what a class has by a name, None if it has nothing: no descriptor is asked."""
    for base in kind.__mro__:
        members = base.__dict__
        if name in members:
            return members[name]
    return None


def runs_user_code(kind: type, names: frozenset[str]) -> bool:
    """Return whether some methods of a class, of a metaclass or of an enumeration, are functions of the user."""
    return kind not in _OF_PYTHON and any(
        isinstance(vars(base).get(name), types.FunctionType) and is_user_code(vars(base)[name])
        for base in kind.__mro__ for name in names)


def has_items_of_the_user(kind: type) -> bool:
    """Return whether code of the user says what ``kind[key]`` is."""
    own = found_in(kind, "__class_getitem__")
    function = getattr(own, "__func__", own)
    return runs_user_code(type(kind), frozenset(("__getitem__",))) or (
        isinstance(function, types.FunctionType) and is_user_code(function))


def checked_classes(kinds: Any) -> Iterator[Any]:
    """Yield the classes that a class, a tuple of them or a union names; and whatever else is there."""
    if isinstance(kinds, tuple | types.UnionType):
        for part in kinds.__args__ if isinstance(kinds, types.UnionType) else kinds:
            yield from checked_classes(part)
    else:
        yield kinds


def is_decided_by_classes(kind: Any, base: Any) -> bool:
    """Return whether no code of the user says what class an object has, or what counts as a subclass of `base`."""
    if not isinstance(base, type) or not isinstance(kind, type):
        return False
    metaclass = type(base)
    hook = getattr(base.__subclasshook__, "__func__", None)
    return (
        (metaclass.__instancecheck__, metaclass.__subclasscheck__) in _CHECKS
        and not (isinstance(hook, types.FunctionType) and is_user_code(hook))
        and found_in(kind, "__class__") is _CLASS_OF_OBJECTS
    )


def is_certain(kind: type, base: type) -> bool:
    """Return whether it cannot change whether a class is a subclass of another one."""
    return kind is base or (type(base) is type and not kind.__flags__ & _MADE_BY_PYTHON)
