"""What an annotation may say: of an operand, its type; of a result, its type with strides left open.

Source: language 0.4, sections "Annotations told apart by the operand's type" and "Views".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lark import Tree

from tl_dpnp.language.ir import Operation, Slice, Value
from tl_dpnp.language.source import Node
from tl_dpnp.language.type_rules import cast_line, same_type
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType, Type
from tl_dpnp.scalars import I1, ScalarType

__all__ = ["agreement_hint", "may_be_annotated", "type_for", "with_names"]


def agreement_hint(name: str, own: Type, annotation: Type, is_written: bool) -> str:
    """Return what to write where a value is annotated with another type than its own.

    `is_written` is false for the bounds of a loop whose type is left out.
    """
    match own, annotation:
        case ScalarType(), ScalarType() if not own.is_complex or annotation.is_complex or annotation == I1:
            cast = f"write {cast_line(Value(name[1:], own), annotation)} before, and use that"
            if not is_written and not own.is_integer:
                return cast
            return f"write {own if is_written else f': {own} behind the bounds'}; or {cast}"
        case GroupType(), MemrefType() | ScalarType():
            return f"a group gives its memrefs by load: %m = load {name}[...] : {own}"
        case MemrefType(), ScalarType():
            return f"a memref gives its elements by load: %x = load {name}[...] : {own}"
        case CooperativeMatrixType(use=use), CooperativeMatrixType(use=other) if use != other:
            return f"use a value of type {annotation}; products of matrices are cooperative_matrix_mul_add"
        case _, ScalarType() | MemrefType() | GroupType() if type(own) is type(annotation):
            return f"write {own}"
    return f"use a value of type {annotation}"


def with_names(operation: Operation, named: Mapping[int, Value]) -> Operation:
    """Return an operation in which named constants among lists of operands are values again."""

    def renamed(entry: Any) -> Any:
        match entry:
            case Slice():
                return replace(entry, offset=renamed(entry.offset), size=renamed(entry.size))
            case tuple():
                return tuple(map(renamed, entry))
        return named.get(id(entry), entry)

    lists = {name: value for name, value in vars(operation).items() if name[0] != "_" and isinstance(value, tuple)}
    return replace(operation, **{name: renamed(value) for name, value in lists.items()})


def may_be_annotated(computed: Type, annotation: Type) -> bool:
    """Return whether an annotation of the dialect 0.4 is the type of a result, or that with strides left open."""
    if not isinstance(computed, MemrefType) or not isinstance(annotation, MemrefType):
        return same_type(computed, annotation)
    strides = zip(annotation.strides, computed.strides, strict=False)
    return (computed.element, computed.shape) == (annotation.element, annotation.shape) and all(
        stride is None or stride == own for stride, own in strides
    )


def type_for(node: Node) -> str:
    """Return a type that a constant may have, for a hint."""
    if isinstance(node, Tree):
        return "c32"
    return {"INTEGER_CONSTANT": "index", "BOOLEAN_CONSTANT": "bool"}.get(node.type, "f32")
