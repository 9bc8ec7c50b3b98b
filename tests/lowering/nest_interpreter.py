"""Runs a loop nest in plain Python, whatever its loops are marked as: the oracle for schedule primitives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Bound,
    Convert,
    Dimension,
    Expression,
    MultiplyAdd,
    Nest,
    Node,
    Number,
    Product,
    RoundDown,
    Scalar,
    Total,
)


def run_nest(
    nest: Nest,
    buffers: Mapping[str, np.ndarray],
    sizes: Mapping[str, int] | None = None,
    scalars: Mapping[str, float] | None = None,
) -> None:
    """Execute `nest` on arrays, one for each buffer in memory, in place."""
    sizes, scalars = sizes or {}, scalars or {}
    registers: dict[tuple[object, ...], float] = {}

    def bound(entry: Bound) -> int:
        match entry:
            case int():
                return entry
            case Dimension(name):
                return sizes[name]
            case RoundDown(size, factor):
                return bound(size) // factor * factor

    def place(access: Access, variables: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(sum(variables[name] for name in index) for index in access.indices)

    def value(expression: Expression, variables: Mapping[str, int]) -> float:
        match expression:
            case Access(buffer):
                at = place(expression, variables)
                return registers[(buffer.name, *at)] if buffer.in_registers else buffers[buffer.name][at]
            case Scalar(name):
                return scalars[name]
            case Number(number):
                return number
            case Convert(operand):
                return value(operand, variables)
            case Product(lhs, rhs):
                return value(lhs, variables) * value(rhs, variables)
            case Total(lhs, rhs):
                return value(lhs, variables) + value(rhs, variables)
            case MultiplyAdd(lhs, rhs, addend):
                return value(lhs, variables) * value(rhs, variables) + value(addend, variables)

    def execute(nodes: tuple[Node, ...], variables: Mapping[str, int]) -> None:
        for node in nodes:
            if isinstance(node, Assign):
                assert node.update == "set"
                target = place(node.target, variables)
                if node.target.buffer.in_registers:
                    registers[(node.target.buffer.name, *target)] = value(node.value, variables)
                else:
                    buffers[node.target.buffer.name][target] = value(node.value, variables)
                continue
            for counter in range(bound(node.start), bound(node.stop), node.step):
                inner = {**variables, node.variable: counter}
                if node.guard is None or sum(inner[name] for name in node.guard[0]) < bound(node.guard[1]):
                    execute(node.body, inner)

    execute(nest.body, {})
