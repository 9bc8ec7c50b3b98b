"""From the parse tree to the IR: resolves names, gives constants their types, infers the types of results.

Only what the text alone knows is checked here: that constants fit their types, that annotations are the types of their
operands or of the result, that attributes stand once.  All else is the verifier's; a value whose definition failed here
is poisoned.  A named constant is no part of the IR: it stands wherever its name does.

Source: tensor language reference, all dialects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lark import Token, Tree

from tl_dpnp.errors import Diagnostic, Span
from tl_dpnp.language.annotations import Shared, Use, may_be_annotated, type_for, with_names
from tl_dpnp.language.attributes import read_attributes
from tl_dpnp.language.constants import convert, parse_float, parse_integer
from tl_dpnp.language.grammar import RULES
from tl_dpnp.language.ir import (
    MISSING,
    POISON,
    Assertion,
    Constant,
    Function,
    Module,
    Operand,
    Operation,
    Region,
    Slice,
    Value,
)
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.scopes import Entry, Scopes
from tl_dpnp.language.source import Node, Source
from tl_dpnp.language.type_rules import check_order, check_type, describe, same_type
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType, Size, Type
from tl_dpnp.language.verifier import MAXIMUM_NESTING
from tl_dpnp.scalars import I1, INDEX, SCALAR_TYPES, ScalarType

__all__ = ["Elaborator"]

#: A tree or a token of the parse tree, as the rule of the grammar lays it out; None for what is left out.
ParseNode = Any
ParseTree = Any


class Elaborator:
    """Builds the module of one parse tree.

    `diagnostics` collects what is wrong; `too_deep` is set when regions were left out because they are nested too
    deeply.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self._places: dict[int, tuple[Node | Span, ...]] = {}  # of operations and functions by their `id`
        self.too_deep = False
        #: The types of the results that the region which is read yields.
        self.returned: tuple[Type, ...] = ()
        self._scopes = Scopes()
        self._named: dict[int, Value] = {}  # named constants by their `id`, as values of these names
        self._annotation: tuple[Type, ParseNode] | None = None  # of the result of the last instruction
        self._uses: list[Node] = []
        self._annotated: list[Use] = []  # operands of the instruction that is read
        self._broken = False
        self._unnamed = 0
        #: Sound ones, by their text, with their address space: programs repeat them.
        self._types: dict[str, tuple[MemrefType, str | None]] = {}

    def module(self, tree: Tree[Token]) -> Module:
        """Return the module of the parse tree of a program."""
        functions: list[Function] = []
        for part in _trees(tree):
            if part.data == "definition":
                self._definition(part)
            else:
                functions.append(self._function(part))
        return Module(tuple(functions))

    def _definition(self, tree: Tree[Token]) -> None:
        """Check the value of a compile-time variable, which may stand nowhere."""
        value = tree.children[-1]
        if isinstance(value, Tree) and not value.data.startswith("attribute"):
            self.type(value)
        elif isinstance(value, Token) and value.type == "INTEGER_CONSTANT":
            self._integer(value)

    def operand_spans(self, owner: Operation | Function) -> tuple[Span, ...]:
        """Return where the operands of an operation are written and, behind them, its modes or its type.

        Of a function, return where its attributes are.
        """
        return tuple(place if isinstance(place, Span) else self.source.span(place)
                     for place in self._places.get(id(owner), ()))

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
        self._scopes, self._named = Scopes(), {}
        self._assertions: list[Assertion] = []
        parameters = [self._parameter(argument) for argument in _trees(arguments)]
        values, places = self._function_attributes(attributes)
        size, subgroup = values.get("work_group_size"), values.get("subgroup_size")
        function = Function(
            name[1:],
            tuple(parameters),
            self.region(body),
            None if size is None else (size[0], size[1]),
            None if subgroup is None else subgroup[0],
            self.source.span(name),
            assertions=tuple(self._assertions),
        )
        names = ("work_group_size", "subgroup_size")
        self._places[id(function)] = tuple(places.get(name, function.span) for name in names)
        return function

    def _parameter(self, tree: Tree[Token]) -> Value:
        name, type, attributes = tree.children
        assert isinstance(name, Token)
        value = Value(name[1:], self.type(type), self.source.span(name))
        if self._space(type) == "local":
            message = f"the parameter {value} is in local memory"
            self.report(message, self.source.span(type), "leave out local: only alloca gives local memory")
        owner = "a scalar" if isinstance(value.type, ScalarType) and value.type != POISON else "a memref or group"
        given = {name: number for name, number, _ in self.attributes(attributes, owner)}
        if given and value.type != POISON:
            assert attributes is not None
            assertion = Assertion(value.name, **given, span=self.source.span(attributes))
            self._assertions += [assertion] if assertion.says_something else []
        self._define(value.name, Entry(value, value.span, value.type))
        return value

    def _function_attributes(self, tree: Tree[Token]) -> tuple[dict[str, tuple[int, ...]], dict[str, Span]]:
        """Return the numbers and the place of each attribute by its name."""
        values: dict[str, tuple[int, ...]] = {}
        places: dict[str, Span] = {}
        for attribute in _trees(tree):
            if attribute.data == "attribute_dictionary":
                for name, value, node in self.attributes(attribute, "a function"):
                    values[name], places[name] = value if isinstance(value, tuple) else (value,), self.source.span(node)
                continue
            name = attribute.data.removesuffix("_attribute")
            span = self.source.span(attribute)
            if name in values:
                notes = (self._first_place(places[name]),)
                self.report(f"the attribute {name} is given twice", span, "remove one of them", notes)
                continue
            self._broken = False
            numbers = tuple(self._integer(number) for number in attribute.children)
            if not self._broken:
                values[name], places[name] = numbers, span
        return values, places

    def _first_place(self, span: Span) -> Diagnostic:
        return self.source.diagnostic("it is given here first", span)

    def attributes(self, tree: Node | None, owner: str) -> list[tuple[str, Any, Tree[Token]]]:
        """Return name, value and node of each legal attribute of a dictionary, after reporting the others."""
        def report(message: str, node: Node, hint: str, first: Node | None) -> None:
            notes = () if first is None else (self._first_place(self.source.span(first)),)
            self.report(message, self.source.span(node), hint, notes)

        return list(read_attributes(tree if isinstance(tree, Tree) else None, owner, report))

    def alignment(self, tree: Node | None) -> int | None:
        """Return the alignment that the attributes of an alloca ask for, None where they ask for none."""
        return next((value for _, value, _ in self.attributes(tree, "an alloca")), None)

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
            case "coopmatrix_type":
                return self._matrix_type(node)
        element, *entries = node.children
        memref = self.type(element)
        if self._space(element) == "local":
            message = "the memrefs of a group are in local memory"
            self.report(message, self.source.span(element), "leave out local: groups come from the call")
        self._broken = False
        length, offset = (default if entry is None else self._size(entry.children[0])
                          for entry, default in zip(entries, (None, 0), strict=True))
        type = GroupType(memref, offset, length) if isinstance(memref, MemrefType) and not self._broken else POISON
        try:
            check_type(type)
        except RuleError as error:
            if error.hint is not None and "length" in error.message:
                self._report_rule(error, self.source.span(node))
                return POISON
        return type

    def _space(self, node: ParseNode) -> str | None:
        """Return the address space that a type is written with."""
        if not isinstance(node, Tree) or node.data != "memref_type":
            return None
        known = self._types.get(self.source.text[node.meta.start_pos : node.meta.end_pos])
        return _written_space(node) if known is None else known[1]

    def _memref_type(self, tree: Tree[Token]) -> Type:
        text = self.source.text[tree.meta.start_pos : tree.meta.end_pos]
        if text in self._types:
            return self._types[text][0]
        type = self._new_memref_type(tree)
        if isinstance(type, MemrefType) and "$" not in text:  # a compile-time variable may be another one elsewhere
            self._types[text] = type, _written_space(tree)
        return type

    def _new_memref_type(self, tree: Tree[Token]) -> Type:
        element, shape, layout, _ = tree.children
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

    def _matrix_type(self, tree: Tree[Token]) -> Type:
        component, rows, columns, use = tree.children
        broken, self._broken = self._broken, False
        sizes = self._integer(rows), self._integer(columns)
        invalid, self._broken = self._broken, broken
        if invalid:
            return POISON
        type = CooperativeMatrixType(SCALAR_TYPES[str(component)], *sizes, self.word(use))
        try:
            check_type(type)
        except RuleError as error:
            self._report_rule(error, self.source.span(tree if error.operand is None else tree.children[error.operand]))
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

    def _use(self, node: Node | None) -> Operand:
        """Return what a local identifier names; a poisoned value if that is nothing (the verifier tells)."""
        assert isinstance(node, Token)
        self._uses.append(node)
        entry = self._scopes.find(str(node[1:]))
        return Value(str(node[1:]), POISON, self.source.span(node)) if entry is None else entry.operand

    @staticmethod
    def names_value(node: ParseNode) -> bool:
        """Return whether an operand is written as a name."""
        return isinstance(node, Token) and node.type == "LOCAL_IDENTIFIER"

    @staticmethod
    def is_complex(node: ParseNode) -> bool:
        """Return whether an operand is written as a complex constant."""
        return isinstance(node, Tree)

    def type_of(self, node: ParseNode) -> Type:
        """Return the type that a name was given; POISON where it has none."""
        entry = self._scopes.find(str(node[1:])) if self.names_value(node) else None
        return POISON if entry is None else entry.declared

    def operand(self, node: Node | None, type: Type) -> Operand:
        """Return what a name stands for, or a constant of the given type."""
        assert node is not None
        if self.names_value(node):
            return self._use(node)
        self._uses.append(node)
        span = self.source.span(node)
        try:
            literal = _literal(node)
            if not isinstance(type, ScalarType):
                self.report(f"{describe(type)} gives the constant no type", span,
                            f"write %matrix = constant {literal} : {type} first; products are "
                            "cooperative_matrix_mul_add, multiples cooperative_matrix_scale"
                            if isinstance(type, CooperativeMatrixType) else "use a scalar, or load an element")
            elif type is not POISON:  # which was reported, as far as the name of a value stands for it by the verifier
                return Constant(convert(literal, type), type, span)
        except RuleError as error:
            self._report_rule(error, span)
        return Constant(0, POISON, span)

    def memref(self, node: ParseNode, annotation: tuple[Type, ParseNode] | None) -> Value:
        """Return a value that may be a memref or a group, with its annotated type as `agreed` does."""
        operand = self.agreed(node, annotation)
        if isinstance(operand, Value):
            return operand
        if operand.type is not POISON:
            self.report(f"{node} is a constant, no memref", self.source.span(node), "write the name of a memref")
        return MISSING

    def matrix(self, node: ParseNode) -> Value:
        """Return a value that may be a cooperative matrix."""
        operand = self._use(node)
        if isinstance(operand, Value):
            return operand
        hint = "write the name of a cooperative matrix"
        self.report(f"{node} is a constant, no cooperative matrix", self.source.span(node), hint)
        return MISSING

    def mode(self, node: Node | None) -> int:
        """Return the number of a mode; its place counts behind those of the operands."""
        assert isinstance(node, Token)
        self._uses.append(node)
        return self._integer(node)

    def index(self, node: Node | None) -> Operand:
        """Return an operand of type index."""
        return self.operand(node, INDEX)

    def agreed(
        self, node: ParseNode, annotation: tuple[Type, ParseNode] | None, *, shared: Shared = "type"
    ) -> Operand:
        """Return an operand with its annotated type, at the place of that; it is poisoned if it has another type.

        An annotation without a place only gives constants their type. `shared` says where another one could be written
        for all operands that share it: for it (where it is a type), behind the bounds of a loop, or nowhere.
        """
        if not self.names_value(node):
            if annotation is None:
                hint = f"give it a type before, and use that: %c = constant {self._text(node)} : {type_for(node)}"
                self.report("the constant has no type here", self.source.span(node), hint)
            return self.operand(node, POISON if annotation is None else annotation[0])
        operand = self._use(node)
        if annotation is None or annotation[1] is None:
            return operand
        type, where = annotation
        declared = self.type_of(node)
        if POISON in (declared, type):
            return operand
        own = type if same_type(operand.type, type) else declared
        use = Use(str(node), own, type, where, None if shared == "type" and isinstance(where, Token) else shared)
        self._annotated.append(use)
        return operand if use.agrees else replace(operand, type=POISON)

    def _text(self, node: Node) -> str:
        if isinstance(node, Token):
            return str(node)
        return self.source.text[node.meta.start_pos : node.meta.end_pos]

    def annotate_result(self, node: ParseNode, type: Type) -> None:
        """Note that the instruction which is read annotates its result, where its operands determine it as well."""
        self._annotation = type, node

    def place(self, node: ParseNode) -> None:
        """Note a place of the operation; those of the operands come first, in their order."""
        self._uses.append(node)

    def size(self, node: ParseNode) -> Constant | Value | None:
        """Return a size of type index; None for ``?``."""
        return None if _is_dynamic(node) else self.index(node)

    @staticmethod
    def word(node: ParseNode) -> str:
        """Return the word of a modifier or an older instruction without its dot: ``add`` for ``.add``."""
        return str(node.children[0]).removeprefix(".")

    # --- regions -----------------------------------------------------------------------------------------------------

    def region(self, tree: Node | None, values: Iterable[Value] = (), returned: tuple[Type, ...] = ()) -> Region:
        """Return the region of a parse tree, in which `values` are visible and which yields values of given types."""
        assert isinstance(tree, Tree)
        if len(self._scopes.regions) > MAXIMUM_NESTING + 1:  # the parameters' is one
            if not self.too_deep:
                message = f"regions are nested more than {MAXIMUM_NESTING} deep"
                self.report(message, self.head(tree), "nest fewer regions")
            self.too_deep = True
            return Region()
        saved, self.returned = self.returned, returned
        values = tuple(values)
        for value in values:
            self._check_name(value.name, value.span, is_constant=False)
        self._scopes.enter(values)
        operations = tuple(filter(None, map(self._instruction, _trees(tree))))
        self._scopes.leave()
        self.returned = saved
        return Region(operations)

    def head(self, tree: Tree[Token]) -> Span:
        """Return the place of the first character of a tree."""
        span = self.source.span(tree)
        return Span(span.file, span.line, span.column, span.line, span.column + 1)

    def _instruction(self, tree: Tree[Token]) -> Operation | None:
        """Return the operation of an instruction and make its results visible; None for what only defines a name."""
        if tree.data in ("constant_definition", "definition"):
            (self._constant if tree.data == "constant_definition" else self._definition)(tree)
            return None
        names, body = [], tree
        if tree.data in ("value_instruction", "multi_value_instruction"):
            *tokens, last = tree.children
            assert isinstance(last, Tree)
            names, body = [token for token in tokens if isinstance(token, Token)], last
        saved, self._uses, self._broken, self._annotation = self._uses, [], False, None
        annotated, self._annotated = self._annotated, []
        results = tuple(Value(str(name[1:]), POISON, self.source.span(name)) for name in names)
        operation = RULES[body.data].read(self, body, results)
        for use in self._annotated:
            if not use.agrees:
                hint = use.hint(operation, self._annotated)
                self.report(f"{use.name} has type {use.own}, not {use.annotation}", self.source.span(use.where), hint)
        self._annotated = annotated
        annotation, self._annotation = self._annotation, None
        operation.complete(self.source.span(tree), self._inferred(operation))
        is_local = self._scopes.is_local(operation)
        declared = None if annotation is None else self._check_annotation(operation, *annotation, is_local)
        for value in operation.results:
            self._define(value.name, Entry(value, value.span, declared or value.type, is_local))
        self._places[id(operation)] = tuple(self._uses)
        self._uses = saved
        return operation

    def _inferred(self, operation: Operation) -> Type | None:
        """Return the type of an operation's result, where the operands determine it."""
        if self._broken or any(operand.type is POISON for operand in operation.operands):
            return None
        try:
            return operation.result_type()
        except RuleError:
            return None  # the verifier reports it

    def _check_annotation(self, operation: Operation, type: Type, node: ParseNode, is_local: bool) -> Type | None:
        """Return the type that the annotation of a result gives it, None after reporting that it is another one.

        Strides may be left open that are known; of sizes, those are known that are not given by names.
        """
        (result,) = operation.results
        if POISON in (type, result.type) or any(operand.type is POISON for operand in operation.operands):
            return None
        try:
            computed = with_names(operation, self._named).result_type() or result.type
        except RuleError:
            return None
        written = "bool" if computed == I1 else str(computed)
        if isinstance(computed, MemrefType) and is_local:
            written = f"{written[:-1]},local>"
        if not may_be_annotated(computed, type):
            message, source = f"{result} has type {computed}, not {type}", operation.viewed
            if source is not None:
                message = f"{type} is neither the type of {source} nor that of {result}, which views it"
            self.report(message, self.source.span(node), f"write {written}")
            return None
        if isinstance(type, MemrefType) and (self._space(node) == "local") != is_local:
            message = f"{result} is {'' if is_local else 'not '}in local memory, but its annotation says otherwise"
            self.report(message, self.source.span(node), f"write {written}")
        return type

    def _constant(self, tree: Tree[Token]) -> None:
        """Make a name stand for a constant."""
        name, literal, node = tree.children
        assert isinstance(name, Token)
        saved, self._uses = self._uses, []
        type = self.type(node)
        operand = self.operand(literal, type)
        self._uses = saved
        try:
            check_type(type)
        except RuleError as error:
            self._report_rule(error, self.source.span(node))
        self._named[id(operand)] = Value(str(name[1:]), operand.type)
        self._define(str(name[1:]), Entry(operand, self.source.span(name), operand.type), is_constant=True)

    def _define(self, name: str, entry: Entry, *, is_constant: bool = False) -> None:
        self._check_name(name, entry.span, is_constant=is_constant)
        self._scopes.define(name, entry)

    def _check_name(self, name: str, span: Span, *, is_constant: bool) -> None:
        """Report a name that is taken where one of the two is a constant's; the verifier sees those of values."""
        earlier = self._scopes.find(name)
        if earlier is not None and (is_constant or isinstance(earlier.operand, Constant)):
            note = self.source.diagnostic("the first definition is here", earlier.span)
            message = f"%{name} is already defined in line {earlier.span.line}"
            self.report(message, span, "give the value a name of its own", (note,))

    # --- what instructions consist of --------------------------------------------------------------------------------

    def slice(self, tree: Tree[Token], zero_removes: bool) -> Slice:
        """Return an entry of a subview; a size of 0 may remove the mode, as an index does."""
        first, *rest = tree.children
        if tree.data == "index":
            return Slice(self.index(first), None, True)
        if not rest:  # a plain colon
            self._uses.append(first)
            return Slice(Constant(0, INDEX, self.source.span(first)))
        offset = self.index(first)
        is_zero = isinstance(rest[-1], Token) and rest[-1].type == "INTEGER_CONSTANT" and not rest[-1].strip("+-0")
        if zero_removes and is_zero:
            return Slice(offset, None, True)
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
                return self.type_of(bound)
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


def _written_space(tree: Tree[Token]) -> str | None:
    space = tree.children[-1]
    return str(space.children[0]) if isinstance(space, Tree) else None


def _trees(node: Node | None) -> list[Tree[Token]]:
    """Return the children of a rule that are rules themselves; none if the rule is left out."""
    return [] if node is None else [child for child in _children(node) if isinstance(child, Tree)]


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
