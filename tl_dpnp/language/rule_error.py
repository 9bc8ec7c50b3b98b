"""The exception by which the rules of the language report that one is broken, before it has a place."""

from __future__ import annotations

__all__ = ["RuleError", "counted"]


class RuleError(Exception):
    """A rule of the language is broken: what is wrong, and what to write instead.

    It never leaves the package: whoever knows the place in the source turns it into a diagnostic.
    `operand` counts the operands of the operation, as `Operation.operands` does, where one is to blame.
    """

    def __init__(self, message: str, hint: str | None = None, operand: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.operand = operand


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 value``, ``2 values``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
