"""Derives the parse tree of a right text by lark's tables, in a third of the time that lark takes.

lark makes an object of each token, notes lines and columns of everything and builds trees by nested calls.  Here tokens
that no tree has are numbers, and nodes know where they begin and end; lines are found where they are asked for
(`Source.span`).  What this does not derive, malformed text and compile-time variables, is left to lark.

Tested with lark 1.3.1.  Not documented is what `Lark.parser` consists of: terminals, tables and callbacks, from which
everything here is taken.
"""

from __future__ import annotations

import re
from typing import Any

from lark import Lark, Token, Tree
from lark.parsers.lalr_analysis import Shift

__all__ = ["PlacedTree", "Reader"]

#: Tokens that text is resolved with between the lexer and the parser.
_RESOLVED = ("DEFINITION", "CALCULATION")


class PlacedTree(Tree[Token]):
    """A node of the tree that is its own `meta`: where it begins and ends in the text; at -1 if it is empty."""

    def __init__(self, data: str, children: list[Any], start_pos: int = -1, end_pos: int = -1) -> None:
        self.data, self.children, self.start_pos, self.end_pos = data, children, start_pos, end_pos

    @property
    def meta(self) -> Any:
        """What lark keeps places in."""
        return self


class _Reduction:
    """What becomes of the symbols of a rule: `kept` has the place of each, whether its own children stand for it, and
    how many things left out stand before it; `left_out` are those behind them."""

    __slots__ = ("expands", "kept", "left_out", "name", "origin", "symbols")

    def __init__(self, rule: Any, builder: Any) -> None:
        self.origin, self.symbols = rule.origin.name, len(rule.expansion)
        self.kept: tuple[tuple[int, bool, int], ...] | None = None
        self.left_out, self.expands = 0, False
        while hasattr(builder, "node_builder"):
            match type(builder).__name__:
                case "PropagatePositions":
                    pass
                case "ExpandSingleChild":
                    self.expands = True
                case "ChildFilterLALR":
                    self.kept, self.left_out = tuple(builder.to_include), builder.append_none
                case "ChildFilterLALR_NoPlaceholders":
                    self.kept = tuple((place, expands, 0) for place, expands in builder.to_include)
                case other:
                    raise NotImplementedError(f"lark builds trees by {other}")
            builder = builder.node_builder
        (self.name,) = builder.args


class Reader:
    """Reads texts of one grammar."""

    def __init__(self, grammar: Lark) -> None:
        frontend: Any = grammar.parser
        lexer, parser = frontend.lexer.lexer, frontend.parser.parser
        expression = "|".join(f"(?P<{each.name}>{each.pattern.to_regexp()})" for each in lexer.scanner.terminals)
        ((self._word, keywords),) = lexer.callback.items()
        expression = f"(?:{expression})[ \\n]*"  # so that most white space takes no match of its own
        self._match, self._ignored = re.compile(expression, lexer.g_regex_flags).match, lexer.ignore_types
        self._keywords = {terminal.pattern.value: terminal.name for terminal in keywords.scanner.terminals}
        self._states, self._callbacks = parser.parse_table.states, parser.callbacks
        (self._start,), (self._end,) = parser.parse_table.start_states.values(), parser.parse_table.end_states.values()
        self._rows: dict[int, dict[str, Any]] = {}
        self._reductions: dict[Any, _Reduction] = {}

    def _row(self, state: int) -> dict[str, Any]:
        """Return what follows in a state for each symbol: the next state, or a reduction."""
        def following(action: Any, argument: Any) -> Any:
            if action is Shift:
                return argument
            if argument not in self._reductions:
                self._reductions[argument] = _Reduction(argument, self._callbacks[argument])
            return self._reductions[argument]

        row = self._rows[state] = {symbol: following(*entry) for symbol, entry in self._states[state].items()}
        return row

    def read(self, text: str) -> Tree[Token] | None:
        """Return the parse tree of a text; None where lark has to say what is wrong, or to resolve variables."""
        match, keywords, ignored, rows = self._match, self._keywords, self._ignored, self._rows
        states = [self._start]
        values: list[Any] = []
        starts: list[int] = []
        ends: list[int] = []
        row = rows.get(self._start) or self._row(self._start)
        position, length = 0, len(text)
        while True:
            start = position
            if position < length:
                found = match(text, position)
                if found is None:
                    return None
                kind = str(found.lastgroup)
                end, position = found.end(kind), found.end()
                if kind in ignored:
                    continue
                if kind == self._word:
                    kind = keywords.get(text[start:end], kind)
                elif kind in _RESOLVED:
                    return None
            else:
                kind, end = "$END", position
            following = row.get(kind)
            while following.__class__ is _Reduction:
                size = following.symbols
                if size:
                    first, last, children = starts[-size:], ends[-size:], values[-size:]
                    del starts[-size:], ends[-size:], values[-size:], states[-size:]
                else:
                    first, last, children = [], [], []
                begin, behind = (first[0], last[-1]) if size else (-1, -1)
                if begin < 0 or behind < 0:  # some are empty
                    begin, behind = next((each for each in first if each >= 0), -1), max(last, default=-1)
                starts.append(begin)
                ends.append(behind)
                values.append(_node(following, text, children, first, last, begin, behind))
                origin = following.origin
                state = (rows.get(states[-1]) or self._row(states[-1]))[origin]
                if state == self._end and kind == "$END":
                    result: Tree[Token] = values[-1]
                    return result
                states.append(state)
                following = (rows.get(state) or self._row(state)).get(kind)
            if following is None:
                return None
            states.append(following)
            values.append(kind)
            starts.append(start)
            ends.append(end)
            row = rows.get(following) or self._row(following)


def _node(
    reduction: _Reduction, text: str, children: list[Any], first: list[int], last: list[int], start: int, end: int
) -> Any:
    """Return what stands for a rule in the tree: a node, or its only child."""
    kept = reduction.kept
    if kept is None:
        found = [_token(child, text, first[place], last[place]) if child.__class__ is str else child
                 for place, child in enumerate(children)]
    else:
        found = []
        for place, expands, left_out in kept:
            if left_out:
                found += [None] * left_out
            child = children[place]
            if expands:
                if found:
                    found += child.children
                else:  # a list that grows from the left
                    found = child.children
            else:
                found.append(_token(child, text, first[place], last[place]) if child.__class__ is str else child)
        if reduction.left_out:
            found += [None] * reduction.left_out
    if reduction.expands and len(found) == 1:
        return found[0]
    return PlacedTree(reduction.name, found, start, end)


def _token(kind: str, text: str, start: int, end: int) -> Token:
    token: Token = str.__new__(Token, text[start:end])
    token.type, token.value, token.start_pos, token.end_pos = kind, text[start:end], start, end
    return token
