"""Helpers for passes over the IR: rebuild an operation with other operands, and find the memory a value refers to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from tl_dpnp.language import ops

__all__ = ["map_operation", "replace_body", "root_of", "roots", "substitute"]

_Operation = TypeVar("_Operation", bound=ops.Operation)


def map_operation(
    operation: _Operation,
    use: Callable[[ops.Operand], ops.Operand],
    define: Callable[[ops.Value], ops.Value],
    region: Callable[[ops.Region], ops.Region],
) -> _Operation:
    """Return `operation` with its uses, its definitions and its regions replaced."""
    defined = {id(result) for result in operation.results}
    variable = getattr(operation, "variable", None)
    if variable is not None:
        defined.add(id(variable))

    def convert(entry: Any) -> Any:
        match entry:
            case ops.Value():
                return define(entry) if id(entry) in defined else use(entry)
            case ops.Constant():
                return use(entry)
            case ops.Region():
                return region(entry)
            case ops.Slice():
                return replace(entry, offset=use(entry.offset), size=None if entry.size is None else use(entry.size))
            case tuple():
                return tuple(convert(part) for part in entry)
            case _:
                return entry

    # Definitions come before regions, so that a region sees the names that its operation defines.
    ordered = sorted(fields(operation), key=lambda f: isinstance(getattr(operation, f.name), ops.Region))
    return replace(operation, **{f.name: convert(getattr(operation, f.name)) for f in ordered if f.name != "span"})


def substitute(operation: _Operation, values: Mapping[str, ops.Operand]) -> _Operation:
    """Return `operation`, nested regions included, with values replaced by name."""
    def use(operand: ops.Operand) -> ops.Operand:
        return values.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

    def region(body: ops.Region) -> ops.Region:
        return ops.Region(tuple(substitute(inner, values) for inner in body))

    return map_operation(operation, use, lambda value: value, region)


def replace_body(function: ops.Function, operations: Iterable[ops.Operation]) -> ops.Function:
    """Return `function` with another body."""
    return replace(function, body=ops.Region(tuple(operations)))


def roots(function: ops.Function) -> dict[str, str]:
    """Map each memref and group value to the parameter or temporary whose memory it refers to.

    A memref that is loaded from a group refers to the group's memory, whichever element it is.
    """
    found = {p.name: p.name for p in function.parameters if not isinstance(p.type, ops.ScalarType)}
    for operation in function.body.walk():
        match operation:
            case ops.Alloca(result=result):
                found[result.name] = result.name
            case ops.Expand() | ops.Fuse() | ops.Subview():
                found[operation.result.name] = found[operation.source.name]
            case ops.Load(source=source, result=result) if isinstance(result.type, ops.MemrefType):
                found[result.name] = found[source.name]
            case _:
                pass
    return found


def root_of(value: ops.Operand, known: Mapping[str, str]) -> str:
    """Return the root of a memref value."""
    assert isinstance(value, ops.Value)
    return known[value.name]
