"""The source of a function as a syntax tree, known to be what the function's code was compiled from.

A tree is found by file, line and name, compiled again, and compared with the code of the function: source that has been
edited since, or code that was changed after it was compiled, has no definition here.
"""

from __future__ import annotations

import ast
import copy
import linecache
import sys
import types
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from tl_dpnp.records import dataclass

__all__ = ["Definition", "compiled", "definition_of"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Definition:
    """The syntax tree of a function, its qualified name, the class whose name mangles private names in it, and what its
    module imports."""

    node: FunctionNode
    qualified: str
    owner: str | None
    imported: tuple[str, ...]


def definition_of(function: types.FunctionType) -> Definition | None:
    """Return the definition of a function, or None where no source gives its code."""
    code = function.__code__
    if code not in _definitions:
        _definitions[code] = _found(function)
    return _definitions[code]


_definitions: dict[types.CodeType, Definition | None] = {}
_trees: dict[str, tuple[str, list[Definition]]] = {}


def _found(function: types.FunctionType) -> Definition | None:
    code = function.__code__
    for definition in _candidates(function):
        if _first_line(definition.node) != code.co_firstlineno or _name_of(definition.node) != code.co_name:
            continue
        try:
            again = compiled(definition, code, definition.node, ())
        except (SyntaxError, ValueError, RecursionError):
            continue
        if again is not None and _same(again, code):
            return definition
    return None


def _candidates(function: types.FunctionType) -> Iterator[Definition]:
    """Yield definitions among which that of a function may be."""
    file = function.__code__.co_filename
    text = "".join(linecache.getlines(file, function.__globals__))
    if not text and file == "<string>":
        text = _command()
    yield from _functions_in(file, text)
    if file == "<stdin>":
        for typed in _typed():
            yield from _functions_in(typed, typed)


def _typed() -> Iterator[str]:
    """Yield what may be the last statements that were typed at the prompt, the last one first."""
    readline = sys.modules.get("readline")
    if readline is None:
        return
    count = readline.get_current_history_length()
    lines = [readline.get_history_item(number) or "" for number in range(max(1, count - _TYPED), count + 1)]
    for start in range(len(lines) - 1, -1, -1):
        if lines[start][:1] in ("", *_INSIDE):
            continue
        first = next((n for n in range(start, len(lines)) if not lines[n].startswith("@")), start)
        ends = (n for n in range(first + 1, len(lines)) if lines[n][:1] not in ("", *_INSIDE))
        yield "\n".join(lines[start : next(ends, len(lines))])


_TYPED = 300  # lines of the history that are looked at
_INSIDE = (" ", "\t", "#", ")", "]", "}")  # how lines inside of a statement begin


def _command() -> str:
    """Return the program of ``python -c``."""
    words = getattr(sys, "orig_argv", [])
    return words[words.index("-c") + 1] if "-c" in words[:-1] else ""


def _functions_in(file: str, text: str) -> list[Definition]:
    known = _trees.get(file)
    if known is not None and known[0] == text:
        return known[1]
    try:
        tree = _parsed(text)
        imported = tuple(dict.fromkeys(_imports(tree)))
        found = [Definition(*parts, imported) for parts in _walk([tree], "", None)]
    except (SyntaxError, ValueError, RecursionError, SystemError):
        found = []
    _trees[file] = text, found
    return found


def _parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module.

    CPython keeps the depth of the tree that it is making in one place for all threads (github.com/python/cpython,
    issue 106905).  Where the garbage collector runs Python code meanwhile, as it may before 3.12, and that parses or
    switches to a thread that does, it loses count and raises one of two errors for text that is right: it is tried
    again then.
    """
    for _ in range(_ATTEMPTS - 1):
        with suppress(RecursionError, SystemError):
            return ast.parse(text)
    return ast.parse(text)


_ATTEMPTS = 10


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the names that a module imports outside of functions: calls of their attributes have code of their own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in child.names if alias.name != "*")
        elif not isinstance(child, FunctionNode | ast.ClassDef):
            yield from _imports(child)


def _walk(nodes: Iterable[ast.AST], path: str, owner: str | None) -> Iterator[tuple[FunctionNode, str, str | None]]:
    """Yield functions with their qualified names and their classes.

    What is evaluated where a function or class is defined stands outside of it: before Python 3.11 the code of a
    function has the qualified names of those inside among its constants.
    """
    for node in nodes:
        if not isinstance(node, (FunctionNode, ast.ClassDef)):
            yield from _walk(ast.iter_child_nodes(node), path, owner)
            continue
        body = node.body if isinstance(node.body, list) else [node.body]
        inside = set(body)
        outside = [part for part in ast.iter_child_nodes(node) if part not in inside]
        if isinstance(node, ast.ClassDef):
            yield from _walk(outside, path, owner)
            yield from _walk(body, f"{path}{node.name}.", node.name)
        else:
            qualified = path + _name_of(node)
            yield node, qualified, owner
            yield from _walk(outside, path, owner)
            yield from _walk(body, qualified + _LOCALS, owner)


def _first_line(node: FunctionNode) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _name_of(node: FunctionNode) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def compiled(
    definition: Definition, original: types.CodeType, node: FunctionNode, more: tuple[str, ...]
) -> types.CodeType | None:
    """Return the code of `node` in the place of a definition; `more` are free variables beside those of `original`.

    `node` is not changed; what is evaluated where a function is defined (decorators, defaults, annotations) is no part
    of its code and left out.
    """
    node = copy.copy(node)
    node.args = _without_values(node.args)
    inner: ast.stmt
    if isinstance(node, ast.Lambda):
        inner = ast.Expr(node)
    else:
        node.name, node.decorator_list, node.returns = _NEUTRAL, [], None  # its own name may be a global variable
        inner = node
    names = [*original.co_freevars, *more]
    outer = ast.FunctionDef(
        name="outer", body=[inner], decorator_list=[], returns=None,
        args=ast.arguments(posonlyargs=[], args=[ast.arg(name) for name in names], vararg=None, kwonlyargs=[],
                           kw_defaults=[], kwarg=None, defaults=[]),
    )
    body: ast.stmt = outer
    if definition.owner is not None:
        body = ast.ClassDef(name=definition.owner, bases=[], keywords=[], body=[outer], decorator_list=[])
    imports: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in definition.imported]
    module = ast.fix_missing_locations(ast.Module(body=[*imports, body], type_ignores=[]))
    flags = original.co_flags & _FUTURES
    code: types.CodeType | None = compile(module, original.co_filename, "exec", flags, dont_inherit=True)
    around = [] if definition.owner is None else [definition.owner]
    for name in [*around, "outer", _name_of(node)]:
        code = _constant_code(code, name)
    if code is None:
        return None
    return _qualified(code.replace(co_name=original.co_name),
                      ".".join([*around, f"outer{_LOCALS}{_name_of(node)}"]), definition.qualified)


def _qualified(code: types.CodeType, made: str, name: str) -> types.CodeType:
    """Return code whose function is called `name` where it was compiled as `made`, and functions in it accordingly.

    Qualified names are constants of the code around a function, and since Python 3.11 a field of its own.
    """
    def renamed(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return _qualified(constant, made, name)
        inside = isinstance(constant, str) and constant.startswith(made + _LOCALS)
        return name + constant[len(made):] if inside else constant

    code = code.replace(co_consts=tuple(map(renamed, code.co_consts)))
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name + code.co_qualname.removeprefix(made))
    return code


_LOCALS = ".<locals>."
_NEUTRAL = "__tl_dpnp_function__"
_NESTED = 0x10  # the function stands in another one
_METHOD = 0x8000000  # it stands in a class (since Python 3.14)
_FUTURES = 0x1FE0000  # the flags of ``from __future__`` in the flags of a code object


def _without_values(arguments: ast.arguments) -> ast.arguments:
    def bare(argument: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(argument.arg), argument)

    nothing = ast.Constant(None)
    return ast.arguments(
        posonlyargs=[bare(a) for a in arguments.posonlyargs], args=[bare(a) for a in arguments.args],
        vararg=arguments.vararg and bare(arguments.vararg), kwonlyargs=[bare(a) for a in arguments.kwonlyargs],
        kw_defaults=[default and nothing for default in arguments.kw_defaults],
        kwarg=arguments.kwarg and bare(arguments.kwarg), defaults=[nothing for _ in arguments.defaults],
    )


def _constant_code(code: types.CodeType | None, name: str) -> types.CodeType | None:
    constants = [] if code is None else code.co_consts
    return next((c for c in constants if isinstance(c, types.CodeType) and c.co_name == name), None)


_PARTS = (
    "co_code co_names co_varnames co_freevars co_cellvars co_argcount co_posonlyargcount co_kwonlyargcount"
).split()
if sys.version_info >= (3, 11):
    _PARTS.append("co_exceptiontable")


def _same(one: types.CodeType, other: types.CodeType) -> bool:
    """Return whether two code objects do the same."""
    if any(getattr(one, part) != getattr(other, part) for part in _PARTS):
        return False
    if (one.co_flags ^ other.co_flags) & ~(_NESTED | _METHOD):
        return False
    if len(one.co_consts) != len(other.co_consts):
        return False
    for a, b in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(a, types.CodeType) and isinstance(b, types.CodeType):
            if not _same(a, b):
                return False
        elif type(a) is not type(b) or repr(a) != repr(b):
            return False
    return True
