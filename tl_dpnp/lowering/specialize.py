"""Sizes and strides that a call has, in place of those that a function leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.language.infer import result_type
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
        for hidden in ops.variables_of(operation):
            inner.pop(hidden.name, None)

        def nested(body: ops.Region, inner: Mapping[str, ops.Operand] = inner) -> ops.Region:
            return ops.Region(tuple(_retyped(body, inner)))

        changed = map_operation(operation, use, lambda value: value, nested)
        for result in changed.results:
            visible.pop(result.name, None)
        match changed:
            case ops.SizeOf(source=source, mode=mode, result=result):
                size = ops.memref_type(source).shape[mode]
                if size is not None:
                    visible[result.name] = ops.Constant(size, INDEX)
                    continue
            case ops.Subview(result=result) | ops.Expand(result=result) | ops.Fuse(result=result):
                type_ = result_type(changed)
                assert type_ is not None
                changed = replace(changed, result=replace(result, type=type_))
                visible[result.name] = changed.result
        yield changed
