"""What is known of code that is not the user's: which calls do nothing but return a value.

Everything that is not listed here is taken to do anything, so a function that calls it is traced at each call.
"""

from __future__ import annotations

import builtins
import collections
import functools
import inspect
import logging
import math
import operator
import sys
import traceback
import types
import warnings
from typing import Any

from tl_dpnp.runtime.array_package import xp

__all__ = [
    "CHANGING_METHODS", "OF_FRAMES", "PURE_TYPES", "dpnp_name", "is_pure_function", "is_user_class", "is_user_code",
    "is_user_module", "trusted",
]

#: Packages whose attributes are taken to stay what they are.
_TRUSTED = frozenset(
    "builtins dpnp cupy cupyx cupy_backends numpy math cmath operator functools itertools dpctl tl_dpnp".split())
#: Modules all of whose functions, written in C, only compute.
_PURE_MODULES = frozenset(("math", "cmath", "_operator", "operator", "itertools"))
_PURE_BUILTINS = frozenset(
    getattr(builtins, name) for name in
    "abs all any callable chr divmod format hasattr isinstance issubclass len max min ord pow round sorted sum".split()
) | {functools.reduce}
#: Types whose calls only convert or contain.
PURE_TYPES = frozenset((
    bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range, slice, enumerate, zip, reversed,
    map, filter, type, object,
))
#: Methods of containers that change them.
CHANGING_METHODS = frozenset(
    "append extend insert remove pop clear sort reverse update setdefault popitem add discard difference_update "
    "intersection_update symmetric_difference_update __setitem__ __delitem__ __iadd__ __imul__ __ior__".split()
)
_LOGGING = "debug info warning error exception critical log".split()
#: Functions that look at the frame that calls them: its variables, or the line that a message is from.
OF_FRAMES = frozenset((
    globals, vars, dir, breakpoint, sys._getframe, warnings.warn, collections.namedtuple,
    inspect.currentframe, inspect.stack, traceback.extract_stack, traceback.format_stack, traceback.print_stack,
    *(getattr(owner, name) for owner in (logging, logging.Logger, logging.LoggerAdapter) for name in _LOGGING),
))
_CHANGING_OPERATORS = frozenset(
    getattr(operator, name) for name in dir(operator)
    if name in ("setitem", "delitem") or (name.startswith("i") and hasattr(operator, name[1:]) and name != "is_")
)


def trusted(module: types.ModuleType) -> bool:
    """Return whether the attributes of a module are taken to stay what they are."""
    return module.__name__.partition(".")[0] in _TRUSTED


def is_pure_function(function: Any) -> bool:
    """Return whether a function written in C only computes from its arguments."""
    try:
        if function in _PURE_BUILTINS:
            return True
        return getattr(function, "__module__", None) in _PURE_MODULES and function not in _CHANGING_OPERATORS
    except TypeError:  # it has no hash
        return False


def is_user_code(function: types.FunctionType) -> bool:
    """Return whether a function is part of the user's program, and followed."""
    return is_user_module(function.__globals__)


def is_user_module(variables: dict[str, Any]) -> bool:
    """Return whether a module with such variables is part of the user's program."""
    package = (variables.get("__name__") or "").partition(".")[0]
    return package not in _TRUSTED and (package not in sys.stdlib_module_names or package in ("__main__", "test"))


def is_user_class(kind: type) -> bool:
    """Return whether a class is none of Python, NumPy and dpnp themselves, so that its methods may do anything."""
    return kind.__module__.partition(".")[0] not in _TRUSTED


def dpnp_name(value: Any) -> str | None:
    """Return the name that dpnp has for one of its functions, with ``linalg.`` and the like before it."""
    if not _names:
        for prefix, module in (("linalg.", xp.linalg), ("fft.", xp.fft), ("random.", xp.random), ("", xp)):
            for name, member in vars(module).items():
                if callable(member) and not isinstance(member, type) and not name.startswith("_"):
                    own = str(getattr(member, "__name__", None) or getattr(member, "name", ""))  # of CuPy's ufuncs
                    if id(member) not in _names or own.removeprefix("cupy_") == name:  # and no other one that it has
                        _names[id(member)] = prefix + name, member
    found = _names.get(id(value))
    return None if found is None else found[0]


_names: dict[int, tuple[str, Any]] = {}
MATHEMATICS = frozenset(value for value in vars(math).values() if callable(value))
