"""Attributes that traced code reads and assigns: where Python finds them, and the guards that come of it."""

from __future__ import annotations

import enum
import functools
import operator
import types
from typing import Any

from tl_dpnp.graph.apart import is_followed_property, is_found_by_python
from tl_dpnp.graph.class_checks import found_in
from tl_dpnp.graph.comparisons import ComparisonWatcher
from tl_dpnp.graph.function_wrapper import FunctionWrapper
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.purity import trusted
from tl_dpnp.graph.reading import CONTAINERS, is_plain
from tl_dpnp.graph.traced_scalars import OF_COMPLEX, TRACED, TRACED_COMPLEX, plain
from tl_dpnp.runtime.array_package import xp

__all__ = ["AttributeWatcher"]

_CONJUGATE = operator.methodcaller("conjugate")
#: Attributes of NumPy's numbers that depend on the type only.
_OF_TYPES = frozenset(("dtype", "itemsize", "nbytes", "ndim", "shape", "size"))
#: Special attributes that are found as all others are.
_COMMON = ("__class__", "__name__", "__qualname__", "__doc__")


class AttributeWatcher(ComparisonWatcher):
    """The hooks for attributes."""

    def attribute(self, owner: Any, name: str) -> Any:
        """Return what stands for an attribute."""
        kind = type(owner)
        if kind is xp.ndarray:
            owner, kind = self.trace.capture(owner), LazyArray
        if kind in TRACED_COMPLEX and name in OF_COMPLEX:
            return self.trace.tape.derived(OF_COMPLEX[name], (owner,))
        if kind in TRACED_COMPLEX and name == "conjugate":
            return functools.partial(self.trace.tape.derived, _CONJUGATE, (owner,))
        if kind in TRACED:
            owner = plain(owner) if name in _OF_TYPES else self.trace.tape.fix(owner)
        if kind is LazyArray and not hasattr(LazyArray, name):
            value = super().attribute(owner, name)
            self.effect(f"{name} of an array", "how the attribute is found is not followed")
            return value
        if is_plain(owner) or kind in CONTAINERS or (kind is types.ModuleType and trusted(owner)):
            return super().attribute(owner, name)
        if kind is types.ModuleType or isinstance(owner, type):
            if name.startswith("__") and name not in ("__name__", "__qualname__", "__doc__"):
                self.effect(f"{name} of {owner.__name__}", "it is not followed")
            found = found_in(owner, name) if isinstance(owner, type) else None
            value = self.value_of(owner, name, found)
            if isinstance(owner, type) and type(owner) is not type and not isinstance(value, owner):
                self.effect(f"{name} of {owner.__name__}", "its class has a class of its own")
            if not is_found_by_python(kind, found) or (kind is types.ModuleType and name not in vars(owner)):
                self.effect(f"{name} of {owner.__name__}", "how the attribute is found is not followed")
            return self.read(value, self.guards.child(self.guards.constant(owner), "attribute", name))
        if kind is super:
            return self._of_base(owner, name)
        return self._attribute_of_object(owner, kind, name)

    def method(self, owner: Any, name: str) -> Any:
        """Return what is called for an attribute, which may be another one of a module of the user, too."""
        return self.call(self.attribute(owner, name))

    def _of_base(self, owner: Any, name: str) -> Any:
        value = getattr(owner, name)
        function = getattr(value, "__func__", None)
        this = owner.__self__ if isinstance(owner.__self__, type) else type(owner.__self__)
        self.class_member(this, "__mro__", this.__mro__)
        self.class_lookup(this.__mro__[this.__mro__.index(owner.__thisclass__) + 1 :], name)
        if function is None and getattr(value, "__qualname__", "") != "object.__init__":
            self.effect(f"{name} of super()", "how it is found is not followed")
        return value

    def _attribute_of_object(self, owner: Any, kind: type, name: str) -> Any:
        if isinstance(owner, enum.Enum) and name in ("value", "name"):
            return self.read(getattr(owner, name), self.guards.child(self.guards.constant(owner), "attribute", name))
        found = found_in(kind, name)
        if is_followed_property(kind, found):
            self.class_member(kind, "__getattribute__", kind.__getattribute__)
            self.class_member(kind, name, found)
            return self.call(found.fget)(owner)
        followed = found is None or not hasattr(type(found), "__get__") or isinstance(
            found, types.FunctionType | classmethod | staticmethod | types.MemberDescriptorType | type | FunctionWrapper
        ) or type(found).__name__ == "_tuplegetter"
        followed = followed and isinstance(kind.__getattribute__, types.WrapperDescriptorType)
        own = getattr(owner, "__dict__", {}) if followed else {}
        self.class_member(kind, "__getattribute__", kind.__getattribute__)
        if name not in own and found is None and hasattr(kind, "__getattr__"):
            followed = False
        if not followed or (name.startswith("__") and name.endswith("__") and name not in _COMMON):
            self.effect(f"{kind.__name__}.{name}", "how the attribute is found is not followed")
        value = self.value_of(owner, name, found)
        known = self._known.get(id(owner))
        if known is not None:
            return self.read(value, self.guards.child(known[1], "attribute", name))
        if name in own or isinstance(found, types.MemberDescriptorType) or issubclass(kind, tuple):
            return self.trace.capture(value) if type(value) is xp.ndarray else value  # the object is the trace's own
        if type(value) is types.MethodType:
            self.class_member(kind, name, getattr(kind, name))
            self._known[id(value.__func__)] = value.__func__, self.guards.constant(value.__func__)
            return value
        return self.read(value, self.guards.child(self.guards.constant(kind), "attribute", name))

    def _getattr(self, owner: Any, name: str, *default: Any) -> Any:
        if type(name) is not str:
            self.effect(f"a {type(name).__name__}", "it is the name of an attribute, and may be another one")
        try:
            return self.attribute(owner, name)
        except AttributeError:
            if not default:
                raise
            self._missing(owner, name)
            return default[0]

    def _missing(self, owner: Any, name: str) -> None:
        """Guard that an object has no such attribute; what the getter of a property reads is guarded already.

        An attribute of an object that was there before is missing, too, where it is a slot without a value.
        """
        place = self.place_of(self._itself(owner)) if isinstance(owner, xp.ndarray) else None
        if place is not None:
            bare = self.guards.child(self.guards.constant(xp.ndarray), "without", (place, name))
            if bare.guard is None:
                self.guards.require(bare, "bare", (place, name))
        known, found = self._known.get(id(owner)), found_in(type(owner), name)
        is_slot = isinstance(found, types.MemberDescriptorType) and known is not None
        if is_plain(owner) or (found is not None and not is_slot):
            return
        of = self.guards.constant(owner if isinstance(owner, type | types.ModuleType) else type(owner))
        missing = self.guards.child(of if known is None else known[1], "without", name)
        if missing.guard is None:
            self.guards.require(missing, "missing", name)

    def set_attribute(self, value: Any, owner: Any, name: str) -> None:
        """Assign to an attribute; an object that was there before gets plain numbers."""
        if not isinstance(owner, type | LazyArray | xp.ndarray | types.ModuleType):
            self.class_member(type(owner), "__setattr__", type(owner).__setattr__)
        self._of_an_array(owner, name)
        found = found_in(type(owner), name)
        if hasattr(type(found), "__set__") and not isinstance(found, types.MemberDescriptorType) \
                and not isinstance(owner, LazyArray):
            self.effect(f"{type(owner).__name__}.{name}", "how it is assigned is not followed")
        settled = self.deeply(value) if isinstance(owner, LazyArray | xp.ndarray) else self._settled(value, owner)
        super().set_attribute(settled, owner, name)

    def target(self, owner: Any, name: str | None = None) -> Any:
        """Return what stands for an object of which Python changes an attribute or element by itself."""
        self._of_an_array(owner, name)
        return super().target(owner, name)

    def _of_an_array(self, owner: Any, name: str | None) -> None:
        if isinstance(owner, xp.ndarray) and name is not None and not hasattr(LazyArray, name):
            self.effect(f"{name} of an array", "how it is assigned is not followed")

    def _settled(self, value: Any, owner: Any) -> Any:
        return self.trace.tape.fix(value) if id(owner) in self._known else value
