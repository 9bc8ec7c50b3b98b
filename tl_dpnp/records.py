"""Dataclasses whose methods are written when they are first called.

`dataclasses.dataclass` compiles text for each method of a class as soon as there is the class.  That takes half a
millisecond, and a first compilation imports some two hundred dataclasses, few of which it compares, hashes or prints;
many it does not make either.  The classes are the same otherwise: `dataclasses.fields`, `replace` and pattern matching
work with them.  Those with slots, which are made anew, are left to `dataclasses.dataclass`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_MISSING = dataclasses.MISSING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    def dataclass(cls=None, /, *, frozen=False, eq=True, kw_only=False):
        """Make a class a dataclass; the options are those of `dataclasses.dataclass`."""
        if cls is None:
            return lambda cls: _made(cls, frozen, eq, kw_only)
        return _made(cls, frozen, eq, kw_only)


def _made(cls: type, frozen: bool, eq: bool, kw_only: bool) -> type:
    own = vars(cls)
    has_hash = own.get("__hash__") is not None or ("__hash__" in own and "__eq__" not in own)
    if own.get("__doc__") is None:  # else it would be made of the signature, in as long as a method takes
        cls.__doc__ = cls.__name__
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    _set_new(cls, "__init__", _when_called(cls, "__init__", lambda: _initializer(cls, frozen)))
    _set_new(cls, "__repr__", _representation)
    if eq:
        _set_new(cls, "__eq__", _when_called(cls, "__eq__", lambda: _comparison(cls)))
        if not has_hash:
            hashed = _when_called(cls, "__hash__", lambda: _hash(cls)) if frozen else None
            setattr(cls, "__hash__", hashed)  # noqa: B010 (a type checker knows better)
    if frozen:
        _set_new(cls, "__setattr__", _refuse_to_assign)
        _set_new(cls, "__delattr__", _refuse_to_delete)
    return cls


def _set_new(cls: type, name: str, method: Any) -> None:
    """Give a class a method, unless it defines that itself."""
    if name not in vars(cls):
        setattr(cls, name, method)


def _when_called(cls: type, name: str, write: Callable[[], Any]) -> Any:
    """Return what puts the method that `write` returns in its place when it is called, and calls that."""
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        written = write()
        setattr(cls, name, written)
        return written(self, *arguments, **named)

    method.__name__, method.__qualname__, method.__module__ = name, f"{cls.__qualname__}.{name}", cls.__module__
    return method


def _compiled(cls: type, name: str, parameters: str, lines: list[str], known: dict[str, Any]) -> Any:
    """Return a method of a class; `known` are the names that stand in its text besides its parameters."""
    namespace = {"__name__": cls.__module__, **known}
    exec(f"def {name}(self{parameters}):\n " + "\n ".join(lines or ["pass"]), namespace)
    method = namespace[name]
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    return method


def _initializer(cls: Any, frozen: bool) -> Any:
    known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": _MISSING}
    by_place: list[str] = []
    by_name: list[str] = []
    lines = []
    for field in dataclasses.fields(cls):
        name = value = field.name
        parameters = by_name if field.kw_only else by_place
        if field.default_factory is not _MISSING:
            known[f"_factory_{name}"] = field.default_factory
            value = f"_factory_{name}()"
            if field.init:
                parameters.append(f"{name}=_MISSING")
                value += f" if {name} is _MISSING else {name}"
        elif not field.init:
            continue
        elif field.default is not _MISSING:
            known[f"_default_{name}"] = field.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    listed = [*by_place, *(["*"] if by_name else []), *by_name]
    method = _compiled(cls, "__init__", "".join(f", {each}" for each in listed), lines, known)
    method.__annotations__ = {field.name: field.type for field in dataclasses.fields(cls) if field.init}
    return method


def _comparison(cls: type) -> Any:
    own, others = (_values(cls, which, lambda field: field.compare) for which in ("self", "other"))
    lines = ["if other.__class__ is self.__class__:", f"    return {own} == {others}", "return NotImplemented"]
    return _compiled(cls, "__eq__", ", other", lines, {})


def _hash(cls: type) -> Any:
    hashed = _values(cls, "self", lambda field: field.compare if field.hash is None else field.hash)
    return _compiled(cls, "__hash__", "", [f"return hash({hashed})"], {})


def _values(cls: Any, of: str, condition: Callable[[dataclasses.Field[Any]], bool]) -> str:
    """Return the text of a tuple of the fields for which a condition holds."""
    return f"({''.join(f'{of}.{field.name}, ' for field in dataclasses.fields(cls) if condition(field))})"


@recursive_repr()
def _representation(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(_described(self))})"


def _described(record: Any) -> Iterator[str]:
    for field in dataclasses.fields(record):
        if field.repr:
            yield f"{field.name}={getattr(record, field.name)!r}"


def _refuse_to_assign(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
