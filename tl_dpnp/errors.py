"""The errors that tl_dpnp raises, and the source locations they carry.

Every error derives from `TLError`.  An error that has a place in the user's source carries one or more
`Diagnostic` objects; its text is their rendering: ``file:line:column``, the source line, a caret and a hint.
All of them pickle, so that they cross process boundaries whole.
"""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import field
from types import FrameType

from tl_dpnp.records import dataclass

__all__ = [
    "CacheWarning",
    "Diagnostic",
    "FusionWarning",
    "LayoutError",
    "LoweringError",
    "OccupancyWarning",
    "OverlapWarning",
    "ScheduleError",
    "SettingWarning",
    "Span",
    "TLBindingError",
    "TLBoundsError",
    "TLError",
    "TLSyntaxError",
    "TLTypeError",
    "TLVerifyError",
    "TLWarning",
    "UnsupportedError",
    "calling_frame",
    "nearest",
    "warn",
    "works_for",
]


@dataclass(frozen=True)
class Span:
    """A half-open range of source text; lines and columns count from 1, the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong with a program: what, where, and what to write instead.

    `source_line` is the text of the span's first line; `notes` are further places, each with its own message
    (for example the first definition of a name that is defined twice).
    """

    message: str
    span: Span | None = None
    hint: str | None = None
    source_line: str | None = None
    notes: tuple[Diagnostic, ...] = field(default=())

    def render(self, severity: str = "error") -> str:
        """Return the diagnostic as text: location and message, excerpt with caret, hint, notes."""
        head = f"{self.span}: " if self.span is not None else ""
        lines = [f"{head}{severity}: {self.message}"]
        if self.span is not None and self.source_line is not None:
            lines += _excerpt(self.span, self.source_line)
        if self.hint is not None:
            lines.append(f"  hint: {self.hint}")
        lines += [note.render("note") for note in self.notes]
        return "\n".join(lines)


_EXCERPT_WIDTH = 160
#: Diagnostics that the text of an error shows; clang shows as many (-ferror-limit).
_MOST_SHOWN = 20


def _excerpt(span: Span, source_line: str) -> list[str]:
    """Return the source line and the line of carets below it, cut to a window around the span."""
    text = source_line.expandtabs(1)
    first = span.column - 1
    last = span.end_column - 1 if span.end_line == span.line else len(text)
    start = 0
    if len(text) > _EXCERPT_WIDTH:
        start = max(0, min(first - _EXCERPT_WIDTH // 4, len(text) - _EXCERPT_WIDTH))
        text = text[start : start + _EXCERPT_WIDTH]
    width = max(1, min(last, start + len(text)) - first)
    number = str(span.line)
    gutter = " " * len(number)
    printable = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return [f"  {number} | {printable}", f"  {gutter} | {' ' * (first - start)}{'^' * width}"]


class TLError(Exception):
    """Base of every error that tl_dpnp raises.

    `diagnostics` holds what is wrong, in source order; the exception's text renders the first 20 of them and says how
    many more there are.
    """

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        # Not super(): the builtin SyntaxError takes other arguments.  `args` rebuild the error when it is unpickled.
        Exception.__init__(self, message, tuple(diagnostics))
        self.message = message
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)

    @classmethod
    def from_diagnostics(cls, diagnostics: Sequence[Diagnostic]) -> TLError:
        """Build the error for one or more diagnostics; the message is the first one's."""
        count = len(diagnostics)
        suffix = f" (and {count - 1} more)" if count > 1 else ""
        return cls(diagnostics[0].message + suffix, diagnostics)

    def __str__(self) -> str:
        if not self.diagnostics:
            return self.message
        shown = [diagnostic.render() for diagnostic in self.diagnostics[:_MOST_SHOWN]]
        hidden = len(self.diagnostics) - len(shown)
        if hidden:
            shown.append(f"and {hidden} more, in the error's attribute diagnostics")
        return "\n".join(shown)


class TLSyntaxError(TLError, SyntaxError):
    """The text is not a program of the tensor language."""

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic] = ()) -> None:
        TLError.__init__(self, message, diagnostics)
        self.msg = str(self)  # what a traceback prints of a SyntaxError

    def __str__(self) -> str:
        return TLError.__str__(self)


class TLTypeError(TLError, TypeError):
    """An argument of a call has a type that its parameter does not accept, is missing, or has no parameter."""


class TLVerifyError(TLError, ValueError):
    """The program is well formed but breaks a rule of the language."""


class TLBindingError(TLError, ValueError):
    """The arguments of a call do not fit together: sizes, the number of work-groups."""


class LayoutError(TLBindingError):
    """The strides of an array do not fit the memory layout of its parameter."""


class TLBoundsError(TLError, IndexError):
    """An access outside a memref, found by a kernel that was compiled with ``debug=True``."""


class LoweringError(TLError):
    """The compiler could not lower a valid program; the text says which operation and why."""


class ScheduleError(LoweringError, ValueError):
    """A schedule primitive is not legal where it was applied: names the block, the loop and the rule."""


class UnsupportedError(TLError, NotImplementedError):
    """A valid program asks for something that the chosen target does not do; the text says what."""


class TLWarning(UserWarning):
    """Base of every warning of tl_dpnp."""


class CacheWarning(TLWarning):
    """The disk cache could not be used; the kernel was compiled anyway."""


class FusionWarning(TLWarning):
    """A fused function, or a part of one, runs in dpnp as it is."""


class OverlapWarning(TLWarning):
    """A kernel was called with an argument that it writes and that shares memory with another one."""


class OccupancyWarning(TLWarning):
    """A large product runs on few of a device's multiprocessors."""


class SettingWarning(TLWarning):
    """An environment variable is named like a setting, and is none."""


def nearest(name: str, names: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the one of `names` that `name` may be a slip for, in other letters' case too; None if none is like it."""
    known = {known.lower(): known for known in names}
    found = difflib.get_close_matches(name[:80].lower(), known, 1, likeness)
    return known[found[0]] if found else None


#: The frame that a thread of the package works for.
works_for: ContextVar[FrameType | None] = ContextVar("tl_dpnp_works_for", default=None)


def calling_frame() -> FrameType:
    """Return the frame outside of this package that called into it, also where a thread of the package works for it."""
    frame = works_for.get()
    if frame is not None:
        return frame
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tl_dpnp":
        frame = frame.f_back
    return frame


def warn(message: str, category: type[TLWarning]) -> None:
    """Warn, at the line outside of this package that called into it."""
    frame = calling_frame()
    names = frame.f_globals
    # Without the variables themselves: a line of source is looked for with the module's loader there, and that of what
    # is typed in, or given with -c, raises an error.
    warnings.warn_explicit(message, category, frame.f_code.co_filename, frame.f_lineno, names.get("__name__"),
                           names.setdefault("__warningregistry__", {}))
