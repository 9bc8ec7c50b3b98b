"""The body of a ``foreach`` for several values of one of its indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tl_dpnp.language import ops
from tl_dpnp.lowering.rewrite import map_operation
from tl_dpnp.scalars import INDEX

__all__ = ["unroll"]


def unroll(body: Sequence[ops.Operation], variable: ops.Value, values: Iterable[int]) -> tuple[ops.Operation, ...]:
    """Return a copy of a body for each value of an index, one behind the other.

    They share what does not depend on the index: no iteration writes what another one reads, so that elements which
    several of them load are the same.
    """
    depending = _depending(body, variable)
    copies: list[ops.Operation] = []
    for number, value in enumerate(values):
        names: dict[str, ops.Operand] = {variable.name: ops.Constant(value, INDEX)}

        def use(operand: ops.Operand, names: dict[str, ops.Operand] = names) -> ops.Operand:
            return names.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

        def define(result: ops.Value, names: dict[str, ops.Operand] = names, number: int = number) -> ops.Value:
            copy = ops.Value(f"{result.name}.{number}", result.type)
            names[result.name] = copy
            return copy

        def region(inner: ops.Region) -> ops.Region:
            return ops.Region(tuple(copied(each) for each in inner))

        def copied(operation: ops.Operation) -> ops.Operation:
            return map_operation(operation, use, define, region)

        for operation in body:
            if isinstance(operation, ops.Store) or depending.intersection(_names(operation)):
                copies.append(copied(operation))
            elif number == 0:
                copies.append(operation)
    return tuple(copies)


def _depending(body: Sequence[ops.Operation], variable: ops.Value) -> set[str]:
    """Return the names of a value and of all that depends on it."""
    depending = {variable.name}
    for operation in body:
        if depending.intersection(_names(operation)):
            depending.update(value.name for value in operation.results)
    return depending


def _names(operation: ops.Operation) -> set[str]:
    """Return the names of the values that an instruction uses, those inside of its branches included."""
    inside = [operation, *(each for region in operation.regions for each in region.walk())]
    return {operand.name for each in inside for operand in each.operands if isinstance(operand, ops.Value)}
