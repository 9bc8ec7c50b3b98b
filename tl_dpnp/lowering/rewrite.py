"""Helpers for passes over the IR: rebuild an operation with other operands, and find the memory a value refers to."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.scalars import ScalarType

__all__ = ["map_operation", "replace_body", "root_of", "roots", "with_regions"]

_Operation = TypeVar("_Operation", bound=ops.Operation)


def map_operation(
    operation: _Operation,
    use: Callable[[ops.Operand], ops.Operand],
    define: Callable[[ops.Value], ops.Value],
    region: Callable[[ops.Region], ops.Region],
) -> _Operation:
    """Return `operation` with its uses, its definitions and its regions replaced."""
    defined = {id(result) for result in operation.results}
    defined.update(id(variable) for variable in operation.loop_variables)

    def convert(entry: Any) -> Any:
        match entry:
            case ops.Value():
                return define(entry) if id(entry) in defined else use(entry)
            case ops.Constant():
                return use(entry)
            case ops.Slice():
                return replace(entry, offset=use(entry.offset), size=None if entry.size is None else use(entry.size))
            case tuple():
                parts = tuple(map(convert, entry))
                return entry if all(map(operator.is_, parts, entry)) else parts
            case _:
                return entry

    entries = {name: getattr(operation, name) for name in _entries_of(type(operation))}
    # Definitions come before regions, so that a region sees the names that its operation defines.
    regions = {name: entry for name, entry in entries.items() if isinstance(entry, ops.Region)}
    new = {name: convert(entry) for name, entry in entries.items() if name not in regions}
    new.update((name, region(entry)) for name, entry in regions.items())
    return operation if all(new[name] is entry for name, entry in entries.items()) else replace(operation, **new)


_entries: dict[type[ops.Operation], tuple[str, ...]] = {}


def _entries_of(kind: type[ops.Operation]) -> tuple[str, ...]:
    if kind not in _entries:
        _entries[kind] = tuple(field.name for field in fields(kind) if field.name != "span")
    return _entries[kind]


def with_regions(operation: _Operation, regions: Sequence[ops.Region]) -> _Operation:
    """Return `operation` with other regions, in the order of `operation.regions`."""
    if not regions:
        return operation
    remaining = iter(regions)
    return map_operation(operation, lambda operand: operand, lambda value: value, lambda _: next(remaining))


def replace_body(function: ops.Function, operations: Iterable[ops.Operation]) -> ops.Function:
    """Return `function` with another body."""
    return replace(function, body=ops.Region(tuple(operations)))


def roots(function: ops.Function) -> dict[str, str]:
    """Map each memref and group value to the parameter or temporary whose memory it refers to.

    A memref that is loaded from a group refers to the group's memory, whichever element it is.
    """
    found = {p.name: p.name for p in function.parameters if not isinstance(p.type, ScalarType)}
    for operation in function.body.walk():
        for result in operation.results:
            if isinstance(result.type, MemrefType):
                found[result.name] = result.name if operation.viewed is None else found[operation.viewed.name]
    return found


def root_of(value: ops.Operand, known: Mapping[str, str]) -> str:
    """Return the root of a memref value."""
    assert isinstance(value, ops.Value)
    return known[value.name]
