"""The first trace of a kind of call: it writes down everything that the code reads from outside, and what it changes.

The rule is that a plan is kept only where all that the code does is known to be safe.  What it reads from outside of
itself becomes a guard (`tl_dpnp.graph.reading`); objects that it makes are its own.  Whatever cannot be proved to be
pure, or to be the same at the next call, is an effect, and a function with effects is traced at each call.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.apart import assigns_by_python
from tl_dpnp.graph.attributes import AttributeWatcher
from tl_dpnp.graph.breaks import Break
from tl_dpnp.graph.class_checks import (
    COMPARED,
    SHOWN,
    TAKEN,
    checked_classes,
    has_items_of_the_user,
    is_certain,
    is_decided_by_classes,
)
from tl_dpnp.graph.comparisons import is_known
from tl_dpnp.graph.containers import ContainerReader, is_lazy_iterable, is_named_tuple
from tl_dpnp.graph.function_wrapper import FunctionWrapper
from tl_dpnp.graph.interception import (
    Interceptor,
    called_by,
    called_method,
    hashable,
    makers,
    stood_for,
)
from tl_dpnp.graph.keys import BY_IDENTITY, CallKey
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.plain_hooks import OPERATORS, PlainHooks
from tl_dpnp.graph.purity import (
    CHANGING_METHODS,
    MATHEMATICS,
    PURE_TYPES,
    dpnp_name,
    is_pure_function,
    is_user_code,
)
from tl_dpnp.graph.reading import CONTAINERS, is_plain
from tl_dpnp.graph.rewriting import NAME, obstacle, rewritten
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import (
    NUMPY_KINDS,
    OPERANDS,
    SILENT,
    TRACED,
    TracedFloat,
    TracedInteger,
    plain,
)
from tl_dpnp.runtime.array_package import xp

__all__ = ["Observer"]


class Observer(AttributeWatcher):
    """The hooks of a trace that may leave a plan."""

    def __init__(self, trace: Trace, key: CallKey) -> None:
        Interceptor.__init__(self, trace)
        self._names: list[types.CellType] = []
        ContainerReader.__init__(self, trace, key)
        for what, reason in key.unknown:
            self.effect(what, reason)

    # --- hooks -------------------------------------------------------------------------------------------------------

    def hooks(self, function: types.FunctionType) -> dict[str, types.CellType]:
        """Return the hooks for the code of a function, whose variables are read by paths of its own."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        variables = self.guards.constant(function.__globals__)

        def name(value: Any, name: str) -> Any:
            if name in cells:
                return self.read(value, self.guards.child(self.guards.constant(cells[name]), "cell", name))
            return self.read(value, self.guards.child(variables, "global", name))

        cell = types.CellType(name)
        self._names.append(cell)
        return {**super().hooks(function), NAME: cell}

    def end(self) -> None:
        """Let functions and generators that outlive the trace run as they are."""
        super().end()
        for cell in self._names:
            cell.cell_contents = PlainHooks.name

    def is_own_cell(self, cell: types.CellType) -> bool:
        """Return whether a cell has a hook of these."""
        return super().is_own_cell(cell) or any(cell is own for own in self._names)

    def item(self, owner: Any, key: Any) -> Any:
        """Return what stands for an element."""
        kind = type(owner)
        if kind is xp.ndarray:
            owner, kind = self.trace.capture(owner), LazyArray
        if kind is dict:
            self._comparing(key)
        else:
            self._indexing(key)
        if kind is LazyArray:
            return owner[self.deeply(key)]
        if kind in CONTAINERS or is_named_tuple(kind):
            key = self.deeply(key)
            known = self._known.get(id(owner))
            if known is None or not (kind is dict or type(key) is slice or isinstance(key, int | np.integer)):
                return super().item(owner, key)
            if type(key) is slice:
                return self.deeply(owner)[key]
            value = self.item_of(owner, key)
            return self.element(value, known[1], key + len(owner) if kind is not dict and key < 0 else key)
        if not is_plain(owner) and (not isinstance(owner, type) or has_items_of_the_user(owner)):
            self.effect(f"an element of a {kind.__name__}", "how it is found is not followed")
        return super().item(owner, self.deeply(key))

    def _indexing(self, key: Any) -> None:
        for part in key if type(key) is tuple else (key,):
            if not (is_plain(part) or isinstance(part, (xp.ndarray, np.ndarray, *CONTAINERS, *BY_IDENTITY))):
                self.effect(f"a {type(part).__name__} as an index", "how it becomes one is not followed")

    def iterate(self, values: Any) -> Any:
        """Return what stands for something that is iterated over."""
        elements = self.elements(values)
        if elements is not None:
            return elements
        kind = type(values)
        if id(values) in self._known:
            self.effect(f"a {kind.__name__}", "it was there before, and may be used up")
        elif not is_plain(values) and kind is not xp.ndarray and not is_named_tuple(kind) and kind.__module__ not in (
            "builtins", "itertools"
        ):
            self.effect(f"a {kind.__name__}", "how it is iterated over is not followed")
        return super().iterate(values)

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        """Return the slice of its bounds, which are fixed."""
        self._indexing((start, stop, step))
        return slice(*map(self.deeply, (start, stop, step)))

    def binary(self, name: str, one: Any, other: Any) -> Any:
        """Return the result of an operator."""
        if name in ("is_", "is_not"):
            for value in (one, other):
                self._identified(value)
            self.distinguish(self._itself(one), self._itself(other))
            if is_number(one) and is_number(other) and bool not in (type(one), type(other)):
                self.effect("is", "which object a number is may differ at each call", "compare numbers with ==")
            return super().binary(name, one, other)
        if name in ("in", "not_in") or isinstance(one, CONTAINERS) or isinstance(other, CONTAINERS):
            one, other = self.deeply(one), self.deeply(other)
            if name.startswith("i") and name != "in":
                self._changing(one)
            if not name.startswith("i") or name == "in":
                self._finding(OPERATORS[name], (one, other))
                self._comparing(one)
                self._comparing(other, SHOWN if type(one) is str else COMPARED)
        for value in (one, other):
            compares = name in ("eq", "ne") or (name in ("in", "not_in") and value is one)
            if not (self.is_followed(value) or is_known(value, COMPARED)) or (
                isinstance(value, BY_IDENTITY) and not isinstance(value, type) and not compares
            ):
                self.effect(f"an operator of a {type(value).__name__}", "what it does is not followed")
        if type(one) in TRACED or type(other) in TRACED:
            if type(one) in OPERANDS and type(other) in OPERANDS:
                return self.trace.tape.derived(OPERATORS[name], (one, other))
            if not isinstance(one, LazyArray | xp.ndarray) and not isinstance(other, LazyArray | xp.ndarray):
                one, other = self.trace.tape.fix(one), self.trace.tape.fix(other)
        return super().binary(name, one, other)

    def _finding(self, function: Any, values: Sequence[Any]) -> None:
        if self.compares_arrays(function, values):
            self.effect("an array in a container", "how it is compared is not followed")

    def _identified(self, value: Any) -> None:
        known = self._known.get(id(value))
        if known is not None and not isinstance(value, BY_IDENTITY):
            same = self.guards.child(known[1], "identity")
            if same.guard is None:
                self.guards.require(same, "is", value)

    # --- changing ----------------------------------------------------------------------------------------------------

    def _changing(self, owner: Any) -> None:
        if id(owner) in self._known:
            self.effect(f"a {type(owner).__name__}", "it is changed, and was there before")

    def changing(self, owner: Any) -> Any:
        """Return what stands for an object that is changed."""
        kind: Any = type(owner)
        if kind is not LazyArray and kind is not xp.ndarray:
            self._changing(owner)
            special = kind.__setattr__ is not object.__setattr__ or hasattr(kind, "__setitem__")
            if kind not in (list, dict) and (special or isinstance(owner, (*BY_IDENTITY, np.ndarray))):
                self.effect(f"a {kind.__name__}", "how it is changed is not followed")
        return super().changing(owner)

    def set_item(self, value: Any, owner: Any, key: Any) -> None:
        """Assign to an element; a container that was there before gets plain numbers."""
        if type(owner) is dict:
            self._comparing(key)
        else:
            self._indexing(key)
        if type(key) is slice:  # the elements of the value are taken out
            self.take_in(value)
        super().set_item(self._settled(value, owner), owner, self.deeply(key))

    # --- calling -----------------------------------------------------------------------------------------------------

    def call(self, function: Any) -> Any:
        """Return what is called in the place of `function`."""
        if isinstance(function, FunctionWrapper):
            self.fused(function.function)
        if type(function) is functools.partial:
            return self._partial(function)
        if not isinstance(function, type) and type(function) not in (types.FunctionType, types.MethodType):
            method = called_method(type(function))
            if isinstance(method, types.FunctionType | FunctionWrapper) and dpnp_name(function) is None \
                    and not isinstance(function, FunctionWrapper):
                self.class_member(type(function), "__call__", method)
        return super().call(function)

    def is_lasting(self, function: Any, kind: type) -> bool:
        """Return the same but for functions written in C: each call of one may be an effect."""
        return kind is types.FunctionType

    def fused(self, function: Any) -> None:
        """Take in what a fused function runs, which stays the same object."""
        self._known.setdefault(id(function), (function, self.guards.constant(function)))

    def _partial(self, function: functools.partial[Any]) -> Callable[..., Any]:
        known = self._known.get(id(function))
        if known is None:
            return functools.partial(self.call(function.func), *function.args, **function.keywords)
        inner = self.read(function.func, self.guards.child(known[1], "attribute", "func"))
        arguments = self.read(function.args, self.guards.child(known[1], "attribute", "args"))
        keywords = self.read(function.keywords, self.guards.child(known[1], "attribute", "keywords"))
        return functools.partial(self.call(inner), *self.iterate(arguments), **self.mapping(keywords))

    def _followed(self, function: types.FunctionType) -> Callable[..., Any]:
        code = rewritten(function)
        for what, reason, line in () if code is None else code.effects:
            self.note(Break(what, reason, function.__code__.co_filename, line, "", True, function.__name__))
        result = super()._followed(function)
        if code is None or not isinstance(result, types.FunctionType):
            return result
        self._parts_guarded(function)
        if function.__defaults__:
            result.__defaults__ = tuple(self._default(value) for value in function.__defaults__)
        if function.__kwdefaults__:
            path = self.guards.constant(function.__kwdefaults__)
            if path.guard is None:
                self.guards.require(path, "keys", tuple(function.__kwdefaults__))
            result.__kwdefaults__ = {
                name: self.read(value, self.guards.child(path, "item", name))
                for name, value in function.__kwdefaults__.items()
            }
        return result

    def _parts_guarded(self, function: types.FunctionType) -> None:
        path = self.guards.constant(function)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            child = self.guards.child(path, "attribute", part)
            if child.guard is None:
                self.guards.require(child, "is", getattr(function, part))

    def _default(self, value: Any) -> Any:
        """Return what stands for a default value, which is the same object as long as the function has its defaults."""
        if type(value) is float or is_plain(value):
            return value
        path = self.guards.constant(value)
        if type(value) is not xp.ndarray:
            self._known[id(value)] = value, path
        return self.read(value, path)

    def constructor(self, kind: Any) -> Any:
        """Return what makes an object of a class."""
        if kind in PURE_TYPES and kind is not type:
            return self._reversed if kind is reversed else functools.partial(
                self._contained, kind, super().constructor(kind)
            )
        if kind is type:
            return super().constructor(kind)
        if kind in NUMPY_KINDS:
            return functools.partial(self._computed, kind)
        if hasattr(kind, "__del__"):
            self.effect(kind.__name__, "what is done when an object of it goes is not followed")
        return super().constructor(kind)

    def _made(self, kind: type, initialize: Any, /, *arguments: Any, **keywords: Any) -> Any:
        self.class_member(kind, "__init__", initialize)
        return super()._made(kind, initialize, *arguments, **keywords)

    def maker(self, kind: Any) -> Any:
        """Return what makes an object of a class whose ``__init__`` is not followed."""
        made = super().maker(kind)
        if issubclass(kind, BaseException | np.generic):
            return lambda *arguments, **keywords: made(*map(self.deeply, arguments), **keywords)
        if not self._only_fills(kind):
            self.effect(kind.__name__, "how an object of the class is made is not followed")
        return made

    def _only_fills(self, kind: Any) -> bool:
        """Return whether making an object only fills its attributes: named tuples, data classes, empty classes."""
        new, initialize = makers(kind)
        if kind is types.SimpleNamespace or kind is functools.partial:
            return True
        if type(kind) is not type:
            return False
        if is_named_tuple(kind):
            return initialize is object.__init__
        if new is not object.__new__:
            return False
        self.class_member(kind, "__init__", initialize)
        if initialize is object.__init__:
            return True
        if isinstance(initialize, types.FunctionType):
            self._parts_guarded(initialize)
        fields = getattr(kind, "__dataclass_fields__", None)
        code = getattr(initialize, "__code__", None)
        self.class_member(kind, "__setattr__", kind.__setattr__)
        return (
            fields is not None and code is not None and code.co_filename == "<string>"
            and not hasattr(kind, "__post_init__") and assigns_by_python(kind, fields)
            and all(type(f.default_factory).__name__ == "_MISSING_TYPE" or f.default_factory in (list, dict)
                    for f in fields.values())
        )

    def _contained(self, kind: type, make: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        if kind not in (*_SPREADING, slice, object):
            for value in arguments:
                self._comparing(value, COMPARED if kind in (set, frozenset) else TAKEN)
        keywords = keywords if kind is dict else {name: self.deeply(value) for name, value in keywords.items()}
        if kind in _SPREADING:
            called = kind in (map, filter)
            made = make(*arguments[:called], *[self._spread(kind, value) for value in arguments[called:]], **keywords)
            if kind is dict:
                self._comparing(list(made))
            return made
        return make(*[value if kind in (float, complex) else self.deeply(value) for value in arguments], **keywords)

    def _spread(self, kind: type, value: Any) -> Any:
        """Return what stands for an argument of a class that goes through its arguments, as `zip` and `list` do."""
        if type(value) in TRACED:
            return self.trace.tape.fix(value)
        if kind in _AT_ONCE and type(value) is dict:
            return self.mapping(value)
        elements = self.elements(value)
        if elements is not None:
            return list(elements) if kind in _AT_ONCE else elements
        self.containing(value)
        if not isinstance(value, CONTAINERS):
            self.iterate(value)
        return value

    def _reversed(self, value: Any) -> Any:
        elements = self.reversed_elements(value)
        return reversed(self._spread(reversed, value)) if elements is None else elements

    def builtin(self, function: Any) -> Any:
        """Return what is called for a function written in C."""
        owner = getattr(function, "__self__", None)
        if getattr(function, "__qualname__", "") == "object.__init__":
            return lambda *arguments: None
        if type(owner) in (list, dict, set) or isinstance(owner, tuple):
            if function.__name__ in CHANGING_METHODS:
                self._changing(owner)
            elif id(owner) in self._known and type(owner) is dict:
                return functools.partial(self._of_dict, function.__name__, owner)
            else:
                self.deeply(owner)
        return super().builtin(function)

    def _of_dict(self, name: str, owner: dict[Any, Any], /, *arguments: Any) -> Any:
        """Call a method that only reads a dict from outside."""
        if name in ("keys", "values", "items") and not arguments:
            return self.view(name, owner)
        return getattr(self.mapping(owner), name)(*map(self.deeply, arguments))

    def _computed(self, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        mathematics = isinstance(function, np.ufunc) or (
            hashable(function) and (function in MATHEMATICS or function in NUMPY_KINDS)
        )
        if not keywords and all(map(is_number, arguments)) and (mathematics or (
                is_pure_function(function) and any(type(value) in TRACED for value in arguments))):
            return self.trace.tape.derived(function, arguments)
        if mathematics:
            arguments = tuple(map(self.deeply, arguments))
        keywords = {name: self.deeply(value) for name, value in keywords.items()}
        if function in _OF_CLASSES and len(arguments) == (1 if function is callable else 2):
            return self._of_classes(function, *arguments)
        if function is format or isinstance(getattr(function, "__self__", None), str):
            self._comparing([*arguments, *keywords.values()], SHOWN)
        called, holds = called_by(function), isinstance(getattr(function, "__self__", None), list | tuple | dict | set)
        given = [value for number, value in enumerate(arguments) if number != called]
        for value in (*given, *[value for name, value in keywords.items() if name != "key"]):
            if is_lazy_iterable(value):
                self.iterate(value)
            elif not (self.is_followed(value) or (holds and is_known(value, COMPARED))):
                self.effect(f"{function.__name__} of a {type(value).__name__}", "what it does is not followed")
        self._finding(function, arguments)
        if is_pure_function(function):
            if function in _COMPARING and "key" not in keywords:
                arguments = tuple(map(self._compared, arguments))
            return super()._computed(function, *arguments, **keywords)
        owner = getattr(function, "__self__", None)
        return super()._computed(function, *[self._settled_argument(value, owner) for value in arguments], **keywords)

    def _of_classes(self, function: Any, value: Any = None, *kinds: Any) -> Any:
        """Return what a function finds in the classes of its arguments, and guard that they say so."""
        if function is callable:
            if not self.is_followed(value):
                self.class_lookup(type(value).__mro__, "__call__")
            return callable(value)
        kind = value if function is issubclass else stood_for(type(value))
        self.deeply(kinds)
        for base in checked_classes(kinds):
            if not is_decided_by_classes(kind, base):
                self.effect(f"{function.__name__} of a {type(base).__name__}", "what it does is not followed")
            elif not is_certain(kind, base):
                path = self.guards.child(self.guards.constant(kind), "subclass", base)
                if path.guard is None:
                    self.guards.require(path, "subclass", (base, issubclass(kind, base)))
        return self.doing(function, kinds)(self.of_its_class(plain(value), kinds), *kinds)

    def _settled_argument(self, value: Any, owner: Any) -> Any:
        """Return an argument of a method written in C, which takes the value of an integer as it is."""
        if type(value) in CONTAINERS and id(value) not in self._known:
            return value
        return self.trace.tape.fix(value) if type(value) in SILENT else self._settled(value, owner)

    def _stored(self, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
        if function.__name__ not in ("append", "insert"):  # others compare what they are given, or take its elements
            self.take_in(arguments)
        owner = getattr(function, "__self__", None)
        if function.__name__ == "remove" or (function.__name__ == "sort" and keywords.get("key") is None):
            self._comparing(owner)
        if function.__name__ in _OF_KEYS:
            arguments = (*map(self._keyed, arguments[:1]), *arguments[1:])
        elif function.__name__ in _OF_ELEMENTS:
            arguments = tuple(map(self._keyed, arguments))
        if function.__name__ != "append":
            arguments = tuple(self._settled_argument(value, None) for value in arguments)
        return super()._stored(function, *arguments, **keywords)

    def _iterated(self, value: Any) -> Any:
        elements = value if is_lazy_iterable(value) else self.elements(value)
        return super()._iterated(self.deeply(value)) if elements is None else self._settled_elements(elements)

    def _passed(self, value: Any) -> Any:
        if is_lazy_iterable(value):
            return self._settled_elements(value)
        return super()._passed(self.deeply(value))

    def _settled_elements(self, values: Iterable[Any]) -> Iterator[Any]:
        """Fix those numbers that C code takes the value of: all but floats, and floats that are added to others."""
        meet_others = False
        for value in values:
            kind = type(value)
            yield self.trace.tape.fix(value) if kind in SILENT or (meet_others and kind in TRACED) else value
            meet_others = meet_others or kind not in _WRITES_DOWN

    def _id(self, value: Any) -> int:
        self.effect("id", "it may be another one at each call")
        return super()._id(value)

    def barrier(self, function: Any) -> Any:
        """Return a function that has to be called by the user's code itself."""
        self.effect(_full_name(function), _ANYTHING)
        return super().barrier(function)

    def foreign(self, function: Any) -> Callable[..., Any]:
        """Return what is called for code that is not followed."""
        what = _full_name(function)
        if isinstance(function, types.FunctionType) and is_user_code(function) and rewritten(function) is None:
            self.effect(what, *obstacle(function))
        else:
            self.effect(what, _ANYTHING)
        return super().foreign(function)

    def _foreign(self, function: Any, rearranges: bool, is_user: bool, /, *arguments: Any, **keywords: Any) -> Any:
        fix = self.trace.tape.fix
        fixed = {name: fix(value) for name, value in keywords.items()}
        return super()._foreign(function, rearranges, is_user, *map(fix, arguments), **fixed)


#: Why a function that is not followed is called anew each time.
_ANYTHING = "it may do anything, or give something else at each call"
#: Functions that compare, add or ask for the truth of the elements of what they are given.
_COMPARING = frozenset((sorted, min, max, sum, any, all))
#: Methods whose first argument is a key or a place, and those whose arguments are keys or have them.
_OF_KEYS = frozenset(("setdefault", "pop", "insert", "__setitem__"))
_OF_ELEMENTS = frozenset(
    "remove update add discard difference_update intersection_update symmetric_difference_update __ior__".split())
#: Functions that find what they return in the classes of what they are given.
_OF_CLASSES = frozenset((callable, isinstance, issubclass))
#: What a float that may change is added to so that the sum is written down.
_WRITES_DOWN = frozenset((bool, int, float, TracedFloat, TracedInteger, LazyArray, xp.ndarray))
#: Types that take all elements at once when they are called.
_AT_ONCE = (list, tuple, dict)
#: Types that go through the elements of what they are given; the first argument of some is a function.
_SPREADING = (*_AT_ONCE, zip, enumerate, map, filter)


def _full_name(function: Any) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    module = getattr(function, "__module__", None)
    return name if module in (None, "builtins", "__main__") else f"{module}.{name}"


def is_number(value: Any) -> bool:
    """Return whether a value is one of Python's or NumPy's numbers."""
    return type(value) in (complex, *OPERANDS) or isinstance(value, np.generic)
