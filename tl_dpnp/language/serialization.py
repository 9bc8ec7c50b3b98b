"""The IR as plain data, and back: for JSON, exact, spans included, and far cheaper to read than to parse the text."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from tl_dpnp.errors import Span
from tl_dpnp.language import ops, types
from tl_dpnp.language.ops import Module
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

__all__ = ["from_data", "to_data"]

#: Every node of the IR by the name of its class, with the names of its fields.
_NODES: dict[str, tuple[Any, tuple[str, ...]]] = {
    node.__name__: (node, tuple(field.name for field in fields(node)))
    for node in (*vars(ops).values(), *vars(types).values(), Span)
    if isinstance(node, type) and is_dataclass(node)
}


def to_data(module: Module) -> Any:
    """Return a module as lists, strings and numbers: a list holds the name of a class and its fields in order."""
    return _encode(module)


def from_data(data: Any) -> Module:
    """Return the module that `to_data` was given.  Raises `ValueError` for data that is not of that form."""
    try:
        module = _decode(data)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ValueError(f"this is no module of the IR: {error}") from None
    if not isinstance(module, Module):
        raise ValueError("this is no module of the IR")
    return module


def _encode(node: Any) -> Any:
    match node:
        case None | bool() | int() | float() | str():
            return node
        case complex():
            return ["complex", node.real, node.imag]
        case ScalarType():
            return ["scalar", node.name]
        case tuple():
            return ["tuple", *map(_encode, node)]
    name = type(node).__name__
    return [name, *(_encode(getattr(node, field)) for field in _NODES[name][1])]


def _decode(data: Any) -> Any:
    if not isinstance(data, list):
        return data
    tag = data[0]
    if tag == "tuple":
        return tuple(map(_decode, data[1:]))
    if tag == "scalar":
        return SCALAR_TYPES[data[1]]
    if tag == "complex":
        return complex(data[1], data[2])
    node, names = _NODES[tag]
    return node(**dict(zip(names, map(_decode, data[1:]), strict=True)))
