"""Frozen dataclasses that cost little to define.

The standard library writes six functions for each and compiles them one by one, 0.3 to 0.5 ms a class: most of what it
takes to import the compiler, and half of a warm start.  Here only ``__init__`` is compiled; comparison, hash and `repr`
are closures, and what makes instances frozen is shared by all.  All else, `fields`, `replace` and ``match``, is as for
any dataclass.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


def _refuse(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({shown})"


def _comparison(names: list[str]) -> tuple[Any, Any]:
    """Return ``__eq__`` and ``__hash__`` by the values of some fields."""
    # The getter of a single name returns no tuple.
    values: Callable[[Any], Any] = (operator.attrgetter(*names) if len(names) > 1 else
                                    lambda self: tuple([getattr(self, name) for name in names]))

    def equal(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal, lambda self: hash(values(self))


def _init(cls: type) -> Any:
    """Return ``__init__`` with the fields of a class as its parameters."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    places: list[str] = []
    keywords: list[str] = []
    lines: list[str] = []
    for field in dataclasses.fields(cls):
        name, given = field.name, ""
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"], given = field.default_factory, "=_missing"
            lines.append(f" _set(self, {name!r}, _make_{name}() if {name} is _missing else {name})")
        else:
            if field.default is not dataclasses.MISSING:
                known[f"_default_{name}"], given = field.default, f"=_default_{name}"
            lines.append(f" _set(self, {name!r}, {name})")
        (keywords if field.kw_only else places).append(name + given)
    parameters = ", ".join(["self", *places, *(["*", *keywords] if keywords else [])])
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    exec("\n".join([f"def __init__({parameters}):", *(lines or [" pass"])]), known)
    known["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return known["__init__"]


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True, kw_only=False):
        """Return a dataclass, as `dataclasses.dataclass` does; see the module."""
        def made(cls):
            if not frozen or slots:
                return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq, repr=repr, kw_only=kw_only)(cls)
            own = vars(cls)
            dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            methods = {"__setattr__": _refuse, "__delattr__": _refuse, "__init__": _init(cls)}
            if repr:
                methods["__repr__"] = _repr
            if eq:
                compared = [field.name for field in dataclasses.fields(cls) if field.compare]
                methods["__eq__"], methods["__hash__"] = _comparison(compared)
            for name, method in methods.items():
                if own.get(name) is None:
                    setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)
