"""Functions of scalars: ``math``.

An extension of this project, of which the dialect 0.4 has some.

Source: language 0.4, section "Values".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tl_dpnp.language.assembly import Arguments, Kind, Result
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.instructions.scalar import ScalarOperation, named, part_type
from tl_dpnp.language.ir import Operation, Value, scalar_type
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.rules import kind_errors, scalar_errors
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import CooperativeMatrixType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseTree
    from tl_dpnp.language.interpreter.machine import WorkGroup


class MathFunction(NamedTuple):
    """A function of ``math``: the number of its operands, the kinds of scalar that it accepts, and its meaning.

    `meaning` takes NumPy, which this module does not import, and operands in f64 or c64, and its result is rounded to
    the type; if `is_exact`, it takes operands of the type and stays in it. One that `is_real` gives a real number for a
    complex one, of the type of its parts.
    """

    operands: int
    kinds: tuple[str, ...]
    meaning: Callable[..., Any]
    is_exact: bool = False
    is_real: bool = False


_FLOATS, _REALS, _COMPLEX = ("float",), ("signed", "unsigned", "float"), ("complex",)


def _fused_multiply_add(np: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a · b + c, exact before its rounding to f64."""
    from fractions import Fraction  # only the interpreter and what is folded need it

    plain = a * b + c
    exact = all(map(math.isfinite, (a, b, c)))
    if not exact or (total := Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) == 0:
        return plain  # carries NaN, infinities and the sign of zero
    try:
        return np.float64(float(total))
    except OverflowError:
        return np.float64(math.inf if total > 0 else -math.inf)


def _power_of_two(np: Any, x: Any) -> Any:
    """Return 2 to the power x; NumPy has it of real numbers only, and x ln 2 wants more digits than x has."""
    if not np.iscomplexobj(x):
        return np.exp2(x)
    parts = np.array([x.real, x.imag], np.longdouble) * np.log(np.longdouble(2))
    return np.exp(parts.view(np.clongdouble))[0]


#: Scalar mathematics (an extension), with the names and the special values of C (ISO C, annexes F.10 and G.6): min and
#: max of a number and NaN give the number; rint rounds halves to even.
MATHEMATICS: dict[str, MathFunction] = {
    "exp": MathFunction(1, _FLOATS + _COMPLEX, lambda np, x: np.exp(x)),
    "log": MathFunction(1, _FLOATS, lambda np, x: np.log(x)),
    "exp2": MathFunction(1, _FLOATS + _COMPLEX, _power_of_two),
    "log2": MathFunction(1, _FLOATS, lambda np, x: np.log2(x)),
    "sqrt": MathFunction(1, _FLOATS, lambda np, x: np.sqrt(x)),
    "rsqrt": MathFunction(1, _FLOATS, lambda np, x: 1.0 / np.sqrt(x)),
    "sin": MathFunction(1, _FLOATS, lambda np, x: np.sin(x)),
    "cos": MathFunction(1, _FLOATS, lambda np, x: np.cos(x)),
    "tanh": MathFunction(1, _FLOATS, lambda np, x: np.tanh(x)),
    "expm1": MathFunction(1, _FLOATS, lambda np, x: np.expm1(x)),
    "log1p": MathFunction(1, _FLOATS, lambda np, x: np.log1p(x)),
    "log10": MathFunction(1, _FLOATS, lambda np, x: np.log10(x)),
    "cbrt": MathFunction(1, _FLOATS, lambda np, x: np.cbrt(x)),
    "erf": MathFunction(1, _FLOATS, lambda np, x: np.float64(math.erf(x))),
    "tan": MathFunction(1, _FLOATS, lambda np, x: np.tan(x)),
    "asin": MathFunction(1, _FLOATS, lambda np, x: np.arcsin(x)),
    "acos": MathFunction(1, _FLOATS, lambda np, x: np.arccos(x)),
    "atan": MathFunction(1, _FLOATS, lambda np, x: np.arctan(x)),
    "atan2": MathFunction(2, _FLOATS, lambda np, y, x: np.arctan2(y, x)),
    "sinh": MathFunction(1, _FLOATS, lambda np, x: np.sinh(x)),
    "cosh": MathFunction(1, _FLOATS, lambda np, x: np.cosh(x)),
    "asinh": MathFunction(1, _FLOATS, lambda np, x: np.arcsinh(x)),
    "acosh": MathFunction(1, _FLOATS, lambda np, x: np.arccosh(x)),
    "atanh": MathFunction(1, _FLOATS, lambda np, x: np.arctanh(x)),
    "hypot": MathFunction(2, _FLOATS, lambda np, x, y: np.hypot(x, y)),
    "floor": MathFunction(1, _FLOATS, lambda np, x: np.floor(x), is_exact=True),
    "ceil": MathFunction(1, _FLOATS, lambda np, x: np.ceil(x), is_exact=True),
    "trunc": MathFunction(1, _FLOATS, lambda np, x: np.trunc(x), is_exact=True),
    "rint": MathFunction(1, _FLOATS, lambda np, x: np.rint(x), is_exact=True),
    "copysign": MathFunction(2, _FLOATS, lambda np, x, y: np.copysign(x, y), is_exact=True),
    "abs": MathFunction(1, _REALS + _COMPLEX, lambda np, x: np.abs(x), is_exact=True, is_real=True),
    "min": MathFunction(2, _REALS, lambda np, x, y: np.fmin(x, y), is_exact=True),
    "max": MathFunction(2, _REALS, lambda np, x, y: np.fmax(x, y), is_exact=True),
    "fma": MathFunction(3, _FLOATS, _fused_multiply_add),
}
#: Functions that the dialect 0.4 spells alone, and those of which it has a variant that may lose accuracy.
_ALONE = ("exp", "log", "exp2", "log2", "sin", "cos", "abs", "min", "max")
_NATIVE = {f"native_{kind}": MATHEMATICS[kind] for kind in ("exp", "log", "exp2", "log2", "sin", "cos")}
#: Functions that are computed of cooperative matrices.
_OF_MATRICES = ("abs", "min", "max")
_REAL = tuple(kind for kind, function in MATHEMATICS.items() if function.is_real)


