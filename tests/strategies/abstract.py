"""What the generator knows about the values of the program that it writes.

The generator must not write a program whose result depends on the order of a sum, on the rounding of an
intermediate, or on undefined behaviour.  So it carries along, for each value, what can be said before running it:
the interval of an index in each work-group, the largest magnitude of a float and the error that rounding may have
left in it, the actual sizes and strides of a memref in each work-group.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.strategies.arguments import MAGNITUDE
from tl_dpnp.language.ops import Constant, Operand, Value
from tl_dpnp.language.types import MemrefType
from tl_dpnp.scalars import ScalarType


class Retry(Exception):
    """What was to be generated does not fit here; try something else."""


def exact_limit(scalar_type: ScalarType) -> float:
    """Up to this magnitude whole numbers, their sums and differences are exact in a float type."""
    return 2.0 ** (scalar_type.mantissa - 1)


def rounding(scalar_type: ScalarType) -> float:
    """The relative error that one operation or library function may make: a few units in the last place."""
    return 8 * 2.0 ** -(scalar_type.mantissa - 1)


@dataclass(frozen=True)
class Magnitude:
    """A float: its largest magnitude, the largest error in it, and whether it is a whole number (then exact)."""

    bound: float = 0.0
    error: float = 0.0
    whole: bool = True

    def rounded(self, scalar_type: ScalarType, operations: float = 1) -> Magnitude:
        """Return the magnitude after `operations` roundings; raise `Retry` where it is too large to be safe."""
        if scalar_type.mantissa and self.bound > exact_limit(scalar_type):
            raise Retry
        if self.whole or not scalar_type.mantissa:
            return Magnitude(self.bound, 0.0, True)
        return Magnitude(self.bound, self.error + operations * rounding(scalar_type) * self.bound, False)

    def __add__(self, other: Magnitude) -> Magnitude:
        return Magnitude(self.bound + other.bound, self.error + other.error, self.whole and other.whole)

    def __mul__(self, other: Magnitude) -> Magnitude:
        error = self.error * other.bound + other.error * self.bound + self.error * other.error
        return Magnitude(self.bound * other.bound, error, self.whole and other.whole)

    def scaled(self, factor: float) -> Magnitude:
        """Return the magnitude of a sum of `factor` such values."""
        return Magnitude(self.bound * factor, self.error * factor, self.whole)

    def union(self, other: Magnitude) -> Magnitude:
        """Return the magnitude of a value that is one or the other."""
        return Magnitude(max(self.bound, other.bound), max(self.error, other.error), self.whole and other.whole)


@dataclass(frozen=True)
class Interval:
    """The smallest and the largest value of an index in each work-group; empty where it is never computed."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    def fits(self, sizes: tuple[int, ...]) -> bool:
        """Whether the index is inside a mode of these sizes in every work-group."""
        return all(low >= 0 and high < size for low, high, size in zip(self.low, self.high, sizes, strict=True)
                   if low <= high)


@dataclass(frozen=True)
class Scalar:
    """A scalar operand and what is known of it."""

    operand: Operand
    magnitude: Magnitude = Magnitude()
    interval: Interval | None = None

    @property
    def type(self) -> ScalarType:
        assert isinstance(self.operand.type, ScalarType)
        return self.operand.type


def magnitude_of(constant: Constant) -> Magnitude:
    """Return the magnitude of a constant."""
    value = complex(constant.value)
    return Magnitude(abs(value), 0.0, value.real.is_integer() and value.imag.is_integer())


class Root:
    """A piece of memory that no other root overlaps, and what is known of the values in it.

    The bound counts every write as if it were added, so that it holds whatever the order of the writes.  While a
    loop is open, its body may run again after what is written later: `cap` is then what a read must assume and a
    write must keep; `readable` and `writable` say what the loop may do.
    """

    def __init__(self, element: ScalarType, writable: bool, magnitude: Magnitude | None = None) -> None:
        self.element = element
        self.magnitude = magnitude or Magnitude(float(MAGNITUDE) * (2 if element.is_complex else 1))
        self.cap: Magnitude | None = None
        self.readable = True
        self.writable = writable

    @property
    def is_exact(self) -> bool:
        """Integers wrap: nothing need be known of them."""
        return not self.element.mantissa

    def read(self) -> Magnitude:
        """Return what a read may give."""
        return self.cap or self.magnitude

    def write(self, value: Magnitude, times: int = 1, keep: float = 1.0) -> None:
        """Record ``old · keep + value``, done up to `times` times; raise `Retry` where that is not safe."""
        if not self.writable:
            raise Retry
        if self.is_exact:
            return
        if abs(keep) > 1 and times > 1:
            raise Retry
        old = self.magnitude.scaled(max(1.0, abs(keep)))
        total = old + value.scaled(times)
        total = Magnitude(total.bound, total.error, total.whole and float(keep).is_integer())
        total = total.rounded(self.element, 4 * times)
        if self.cap is not None and (total.bound > self.cap.bound or total.whole < self.cap.whole):
            raise Retry
        self.magnitude = total


@dataclass(frozen=True)
class Ref:
    """A memref value, the memory that it views, and its actual sizes and strides (in elements) per work-group."""

    value: Value
    root: Root
    shapes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def type(self) -> MemrefType:
        assert isinstance(self.value.type, MemrefType)
        return self.value.type

    @property
    def order(self) -> int:
        return self.type.order

    def sizes(self, mode: int) -> tuple[int, ...]:
        """Return the size of one mode in each work-group."""
        return tuple(shape[mode] for shape in self.shapes)
