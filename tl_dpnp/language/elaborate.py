"""From the parse tree to the IR: resolves names, gives constants their types, infers the types of results.

Only what the text alone knows is checked here: that constants fit their types, that annotations are the types of their
operands, that attributes stand once.  All else is the verifier's; a value whose definition failed here is poisoned.

Source: tensor language reference, both spellings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Token, Tree

from tl_dpnp.errors import Diagnostic, Span
from tl_dpnp.language.constants import convert, parse_float, parse_integer
from tl_dpnp.language.grammar import RULES
from tl_dpnp.language.ir import POISON, Constant, Function, Module, Operand, Operation, Region, Slice, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.source import Node, Source
from tl_dpnp.language.type_rules import cast_line, check_order, check_type, same_type
from tl_dpnp.language.types import GroupType, MemrefType, Size, Type
from tl_dpnp.language.verifier import MAXIMUM_NESTING
from tl_dpnp.scalars import I1, INDEX, SCALAR_TYPES, ScalarType

__all__ = ["Elaborator"]

#: A tree or a token of the parse tree, as the rule of the grammar lays it out; None for what is left out.
ParseNode = Any
ParseTree = Any


class Elaborator:
    """Builds the module of one parse tree.

    `diagnostics` collects what is wrong; `operand_spans` says, for each operation by its `id`, where its operands are
    written and, behind them, its modes or its type, and for each function where its attributes are; `too_deep` is set
    when regions were left out because they are nested too deeply.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.operand_spans: dict[int, tuple[Span, ...]] = {}
        self.too_deep = False
        self._scopes: list[dict[str, Value]] = []
        self._uses: list[Span] = []
        self._broken = False
        self._unnamed = 0
        self._types: dict[str, MemrefType] = {}  # sound ones, by their text: programs repeat them

    def module(self, tree: Tree[Token]) -> Module:
        """Return the module of the parse tree of a program."""
        return Module(tuple(self._function(function) for function in _trees(tree)))

    # --- errors ------------------------------------------------------------------------------------------------------

    def report(self, message: str, span: Span, hint: str | None = None, notes: tuple[Diagnostic, ...] = ()) -> None:
        self.diagnostics.append(self.source.diagnostic(message, span, hint, notes))

    def _report_rule(self, error: RuleError, span: Span) -> None:
        self.report(error.message, span, error.hint)

    # --- functions ---------------------------------------------------------------------------------------------------

    def _function(self, tree: Tree[Token]) -> Function:
        name, arguments, attributes, body = tree.children
        assert isinstance(name, Token)
        assert isinstance(attributes, Tree)
        self._scopes = [{}]
        parameters = [self._parameter(argument) for argument in _trees(arguments)]
        values, places = self._attributes(attributes)
        size, subgroup = values.get("work_group_size"), values.get("subgroup_size")
        function = Function(
            name[1:],
            tuple(parameters),
            self.region(body, scope=self._scopes[0]),
            None if size is None else (size[0], size[1]),
            None if subgroup is None else subgroup[0],
            self.source.span(name),
        )
        names = ("work_group_size", "subgroup_size")
        self.operand_spans[id(function)] = tuple(places.get(name, function.span) for name in names)
        return function

    def _parameter(self, tree: Tree[Token]) -> Value:
        name, type = tree.children
        assert isinstance(name, Token)
        value = Value(name[1:], self.type(type), self.source.span(name))
        self._scopes[-1][value.name] = value
        return value

    def _attributes(self, tree: Tree[Token]) -> tuple[dict[str, tuple[int, ...]], dict[str, Span]]:
        """Return the numbers and the place of each attribute by its name."""
        values: dict[str, tuple[int, ...]] = {}
        places: dict[str, Span] = {}
        for attribute in _trees(tree):
            name = attribute.data.removesuffix("_attribute")
            span = self.source.span(attribute)
            if name in values:
                note = self.source.diagnostic("it is given here first", places[name])
                self.report(f"the attribute {name} is given twice", span, "remove one of them", (note,))
                continue
            self._broken = False
            numbers = tuple(self._integer(number) for number in attribute.children)
            if not self._broken:
                values[name], places[name] = numbers, span
        return values, places

    # --- types -------------------------------------------------------------------------------------------------------

    def type(self, node: ParseNode) -> Type:
        """Return a type; POISON after reporting that it is none."""
        assert isinstance(node, Tree)
        match node.data:
            case "scalar_type":
                return SCALAR_TYPES[str(node.children[0])]
            case "void_type":
                self.report("a parameter cannot be void", self.source.span(node), "write a scalar or memref type")
                return POISON
            case "memref_type":
                return self._memref_type(node)
        memref = self.type(node.children[0])
        self._broken = False
        offset = self._size(node.children[1]) if len(node.children) > 1 else 0
        return GroupType(memref, offset) if isinstance(memref, MemrefType) and not self._broken else POISON

    def _memref_type(self, tree: Tree[Token]) -> Type:
        text = self.source.text[tree.meta.start_pos : tree.meta.end_pos]
        if text in self._types:
            return self._types[text]
        type = self._new_memref_type(tree)
        if isinstance(type, MemrefType):
            self._types[text] = type
        return type

    def _new_memref_type(self, tree: Tree[Token]) -> Type:
        element, shape, layout = tree.children
        assert isinstance(shape, Tree)
        try:
            check_order(len(shape.children))
        except RuleError as error:
            self._report_rule(error, self.source.span(tree))
            return POISON
        broken, self._broken = self._broken, False
        sizes = tuple(self._size(size) for size in shape.children)
        strides: list[Node] = []
        if layout is None:
            type = MemrefType(SCALAR_TYPES[str(element)], sizes)
        else:
            (listed,) = _children(layout)
            strides = [] if listed is None else _children(listed)
            type = MemrefType(SCALAR_TYPES[str(element)], sizes, tuple(self._size(stride) for stride in strides))
        invalid, self._broken = self._broken, broken
        if invalid:
            return POISON
        try:
            check_type(type)
        except RuleError as error:
            blamed = tree if error.operand is None else [*shape.children, *strides][error.operand]
            self._report_rule(error, self.source.span(blamed))
            return POISON
        return type

    def _size(self, node: Node | None) -> Size:
        assert isinstance(node, Token)
        return None if node.type == "DYNAMIC" else self._integer(node)

    # --- operands ----------------------------------------------------------------------------------------------------

    def _integer(self, node: Node | None) -> int:
        """Return the value of an integer token that is no operand; 0 after reporting that it is out of range."""
        assert isinstance(node, Token)
        try:
            return parse_integer(node)
        except RuleError as error:
            self._report_rule(error, self.source.span(node))
            self._broken = True
            return 0

    def _use(self, node: Node | None) -> Value:
        """Return the value that a local identifier names; a poisoned one if there is none (the verifier tells)."""
        assert isinstance(node, Token)
        self._uses.append(self.source.span(node))
        return self._visible(node)

    def _visible(self, node: Token) -> Value:
        name = str(node[1:])
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return Value(name, POISON, self.source.span(node))

    def operand(self, node: Node | None, type: Type) -> Operand:
        """Return a value, or a constant of the given type."""
        assert node is not None
        if isinstance(node, Token) and node.type == "LOCAL_IDENTIFIER":
            return self._use(node)
        span = self.source.span(node)
        self._uses.append(span)
        try:
            literal = _literal(node)
            if type is not POISON and isinstance(type, ScalarType):
                return Constant(convert(literal, type), type, span)
        except RuleError as error:
            self._report_rule(error, span)
        return Constant(0, POISON, span)

    def mode(self, node: Node | None) -> int:
        """Return the number of a mode; its place counts behind those of the operands."""
        assert isinstance(node, Token)
        self._uses.append(self.source.span(node))
        return self._integer(node)

    def index(self, node: Node | None) -> Operand:
        """Return an operand of type index."""
        return self.operand(node, INDEX)

    def agreed(
        self, node: ParseNode, annotation: tuple[Type, ParseNode] | None, *, can_be_written: bool = True
    ) -> Operand:
        """Return an operand with its annotated type, at the place of that; it is poisoned if it has another type."""
        if annotation is None:
            return self._use(node)
        type, where = annotation
        operand = self.operand(node, type)
        if isinstance(operand, Constant) or POISON in (operand.type, type) or same_type(operand.type, type):
            return operand
        hint = _agreement_hint(operand, type, isinstance(where, Tree) or not can_be_written)
        self.report(f"{operand} has type {operand.type}, not {type}", self.source.span(where), hint)
        return replace(operand, type=POISON)

    def place(self, node: ParseNode) -> None:
        """Note a place of the operation; those of the operands come first, in their order."""
        self._uses.append(self.source.span(node))

    def size(self, node: ParseNode) -> Constant | Value | None:
        """Return a size of type index; None for ``?``."""
        return None if _is_dynamic(node) else self.index(node)

    @staticmethod
    def word(node: ParseNode) -> str:
        """Return the word of a modifier or an older instruction without its dot: ``add`` for ``.add``."""
        return str(node.children[0]).removeprefix(".")

    # --- regions -----------------------------------------------------------------------------------------------------

    def region(self, tree: Node | None, scope: dict[str, Value] | None = None) -> Region:
        """Return the region of a parse tree; `scope` holds what is visible in it besides its surroundings."""
        assert isinstance(tree, Tree)
        if scope is None:
            scope = {}
        if len(self._scopes) > MAXIMUM_NESTING:
            if not self.too_deep:
                message = f"regions are nested more than {MAXIMUM_NESTING} deep"
                self.report(message, self.head(tree), "nest fewer regions")
            self.too_deep = True
            return Region()
        if scope is not self._scopes[0]:
            self._scopes.append(scope)
        operations = tuple(self._instruction(instruction) for instruction in _trees(tree))
        if scope is not self._scopes[0]:
            self._scopes.pop()
        return Region(operations)

    def head(self, tree: Tree[Token]) -> Span:
        """Return the place of the first character of a tree."""
        span = self.source.span(tree)
        return Span(span.file, span.line, span.column, span.line, span.column + 1)

    def _instruction(self, tree: Tree[Token]) -> Operation:
        """Return the operation of an instruction and make its results visible."""
        names, body = [], tree
        if tree.data in ("value_instruction", "multi_value_instruction"):
            *tokens, last = tree.children
            assert isinstance(last, Tree)
            names, body = [token for token in tokens if isinstance(token, Token)], last
        saved, self._uses, self._broken = self._uses, [], False
        results = tuple(Value(str(name[1:]), POISON, self.source.span(name)) for name in names)
        operation = RULES[body.data].read(self, body, results)
        operation = replace(operation, span=self.source.span(tree), **self._inferred(operation))
        for value in operation.results:
            self._scopes[-1][value.name] = value
        self.operand_spans[id(operation)] = tuple(self._uses)
        self._uses = saved
        return operation

    def _inferred(self, operation: Operation) -> dict[str, Any]:
        """Return the typed result of an operation by the name of its field, where the operands determine it."""
        if self._broken or any(operand.type is POISON for operand in operation.operands):
            return {}
        try:
            type = operation.result_type()
        except RuleError:
            return {}  # the verifier reports it
        return {} if type is None else {"result": replace(operation.results[0], type=type)}

    # --- what instructions consist of --------------------------------------------------------------------------------

    def slice(self, tree: Tree[Token]) -> Slice:
        """Return an entry of a subview."""
        first, *rest = tree.children
        if tree.data == "index":
            return Slice(self.index(first), None, True)
        if not rest:  # a plain colon
            span = self.source.span(first)
            self._uses.append(span)
            return Slice(Constant(0, INDEX, span))
        offset = self.index(first)
        return Slice(offset, None if _is_dynamic(rest[-1]) else self.index(rest[-1]))

    def variable(self, name: Node | None, type: Type, blamed: Node | None) -> Value:
        """Return the variable of a loop; a poisoned one after reporting that it has no integer type."""
        assert isinstance(name, Token)
        if type is not POISON and not (isinstance(type, ScalarType) and type.is_integer):
            assert blamed is not None
            self.report(f"the variable of a loop has type {type}", self.source.span(blamed), "write an integer type")
            type = POISON
        return Value(str(name[1:]), type, self.source.span(name))

    def type_of_bounds(self, *bounds: Node | None) -> Type:
        """Return the type of the first bound that is a value, else index."""
        for bound in bounds:
            if isinstance(bound, Token) and bound.type == "LOCAL_IDENTIFIER":
                return self._visible(bound).type
        return INDEX

    def without_names(self, count: int, span: Span) -> tuple[Value, ...]:
        """Return values for results that the text does not name; their own names stand nowhere in the text."""
        values: list[Value] = []
        while len(values) < count:
            name, self._unnamed = f"unnamed{self._unnamed}", self._unnamed + 1
            if f"%{name}" not in self.source.text:
                values.append(Value(name, POISON, span))
        return tuple(values)


