"""The arrays and numbers of a call, taken out of lists, tuples and dicts, for calls that are like one.

A plan that is run again and again looks at the arguments first.  Machine code compares arrays and numbers; what holds
them, and simple values beside them, a function in Python compares that is made of one call.  It finds arguments alike
where their keys (`tl_dpnp.graph.keys.CallKey`) are, but for what keys have of arrays and numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from tl_dpnp.graph.keys import BY_IDENTITY, BY_VALUE
from tl_dpnp.graph.traced_scalars import TRACED_KINDS
from tl_dpnp.runtime.array_package import Content, xp

__all__ = ["Unpack", "unpacking"]

#: Returns the arrays and numbers of the arguments of a call, in the order of its key; None for another kind of call.
Unpack = Callable[[tuple[Any, ...]], "tuple[Any, ...] | None"]

#: Values that a key has in a way of its own, so that calls with them are not found by this.
_OTHERS = (range, slice, np.generic, np.dtype, Content)


def unpacking(arguments: Sequence[Any]) -> Unpack | None:
    """Return what unpacks the arguments of calls like one; None where a value in them cannot be compared here."""
    writer = _Writer()
    return writer.written(arguments) if writer.sequence("arguments", tuple, arguments) else None


@functools.lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    return compile(text, "<arguments>", "exec")


class _Writer:
    """Writes the function; what is expected are constants of it."""

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self.lines: list[str] = []
        self.leaves: list[str] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.variables)}"
        self.variables[name] = value
        return name

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def sequence(self, name: str, kind: type, values: Sequence[Any]) -> bool:
        """Require a sequence of a class whose elements are alike; returns whether that can be said of all of them."""
        self.require(f"type({name}) is {kind.__name__} and len({name}) == {len(values)}")
        return self.elements(name, values)

    def elements(self, source: str, values: Sequence[Any]) -> bool:
        """Give names to what `source` yields, and require all of that."""
        names = [f"{source.partition('.')[0]}_{number}" for number in range(len(values))]
        if names:
            self.lines.append(f"{', '.join(names)}, = {source}")
        return all(self.value(name, value) for name, value in zip(names, values, strict=True))

    def value(self, name: str, value: Any) -> bool:
        """Require what a key has of a value, which has a name."""
        kind = type(value)
        if kind is xp.ndarray or kind in TRACED_KINDS:
            self.require(f"type({name}) is {self.constant(kind)}")
            self.leaves.append(name)
        elif kind in BY_VALUE:
            self.require(f"type({name}) is {self.constant(kind)} and {name} == {self.constant(value)}")
        elif kind is list or kind is tuple:
            return self.sequence(name, kind, value)
        elif kind is dict:
            if any(type(key) is not str for key in value):
                return False
            self.require(f"type({name}) is dict and tuple({name}) == {self.constant(tuple(value))}")
            return self.elements(f"{name}.values()", list(value.values()))
        elif isinstance(value, BY_IDENTITY):
            self.require(f"{name} is {self.constant(value)}")
        elif isinstance(value, _OTHERS):
            return False
        else:
            self.require(f"type({name}) is {self.constant(kind)}")
        return True

    def written(self, arguments: Sequence[Any]) -> Unpack:
        """Return the function: what another thread changes in between is another kind of call."""
        found = f"return {', '.join(self.leaves)}," if self.leaves else "return ()"
        lines = ["def unpack(arguments):", "    try:", *(f"        {line}" for line in [*self.lines, found]),
                 "    except (ValueError, RuntimeError):", "        return None"]
        exec(_code("\n".join(lines)), self.variables)
        unpack: Unpack = self.variables["unpack"]
        return unpack
