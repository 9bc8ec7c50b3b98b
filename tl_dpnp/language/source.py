"""The source text: spans of its tokens and rules, and its lines for diagnostics."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate

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
        assert start.start_pos is not None
        assert end.end_pos is not None
        starts = self._line_starts
        line = bisect_right(starts, start.start_pos)
        same = line == len(starts) or end.end_pos < starts[line]
        end_line = line if same else bisect_right(starts, end.end_pos)
        return Span(self.file, line, start.start_pos - starts[line - 1] + 1,
                    end_line, end.end_pos - starts[end_line - 1] + 1)

    @cached_property
    def _line_starts(self) -> list[int]:
        """Where each line begins in the text."""
        return [0, *accumulate(len(line) + 1 for line in self.lines[:-1])]

    def diagnostic(
        self, message: str, span: Span, hint: str | None = None, notes: tuple[Diagnostic, ...] = ()
    ) -> Diagnostic:
        """Return a diagnostic with the line of its place."""
        return Diagnostic(message, span, hint, self.line(span), notes)
