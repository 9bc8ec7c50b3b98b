"""From the parse tree to the IR: resolves names, gives constants their types, infers the types of results.

Only what the text alone knows is checked here: that constants fit their types, that annotations are the types of their
operands, that attributes stand once.  All else is the verifier's; a value whose definition failed here is poisoned.

Source: tensor language reference, both spellings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest

from lark import Token, Tree

from tl_dpnp.errors import Diagnostic, Span
from tl_dpnp.language import ops
from tl_dpnp.language.constants import convert, parse_float, parse_integer
from tl_dpnp.language.infer import MISSING, POISON, cast_line, check_order, check_type, result_type, same_type
from tl_dpnp.language.ops import Constant, Function, Module, Operand, Operation, Region, Slice, Value
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.source import Node, Source
from tl_dpnp.language.types import GroupType, MemrefType, Size, Type
from tl_dpnp.language.verifier import MAXIMUM_NESTING
from tl_dpnp.scalars import I1, INDEX, PRECISIONS, SCALAR_TYPES, ScalarType

__all__ = ["Elaborator"]

_LINEAR_ALGEBRA: dict[str, type[ops.LinearAlgebra]] = {
    "axpby_instruction": ops.Axpby,
    "gemm_instruction": ops.Gemm,
    "gemv_instruction": ops.Gemv,
    "ger_instruction": ops.Ger,
    "hadamard_product_instruction": ops.Hadamard,
    "sum_instruction": ops.Sum,
}


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

    def module(self, tree: Tree[Token]) -> Module:
        """Return the module of the parse tree of a program."""
        return Module(tuple(self._function(function) for function in _trees(tree)))

    # --- errors ------------------------------------------------------------------------------------------------------

    def _report(self, message: str, span: Span, hint: str | None = None, notes: tuple[Diagnostic, ...] = ()) -> None:
        self.diagnostics.append(self.source.diagnostic(message, span, hint, notes))

    def _report_rule(self, error: RuleError, span: Span) -> None:
        self._report(error.message, span, error.hint)

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
            self._region(body, scope=self._scopes[0]),
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
        value = Value(name[1:], self._type(type), self.source.span(name))
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
                self._report(f"the attribute {name} is given twice", span, "remove one of them", (note,))
                continue
            self._broken = False
            numbers = tuple(self._integer(number) for number in attribute.children)
            if not self._broken:
                values[name], places[name] = numbers, span
        return values, places

    # --- types -------------------------------------------------------------------------------------------------------

    def _type(self, node: Node | None) -> Type:
        """Return a type; POISON after reporting that it is none."""
        assert isinstance(node, Tree)
        match node.data:
            case "scalar_type":
                return SCALAR_TYPES[str(node.children[0])]
            case "void_type":
                self._report("a parameter cannot be void", self.source.span(node), "write a scalar or memref type")
                return POISON
            case "memref_type":
                return self._memref_type(node)
        memref = self._type(node.children[0])
        self._broken = False
        offset = self._size(node.children[1]) if len(node.children) > 1 else 0
        return GroupType(memref, offset) if isinstance(memref, MemrefType) and not self._broken else POISON

    def _scalar_type(self, node: Node | None) -> ScalarType:
        type = self._type(node)
        assert isinstance(type, ScalarType)
        return type

    def _memref_type(self, tree: Tree[Token]) -> Type:
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

    def _operand(self, node: Node | None, type: Type) -> Operand:
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

    def _mode(self, node: Node | None) -> int:
        """Return the number of a mode; its place counts behind those of the operands."""
        assert isinstance(node, Token)
        self._uses.append(self.source.span(node))
        return self._integer(node)

    def _index(self, node: Node | None) -> Operand:
        return self._operand(node, INDEX)

    def _annotated(self, node: Node | None, annotation: Node | None) -> tuple[Operand, Type]:
        """Return an operand and its annotated type; the operand is poisoned if it has another type."""
        type = self._type(annotation)
        operand = self._operand(node, type)
        return self._agree(operand, type, annotation), type

    def _agree(self, operand: Operand, type: Type, annotation: Node | None, *, can_be_written: bool = True) -> Operand:
        assert annotation is not None
        if isinstance(operand, Constant) or POISON in (operand.type, type) or same_type(operand.type, type):
            return operand
        span = self.source.span(annotation)
        hint = _agreement_hint(operand, type, isinstance(annotation, Tree) or not can_be_written)
        self._report(f"{operand} has type {operand.type}, not {type}", span, hint)
        return replace(operand, type=POISON)

    def _memref(self, node: Node | None, annotation: Node | None) -> Value:
        """Return an operand that is annotated with a memref or group type."""
        operand, _ = self._annotated(node, annotation)
        assert isinstance(operand, Value)
        return operand

    # --- regions -----------------------------------------------------------------------------------------------------

    def _region(self, tree: Node | None, scope: dict[str, Value] | None = None) -> Region:
        """Return the region of a parse tree; `scope` holds what is visible in it besides its surroundings."""
        assert isinstance(tree, Tree)
        if scope is None:
            scope = {}
        if len(self._scopes) > MAXIMUM_NESTING:
            if not self.too_deep:
                message = f"regions are nested more than {MAXIMUM_NESTING} deep"
                self._report(message, self._head(tree), "nest fewer regions")
            self.too_deep = True
            return Region()
        if scope is not self._scopes[0]:
            self._scopes.append(scope)
        operations = tuple(self._instruction(instruction) for instruction in _trees(tree))
        if scope is not self._scopes[0]:
            self._scopes.pop()
        return Region(operations)

    def _head(self, tree: Tree[Token]) -> Span:
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
        operation = _BUILDERS[body.data](self, body, results)
        operation = self._infer(replace(operation, span=self.source.span(tree)))
        for value in operation.results:
            self._scopes[-1][value.name] = value
        self.operand_spans[id(operation)] = tuple(self._uses)
        self._uses = saved
        return operation

    def _infer(self, operation: Operation) -> Operation:
        """Return the operation with the type of its result, where the operands determine it."""
        if self._broken or any(operand.type is POISON for operand in operation.operands):
            return operation
        try:
            type = result_type(operation)
        except RuleError:
            return operation  # the verifier reports it
        if type is None:
            return operation
        return replace(operation, result=replace(operation.results[0], type=type))  # type: ignore[call-arg]

    # --- scalars -----------------------------------------------------------------------------------------------------

    def _build_arith_binary_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        kind, lhs, rhs, annotation = tree.children
        left, type = self._annotated(lhs, annotation)
        right = self._agree(self._operand(rhs, type), type, annotation)
        return ops.Arith(kind=_modifier(kind), lhs=left, rhs=right, result=replace(results[0], type=type))

    _build_binary_op_instruction = _build_arith_binary_instruction

    def _build_arith_unary_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        kind, operand, annotation = tree.children
        value, type = self._annotated(operand, annotation)
        return ops.Unary(kind=_modifier(kind), operand=value, result=replace(results[0], type=type))

    _build_neg_instruction = _build_arith_unary_instruction

    def _build_math_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        kind, arguments, annotation = tree.children
        assert isinstance(arguments, Tree)
        type = self._type(annotation)
        values = tuple(self._agree(self._operand(node, type), type, annotation) for node in arguments.children)
        return ops.Math(kind=_modifier(kind), arguments=values, result=replace(results[0], type=type))

    def _build_cast_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        operand, source, target = tree.children
        value, _ = self._annotated(operand, source)
        return ops.Cast(operand=value, result=replace(results[0], type=self._type(target)))

    def _build_comparison_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        kind, lhs, rhs, annotation = tree.children
        left, type = self._annotated(lhs, annotation)
        right = self._agree(self._operand(rhs, type), type, annotation)
        return ops.Compare(kind=_modifier(kind), lhs=left, rhs=right, result=results[0])

    def _build_group_id_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        return ops.GroupId(result=results[0])

    def _build_group_size_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        return ops.GroupSize(result=results[0])

    # --- memory and views --------------------------------------------------------------------------------------------

    def _build_alloca_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        (annotation,) = tree.children
        self._uses.append(self.source.span(annotation))
        return ops.Alloca(result=replace(results[0], type=self._type(annotation)))

    def _build_lifetime_stop_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        return ops.LifetimeStop(source=self._use(tree.children[0]))

    def _build_barrier_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        return ops.Barrier()

    def _build_load_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        source, indices, annotation = tree.children
        memref = self._memref(source, annotation)
        return ops.Load(source=memref, indices=self._indices(indices), result=results[0])

    def _build_store_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        value, target, indices, annotation = tree.children
        type = self._type(annotation)
        stored = self._operand(value, type.element if isinstance(type, MemrefType) else POISON)
        memref = self._agree(self._use(target), type, annotation)
        assert isinstance(memref, Value)
        return ops.Store(value=stored, target=memref, indices=self._indices(indices))

    def _indices(self, node: Node | None) -> tuple[Operand, ...]:
        return () if node is None else tuple(self._index(index) for index in _children(node))

    def _build_size_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        source, mode, annotation = tree.children
        return ops.SizeOf(source=self._memref(source, annotation), mode=self._mode(mode), result=results[0])

    def _build_expand_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        source, mode, shape, annotation = tree.children
        memref = self._memref(source, annotation)
        sizes = tuple(None if _is_dynamic(size) else self._index(size) for size in _children(shape))
        return ops.Expand(source=memref, mode=self._mode(mode), shape=sizes, result=results[0])

    def _build_fuse_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        source, first, last, annotation = tree.children
        memref = self._memref(source, annotation)
        return ops.Fuse(source=memref, first=self._mode(first), last=self._mode(last), result=results[0])

    def _build_subview_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        source, slices, annotation = tree.children
        memref = self._memref(source, annotation)
        entries = () if slices is None else tuple(self._slice(entry) for entry in _trees(slices))
        return ops.Subview(source=memref, slices=entries, result=results[0])

    def _slice(self, tree: Tree[Token]) -> Slice:
        first, *rest = tree.children
        if tree.data == "index":
            return Slice(self._index(first), None, True)
        if not rest:  # a plain colon
            span = self.source.span(first)
            self._uses.append(span)
            return Slice(Constant(0, INDEX, span))
        offset = self._index(first)
        return Slice(offset, None if _is_dynamic(rest[-1]) else self._index(rest[-1]))

    # --- control -----------------------------------------------------------------------------------------------------

    def _build_yield_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        parts = {part.data: part.children for part in _trees(tree)}
        values, types = parts.get("identifier_or_constant_list", []), parts.get("scalar_type_list", [])
        if len(values) != len(types):
            self._report(
                f"yield names {counted(len(values), 'value')} but {counted(len(types), 'type')}",
                self.source.span(tree),
                "write one type for each value: yield %a, %b : f32, i32",
            )
            return ops.Yield(values=(MISSING,))
        pairs = zip(values, types, strict=True)
        return ops.Yield(values=tuple(self._annotated(value, type)[0] for value, type in pairs))

    def _build_if_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        condition, types, then, otherwise = tree.children
        returned = [] if types is None else [self._type(type) for type in _children(types)]
        results = results or self._without_names(len(returned), self._head(tree))
        if len(returned) != len(results):
            self._report(
                f"the if returns {counted(len(returned), 'value')}, but has {counted(len(results), 'name')} before it",
                self._head(tree),
                "write one name for each type: %a, %b = if %c -> (f32, i32) { ... } else { ... }",
            )
            results = (*results, MISSING)
        typed = zip(results, returned, strict=False)
        outputs = [value if value is MISSING else replace(value, type=type) for value, type in typed]
        outputs += results[len(returned) :]
        return ops.If(
            condition=self._operand(condition, I1),
            outputs=tuple(outputs),
            then=self._region(then),
            otherwise=None if otherwise is None else self._region(otherwise),
        )

    def _without_names(self, count: int, span: Span) -> tuple[Value, ...]:
        """Return values for results that the text does not name; their own names stand nowhere in the text."""
        values: list[Value] = []
        while len(values) < count:
            name, self._unnamed = f"unnamed{self._unnamed}", self._unnamed + 1
            if f"%{name}" not in self.source.text:
                values.append(Value(name, POISON, span))
        return tuple(values)

    def _build_for_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        variable, bounds = self._loop(tree)
        if len(bounds) == 2:
            span = variable.span
            self._uses.append(span)
            bounds += (Constant(1, variable.type if isinstance(variable.type, ScalarType) else POISON, span),)
        start, stop, step = bounds
        body = self._region(tree.children[-1], {variable.name: variable})
        return ops.For(variable=variable, start=start, stop=stop, step=step, body=body)

    def _build_foreach_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        variable, (start, stop) = self._loop(tree)
        body = self._region(tree.children[-1], {variable.name: variable})
        return ops.Foreach(variables=(variable,), starts=(start,), stops=(stop,), body=body)

    def _build_foreach_modes_instruction(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        """A loop over several indices: one has the type that is written, else that of a bound that is a value."""
        names, starts, stops, types, _ = map(_listed, tree.children)
        for what, entries in (("first values", starts), ("ends", stops), ("types", types)):
            if entries and len(entries) != len(names):
                message = f"a foreach over {len(names)} indices has {len(entries)} {what}"
                self._report(message, self.source.span(entries[0]), "give one for each index")
        indices = list(zip_longest(names, starts, stops, types))[:len(names)]
        variables = tuple(
            self._variable(name, self._type_of_bounds(start, stop) if type is None else self._type(type), type or name)
            for name, start, stop, type in indices
        )

        def bound_of(variable: Value, bound: Node | None, type: Node | None) -> Operand:
            if bound is None:  # reported above
                return Constant(0, POISON)
            return self._agree(self._operand(bound, variable.type), variable.type, type or bound, can_be_written=False)

        of_variables = list(zip(variables, indices, strict=True))
        first = tuple(bound_of(variable, start, type) for variable, (_, start, _, type) in of_variables)
        last = tuple(bound_of(variable, stop, type) for variable, (_, _, stop, type) in of_variables)
        body = self._region(tree.children[-1], {variable.name: variable for variable in variables})
        return ops.Foreach(variables=variables, starts=first, stops=last, body=body)

    def _type_of_bounds(self, *bounds: Node | None) -> Type:
        for bound in bounds:
            if isinstance(bound, Token) and bound.type == "LOCAL_IDENTIFIER":
                return self._visible(bound).type
        return INDEX

    def _loop(self, tree: Tree[Token]) -> tuple[Value, tuple[Operand, ...]]:
        """Return the variable and the bounds of a loop."""
        name, bounds, annotation, _ = tree.children
        variable = self._variable(name, INDEX if annotation is None else self._type(annotation), annotation or name)
        return variable, tuple(
            self._agree(self._operand(bound, variable.type), variable.type, annotation or bound)
            for bound in _children(bounds)
        )

    def _variable(self, name: Node | None, type: Type, blamed: Node | None) -> Value:
        """Return the variable of a loop; a poisoned one after reporting that it has no integer type."""
        assert isinstance(name, Token)
        if type is not POISON and not (isinstance(type, ScalarType) and type.is_integer):
            assert blamed is not None
            self._report(f"the variable of a loop has type {type}", self.source.span(blamed), "write an integer type")
            type = POISON
        return Value(str(name[1:]), type, self.source.span(name))

    # --- linear algebra ----------------------------------------------------------------------------------------------

    def _linear_algebra(self, tree: Tree[Token], results: tuple[Value, ...]) -> Operation:
        children = tree.children
        kinds = ("transpose", "precision", "atomic")
        count = sum(isinstance(child, Tree) and child.data in kinds for child in children)
        modifiers = [_modifier(child) for child in children[:count]]
        rest = children[count:]
        half = len(rest) // 2
        operands = [self._annotated(node, type)[0] for node, type in zip(rest[:half], rest[half:], strict=True)]
        alpha, *inputs, beta, output = operands
        assert isinstance(output, Value)
        return _LINEAR_ALGEBRA[tree.data](
            alpha=alpha,
            inputs=tuple(value for value in inputs if isinstance(value, Value)),
            beta=beta,
            output=output,
            transposes=tuple(modifier == "t" for modifier in modifiers if modifier in ("t", "n")),
            atomic="atomic" in modifiers,
            precision=next((name for name in PRECISIONS if name in modifiers), None),
        )


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


def _modifier(node: Node | None) -> str:
    """Return the word of a modifier or an older instruction without its dot: ``add`` for ``.add``."""
    return str(_children(node)[0]).removeprefix(".")


def _listed(node: Node | None) -> list[Node]:
    """Return the entries of a list in the text; none where it is left out."""
    return [] if node is None else _children(node)


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


#: From the name of a rule to the method that builds its operation.
_BUILDERS: dict[str, Callable[[Elaborator, Tree[Token], tuple[Value, ...]], Operation]] = {
    name.removeprefix("_build_"): method for name, method in vars(Elaborator).items() if name.startswith("_build_")
} | dict.fromkeys(_LINEAR_ALGEBRA, Elaborator._linear_algebra)