def _has_parts(type: Type) -> bool:
    component = type.component if isinstance(type, CooperativeMatrixType) else type
    return isinstance(component, ScalarType) and component.is_complex


@dataclass(frozen=True)
class Math(ScalarOperation):
    """``math.<kind> a[, b[, c]] : type`` (an extension); `kind` is in `MATHEMATICS`.

    The dialect 0.4 spells some alone, and of some a variant ``native_<kind>`` that may lose accuracy.  The type is that
    of the operands, but for ``abs`` of a complex number: it has the type of the parts.
    """

    spelling = "math{kind} {arguments} : {result.scalar_type}"
    newer_spelling = "{kind} {arguments} : {result._value_type}"
    example = "%b = math.exp %a : f32"
    kinds = tuple(MATHEMATICS)
    words = named((*_ALONE, *_NATIVE))

    kind: Kind
    arguments: Arguments
    result: Result

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        """The operands have the type of the result, but for the modulus of a complex number."""
        kind, arguments, annotation = tree.children
        is_whole = any(elaborator.is_complex(each) or _has_parts(elaborator.type_of(each))
                       for each in arguments.children)
        if elaborator.word(kind) not in _REAL or not is_whole:
            return super().read(elaborator, tree, results)
        type = elaborator.type(annotation)
        whole = next((each for each in SCALAR_TYPES.values() if each.is_complex and each.part == type), type)
        operands = tuple(elaborator.operand(each, whole) for each in arguments.children)
        elaborator.place(annotation)
        return cls(kind=elaborator.word(kind), arguments=operands, result=replace(results[0], type=type))

    @property
    def function(self) -> str:
        """The function that is computed, which of a native variant is the accurate one: that is always legal."""
        return self.kind.removeprefix("native_")

    def errors(self) -> Iterator[RuleError]:
        if self.is_cooperative and self.kind not in _OF_MATRICES:
            matrix = next(each for each in (*self.arguments, self.result) if not isinstance(each.type, ScalarType))
            yield RuleError(f"{self.kind} works on scalars, not on {describe(matrix.type)}",
                            "compute it of each component with cooperative_matrix_apply")
            return
        yield from super().errors()

    @property
    def changes_components(self) -> bool:
        return self.kind in _REAL

    def rules(self) -> Iterator[RuleError]:
        given, function = len(self.arguments), (MATHEMATICS | _NATIVE).get(self.kind)
        count = given if function is None else function.operands
        yield from kind_errors(f"math.{self.kind}", self.result.type, function and function.kinds)
        if self.kind in _REAL and given == 1 and _has_parts(source := self.arguments[0].type):
            if isinstance(source, ScalarType) and self.result.type != source.part:
                message = f"math.{self.kind} of {source} is not of type {self.result.type}"
                yield RuleError(message, f"it is real: write {source.part}")
            return
        if given != count:
            message = f"math.{self.kind} takes {counted(count, 'operand')}, but {given} given"
            yield RuleError(message, f"write {counted(count, 'operand')}", min(given - 1, count))
        yield from scalar_errors(self.arguments, self.result.type, first=0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        values, function = tuple(map(group.value, self.arguments)), MATHEMATICS[self.function]
        return (group.scalar.mathematics(function.meaning, scalar_type(self.result), values, function.is_exact),)


class MathMethods(Building):
    """What a function builder has for mathematics."""

    def math(self, kind: str, *arguments: Argument, type: ScalarType | None = None, name: str = "") -> Value:
        """``math.<kind>``; `type` is needed where no operand is a value."""
        value_type = self._value_type(type, *arguments)
        values = tuple(self._operand(argument, value_type) for argument in arguments)
        result = self._result(part_type(value_type) if kind in _REAL else value_type, name)
        return self._add_value(Math(kind=kind, arguments=values, result=result))
