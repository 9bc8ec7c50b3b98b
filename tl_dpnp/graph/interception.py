"""The hooks of rewritten functions: dpnp's functions are recorded, functions of the user followed, arrays made lazy.

`Interceptor` is what a function runs with that is traced at each call.  `tl_dpnp.graph.observation` adds to it what the
first trace of a kind of call has to write down.
"""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable, Iterable
from itertools import chain, repeat
from typing import Any

import numpy as np

from tl_dpnp.graph.apart import Apart, is_followed_property, is_made_by_user
from tl_dpnp.graph.class_checks import checked_classes, found_in, is_decided_by_classes
from tl_dpnp.graph.function_wrapper import FunctionWrapper
from tl_dpnp.graph.held import references
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.namespace import RECORDED_OPERATORS, REFLECTED_OPERATORS, recorded_version
from tl_dpnp.graph.own_memory import in_memory
from tl_dpnp.graph.plain_hooks import OPERATORS, PlainHooks
from tl_dpnp.graph.purity import CHANGING_METHODS, OF_FRAMES, PURE_TYPES, is_pure_function, is_user_code
from tl_dpnp.graph.replacing import replacing
from tl_dpnp.graph.rewriting import HOOKS, NAME, hook_cells, rewritten
from tl_dpnp.graph.trace import Trace, this_thread
from tl_dpnp.graph.traced_scalars import OPERANDS, TRACED, TRACED_KINDS, plain
from tl_dpnp.runtime.array_package import bare_array, settles_in_place, xp

__all__ = ["Interceptor", "called_by", "called_method", "hashable", "makers", "stood_for"]

