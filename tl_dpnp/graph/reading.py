"""What traced code reads from outside of itself, and the guards that come of it.

Every object from outside is reached by a path: what is found at its end is guarded by value where it is immutable, by
identity where that is what it is, and by type or length where more will be read of it.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import Break, break_here
from tl_dpnp.graph.guards import Guards, Path, same_value
from tl_dpnp.graph.keys import BY_IDENTITY, BY_VALUE, CallKey
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import TRACED, TRACED_KINDS, plain
from tl_dpnp.runtime.array_package import Content, array_facts, content_of, xp

__all__ = ["CONTAINERS", "NUMBERS", "Reader", "is_object", "is_plain"]

NUMBERS = (bool, int, float, complex, np.generic)
#: Types of values that are what they are; classes made of them may be anything.
_PLAIN = frozenset((LazyArray, *TRACED, *BY_VALUE, float, complex, range, slice))
CONTAINERS = (list, tuple, dict)


def is_plain(value: Any) -> bool:
    """Return whether a value is what it is: no code of the user runs when it is compared, printed or combined."""
    kind = type(value)
    return kind in _PLAIN or issubclass(kind, np.generic | np.dtype)


class Reader:
    """What one trace has read from outside.

    `found` are the arrays that guards find, in their order, `inputs` their registers; `effects` say why there can be no
    plan.
    """

    def __init__(self, trace: Trace, key: CallKey) -> None:
        self.trace = trace
        self.guards = Guards()
        self.inputs: list[int] = []
        self.found: list[Any] = []
        self.effects: dict[Break, None] = {}
        self._known: dict[int, tuple[Any, Path]] = {}
        self._places: dict[int, int] = {}
        self._paths: dict[int, Path] = {}  # to the arrays that guards find
        self._waiting: dict[int, tuple[Any, Path]] = {}
        self._traced: dict[Any, Any] = {}
        self._within: set[int] = set()  # containers that the one now looked at is in
        for number, original in enumerate(key.originals):
            self._places.setdefault(id(original), number)
        self._originals = len(key.originals)
        self._slots = [trace.argument(original)._node.slot for original in key.originals]

    @property
    def slots(self) -> tuple[int, ...]:
        """The registers of the arrays of a call: those of its key, then those that guards find."""
        return (*self._slots, *self.inputs)

    def place_of(self, array: Any) -> int | None:
        """Return which of the arrays of a call an array is."""
        return self._places.get(id(array))

    def path_of(self, value: Any) -> Path | None:
        """Return the path to an object that was there before."""
        known = self._known.get(id(value))
        return None if known is None else known[1]

    def forget(self) -> None:
        """Forget the numbers that stand for others."""
        self._traced.clear()

    def effect(self, what: str, reason: str, hint: str = "") -> None:
        """Note something that has to happen at each call, or cannot be seen to stay the same."""
        self.note(break_here(what, reason, hint, True))

    def note(self, effect: Break) -> None:
        """Note an effect; where the function has to be fused as a whole, it is an error before it happens."""
        self.effects[effect] = None
        if self.trace.refuse is not None:
            self.trace.refuse(effect)

    # --- arguments ---------------------------------------------------------------------------------------------------

    def cover(self, value: Any, path: Path) -> Any:
        """Take in an argument, which the key of the call has; return what stands for it."""
        kind = type(value)
        if kind is xp.ndarray:
            return self.trace.argument(value)
        if kind in TRACED_KINDS:
            return self.trace.tape.given(value)
        if kind in CONTAINERS:
            path.covered = True
            self._register(value, path)
            if id(value) in self._within:  # as its key has it
                return value
            self._within.add(id(value))
            for key, part in value.items() if kind is dict else enumerate(value):
                self._key(key)
                stands = self.cover(part, self.guards.child(path, "item", key))
                if type(stands) in TRACED:
                    self._traced[self.guards.child(path, "item", key)] = stands
            self._within.remove(id(value))
        elif kind is Content:
            self.trace.argument(value)
        elif isinstance(value, BY_IDENTITY):
            self._constant(value)
        elif kind is types.MethodType:
            self._method_at(value, path)
        elif not is_plain(value):
            self._unseen(value)
            self._register(value, path)
        return value

    def _key(self, key: Any) -> None:
        """Remember the objects in a key of a dict whose identity the key of the call has."""
        if type(key) is tuple:
            for part in key:
                self._key(part)
        elif isinstance(key, BY_IDENTITY):
            self._constant(key)

    def _constant(self, value: Any) -> None:
        """Remember an object whose identity is guarded, and the object that it is a method of."""
        self._known[id(value)] = value, self.guards.constant(value)
        owner = getattr(value, "__self__", None)
        if type(value) is types.BuiltinFunctionType and not isinstance(owner, types.ModuleType | type | None):
            self._known.setdefault(id(owner), (owner, self.guards.constant(owner)))

    def _unseen(self, value: Any) -> None:
        if isinstance(value, set | frozenset | np.ndarray | Content | bytearray | memoryview | slice):
            self.effect(f"a {type(value).__name__}", "what it holds may change without being seen")

    def _register(self, value: Any, path: Path) -> bool:
        """Remember the path to an object; one that has another already has to be the same there and here."""
        known = self._known.setdefault(id(value), (value, path))
        if known[1] is path or path.guard is not None:
            return True
        self.guards.require(path, "alias", known[1])
        return False

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, value: Any, path: Path) -> Any:
        """Take in a value that was found at the end of a path; return what stands for it."""
        kind = type(value)
        if kind is LazyArray or kind in TRACED or self.trace.ended:
            return value  # this trace has put it there
        if (path.guard is not None or path in self._traced) and not self._as_before(value, path):
            self.effect("a variable", "it changes while the function runs")
            return self.trace.argument(value) if kind is xp.ndarray else value
        if kind is xp.ndarray:
            return self._array(value, path)
        if kind in TRACED_KINDS:
            return self._number_at(value, path)
        self._guard(value, kind, path)
        return value

    def _as_before(self, value: Any, path: Path) -> bool:
        known = plain(self._traced.get(path))
        if known is not None:
            return type(value) is type(known) and same_value(value, known)
        kind, expected = path.guard or ("", None)
        if kind == "value":
            return type(value) is type(expected) and same_value(value, expected)
        if kind == "is":
            return value is expected
        if kind in ("array", "same"):
            return type(value) is xp.ndarray and id(value) in self._places
        return not isinstance(value, xp.ndarray) and type(value) not in TRACED_KINDS

    def _guard(self, value: Any, kind: type, path: Path) -> None:
        if path.guard is not None or path.covered:
            return
        if kind in BY_VALUE or kind in (complex, range) or isinstance(value, np.generic | np.dtype):
            self.guards.require(path, "value", value)
        elif isinstance(value, BY_IDENTITY):
            self.guards.require(path, "is", value)
            self._constant(value)
        elif kind is types.MethodType:
            self._method_at(value, path)
        elif not self._register(value, path):
            pass
        elif kind is list or kind is tuple:
            self.guards.require(path, "length", (kind, len(value)))
        elif kind is dict:
            if all(type(key) in BY_VALUE for key in value):
                self.guards.require(path, "keys", tuple(value))
            else:
                self.effect("a dict", "its keys are no simple values")
        else:
            self._unseen(value)
            self.guards.require(path, "type", kind)

    def _method_at(self, value: types.MethodType, path: Path) -> None:
        self.guards.require(path, "type", types.MethodType)
        self.read(value.__func__, self.guards.child(path, "function"))
        self.read(value.__self__, self.guards.child(path, "self"))

    def _array(self, value: Any, path: Path) -> Any:
        place = self._places.get(id(value))
        if path.covered or path.guard is not None:
            return self.trace.argument(value)
        if place is not None:
            self.guards.require(path, "same", place)
            return self.trace.argument(value)
        self._places[id(value)], self._paths[id(value)] = self._originals + len(self.inputs), path
        self.inputs.append(len(self.trace.registers))
        self.found.append(value)
        self.guards.require(path, "array", array_facts(content_of(value)))
        return self.trace.argument(value)

    def distinguish(self, one: Any, other: Any) -> None:
        """Guard that two arrays are not the same object; where they are, another guard or the key of the call says so.
        """
        if one is other:
            return
        for array, another in ((one, other), (other, one)):
            path, place = self._paths.get(id(array)), self.place_of(another)
            if path is not None and place is not None:
                apart = self.guards.child(path, "identity", place)
                if apart.guard is None:
                    self.guards.require(apart, "other", place)
                return

    def captured(self, array: Any) -> Any:
        """Return the lazy array for one that was met in some other way than by a path."""
        waiting = self._waiting.get(id(array))
        if waiting is not None and waiting[0] is array:
            return self._array(array, waiting[1])
        self.effect("an array", "it is neither an argument nor a variable of the function", "pass it as an argument")
        return self.trace.argument(array)

    def _number_at(self, value: float, path: Path) -> Any:
        if path not in self._traced:
            self._traced[path] = self.trace.tape.given(value)
            self.guards.require(path, "scalar", type(value))
        return self._traced[path]

    def class_member(self, kind: type, name: str, member: Any) -> None:
        """Guard that a class still has a method, looked up on the class itself."""
        path = self.guards.child(self.guards.constant(kind), "attribute", name)
        if path.guard is not None:
            return
        if isinstance(member, types.MethodType):  # of the class: another object each time
            self._method_at(member, path)
        else:
            self.guards.require(path, "is", member)

    def class_lookup(self, classes: Sequence[type], name: str) -> None:
        """Guard where a name is found that is looked up in some classes, in their order."""
        for base in classes:
            names = self.guards.child(self.guards.constant(base), "attribute", "__dict__")
            if name in vars(base):
                found = self.guards.child(names, "item", name)
                if found.guard is None:
                    self.guards.require(found, "is", vars(base)[name])
                return
            lacking = self.guards.child(names, "without", name)
            if lacking.guard is None:
                self.guards.require(lacking, "lacks", name)


def is_object(value: Any) -> bool:
    """Return whether the key of a call has only the type of a value."""
    return not (is_plain(value) or isinstance(value, (xp.ndarray, *CONTAINERS, *BY_IDENTITY)))
