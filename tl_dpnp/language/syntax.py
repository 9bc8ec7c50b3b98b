"""Syntax errors in the user's terms: what was found, what was expected there, and how the instruction is written.

After an error the parser resumes at the next instruction or function, so that one run reports several.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_analysis import Shift

from tl_dpnp.errors import Diagnostic, Span
from tl_dpnp.language.source import Source
from tl_dpnp.scalars import SCALAR_TYPES

__all__ = ["FORMS", "syntax_errors"]

#: lark's InteractiveParser, whose methods have no annotations.
_Parser = Any

_MAXIMUM_ERRORS = 20
_MAXIMUM_BAD_CHARACTERS = 1000
_MAXIMUM_STACK = 1000

_ONE_INPUT = "alpha, %A, beta, %B : f32, memref<...>, f32, memref<...>"
_TWO_INPUTS = "alpha, %A, %B, beta, %C : f32, memref<...>, memref<...>, f32, memref<...>"

#: How each instruction is written, by its first word.
FORMS: dict[str, str] = {
    "func": "func @name(%a: f32, %B: memref<f32x16x8>) work_group_size(16, 1) subgroup_size(16) { ... }",
    "work_group_size": "work_group_size(rows, columns)",
    "subgroup_size": "subgroup_size(number)",
    "memref": "memref<f32x16x?> or memref<f32x16x8,strided<1,32>>",
    "group": "group<memref<f32x16x8>> or group<memref<f32x16x8>, offset: 4>",
    "strided": "strided<1,16>, one stride for each mode",
    "alloca": "%m = alloca -> memref<f32x16x8>",
    "arith": "%c = arith.add %a, %b : f32",
    "math": "%b = math.exp %a : f32",
    **{name: f"%c = {name} %a, %b : f32" for name in ("add", "sub", "mul", "div", "rem")},
    "neg": "%b = neg %a : f32",
    "cast": "%b = cast %a : i32 -> f32",
    "cmp": "%c = cmp.lt %a, %b : i32",
    "expand": "%v = expand %m[0 -> 4 x ?] : memref<f32x32>",
    "fuse": "%v = fuse %m[0, 1] : memref<f32x4x8>",
    "group_id": "%i = group_id",
    "group_size": "%n = group_size",
    "load": "%a = load %m[%i, 0] : memref<f32x4x8>",
    "size": "%n = size %m[0] : memref<f32x?>",
    "subview": "%v = subview %m[2:4, :, %i] : memref<f32x8x8x?>, where 2:4 means 4 elements from the offset 2",
    "store": "store %a, %m[%i, 0] : memref<f32x4x8>",
    "if": "if %condition { ... } or %a = if %condition -> (f32) { yield %b : f32 } else { yield %c : f32 }",
    "for": "for %i = 0, 16, 2 : index { ... }; step and type may be left out",
    "foreach": "foreach %i = 0, 16 : index { ... }; the type may be left out",
    "yield": "yield %a, %b : f32, i32",
    "lifetime_stop": "lifetime_stop %m",
    "barrier": "barrier",
    "axpby": f"axpby.n {_ONE_INPUT}",
    "sum": f"sum.n {_ONE_INPUT}",
    "gemm": f"gemm.n.t {_TWO_INPUTS}",
    "gemv": f"gemv.n {_TWO_INPUTS}",
    "ger": f"ger {_TWO_INPUTS}",
    "hadamard": f"hadamard {_TWO_INPUTS}",
    "hadamard_product": f"hadamard {_TWO_INPUTS}",
}

#: Words that begin an instruction without a result; the parser resumes at them.
_STARTS = frozenset(
    ("if for foreach axpby gemm gemv ger hadamard hadamard_product sum store yield barrier lifetime_stop").split()
)
_VALUES = frozenset(
    "alloca arith math add sub mul div rem neg cast cmp expand fuse group_id group_size load size subview".split()
)
_PLAIN_NAMES = {
    "LOCAL_IDENTIFIER": "a value such as %a",
    "GLOBAL_IDENTIFIER": "a name such as @kernel",
    "BOOLEAN_CONSTANT": "true or false",
    "FLOATING_CONSTANT": "a number",
    "INTEGER_CONSTANT": "an integer",
    "SCALAR_TYPE": "a scalar type such as f32",
    "_X": "'x'",
    "$END": "the end of the program",
}
#: What other languages write, and what the tensor language writes instead.
_FOREIGN = {
    "#": "a comment starts with ;",
    "/": "a comment starts with ;",
    "!": "a comment starts with ;; negation is arith.not",
    '"': "there are no strings",
    "%": "a name is %letter followed by letters, digits or _, or % and a number",
    "@": "a name is @letter followed by letters, digits or _, or @ and a number",
    "+": "write arith.add %a, %b : f32",
    "-": "write arith.sub %a, %b : f32, or -1 without a space for a negative number",
    "*": "write arith.mul %a, %b : f32",
    ".": "a modifier is written .n, .t or .atomic",
}


def syntax_errors(grammar: Lark, source: Source, error: UnexpectedInput) -> list[Diagnostic]:
    """Return the diagnostics of a text that raised `error`, in source order."""
    recovery = _Recovery({t.name: t.pattern.value for t in grammar.terminals if t.pattern.type == "str"}, source)
    diagnostics: list[Diagnostic] = []
    while True:
        diagnostics.append(recovery.explain(error))
        parser: _Parser = error.interactive_parser
        if len(diagnostics) == _MAXIMUM_ERRORS:
            return diagnostics
        try:
            if not recovery.resynchronise(parser, error):
                return diagnostics
            parser.resume_parse()
            return diagnostics
        except UnexpectedInput as following:
            if getattr(following, "interactive_parser", None) is None:
                following.interactive_parser = parser
            error = following


class _Recovery:
    """Explains errors and finds the places to resume at; `literals` are the quoted words of the grammar by terminal."""

    def __init__(self, literals: dict[str, str], source: Source) -> None:
        self.literals = literals
        self.source = source
        self.bad_characters = 0

    # --- explanation -------------------------------------------------------------------------------------------------

    def explain(self, error: UnexpectedInput) -> Diagnostic:
        """Return the diagnostic of an error."""
        parser: _Parser = error.interactive_parser
        accepted = self._accepted(parser)
        context = self._context(parser)
        if isinstance(error, UnexpectedCharacters):
            char = self.source.text[error.pos_in_stream] if error.pos_in_stream is not None else ""
            span = Span(self.source.file, error.line, error.column, error.line, error.column + 1)
            hint = _FOREIGN.get(char) or _form_hint(context)
            return self.source.diagnostic(f"unexpected character {_quote(char)}", span, hint)
        assert isinstance(error, UnexpectedToken)
        token = error.token
        if token.type == "$END":
            return self._unexpected_end(accepted, context)
        expected = self._describe(accepted)
        found = _quote(str(token)) if len(token) <= 40 else _quote(f"{token[:37]}...")
        message = f"expected {expected}, found {found}"
        if token.type == "WORD":
            message = f"expected {expected}, found the unknown word {found}"
        return self.source.diagnostic(message, self.source.span(token), self._hint(token, accepted, context))

    def _unexpected_end(self, accepted: set[str], context: str | None) -> Diagnostic:
        lines = self.source.lines
        number = next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip()), 1)
        column = len(lines[number - 1].rstrip()) + 1
        span = Span(self.source.file, number, column, number, column + 1)
        if context is None and accepted == {"FUNC"}:
            return self.source.diagnostic("the program is empty", span, f"write {FORMS['func']}")
        message = f"the program ends where {self._describe(accepted)} is expected"
        hint = "a region is not closed: add }" if "RBRACE" in accepted else _form_hint(context)
        return self.source.diagnostic(message, span, hint)

    def _hint(self, token: Token, accepted: set[str], context: str | None) -> str | None:
        if token.type == "WORD":
            words = [word for name, word in self.literals.items() if name in accepted and word[-1].isalpha()]
            if "LOCAL_IDENTIFIER" in accepted and "FOREACH" in accepted:
                words += sorted(_VALUES)
            if "SCALAR_TYPE" in accepted:
                words += SCALAR_TYPES
            matches = difflib.get_close_matches(str(token)[:80], words, n=1)
            if matches:
                return f"did you mean {matches[0]}?"
            if f"%{token}" in self.source.text and "LOCAL_IDENTIFIER" in accepted:
                return f"did you mean %{token}?"
        if token.type == "WORD" and token.startswith("X"):
            return "hexadecimal constants start with a small 0x, as in 0x1.8p3"
        if token.type == "_X" and context not in ("memref", "expand"):
            return f"a tensor is written {FORMS['memref']}"
        word = self.literals.get(token.type, "")
        if word in _VALUES and "FOREACH" in accepted:
            return f"give its result a name: {FORMS[word]}"
        return _form_hint(context)

    def _accepted(self, parser: _Parser) -> set[str]:
        """Return the terminals that may follow."""
        if len(parser.parser_state.state_stack) > _MAXIMUM_STACK:
            return {name for name in parser.choices() if name.isupper() or name == "$END"}
        return {name for name in parser.accepts() if name != "WORD"}

    def _context(self, parser: _Parser) -> str | None:
        """Return the word that begins the unfinished instruction or type, if the parser is inside one."""
        for value in reversed(parser.parser_state.value_stack):
            if isinstance(value, Token):
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
        rest = set(accepted)
        if "FOREACH" in rest:
            names.append("an instruction")
            rest -= {name for name, word in self.literals.items() if word in _STARTS} | {"LOCAL_IDENTIFIER"}
        elif "ALLOCA" in rest:
            names.append("an instruction that has a result")
            rest -= {name for name, word in self.literals.items() if word in _VALUES} | {"IF"}
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

    def resynchronise(self, parser: _Parser, error: UnexpectedInput) -> bool:
        """Skip to the next instruction, closing brace or function, and put the parser where it accepts it."""
        if isinstance(error, UnexpectedToken) and error.token.type == "$END":
            return False
        pending: Token | None = None
        line = error.line if isinstance(error.line, int) else 0
        depth = 0
        first = error.token if isinstance(error, UnexpectedToken) else None
        for token in self._tokens(parser, first):
            if pending is not None and token.type in ("EQUAL", "COMMA") and self._resume(parser, pending):
                parser.feed_token(token)
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
                elif self.literals.get(token.type) in _STARTS and self._resume(parser, token):
                    return True
        return False

    def _is_first_of_line(self, token: Token) -> bool:
        assert token.line is not None
        assert token.column is not None
        return not self.source.lines[token.line - 1][: token.column - 1].strip()

    def _tokens(self, parser: _Parser, first: Token | None) -> Iterator[Token]:
        """Yield the offending token and those after it, skipping characters that begin none."""
        if first is not None:
            yield first
        while True:
            try:
                yield from parser.lexer_thread.lex(parser.parser_state)
                return
            except UnexpectedCharacters as error:
                self.bad_characters += 1
                if self.bad_characters > _MAXIMUM_BAD_CHARACTERS:
                    return
                parser.lexer_thread.state.line_ctr.feed(error.char)

    def _resume(self, parser: _Parser, token: Token) -> bool:
        """Drop what the parser has begun until it accepts the token, and feed it; false if it never does."""
        state = parser.parser_state
        table = state.parse_conf.states
        depth = len(state.state_stack)
        while depth > 0 and table[state.state_stack[depth - 1]].get(token.type, (None,))[0] is not Shift:
            depth -= 1
        if depth == 0:
            return False
        del state.state_stack[depth:]
        del state.value_stack[depth - 1 :]
        parser.feed_token(token)
        return True


#: Sets of terminals with a name of their own, the larger ones first.
_SUMMARIES: tuple[tuple[set[str], str], ...] = (
    ({"LOCAL_IDENTIFIER", "INTEGER_CONSTANT", "FLOATING_CONSTANT", "BOOLEAN_CONSTANT", "LSQB"}, "a value or constant"),
    ({"VOID", "SCALAR_TYPE", "MEMREF", "GROUP"}, "a type"),
    ({"MEMREF", "GROUP"}, "a memref or group type"),
    ({"FLOATING_CONSTANT", "INTEGER_CONSTANT"}, "a number"),
    ({"LOCAL_IDENTIFIER", "INTEGER_CONSTANT"}, "a value or an integer"),
    ({"LOCAL_IDENTIFIER", "BOOLEAN_CONSTANT"}, "a value of type i1, true or false"),
    ({"INTEGER_CONSTANT", "DYNAMIC"}, "a size or ?"),
    ({"MEMREF"}, "a memref type"),
    ({"WORK_GROUP_SIZE", "SUBGROUP_SIZE"}, "an attribute"),
)


def _form_hint(context: str | None) -> str | None:
    return None if context is None else f"the form is: {FORMS[context]}"


def _quote(text: str) -> str:
    return repr(text) if text.isprintable() else f"'{text.encode('unicode_escape', 'surrogatepass').decode('ascii')}'"
