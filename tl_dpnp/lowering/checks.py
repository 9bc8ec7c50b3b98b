"""What ``debug=True`` checks in a kernel: what each kind of check compares, and what it says when it fails."""

from __future__ import annotations

from typing import Literal

from tl_dpnp.errors import Span
from tl_dpnp.lowering.body.tree import Expression
from tl_dpnp.lowering.plan import BoundsCheck

__all__ = ["CheckKind", "failure", "is_known_to_hold"]

#: ``bounds`` is 0 ≤ value < bound, ``most`` 0 ≤ value ≤ bound, ``least`` value ≥ bound.
CheckKind = Literal["bounds", "most", "least", "equal", "differs"]

#: Messages of failed checks; the runtime fills in the value and the bound.
_MESSAGES: dict[CheckKind, str] = {
    "bounds": "{what} is out of bounds: {{value}}, where the bound is {{bound}}",
    "most": "{what} is out of bounds: {{value}}, where the most is {{bound}}",
    "least": "{what} is {{value}}, where the least is {{bound}}",
    "equal": "{what} differs from what it must be: {{value}}, where the bound is {{bound}}",
    "differs": "{what}",
}


def failure(kind: CheckKind, what: str, span: Span) -> BoundsCheck:
    """Return what a check of `what` says where it fails."""
    message = _MESSAGES[kind].format(what=what)
    return BoundsCheck(message, span.file, span.line, span.column, span.end_line, span.end_column)


def is_known_to_hold(kind: CheckKind, value: Expression, bound: Expression) -> bool:
    """Return whether a check needs no code."""
    if kind == "equal" and value == bound:
        return True
    if not (isinstance(value, int) and isinstance(bound, int)):
        return False
    match kind:
        case "bounds":
            return 0 <= value < bound
        case "most":
            return 0 <= value <= bound
        case "least":
            return value >= bound
        case "equal":
            return False
        case "differs":
            return value != bound
