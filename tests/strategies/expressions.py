"""Random scalar expressions over every type and operation, free of undefined behaviour."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.strategies.abstract import Magnitude, Retry, Scalar, exact_limit, magnitude_of
from tests.strategies.writer import Writer
from tl_dpnp.language import ops
from tl_dpnp.scalars import F16, I1, ScalarType


@dataclass(frozen=True)
class _Smooth:
    """Where a function is smooth: the operands that it is given, and of their bound, that of its value and slope."""

    bound: Callable[[float], float]
    slope: Callable[[float], float] = lambda bound: 1.0
    domain: Literal["all", "from 1 on", "from 2 on", "up to 0.5"] = "all"
    largest: float = math.inf


def _unit(bound: float) -> float:
    return 1.0


_SMOOTH = {
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh"), _Smooth(math.exp, math.exp, largest=4.0)),
    **dict.fromkeys(("sin", "cos"), _Smooth(_unit, largest=4096.0)),
    "tanh": _Smooth(_unit), "erf": _Smooth(_unit, lambda bound: 1.13), "atan": _Smooth(lambda bound: 1.6),
    "asinh": _Smooth(math.asinh), "acosh": _Smooth(math.acosh, domain="from 2 on"),
    "sqrt": _Smooth(math.sqrt, domain="from 1 on"), "cbrt": _Smooth(lambda bound: bound, domain="from 1 on"),
    "rsqrt": _Smooth(_unit, domain="from 1 on"),
    "log": _Smooth(math.log, domain="from 1 on"), "log10": _Smooth(math.log10, domain="from 1 on"),
    "log1p": _Smooth(math.log1p, domain="from 1 on"), "log2": _Smooth(math.log2, lambda bound: 1.45, "from 1 on"),
    "asin": _Smooth(_unit, lambda bound: 1.2, "up to 0.5"), "acos": _Smooth(lambda bound: 2.1, lambda bound: 1.2,
                                                                           "up to 0.5"),
    "atanh": _Smooth(_unit, lambda bound: 1.4, "up to 0.5"), "tan": _Smooth(_unit, lambda bound: 1.4, "up to 0.5"),
}
_ROUNDING = ("floor", "ceil", "trunc", "rint")


class Expressions(Writer):
    """Writes scalar operations."""

    def expression(self, scalar_type: ScalarType, depth: int = 2) -> Scalar:
        """Return a scalar of the type: a leaf, or an operation on expressions of one level less."""
        leaf = lambda: self.leaf(scalar_type)  # noqa: E731
        if depth == 0 or self.chance(0.25):
            return self.first([leaf, leaf, lambda: self.constant(scalar_type)])
        node = {
            "boolean": self._boolean, "signed": self._integer, "unsigned": self._integer,
            "float": self._float, "complex": self._complex,
        }[scalar_type.kind]
        attempts: list[Callable[[], Scalar]] = [lambda: node(scalar_type, depth - 1)] * 3
        if self.chance(0.3):
            attempts.insert(0, lambda: self.cast_to(scalar_type, depth - 1))
        return self.first([*attempts, leaf, lambda: self.constant(scalar_type)])

    # --- leaves ---

    def leaf(self, scalar_type: ScalarType) -> Scalar:
        """Return a visible value, a loaded element or a constant."""
        values = [s for s in self.frame.scalars if s.type == scalar_type]
        unused = [s for s in values if s.operand.name not in self.used]
        choice = self.rng.random()
        if unused and choice < 0.35:
            return self.pick(unused)
        if values and choice < 0.5:
            return self.pick(values)
        if choice < 0.93:
            return self.load_element(scalar_type)
        return self.constant(scalar_type)

    def load_element(self, scalar_type: ScalarType) -> Scalar:
        """Load an element of a readable memref; defined with the memory operations."""
        raise NotImplementedError

    def constant(self, scalar_type: ScalarType) -> Scalar:
        """Return a constant: small ones mostly, for integers also the ends of the range."""
        if scalar_type.is_boolean:
            value: bool | int | float | complex = self.chance(0.5)
        elif scalar_type.is_integer:
            low, high = max(scalar_type.minimum, -(2**63 - 1)), min(scalar_type.maximum, 2**63 - 1)
            small = self.rng.randint(max(low, -9), 9)
            value = self.pick([small, small, small, low, high, self.rng.randint(low, high)])
        else:
            value = float(self.pick([-3, -2, -1, 0, 1, 1, 2, 3, 4] if self.chance(0.85) else [0.5, -0.25, 1.375]))
            value = complex(value, self.pick([0, 0, 1, -2])) if scalar_type.is_complex else value
        constant = ops.Constant(value, scalar_type)
        return Scalar(constant, magnitude_of(constant))

    # --- operations ---

    def arith(self, kind: str, lhs: Scalar, rhs: Scalar, magnitude: Magnitude | None = None) -> Scalar:
        return self.scalar(lambda r: ops.Arith(kind=kind, lhs=lhs.operand, rhs=rhs.operand, result=r), lhs.type,
                           magnitude)

    def unary(self, kind: str, operand: Scalar) -> Scalar:
        return self.scalar(lambda r: ops.Unary(kind=kind, operand=operand.operand, result=r), operand.type,
                           operand.magnitude)

    def math(self, kind: str, *arguments: Scalar, magnitude: Magnitude | None = None) -> Scalar:
        operands = tuple(argument.operand for argument in arguments)
        return self.scalar(lambda r: ops.Math(kind=kind, arguments=operands, result=r), arguments[0].type, magnitude)

    def cast(self, operand: Scalar, target: ScalarType, magnitude: Magnitude | None = None) -> Scalar:
        return self.scalar(lambda r: ops.Cast(operand=operand.operand, result=r), target, magnitude)

    def _number(self, scalar_type: ScalarType, value: int) -> Scalar:
        kinds = {"float": float, "complex": complex}
        constant = ops.Constant(kinds.get(scalar_type.kind, int)(value), scalar_type)
        return Scalar(constant, magnitude_of(constant))

    def _boolean(self, scalar_type: ScalarType, depth: int) -> Scalar:
        if self.chance(0.3):
            lhs, rhs = self.expression(I1, depth), self.expression(I1, depth)
            return self.arith(self.pick(["and", "or", "xor"]), lhs, rhs)
        if self.chance(0.15):
            return self.unary("not", self.expression(I1, depth))
        return self.comparison(depth)

    def comparison(self, depth: int) -> Scalar:
        """Compare two values of one type; floats only where they are exact."""
        compared = self.pick([t for t in self.features.types if not t.is_boolean])
        lhs, rhs = self.expression(compared, depth), self.expression(compared, depth)
        if not (lhs.magnitude.whole and rhs.magnitude.whole):
            raise Retry
        kind = self.pick(("eq", "ne") if compared.is_complex else tuple(ops.COMPARISONS))
        return self.scalar(lambda r: ops.Compare(kind=kind, lhs=lhs.operand, rhs=rhs.operand, result=r), I1)

    def _integer(self, scalar_type: ScalarType, depth: int) -> Scalar:
        kinds = ["add", "sub", "mul", "div", "rem", "shl", "shr", "and", "or", "xor", "neg", "not"]
        others = [other for other in self.features.types if other.is_float and ops.is_bitcast(scalar_type, other)]
        kind = self.pick(kinds + ["abs", "min", "max"] * self.features.mathematics + ["bits"] * bool(others))
        lhs = self.expression(scalar_type, depth)
        match kind:
            case "neg" | "not":
                return self.unary(kind, lhs)
            case "bits":
                return self._through_bits(lhs, self.pick(others))
            case "abs":
                return self.math(kind, lhs)
            case "min" | "max":
                return self.math(kind, lhs, self.expression(scalar_type, depth))
            case "div" | "rem":
                return self.arith(kind, lhs, self._divisor(scalar_type, depth))
            case "shl" | "shr":
                return self.arith(kind, lhs, self._shift(scalar_type, depth))
        return self.arith(kind, lhs, self.expression(scalar_type, depth))

    def _through_bits(self, value: Scalar, other: ScalarType) -> Scalar:
        """Return an integer, as the bits of a float and back; of f16 and bf16 not the bits of a NaN."""
        if value.type.bits == 16:
            value = self.arith("and", value, self._number(value.type, 0x7BFF if other == F16 else 0x7F7F))
        bits = ops.Value(self.name(), other)  # of any magnitude: nothing else may use it
        self.emit(ops.Bitcast(operand=value.operand, result=bits))
        return self.scalar(lambda r: ops.Bitcast(operand=bits, result=r), value.type)

    def _divisor(self, scalar_type: ScalarType, depth: int) -> Scalar:
        """Return a value that is not 0, and not −1 either, whose quotient may overflow."""
        if self.chance(0.6):
            choices = [1, 2, 3, 7, 8, 100] + [-2, -3, -7] * (scalar_type.kind == "signed")
            return self._number(scalar_type, self.pick(choices))
        masked = self.arith("and", self.expression(scalar_type, depth), self._number(scalar_type, 15))
        return self.arith("or", masked, self._number(scalar_type, 1))

    def _shift(self, scalar_type: ScalarType, depth: int) -> Scalar:
        if self.chance(0.6):
            return self._number(scalar_type, self.rng.randrange(scalar_type.bits))
        return self.arith("and", self.expression(scalar_type, depth), self._number(scalar_type, scalar_type.bits - 1))

    def _complex(self, scalar_type: ScalarType, depth: int) -> Scalar:
        kind = self.pick(["add", "sub", "mul", "neg", "conj", "div", "cmplx"])
        if kind == "cmplx":
            real, imaginary = (self.expression(scalar_type.part, depth) for _ in range(2))
            return self.scalar(lambda r: ops.Cmplx(real=real.operand, imaginary=imaginary.operand, result=r),
                               scalar_type, real.magnitude + imaginary.magnitude)
        lhs = self.expression(scalar_type, depth)
        if kind in ("neg", "conj"):
            return self.unary(kind, lhs)
        if kind == "div":
            constant = ops.Constant(self.pick([1 + 0j, -2 + 0j, 2j, 3 + 4j, 1 - 1j]), scalar_type)
            quotient = Magnitude(lhs.magnitude.bound, lhs.magnitude.error, False).rounded(scalar_type, 2)
            return self.arith(kind, lhs, Scalar(constant, magnitude_of(constant)), quotient)
        rhs = self.expression(scalar_type, depth)
        exact = lhs.magnitude * rhs.magnitude if kind == "mul" else lhs.magnitude + rhs.magnitude
        return self.arith(kind, lhs, rhs, exact.scaled(2).rounded(scalar_type, 2))

    def _wholes(self, scalar_type: ScalarType) -> list[ScalarType]:
        """Return the complex types whose parts are of a type."""
        return [other for other in self.features.types if other.is_complex and other.part == scalar_type]

    def _part(self, scalar_type: ScalarType, depth: int) -> Scalar:
        whole, kind = self.expression(self.pick(self._wholes(scalar_type)), depth), self.pick([ops.Re, ops.Im])
        return self.scalar(lambda r: kind(operand=whole.operand, result=r), scalar_type, whole.magnitude)

    def _float(self, scalar_type: ScalarType, depth: int) -> Scalar:
        if self._wholes(scalar_type) and self.chance(0.08):
            return self._part(scalar_type, depth)
        functions = ["abs", "min", "max", "fma", *["function"] * 5] * self.features.mathematics
        kind = self.pick(["add", "add", "sub", "mul", "mul", "div", "rem", "neg", *functions])
        if kind == "function":
            return self._function(scalar_type, depth)
        a = self.expression(scalar_type, depth)
        if kind == "neg":
            return self.unary(kind, a)
        if kind == "abs":
            return self.math(kind, a, magnitude=a.magnitude)
        b = self.expression(scalar_type, depth)
        match kind:
            case "add" | "sub":
                return self.arith(kind, a, b, (a.magnitude + b.magnitude).rounded(scalar_type))
            case "mul":
                return self.arith(kind, a, b, (a.magnitude * b.magnitude).rounded(scalar_type))
            case "min" | "max":
                return self.math(kind, a, b, magnitude=a.magnitude.union(b.magnitude))
            case "fma":
                c = self.expression(scalar_type, depth)
                exact = a.magnitude * b.magnitude + c.magnitude
                return self.math(kind, a, b, c, magnitude=exact.rounded(scalar_type))
        divisor = self._at_least_one(b)
        if kind == "rem":
            if not (a.magnitude.whole and b.magnitude.whole):
                raise Retry
            return self.arith(kind, a, divisor, a.magnitude)
        error = a.magnitude.error + a.magnitude.bound * divisor.magnitude.error
        return self.arith(kind, a, divisor, Magnitude(a.magnitude.bound, error, False).rounded(scalar_type))

    def _at_least_one(self, operand: Scalar) -> Scalar:
        """Return |operand| + 1, or a constant where there is no ``math.abs``."""
        if not self.features.mathematics:
            return self._number(operand.type, self.pick([1, 2, 3, 4]))
        positive = self.math("abs", operand, magnitude=operand.magnitude)
        magnitude = (operand.magnitude + Magnitude(1.0)).rounded(operand.type)
        return self.arith("add", positive, self._number(operand.type, 1), magnitude)

    def _function(self, scalar_type: ScalarType, depth: int) -> Scalar:
        """Apply a mathematical function where it is smooth."""
        kind = self.pick([*_SMOOTH, *_ROUNDING, "atan2", "hypot", "copysign"])
        x = self.expression(scalar_type, depth)
        if kind in _ROUNDING:
            return self._rounded_quarter(kind, x)
        if kind in ("atan2", "hypot", "copysign"):
            return self._function_of_two(kind, x, self.expression(scalar_type, depth))
        smooth = _SMOOTH[kind]
        if x.magnitude.bound > smooth.largest:
            raise Retry
        match smooth.domain:
            case "from 1 on":
                x = self._at_least_one(x)
            case "from 2 on":
                x = self._at_least_one(self._at_least_one(x))
            case "up to 0.5":
                half = Magnitude(0.5, 0.5 * min(2.0, x.magnitude.error), False).rounded(scalar_type)
                x = self.arith("mul", self.math("tanh", x, magnitude=half), self._constant(scalar_type, 0.5), half)
        known = x.magnitude
        result = Magnitude(smooth.bound(known.bound), known.error * smooth.slope(known.bound + known.error), False)
        return self.math(kind, x, magnitude=result.rounded(scalar_type))

    def _constant(self, scalar_type: ScalarType, value: float) -> Scalar:
        constant = ops.Constant(value, scalar_type)
        return Scalar(constant, magnitude_of(constant))

    def _rounded_quarter(self, kind: str, x: Scalar) -> Scalar:
        """Round the quarter of a whole number, which is exact."""
        if not x.magnitude.whole or 4 * x.magnitude.bound >= exact_limit(x.type):
            raise Retry
        quarter = self.arith("mul", x, self._constant(x.type, 0.25), x.magnitude)
        return self.math(kind, quarter, magnitude=Magnitude(x.magnitude.bound + 1))

    def _function_of_two(self, kind: str, x: Scalar, y: Scalar) -> Scalar:
        """Apply a function of two operands; the second one is positive where signs or poles matter."""
        if kind == "copysign":
            return self.math(kind, x, self._at_least_one(y), magnitude=x.magnitude)
        y = self._at_least_one(y)  # the derivatives of both functions are at most 1 from there on
        error = x.magnitude.error + y.magnitude.error
        bound = 1.6 if kind == "atan2" else x.magnitude.bound + y.magnitude.bound
        return self.math(kind, x, y, magnitude=Magnitude(bound, error, False).rounded(x.type))

    # --- casts ---

    def cast_to(self, target: ScalarType, depth: int) -> Scalar:
        """Cast an expression of another type."""
        source = self.pick([t for t in self.features.types if t != target])
        return self.converted(self.expression(source, depth), target)

    def converted(self, value: Scalar, target: ScalarType) -> Scalar:
        """Cast a value, first brought into the range of the target where leaving it is undefined."""
        source = value.type
        if source == target:
            return value
        if source.is_integer and target.mantissa:
            if source.bits >= target.mantissa or source.bits > 16:
                value = self.arith("and", value, self._number(source, 31))
                return self.cast(value, target, Magnitude(31.0).rounded(target))
            return self.cast(value, target, Magnitude(2.0**source.bits).rounded(target))
        if source.is_boolean:
            return self.cast(value, target, Magnitude(1.0))
        if not source.mantissa:
            return self.cast(value, target)
        if target.mantissa:
            if source.is_complex and not target.is_complex:
                raise Retry
            return self.cast(value, target, value.magnitude.rounded(target))
        if not value.magnitude.whole or source.is_complex:
            raise Retry
        if target.is_integer:
            if self.chance(0.5) and 4 * value.magnitude.bound < exact_limit(source):
                quarter = Scalar(ops.Constant(0.25, source))  # exact, and the cast has something to truncate
                value = self.arith("mul", value, quarter, value.magnitude)
            if target.kind == "unsigned":
                if not self.features.mathematics:
                    raise Retry
                value = self.math("abs", value, magnitude=value.magnitude)
            if value.magnitude.bound > target.maximum:
                raise Retry
        return self.cast(value, target)


