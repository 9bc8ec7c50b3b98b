"""How instructions are written: from one line of a class follow its grammar, its printing and its reading.

`spelling` is the form of an instruction, as MLIR's declarative assembly formats are (MLIR, "Operation Definition
Specification", section "Declarative Assembly Format")::

    spelling = "load {source}[{indices}] : {source.memref_or_group_type}"

``{field}`` stands for a field of the class, whose annotation says what is written there: one of the names below.
``{field.rule}`` stands for its type, which is written as that rule of the grammar.  All else is written as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tl_dpnp.language.constants import format_constant
from tl_dpnp.language.ir import POISON, Constant, Operand, Operation, Slice, Value
from tl_dpnp.language.types import MemrefType, Type

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseNode, ParseTree

__all__ = [
    "Arguments", "Element", "Indices", "Kind", "Memref", "Mode", "Result", "Sizes", "Slices", "Spelled", "listed",
    "operand_text",
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
#: The number of a mode.
Mode = int
#: A word of the class's `kinds`, written with a dot before it.
Kind = str
Result = Value

#: An annotation of the text: the type and its place.
_Annotation = tuple[Type, Any]


def operand_text(operand: Operand) -> str:
    """Return an operand as text of the language."""
    return str(operand) if isinstance(operand, Value) else format_constant(operand.value, operand.type)


def listed(operands: tuple[Operand, ...]) -> str:
    """Return operands as text, with commas between them."""
    return ", ".join(map(operand_text, operands))


def _slice_text(entry: Slice) -> str:
    offset = operand_text(entry.offset)
    if entry.is_index:
        return offset
    if entry.size is not None:
        return f"{offset}:{operand_text(entry.size)}"
    return ":" if isinstance(entry.offset, Constant) and entry.offset.value == 0 else f"{offset}:?"


def _read_element(elaborator: Elaborator, node: ParseNode, annotation: _Annotation | None) -> Operand:
    assert annotation is not None
    memref, _ = annotation
    return elaborator.operand(node, memref.element if isinstance(memref, MemrefType) else POISON)


@dataclass(frozen=True)
class _Role:
    """What an annotation of a field says: its rule of the grammar, its text, and how it is read.

    What is `beside` the operands has its places in the text counted behind theirs.
    """

    rule: str
    text: Callable[[Any], str]
    read: Callable[[Elaborator, Any, _Annotation | None], Any]
    beside: bool = False


_ROLES: Mapping[str, _Role] = {
    "Operand": _Role("_identifier_or_constant", operand_text, lambda e, node, type: e.agreed(node, type)),
    "Arguments": _Role("identifier_or_constant_list", listed,
                       lambda e, node, type: tuple(e.agreed(child, type) for child in node.children)),
    "Element": _Role("_identifier_or_constant", operand_text, _read_element),
    "Memref": _Role("LOCAL_IDENTIFIER", str, lambda e, node, type: e.agreed(node, type)),
    "Indices": _Role("[index_list]", listed,
                     lambda e, node, _: () if node is None else tuple(map(e.index, node.children))),
    "Sizes": _Role("expand_shape", lambda sizes: " x ".join("?" if s is None else operand_text(s) for s in sizes),
                   lambda e, node, _: tuple(map(e.size, node.children))),
    "Slices": _Role("[index_or_slice_list]", lambda slices: ", ".join(map(_slice_text, slices)),
                    lambda e, node, _: () if node is None else tuple(map(e.slice, node.children))),
    "Mode": _Role("INTEGER_CONSTANT", str, lambda e, node, _: e.mode(node), beside=True),
    "Kind": _Role("{}_kind", lambda kind: f".{kind}", lambda e, node, _: e.word(node), beside=True),
}

#: A place of a spelling: a field, and the rule of its type where the type is written there.
_PLACE = re.compile(r"\{(\w+)(?:\.(\w+))?\}")


@dataclass(frozen=True)
class _Form:
    """The parsed spelling of a class: texts, and (field, rule of its type) between them.

    `reads` holds, in the order in which fields are read, each with its role, its place, and that of its type;
    `result` is the place of the type of the result, where that is written.
    """

    texts: tuple[str, ...]
    places: tuple[tuple[str, str | None], ...]
    roles: Mapping[str, _Role]
    reads: tuple[tuple[str, _Role, int, int | None], ...]
    result: int | None


_forms: dict[type[Spelled], _Form] = {}


def _form(kind: type[Spelled]) -> _Form:
    if kind not in _forms:
        _forms[kind] = _parsed(kind)
    return _forms[kind]


def _parsed(kind: type[Spelled]) -> _Form:
    pieces = _PLACE.split(kind.spelling)
    places = tuple(zip(pieces[1::3], pieces[2::3], strict=True))
    # Annotations are text: `from __future__ import annotations`.
    roles = {f.name: _ROLES[str(f.type)] for f in fields(kind) if f.name not in ("span", "result")}
    nodes = {name: place for place, (name, rule) in enumerate(places) if rule is None}
    types = {name: place for place, (name, rule) in enumerate(places) if rule is not None}
    common = next(iter(types.values()), None)
    ordered = sorted(roles, key=lambda name: roles[name].beside)
    reads = tuple((name, roles[name], nodes[name], types.get(name, common)) for name in ordered)
    return _Form(tuple(pieces[::3]), places, roles, reads, types.get("result"))


@dataclass(frozen=True)
class Spelled(Operation):
    """Base of the instructions that have a `spelling`; `older` are kinds that the older reference writes alone."""

    spelling: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """The word that a spelling begins with is the instruction's."""
        if "spelling" in vars(cls):
            cls.mnemonic = re.match(r"\w+", cls.spelling)[0]  # type: ignore[index]

    @classmethod
    def grammar(cls) -> dict[str, str]:
        form, name = _form(cls), cls.__name__.lower()
        symbols: list[str] = []
        for text, (field, type_rule) in zip(form.texts, (*form.places, ("", None)), strict=True):
            symbols += (f'"{word}"' for word in re.findall(r"->|\w+|\S", text))
            if field:
                symbols.append(type_rule or form.roles[field].rule.format(name))
        rules = {f"{name}_instruction": " ".join(symbols)}
        if cls.kinds:
            rules[f"!{name}_kind"] = " | ".join(f'".{kind}"' for kind in cls.kinds)
        if cls.older:
            rules[f"{name}_older_instruction"] = " ".join([f"{name}_older", *symbols[2:]])
            rules[f"!{name}_older"] = " | ".join(f'"{kind}"' for kind in cls.older)
        return rules

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        form, nodes = _form(cls), tree.children
        types = {place: (elaborator.type(nodes[place]), nodes[place])
                 for place, (_, rule) in enumerate(form.places) if rule is not None}
        values = {name: role.read(elaborator, nodes[place], None if type is None else types[type])
                  for name, role, place, type in form.reads}
        if form.result is not None:
            type, node = types[form.result]
            elaborator.place(node)
            values["result"] = replace(results[0], type=type)
        elif results:
            values["result"] = results[0]
        return cls(**values)

    @property
    def text(self) -> str:
        form = _form(type(self))
        parts = [form.texts[0]]
        for (field, type_rule), text in zip(form.places, form.texts[1:], strict=True):
            value = getattr(self, field)
            parts.append(str(value.type) if type_rule else form.roles[field].text(value))
            parts.append(text)
        return "".join(parts)
