"""All that the language takes from lark beside what lark documents: tables, how trees are built, where a parse stopped.

Tested with lark 1.1.9, 1.2.1, 1.2.2, 1.3.0 and 1.3.1.  Undocumented is

- what `Lark.parser` consists of: the lexer's terminals and callbacks, the states of the parser and, for each rule, the
  objects one around another that make a node of its children;
- what `Lark.save` writes, whose ``memo`` `lark.utils.SerializeMemoizer` made;
- the two stacks of an interactive parser, its table, and the state of its lexer.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedInput
from lark.grammar import Rule
from lark.lexer import TerminalDef
from lark.parsers.lalr_analysis import Shift
from lark.utils import SerializeMemoizer

__all__ = ["TESTED", "Child", "OtherLark", "ParserTables", "Production", "StoppedParser", "dump", "parser_tables",
           "words_of"]

#: The versions whose private parts are known to be as this module takes them.
TESTED = ("1.1.9", "1.2.1", "1.2.2", "1.3.0", "1.3.1")


def words_of(grammar: Lark) -> dict[str, str]:
    """Return the terminals that are fixed texts, such as keywords, by their names."""
    return {each.name: each.pattern.value for each in grammar.terminals if each.pattern.type == "str"}


# --- tables ----------------------------------------------------------------------------------------------------------


class OtherLark(Exception):
    """lark is not made as this module expects; the text says where."""


class Child(NamedTuple):
    """What a symbol of a rule gives to the node: the token, or the tree, at `place` among the symbols.

    `is_inlined` says that the children of that tree take its place.  `place` is None for what was left out: the node
    has a None there.
    """

    place: int | None
    is_token: bool = False
    is_inlined: bool = False


class Production(NamedTuple):
    """What becomes of the symbols of a rule: a node with a name, or its child where there is one and it `expands`.

    A node that `is_inlined` is so wherever it stands.
    """

    origin: str
    size: int
    name: str
    children: tuple[Child, ...]
    expands: bool
    is_inlined: bool


class ParserTables(NamedTuple):
    """A grammar as data.

    `token` matches the next token, by a group with the terminal's name; texts of the terminal `word` are looked up in
    `keywords`, and those in `ignored` are no tokens.  `actions` yields for a state what follows each symbol: the next
    state or, before a terminal, the production that ends there, always the same object.
    """

    token: str
    flags: int
    ignored: frozenset[str]
    word: str
    keywords: dict[str, str]
    actions: Callable[[int], Iterator[tuple[str, int | Production]]]
    start: int
    end: int


def parser_tables(grammar: Lark) -> ParserTables:
    """Return the tables of a grammar; raises `OtherLark` where they are made in another way than expected."""
    try:
        return _parser_tables(grammar)
    except OtherLark:
        raise
    except Exception as error:  # private parts that are not there, or other ones, may raise anything
        raise OtherLark(f"the tables of lark's parser are other ones: {error!r}") from error


def _parser_tables(grammar: Lark) -> ParserTables:
    frontend: Any = grammar.parser
    lexer, parser = frontend.lexer.lexer, frontend.parser.parser
    token = "|".join(f"(?P<{each.name}>{each.pattern.to_regexp()})" for each in lexer.scanner.terminals)
    ((word, keywords),) = lexer.callback.items()
    productions = {rule: _production(rule, builder) for rule, builder in parser.callbacks.items()}
    states = parser.parse_table.states

    def actions(state: int) -> Iterator[tuple[str, int | Production]]:
        for symbol, (action, argument) in states[state].items():
            yield symbol, argument if action is Shift else productions[argument]

    (start,), (end,) = parser.parse_table.start_states.values(), parser.parse_table.end_states.values()
    return ParserTables(token, lexer.g_regex_flags, frozenset(lexer.ignore_types), word,
                        {each.pattern.value: each.name for each in keywords.scanner.terminals},
                        actions, start, end)


def _production(rule: Any, builder: Any) -> Production:
    """Return what the builder of a rule does: objects, one around another, of which the innermost makes the node."""
    symbols, expands = rule.expansion, False
    children = [Child(place, symbol.is_term) for place, symbol in enumerate(symbols)]
    while hasattr(builder, "node_builder"):
        match type(builder).__name__:
            case "PropagatePositions":
                pass
            case "ExpandSingleChild":
                expands = True
            case "ChildFilterLALR":
                children = []
                for place, is_inlined, left_out in builder.to_include:
                    children += [Child(None)] * left_out
                    children.append(Child(place, symbols[place].is_term, is_inlined))
                children += [Child(None)] * builder.append_none
            case "ChildFilterLALR_NoPlaceholders":
                children = [Child(place, symbols[place].is_term, is_inlined)
                            for place, is_inlined in builder.to_include]
            case other:
                raise OtherLark(f"lark builds trees by {other}")
        builder = builder.node_builder
    (name,), is_inlined = builder.args, rule.origin.name.startswith("_")
    if is_inlined and expands:
        raise OtherLark(f"the only child of {rule.origin.name} stands for it, and is inlined")
    return Production(str(rule.origin.name), len(symbols), str(name), tuple(children), expands, is_inlined)


class _Pickler(pickle.Pickler):
    """Has rules made anew when they are read: they keep their hash, which is another one in each process."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, Rule):
            return Rule, (value.origin, value.expansion, value.order, value.alias, value.options)
        return NotImplemented


