"""The source text: spans of its tokens and rules, and its lines for diagnostics."""

from __future__ import annotations

from functools import cached_property

from lark import Token, Tree

from tl_dpnp.errors import Diagnostic, Span
from tl_dpnp.records import dataclass

__all__ = ["Node", "Source"]

#: A child of the parse tree.
Node = Token | Tree[Token]


@dataclass(frozen=True)
class Source:
    """One text and the name of the file that it comes from."""

    text: str
    file: str

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, without their ends."""
        return self.text.split("\n")

    def line(self, span: Span) -> str | None:
        """Return the text of the first line of a span."""
        return self.lines[span.line - 1].rstrip("\r") if 0 < span.line <= len(self.lines) else None

    def span(self, first: Node, last: Node | None = None) -> Span:
        """Return the place of a node of the parse tree, or of all nodes from `first` to `last`."""
        start = first if isinstance(first, Token) else first.meta
        end = start if last is None else (last if isinstance(last, Token) else last.meta)
        assert start.line is not None
        assert start.column is not None
        assert end.end_line is not None
        assert end.end_column is not None
        return Span(self.file, start.line, start.column, end.end_line, end.end_column)

    def diagnostic(
        self, message: str, span: Span, hint: str | None = None, notes: tuple[Diagnostic, ...] = ()
    ) -> Diagnostic:
        """Return a diagnostic with the line of its place."""
        return Diagnostic(message, span, hint, self.line(span), notes)
