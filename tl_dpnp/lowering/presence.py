"""Programs that ask whether arrays were given, as programs for calls that give just these.

Which arguments a call gives is known before its kernel is chosen: what asks for it becomes a constant, and what is done
only with an array that is not there goes, with its parameter.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from tl_dpnp.errors import Diagnostic, UnsupportedError
from tl_dpnp.language import ops
from tl_dpnp.lowering.canonicalize import fold_constants, remove_dead_code, rename_uniquely
from tl_dpnp.lowering.rewrite import map_operation, root_of, roots
from tl_dpnp.scalars import I1

__all__ = ["without"]


def without(function: ops.Function, absent: Set[str]) -> ops.Function:
    """Return a function that does what a verified one does in calls that give no arrays for the parameters `absent`.

    It does not have these.  Raises `UnsupportedError` where it uses one of them under a condition that is known at run
    time only.
    """
    function = rename_uniquely(function)
    root = roots(function)
    known = {operation.result.name: ops.Constant(root_of(operation.source, root) not in absent, I1)
             for operation in function.body.walk() if isinstance(operation, ops.Associated)}

    def use(operand: ops.Operand) -> ops.Operand:
        return known.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

    def rewritten(region: ops.Region) -> ops.Region:
        return ops.Region(tuple(map_operation(operation, use, lambda value: value, rewritten) for operation in region
                                if not isinstance(operation, ops.Associated)))

    function = remove_dead_code(fold_constants(replace(function, body=rewritten(function.body))))
    for operation in function.body.walk():
        for operand in operation.operands:
            if isinstance(operand, ops.Value) and operand.name in absent:
                message = f"{operand} is None, and @{function.name} uses it where that is not known to be ruled out"
                hint = f"use it inside an if whose condition is that {operand} is associated"
                raise UnsupportedError(message, [Diagnostic(message, operation.span, hint)])
    return replace(
        function, parameters=tuple(each for each in function.parameters if each.name not in absent),
        assertions=tuple(each for each in function.assertions if each.parameter not in absent))
