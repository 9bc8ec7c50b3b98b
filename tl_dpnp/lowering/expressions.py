"""What a loop nest computes with: sizes, buffers, accesses to their elements, and arithmetic on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = [
    "Access", "Bound", "Buffer", "Convert", "Dimension", "Expression", "Index", "MultiplyAdd", "Number", "Product",
    "RoundDown", "Scalar", "Scope", "TimesI", "Total", "accesses_of", "compact_strides", "map_accesses", "round_down",
    "type_of",
]


@dataclass(frozen=True)
class Dimension:
    """A size or a stride that is known at run time, by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RoundDown:
    """The largest multiple of `factor` that does not exceed a run-time size."""

    size: Dimension
    factor: int

    def __str__(self) -> str:
        return f"{self.size} // {self.factor} * {self.factor}"


#: The bound of a loop.
Bound = int | Dimension | RoundDown


def round_down(bound: Bound, factor: int) -> Bound:
    """Return the largest multiple of `factor` that does not exceed `bound`."""
    match bound:
        case int():
            return bound // factor * factor
        case Dimension():
            return RoundDown(bound, factor)
        case RoundDown(size, inner):
            return bound if inner % factor == 0 else RoundDown(size, factor)


#: Where a buffer is: ``global`` is the memory of an operand, wherever that is; ``local`` is shared by the work-group;
#: ``registers`` belong to one work-item; ``private`` are registers that need addresses.
Scope = Literal["global", "local", "registers", "private"]


@dataclass(frozen=True)
class Buffer:
    """Memory that a nest accesses, or registers that it keeps.

    `strides` are in elements, one for each mode; accumulators in registers have none.  `shape` is what accesses stay
    within.  `order` lists the modes from the fastest to the slowest where it is not the natural one, and `alignment`
    holds (mode, factor, offset): the stride of that mode is `offset` more than a multiple of `factor`.  The last mode
    of a `doubled` buffer selects one of two halves, or of more parts.  That of one in blocks, of `block` elements of
    another mode, says in elements where a block begins.  An operand that `is_temporary` lies in memory that the
    function allocates, whatever its scope in the nest.
    """

    name: str
    element: ScalarType
    strides: tuple[int | Dimension, ...] = ()
    scope: Scope = "global"
    shape: tuple[Bound, ...] = ()
    order: tuple[int, ...] = ()
    alignment: tuple[tuple[int, int, int], ...] = ()
    doubled: bool = False
    block: int = 1
    is_temporary: bool = False

    @property
    def in_registers(self) -> bool:
        """Whether its elements are values without addresses."""
        return self.scope == "registers"

    @property
    def elements(self) -> int:
        """The number of elements from the first to the last, padding included; the shape is static."""
        static = [(size, stride) for size, stride in zip(self.shape, self.strides, strict=True)
                  if isinstance(size, int) and isinstance(stride, int)]
        assert len(static) == len(self.shape)
        return self.room if self.block > 1 else 1 + sum((size - 1) * stride for size, stride in static)

    @property
    def room(self) -> int:
        """The number of elements that it takes, the padding behind the last one included; the shape is static."""
        static = [size * stride for size, stride in zip(self.shape, self.strides, strict=True)
                  if isinstance(size, int) and isinstance(stride, int)]
        assert len(static) == len(self.shape)
        return max(static, default=1)

    def reshaped(self, shape: tuple[Bound, ...]) -> Buffer:
        """Return the buffer with another shape, laid out anew."""
        return replace(self, shape=shape, strides=compact_strides(shape, self.order, self.alignment, self.block))


