"""Lines of a kernel shell: names, blocks, calls of intrinsics, and the checks that ``debug=True`` asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tl_dpnp.errors import Span
from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.lowering.checks import CheckKind, failure, is_known_to_hold
from tl_dpnp.lowering.plan import CHECK_FIELDS, BoundsCheck
from tl_dpnp.lowering.text import Text, add, multiply
from tl_dpnp.scalars import ScalarType

__all__ = ["ShellLines"]


@dataclass(kw_only=True)
class ShellLines:
    """The text that is written so far, and what it calls."""

    debug: bool
    lines: list[str] = field(default_factory=list)
    indent: int = 1
    intrinsics: dict[str, Intrinsic] = field(default_factory=dict)
    checks: list[BoundsCheck] = field(default_factory=list)
    count: int = 0
    #: Inside ``foreach``: work-items run on their own there.
    spmd: bool = False
    #: Loops around the current position, counted from ``foreach`` inwards.
    loops: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1

    def assign(self, text: Text) -> str:
        name = self.fresh()
        self.line(f"{name} = {text}")
        return name

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def call(self, intrinsic: Intrinsic, *arguments: Text) -> str:
        self.intrinsics[intrinsic.name] = intrinsic
        return f"{intrinsic.name}({', '.join(map(str, arguments))})"

    def bind(self, text: Text) -> Text:
        """Give a compound expression a name."""
        return text if isinstance(text, int) or text.isidentifier() else self.assign(text)

    # --- checks ------------------------------------------------------------------------------------------------------

    def check_indices(self, span: Span, indices: Sequence[Text], sizes: Sequence[Text], what: str) -> None:
        for mode, (index, size) in enumerate(zip(indices, sizes, strict=True)):
            self.check("bounds", span, index, size, f"{what} {mode}" if len(indices) > 1 else what)

    def check_slice(self, span: Span, offset: Text, length: Text | None, size: Text) -> None:
        """Check that 0 ≤ offset ≤ size, and that 0 ≤ length ≤ size − offset where a length is given."""
        self.check("most", span, offset, size, "offset of the slice")
        if length is not None:
            self.check("most", span, length, add(size, multiply(offset, -1)), "size of the slice")

    def check_expand(self, span: Span, sizes: Sequence[Text], size: Text) -> None:
        """Check that the sizes that a mode is expanded to are not negative, and that their product is its size."""
        total: Text = 1
        for entry in sizes:
            self.check("least", span, entry, 0, "a size of the expand shape")
            total = multiply(total, entry)
        self.check("equal", span, total, size, "product of the expand shape")

    def check_whole_bytes(self, span: Span, per_byte: int, *values: Text) -> None:
        """Check that sizes and offsets of a mode whose elements share bytes are at the start of one."""
        for value in map(self.bind, values):
            left: Text = value % per_byte if isinstance(value, int) else f"({value} & {per_byte - 1})"
            what = f"what is left of a size or offset of mode 0 in a byte of {per_byte} elements"
            self.check("equal", span, left, 0, what)

    def check(self, kind: CheckKind, span: Span, value: Text, bound: Text, what: str) -> None:
        """Write a check that ends the work-group, or the work-item's loop, where it fails."""
        if not self.debug or is_known_to_hold(kind, value, bound):
            return
        number = len(self.checks)
        self.checks.append(failure(kind, what, span))
        test = self.call(intrinsics.check(kind, CHECK_FIELDS), "record", number, "group", value, bound)
        with self.block(f"if not {test}:"):
            if self.spmd:
                # The others go on to the next barrier, so this work-item may only leave its loops.
                self.line("failed = True")
                self.line("break")
            else:
                self.line("return")

    def leave_if_failed(self) -> None:
        if self.debug and self.loops:
            self.line("if failed: break")

    def check_arithmetic(self, span: Span, kind: str, type_: ScalarType, rhs: Text) -> None:
        """Check the second operand of a shift, or of a division or remainder of integers."""
        if kind in ("shl", "shr"):
            self.check("bounds", span, rhs, type_.bits, "shift amount")
        else:
            self.check("differs", span, rhs, 0, f"division of a value of type {type_} by zero")
