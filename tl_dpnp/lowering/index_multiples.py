"""Which integers of a function are not negative, and what they are multiples of."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from tl_dpnp.language import ops
from tl_dpnp.scalars import INDEX, ScalarType

__all__ = ["Multiple", "Multiples", "multiple_of", "multiples_in"]


class Multiple(NamedTuple):
    """A value is 0 or above, and a multiple of a number, if the values that it `assumes` are 0 or above.

    0 is a multiple of all numbers, and the only one of 0.
    """

    number: int
    assumes: frozenset[ops.Value] = frozenset()

    def with_number(self, number: int, *others: Multiple | None) -> Multiple:
        """Return what is known of a value that is computed of this one and of others."""
        return Multiple(number, self.assumes.union(*(other.assumes for other in others if other is not None)))


#: What is known of values, by their names.
Multiples = dict[str, Multiple]


def multiples_in(function: ops.Function, region: ops.Region) -> Multiples:
    """Return what is known of the values that a region of a function uses and makes; names are unique.

    Sums and products are followed in the type index only, which no size of an array exceeds: others may wrap.  What is
    assumed are values from outside of the region.
    """
    inside = {value.name for operation in region.walk()
              for value in (*operation.results, *operation.loop_variables)}
    known: Multiples = {}

    def assume(values: Iterable[ops.Value]) -> None:
        for value in values:
            if value.type == INDEX and value.name not in inside and value.name not in known:
                known[value.name] = Multiple(1, frozenset((value,)))

    assume(function.parameters)
    for operation in function.body.walk():
        match operation:
            case ops.GroupId() | ops.GroupSize() | ops.SizeOf() | ops.WorkItemPlace() | ops.WorkItemCount():
                known[operation.results[0].name] = Multiple(1)
            case ops.Arith(kind=kind, lhs=lhs, rhs=rhs, result=result) if result.type == INDEX:
                _note(known, result, _arithmetic(kind, multiple_of(lhs, known), multiple_of(rhs, known)))
            case ops.Math(kind="max", arguments=(_, ops.Constant(value=0)), result=result) if result.type == INDEX:
                known[result.name] = Multiple(1)
            case ops.Cast(operand=operand, result=result) if result.type == INDEX:
                _note(known, result, multiple_of(operand, known))
            case ops.For(variable=variable, start=start, step=step):
                first, between = multiple_of(start, known), multiple_of(step, known)
                if first is not None:
                    number = 1 if between is None else math.gcd(first.number, between.number)
                    _note(known, variable, first.with_number(number, between))
            case ops.ForeachTile():
                for start, tile, value in zip(operation.starts, operation.tiles, operation.firsts, strict=True):
                    first = multiple_of(start, known)
                    if first is not None:
                        _note(known, value, first.with_number(math.gcd(first.number, tile)))
        assume((*operation.results, *operation.loop_variables))
    return known


def multiple_of(operand: ops.Operand, known: Multiples) -> Multiple | None:
    """Return what is known of an operand; None where it may be negative, or is no integer."""
    if isinstance(operand, ops.Value):
        return known.get(operand.name)
    is_integer = isinstance(operand.type, ScalarType) and operand.type.is_integer
    return Multiple(int(operand.value.real)) if is_integer and operand.value.real >= 0 else None


def _note(known: Multiples, value: ops.Value, found: Multiple | None) -> None:
    if found is not None:
        known[value.name] = found


def _arithmetic(kind: str, left: Multiple | None, right: Multiple | None) -> Multiple | None:
    if left is None:
        return None
    if kind == "rem":
        return left.with_number(1)  # it has the sign of what is divided
    if right is None:
        return None
    match kind:
        case "add":
            return left.with_number(math.gcd(left.number, right.number), right)
        case "mul":
            return left.with_number(left.number * right.number, right)
        case "div":
            return left.with_number(1, right)
    return None
