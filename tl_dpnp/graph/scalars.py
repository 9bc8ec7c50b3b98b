"""Scalar values in generated functions: constants and conversions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tl_dpnp.graph.nodes import ComplexParameter, Number, Parameter
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.constants import LARGEST_INTEGER
from tl_dpnp.language.ops import Constant, Value
from tl_dpnp.scalars import ScalarType

__all__ = ["constant", "converted", "counted", "number", "rounding", "select"]


def constant(b: FunctionBuilder, value: bool | int | float | complex, type: ScalarType) -> Value:
    """Return a number as an operand of `type`, rounded as an array of it would round."""
    with np.errstate(over="ignore"):
        rounded: bool | int | float | complex = np.dtype(type.storage).type(value).item()
    if type.is_integer and isinstance(rounded, int) and abs(rounded) > LARGEST_INTEGER:
        others = (1 << type.bits) - 1 if type.kind == "unsigned" else -1  # it is written as the complement of another
        return b.arith("not", Constant(rounded ^ others, type))
    return Constant(rounded, type)  # type: ignore[return-value]  # operands are values or constants


def converted(b: FunctionBuilder, value: Value, type: ScalarType) -> Value:
    """Return a value in another type."""
    return value if value.type == type else b.cast(value, type)


def number(
    b: FunctionBuilder, node: Number | Parameter, scalars: Mapping[tuple[int, ScalarType], Value], type: ScalarType
) -> Value:
    """Return a number of a graph as an operand of `type`; `scalars` are those of the function by position and type."""
    if isinstance(node, Number):
        return constant(b, node.value, type)
    given = [scalars[part.position, type.part] for part in node.given]
    return b.cmplx(given[0], given[1], type) if isinstance(node, ComplexParameter) else converted(b, given[0], type)


def counted(b: FunctionBuilder, offset: int, terms: Iterable[tuple[Value | int, int]], type: ScalarType) -> Value:
    """Return an offset plus positions, each times its stride, as a value of `type`."""
    fixed, moving = offset, None
    for position, stride in terms:
        if isinstance(position, int):
            fixed += position * stride
        elif stride:
            step = b.mul(position, stride)
            moving = step if moving is None else b.add(moving, step)
    if moving is None:
        return constant(b, fixed, type)
    return b.cast(b.add(moving, fixed) if fixed else moving, type)


def select(b: FunctionBuilder, type: ScalarType, condition: Value, then: Value, otherwise: Value) -> Value:
    """Write ``condition ? then : otherwise`` for values of one type."""
    with b.if_(condition, type) as branch:
        b.yield_(then)
    with b.else_():
        b.yield_(otherwise)
    return branch.results[0]


def rounding(type: ScalarType) -> Callable[[float], float]:
    """Return the function that rounds a number to a type, as an array of it would; integers have to fit."""
    if type.is_boolean:
        return bool
    if type.is_integer:
        return int
    return {"float32": _to_f32, "float16": _to_f16}.get(type.storage, float)


def _to_f32(value: float) -> float:
    return ctypes.c_float(value).value


def _to_f16(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float16(value))
