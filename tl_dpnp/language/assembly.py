"""How instructions are written: from one line of a class follow its grammar, its printing and its reading.

`spelling` is the form of an instruction, as MLIR's declarative assembly formats are (MLIR, "Operation Definition
Specification", section "Declarative Assembly Format")::

    spelling = "load {source}[{indices}] : {source.type_of_load}"
    newer_spelling = "load {source}[{indices}] : {result.type_of_load}"

``{field}`` stands for a field of the class, whose annotation says what is written there: one of the names below.
``{field.rule}`` stands for its type, which is written as that rule of the grammar.  All else is written as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.language.constants import format_constant
from tl_dpnp.language.extents import AXES, Axis
from tl_dpnp.language.ir import POISON, Constant, Operand, Operation, Slice, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType, Type
from tl_dpnp.scalars import I32

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseNode, ParseTree

__all__ = [
    "CHECKS", "DIRECTIONS", "LISTING", "SCOPES", "SEMANTICS", "Alignment", "Arguments", "Check", "Component",
    "Direction", "Element", "Indices", "Kind", "Lane", "Matrix", "Memref", "Mode", "Number", "Result", "Scope",
    "Semantics", "Sizes", "Slices", "Spelled", "Transpose", "Writing", "axis_errors", "operand_text",
]

#: What fields are annotated with.  An `Operand` has the only type that is written, or that written for itself.
Arguments = tuple[Operand, ...]
#: A value of the element type of the memref whose type is written.
Element = Operand
Memref = Value
Indices = tuple[Operand, ...]
#: Sizes; None for ``?``.
Sizes = tuple[Constant | Value | None, ...]
Slices = tuple[Slice, ...]
#: A cooperative matrix, and a number of the component type of the first one, or of the result.
Matrix = Value
Component = Operand
#: The number of a mode.
Mode = int
#: An integer that is written as such.
Number = int
#: A word of the class's `kinds`, written with a dot before it.
Kind = str
Result = Value
#: The number of a work-item in its sub-group, of type i32.
Lane = Operand
#: An alignment in bytes, None where none is asked for.
Alignment = int | None
#: For whom an access is atomic, and how it orders others; the first of each need not be written.
SCOPES = ("work_group", "cross_device", "device", "subgroup")
SEMANTICS = ("relaxed", "acquire", "release", "acquire_release", "sequentially_consistent")
Scope = str
Semantics = str
#: Whether a matrix in memory is transposed, and which of its indices may be outside of it; "" for none.
Transpose = bool
CHECKS = ("", "rows", "cols", "both")
Check = str
#: Along what a matrix is reduced: each row to one component, or each column.
DIRECTIONS = ("row", "column")
Direction = str

#: The type that an annotation gives to operands, and its place; no place where another operand gives it.
_Annotation = tuple[Type, Any]


def operand_text(operand: Operand) -> str:
    """Return an operand as text, a constant by its value."""
    return str(operand) if isinstance(operand, Value) else format_constant(operand.value, operand.type)


class Writing:
    """How the dialect 0.3 writes operands and types: constants stand where they are used.

    What it cannot say is an error if it `is_strict`, else it is written as in 0.4, for errors and listings.
    """

    #: Whether the newer spellings are written.
    newer: ClassVar[bool] = False

    def __init__(self, is_strict: bool = False) -> None:
        self.is_strict = is_strict

    def operand(self, operand: Operand) -> str:
        """Return an operand of any instruction."""
        return operand_text(operand)

    def listed(self, operands: tuple[Operand, ...]) -> str:
        """Return operands with commas between them."""
        return ", ".join(map(self.operand, operands))

    def type(self, type: Type) -> str:
        """Return a type.  Raises `UnsupportedError` for one that the dialect does not have."""
        if isinstance(type, GroupType) and type.length is not None:
            self.refuse(f"the length of {type}")
        if isinstance(type, CooperativeMatrixType):
            self.refuse(f"the type {type}")
        return str(type)

    def type_of(self, operand: Operand) -> str:
        """Return the type of an operand."""
        return self.type(operand.type)

    def refuse(self, what: str) -> None:
        """Raise `UnsupportedError` for what only the dialect 0.4 can say."""
        if self.is_strict:
            raise UnsupportedError(f'the dialect 0.3 cannot say {what}: print it with dialect="0.4"')


#: How errors and listings are written.
LISTING = Writing()


def axis_errors(name: str, axis: Axis) -> Iterator[RuleError]:
    """Yield an error where what a program that builds operations gives is no axis."""
    if axis not in AXES:
        yield RuleError(f"{name} has no axis {axis!r}", f"there are {', '.join(AXES)}")


def _slice_text(entry: Slice) -> str:
    offset = operand_text(entry.offset)
    if entry.is_index:
        return offset
    if entry.size is not None:
        return f"{offset}:{operand_text(entry.size)}"
    return ":" if isinstance(entry.offset, Constant) and entry.offset.value == 0 else f"{offset}:?"


def _read_element(elaborator: Elaborator, node: ParseNode, annotation: _Annotation | None) -> Operand:
    type = POISON if annotation is None else annotation[0]
    return elaborator.operand(node, type.element if isinstance(type, MemrefType) else type)


def _read_component(elaborator: Elaborator, node: ParseNode, annotation: _Annotation | None) -> Operand:
    type = POISON if annotation is None else annotation[0]
    return elaborator.operand(node, type.component if isinstance(type, CooperativeMatrixType) else type)


def _read_slices(elaborator: Elaborator, node: ParseNode, newer: bool) -> tuple[Slice, ...]:
    return () if node is None else tuple(elaborator.slice(child, zero_removes=newer) for child in node.children)


def _modifier(word: str, words: tuple[str, ...]) -> str:
    return "" if word == words[0] else f".{word}"


class _Role(NamedTuple):
    """What an annotation of a field says: its rule of the grammar, its text, and how it is read.

    What is `beside` the operands has its places in the text counted behind theirs; what is `like_result` takes the
    annotation of the result, if one is written.
    """

    rule: str
    text: Callable[[Writing, Any], str]
    read: Callable[[Elaborator, Any, _Annotation | None], Any]
    beside: bool = False
    like_result: bool = False


_ROLES: Mapping[str, _Role] = {
    "Operand": _Role("_identifier_or_constant", lambda w, operand: w.operand(operand),
                     lambda e, node, type: e.agreed(node, type)),
    "Arguments": _Role("identifier_or_constant_list", lambda w, operands: w.listed(operands),
                       lambda e, node, type: tuple(e.agreed(child, type) for child in node.children)),
    "Element": _Role("_identifier_or_constant", lambda w, operand: w.operand(operand), _read_element),
    "Memref": _Role("LOCAL_IDENTIFIER", lambda w, memref: str(memref), lambda e, node, type: e.memref(node, type)),
    "Matrix": _Role("LOCAL_IDENTIFIER", lambda w, matrix: str(matrix), lambda e, node, _: e.matrix(node)),
    "Component": _Role("_identifier_or_constant", lambda w, operand: w.operand(operand), _read_component,
                       like_result=True),
    "Indices": _Role("_optional_index_list", lambda w, operands: w.listed(operands),
                     lambda e, node, _: () if node is None else tuple(map(e.index, node.children))),
    "Sizes": _Role("expand_shape",
                   lambda w, sizes: " x ".join("?" if s is None else operand_text(s) for s in sizes),
                   lambda e, node, _: tuple(map(e.size, node.children))),
    "Slices": _Role("_optional_index_or_slice_list", lambda w, slices: ", ".join(map(_slice_text, slices)),
                    lambda e, node, type: _read_slices(e, node, type is None or type[1] is None)),
    "Lane": _Role("_identifier_or_int_constant", lambda w, operand: w.operand(operand),
                  lambda e, node, _: e.operand(node, I32)),
    "Alignment": _Role("_optional_attribute_dictionary",
                       lambda w, number: "" if number is None else f" {{alignment={number}}}",
                       lambda e, node, _: e.alignment(node), beside=True),
    "Axis": _Role("axis", lambda w, word: f".{word}", lambda e, node, _: e.word(node), beside=True),
    "Mode": _Role("INTEGER_CONSTANT", lambda w, mode: str(mode), lambda e, node, _: e.mode(node), beside=True),
    "Number": _Role("INTEGER_CONSTANT", lambda w, number: str(number), lambda e, node, _: e.mode(node), beside=True),
    "Transpose": _Role("_optional_transpose", lambda w, flag: ".t" if flag else "",
                       lambda e, node, _: node is not None and e.word(node) == "t", beside=True),
    "Check": _Role("_optional_check", lambda w, word: f".{word}_checked" if word else "",
                   lambda e, node, _: "" if node is None else e.word(node).removesuffix("_checked"), beside=True),
    "Direction": _Role("direction", lambda w, word: f".{word}", lambda e, node, _: e.word(node), beside=True),
    "Scope": _Role("_optional_scope", lambda w, word: _modifier(word, SCOPES),
                   lambda e, node, _: SCOPES[0] if node is None else e.word(node), beside=True),
    "Semantics": _Role("_optional_semantics", lambda w, word: _modifier(word, SEMANTICS),
                       lambda e, node, _: SEMANTICS[0] if node is None else e.word(node), beside=True),
    "Kind": _Role("{}_kind", lambda w, kind: f".{kind}", lambda e, node, _: e.word(node), beside=True),
}

#: A place of a spelling: a field, and the rule of its type where the type is written there.
_PLACE = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


class _Form(NamedTuple):
    """A parsed spelling of a class: texts, and (field, rule of its type) between them.

    `reads` holds, in the order in which fields are read, each with its role, its place, and that of its type;
    `result` is the place of the type of the result, where that is written.  `symbols` are those of its grammar.
    `implied` are the fields that are not written, with the values that they have then.
    """

    texts: tuple[str, ...]
    places: tuple[tuple[str, str | None], ...]
    roles: Mapping[str, _Role]
    reads: tuple[tuple[str, _Role, int, int | None], ...]
    result: int | None
    symbols: str
    implied: Mapping[str, Any]


_forms: dict[type[Spelled], tuple[_Form, _Form]] = {}


def _forms_of(kind: type[Spelled]) -> tuple[_Form, _Form]:
    """Return the forms of the dialects 0.3 and 0.4; one form twice where they agree."""
    if kind not in _forms:
        older = _parsed(kind, kind.spelling)
        newer = older if kind.newer_spelling is None else _parsed(kind, kind.newer_spelling)
        _forms[kind] = older, newer
    return _forms[kind]


def _parsed(kind: type[Spelled], spelling: str) -> _Form:
    pieces = _PLACE.split(spelling)
    places = tuple(zip(pieces[1::3], pieces[2::3], strict=True))
    # Annotations are text: `from __future__ import annotations`.
    roles = {f.name: _ROLES[str(f.type)] for f in fields(kind) if f.name not in ("span", "result")}
    nodes = {name: place for place, (name, rule) in enumerate(places) if rule is None}
    types = {name: place for place, (name, rule) in enumerate(places) if rule is not None}
    # The first type of the older spelling is that of all operands without one; the newer one may leave it out.
    annotated = [match[1] for match in _PLACE.finditer(kind.spelling) if match[2]]
    first = "" if kind.is_newer else next(iter(annotated), "")
    ordered = sorted((name for name in roles if name in nodes), key=lambda name: roles[name].beside)
    implied = {f.name: f.default for f in fields(kind) if f.name in roles and f.name not in nodes}
    assert MISSING not in implied.values(), f"{spelling!r} leaves out what has no default"
    reads = tuple((name, roles[name], nodes[name], types.get(name, types.get(
        "result" if roles[name].like_result else first))) for name in ordered)
    symbols: list[str] = []
    for text, (field, type_rule) in zip(pieces[::3], (*places, ("", None)), strict=True):
        symbols += (f'"{word}"' for word in re.findall(r"->|\.?\w+|\S", text))
        if field:
            rule = "{}_word" if field == "kind" and not symbols else roles[field].rule if type_rule is None else ""
            symbols.append(type_rule or rule.format(kind.__name__.lower()))
    return _Form(tuple(pieces[::3]), places, roles, reads, types.get("result"), " ".join(symbols), implied)


class Spelled(Operation):
    """Base of the instructions that have a `spelling`, that of the dialect 0.3.

    `newer_spelling` is that of the dialect 0.4, None where it is the same; where both consist of the same tokens,
    `annotates_result` tells them apart.  `words` has the kinds that may stand alone, each by its word there.
    """

    spelling: ClassVar[str]
    newer_spelling: ClassVar[str | None] = None
    words: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        """The word that a spelling begins with is the instruction's."""
        if "spelling" in vars(cls):
            cls.mnemonic = re.match(r"\w+", cls.spelling)[0]  # type: ignore[index]
        if cls.words:
            cls.aliases = tuple(cls.words.values())
        elif cls.newer_spelling is not None and not cls.newer_spelling.startswith(cls.mnemonic):
            cls.aliases = (re.match(r"\w+", cls.newer_spelling)[0],)  # type: ignore[index]

    @classmethod
    def annotates_result(cls, source: Type, annotation: Type) -> bool:
        """Return whether an annotation is the type of the result, for an operand of the type `source`.

        It is asked of instructions whose spellings in 0.3 and 0.4 consist of the same tokens.
        """
        raise NotImplementedError(f"{cls.__name__} has spellings that are told apart by their tokens")

    @classmethod
    def grammar(cls) -> dict[str, str]:
        (older, newer), name = _forms_of(cls), cls.__name__.lower()
        rules = {f"{name}_instruction": older.symbols}
        if newer.symbols != older.symbols:
            rules[f"{name}_newer_instruction"] = newer.symbols
        for rule, words in (("kind", [f".{kind}" for kind in cls.kinds]), ("word", cls.words.values())):
            if words:
                rules[f"!{name}_{rule}"] = " | ".join(f'"{word}"' for word in words)
        return rules

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        (older, newer), nodes = _forms_of(cls), tree.children
        form = newer if tree.data.endswith("_newer_instruction") else older
        types = {place: (elaborator.type(nodes[place]), nodes[place])
                 for place, (_, rule) in enumerate(form.places) if rule is not None}
        # Of spellings with the same tokens, the source is written first and the annotation last.
        if newer is not older and newer.symbols == older.symbols and (
            cls.annotates_result(elaborator.type_of(nodes[0]), types[len(nodes) - 1][0])
        ):
            form = newer
        is_older = form is older and not cls.is_newer
        implied = None if is_older else _implied(elaborator, form, nodes)
        values = {name: role.read(elaborator, nodes[place], implied if type is None else types[type])
                  for name, role, place, type in form.reads}
        if "kind" in values:
            values["kind"] = next((kind for kind, word in cls.words.items() if word == values["kind"]), values["kind"])
        if form.result is not None:
            type, node = types[form.result]
            elaborator.place(node)
            if not is_older:
                elaborator.annotate_result(node, type)
            values["result"] = Value(results[0].name, type, results[0].span)
        elif results:
            values["result"] = results[0]
        return cls(**values)

    def spell(self, writing: Writing) -> str:
        older, newer = _forms_of(type(self))
        kind = getattr(self, "kind", "")
        alone = self.words.get(kind)
        form = newer if writing.newer and (not self.words or alone is not None) else older
        if form is older and alone is not None and kind not in self.kinds:
            writing.refuse(alone)
            form = newer
        hidden = [field for field, value in form.implied.items() if getattr(self, field) != value]
        if hidden:
            form = newer
            texts = (form.roles[field].text(writing, getattr(self, field)) for field in hidden)
            writing.refuse("".join([form.texts[0], *texts]))
        parts = [form.texts[0]]
        for (field, type_rule), text in zip(form.places, form.texts[1:], strict=True):
            value = getattr(self, field)
            if field == "kind" and form is newer:
                parts.append(str(alone))
            else:
                parts.append(writing.type_of(value) if type_rule else form.roles[field].text(writing, value))
            parts.append(text)
        return "".join(parts)


def _implied(elaborator: Elaborator, form: _Form, nodes: list[ParseNode]) -> _Annotation | None:
    """Return the type that constants take from the other operands where no annotation gives one: a memref's first."""
    for wanted in ("Memref", "Operand"):
        for _, role, place, _ in form.reads:
            if role is _ROLES[wanted] and elaborator.names_value(nodes[place]):
                return elaborator.type_of(nodes[place]), None
    return None
