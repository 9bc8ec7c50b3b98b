"""Derives the parse tree of a right text by lark's tables, in a fifth of the time that lark takes.

lark makes an object of each token, notes lines and columns of everything and builds trees by nested calls.  Here tokens
that no tree has are numbers, and nodes know where they begin and end; lines are found where they are asked for
(`Source.span`).  A type that stood in the text before is not derived again.  What this does not derive, malformed text
and compile-time variables, is left to lark; so is all where lark is not as `lark_adapter` expects (`OtherLark`).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from lark import Lark, Token, Tree

from tl_dpnp.language.lark_adapter import OtherLark, Production, parser_tables

__all__ = ["PlacedTree", "Reader", "check_reader", "differs"]

#: Tokens that text is resolved with between the lexer and the parser.
_RESOLVED = ("DEFINITION", "CALCULATION")
#: The word that a type begins with where it is kept, the rule for it, and a whole one, with what follows it.
_KEPT, _KEPT_RULE = "MEMREF", "memref_type"
_KEPT_TYPE = re.compile(r"(memref[ ]*<[^<>;]*(?:<[^<>;]*>[^<>;]*)?>)[ \n]*")
#: What becomes of a symbol of a rule.
_TOKEN, _TREE, _INLINED, _LEFT_OUT = range(4)


class PlacedTree(Tree[Token]):
    """A node of the tree that is its own `meta`: where it begins and ends in the text; at -1 if it is empty."""

    def __init__(self, data: str, children: list[Any], start_pos: int = -1, end_pos: int = -1) -> None:
        self.data, self.children, self.start_pos, self.end_pos = data, children, start_pos, end_pos

    @property
    def meta(self) -> Any:
        """What lark keeps places in."""
        return self


class _Repeated(PlacedTree):
    """A node for a text that stands elsewhere, too: its children are made of those there, if anybody asks for them."""

    def __init__(self, other: PlacedTree, start: int) -> None:
        self.data, self.start_pos, self.end_pos = other.data, start, start + other.end_pos - other.start_pos
        self._other = other

    @cached_property
    def children(self) -> list[Any]:  # type: ignore[override]  # it is an attribute there
        return [_moved(child, self.start_pos - self._other.start_pos) for child in self._other.children]


def _moved(node: Any, distance: int) -> Any:
    """Return a node at another place."""
    match node:
        case Token(start_pos=int(start), end_pos=int(end)):
            return _token(node.type, str(node), start + distance, end + distance)
        case PlacedTree() if node.start_pos >= 0:
            children = [_moved(child, distance) for child in node.children]
            return PlacedTree(node.data, children, node.start_pos + distance, node.end_pos + distance)
    return node


class _Reduction:
    """What becomes of the symbols of a rule: `steps` has what to do with each of those that the node has."""

    __slots__ = ("expands", "is_inlined", "name", "origin", "passes", "steps", "symbols")

    def __init__(self, production: Production) -> None:
        self.origin, self.symbols, self.name, children, self.expands, self.is_inlined = production
        self.steps = tuple(
            (0, _LEFT_OUT) if child.place is None else
            (child.place, _INLINED if child.is_inlined else _TOKEN if child.is_token else _TREE) for child in children)
        #: Whether the only symbol stands for the rule as it is.
        self.passes = self.expands and self.symbols == 1 and self.steps == ((0, _TREE),)


class Reader:
    """Reads texts of one grammar.  Raises `OtherLark` where that is not as expected."""

    def __init__(self, grammar: Lark) -> None:
        tables = parser_tables(grammar)
        # White space is matched behind tokens, so that most of it takes no match of its own.
        self._match = re.compile(f"(?:{tables.token})[ \\n]*", tables.flags).match
        self._ignored, self._word, self._keywords = tables.ignored, tables.word, tables.keywords
        self._actions, self._start, self._end = tables.actions, tables.start, tables.end
        self._reductions: dict[int, _Reduction] = {}
        self._rows: dict[int, dict[str, Any]] = {}

    def _row(self, state: int) -> dict[str, Any]:
        """Return what follows in a state for each symbol: the number of a state, or a reduction."""
        row = self._rows.get(state)
        if row is None:
            row = self._rows[state] = {
                symbol: action if isinstance(action, int) else self._reduction(action)
                for symbol, action in self._actions(state)}
        return row

    def _reduction(self, production: Production) -> _Reduction:
        """Return what a production does: one object for each, which the adapter keeps."""
        found = self._reductions.get(id(production))
        if found is None:
            found = self._reductions[id(production)] = _Reduction(production)
        return found

    def _next(self, row: dict[str, Any], symbol: str) -> Any:
        """Return the row of the state that follows in a row, which has it instead of the state's number from now on."""
        following = row[symbol]
        if following.__class__ is int:
            following = row[symbol] = self._row(following)
        return following

    def read(self, text: str) -> Tree[Token] | None:
        """Return the parse tree of a text; None where lark has to say what is wrong, or to resolve variables."""
        match, keywords, ignored, word = self._match, self._keywords, self._ignored, self._word
        row, accepting = self._row(self._start), self._row(self._end)
        # For each symbol that was read the row of the state behind it, what stands for it, and where that is.
        stack: list[tuple[dict[str, Any], Any, int, int]] = [(row, None, -1, -1)]
        types: dict[str, PlacedTree] = {}
        position, length = 0, len(text)
        while True:
            start = position
            if position < length:
                found = match(text, position)
                if found is None:
                    return None
                kind: Any = found.lastgroup
                end, position = found.end(kind), found.end()
                if kind == word:
                    kind = keywords.get(text[start:end], kind)
                elif kind in ignored:
                    continue
                elif kind in _RESOLVED:
                    return None
            else:
                kind, end = "$END", position
            following = row.get(kind)
            while following.__class__ is not dict:
                if following.__class__ is int:
                    following = self._next(row, kind)
                    continue
                if following is None:
                    return None
                if following.passes:
                    _, value, first, last = stack.pop()
                else:
                    value, first, last = _reduced(following, text, stack)
                    if following.name == _KEPT_RULE:
                        types[text[first:last]] = value
                below = stack[-1][0]
                row = below[following.origin]
                if row.__class__ is int:
                    row = self._next(below, following.origin)
                if row is accepting and kind == "$END":
                    tree: Tree[Token] = value
                    return tree
                stack.append((row, value, first, last))
                following = row.get(kind)
            if kind == _KEPT and (whole := _KEPT_TYPE.match(text, start)) is not None and whole[1] in types:
                kind, end, position = _Repeated(types[whole[1]], start), whole.end(1), whole.end()
                following = self._next(row, _KEPT_RULE)
            row = following
            stack.append((row, kind, start, end))


