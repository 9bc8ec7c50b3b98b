"""Code that is not followed, where Python runs it by itself: it is kept apart from what is recorded.

Operators, truth values, texts, attributes, elements, iterators and contexts of the user's objects are methods that run
as they are, without hooks, and may read and change any array.  So all that was recorded is computed before they run,
and what they record is computed at once.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import gc
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.class_checks import found_in, has_items_of_the_user, runs_user_code
from tl_dpnp.graph.function_wrapper import FunctionWrapper
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.plain_hooks import OPERATORS
from tl_dpnp.graph.purity import is_user_class, is_user_code, is_user_module
from tl_dpnp.graph.rewriting import HOOKS, NAME, is_rewritten
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import OPERANDS, plain
from tl_dpnp.runtime.array_package import xp

__all__ = [
    "Apart", "assigns_by_python", "is_followed_property", "is_found_by_python", "is_made_by_user",
]

#: Types of what runs no code of the user, whatever Python does with it.
_QUIET = OPERANDS | frozenset((
    LazyArray, xp.ndarray, np.ndarray, str, bytes, type(None), type(Ellipsis), range, type, types.FunctionType,
    types.BuiltinFunctionType, types.MethodType, types.ModuleType, np.dtype,
))
#: Where the code of methods is from that data classes write.
_GENERATED = "<string>"
#: Types whose elements Python finds by itself.
_WITH_ITEMS = frozenset((LazyArray, list, tuple, dict))
_HOLDERS = (list, tuple, set, frozenset, dict, collections.deque)
_CONTAINERS = _QUIET.union(_HOLDERS)
_NONE: dict[Any, Any] = {}
_VIEWS = (type(_NONE.values()), type(_NONE.items()))
_COMPARED = frozenset((list, tuple, dict))
#: What compares what is in containers: operators, and methods of lists and tuples.
_COMPARING = frozenset((
    *map(OPERATORS.__getitem__, "eq ne lt le gt ge in not_in".split()), operator.indexOf, operator.countOf,
))
_CONTAINING = OPERATORS["in"], OPERATORS["not_in"]
_FINDING = ("index", "count", "__contains__", "__eq__", "__ne__")
#: How deep containers are looked into; those in themselves have no end.
_DEPTH = 8
#: What asks nothing of the elements of containers, but takes them at most.
_OF_CONTAINERS = frozenset((
    list, tuple, reversed, len, bool, callable, operator.add, operator.mul, operator.iadd, operator.imul,
    operator.concat,
))
_OPERATORS = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift".split()
#: Special methods that Python runs by itself, but for those that make objects and let them go.
_SPECIAL = frozenset((
    *(f"__{how}{name}__" for name in _OPERATORS for how in ("", "r", "i")),
    *(f"__{name}__" for name in (
        "lt le eq ne gt ge hash bool len length_hint getitem setitem delitem missing iter next reversed contains neg "
        "pos abs invert int float complex index round trunc floor ceil str repr bytes format fspath enter exit getattr "
        "getattribute setattr delattr dir instancecheck subclasscheck get set delete copy deepcopy reduce reduce_ex "
        "getstate setstate array array_function array_ufunc array_interface dlpack sycl_usm_array_interface").split()),
))
#: What Python does for attributes where classes say nothing else.
_LOOKUP: Any = object.__getattribute__
_ASSIGN: Any = object.__setattr__
_COPIED = frozenset("__copy__ __deepcopy__ __reduce__ __reduce_ex__ __getstate__ __setstate__".split())
#: What Python has in classes for methods written in C.
_OF_C = (types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
         types.BuiltinFunctionType, types.GetSetDescriptorType, types.MemberDescriptorType)
_DEEP_COPIES = (copy.deepcopy, dataclasses.asdict, dataclasses.astuple)
#: What is found in classes by Python itself.
_FOUND = (types.FunctionType, classmethod, staticmethod, type, FunctionWrapper, *_OF_C)
_DATA = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, type, range)
#: Modules, beside those that are trusted, whose objects do nothing with arrays and wake up nobody who might.
_INERT = frozenset(("random", "_random", "_io"))


class Apart:
    """The hooks' way of doing what may run code that is not followed."""

    trace: Trace
    _hooks: types.CellType
    _name: types.CellType

    def apart(self, function: Callable[..., Any], /, *values: Any, **keywords: Any) -> Any:
        """Do something of Python's with some values."""
        return self.doing(function, (*values, *keywords.values()))(*values, **keywords)

    def doing(self, function: Callable[..., Any], values: Sequence[Any]) -> Callable[..., Any]:
        """Return something of Python's, done apart if it may run code of the user when it is given some values."""
        is_of_containers = function in _OF_CONTAINERS
        if (_CONTAINERS if is_of_containers else _QUIET).issuperset(map(type, values)):
            return function
        depth = 0 if is_of_containers else _DEPTH
        if all(self.is_quiet(value, depth) for value in values):
            return function
        return functools.partial(self.done_apart, function)

    def done_apart(self, function: Callable[..., Any], /, *values: Any, **keywords: Any) -> Any:
        """Do something that may run code that is not followed, which is given plain numbers."""
        with self.trace.outside():
            return function(*map(plain, values), **{name: plain(value) for name, value in keywords.items()})

    def item_of(self, owner: Any, key: Any) -> Any:
        """Return an element."""
        return owner[key] if self._finds_items(owner, key) else self.done_apart(operator.getitem, owner, key)

    def assign_item(self, owner: Any, key: Any, value: Any) -> None:
        """Assign to an element."""
        if self._finds_items(owner, key):
            owner[key] = value
        else:
            self.done_apart(operator.setitem, owner, key, value)

    def _finds_items(self, owner: Any, key: Any) -> bool:
        if type(owner) not in _WITH_ITEMS and (
                has_items_of_the_user(owner) if isinstance(owner, type) else _has_special_methods(type(owner))):
            return False
        return self.is_quiet(key)

    def expect(self, value: Any, within: bool = False) -> None:
        """Have all in memory if what Python does next with a value, or with the elements in it, may run code of the
        user."""
        if type(value) not in _QUIET and not self.is_quiet(value, _DEPTH if within else 0):
            self.trace.compute_all()

    def is_quiet(self, value: Any, depth: int = _DEPTH) -> bool:
        """Return whether Python runs no code of the user by itself, whatever it does with a value, and with the
        elements in it down to some depth."""
        kind = type(value)
        if kind in _QUIET:
            return True
        if kind is types.GeneratorType:
            return self._is_followed(value)
        if kind is slice:
            return all(map(self.is_quiet, (value.start, value.stop, value.step)))
        if kind not in _CONTAINERS and _has_special_methods(kind):
            return False
        if not isinstance(value, _HOLDERS):
            return True
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return not depth or _QUIET.issuperset(map(type, parts)) or all(
            self.is_quiet(part, depth - 1) for part in parts)

    def _is_followed(self, generator: types.GeneratorType[Any, Any, Any]) -> bool:
        """Return whether the code of a generator runs with these hooks, or is none of the user's."""
        code, frame = generator.gi_code, generator.gi_frame
        if frame is None or not is_user_module(frame.f_globals):
            return True
        if HOOKS not in code.co_freevars and NAME not in code.co_freevars:
            return is_rewritten(code)
        held = [*gc.get_referents(generator), *gc.get_referents(frame)]  # from Python 3.11 on the former has all
        return any(isinstance(cell, types.CellType) and self.is_own_cell(cell) for cell in held)

    def is_own_cell(self, cell: types.CellType) -> bool:
        """Return whether a cell has a hook of these."""
        return cell is self._hooks or cell is self._name

    # --- arrays in containers -----------------------------------------------------------------------------------------

    def compares_arrays(self, function: Any, values: Sequence[Any]) -> bool:
        """Return whether something of Python's compares what is in containers, the caller's own arrays among it."""
        owner = getattr(function, "__self__", None)
        if type(owner) in (list, tuple) and function.__name__ in _FINDING:
            return _holds_arrays(owner)
        return function in _COMPARING and any(
            _holds_arrays(value) for value in values
            if type(value) in _COMPARED or (type(value) in _VIEWS and function in _CONTAINING))

    def with_arrays_compared(self, function: Any, values: Sequence[Any]) -> Any:
        """Do something that compares what is in containers: Python asks first whether it is the same object, so what
        stands for arrays of the caller's gives way to these."""
        owner = getattr(function, "__self__", None)
        if type(owner) in (list, tuple):
            function = getattr(self._original(owner), function.__name__)
        return self.done_apart(function, *map(self._original, values))

    def _original(self, value: Any) -> Any:
        """Return the array that a lazy one stands for, and a container of such ones for a container."""
        kind = type(value)
        if kind is LazyArray:
            return self.trace.known.original(value)
        if kind in (list, tuple):
            return kind(map(self._original, value))
        if kind is dict:
            return {key: self._original(part) for key, part in value.items()}
        return [*map(self._original, value)] if kind in _VIEWS else value

    # --- iterators and contexts --------------------------------------------------------------------------------------

    def each_apart(self, values: Any) -> Any:
        """Return what is iterated over, each of whose steps is done apart if it may run code that is not followed."""
        kind = type(values)
        if kind is types.GeneratorType:
            return values if self._is_followed(values) else self._steps(values)
        if kind in _QUIET or kind in _WITH_ITEMS or not _has_special_methods(kind):
            return values
        with self.trace.outside():
            return self._steps(iter(values))

    def _steps(self, values: Iterator[Any]) -> Iterator[Any]:
        nothing = object()
        while True:
            with self.trace.outside():
                value = next(values, nothing)
            if value is nothing:
                return
            yield value

    def define(self) -> Any:
        """Return a decorator of a class that does nothing; the class body, whose code is not followed, runs next."""
        self.trace.compute_all()
        return _itself

    def context(self, manager: Any) -> Any:
        """Return what stands for the object of a ``with`` statement: it is entered and left apart."""
        kind = type(manager)
        if is_user_class(kind) and hasattr(kind, "__enter__") and hasattr(kind, "__exit__"):
            return _Context(self.trace, manager)
        return manager

    # --- attributes --------------------------------------------------------------------------------------------------

    def value_of(self, owner: Any, name: str, found: Any) -> Any:
        """Return an attribute of an object, of which its class, or the object that is a class, has `found`."""
        kind = type(owner)
        if found is None and hasattr(kind, "__getattr__") and name not in getattr(owner, "__dict__", ()):
            return self.done_apart(getattr, owner, name)
        if kind.__getattribute__ is _LOOKUP and (found is None or type(found) is types.FunctionType):  # as most are
            return getattr(owner, name)
        return getattr(owner, name) if is_found_by_python(kind, found) else self.done_apart(getattr, owner, name)

    def assign_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Assign to an attribute."""
        kind = type(owner)
        found = None if kind is LazyArray else found_in(kind, name)
        is_plain = found is None or not (
            _is_of_user(found_in(type(found), "__set__")) or _is_of_user(getattr(found, "fset", None)))
        if is_plain and (kind.__setattr__ is _ASSIGN or not _is_of_user(kind.__setattr__)):
            setattr(owner, name, value)
        else:
            self.done_apart(setattr, owner, name, value)

    # --- calls -------------------------------------------------------------------------------------------------------

    def is_called_apart(self, function: Any, values: list[Any]) -> bool:
        """Return whether code that is not followed may reach an array when it is called with some values."""
        kind, owner = type(function), getattr(function, "__self__", None)
        if kind is types.FunctionType:
            is_free = not is_user_code(function) and not function.__closure__
        else:
            is_free = isinstance(function, type) or (isinstance(function, _OF_C) and (
                isinstance(owner, types.ModuleType) or _is_data(owner) or type(owner).__module__ in _INERT
                or (not is_user_class(type(owner)) and self.is_quiet(owner))))
        return not (is_free and all(map(_is_data, values)))

    def is_copied_apart(self, function: Any, values: list[Any]) -> bool:
        """Return whether a function that copies or rearranges may run code of the user, or reads arrays in objects."""
        return function in _DEEP_COPIES or any(runs_user_code(type(value), _COPIED) for value in values)


def _itself(kind: type) -> type:
    return kind


class _Context:
    """A context that is entered and left apart from what a trace records."""

    def __init__(self, trace: Trace, manager: Any) -> None:
        self.trace = trace
        self.manager = manager

    def __enter__(self) -> Any:
        with self.trace.outside():
            return type(self.manager).__enter__(self.manager)

    def __exit__(self, *error: Any) -> Any:
        with self.trace.outside():
            return type(self.manager).__exit__(self.manager, *error)


def _has_special_methods(kind: type) -> bool:
    """Return whether a class has special methods of the user's."""
    return any(
        not _SPECIAL.isdisjoint(base.__dict__) and is_user_class(base)
        and any(_is_of_user(base.__dict__[name]) for name in _SPECIAL.intersection(base.__dict__))
        for base in kind.__mro__ if base is not object
    )


