"""Building the body of a kernel: names, blocks, calls of intrinsics, and the checks that ``debug=True`` asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

from tl_dpnp.errors import Span
from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.lowering.body.tree import (
    And,
    Assign,
    Binary,
    Break,
    Call,
    Comparison,
    Constant,
    Count,
    Define,
    Evaluate,
    Expression,
    If,
    Name,
    Not,
    Return,
    Statement,
    While,
    is_simple,
    multiply,
    subtract,
)
from tl_dpnp.lowering.checks import CheckKind, failure, is_known_to_hold
from tl_dpnp.lowering.plan import CHECK_FIELDS, BoundsCheck
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, INDEX, ScalarType

__all__ = ["BEYOND", "CHUNK", "FAILED", "GROUP", "GROUPS", "MINIMUM", "BodyBuilder", "call"]

#: The work-group that is computed, how many there are, and the arguments behind that (`tl_dpnp.lowering.plan`).
GROUP, GROUPS, CHUNK, BEYOND = map(Name, ("group", "groups", "chunk", "beyond"))
#: The smaller of two indices.
MINIMUM = intrinsics.mathematics("min", INDEX, 2)
_RECORD, FAILED = Name("record"), Name("failed", I1)


def call(intrinsic: Intrinsic, *arguments: Expression) -> Call:
    """Return a call of an intrinsic."""
    return Call(intrinsic, arguments)


@dataclass(kw_only=True)
class BodyBuilder:
    """The statements of the current block so far, and the checks."""

    debug: bool
    statements: list[Statement] = field(default_factory=list)
    checks: list[BoundsCheck] = field(default_factory=list)
    count: int = 0
    #: Inside ``foreach``: work-items run on their own there.
    spmd: bool = False
    #: Loops around the current position, counted from ``foreach`` inwards.
    loops: int = 0

    def append(self, *statements: Statement) -> None:
        """Add statements to the current block."""
        self.statements += statements

    def evaluate(self, call: Call, comment: str = "") -> None:
        """Call an intrinsic for its effect."""
        self.append(Evaluate(call, comment))

    def define(self, value: Expression) -> Name:
        """Give a value a name, and return that."""
        name = self.fresh(_type_of(value))
        self.append(Define(name, value))
        return name

    def assign(self, variable: Name, value: Expression) -> None:
        """Give a variable a value."""
        self.append(Assign(variable, value))

    def count_up(self, variable: Name, step: Expression) -> None:
        """Add to a variable that does not overflow."""
        self.append(Count(variable, step))

    def variable(self, value: Expression) -> Name:
        """Return a new variable with its first value."""
        name = self.fresh(_type_of(value))
        self.assign(name, value)
        return name

    def fresh(self, type_: ScalarType = INDEX) -> Name:
        """Return a new name."""
        self.count += 1
        return Name(f"v{self.count}", type_)

    def bind(self, value: Expression) -> Expression:
        """Give a compound expression a name."""
        return value if is_simple(value) else self.define(value)

    @contextmanager
    def _block(self) -> Iterator[list[Statement]]:
        outside, self.statements = self.statements, []
        inside = self.statements
        yield inside
        self.statements = outside

    @contextmanager
    def branch(self, condition: Expression) -> Iterator[None]:
        """What is added inside is done where a condition holds."""
        with self._block() as inside:
            yield
        self.append(If(condition, tuple(inside)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is added inside is done where the condition of the branch before does not hold."""
        with self._block() as inside:
            yield
        last = self.statements.pop()
        assert isinstance(last, If)
        self.append(replace(last, otherwise=tuple(inside)))

    @contextmanager
    def loop(self, condition: Expression) -> Iterator[None]:
        """What is added inside is repeated while a condition holds."""
        with self._block() as inside:
            yield
        self.append(While(condition, tuple(inside)))

    # --- checks ------------------------------------------------------------------------------------------------------

    def begin_checks(self) -> None:
        """Set that nothing has failed yet."""
        if self.debug:
            self.assign(FAILED, Constant(False, I1))

    def check_indices(self, span: Span, indices: Sequence[Expression], sizes: Sequence[Expression], what: str) -> None:
        for mode, (index, size) in enumerate(zip(indices, sizes, strict=True)):
            self.check("bounds", span, index, size, f"{what} {mode}" if len(indices) > 1 else what)

    def check_slice(self, span: Span, offset: Expression, length: Expression | None, size: Expression) -> None:
        """Check that 0 ≤ offset ≤ size, and that 0 ≤ length ≤ size − offset where a length is given."""
        self.check("most", span, offset, size, "offset of the slice")
        if length is not None:
            self.check("most", span, length, subtract(size, offset), "size of the slice")

    def check_expand(self, span: Span, sizes: Sequence[Expression], size: Expression) -> None:
        """Check that the sizes that a mode is expanded to are not negative, and that their product is its size."""
        total: Expression = 1
        for entry in sizes:
            self.check("least", span, entry, 0, "a size of the expand shape")
            total = multiply(total, entry)
        self.check("equal", span, total, size, "product of the expand shape")

    def check_whole_bytes(self, span: Span, per_byte: int, *values: Expression) -> None:
        """Check that sizes and offsets of a mode whose elements share bytes are at the start of one."""
        for value in map(self.bind, values):
            left: Expression = value % per_byte if isinstance(value, int) else Binary("&", value, per_byte - 1)
            what = f"what is left of a size or offset of mode 0 in a byte of {per_byte} elements"
            self.check("equal", span, left, 0, what)

    def check(self, kind: CheckKind, span: Span, value: Expression, bound: Expression, what: str) -> None:
        """Add a check that ends the work-group, or the work-item's loop, where it fails."""
        if not self.debug or is_known_to_hold(kind, value, bound):
            return
        number = len(self.checks)
        self.checks.append(failure(kind, what, span))
        test = call(intrinsics.check(kind, CHECK_FIELDS), _RECORD, number, GROUP, value, bound)
        with self.branch(Not(test)):
            if self.spmd:
                # The others go on to the next barrier, so this work-item may only leave its loops.
                self.assign(FAILED, Constant(True, I1))
                self.append(Break())
            else:
                self.append(Return())

    def leave_if_failed(self) -> None:
        if self.debug and self.loops:
            with self.branch(FAILED):
                self.append(Break())

    def check_arithmetic(self, span: Span, kind: str, type_: ScalarType, rhs: Expression) -> None:
        """Check the second operand of a shift, or of a division or remainder of integers."""
        if kind in ("shl", "shr"):
            self.check("bounds", span, rhs, type_.bits, "shift amount")
        else:
            self.check("differs", span, rhs, 0, f"division of a value of type {type_} by zero")


def _type_of(value: Expression) -> ScalarType:
    match value:
        case Name(type=type_) | Constant(type=type_):
            return type_
        case Call(intrinsic):
            assert intrinsic.result is not None
            return intrinsic.result
        case Comparison() | And() | Not():
            return I1
    return INDEX