def compact_strides(
    shape: tuple[Bound, ...], order: tuple[int, ...] = (), alignment: tuple[tuple[int, int, int], ...] = (),
    block: int = 1,
) -> tuple[int, ...]:
    """Return the strides of a buffer without gaps but those that `alignment` asks for; none if a size is unknown.

    The last mode counts the elements of blocks.
    """
    padding = {mode: (factor, offset) for mode, factor, offset in alignment}
    strides, stride = [0] * len(shape), 1
    for mode in order or range(len(shape)):
        size = shape[mode]
        if not isinstance(size, int):
            return ()
        if mode in padding:
            factor, offset = padding[mode]
            stride += (offset - stride) % factor
        strides[mode] = stride
        stride *= size
    if block > 1:
        strides[-1] = -(-strides[-1] // block)
    return tuple(strides)


#: An index: the sum of loop variables.
Index = tuple[str, ...]
#: The parts of complex numbers.
Part = Literal["re", "im"]


@dataclass(frozen=True)
class Access:
    """An element of a buffer; an `is_integer_load` takes it through an integer register, unchanged.

    Where `part` says so it is but the real or the imaginary part of a complex number.
    """

    buffer: Buffer
    indices: tuple[Index, ...]
    is_integer_load: bool = False
    part: Part | None = None

    @property
    def type(self) -> ScalarType:
        """The type of its value."""
        return self.buffer.element if self.part is None else self.buffer.element.part

    def __str__(self) -> str:
        text = f"{self.buffer.name}[{', '.join(' + '.join(i) or '0' for i in self.indices)}]"
        if self.part is not None:
            text += f".{self.part}"
        return f"integer_load({text})" if self.is_integer_load else text


@dataclass(frozen=True)
class Scalar:
    """A value that the kernel passes to the nest, such as alpha."""

    name: str
    type: ScalarType

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: int | float | complex
    type: ScalarType

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Convert:
    """A value converted to another element type."""

    operand: Expression
    type: ScalarType

    def __str__(self) -> str:
        return f"{self.type}({self.operand})"


@dataclass(frozen=True)
class TimesI:
    """i · a, of a complex number."""

    operand: Expression

    def __str__(self) -> str:
        return f"1j * {_factor(self.operand)}"


@dataclass(frozen=True)
class Product:
    """a · b; one factor of a complex number may be real."""

    lhs: Expression
    rhs: Expression

    def __str__(self) -> str:
        return f"{_factor(self.lhs)} * {_factor(self.rhs)}"


@dataclass(frozen=True)
class Total:
    """a + b."""

    lhs: Expression
    rhs: Expression

    def __str__(self) -> str:
        return f"{self.lhs} + {self.rhs}"


@dataclass(frozen=True)
class MultiplyAdd:
    """a · b + c with one rounding."""

    lhs: Expression
    rhs: Expression
    addend: Expression

    def __str__(self) -> str:
        return f"fma({self.lhs}, {self.rhs}, {self.addend})"


Expression = Access | Scalar | Number | Convert | TimesI | Product | Total | MultiplyAdd


def _factor(expression: Expression) -> str:
    return f"({expression})" if isinstance(expression, Total) else str(expression)


def map_accesses(expression: Expression, change: Callable[[Access], Expression]) -> Expression:
    """Return the expression with `change` of each access in its place."""
    match expression:
        case Access():
            return change(expression)
        case Scalar() | Number():
            return expression
        case Convert(operand, type_):
            return Convert(map_accesses(operand, change), type_)
        case TimesI(operand):
            return TimesI(map_accesses(operand, change))
        case Product(lhs, rhs):
            return Product(map_accesses(lhs, change), map_accesses(rhs, change))
        case Total(lhs, rhs):
            return Total(map_accesses(lhs, change), map_accesses(rhs, change))
        case MultiplyAdd(lhs, rhs, addend):
            return MultiplyAdd(*(map_accesses(e, change) for e in (lhs, rhs, addend)))


def accesses_of(expression: Expression) -> Iterator[Access]:
    """Yield every access that the expression reads."""
    match expression:
        case Access():
            yield expression
        case Convert(operand) | TimesI(operand):
            yield from accesses_of(operand)
        case Product(lhs, rhs) | Total(lhs, rhs):
            yield from accesses_of(lhs)
            yield from accesses_of(rhs)
        case MultiplyAdd(lhs, rhs, addend):
            for operand in (lhs, rhs, addend):
                yield from accesses_of(operand)


def type_of(expression: Expression) -> ScalarType:
    """Return the element type of an expression."""
    match expression:
        case Access() | Scalar() | Number() | Convert():
            return expression.type
        case TimesI(operand):
            return type_of(operand)
        case Product(lhs, rhs) | Total(lhs, rhs) | MultiplyAdd(lhs, rhs):
            # A factor of a complex number may be real.
            return next((type_ for type_ in map(type_of, (lhs, rhs)) if type_.is_complex), type_of(lhs))
