"""Scalar instructions on cooperative matrices: each component is computed by itself.

Source: tensor language reference 0.4, sections "Arithmetic (binary)", "Arithmetic (unary)" and "Cast".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from tl_dpnp.language.ir import Operation, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import scalar_errors
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import CooperativeMatrixType, Type

__all__ = ["matrix_errors", "may_become", "on_components"]

_Operation = TypeVar("_Operation", bound=Operation)


def on_components(operation: _Operation) -> _Operation:
    """Return the same instruction on scalars of the component types."""
    def scalar(entry: Any) -> Any:
        match entry:
            case Value(type=CooperativeMatrixType(component=component)):
                return replace(entry, type=component)
            case tuple():
                return tuple(map(scalar, entry))
        return entry

    return replace(operation, **{f.name: scalar(getattr(operation, f.name)) for f in fields(operation)
                                 if f.name != "span"})


def may_become(source: Type, target: CooperativeMatrixType) -> bool:
    """Return whether the shape of a matrix, and its use, may be those of what is computed of its components."""
    if not isinstance(source, CooperativeMatrixType) or source.shape != target.shape:
        return False
    return source.use in (target.use, "matrix_acc")


def matrix_errors(operation: Operation, name: str, *, converts: bool, keeps_use: bool) -> Iterator[RuleError]:
    """Yield what is wrong with operands and result of a scalar instruction, `name`, on matrices.

    All have one type, but where it `converts` components; where it does not keep the use, that of an operand may be
    ``matrix_acc`` and that of the result another one.
    """
    (result,) = operation.results
    if not isinstance(result.type, CooperativeMatrixType):
        yield RuleError(f"{name} of a cooperative matrix gives one, not {describe(result.type)}",
                        "annotate it with the type of a cooperative matrix")
        return
    if not converts:
        yield from scalar_errors(operation.operands, result.type, first=0)
        return
    for place, operand in enumerate(operation.operands):
        type = operand.type
        fits = may_become(type, result.type)
        if fits and keeps_use and isinstance(type, CooperativeMatrixType):
            fits = type.use == result.type.use
        if not fits:
            component = type.component if isinstance(type, CooperativeMatrixType) else result.type.component
            others = replace(result.type, component=component)
            hint = f"use a value of type {others}" if keeps_use or others.use == "matrix_acc" else (
                f"use a value of type {others} or {replace(others, use='matrix_acc')}")
            yield RuleError(f"{name} gives {describe(result.type)}, and {operand} has type {type}", hint, place)
