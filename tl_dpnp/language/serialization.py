"""The IR as plain data, and back, spans included."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any

from tl_dpnp.errors import Span
from tl_dpnp.language import ops, types
from tl_dpnp.language.codec import Codec
from tl_dpnp.language.ops import Module

__all__ = ["from_data", "to_data"]

#: Every node of the IR.
_NODES = Codec(node for node in (*vars(ops).values(), *vars(types).values(), Span)
               if isinstance(node, type) and is_dataclass(node))


def to_data(module: Module) -> Any:
    """Return a module as lists, strings and numbers."""
    return _NODES.encode(module)


def from_data(data: Any) -> Module:
    """Return the module that `to_data` was given.  Raises `ValueError` for data that is not of that form."""
    try:
        module = _NODES.decode(data)
    except ValueError:
        module = None
    if not isinstance(module, Module):
        raise ValueError("this is no module of the IR")
    return module
