"""Translations of element-wise operations (`tl_dpnp.graph.pytorch.reading`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import fx

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.nodes import Arange, Map, Node, Number, number_node
from tl_dpnp.graph.pytorch.reading import Reading, Translation, check_numbers, translates, working_dtype
from tl_dpnp.graph.views import broadcast

__all__: list[str] = []

_BOOL, _INT64 = np.dtype(bool), np.dtype(np.int64)


def _function(kind: str) -> Translation:
    def translate(reading: Reading, result: fx.Node, *values: Any) -> Node:
        dtype = reading.dtype_of(result)
        compute = dtype
        if kind.startswith("logical_"):
            compute = _BOOL
        elif FUNCTIONS[kind].computes == "operands":
            compute = reading.promoted(values)
            compute = np.dtype(np.int8) if compute == _BOOL else compute
        return reading.map(kind, [reading.operand(value) for value in values], compute, dtype)

    return translate


#: Operations of ATen and the functions of kernels that they are.
_NAMES: dict[str, str] = {
    **{name: name for name in (
        "exp exp2 expm1 log log2 log10 log1p erf sin cos tan sinh cosh tanh sqrt rsqrt abs floor ceil trunc "
        "reciprocal isnan isinf maximum minimum fmax fmin hypot copysign logical_and logical_or logical_xor "
        "logical_not bitwise_and bitwise_or bitwise_xor square signbit logaddexp fmod").split()},
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "atan2": "arctan2", "neg": "negative", "round": "rint", "bitwise_not": "invert", "mul": "multiply",
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "where": "where",
}
#: The overloads of an operation that mean the same.
_OVERLOADS = ("default", "Tensor", "Scalar", "self", "Tensor_Tensor")
for _name, _kind in _NAMES.items():
    translates(*(f"{_name}.{overload}" for overload in _OVERLOADS))(_function(_kind))


@translates("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def _where(reading: Reading, result: fx.Node, condition: Any, x: Any, y: Any) -> Node:
    dtype = reading.dtype_of(result)
    operands = [reading.operand(value) for value in (condition, x, y)]
    if operands[0].dtype != _BOOL:
        operands[0] = Map(operands[0].shape, _BOOL, "astype", (operands[0],), _BOOL)
    check_numbers(operands[1:], dtype)
    return Map(reading.shape_of(result), dtype, "where", tuple(operands), dtype)


@translates("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def _sum(reading: Reading, result: fx.Node, x: Any, y: Any, alpha: Any = 1) -> Node:
    dtype = reading.dtype_of(result)
    compute = working_dtype(dtype)
    first, second = (reading.halved(value) if dtype == np.float16 else value
                     for value in (reading.operand(x), reading.operand(y)))
    if alpha != 1:
        second = reading.map("multiply", [second, number_node(alpha)], compute, compute)
    kind = "add" if str(result.target).startswith("aten.add.") else "subtract"
    return reading.map(kind, [first, second], compute, dtype)


@translates("div.Tensor", "div.Scalar")
def _quotient(reading: Reading, result: fx.Node, x: Any, y: Any) -> Node:
    dtype = reading.dtype_of(result)
    return reading.map("divide", [reading.operand(x), reading.operand(y)], dtype, dtype)


@translates("sigmoid.default")
def _sigmoid(reading: Reading, result: fx.Node, x: Any) -> Node:
    dtype = reading.dtype_of(result)
    compute = working_dtype(dtype)
    minus = reading.map("negative", [reading.operand(x)], compute, compute)
    below = reading.map("add", [reading.map("exp", [minus], compute, compute), number_node(1.0)], compute, compute)
    return reading.map("reciprocal", [below], compute, dtype)


@translates("relu.default")
def _relu(reading: Reading, result: fx.Node, x: Any) -> Node:
    dtype = reading.dtype_of(result)
    return reading.map("maximum", [reading.operand(x), number_node(0)], dtype, dtype)


@translates("sign.default", "sgn.default")
def _sign(reading: Reading, result: fx.Node, x: Any) -> Node:
    """Translate signs; that of NaN is zero in PyTorch."""
    dtype = reading.dtype_of(result)
    node = reading.operand(x)
    sign = reading.map("sign", [node], dtype, dtype)
    if dtype.kind != "f":
        return sign
    same = reading.map("equal", [node, node], dtype, _BOOL)
    return reading.map("where", [same, sign, number_node(0.0)], dtype, dtype)


@translates("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default", "clamp_min.Tensor",
            "clamp_max.Tensor")
def _clamp(reading: Reading, result: fx.Node, x: Any, first: Any = None, second: Any = None,
           **named: Any) -> Node:
    dtype = reading.dtype_of(result)
    low, high = (None, first) if "clamp_max" in str(result.target) else (first, second)
    low, high = named.get("min", low), named.get("max", high)
    node = reading.operand(x)
    for kind, limit in (("maximum", low), ("minimum", high)):
        if limit is not None:
            node = reading.map(kind, [node, reading.operand(limit)], dtype, dtype)
    return node


@translates("_to_copy.default", "convert_element_type.default")
def _to_copy(reading: Reading, result: fx.Node, x: Any, **_named: Any) -> Node:
    """Translate conversions; a copy without one is the value itself, unless it is given away."""
    if result.meta["val"].device != reading.device:
        raise NotFused("it copies to another device")
    return _converted(reading, reading.array(x), reading.dtype_of(result))


def _converted(reading: Reading, node: Node, dtype: np.dtype[Any]) -> Node:
    if node.dtype.kind == "f" and dtype.kind in "iu":
        raise NotFused("what a float becomes as an integer differs where it does not fit", "convert before")
    return reading.cast(node, dtype)


@translates("clone.default", "copy.default", "lift_fresh_copy.default")
def _copy(reading: Reading, result: fx.Node, x: Any, source: Any = None, **_named: Any) -> Node:
    node = reading.array(x if source is None else source)
    dtype = reading.dtype_of(result)
    return _converted(reading, broadcast(node, reading.shape_of(result)), dtype)


#: The exponents that are written as products and square roots, as PyTorch does it (`native/cuda/PowKernel.cu`).
_POWERS: dict[float, tuple[str, ...]] = {
    0.5: ("sqrt",), 2.0: ("square",), -0.5: ("rsqrt",), -1.0: ("reciprocal",), -2.0: ("square", "reciprocal"),
}


@translates("pow.Tensor_Scalar")
def _power(reading: Reading, result: fx.Node, base: Any, exponent: Any) -> Node:
    dtype = reading.dtype_of(result)
    compute = working_dtype(dtype)
    if isinstance(exponent, fx.Node):
        raise NotFused("the exponent is no constant")
    node = reading.operand(base)
    if float(exponent) == 3.0:
        node = reading.cast(node, compute)
        square = reading.map("square", [node], compute, compute)
        return reading.map("multiply", [square, node], compute, dtype)
    if compute.kind == "f" and float(exponent) in _POWERS:
        for kind in _POWERS[float(exponent)]:
            node = reading.map(kind, [node], compute, compute)
        return reading.cast(node, dtype)
    if compute.kind != "f":
        if exponent == 2:
            return reading.map("multiply", [node, node], compute, dtype)
        raise NotFused("of integers, only squares and cubes are fused", "write a product")
    return reading.map("pow", [node, number_node(float(exponent))], compute, dtype)


@translates("pow.Tensor_Tensor", "pow.Scalar")
def _general_power(reading: Reading, result: fx.Node, base: Any, exponent: Any) -> Node:
    dtype = reading.dtype_of(result)
    if dtype.kind != "f":
        raise NotFused("of integers, only squares and cubes are fused", "write a product")
    return reading.map("pow", [reading.operand(base), reading.operand(exponent)], dtype, dtype)


# --- arrays of nothing -----------------------------------------------------------------------------------------------


@translates("full.default", "scalar_tensor.default", "full_like.default", "zeros.default", "ones.default",
            "zeros_like.default", "ones_like.default", "new_zeros.default", "new_ones.default", "new_full.default")
def _filled(reading: Reading, result: fx.Node, *values: Any, **_named: Any) -> Node:
    name, dtype = str(result.target), reading.dtype_of(result)
    if result.meta["val"].device != reading.device:
        raise NotFused(f"it is made on {result.meta['val'].device}")
    number: Any = 0 if "zeros" in name else 1 if "ones" in name else values[-1]
    operand = reading.operand(number)
    if not isinstance(operand, Number):
        raise NotFused("the value is no number")
    check_numbers([operand], dtype)
    return Map(reading.shape_of(result), dtype, "astype", (operand,), dtype)


@translates("arange.start_step", "arange.default", "arange.start")
def _arange(reading: Reading, result: fx.Node, *values: Any, **_named: Any) -> Node:
    dtype = reading.dtype_of(result)
    if result.meta["val"].device != reading.device:
        raise NotFused(f"it is made on {result.meta['val'].device}")
    start, step = (0, 1) if len(values) == 1 else (values[0], values[2] if len(values) > 2 else 1)
    if not all(isinstance(value, int | fx.Node) for value in (start, step)):
        raise NotFused("the numbers are no integers")
    shape = reading.shape_of(result)
    counted = Arange(shape, _INT64, (reading.size(step),), reading.size(start))
    return Map(shape, dtype, "astype", (counted,), dtype)
