"""Syntax errors in the user's terms: what was found, what was expected there, and how the instruction is written.

After an error the parser resumes at the next instruction or function, so that one run reports several.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from tl_dpnp.errors import Diagnostic, Span
from tl_dpnp.language.hints import FORMS, STARTS, VALUES, Hints, form_hint
from tl_dpnp.language.lark_adapter import OtherLark, StoppedParser, words_of
from tl_dpnp.language.source import Source

__all__ = ["syntax_errors"]

#: What follows the first name of an instruction's results.
_RESULTS = re.compile(r"(\s*,\s*%\w+)*\s*=")
_MAXIMUM_ERRORS = 20
_MAXIMUM_BAD_CHARACTERS = 1000
_MAXIMUM_STACK = 1000

_PLAIN_NAMES = {
    "LOCAL_IDENTIFIER": "a value such as %a",
    "GLOBAL_IDENTIFIER": "a name such as @kernel",
    "BOOLEAN_CONSTANT": "true or false",
    "FLOATING_CONSTANT": "a number",
    "INTEGER_CONSTANT": "an integer",
    "SCALAR_TYPE": "a scalar type such as f32",
    "STRING": "a text in quotes",
    "_X": "'x'",
    "$END": "the end of the program",
}


def syntax_errors(grammar: Lark, source: Source, error: UnexpectedInput) -> list[Diagnostic]:
    """Return the diagnostics of a text that raised `error`, in source order."""
    recovery = _Recovery(words_of(grammar), source)
    diagnostics: list[Diagnostic] = []
    parser = None
    while True:
        try:
            parser = StoppedParser(error, parser)
        except OtherLark:
            return [*diagnostics, recovery.unexplained(error)]
        diagnostics.append(recovery.explain(error, parser))
        if len(diagnostics) == _MAXIMUM_ERRORS:
            return diagnostics
        try:
            span = diagnostics[-1].span
            if not recovery.resynchronise(parser, error, 0 if span is None else span.line):
                return diagnostics
            parser.resume()
            return diagnostics
        except UnexpectedInput as following:
            error = following


class _Recovery:
    """Explains errors and finds the places to resume at; `literals` are the quoted words of the grammar by terminal."""

    def __init__(self, literals: dict[str, str], source: Source) -> None:
        self.literals = literals
        self.source = source
        self.hints = Hints(literals, source.text)
        self.bad_characters = 0

    # --- explanation -------------------------------------------------------------------------------------------------

    def explain(self, error: UnexpectedInput, parser: StoppedParser) -> Diagnostic:
        """Return the diagnostic of an error, which stopped a parser."""
        accepted = self._accepted(parser)
        context = self._context(parser)
        if isinstance(error, UnexpectedCharacters):
            char = self.source.text[error.pos_in_stream] if error.pos_in_stream is not None else ""
            hint = self.hints.for_character(char, error.pos_in_stream or 0, accepted, context)
            return self.source.diagnostic(f"unexpected character {_quote(char)}", self._place(error), hint)
        assert isinstance(error, UnexpectedToken)
        token = error.token
        if token.type == "$END":
            return self._unexpected_end(accepted, context)
        expected = self._describe(accepted)
        if self._begins_another(token, accepted):
            assert token.line is not None
            span = self._end_of_lines(token.line - 1)
            hint = self._unfinished_hint(span, context) or self.hints.for_token(token, accepted, context)
            return self.source.diagnostic(f"the line ends where {expected} is expected", span, hint)
        found = _quote(str(token)) if len(token) <= 40 else _quote(f"{token[:37]}...")
        message = f"expected {expected}, found {found}"
        if token.type == "WORD":
            message = f"expected {expected}, found the unknown word {found}"
        return self.source.diagnostic(message, self.source.span(token), self.hints.for_token(token, accepted, context))

    def unexplained(self, error: UnexpectedInput) -> Diagnostic:
        """Return the diagnostic of an error without what is expected there."""
        if isinstance(error, UnexpectedToken) and error.token.type != "$END":
            return self.source.diagnostic(f"unexpected {_quote(str(error.token))}", self.source.span(error.token))
        if isinstance(error, UnexpectedCharacters):
            return self.source.diagnostic("unexpected character", self._place(error))
        return self.source.diagnostic("the program is not complete", self._end_of_lines(len(self.source.lines)))

    def _place(self, error: UnexpectedCharacters) -> Span:
        return Span(self.source.file, error.line, error.column, error.line, error.column + 1)

    def _unexpected_end(self, accepted: set[str], context: str | None) -> Diagnostic:
        span = self._end_of_lines(len(self.source.lines))
        if context is None and accepted - {"DEFINITION"} == {"FUNC"}:
            return self.source.diagnostic("the program is empty", span, f"write {FORMS['func']}")
        message = f"the program ends where {self._describe(accepted)} is expected"
        if "RBRACE" in accepted:
            hint: str | None = "a region is not closed: add }"
        else:
            hint = self._unfinished_hint(span, context)
            if hint is None and "RPAR" in accepted:
                hint = "a list is not closed: add )"
        return self.source.diagnostic(message, span, hint)

    def _begins_another(self, token: Token, accepted: set[str]) -> bool:
        """Return whether a token that is not accepted begins a line and an instruction: one before is unfinished."""
        if token.line is None or not self._is_first_of_line(token) or accepted & {"FOREACH", "FUNC", "$END"}:
            return False
        if token.type == "LOCAL_IDENTIFIER":
            return _RESULTS.match(self.source.text, token.end_pos or 0) is not None
        return token.type in ("RBRACE", "FUNC") or self.literals.get(token.type) in STARTS

    def _end_of_lines(self, count: int) -> Span:
        """Return the place behind the last text, comments aside, of the first `count` lines."""
        lines = [line.partition(";")[0].rstrip() for line in self.source.lines[:count]]
        number = next((n for n in range(len(lines), 0, -1) if lines[n - 1]), 1)
        column = len(lines[number - 1]) + 1 if lines else 1
        return Span(self.source.file, number, column, number, column + 1)

    def _unfinished_hint(self, span: Span, context: str | None) -> str | None:
        """Return how an unfinished instruction is written, and that the rest of its line is a comment, if it is one."""
        hints = [form_hint(context)]
        if ";" in self.source.lines[span.line - 1]:
            hints.insert(0, "; begins a comment: the rest of its line is not read")
        return "; ".join(filter(None, hints)) or None

    def _accepted(self, parser: StoppedParser) -> set[str]:
        """Return the terminals that may follow."""
        if parser.depth > _MAXIMUM_STACK:
            return {name for name in parser.choices() if name.isupper() or name == "$END"}
        return {name for name in parser.accepts() if name != "WORD"}

    def _context(self, parser: StoppedParser) -> str | None:
        """Return the word that begins the unfinished instruction or type, if the parser is inside one."""
        stack = parser.values
        for value, before in zip(stack[::-1], [*stack[-2::-1], None], strict=False):
            if isinstance(value, Token):
                if value.type == "LSQB" and not (isinstance(before, Token) and before.type == "LOCAL_IDENTIFIER"):
                    return "complex"
                word = self.literals.get(value.type, "")
                if word in FORMS:
                    return word
                if word in ("{", "}"):
                    return None
            elif isinstance(value, Tree) and value.data in ("region", "function_definition"):
                return None
        return None

    def _describe(self, accepted: set[str]) -> str:
        """Return the accepted terminals as text: ``',' or an integer``."""
        names: list[str] = []
        rest = accepted - {"DEFINITION"}  # it may stand wherever an instruction or a function may
        if "FOREACH" in rest:
            names.append("an instruction")
            rest -= {name for name, word in self.literals.items() if word in STARTS} | {"LOCAL_IDENTIFIER"}
        elif "ALLOCA" in rest:
            names.append("an instruction that has a result")
            rest -= {name for name, word in self.literals.items() if word in VALUES} | {"IF", "FOR"}
        for parts, name in _SUMMARIES:
            if parts <= rest:
                names.append(name)
                rest -= parts
        order = {name: number for number, name in enumerate(self.literals)}  # that of the grammar
        for terminal in sorted(rest, key=lambda name: (name not in _PLAIN_NAMES, order.get(name, 0), name)):
            names.append(_PLAIN_NAMES.get(terminal) or f"'{self.literals.get(terminal, terminal)}'")
        names = list(dict.fromkeys(names))
        return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"

    # --- recovery ----------------------------------------------------------------------------------------------------

    def resynchronise(self, parser: StoppedParser, error: UnexpectedInput, line: int) -> bool:
        """Skip to the next instruction behind a line, closing brace or function, which the parser then accepts."""
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            return False
        pending: Token | None = None
        depth = 0
        first = error.token if isinstance(error, UnexpectedToken) else None
        for token in self._tokens(parser, first):
            if pending is not None and token.type in ("EQUAL", "COMMA") and self._resume(parser, pending):
                parser.feed(token)
                return True
            pending = None
            if token.type == "LBRACE":
                depth += 1
            elif token.type == "RBRACE" and depth > 0:
                depth -= 1
            elif depth > 0 and token.type != "FUNC":
                continue
            elif token.type in ("RBRACE", "FUNC"):
                if self._resume(parser, token):
                    return True
            elif token.line is not None and token.line > line and self._is_first_of_line(token):
                if token.type == "LOCAL_IDENTIFIER":
                    pending = token
                elif self.hints.is_start(token) and self._resume(parser, token):
                    return True
        return False

    def _is_first_of_line(self, token: Token) -> bool:
        assert token.line is not None
        assert token.column is not None
        return not self.source.lines[token.line - 1][: token.column - 1].strip()

    def _tokens(self, parser: StoppedParser, first: Token | None) -> Iterator[Token]:
        """Yield the offending token and those after it, skipping characters that begin none."""
        if first is not None:
            yield first
        while True:
            try:
                yield from parser.tokens()
                return
            except UnexpectedCharacters as error:
                self.bad_characters += 1
                if self.bad_characters > _MAXIMUM_BAD_CHARACTERS:
                    return
                parser.skip(error)

    def _resume(self, parser: StoppedParser, token: Token) -> bool:
        """Drop what the parser has begun until it accepts the token, and feed it; false if it never does."""
        # A name may also begin an operand, and `if` a value: only an instruction can be a foreach.
        needed = token.type if token.type in ("RBRACE", "FUNC") else "FOREACH"
        depth = parser.depth
        closed = 0  # braces that end a region which is not reduced yet: its opening brace is no place to resume at
        while depth > 0:
            top = parser.values[depth - 2] if depth > 1 else None
            brace = top.type if isinstance(top, Token) else ""
            closed += brace == "RBRACE"
            if closed == 0 and parser.shifts(depth, needed):
                break
            closed -= brace == "LBRACE" and closed > 0
            depth -= 1
        if depth == 0:
            return False
        parser.cut(depth)
        parser.feed(token)
        return True


#: Sets of terminals with a name of their own, the larger ones first.
_SUMMARIES: tuple[tuple[set[str], str], ...] = (
    ({"LOCAL_IDENTIFIER", "INTEGER_CONSTANT", "FLOATING_CONSTANT", "BOOLEAN_CONSTANT", "LSQB"}, "a value or constant"),
    ({"INTEGER_CONSTANT", "FLOATING_CONSTANT", "BOOLEAN_CONSTANT", "LSQB"}, "a value or constant"),
    ({"VOID", "SCALAR_TYPE", "MEMREF", "GROUP", "COOPMATRIX"}, "a type"),
    ({"SCALAR_TYPE", "COOPMATRIX"}, "a scalar type such as f32 or a coopmatrix type"),
    ({"MEMREF", "GROUP"}, "a memref or group type"),
    ({"FLOATING_CONSTANT", "INTEGER_CONSTANT"}, "a number"),
    ({"LOCAL_IDENTIFIER", "INTEGER_CONSTANT"}, "a value or an integer"),
    ({"LOCAL_IDENTIFIER", "BOOLEAN_CONSTANT"}, "a value of type i1, true or false"),
    ({"INTEGER_CONSTANT", "DYNAMIC"}, "a size or ?"),
    ({"MEMREF"}, "a memref type"),
    ({"WORK_GROUP_SIZE", "SUBGROUP_SIZE", "ATTRIBUTES"}, "an attribute"),
    ({"WORK_GROUP_SIZE", "SUBGROUP_SIZE"}, "an attribute"),
)


def _quote(text: str) -> str:
    return repr(text) if text.isprintable() else f"'{text.encode('unicode_escape', 'surrogatepass').decode('ascii')}'"
