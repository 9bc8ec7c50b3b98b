"""What an annotation may say: of an operand, its type; of a result, its type with strides left open.

Source: language 0.4, sections "Annotations told apart by the operand's type" and "Views".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from lark import Tree

from tl_dpnp.language.constants import convert
from tl_dpnp.language.ir import POISON, Constant, Operation, Slice, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import cast_hint, operation_errors
from tl_dpnp.language.source import Node
from tl_dpnp.language.type_rules import same_type
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = ["Shared", "Use", "may_be_annotated", "type_for", "with_names"]

#: Where a right type of operands that are annotated together could be written.
Shared = Literal["type", "bounds"] | None


@dataclass(frozen=True)
class Use:
    """The use of a value as an operand, with its own type, and the type that it is annotated with.

    `where` is the node that says so.  `shared` is what a right type would be written as for all operands that are
    annotated together: ``"type"`` instead of the annotation, ``"bounds"`` behind the bounds of a loop, or None.
    """

    name: str
    own: Type
    annotation: Type
    where: Node
    shared: Shared

    @property
    def agrees(self) -> bool:
        """Whether the value has the type that it is annotated with."""
        return self.own is self.annotation or same_type(self.own, self.annotation)

    def hint(self, operation: Operation, others: Sequence[Use]) -> str:
        """Return what to write where the types differ: another annotation only if that is right for all operands."""
        own, annotation = self.own, self.annotation
        together = [use for use in others if use.where is self.where or use.shared == self.shared == "bounds"]
        match own, annotation:
            case ScalarType(), ScalarType():
                written = {"type": str(own), "bounds": f": {own} behind the bounds"}.get(self.shared or "")
                if any(use.own != own for use in together) or not _accepts(operation, own, annotation, together):
                    written = None
                hint = cast_hint(Value(self.name[1:], own), annotation)
                return hint if written is None else f"write {written}; or {hint}"
            case GroupType(), MemrefType() | ScalarType():
                return f"a group gives its memrefs by load: %m = load {self.name}[...] : {own}"
            case MemrefType(), ScalarType():
                return f"a memref gives its elements by load: %x = load {self.name}[...] : {own}"
            case CooperativeMatrixType(use=use), CooperativeMatrixType(use=other) if use != other:
                return f"use a value of type {annotation}; products of matrices are cooperative_matrix_mul_add"
            case _, ScalarType() | MemrefType() | GroupType() if type(own) is type(annotation):
                return f"write {own}"
        return f"use a value of type {annotation}"


def _accepts(operation: Operation, type: ScalarType, annotation: ScalarType, uses: Sequence[Use]) -> bool:
    """Return whether an operation, whose operands were poisoned for their annotation, takes another type for that."""
    if operation.loop_variables:
        return type.is_integer
    names = {use.name for use in uses} | {str(result) for result in operation.results if result.type == annotation}

    def retyped(operand: Any) -> Any:
        match operand:
            case Value(name=name) if f"%{name}" in names:  # those that are annotated together, the result among them
                return replace(operand, type=type)
            case Constant() if operand.type == annotation:
                return replace(operand, value=convert(operand.value, type), type=type)
            case tuple():
                return tuple(map(retyped, operand))
        return operand

    try:
        fields = {name: retyped(value) for name, value in vars(operation).items() if name[0] != "_"}
        tried = replace(operation, **fields)
        result = tried.result_type()
        if result is not None:
            given: dict[str, Any] = {"result": replace(tried.results[0], type=result)}
            tried = replace(tried, **given)
        return any(operand.type is POISON for operand in tried.operands) or not any(operation_errors(tried))
    except RuleError:
        return False


def with_names(operation: Operation, named: Mapping[int, Value]) -> Operation:
    """Return an operation in which named constants among lists of operands are values again."""

    def renamed(entry: Any) -> Any:
        match entry:
            case Slice():
                return replace(entry, offset=renamed(entry.offset), size=renamed(entry.size))
            case tuple():
                return tuple(map(renamed, entry))
        return named.get(id(entry), entry)

    if not any(id(operand) in named for operand in operation.operands):
        return operation
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
