"""What a function reads besides its arguments: globals, closure variables, attributes of objects.

A specialisation holds only as long as these are the same, so they are part of its key; arrays among them are inputs as
the arguments are.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import dpnp

__all__ = ["Environment", "SideEffect", "scan"]

_BUILTINS = frozenset("print input open exec eval setattr delattr globals locals next id".split())
#: Modules whose functions give something else at each call.
_UNSTEADY = frozenset(("random", "time", "os", "sys", "secrets", "uuid", "datetime", "numpy.random"))
_STORES = {
    "STORE_GLOBAL": "a global variable is assigned", "DELETE_GLOBAL": "a global variable is deleted",
    "STORE_ATTR": "an attribute is assigned", "DELETE_ATTR": "an attribute is deleted",
}


@dataclass(frozen=True)
class SideEffect:
    """Something at a line of the function that has to happen at each call."""

    what: str
    reason: str
    file: str
    line: int


@dataclass
class Environment:
    """The variables that a function reads: `names` are (get, name), `attributes` what it asks objects for.

    `stores` are the lines where elements of something are assigned; `shared` says whether it assigns global variables.
    """

    names: list[tuple[Callable[[], Any], str]] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    effects: list[SideEffect] = field(default_factory=list)
    stores: set[tuple[str, int]] = field(default_factory=set)
    assigned_globals: set[str] = field(default_factory=set)


def scan(function: types.FunctionType) -> Environment:
    """Return what a function, and the plain Python functions that it names, read and change."""
    environment = Environment()
    _scan_function(function, environment, set(), 0)
    return environment


def _scan_function(
    function: types.FunctionType, environment: Environment, seen: set[types.CodeType], depth: int
) -> None:
    if function.__code__ in seen or depth > 8:
        return
    for code in _codes(function.__code__):
        seen.add(code)
        environment.attributes.update(code.co_names)
        _scan_effects(code, function, environment)
    for get, name in _variables(function):
        value = get()
        if isinstance(value, types.FunctionType) and value.__module__ and not value.__module__.startswith(
            ("dpnp", "numpy", "tl_dpnp.graph")
        ):
            _scan_function(value, environment, seen, depth + 1)
        if isinstance(value, types.ModuleType):
            _scan_module(value, environment)
        environment.names.append((get, name))


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _variables(function: types.FunctionType) -> Iterator[tuple[Callable[[], Any], str]]:
    """Yield a getter for each global and closure variable that the function names and that has a value."""
    variables = function.__globals__
    for name in sorted({name for code in _codes(function.__code__) for name in code.co_names}):
        if name in variables:
            yield functools.partial(variables.get, name), name
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield functools.partial(_contents, cell), name


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _scan_module(module: types.ModuleType, environment: Environment) -> None:
    """Take in the numbers and arrays of a module that the function may name."""
    if module.__name__.split(".")[0] in ("dpnp", "numpy", "math", "tl_dpnp", "dpctl"):
        return
    for name in sorted(environment.attributes & set(vars(module))):
        value = vars(module)[name]
        if isinstance(value, bool | int | float | str | dpnp.ndarray):
            environment.names.append((functools.partial(vars(module).get, name), f"{module.__name__}.{name}"))


def _scan_effects(code: types.CodeType, function: types.FunctionType, environment: Environment) -> None:
    line = code.co_firstlineno
    own = set(code.co_varnames) | set(code.co_cellvars)
    for instruction in dis.get_instructions(code):
        if instruction.starts_line is not None:
            line = instruction.starts_line
        place = code.co_filename, line
        name = instruction.argval
        if instruction.opname in _STORES:
            environment.effects.append(SideEffect(str(name), _STORES[instruction.opname], *place))
            if instruction.opname == "STORE_GLOBAL":
                environment.assigned_globals.add(name)
        elif instruction.opname == "STORE_DEREF" and name not in own:
            environment.effects.append(SideEffect(name, "a variable of an outer function is assigned", *place))
        elif instruction.opname in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            environment.stores.add(place)
        elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = function.__globals__.get(name, getattr(builtins, name, None))
            if name in _BUILTINS and value is getattr(builtins, name):
                environment.effects.append(SideEffect(name, "it has to happen at each call", *place))
            elif isinstance(value, types.ModuleType) and value.__name__ in _UNSTEADY:
                environment.effects.append(SideEffect(name, "it may give something else at each call", *place))
