"""Containers from outside, and what traced code takes out of them: elements, views, iterators.

What stands for a container is the container itself, so that whoever changes it, or asks whether it is the same, meets
the one that was there before; its elements are looked at where they are taken out, one at a time, as Python does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tl_dpnp.graph.class_checks import TAKEN, runs_user_code
from tl_dpnp.graph.guards import Path
from tl_dpnp.graph.keys import BY_IDENTITY, CallKey
from tl_dpnp.graph.reading import CONTAINERS, Reader, is_object, is_plain
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import TRACED
from tl_dpnp.runtime.array_package import Content, xp
from tl_dpnp.runtime.package_name import NAME

__all__ = ["ContainerReader", "is_lazy_iterable", "is_named_tuple"]

#: Elements of containers that are looked at; more are not followed.
_MOST_ELEMENTS = 4096
_NONE: dict[Any, Any] = {}
_KEYS, _VALUES = type(_NONE.keys()), type(_NONE.values())


class ContainerReader(Reader):
    """What one trace has read from outside, containers included.

    `_views` are the views of dicts from outside that it has made, with their dicts.
    """

    def __init__(self, trace: Trace, key: CallKey) -> None:
        self._views: dict[int, tuple[Any, dict[Any, Any]]] = {}
        super().__init__(trace, key)

    def element(self, value: Any, path: Path, key: Any) -> Any:
        """Return what stands for an element of the container that a path leads to."""
        child = self.guards.child(path, "item", key)
        child.covered = path.covered and not is_object(value)
        return self.read(value, child)

    def elements(self, values: Any) -> Iterator[Any] | None:
        """Return an iterator over what stands for the elements of a container from outside, None if it is no such one.

        As Python's own iterators do, it sees what is added to a list meanwhile, and refuses a dict whose size changes.
        """
        known = self._known.get(id(values))
        if id(values) in self._views:
            view, owner = self._views[id(values)]
            return self._of_view(view, owner.items(), self._known[id(owner)][1])
        if known is None:
            return None
        if type(values) in (list, tuple) or is_named_tuple(type(values)):
            return self._numbered(enumerate(values), known[1])
        if type(values) is dict:
            self.deeply(values)
            return iter(values)
        return None

    def reversed_elements(self, values: Any) -> Iterator[Any] | None:
        """Return such an iterator that begins with the last element."""
        if id(values) in self._views:
            view, owner = self._views[id(values)]
            return self._of_view(view, reversed(owner.items()), self._known[id(owner)][1])
        known = self._known.get(id(values))
        if known is None or not (type(values) in (list, tuple) or is_named_tuple(type(values))):
            return None
        return self._numbered(zip(range(len(values) - 1, -1, -1), reversed(values), strict=False), known[1])

    def _numbered(self, values: Iterable[tuple[int, Any]], path: Path) -> Iterator[Any]:
        for number, value in values:
            yield self.element(value, path, number)

    def _of_view(self, view: Any, items: Iterable[tuple[Any, Any]], path: Path) -> Iterator[Any]:
        for key, value in items:
            if isinstance(view, _KEYS):
                yield key
            else:
                stands = self.element(value, path, key)
                yield stands if isinstance(view, _VALUES) else (key, stands)

    def view(self, name: str, owner: dict[Any, Any]) -> Any:
        """Return the view of a dict from outside that its method `name` gives."""
        view = getattr(owner, name)()
        self._views[id(view)] = view, owner
        return view

    def mapping(self, values: Any) -> Any:
        """Return what stands for a dict of keyword arguments."""
        known = self._known.get(id(values))
        if type(values) is not dict:
            self.effect(f"a {type(values).__name__}", "how it is unpacked is not followed")
        if type(values) is not dict or known is None:
            return values
        return {key: self.element(value, known[1], key) for key, value in values.items()}

    def containing(self, value: Any) -> None:
        """Note a container of a class of its own: how it finds its elements is not followed."""
        if isinstance(value, CONTAINERS) and type(value) not in CONTAINERS and not is_named_tuple(type(value)):
            self.effect(f"a {type(value).__name__}", "how it finds its elements is not followed")

    def is_followed(self, value: Any) -> bool:
        """Return whether all is known of what C code can do with a value."""
        kind = type(value)
        return (
            is_plain(value) or kind in CONTAINERS or is_named_tuple(kind) or id(value) in self._views
            or kind is xp.ndarray or (isinstance(value, BY_IDENTITY) and not runs_user_code(kind, TAKEN))
            or kind in (set, frozenset)  # those from outside are effects already
        )

    def deeply(self, value: Any) -> Any:
        """Take in all that a container from outside holds, by value; return what stands for a number."""
        kind = type(value)
        if kind in TRACED:
            return self.trace.tape.fix(value)
        if id(value) in self._views:
            self.deeply(self._views[id(value)][1])
        if kind not in CONTAINERS and not is_named_tuple(kind):
            self.containing(value)
            return value
        known = self._known.get(id(value))
        if known is not None:
            self._all_of(value, known[1], [_MOST_ELEMENTS])
        else:
            for part in value.values() if kind is dict else value:
                self.deeply(part)
        return value

    def take_in(self, value: Any) -> None:
        """Take in, by value, the containers from outside that a function of dpnp is given: it reads their numbers."""
        kind = type(value)
        if kind in CONTAINERS or is_named_tuple(kind) or id(value) in self._views:
            if id(value) in self._known or id(value) in self._views:
                self.deeply(value)
            else:
                for part in value.values() if kind is dict else value:
                    self.take_in(part)
        elif kind is slice:
            self.take_in((value.start, value.stop, value.step))
        elif not self.is_followed(value) and kind is not Content:
            self.effect(f"a {kind.__name__}", f"what {NAME} makes of it is not followed")

    def _all_of(self, value: Any, path: Path, left: list[int]) -> None:
        if id(value) in self._within:
            self.effect("a container", "it is in itself")
            return
        self._within.add(id(value))
        self._each_of(value, path, left)
        self._within.remove(id(value))

    def _each_of(self, value: Any, path: Path, left: list[int]) -> None:
        for key, part in value.items() if type(value) is dict else enumerate(value):
            left[0] -= 1
            if left[0] < 0:
                self.effect("a container", f"it has more than {_MOST_ELEMENTS} elements")
                return
            child = self.guards.child(path, "item", key)
            child.covered = path.covered and not is_object(part)
            if type(part) is xp.ndarray:
                if not path.covered:
                    self._waiting[id(part)] = part, child
                continue
            self.trace.tape.fix(self.element(part, path, key))
            if type(part) in CONTAINERS or is_named_tuple(type(part)):
                self._all_of(part, child, left)
            else:
                self.containing(part)


def is_named_tuple(kind: type) -> bool:
    """Return whether a class is a named tuple, made and iterated over as tuples are."""
    if not issubclass(kind, tuple) or not hasattr(kind, "_fields") or kind.__iter__ is not tuple.__iter__:
        return False
    made = getattr(kind.__new__, "__code__", None)
    return made is not None and made.co_filename.startswith("<")


def is_lazy_iterable(value: Any) -> bool:
    """Return whether a value is an iterator of Python's own."""
    return type(value).__module__ in ("builtins", "itertools") and hasattr(value, "__next__")
