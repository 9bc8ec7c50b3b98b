"""Expressions and statements of the body of a kernel.

Numbers are of type index, 64 bits that wrap around, and so is all arithmetic here: sizes, strides, offsets, counters.
Values of other types are made by calls of intrinsics.  What is known is computed when an expression is made, so that
the body says ``group * 256`` and not ``group * 16 * 16 * 1 + 0``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.lowering.plan import BoundsCheck
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX, ScalarType

__all__ = [
    "And", "Argument", "Assign", "Binary", "Body", "Break", "Call", "Choice", "Comparison", "Constant", "Count",
    "Define", "Evaluate", "Expression", "If", "Name", "Not", "Return", "Statement", "While", "add", "bytes_of",
    "is_simple", "multiply", "offset_of", "subtract",
]


@dataclass(frozen=True)
class Name:
    """A value or a variable that has a name."""

    name: str
    type: ScalarType = INDEX


@dataclass(frozen=True)
class Constant:
    """A number of a type other than index."""

    value: bool | int | float | complex
    type: ScalarType


@dataclass(frozen=True)
class Binary:
    """Arithmetic on indices; ``>>`` keeps the sign."""

    operator: Literal["+", "-", "*", ">>", "&"]
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Comparison:
    """A comparison of two indices, which are signed."""

    operator: Literal["<", "<=", "==", "!="]
    left: Expression
    right: Expression


@dataclass(frozen=True)
class And:
    """Whether both conditions hold."""

    left: Expression
    right: Expression


@dataclass(frozen=True)
class Not:
    """Whether a condition does not hold."""

    condition: Expression


@dataclass(frozen=True)
class Choice:
    """One of two indices; both are computed."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Call:
    """A call of an intrinsic; numbers that it is given take the types of its parameters."""

    intrinsic: Intrinsic
    arguments: tuple[Expression, ...]


Expression: TypeAlias = int | Name | Constant | Binary | Comparison | And | Not | Choice | Call


@dataclass(frozen=True)
class Define:
    """Give a value a name, once: it holds for what follows in its block."""

    name: Name
    value: Expression


@dataclass(frozen=True)
class Assign:
    """Give a variable a value; it may be assigned again, also in other blocks."""

    variable: Name
    value: Expression


@dataclass(frozen=True)
class Count:
    """Add to a variable which does not pass 2⁶³ − 1 by that; who unrolls the loop that it counts relies on it."""

    variable: Name
    step: Expression


@dataclass(frozen=True)
class Evaluate:
    """Call an intrinsic for its effect; the comment is for who reads the kernel."""

    call: Call
    comment: str = ""


@dataclass(frozen=True)
class If:
    """A branch."""

    condition: Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] | None = None


@dataclass(frozen=True)
class While:
    """A loop that is tested at its top."""

    condition: Expression
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Return:
    """End the work-item."""


@dataclass(frozen=True)
class Break:
    """Leave the innermost loop."""


Statement: TypeAlias = Define | Assign | Count | Evaluate | If | While | Return | Break


@dataclass(frozen=True)
class Argument:
    """One argument of the kernel: its name and its type."""

    name: str
    type: ScalarType


@dataclass(frozen=True)
class Body:
    """The body of a kernel: its arguments in order, its statements, its checks, and what its parameters mean."""

    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    checks: tuple[BoundsCheck, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()


def is_simple(expression: Expression) -> bool:
    """Return whether an expression costs nothing to repeat: a number or a name."""
    return isinstance(expression, int | Name)


def add(a: Expression, b: Expression) -> Expression:
    """Return a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    if b == 0:
        return a
    return Binary("+", a, b)


def subtract(a: Expression, b: Expression) -> Expression:
    """Return a - b."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else Binary("-", a, b)


def multiply(a: Expression, b: Expression) -> Expression:
    """Return a · b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    return Binary("*", a, b)


def bytes_of(offset: Expression, element: ScalarType) -> Expression:
    """Return an offset in elements, which is at the start of a byte, in bytes."""
    if element.per_byte == 1:
        return multiply(offset, element.bytes)
    if isinstance(offset, int):
        return offset // element.per_byte
    return Binary(">>", offset, element.per_byte.bit_length() - 1)


def offset_of(terms: Iterable[tuple[Expression, Expression]]) -> Expression:
    """Return the sum of index · stride."""
    total: Expression = 0
    for index, stride in terms:
        total = add(total, multiply(index, stride))
    return total
