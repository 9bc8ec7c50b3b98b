"""Sizes and strides that a call has, in place of those that a function leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.types import MemrefType
from tl_dpnp.language.verifier import find_errors
from tl_dpnp.lowering.rewrite import map_operation
from tl_dpnp.scalars import INDEX

__all__ = ["specialize"]


def specialize(function: ops.Function, types: Mapping[str, MemrefType]) -> ops.Function | None:
    """Return a verified function with other types of some parameters; it computes the same for such arguments.

    Types of views follow those of the parameters, and sizes that are then known are constants.  None where the function
    is not defined for such arguments.
    """
    parameters = tuple(replace(value, type=types.get(value.name, value.type)) for value in function.parameters)
    try:
        body = ops.Region(tuple(_retyped(function.body, {value.name: value for value in parameters})))
    except RuleError:
        return None
    specialized = replace(function, parameters=parameters, body=body)
    return None if find_errors(ops.Module((specialized,))) else specialized


def _retyped(region: ops.Region, outer: Mapping[str, ops.Operand]) -> Iterator[ops.Operation]:
    visible = dict(outer)

    def use(operand: ops.Operand) -> ops.Operand:
        return visible.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

    for operation in region:
        inner = dict(visible)
        for hidden in operation.loop_variables:
            inner.pop(hidden.name, None)

        def nested(body: ops.Region, inner: Mapping[str, ops.Operand] = inner) -> ops.Region:
            return ops.Region(tuple(_retyped(body, inner)))

        changed = map_operation(operation, use, lambda value: value, nested)
        for result in changed.results:
            visible.pop(result.name, None)
        if isinstance(changed, ops.SizeOf) and changed.known is not None:
            visible[changed.result.name] = ops.Constant(changed.known, INDEX)
            continue
        type_ = changed.result_type()
        if isinstance(type_, MemrefType):
            (old,) = changed.results
            result = replace(old, type=type_)
            changed = _with_result(changed, result)
            visible[result.name] = result
        yield changed


def _with_result(operation: ops.Operation, result: ops.Value) -> ops.Operation:
    return map_operation(operation, lambda operand: operand, lambda _: result, lambda body: body)
