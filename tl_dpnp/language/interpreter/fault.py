"""The error that the interpreter's parts raise before its place in the source is known."""

from __future__ import annotations

from tl_dpnp.errors import Diagnostic, Span, TLBoundsError, TLError

__all__ = ["BoundsFault", "Fault"]


class Fault(Exception):
    """A rule of the language was broken at run time; `locate` makes the error that the user sees."""

    error: type[TLError] = TLError

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def locate(self, span: Span, group: str, source: str | None) -> TLError:
        """Return the error with the operation's span, its source line where `source` is given, and the group's name."""
        lines = [] if source is None else source.splitlines()
        line = lines[span.line - 1] if 0 < span.line <= len(lines) else None
        message = f"{self.message} (in work-group {group})"
        return self.error.from_diagnostics([Diagnostic(message, span, self.hint, line)])


class BoundsFault(Fault):
    """An access, a view or an operand does not fit the memory it refers to."""

    error = TLBoundsError
