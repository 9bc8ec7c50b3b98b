"""What rewritten code does without a trace, as after the end of one: what the code itself would do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

__all__ = ["OPERATORS", "PlainHooks"]

#: The operators by the names that hooks have for them.
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in
       "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift eq ne lt le gt ge is_ is_not".split()},
    **{name: getattr(operator, name) for name in
       "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift".split()},
    "in": lambda a, b: a in b,
    "not_in": lambda a, b: a not in b,
}


class PlainHooks:
    """Hooks that do what the code itself would do."""

    attribute = method = getattr
    item, slice = operator.getitem, slice

    @staticmethod
    def name(value: Any, *_: Any) -> Any:
        """Return what is given, as most of these do."""
        return value

    call = iterate = unpack = unpack_each = mapping = operand = shown = hashed = target = context = name

    @staticmethod
    def axis_size(owner: Any, axis: int) -> Any:
        """Return an element of the shape."""
        return owner.shape[axis]

    @staticmethod
    def assigned(value: Any, patterns: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what is assigned to each of several targets."""
        return (value,) * len(patterns)

    @staticmethod
    def define() -> Any:
        """Return a decorator of a class that does nothing."""
        return PlainHooks.name

    @staticmethod
    def binary(name: str, one: Any, other: Any) -> Any:
        """Return the result of an operator."""
        return OPERATORS[name](one, other)

    @staticmethod
    def set_attribute(value: Any, owner: Any, name: str) -> None:
        """Assign to an attribute."""
        setattr(owner, name, value)

    @staticmethod
    def set_item(value: Any, owner: Any, key: Any) -> None:
        """Assign to an element."""
        owner[key] = value

    @staticmethod
    def attribute_place(owner: Any, name: str) -> Any:
        """See `tl_dpnp.graph.interception.Interceptor`."""
        return PlainHooks.set_attribute, owner, name, getattr(owner, name)

    @staticmethod
    def item_place(owner: Any, key: Any) -> Any:
        """See `tl_dpnp.graph.interception.Interceptor`."""
        return PlainHooks.set_item, owner, key, owner[key]

    @staticmethod
    def change(place: Any, name: str, value: Any) -> None:
        """Change an attribute or element by an operator."""
        assign, owner, key, old = place
        assign(OPERATORS[name](old, value), owner, key)