#: Standard modules that only rearrange what they are given: arrays among it stay lazy.
_REARRANGING = frozenset("dataclasses copy functools operator itertools collections typing enum".split())
_HIGHER_ORDER = (map, filter)
_SPREADING = (zip, enumerate)
_BUILTIN_KINDS = (
    types.BuiltinFunctionType, types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
#: Functions that go through the elements of an argument, and which it is.
_ITERATED: dict[Any, int] = {
    **dict.fromkeys((sum, any, all, sorted, min, max, math.prod, math.fsum), 0), functools.reduce: 1,
}
#: Functions that call an argument, and which it is; what `key` is, is called by all that have it.
_CALLING: dict[Any, int] = {functools.reduce: 0}
if hasattr(operator, "call"):  # from Python 3.11 on
    _CALLING[operator.call] = 0
#: The hook's names of operators that are called as functions.
_HOOKED = {getattr(operator, name): name for name in OPERATORS if hasattr(operator, name)}
#: Functions that find or change an object, and the methods that stand for them.
_OF_ATTRIBUTES: dict[Any, str] = {getattr: "_getattr", setattr: "_setattr", hasattr: "_hasattr", id: "_id"}
#: Functions of which hooks remember what is called in their place.
_MOST_COPIES = 256
#: Types of what holds no stand-ins, or is the caller's own where it is stored.
_HOLDS_NOTHING = frozenset((LazyArray, xp.ndarray, np.ndarray, bool, int, float, complex, str, bytes, type(None)))
#: Owners of methods in C that know nothing of arrays but their operators.
_OF_CONTAINERS = (list, dict, tuple, set)
_OF_DATA = (list, dict, tuple, set, str, bytes, int, float, complex)
_OF_REFERENCES = ("weakref", "_weakref")
#: Methods that compare the elements of a list.
_COMPARING = ("sort", "remove")
#: Types of whose objects Python finds all attributes by itself.
_OF_PYTHON = frozenset((types.ModuleType, str, list, dict, tuple, int, float, type(None), *TRACED))

#: An array of dpnp, for whoever asks for no more than its class, and what lazy arrays have that it has not.
_AN_ARRAY = bare_array
_OF_LAZY_ARRAYS = frozenset(dir(LazyArray)).difference(dir(_AN_ARRAY))

#: The types that stand-ins have for the user.
_STANDS_FOR: dict[type, type] = {
    LazyArray: xp.ndarray, **{traced: kind for kind, traced in TRACED_KINDS.items()},
}


class Interceptor(Apart):
    """The hooks of one trace, and then of another one."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._copies: dict[int, tuple[Any, Any, Callable[..., Any]]] = {}
        self._hooks, self._name = types.CellType(self), types.CellType(self.name)
        self._cells = {HOOKS: self._hooks, NAME: self._name}
        #: What the function has changed: where stand-ins that it has kept are looked for first.
        self.changed: list[Any] = []

    def hooks(self, function: types.FunctionType) -> dict[str, types.CellType]:
        """Return the cells that the code of a function finds the hooks in, by the names of its variables."""
        return self._cells

    def begin(self, trace: Trace) -> None:
        """Be the hooks of a trace from now on."""
        self.trace = trace
        if len(self._copies) > _MOST_COPIES:  # of functions that each call makes anew, with all that they hold
            self._copies.clear()
        self._hooks.cell_contents, self._name.cell_contents = self, self.name

    def end(self) -> None:
        """Let functions and generators that outlive the trace run as they are."""
        self.changed = []
        self._hooks.cell_contents, self._name.cell_contents = PlainHooks, PlainHooks.name

    def is_own(self, function: types.FunctionType) -> bool:
        """Return whether a function is a part of this package, or was defined by one that runs with these hooks."""
        cells = hook_cells(function)
        if cells:
            return any(map(self.is_own_cell, cells))
        return (function.__globals__.get("__name__") or "").startswith("tl_dpnp.")

    # --- what rewritten code reads -----------------------------------------------------------------------------------

    def name(self, value: Any, name: str) -> Any:
        """Return what stands for the value of a global or closure variable."""
        return self.trace.capture(value) if type(value) is xp.ndarray else value

    def attribute(self, owner: Any, name: str) -> Any:
        """Return what stands for an attribute."""
        if type(owner) is xp.ndarray:
            owner = self.trace.capture(owner)
        if type(owner) is LazyArray:
            bearing = _AN_ARRAY if name in _OF_LAZY_ARRAYS else self.bearing(owner, name)
            value = xp.ndarray if name == "__class__" else getattr(bearing, name)
        elif type(owner) in _OF_PYTHON:
            value = getattr(owner, name)
        else:
            found = found_in(owner if isinstance(owner, type) else type(owner), name)
            if type(found) is property and is_followed_property(type(owner), found) and not isinstance(owner, type):
                return self.call(found.fget)(owner)
            value = self.value_of(owner, name, found)
        return self.trace.capture(value) if type(value) is xp.ndarray else value

    def bearing(self, owner: Any, name: str) -> Any:
        """Return what has an attribute: those of arrays that dpnp knows nothing of belong to the caller's own."""
        return self.trace.known.original(owner) if type(owner) is LazyArray and not hasattr(LazyArray, name) else owner

    def method(self, owner: Any, name: str) -> Any:
        """Return what is called for an attribute."""
        is_direct = type(owner) is types.ModuleType  # most calls are of functions in modules
        return self.call(getattr(owner, name) if is_direct else self.attribute(owner, name))

    def item(self, owner: Any, key: Any) -> Any:
        """Return what stands for an element."""
        if type(owner) is xp.ndarray:
            owner = self.trace.capture(owner)
        value = self.item_of(owner, key)
        return self.trace.capture(value) if type(value) is xp.ndarray else value

    def axis_size(self, owner: Any, axis: int) -> Any:
        """Return the size of an axis; whoever looks at that of one may do without knowing those of others."""
        if type(owner) is xp.ndarray:
            owner = self.trace.capture(owner)
        return owner._axis_size(axis) if type(owner) is LazyArray else self.item(self.attribute(owner, "shape"), axis)

    def iterate(self, values: Any) -> Any:
        """Return what stands for something that is iterated over."""
        if type(values) is xp.ndarray:
            return self.trace.capture(values)
        return self._lazily(values) if type(values) in (list, tuple) else self.each_apart(values)

    def _lazily(self, values: Iterable[Any]) -> Any:
        for value in values:
            yield self.trace.capture(value) if type(value) is xp.ndarray else value

    def unpack(self, values: Any, pattern: Any) -> Any:
        """Return what stands for something that is unpacked, some of its elements again."""
        elements, kind = self.iterate(values), type(values)
        if not any(pattern[0]) or not (hasattr(kind, "__iter__") or hasattr(kind, "__getitem__")):
            return elements
        found = self._unpacked(elements, *pattern)
        # Where there are too many, Python says since 3.14 how many, of what knows its length.
        return list(found) if kind in (list, tuple, dict) else found

    def _unpacked(self, elements: Any, parts: tuple[Any, ...], star: int | None) -> Any:
        if star is not None:  # Python takes all of them, too
            elements = list(elements)
            parts = (*parts[:star], *[None] * (len(elements) - len(parts) + 1), *parts[star + 1 :])
        for element, pattern in zip(elements, chain(parts, repeat(None)), strict=False):
            yield element if pattern is None else self.unpack(element, pattern)

    def unpack_each(self, values: Any, pattern: Any) -> Any:
        """Return what stands for something that is iterated over, each element of which is unpacked."""
        return map(functools.partial(self.unpack, pattern=pattern), iter(self.iterate(values)))

    def assigned(self, value: Any, patterns: tuple[Any, ...]) -> list[Any]:
        """Return what is assigned to each of several targets."""
        return [value if pattern is None else self.unpack(value, pattern) for pattern in patterns]

    def mapping(self, values: Any) -> Any:
        """Return what stands for a dict of keyword arguments."""
        if type(values) is not dict:
            self.expect(values)
        return values

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        """Return the slice of its bounds, which are plain numbers."""
        return slice(plain(start), plain(stop), plain(step))

    def binary(self, name: str, one: Any, other: Any) -> Any:
        """Return the result of an operator."""
        if type(one) is LazyArray or (type(one) is float and type(other) is LazyArray):
            recorded = (RECORDED_OPERATORS if type(one) is LazyArray else REFLECTED_OPERATORS).get(name)
            if recorded is not None and this_thread.trace is self.trace:
                known = self.trace.repeat(recorded, (one, other))
                if known is not None:
                    return known
        if name in ("is_", "is_not"):
            return OPERATORS[name](self._itself(one), self._itself(other))
        if type(one) is xp.ndarray:
            one = self.trace.capture(one)
        if type(other) is xp.ndarray:
            other = self.trace.capture(other)
        operation = OPERATORS[name]
        if self.compares_arrays(operation, (one, other)):
            return self.with_arrays_compared(operation, (one, other))
        return self.doing(operation, (one, other))(one, other)

    def _itself(self, value: Any) -> Any:
        """Return the object whose identity a value has."""
        if type(value) in TRACED:
            return value.tape.values[value.position]
        return self.trace.known.original(value) if type(value) is LazyArray else value

    def operand(self, value: Any) -> Any:
        """Return what stands for an operand whose truth value, text or sign is asked for."""
        self.expect(value)
        return self.trace.capture(value) if type(value) is xp.ndarray else value

    def shown(self, value: Any) -> Any:
        """Return what stands for a value whose text is asked for."""
        self.expect(value, within=True)
        return self.operand(value)

    def hashed(self, value: Any) -> Any:
        """Return what stands for a key of a dict, or a list of the elements of a set."""
        self.expect(value, within=True)
        return value

    # --- what it changes ---------------------------------------------------------------------------------------------

    def target(self, owner: Any, name: str | None = None) -> Any:
        """Return what stands for an object of which Python changes an attribute or element by itself."""
        self.expect(owner)
        owner = self.changing(owner)
        return owner if name is None else self.bearing(owner, name)

    def changing(self, owner: Any) -> Any:
        """Return what stands for an object that is changed."""
        return self.trace.capture(owner) if type(owner) is xp.ndarray else owner

    def _changes(self, owner: Any, values: Iterable[Any]) -> None:
        """Remember what is changed so that it may hold stand-ins: not by arrays alone, the caller's own or new ones."""
        if type(owner) is not LazyArray and any(type(value) not in _HOLDS_NOTHING for value in values):
            self.changed.append(owner)

    def let_go(self) -> None:
        """Forget what nobody else holds: the lazy arrays in it would count as results."""
        count = -1 if self.changed else 0
        while count != len(self.changed):
            count = len(self.changed)
            self.changed = list({id(owner): owner for owner in self.changed}.values())
            held = references(self.changed)
            self.changed = [owner for owner, number in zip(self.changed, held, strict=True) if number > 0]

    def set_attribute(self, value: Any, owner: Any, name: str) -> None:
        """Assign to an attribute."""
        self._changes(owner, (value,))
        value = self.trace.known.original(value) if type(value) is LazyArray else value
        self.assign_attribute(self.bearing(self.changing(owner), name), name, value)

    def set_item(self, value: Any, owner: Any, key: Any) -> None:
        """Assign to an element."""
        self._changes(owner, (value,))
        owner = self.changing(owner)
        if type(value) is LazyArray and type(owner) is not LazyArray:
            value = self.trace.known.original(value)
        self.assign_item(owner, key, value)

    def attribute_place(self, owner: Any, name: str) -> Any:
        """Return an attribute that is changed by an operator: how it is assigned, and its value."""
        return self.set_attribute, owner, name, self.attribute(owner, name)

    def item_place(self, owner: Any, key: Any) -> Any:
        """Return an element that is changed by an operator: how it is assigned, and its value."""
        return self.set_item, owner, key, self.item(owner, key)

    def change(self, place: Any, name: str, value: Any) -> None:
        """Change an attribute or element by an operator."""
        assign, owner, key, old = place
        assign(self.binary(name, old, value), owner, key)

    # --- what it calls -----------------------------------------------------------------------------------------------

    def call(self, function: Any) -> Any:
        """Return what is called in the place of `function`."""
        kind = type(function)
        if kind is types.MethodType:
            return self._method(function)
        if kind is not types.FunctionType and kind is not types.BuiltinFunctionType:
            return recorded_version(function) or self._resolved(function, kind)
        known = self._copies.get(id(function))
        if known is not None:
            if kind is not types.FunctionType:
                return known[2]
            code, defaults, named = known[1]
            if code is function.__code__ and defaults is function.__defaults__ and named is function.__kwdefaults__:
                return known[2]
        if function in OF_FRAMES:
            return self.barrier(function)
        result = recorded_version(function) or self._resolved(function, kind)
        if result is not function and self.is_lasting(function, kind):
            self._copies[id(function)] = function, _parts(function), result
        return result

    def is_lasting(self, function: Any, kind: type) -> bool:
        """Return whether what is called in the place of a function is the same for the next call of it."""
        return kind is types.FunctionType or (
            kind is types.BuiltinFunctionType and type(function.__self__) is types.ModuleType)

    def _resolved(self, function: Any, kind: type) -> Any:
        if getattr(function, "__module__", None) in _OF_REFERENCES:
            return functools.partial(self._referring, self.foreign(function))
        if kind is types.FunctionType and self.is_own(function):
            return function
        if kind is types.FunctionType:
            return self._followed(function)
        if issubclass(kind, FunctionWrapper):
            return self.call(function.function)
        if kind is functools.partial:
            return functools.partial(self.call(function.func), *function.args, **function.keywords)
        if isinstance(function, type):
            return self.constructor(function)
        if isinstance(function, _BUILTIN_KINDS):
            return self.builtin(function)
        if kind is np.ufunc and "O" not in "".join(function.types[:1]):  # those of `frompyfunc` run any code
            return functools.partial(self._computed, function)
        method = called_method(kind)
        if isinstance(method, types.FunctionType | FunctionWrapper):
            return types.MethodType(self.call(method), function)
        return self.foreign(function)

    def _method(self, function: types.MethodType) -> Callable[..., Any]:
        owner = function.__self__
        if type(owner) is LazyArray:
            return function
        if type(owner) is xp.ndarray:
            method: Callable[..., Any] = getattr(self.trace.capture(owner), function.__func__.__name__)
            return method
        return types.MethodType(self.call(function.__func__), owner)

    def _followed(self, function: types.FunctionType) -> Callable[..., Any]:
        replaces = replacing(function)
        if replaces is not None:
            return functools.partial(replaces, self)
        code = rewritten(function) if is_user_code(function) and not hook_cells(function) else None
        if code is None:
            return self.foreign(function)
        return code.bind(function, self.hooks(function))

    def constructor(self, kind: Any) -> Any:
        """Return what makes an object of a class."""
        if kind is type:
            return _type_of
        if kind in (float, complex):
            return functools.partial(self._number, kind)
        if kind in _HIGHER_ORDER:
            return lambda function, *values: kind(
                None if function is None else self.call(function), *map(self.iterate, values))
        if kind in _SPREADING:
            return lambda *values, **keywords: kind(*map(self.iterate, values), **keywords)
        if kind in PURE_TYPES:
            return functools.partial(self.apart, kind)
        if not issubclass(kind, BaseException | np.generic) and type(kind) is type:
            new, initialize = makers(kind)
            if new is object.__new__ and isinstance(initialize, types.FunctionType) and is_user_code(initialize) \
                    and rewritten(initialize) is not None:
                return functools.partial(self._made, kind, initialize)
        return self.maker(kind)

    def maker(self, kind: Any) -> Any:
        """Return what makes an object of a class whose ``__init__`` is not followed."""
        if kind.__module__ == "itertools":
            return functools.partial(self._of_itertools, kind)
        return functools.partial(self.done_apart, kind) if is_made_by_user(kind) else kind

    def _of_itertools(self, kind: type, /, *values: Any, **keywords: Any) -> Any:
        """Make an iterator of Python's, which calls functions and goes through iterables later."""
        def given(value: Any) -> Any:
            return self.call(value) if callable(value) else self.each_apart(value)

        return kind(*map(given, values), **{name: given(value) for name, value in keywords.items()})

    def _made(self, kind: type, initialize: Any, /, *arguments: Any, **keywords: Any) -> Any:
        made: Any = object.__new__(kind)
        self.call(initialize)(made, *arguments, **keywords)
        return made

    def _number(self, kind: type, *values: Any, **keywords: Any) -> Any:
        if len(values) == 1 and type(values[0]) is TRACED_KINDS[kind]:
            return values[0]
        if any(type(value) in TRACED for value in values) and OPERANDS.issuperset(map(type, values)) and not keywords:
            return self.trace.tape.derived(kind, values)
        return kind(*map(self.trace.tape.fix, values), **keywords)

    def builtin(self, function: Any) -> Any:
        """Return what is called for a function written in C."""
        if hashable(function):
            if function in _OF_ATTRIBUTES:
                return getattr(self, _OF_ATTRIBUTES[function])
            if function in _HOOKED:
                return functools.partial(self.binary, _HOOKED[function])
        if function is operator.getitem:
            return self.item
        if function is operator.contains:
            return lambda container, value: self.binary("in", value, container)
        owner = getattr(function, "__self__", None)
        if isinstance(owner, list | dict | set) and function.__name__ in CHANGING_METHODS:
            return functools.partial(self._stored, function)
        if is_pure_function(function) or isinstance(owner, _OF_DATA):
            return functools.partial(self._computed, function)
        return self.foreign(function)

    def _computed(self, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        """Call a function that knows nothing of arrays but their operators."""
        if function in (min, max) and len(arguments) > 1:
            if any(isinstance(value, list | tuple | dict) for value in arguments):
                return self.foreign(function)(*arguments, **keywords)  # it gives one of them back
            place = None
        else:
            place = _ITERATED.get(function) if hashable(function) else None
        if self.compares_arrays(function, arguments):
            return self.with_arrays_compared(function, arguments)
        called = called_by(function)
        gives_back = function is functools.reduce or isinstance(getattr(function, "__self__", None), _OF_CONTAINERS)
        values = [
            self._iterated(value) if number == place
            else self.call(value) if number == called
            else value if gives_back and type(value) in _OF_CONTAINERS
            else self._passed(value)
            for number, value in enumerate(arguments)
        ]
        asked = arguments[1:] if function in (isinstance, issubclass) else arguments
        if function is isinstance and len(values) == 2:
            values[0] = self.of_its_class(*values)
        return self.doing(function, asked)(*values, **self._named(keywords))

    def of_its_class(self, value: Any, kinds: Any) -> Any:
        """Return what is asked whether it is an instance: of arrays, one of dpnp's, unless code of the user decides."""
        is_lazy = type(value) is LazyArray and all(
            is_decided_by_classes(xp.ndarray, kind) for kind in checked_classes(kinds))
        return _AN_ARRAY if is_lazy else value

    def _named(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """Return what a function written in C is given by name."""
        return {
            name: self.call(value) if name == "key" and value is not None
            else value if name == "default" and type(value) in _OF_CONTAINERS else self._passed(value)
            for name, value in keywords.items()
        }

    def _iterated(self, value: Any) -> Any:
        """Return what stands for a container whose elements a function goes through."""
        return self._lazily(value) if type(value) in (list, tuple) else self._passed(value)

    def _stored(self, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        """Call a method that changes a container, which gets the caller's own arrays."""
        owner, method = getattr(function, "__self__", arguments[0] if arguments else None), function.__name__
        self._changes(owner, arguments)
        asked = () if method in ("append", "insert") else (owner, *arguments) if method in _COMPARING else arguments
        do = self.doing(function, asked)
        if method == "sort":
            return do(*arguments, **self._named(keywords))
        return do(*map(self._real, arguments), **{name: self._real(value) for name, value in keywords.items()})

    def _real(self, value: Any) -> Any:
        """Return the caller's own array for what stands for it, and a list with those for what it has of them."""
        if type(value) is LazyArray:
            return self.trace.known.original(value)
        lists = [value] if type(value) is list else []
        for held in lists:  # which grows meanwhile
            for place, part in enumerate(held):
                if type(part) is LazyArray:
                    held[place] = self.trace.known.original(part)
                elif type(part) is list and not any(part is other for other in lists):
                    lists.append(part)
        return value

    def _passed(self, value: Any) -> Any:
        if type(value) is xp.ndarray:
            return self.trace.capture(value)
        if type(value) in (list, tuple) and any(type(part) is xp.ndarray for part in value):
            return type(value)([self.trace.capture(v) if type(v) is xp.ndarray else v for v in value])
        return value

    def _getattr(self, owner: Any, name: str, *default: Any) -> Any:
        try:
            return self.attribute(owner, name)
        except AttributeError:
            if default:
                return default[0]
            raise

    def _hasattr(self, owner: Any, name: str) -> bool:
        nothing = object()
        return self._getattr(owner, name, nothing) is not nothing

    def _id(self, value: Any) -> int:
        return id(self._itself(value))

    def _setattr(self, owner: Any, name: str, value: Any) -> None:
        self.set_attribute(value, owner, name)

    def _referring(self, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        """Call a function of weak references, which are to the caller's own arrays and not to what stands for them."""
        return function(*map(self._real, arguments), **{name: self._real(value) for name, value in keywords.items()})

    def barrier(self, function: Any) -> Any:
        """Return a function that has to be called by the user's code itself; all is in memory before."""
        with self.trace.outside():
            return function

    def foreign(self, function: Any) -> Callable[..., Any]:
        """Return what is called for code that is not followed: it may read and change every array."""
        rearranges = (getattr(function, "__module__", None) or "").partition(".")[0] in _REARRANGING
        is_user = isinstance(function, types.FunctionType) and is_user_code(function)
        return functools.partial(self._foreign, function, rearranges, is_user)

    def _foreign(self, function: Any, rearranges: bool, is_user: bool, /, *arguments: Any, **keywords: Any) -> Any:
        if not (is_user or rearranges or settles_in_place):  # code in C may look for arrays that are in memory
            given = [in_memory(self.trace, argument) for argument in arguments]
            return self.done_apart(function, *given, **in_memory(self.trace, keywords))
        values = [*arguments, *keywords.values()]
        if is_user or (self.is_copied_apart if rearranges else self.is_called_apart)(function, values):
            return self.done_apart(function, *arguments, **keywords)
        return function(*arguments, **keywords)

    def take_in(self, value: Any) -> None:
        """Take in what a function of dpnp is given; there is nothing to do where nothing is observed."""

    def captured(self, array: Any) -> Any:
        """Return the lazy array for one that was met in some other way than as an argument."""
        return self.trace.argument(array)


def _parts(function: Any) -> tuple[Any, ...]:
    """Return what of a function may be exchanged: all of it but its variables, and nothing of one written in C."""
    return () if type(function) is types.BuiltinFunctionType else (
        function.__code__, function.__defaults__, function.__kwdefaults__)


def _type_of(*arguments: Any) -> Any:
    if len(arguments) == 1:
        return stood_for(type(arguments[0]))
    return type(*arguments)


def stood_for(kind: type) -> type:
    """Return the type that a value of a type has for the user."""
    return _STANDS_FOR.get(kind, kind)


def makers(kind: Any) -> tuple[Any, Any]:
    """Return what makes an object of a class, and what fills it."""
    return kind.__new__, kind.__init__


def called_method(kind: type) -> Any:
    """Return what runs when an object of a class is called, None if it cannot be."""
    return found_in(kind, "__call__")


def called_by(function: Any) -> int | None:
    """Return which of its arguments a function written in C calls, None if it calls none."""
    return _CALLING.get(function) if hashable(function) else None


def hashable(value: Any) -> bool:
    """Return whether a value has a hash."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