def _children(node: Node | None) -> list[Node]:
    assert isinstance(node, Tree)
    return node.children


def _trees(node: Node | None) -> list[Tree[Token]]:
    """Return the children of a rule that are rules themselves; none if the rule is left out."""
    return [] if node is None else [child for child in _children(node) if isinstance(child, Tree)]


def _agreement_hint(operand: Value, annotation: Type, is_written: bool) -> str:
    """Return what to write where a value is annotated with another type than its own.

    `is_written` is false for the bounds of a loop whose type is left out.
    """
    match operand.type, annotation:
        case ScalarType() as own, ScalarType() if not own.is_complex or annotation.is_complex or annotation == I1:
            cast = f"write {cast_line(operand, annotation)} before, and use that"
            if not is_written and not own.is_integer:
                return cast
            return f"write {own if is_written else f': {own} behind the bounds'}; or {cast}"
        case GroupType() as group, MemrefType():
            return f"a group gives its memrefs by load: %m = load {operand}[...] : {group}"
        case MemrefType() as memref, ScalarType():
            return f"a memref gives its elements by load: %x = load {operand}[...] : {memref}"
        case own, ScalarType() | MemrefType() | GroupType() if type(own) is type(annotation):
            return f"write {own}"
    return f"use a value of type {annotation}"


def _is_dynamic(node: Node | None) -> bool:
    return isinstance(node, Token) and node.type == "DYNAMIC"


def _literal(node: Node) -> bool | int | float | complex:
    """Return the value of a constant before it has a type.  Raises `RuleError` where it overflows."""
    if isinstance(node, Tree):
        real, imaginary = (float(_real(part)) for part in node.children)
        return complex(real, imaginary)
    return node == "true" if node.type == "BOOLEAN_CONSTANT" else _real(node)


def _real(node: Node) -> int | float:
    assert isinstance(node, Token)
    return parse_integer(node) if node.type == "INTEGER_CONSTANT" else parse_float(node)
