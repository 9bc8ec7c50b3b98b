"""Printer: the text of the IR, in the dialect 0.3 or 0.4.

Each operation says how it is written; parsing what was printed gives an equal IR.  IR that breaks rules prints as well,
so that it can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from tl_dpnp.language.assembly import LISTING, Writing, operand_text
from tl_dpnp.language.assertions import assertion_text
from tl_dpnp.language.ir import Constant, Function, Module, Operand, Operation, Region, Value
from tl_dpnp.language.scopes import Entry, Scopes
from tl_dpnp.language.types import GroupType, MemrefType, Type
from tl_dpnp.scalars import I1

__all__ = ["Dialect", "headline", "print_function", "print_module", "print_operation", "print_region"]

Dialect = Literal["0.3", "0.4"]

_INDENT = "  "


def print_module(module: Module, dialect: Dialect = "0.4") -> str:
    """Return the text of a module, its functions separated by empty lines.

    Raises `UnsupportedError`, which names the construct, where the dialect 0.3 cannot say the module, and `ValueError`
    for a dialect that there is not.
    """
    return "\n".join(print_function(function, dialect) for function in module)


def print_function(function: Function, dialect: Dialect = "0.4") -> str:
    """Return the text of a function, ending in a newline.  Raises as `print_module` does."""
    if dialect not in get_args(Dialect):
        raise ValueError(f"there is no dialect {dialect!r}; there are {', '.join(get_args(Dialect))}")
    lines = _Lines(_Newer(function) if dialect == "0.4" else Writing(is_strict=True))
    return "\n".join(lines.function(function)) + "\n"


def print_region(region: Region, indent: int = 0) -> str:
    """Return the text of the operations of a region, without its braces, in the dialect 0.3, for looking at."""
    return "\n".join(_Lines(LISTING).region(region, indent))


def print_operation(operation: Operation, indent: int = 0) -> str:
    """Return the text of an operation with its regions, in the dialect 0.3, for looking at; no newline ends it."""
    return "\n".join(_Lines(LISTING).operation(operation, indent))


def headline(operation: Operation, writing: Writing = LISTING) -> str:
    """Return the text of an operation without its regions."""
    if operation.is_newer:
        writing.refuse(operation.mnemonic)
    results, text = ", ".join(map(str, operation.results)), operation.spell(writing)
    return f"{results} = {text}" if results else text


class _Newer(Writing):
    """How the dialect 0.4 writes operands and types: each constant has a name, local memory is called so.

    `definitions` collects the constants that have to be named before the operation which was written last.
    """

    newer = True

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.scopes = Scopes()
        self.definitions: list[str] = []
        self._constants: list[dict[Constant, str]] = [{}]
        operations = list(function.body.walk())
        defined = [value for each in operations for value in (*each.results, *each.loop_variables)]
        self._taken = {value.name for value in (*function.parameters, *defined)}
        self._next = 0

    def enter(self, values: tuple[Value, ...]) -> None:
        """Begin a region."""
        self.scopes.enter(values)
        self._constants.append({})

    def leave(self) -> None:
        """End a region; its names are not visible any more."""
        self.scopes.leave()
        self._constants.pop()

    def define(self, operation: Operation) -> None:
        """Make the results of an operation visible."""
        is_local = self.scopes.is_local(operation)
        for value in operation.results:
            self.scopes.define(value.name, Entry(value, value.span, value.type, is_local))

    def operand(self, operand: Operand) -> str:
        if isinstance(operand, Value):
            return str(operand)
        known = next((names[operand] for names in self._constants if operand in names), None)
        if known is not None:
            return known
        while f"c{self._next}" in self._taken:
            self._next += 1
        name, self._next = f"%c{self._next}", self._next + 1
        self._constants[-1][operand] = name
        self.definitions.append(f"{name} = constant {operand_text(operand)} : {self.type(operand.type)}")
        return name

    def type(self, type: Type, is_local: bool = False) -> str:
        match type:
            case MemrefType():
                return f"{str(type)[:-1]},local>" if is_local else str(type)
            case GroupType(memref=memref, offset=offset, length=length):
                last = "" if offset == 0 else f", offset: {'?' if offset is None else offset}"
                return f"group<{memref} x {'?' if length is None else length}{last}>"
        return "bool" if type == I1 else str(type)

    def type_of(self, operand: Operand) -> str:
        entry = self.scopes.find(operand.name) if isinstance(operand, Value) else None
        return self.type(operand.type, entry is not None and entry.is_local)


class _Lines:
    """The lines of a text."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing

    def function(self, function: Function) -> Iterator[str]:
        asserted = {each.parameter: f" {assertion_text(each)}" for each in function.assertions}
        if asserted and not self.writing.newer:
            self.writing.refuse(f"the attributes of %{next(iter(asserted))}")
        parameters = ", ".join(f"{value}: {self.writing.type(value.type)}{asserted.get(value.name, '')}"
                               for value in function.parameters)
        size, subgroup = function.work_group_size, function.subgroup_size
        if self.writing.newer:
            given = [] if subgroup is None else [f"subgroup_size={subgroup}"]
            given += [] if size is None else [f"work_group_size=[{size[0]}, {size[1]}]"]
            attributes = f" attributes{{{', '.join(given)}}}" if given else ""
        else:
            attributes = "" if size is None else f" work_group_size({size[0]}, {size[1]})"
            attributes += "" if subgroup is None else f" subgroup_size({subgroup})"
        yield f"func @{function.name}({parameters}){attributes} {{"
        yield from self.region(function.body, 1, function.parameters)
        yield "}"

    def region(self, region: Region, indent: int, values: tuple[Value, ...] = ()) -> Iterator[str]:
        newer = self.writing if isinstance(self.writing, _Newer) else None
        if newer is not None:
            newer.enter(values)
        for operation in region:
            yield from self.operation(operation, indent)
        if newer is not None:
            newer.leave()

    def operation(self, operation: Operation, indent: int) -> Iterator[str]:
        margin, newer = _INDENT * indent, self.writing if isinstance(self.writing, _Newer) else None
        if newer is not None and not operation.regions:
            newer.define(operation)  # the annotation of the result says where it is
        head = margin + headline(operation, self.writing)
        if newer is not None:
            yield from (margin + line for line in newer.definitions)
            newer.definitions.clear()
        if not operation.regions:
            yield head
            return
        yield f"{head} {{"
        for number, region in enumerate(operation.regions):
            if number:
                yield f"{margin}}} else {{"
            yield from self.region(region, indent + 1, operation.loop_variables)
        yield f"{margin}}}"
        if newer is not None:
            newer.define(operation)