def _reduced(
    reduction: _Reduction, text: str, stack: list[tuple[dict[str, Any], Any, int, int]]
) -> tuple[Any, int, int]:
    """Take the symbols of a rule from the stack; return what stands for the rule, and where that is."""
    size, start, end = reduction.symbols, -1, -1
    symbols = stack[-size:] if size else []
    if size:
        del stack[-size:]
        start, end = symbols[0][2], symbols[-1][3]
        if start < 0 or end < 0:  # some are empty
            start = next((each[2] for each in symbols if each[2] >= 0), -1)
            end = max(each[3] for each in symbols)
    children: list[Any] = []
    for place, step in reduction.steps:
        if step == _TOKEN:
            _, kind, first, last = symbols[place]
            children.append(_token(kind, text[first:last], first, last))
        elif step == _TREE:
            children.append(symbols[place][1])
        elif step == _LEFT_OUT:
            children.append(None)
        elif children:
            children += symbols[place][1]
        else:  # a list that grows from the left
            children = symbols[place][1]
    if reduction.is_inlined:  # a list of children is enough
        return children, start, end
    if reduction.expands and len(children) == 1:
        return children[0], start, end
    return PlacedTree(reduction.name, children, start, end), start, end


def _token(kind: str, text: str, start: int, end: int) -> Token:
    token: Token = str.__new__(Token, text)
    token.type, token.value, token.start_pos, token.end_pos = kind, text, start, end
    return token


def check_reader(reader: Reader, text: str, expected: Tree[Token]) -> None:
    """Raise `OtherLark` if a reader does not derive the tree of a text that lark does."""
    try:
        found = reader.read(text)
    except Exception as error:  # what tables of another kind lead to
        raise OtherLark(f"the tables of lark's parser mean something else: {error!r}") from error
    if differs(found, expected):
        raise OtherLark("lark's trees are other ones")


def differs(tree: Any, other: Any) -> bool:
    """Return whether two trees are different ones: in what nodes and tokens are called, in texts, or in places."""
    if isinstance(tree, Token) or isinstance(other, Token) or tree is None or other is None:
        return bool(tree != other or _key(tree) != _key(other))
    places = [(each.data, getattr(each.meta, "start_pos", -1), getattr(each.meta, "end_pos", -1))
              for each in (tree, other)]
    return places[0] != places[1] or len(tree.children) != len(other.children) or any(
        map(differs, tree.children, other.children))


def _key(token: Token | None) -> object:
    return token and (token.type, token.start_pos, token.end_pos)
