"""A function's code with a hook wherever it reads, calls or changes something: what recording looks through.

The rewritten function does what the original does, in the same order, with the same globals and closure; each hook gets
what the original would have used and returns what is used instead.  They are methods of an object that is in the cell
of the variable `HOOKS`, but for the one that is given a variable, the function in the cell of `NAME`: each function may
have one of its own.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Iterator
from typing import Any

from tl_dpnp.graph.bound_names import BoundNames
from tl_dpnp.graph.source import Definition, compiled, definition_of
from tl_dpnp.records import dataclass

__all__ = ["HOOKS", "NAME", "Rewritten", "hook_cells", "is_rewritten", "obstacle", "rewritten"]

#: The free variables of rewritten code that have the hooks.
HOOKS, NAME = "__tl_dpnp_hooks__", "__tl_dpnp_name__"
#: The hooks by name, with the arguments that they are called with.
_ARGUMENTS = {
    "name": "the value of a global or closure variable, and its name",
    "call": "what is called",
    "attribute": "an object, and the name of its attribute",
    "method": "an object, and the name of its attribute that is called",
    "item": "a container, and a key",
    "axis_size": "an array, or what else has a `shape`, and the constant number of an axis",
    "iterate": "what is iterated over or unpacked",
    "unpack": "what is unpacked, and its pattern: see `_pattern`",
    "unpack_each": "what is iterated over, and the pattern of its elements, which are unpacked",
    "assigned": "what is assigned to several targets, and the patterns of these, None for what is not unpacked",
    "mapping": "what is unpacked as keyword arguments",
    "binary": "the name of an operator, and its operands",
    "operand": "the operand of another operator, or a truth value",
    "shown": "what is formatted",
    "hashed": "a key of a new dict, or a list of the elements of a new set",
    "set_attribute": "a value, the object that it is assigned to, and the name of the attribute",
    "set_item": "a value, the container that it is assigned to, and the key",
    "attribute_place": "an object, and the name of its attribute that is changed by an operator",
    "item_place": "a container, and the key of its element that is changed by an operator",
    "change": "such a place, the name of the operator, and its operand",
    "target": "what has an attribute, whose name comes next, or an element that is assigned in another way or deleted",
    "context": "the object of a `with` statement",
    "define": "nothing: it gives a decorator that does nothing, before a class is defined",
    "slice": "the bounds of a slice",
}
_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}
_COMPARISONS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "is_",
    ast.IsNot: "is_not", ast.In: "in", ast.NotIn: "not_in",
}
#: Statements whose effects are not followed, and what they do.
_EFFECTS: dict[type[ast.AST], str] = {
    ast.Try: "what follows depends on an exception", ast.With: "entering and leaving a context has effects",
    ast.AsyncWith: "entering and leaving a context has effects", ast.AsyncFor: "it waits for something",
    ast.Await: "it waits for something", ast.Yield: "the rest runs later", ast.YieldFrom: "the rest runs later",
    ast.Import: "an import has effects", ast.ImportFrom: "an import has effects",
    ast.ClassDef: "a class is defined", ast.Match: "patterns read what cannot be followed",
}
if hasattr(ast, "TryStar"):
    _EFFECTS[ast.TryStar] = _EFFECTS[ast.Try]


@dataclass(frozen=True)
class Rewritten:
    """The code with hooks; `effects` are (what, reason, line) of what it does that the hooks do not see."""

    code: types.CodeType
    effects: tuple[tuple[str, str, int], ...]

    def bind(self, function: types.FunctionType, hooks: dict[str, types.CellType]) -> types.FunctionType:
        """Return a function of this code with the variables and defaults of `function`, and hooks in cells by the names
        of their variables."""
        found = {**hooks, **dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))}
        cells = tuple(found[name] for name in self.code.co_freevars)
        bound = types.FunctionType(self.code, function.__globals__, function.__name__, function.__defaults__, cells)
        bound.__kwdefaults__ = function.__kwdefaults__
        bound.__qualname__ = function.__qualname__
        return bound


def rewritten(function: types.FunctionType) -> Rewritten | None:
    """Return the code of a function with hooks, or None where its source is not to be had."""
    code = function.__code__
    if code not in _rewritten:
        definition = definition_of(function)
        _rewritten[code] = None if definition is None else _rewrite(definition, code)
    return _rewritten[code]


def obstacle(function: types.FunctionType) -> tuple[str, str]:
    """Return why a function cannot be rewritten, and what to write instead."""
    seen = [name for name in function.__code__.co_names if name in _SEES_LOCALS]
    if seen and definition_of(function) is not None:
        return (f"it uses {' and '.join(seen)}, which would see variables that are not its own",
                f"write what it needs without {' and '.join(seen)}")
    return "its source cannot be found, or is not what was compiled", "define it in a file or a notebook"


def hook_cells(function: types.FunctionType) -> list[types.CellType]:
    """Return the cells with hooks of a function: it is a rewritten one, or was defined by one, if it has any."""
    names = function.__code__.co_freevars
    return [cell for name, cell in zip(names, function.__closure__ or (), strict=True) if name in (HOOKS, NAME)]


def is_rewritten(code: types.CodeType) -> bool:
    """Return whether code is rewritten, or a part of such code: it has hooks for all that it does."""
    return code in _with_hooks


_rewritten: dict[types.CodeType, Rewritten | None] = {}
_with_hooks: set[types.CodeType] = set()


#: Functions that see the variables of the function that calls them, hooks among them.
_SEES_LOCALS = {"locals", "eval", "exec"}


def _rewrite(definition: Definition, code: types.CodeType) -> Rewritten | None:
    node = copy.deepcopy(definition.node)
    rewriter = _Rewriter(definition.owner)
    rewriter.function(node)
    if _SEES_LOCALS & set(code.co_names):
        return None
    result = compiled(definition, code, node, (HOOKS, NAME))
    if result is None:
        return None
    _with_hooks.update(_all_of(result))
    return Rewritten(result, tuple(dict.fromkeys(rewriter.effects)))


def _all_of(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_of(constant)


class _Rewriter(ast.NodeTransformer):
    """Puts the hooks in; `scopes` are the names that the function and the scopes around a node bind."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.scopes: list[set[str]] = []
        self.effects: list[tuple[str, str, int]] = []

    def hook(self, name: str, *arguments: ast.expr) -> ast.Call:
        assert name in _ARGUMENTS, name
        hook: ast.expr = ast.Name(NAME if name == "name" else HOOKS, ast.Load())
        call = ast.Call(hook if name == "name" else ast.Attribute(hook, name, ast.Load()), list(arguments), [])
        return ast.copy_location(call, arguments[0]) if hasattr(arguments[0], "lineno") else call

    # --- scopes ------------------------------------------------------------------------------------------------------

    def function(self, node: Any) -> Any:
        """Rewrite a function in place, but for its decorators, defaults and annotations."""
        body = node.body if isinstance(node.body, list) else [node.body]
        bound = BoundNames.of(body)
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        self.scopes.append((bound.names | {a.arg for a in every if a is not None}) - bound.outside)
        for name, line in bound.declared:
            self.effects.append((name, "a variable of an outer scope is assigned", line))
        changed = [self.visit(part) for part in body]
        node.body = changed if isinstance(node.body, list) else changed[0]
        self.scopes.pop()
        return node

    def _inner(self, node: Any) -> Any:
        node.args.defaults = [self.visit(default) for default in node.args.defaults]
        node.args.kw_defaults = [default and self.visit(default) for default in node.args.kw_defaults]
        if not isinstance(node, ast.Lambda):
            node.decorator_list = [self.hook("call", self.visit(decorator)) for decorator in node.decorator_list]
        return self.function(node)

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _inner

    def _comprehension(self, node: Any) -> Any:
        bound = BoundNames.of([generator.target for generator in node.generators])
        first = node.generators[0]
        first.iter = self._iterated(first, self.visit(first.iter))
        self.scopes.append(bound.names)
        for generator in node.generators:
            if generator is not first:
                generator.iter = self._iterated(generator, self.visit(generator.iter))
            generator.target = self.visit(generator.target)
            generator.ifs = [self.hook("operand", self.visit(test)) for test in generator.ifs]
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        if isinstance(node, ast.SetComp):
            node.elt = self._hashed(node.elt)
        if isinstance(node, ast.DictComp):
            node.key = self._hashed(node.key)
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _iterated(self, loop: Any, values: ast.expr) -> ast.expr:
        """Hook what a loop goes through; asynchronous ones are left as they are."""
        if getattr(loop, "is_async", False):
            return values
        pattern = self._pattern(loop.target)
        return self.hook("iterate", values) if pattern is None else self.hook("unpack_each", values, pattern)

    def _pattern(self, target: ast.expr) -> ast.expr | None:
        """Return into what a target unpacks, None if it does not: the patterns of the targets in it, and which of them
        has a star."""
        if not isinstance(target, ast.Tuple | ast.List):
            return None
        star = None
        for place, part in enumerate(target.elts):
            if isinstance(part, ast.Starred):
                star = place
                if isinstance(part.value, ast.Tuple | ast.List):
                    self.effects.append(("a star", "what is after it is unpacked again", part.lineno))
        return ast.Tuple([self._patterns(target.elts), ast.Constant(star)], ast.Load())

    def _patterns(self, targets: list[ast.expr]) -> ast.expr:
        return ast.Tuple([self._pattern(target) or ast.Constant(None) for target in targets], ast.Load())

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        """Leave a class as it is, but for a decorator: its names follow rules of their own."""
        barrier = ast.copy_location(ast.Attribute(ast.Name(HOOKS, ast.Load()), "define", ast.Load()), node)
        node.decorator_list.insert(0, ast.copy_location(ast.Call(barrier, [], []), node))  # evaluated before all of it
        return self._with_effect(node)

    # --- expressions -------------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Hook the variables that the function does not bind itself."""
        if not isinstance(node.ctx, ast.Load) or any(node.id in scope for scope in self.scopes):
            return node
        return self.hook("name", node, ast.Constant(self.mangled(node.id)))

    def mangled(self, name: str) -> str:
        """Return the name as the compiler has it in the class around the function."""
        owner = (self.owner or "").lstrip("_")
        return f"_{owner}{name}" if owner and name.startswith("__") and not name.endswith("__") else name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Hook reads of attributes, and the objects of which one is assigned."""
        value = self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            return ast.copy_location(self.hook("attribute", value, ast.Constant(self.mangled(node.attr))), node)
        node.value = self.hook("target", value, ast.Constant(self.mangled(node.attr)))
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Hook reads of elements, and the objects of which one is assigned."""
        if isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape" \
                and _is_constant_integer(node.slice):
            return ast.copy_location(self.hook("axis_size", self.visit(node.value.value), node.slice), node)
        value, key = self.visit(node.value), self.visit(node.slice)
        if isinstance(node.ctx, ast.Load):
            return ast.copy_location(self.hook("item", value, _key(key, self)), node)
        node.value, node.slice = self.hook("target", value), _key(key, self)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Hook what is called, and what is unpacked as arguments."""
        if isinstance(node.func, ast.Attribute):
            name = ast.Constant(self.mangled(node.func.attr))
            node.func = ast.copy_location(self.hook("method", self.visit(node.func.value), name), node.func)
        elif not (isinstance(node.func, ast.Name) and node.func.id == "super"):
            node.func = self.hook("call", self.visit(node.func))
        node.args = [self.visit(argument) for argument in node.args]
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            keyword.value = self.hook("mapping", value) if keyword.arg is None else value
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        """Hook what is unpacked."""
        value = self.visit(node.value)
        node.value = self.hook("iterate", value) if isinstance(node.ctx, ast.Load) else value
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        """Hook keys, and what is unpacked into a dict."""
        node.values = [self.hook("mapping", self.visit(value)) if key is None else self.visit(value)
                       for key, value in zip(node.keys, node.values, strict=True)]
        node.keys = [key and self._hashed(self.visit(key)) for key in node.keys]
        return node

    def visit_Set(self, node: ast.Set) -> ast.AST:
        """Hook the elements, all at once: some of them may be unpacked."""
        if all(isinstance(element, ast.Constant) for element in node.elts):
            return node
        elements = ast.copy_location(ast.List([self.visit(element) for element in node.elts], ast.Load()), node)
        node.elts = [ast.copy_location(ast.Starred(self._hashed(elements), ast.Load()), node)]
        return node

    def _hashed(self, value: ast.expr) -> ast.expr:
        return value if isinstance(value, ast.Constant) else self.hook("hashed", value)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Hook operators."""
        name = ast.Constant(_OPERATORS[type(node.op)])
        return ast.copy_location(self.hook("binary", name, self.visit(node.left), self.visit(node.right)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Hook comparisons; the operands of one with several operators."""
        left, *others = [self.visit(operand) for operand in (node.left, *node.comparators)]
        if len(others) == 1:
            name = ast.Constant(_COMPARISONS[type(node.ops[0])])
            return ast.copy_location(self.hook("binary", name, left, others[0]), node)
        node.left, node.comparators = self.hook("operand", left), [self.hook("operand", other) for other in others]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Hook the operand."""
        operand = self.visit(node.operand)
        node.operand = operand if isinstance(operand, ast.Constant) else self.hook("operand", operand)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Hook the operands, whose truth values decide."""
        node.values = [self.hook("operand", self.visit(value)) for value in node.values]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Hook the condition."""
        node.test = self.hook("operand", self.visit(node.test))
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        """Hook what is formatted."""
        node.value = self.hook("shown", self.visit(node.value))
        node.format_spec = node.format_spec and self.visit(node.format_spec)
        return node

    # --- statements --------------------------------------------------------------------------------------------------

    def _condition(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = self.hook("operand", node.test)
        return node

    visit_If = visit_While = visit_Assert = _condition

    def visit_With(self, node: ast.With) -> ast.AST:
        """Hook what is entered."""
        self.generic_visit(node)
        for item in node.items:
            item.context_expr = self.hook("context", item.context_expr)
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        """Hook what is iterated over."""
        self.generic_visit(node)
        node.iter = self._iterated(node, node.iter)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """Hook what is unpacked, and turn an assignment to an attribute or element into a hook."""
        value, target = self.visit(node.value), node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Attribute | ast.Subscript):
            return self._stored(node, value, target)
        if len(node.targets) > 1 and any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            value = self.hook("assigned", value, self._patterns(node.targets))
            node.targets = [ast.copy_location(ast.Tuple(node.targets, ast.Store()), node)]
        elif (pattern := self._pattern(target)) is not None:
            value = self.hook("unpack", value, pattern)
        node.value, node.targets = value, [self.visit(target) for target in node.targets]
        return node

    def _stored(self, node: ast.stmt, value: ast.expr, target: ast.Attribute | ast.Subscript) -> ast.AST:
        owner = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            call = self.hook("set_attribute", value, owner, ast.Constant(self.mangled(target.attr)))
        else:
            call = self.hook("set_item", value, owner, _key(self.visit(target.slice), self))
        return ast.copy_location(ast.Expr(ast.copy_location(call, node)), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Drop the annotation, which a function does not evaluate for a variable."""
        if node.value is not None and isinstance(node.target, ast.Attribute | ast.Subscript):
            return self._stored(node, self.visit(node.value), node.target)
        node.value = node.value and self.visit(node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Turn ``x += y`` into a hook, which may change an object."""
        name, target = ast.Constant("i" + _OPERATORS[type(node.op)].rstrip("_")), node.target
        if isinstance(target, ast.Name):
            read = self.visit(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            change = ast.copy_location(self.hook("binary", name, read, self.visit(node.value)), node)
            return ast.copy_location(ast.Assign([target], change), node)
        owner = self.visit(target.value)
        if isinstance(target, ast.Attribute):
            place = self.hook("attribute_place", owner, ast.Constant(self.mangled(target.attr)))
        else:
            place = self.hook("item_place", owner, _key(self.visit(target.slice), self))
        change = self.hook("change", place, name, self.visit(node.value))
        return ast.copy_location(ast.Expr(ast.copy_location(change, node)), node)

    def _with_effect(self, node: Any) -> Any:
        self.effects.append((type(node).__name__.lower(), _EFFECTS[type(node)], node.lineno))
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Note statements with effects of their own."""
        if type(node) in _EFFECTS:
            self._with_effect(node)
        return super().generic_visit(node)

    def visit_Match(self, node: Any) -> Any:
        """Leave patterns as they are."""
        self._with_effect(node)
        node.subject = self.hook("operand", self.visit(node.subject))
        for case in node.cases:
            case.guard = case.guard and self.visit(case.guard)
            case.body = [self.visit(part) for part in case.body]
        return node


def _is_constant_integer(node: ast.expr) -> bool:
    """Return whether an expression is an integer as it stands in the text."""
    value = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(value, ast.Constant) and type(value.value) is int


def _key(key: ast.expr, rewriter: _Rewriter) -> ast.expr:
    """Return the key of a subscript as an expression: slices become calls."""
    if isinstance(key, ast.Slice):
        bounds = [bound or ast.Constant(None) for bound in (key.lower, key.upper, key.step)]
        return rewriter.hook("slice", *bounds)
    if isinstance(key, ast.Tuple):
        key.elts = [_key(part, rewriter) for part in key.elts]
    return key
