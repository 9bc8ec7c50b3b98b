"""Compile-time variables: ``$n = 8`` names tokens, which stand wherever the name does.

They are resolved between the lexer and the parser: the grammar sees definitions, and elsewhere instead of names what
they stand for. A name is visible from its definition to the end of the region.

Source: language 0.4, sections "Lexical structure" and "Compile-time variables".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from numbers import Integral, Real

from lark import Token

from tl_dpnp.errors import Diagnostic
from tl_dpnp.language.constants import LARGEST_INTEGER, parse_integer
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.source import Source

__all__ = ["Definitions", "definition_text"]

#: What a definition may consist of, by its first token: that token alone, or all up to the bracket that closes it.
_SINGLE = frozenset(("SCALAR_TYPE", "INTEGER_CONSTANT", "FLOATING_CONSTANT", "BOOLEAN_CONSTANT", "STRING"))
_BRACKETS = {"MEMREF": ("LESSTHAN", "MORETHAN"), "GROUP": ("LESSTHAN", "MORETHAN"),
             "COOPMATRIX": ("LESSTHAN", "MORETHAN"), "LSQB": ("LSQB", "RSQB"),
             "LBRACE": ("LBRACE", "RBRACE")}  # fmt: skip
#: Definitions may stand for so many words: those that name one another could stand for any number of them.
_MOST_WORDS = 1000
_NAME = re.compile(r"\$(?:[0-9]+|[A-Za-z][A-Za-z0-9_]*)")


class Definitions:
    """The compile-time variables of one text.

    `diagnostics` collects what is wrong with definitions; a name without one is an unknown word to the parser.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self._regions: list[dict[str, tuple[Token, list[Token]]]] = [{}]
        self._pending: list[Token] = []  # what was looked at and not passed on

    def take(self, others: Definitions) -> None:
        """Begin with the definitions that stand outside of regions in another text."""
        self._regions[0] |= others._regions[0]

    def value(self, name: str) -> list[Token] | None:
        """Return the tokens that a name stands for outside of regions, None if it is not defined."""
        return self._regions[0][name][1] if name in self._regions[0] else None

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Yield the tokens of a text with names resolved; definitions as they are, calculations by their value."""
        while (token := self._next(stream)) is not None:
            if token.type == "DEFINITION":
                following = self._next(stream)
                if following is not None and following.type == "EQUAL":
                    value = self._value(token, stream)
                    self._define(token, value)
                    yield from (token, following, *value)
                    continue
                if following is not None:
                    self._pending.append(following)
                yield from self._resolved(token)
                continue
            if token.type == "LBRACE":
                self._regions.append({})
            elif token.type == "RBRACE" and len(self._regions) > 1:
                self._regions.pop()
            yield token

    def _next(self, stream: Iterator[Token]) -> Token | None:
        return self._pending.pop() if self._pending else next(stream, None)

    def _report(self, message: str, token: Token, hint: str, notes: tuple[Diagnostic, ...] = ()) -> None:
        self.diagnostics.append(self.source.diagnostic(message, self.source.span(token), hint, notes))

    def _define(self, name: Token, value: list[Token]) -> None:
        earlier = next((region[name][0] for region in self._regions if name in region), None)
        if earlier is not None:
            notes: tuple[Diagnostic, ...] = ()
            if self.source.text[earlier.start_pos : earlier.end_pos] == earlier:
                notes = (self.source.diagnostic("the first definition is here", self.source.span(earlier)),)
            self._report(f"{name} is already defined", name, "give it another name", notes)
        self._regions[-1][str(name)] = name, value

    def _resolved(self, name: Token) -> list[Token]:
        """Return what a name stands for, at its place."""
        found = next((region[name][1] for region in reversed(self._regions) if name in region), None)
        if found is None:
            return [Token.new_borrow_pos("WORD", str(name), name)]
        return [Token.new_borrow_pos(token.type, str(token), name) for token in found]

    def _value(self, name: Token, stream: Iterator[Token]) -> list[Token]:
        """Return the tokens that are defined; after reporting that there are none, one that stands for any number."""
        first = self._next(stream)
        if first is not None and first.type in _SINGLE:
            return [first]
        if first is not None and first.type == "DEFINITION":
            return self._resolved(first)
        if first is not None and first.type == "CALCULATION":
            return [Token.new_borrow_pos("INTEGER_CONSTANT", str(self._calculated(first)), first)]
        if first is None or first.type not in _BRACKETS:
            self._report(f"{name} has no value", name, f"write for example {name} = 8 or {name} = memref<f32x8>")
            if first is not None:
                self._pending.append(first)
            return [Token.new_borrow_pos("INTEGER_CONSTANT", "1", name)]
        opening, closing = _BRACKETS[first.type]
        value, depth, is_too_long = [first], int(first.type == opening), False
        while (token := self._next(stream)) is not None:
            if token.type in ("LBRACE", "RBRACE", "FUNC") and opening != "LBRACE":  # the bracket is never closed
                self._pending.append(token)
                break
            words = self._resolved(token) if token.type == "DEFINITION" else [token]
            if len(words) == 1 or len(value) + len(words) <= _MOST_WORDS:
                value += words
            elif not is_too_long:
                is_too_long = True
                self._report(f"with {token}, {name} stands for more than {_MOST_WORDS} words", token, "write less")
            depth += (token.type == opening) - (token.type == closing)
            if depth == 0:
                return value
        self._report(f"the value of {name} ends within its brackets", name, "close them")
        return value

    # --- calculation -------------------------------------------------------------------------------------------------

    def _calculated(self, token: Token) -> int:
        """Return the value of ``!calc(...)`` in reverse Polish order; 1 after reporting that it has none."""
        stack: list[int] = []
        try:
            for word in token[token.index("(") + 1 : -1].split():
                if word in _OPERATIONS:
                    if len(stack) < 2:
                        raise RuleError(f"{word} has fewer than two operands", _ORDER)
                    last, first = stack.pop(), stack.pop()
                    stack.append(_in_range(_OPERATIONS[word](first, last)))
                else:
                    stack.append(self._integer(word))
            if len(stack) != 1:
                raise RuleError(f"the calculation gives {len(stack)} values", _ORDER)
        except RuleError as error:
            self._report(error.message, token, error.hint or _ORDER)
            return 1
        return stack[0]

    def _integer(self, word: str) -> int:
        if _NAME.fullmatch(word):
            tokens = next((region[word][1] for region in reversed(self._regions) if word in region), None)
            if tokens is None:
                raise RuleError(f"{word} is not defined", f"define it before: {word} = 8")
            if [token.type for token in tokens] != ["INTEGER_CONSTANT"]:
                raise RuleError(f"{word} is no integer", "calculate with integers")
            word = str(tokens[0])
        if not re.fullmatch("[+-]?[0-9]+", word):
            known = ", ".join(_OPERATIONS)
            raise RuleError(f"{word[:40]!r} is neither an integer nor an operation", f"the operations are {known}")
        return parse_integer(word)


_ORDER = "operands come before their operation: !calc(2 $n * 1 +) is 2 n + 1"


def _in_range(value: int) -> int:
    if abs(value) > LARGEST_INTEGER:
        raise RuleError("the calculation leaves 64 bits", f"stay within ±{LARGEST_INTEGER}")
    return value


def _power(a: int, b: int) -> int:
    if b < 0:
        raise RuleError(f"the exponent {b} is negative", "write an exponent from 0 on")
    if abs(a) > 1 and b > 64:
        raise RuleError("the calculation leaves 64 bits", f"stay within ±{LARGEST_INTEGER}")
    power: int = a ** (min(b, 2 + b % 2) if abs(a) <= 1 else b)
    return power


def _quotient(a: int, b: int) -> int:
    """Truncates toward zero."""
    if b == 0:
        raise RuleError("division by zero in a calculation", "write a divisor other than 0")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _shift(a: int, b: int, direction: int) -> int:
    if not 0 <= b < 64:
        raise RuleError(f"a shift by {b} bits", "shift by 0 to 63 bits")
    return a << b if direction > 0 else a >> b


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "^": _power, "-": operator.sub, "+": operator.add, "*": operator.mul, "/": _quotient,
    "%": lambda a, b: a - b * _quotient(a, b), "min": min, "max": max, "shl": lambda a, b: _shift(a, b, 1),
    "shr": lambda a, b: _shift(a, b, -1), "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


def definition_text(name: str, value: bool | int | float | str) -> str:
    """Return the text of a definition: numbers, those of NumPy too, and texts of the language, such as types.

    Raises `RuleError` for what is no name or no value.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(f"${name}"):
        raise RuleError(f"{name!r} is no name of a compile-time variable", "write letters and digits")
    match value:
        case bool():
            return f"${name} = {'true' if value else 'false'}"
        case str():
            return f"${name} = {value}"
        case Integral():
            if abs(value) > LARGEST_INTEGER:
                raise RuleError(f"the integer for ${name} is out of range", f"give one within ±{LARGEST_INTEGER}")
            return f"${name} = {int(value)}"
        case Real():
            return f"${name} = {float(value)!r}"
    raise RuleError(f"{value!r} is no value of a compile-time variable", "give a number, or text such as 'f32'")
