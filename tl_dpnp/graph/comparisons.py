"""What runs where values are compared, are keys, or are asked for their text or truth value: methods of the user's too.

Code in C runs these where no code that is followed calls them, so a value that has such a method is an effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tl_dpnp.graph.class_checks import COMPARED, SHOWN, TAKEN, runs_user_code
from tl_dpnp.graph.containers import ContainerReader, is_lazy_iterable
from tl_dpnp.graph.interception import Interceptor
from tl_dpnp.graph.keys import BY_IDENTITY
from tl_dpnp.graph.reading import CONTAINERS, is_plain
from tl_dpnp.runtime.array_package import xp

__all__ = ["ComparisonWatcher", "is_known"]


class ComparisonWatcher(ContainerReader, Interceptor):
    """The hooks for values that are compared, shown or asked for their truth value."""

    def _comparing(self, value: Any, methods: frozenset[str] = COMPARED) -> None:
        """Take in a value of which, or of whose parts, some methods run: those for comparisons, or for texts."""
        if type(value) in CONTAINERS:
            for part in value.values() if type(value) is dict else value:
                self._comparing(part, methods)
        elif not is_known(value, methods):
            self.effect(f"a {type(value).__name__} in a container", "how it is compared is not followed")

    def _compared(self, value: Any) -> Any:
        """Return something iterable whose elements are compared or added by C code."""
        if is_lazy_iterable(value):
            return self._watched(value)
        if type(value) in CONTAINERS:
            self._comparing(value, TAKEN)
        return value

    def _watched(self, values: Any) -> Iterator[Any]:
        for value in values:
            self._comparing(value, TAKEN)
            yield value

    def operand(self, value: Any) -> Any:
        """Return what stands for an operand whose truth value, text or sign is asked for."""
        kind = type(value)
        if kind in CONTAINERS:
            self.deeply(value)
        elif not is_known(value, SHOWN):
            self.effect(f"a {kind.__name__}", "its truth value or text is asked for, and how it is found not followed")
        return super().operand(value)

    def shown(self, value: Any) -> Any:
        """Return what stands for a value whose text is asked for."""
        if type(value) in CONTAINERS:
            self._comparing(value, SHOWN)
        return super().shown(value)

    def hashed(self, value: Any) -> Any:
        """Return what stands for a key of a dict, or a list of the elements of a set."""
        self._comparing(value)
        return super().hashed(self.deeply(value))

    def _keyed(self, value: Any) -> Any:
        """Return what stands for a key, or for what has keys or elements of a set."""
        if is_lazy_iterable(value):
            return self._watched(value)
        self._comparing(list(value) if type(value) is dict else value)
        return value

    def _named(self, keywords: dict[str, Any]) -> dict[str, Any]:
        """Return the same, with a key function whose results are looked at: they are compared."""
        named = super()._named(keywords)
        key = named.get("key")
        if key is None:
            return named

        def compared(value: Any) -> Any:
            found = key(value)
            self._comparing(found)
            return found

        return {**named, "key": compared}


def is_known(value: Any, methods: frozenset[str]) -> bool:
    """Return whether some methods of a value are none of the user's, or those of a value that is what it is."""
    kind = type(value)
    return is_plain(value) or kind in (xp.ndarray, set, frozenset) or (
        isinstance(value, BY_IDENTITY) and not runs_user_code(kind, methods))
