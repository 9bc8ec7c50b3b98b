"""The element-wise functions that can be part of a kernel, as one table.

A row says how many operands a function takes, in which dtype dpnp computes it, and how the tensor language writes it
for one element.  Names are dpnp's.  Source of the dtypes: dpnp itself, which is asked (`tl_dpnp.graph.inference`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from tl_dpnp.graph import arithmetic, complex_arithmetic
from tl_dpnp.graph.scalars import constant, select
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Value
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, ScalarType

__all__ = ["FUNCTIONS", "REDUCTIONS", "TAKE_NUMBERS", "Function"]

Emitter = Callable[[FunctionBuilder, ScalarType, list[Value]], Value]


@dataclass(frozen=True)
class Function:
    """One element-wise function.

    `computes` says the dtype of the computation: that of the result, or the common one of the operands, which is that
    of their sum.  `cost` is in multiply-adds, `code` in additions.  `only` restricts the computing types
    to those with that kind.
    """

    operands: int
    emit: Emitter
    computes: Literal["result", "operands"] = "result"
    cost: int = 1
    code: int = 1
    only: tuple[str, ...] = ("signed", "unsigned", "float", "boolean")


def _arith(kind: str, boolean: str | None = None) -> Emitter:
    def emit(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
        return b.arith(boolean if type.is_boolean and boolean else kind, *x)

    return emit


def _by_type(real: Emitter, others: Emitter) -> Emitter:
    """Return what writes a function of complex numbers in another way than of real ones."""
    return lambda b, type, x: (others if type.is_complex else real)(b, type, x)


def _math(kind: str) -> Emitter:
    return lambda b, type, x: b.math(kind, *x)


def _compare(kind: str) -> Emitter:
    return lambda b, type, x: b.cmp(kind, *x)


def _where(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return select(b, type, *x)


def _extreme(kind: str, nan_wins: bool) -> Emitter:
    """maximum and minimum give NaN if an operand is one; fmax and fmin the other operand."""

    def emit(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
        if type.is_boolean:
            return b.arith("or" if kind == "max" else "and", *x)
        if not type.is_float or not nan_wins:
            return b.math(kind, *x)
        # Of equal operands, such as zeros of both signs, and where the second one is NaN, dpnp gives the second one.
        first = b.cmp("gt" if kind == "max" else "lt", x[0], x[1])
        return select(b, type, b.cmp("ne", x[0], x[0]), x[0], select(b, type, first, x[0], x[1]))

    return emit


def _absolute(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return x[0] if type.kind in ("boolean", "unsigned") else b.math("abs", x[0])


def _sign(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    positive, negative = (b.cast(b.cmp(kind, x[0], 0), type) for kind in ("gt", "lt"))
    sign = b.sub(positive, negative)
    return select(b, type, b.cmp("ne", x[0], x[0]), x[0], sign) if type.is_float else sign


def _square(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return b.arith("and" if type.is_boolean else "mul", x[0], x[0])


def _reciprocal(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return b.arith("div", 1, x[0], type=type)


def _rounded(kind: str) -> Emitter:
    return lambda b, type, x: b.math(kind, x[0]) if type.is_float else x[0]


def _is_finite(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return b.cmp("lt", b.math("abs", x[0]), math.inf) if type.is_float else constant(b, True, I1)


def _is_infinite(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return b.cmp("eq", b.math("abs", x[0]), math.inf) if type.is_float else constant(b, False, I1)


def _is_nan(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return b.cmp("ne", x[0], x[0])


def _has_minus(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return b.cmp("lt", b.math("copysign", constant(b, 1.0, type), x[0]) if type.is_float else x[0], 0)


def _times(factor: float) -> Emitter:
    return lambda b, type, x: b.mul(x[0], constant(b, factor, type))


def _clip(b: FunctionBuilder, type: ScalarType, x: list[Value]) -> Value:
    return _extreme("min", True)(b, type, [_extreme("max", True)(b, type, x[:2]), x[2]])


_NUMBERS = ("signed", "unsigned", "float")
_FLOAT = ("float",)
_COMPLEX = ("complex",)
_ALL = (*_NUMBERS, "boolean", "complex")

FUNCTIONS: dict[str, Function] = {
    "add": Function(2, _arith("add", "or"), only=_ALL),
    "subtract": Function(2, _arith("sub"), only=(*_NUMBERS, "complex")),
    "multiply": Function(2, _by_type(_arith("mul", "and"), complex_arithmetic.multiply), only=_ALL),
    "divide": Function(2, _by_type(_arith("div"), complex_arithmetic.divide), only=("float", "complex"), cost=4),
    "divide_parts": Function(2, complex_arithmetic.divide_parts, only=_COMPLEX, cost=4),
    "floor_divide": Function(2, arithmetic.floor_divide, only=_NUMBERS, cost=16, code=5),
    "remainder": Function(2, arithmetic.remainder, only=_NUMBERS, cost=16, code=5),
    "pow": Function(2, arithmetic.power, only=_FLOAT, cost=150, code=40),
    "negative": Function(1, _arith("neg"), only=(*_NUMBERS, "complex")),
    "positive": Function(1, lambda b, type, x: x[0], only=_ALL),
    "astype": Function(1, lambda b, type, x: x[0], only=_ALL),
    "square": Function(1, _by_type(_square, complex_arithmetic.square), only=_ALL),
    "reciprocal": Function(1, _reciprocal, only=_FLOAT, cost=4),
    "abs": Function(1, _by_type(_absolute, complex_arithmetic.absolute), computes="operands", only=_ALL),
    "angle": Function(1, complex_arithmetic.angle, computes="operands", only=_COMPLEX, cost=30),
    "sign": Function(1, _sign, only=_NUMBERS),
    "maximum": Function(2, _extreme("max", True)),
    "minimum": Function(2, _extreme("min", True)),
    "fmax": Function(2, _extreme("max", False)),
    "fmin": Function(2, _extreme("min", False)),
    "clip": Function(3, _clip, only=_NUMBERS, cost=2),
    "where": Function(3, _where, only=_ALL),
    "exp": Function(1, _by_type(_math("exp"), complex_arithmetic.exponential), only=(*_FLOAT, *_COMPLEX), cost=20),
    **{
        name: Function(1, _math(kind), only=_FLOAT, cost=20)
        for name, kind in {
            **{name: name
               for name in "exp2 expm1 log log2 log10 log1p cbrt erf sin cos tan sinh cosh tanh".split()},
            "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
            "arctanh": "atanh",
        }.items()
    },
    **{name: Function(1, _math(name), only=_FLOAT, cost=8) for name in ("sqrt", "rsqrt")},
    "arctan2": Function(2, _math("atan2"), only=_FLOAT, cost=30),
    "hypot": Function(2, _math("hypot"), only=_FLOAT, cost=20),
    "logaddexp": Function(2, arithmetic.log_add_exp, only=_FLOAT, cost=50, code=5),
    "copysign": Function(2, _math("copysign"), only=_FLOAT),
    "fmod": Function(2, _arith("rem"), only=_FLOAT, cost=16),
    **{name: Function(1, _rounded(name), only=_NUMBERS) for name in ("floor", "ceil", "trunc", "rint")},
    "round": Function(1, _rounded("rint"), only=_NUMBERS),
    **{name: Function(1, _times(math.pi / 180), only=_FLOAT) for name in ("radians", "deg2rad")},
    **{name: Function(1, _times(180 / math.pi), only=_FLOAT) for name in ("degrees", "rad2deg")},
    "fabs": Function(1, _absolute, only=_FLOAT),
    "conjugate": Function(1, complex_arithmetic.conjugate, only=_ALL),
    "real": Function(1, complex_arithmetic.real, computes="operands", only=_ALL),
    "imag": Function(1, complex_arithmetic.imaginary, computes="operands", only=_COMPLEX),
    **{name: Function(2, _compare(kind), computes="operands", only=_ALL)
       for name, kind in {"equal": "eq", "not_equal": "ne"}.items()},
    **{
        name: Function(2, _compare(kind), computes="operands")
        for name, kind in {
            "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
        }.items()
    },
    "isfinite": Function(1, _by_type(_is_finite, complex_arithmetic.is_finite), computes="operands", only=_ALL),
    "isinf": Function(1, _by_type(_is_infinite, complex_arithmetic.is_infinite), computes="operands", only=_ALL),
    "signbit": Function(1, _has_minus, computes="operands"),
    "left_shift": Function(2, arithmetic.left_shift, only=("signed", "unsigned"), code=2),
    "right_shift": Function(2, arithmetic.right_shift, only=("signed", "unsigned"), code=2),
    "isnan": Function(1, _by_type(_is_nan, complex_arithmetic.is_nan), computes="operands", only=_ALL),
    "logical_and": Function(2, _arith("and"), only=("boolean",)),
    "logical_or": Function(2, _arith("or"), only=("boolean",)),
    "logical_xor": Function(2, _arith("xor"), only=("boolean",)),
    "logical_not": Function(1, _arith("not"), only=("boolean",)),
    "bitwise_and": Function(2, _arith("and"), only=("signed", "unsigned", "boolean")),
    "bitwise_or": Function(2, _arith("or"), only=("signed", "unsigned", "boolean")),
    "bitwise_xor": Function(2, _arith("xor"), only=("signed", "unsigned", "boolean")),
    "invert": Function(1, _arith("not"), only=("signed", "unsigned", "boolean")),
}
#: The functions whose kernels are given numbers; of others the value of a number is a part.
TAKE_NUMBERS = frozenset(
    name for name in FUNCTIONS if name not in ("where", "astype") and not name.startswith("logical_")
)


@dataclass(frozen=True)
class Reduction:
    """A reduction: the value that it starts from, and the function that takes one element in."""

    start: Callable[[ScalarType], bool | int | float]
    function: str


def _lowest(type: ScalarType) -> bool | int | float:
    return type.minimum if type.is_integer else False if type.is_boolean else float("-inf")


def _highest(type: ScalarType) -> bool | int | float:
    return type.maximum if type.is_integer else True if type.is_boolean else float("inf")


REDUCTIONS: dict[str, Reduction] = {
    "sum": Reduction(lambda type: (type.is_float and 0.0) or 0, "add"),
    "prod": Reduction(lambda type: (type.is_float and 1.0) or 1, "multiply"),
    "max": Reduction(_lowest, "maximum"),
    "min": Reduction(_highest, "minimum"),
    "any": Reduction(lambda type: False, "logical_or"),
    "all": Reduction(lambda type: True, "logical_and"),
}