def dump(grammar: Lark, file: BinaryIO) -> None:
    """Write what `Lark.load` reads quickly: what `Lark.save` writes, with its rules and terminals as objects.

    To put those together of their parts takes lark longer than all else at each start.
    """
    saved = BytesIO()
    grammar.save(saved)
    tables = pickle.loads(saved.getvalue())
    tables["memo"] = SerializeMemoizer.deserialize(tables["memo"], {"Rule": Rule, "TerminalDef": TerminalDef}, {})
    _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(tables)


# --- after an error --------------------------------------------------------------------------------------------------


#: What is used of an interactive parser.
_PARTS = ("parser_state.state_stack", "parser_state.value_stack", "parser_state.parse_conf.states", "choices",
          "accepts", "feed_token", "lexer_thread.lex", "lexer_thread.state.line_ctr.feed", "resume_parse")


def _has(thing: Any, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(thing, name):
            return False
        thing = getattr(thing, name)
    return True


class StoppedParser:
    """A parser that an error stopped, which can be made to go on at another place.

    Its stack has, for each symbol that was read, a state and a value: a token or a tree.
    """

    def __init__(self, error: UnexpectedInput, before: StoppedParser | None = None) -> None:
        """Take the parser of an error; `before` is that which was resumed, for errors that have none of their own.

        Raises `OtherLark` if it does not have what the methods here use.
        """
        parser: Any = getattr(error, "interactive_parser", None)
        self._parser: Any = before._parser if parser is None and before is not None else parser
        missing = next((path for path in _PARTS if not _has(self._parser, path)), None)
        if missing is not None:
            raise OtherLark(f"lark's interactive parser has no {missing}")

    @property
    def depth(self) -> int:
        """How many states the stack has: one more than symbols were read."""
        return len(self._parser.parser_state.state_stack)

    @property
    def values(self) -> list[Token | Tree[Token]]:
        """What stands for the symbols that were read."""
        values: list[Token | Tree[Token]] = self._parser.parser_state.value_stack
        return values

    def choices(self) -> Mapping[str, Any]:
        """Return the symbols that the topmost state knows; not all of them are accepted."""
        choices: Mapping[str, Any] = self._parser.choices()
        return choices

    def accepts(self) -> set[str]:
        """Return the terminals that may follow; this takes a copy of the stack for each."""
        accepted: set[str] = self._parser.accepts()
        return accepted

    def shifts(self, depth: int, terminal: str) -> bool:
        """Return whether the state at a depth of the stack, counted from 1, takes a terminal as it is."""
        state = self._parser.parser_state
        action: object = state.parse_conf.states[state.state_stack[depth - 1]].get(terminal, (None,))[0]
        return action is Shift

    def cut(self, depth: int) -> None:
        """Forget what was read beyond a depth of the stack."""
        state = self._parser.parser_state
        del state.state_stack[depth:]
        del state.value_stack[depth - 1 :]

    def feed(self, token: Token) -> None:
        """Have the parser take a token."""
        self._parser.feed_token(token)

    def tokens(self) -> Iterator[Token]:
        """Yield the tokens that follow; raises `UnexpectedCharacters` where none does."""
        yield from self._parser.lexer_thread.lex(self._parser.parser_state)

    def skip(self, error: UnexpectedCharacters) -> None:
        """Go on behind the character of an error of `tokens`."""
        self._parser.lexer_thread.state.line_ctr.feed(error.char)

    def resume(self) -> None:
        """Parse the rest of the text; raises `UnexpectedInput` at the next error."""
        self._parser.resume_parse()
