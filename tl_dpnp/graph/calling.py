"""Calls of single functions outside of fused functions, for `tl_dpnp.xp`."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable
from typing import Any

from tl_dpnp.graph.fused import fuse
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.namespace import NAMESPACE, Namespace, recording
from tl_dpnp.graph.operations import RECORDERS
from tl_dpnp.graph.trace import active_trace
from tl_dpnp.runtime.array_package import xp

__all__ = ["function_of", "public_names"]

#: Kinds of arguments that a single function is compiled for before further ones run in dpnp.
_KINDS = 64
#: The global variables of functions that stand for a user's: those of this package are not followed.
_USER = {"__name__": "xp", "__builtins__": builtins}


def public_names() -> list[str]:
    """Return the names that dpnp has."""
    return dir(xp)


def function_of(name: str) -> Any:
    """Return what `tl_dpnp.xp` has under a name of dpnp; raises `AttributeError` if dpnp has no such name."""
    return _version(getattr(NAMESPACE, name), name)


def _version(value: Any, name: str) -> Any:
    if isinstance(value, Namespace):
        return _Module(value, name)
    if not callable(value) or isinstance(value, type):
        return value
    return _called(name, value.__wrapped__) if name in RECORDERS else value


def _called(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is recorded where there is a trace, and fused by itself where there is none."""
    recorded = recording(name, function)
    alone: Any = None

    def call(*arguments: Any, **keywords: Any) -> Any:
        nonlocal alone
        if active_trace() is not None or any(type(argument) is LazyArray for argument in arguments):
            return recorded(*arguments, **keywords)
        if alone is None:
            def single(*arguments: Any, **keywords: Any) -> Any:
                return function(*arguments, **keywords)

            followed = types.FunctionType(single.__code__, _USER, name, None, single.__closure__)
            followed.__qualname__ = f"tl_dpnp.xp.{name}"
            alone = fuse(followed, recompile_limit=_KINDS)
        return alone(*arguments, **keywords)

    return functools.wraps(recorded)(call)


class _Module(types.ModuleType):
    """A submodule of dpnp, such as linalg."""

    def __init__(self, namespace: Namespace, name: str) -> None:
        super().__init__(namespace.__name__, namespace.__doc__)
        self._namespace, self._name = namespace, name

    def __getattr__(self, name: str) -> Any:
        value = _version(getattr(self._namespace, name), f"{self._name}.{name}")
        self.__dict__[name] = value
        return value
