"""What the names of a text stand for at one place: values and named constants, with what was annotated of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tl_dpnp.errors import Span
from tl_dpnp.language.ir import Operand, Operation, Value
from tl_dpnp.language.types import MemrefType, Type

__all__ = ["Entry", "Scopes"]


class Entry(NamedTuple):
    """What a name stands for: a value, or the constant that a ``constant`` gave the name.

    `declared` is the type that later annotations repeat: that of the dialect 0.4 may leave strides open that are known.
    """

    operand: Operand
    span: Span
    declared: Type
    is_local: bool = False


class Scopes:
    """The names that are visible, in the regions around a place."""

    def __init__(self) -> None:
        self.regions: list[dict[str, Entry]] = [{}]

    def find(self, name: str) -> Entry | None:
        """Return what a name stands for, None if it is not visible."""
        for scope in reversed(self.regions):
            if name in scope:
                return scope[name]
        return None

    def define(self, name: str, entry: Entry) -> None:
        """Make a name visible in the innermost region."""
        self.regions[-1][name] = entry

    def enter(self, values: Iterable[Value]) -> None:
        """Begin a region in which `values` are visible."""
        self.regions.append({})
        for value in values:
            self.define(value.name, Entry(value, value.span, value.type))

    def leave(self) -> None:
        """End the innermost region."""
        self.regions.pop()

    def is_local(self, operation: Operation) -> bool:
        """Return whether the result of an operation is in local memory: that of an alloca, and its views."""
        if not any(isinstance(value.type, MemrefType) for value in operation.results):
            return False
        source = operation.viewed
        if source is None:
            return True
        entry = self.find(source.name)
        return entry is not None and entry.is_local
