"""Parser: from source text to verified IR.

The grammar is `tensor.lark` with the rules of the instructions. `reading` derives long right texts by its tables, lark
all others; `syntax` explains what is wrong with a text that has no tree, `elaborate` turns the parse tree into the IR,
`verifier` checks it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from functools import lru_cache

import lark
from lark import Lark, Token, Tree, UnexpectedInput
from lark.lark import PostLex

from tl_dpnp.errors import Diagnostic, TLSyntaxError, TLTypeError, TLVerifyError
from tl_dpnp.garbage import rarely_collected
from tl_dpnp.language import tables
from tl_dpnp.language.definitions import Definitions, definition_text
from tl_dpnp.language.elaborate import Elaborator
from tl_dpnp.language.lark_adapter import TESTED, OtherLark
from tl_dpnp.language.ops import Module
from tl_dpnp.language.reading import Reader, check_reader
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.source import Source
from tl_dpnp.language.syntax import syntax_errors
from tl_dpnp.language.type_rules import has_poison
from tl_dpnp.language.verifier import find_errors, sort_diagnostics

__all__ = ["loaded_grammar", "parse", "why_slow", "write_tables"]

#: Characters from which on a text is read quickly: shorter ones take lark less time than the reader takes to begin.
QUICKLY = 10_000
#: What the reader's tree is compared with lark's of, where lark is none of the tested ones: lists, what may be left
#: out, words that are kept, rules that their only child stands for.
_SAMPLE = """func @f(%A: memref<f32x4x?,strided<1,?>>, %B: group<memref<f32x4>x?, offset: ?>, %n: index {alignment=8})
    work_group_size(16, 1) subgroup_size(16) {
  %g = group_id ; the work-group
  %b = load %B[%g] : group<memref<f32x4>x?, offset: ?>
  %v = subview %A[0:4, %g] : memref<f32x4x?,strided<1,?>>
  axpby.n.atomic 1.0, %v, 0.5, %b : f32, memref<f32x4>, f32, memref<f32x4>
  %t = alloca -> memref<f32x4,local>
  %p, %q = if true -> (c32, bool) { yield [1.0, -2.0], true : c32, bool } else { }
  foreach %i = 0, %n { }
}
func @g() attributes{alignment=[1, "a", {}]} { }
"""


class _Resolution(PostLex):
    """Resolves the compile-time variables of the text that is parsed.

    It makes the lexer keep WORD, which no rule uses: a word that is no keyword becomes a token, not a lexer's error.
    """

    always_accept = ("WORD", "CALCULATION")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return _definitions.get().process(stream)


_definitions: ContextVar[Definitions] = ContextVar("definitions")
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _load_grammar() -> Lark:
    return tables.read(_Resolution())


def loaded_grammar() -> Lark:
    """Return the parser of the grammar, loaded at the first use, once for all threads."""
    with _lock:
        return _load_grammar()


def write_tables() -> None:
    """Make the parser's tables ready for all that will parse; for the build of the package."""
    tables.write(_Resolution())


@lru_cache(maxsize=1)
def _reader() -> Reader | str:
    """Return what reads long texts, or why lark has to."""
    grammar = loaded_grammar()
    try:
        reader = Reader(grammar)
        if lark.__version__ not in TESTED:
            check_reader(reader, _SAMPLE, _derived(grammar, Source(_SAMPLE, ""), {}))
    except OtherLark as error:
        return str(error)
    return reader


def why_slow() -> str | None:
    """Return why long texts are left to lark, which takes some three times as long; None where they are not."""
    reader = _reader()
    return reader if isinstance(reader, str) else None


def _derived(grammar: Lark, source: Source, define: Mapping[str, bool | int | float | str]) -> Tree[Token]:
    """Return the parse tree of a text with compile-time variables; raises `TLSyntaxError` where there is none."""
    definitions = Definitions(source)
    for name, value in define.items():
        definitions.take(_given(grammar, name, value))
    previous = _definitions.set(definitions)
    try:
        tree: Tree[Token] = grammar.parse(source.text)
    except UnexpectedInput as error:
        wrong = syntax_errors(grammar, source, error) + definitions.diagnostics
        raise TLSyntaxError.from_diagnostics(sort_diagnostics(wrong)) from None
    finally:
        _definitions.reset(previous)
    if definitions.diagnostics:
        raise TLSyntaxError.from_diagnostics(sort_diagnostics(definitions.diagnostics))
    return tree


def parse(
    text: str, filename: str = "<string>", define: Mapping[str, bool | int | float | str] | None = None
) -> Module:
    """Return the verified IR of a program; `filename` names it in diagnostics.

    `define` gives compile-time variables, ``{"n": 8}`` as ``$n = 8`` in front of the text; a string is text of the
    language, such as a type.

    Raises `TLSyntaxError` if the text does not follow the grammar and `TLVerifyError` if it breaks a rule of the
    language; either carries a diagnostic for each error that was found, in source order.
    """
    if not isinstance(text, str):
        raise TLTypeError(f"parse takes text, not a {type(text).__name__}: path.read_text() gives that of a file")
    with rarely_collected():
        return _parsed(text, filename, define)


def _parsed(text: str, filename: str, define: Mapping[str, bool | int | float | str] | None) -> Module:
    source = Source(text, filename)
    grammar = loaded_grammar()
    tree = None
    if len(text) >= QUICKLY and not define and isinstance(reader := _reader(), Reader):
        tree = reader.read(text)
    if tree is None:
        tree = _derived(grammar, source, define or {})
    elaborator = Elaborator(source)
    module = elaborator.module(tree)
    diagnostics: list[Diagnostic] = elaborator.diagnostics
    if not elaborator.too_deep:
        diagnostics += find_errors(module, elaborator.operand_spans, source.line)
    if diagnostics:
        raise TLVerifyError.from_diagnostics(sort_diagnostics(diagnostics))
    for operation in (each for function in module for each in function.body.walk()):
        assert not has_poison(operation), f"{operation.span}: no diagnostic says what is wrong with an operand"
    return module


def _given(grammar: Lark, name: str, value: bool | int | float | str) -> Definitions:
    """Return a compile-time variable that is given from outside.  Raises `TLSyntaxError` for what is none."""
    try:
        text = definition_text(name, value)
    except RuleError as error:
        raise TLSyntaxError.from_diagnostics([Diagnostic(error.message, None, error.hint)]) from None
    source = Source(text, f"<define {name}>")
    definitions = Definitions(source)
    previous = _definitions.set(definitions)
    try:
        tokens = list(grammar.lex(text))
    except UnexpectedInput:
        tokens = []
    finally:
        _definitions.reset(previous)
    if definitions.diagnostics:
        raise TLSyntaxError.from_diagnostics(definitions.diagnostics)
    if tokens[2:] != definitions.value(f"${name}"):
        hint = "give a number, a type, a list, or attributes in braces"
        raise TLSyntaxError.from_diagnostics([Diagnostic(f"${name} = {value} is no definition", None, hint)])
    return definitions