def _is_of_user(member: Any) -> bool:
    if isinstance(member, types.FunctionType):
        return is_user_code(member)
    return callable(member) and not isinstance(member, (*_OF_C, type))


def is_made_by_user(kind: Any) -> bool:
    """Return whether code of the user runs when an object of a class is made, but for what data classes and named
    tuples consist of."""
    if _is_of_user(type(kind).__call__) or _is_of_user(getattr(kind, "__post_init__", None)):
        return True
    fields = getattr(kind, "__dataclass_fields__", {})
    if fields and not assigns_by_python(kind, fields):
        return True
    factories = [field.default_factory for field in fields.values()]
    codes = [getattr(function, "__code__", None) for function in (kind.__new__, kind.__init__) if _is_of_user(function)]
    return any(map(_is_of_user, factories)) or any(code is None or code.co_filename != _GENERATED for code in codes)


def _holds_arrays(value: Any, depth: int = _DEPTH) -> bool:
    """Return whether a container has an array of the caller's own in it."""
    parts = value.values() if isinstance(value, dict) else value
    return xp.ndarray in map(type, parts) or (
        depth > 0 and any(type(part) in _COMPARED and _holds_arrays(part, depth - 1) for part in parts))


def is_found_by_python(kind: type, found: Any) -> bool:
    """Return whether no code of the user looks up an attribute of objects of a class that has `found` by its name."""
    lookup = kind.__getattribute__
    return (lookup is _LOOKUP or not _is_of_user(lookup)) and (
        found is None or isinstance(found, _FOUND) or not (
            _is_of_user(found_in(type(found), "__get__"))
            or any(_is_of_user(getattr(found, name, None)) for name in ("fget", "func"))))


def assigns_by_python(kind: Any, names: Iterable[str]) -> bool:
    """Return whether no code of the user runs where attributes of a data class are assigned as it is made."""
    is_frozen = kind.__dataclass_params__.frozen  # such a class asks `object` to assign
    return (is_frozen or not _is_of_user(kind.__setattr__)) and not any(
        _is_of_user(found_in(type(found), "__set__")) or isinstance(found, property)
        for found in (found_in(kind, name) for name in names))


def is_followed_property(kind: type, found: Any) -> bool:
    """Return whether an attribute of objects of a class is a property whose function can be called in its place."""
    return (isinstance(found, property) and type(found).__get__ is property.__get__
            and isinstance(found.fget, types.FunctionType) and is_user_code(found.fget)
            and not _is_of_user(kind.__getattribute__) and not hasattr(kind, "__getattr__"))


def _is_data(value: Any) -> bool:
    """Return whether a value is plain data: code that is given it cannot reach an array by it."""
    if isinstance(value, _DATA):
        return True
    if type(value) in (list, tuple):
        return all(map(_is_data, value))
    return type(value) is dict and all(map(_is_data, value.values()))
