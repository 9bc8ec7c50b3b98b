"""Running a function so that what it does is recorded.

The function itself is not changed: a copy of it runs, with the same code, whose globals and closure hold recording
versions of dpnp's modules and functions and lazy arrays for arrays.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import dpnp
from dpctl.tensor import usm_ndarray

from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.namespace import NAMESPACE, Namespace, recording
from tl_dpnp.graph.trace import Trace, TracedFloat

__all__ = ["dpnp_names", "lazy_arguments", "recording_copy"]


def dpnp_names() -> dict[int, str]:
    """Return dpnp's public functions by identity, with the names that they have there."""
    if not _names:
        for prefix, module in (("linalg.", dpnp.linalg), ("fft.", dpnp.fft), ("random.", dpnp.random), ("", dpnp)):
            for name, value in vars(module).items():
                if callable(value) and not isinstance(value, type) and not name.startswith("_"):
                    _names[id(value)] = prefix + name
    return _names


_names: dict[int, str] = {}


def _swapped(trace: Trace, value: Any) -> Any:
    """Return what stands for a variable's value in a recorded function."""
    if isinstance(value, types.ModuleType):
        if value is dpnp:
            return NAMESPACE
        if value.__name__.startswith("dpnp."):
            return Namespace(value, value.__name__.removeprefix("dpnp.") + ".")
        return value
    if type(value) is dpnp.ndarray:
        return trace.argument(value)
    name = dpnp_names().get(id(value)) if callable(value) else None
    return value if name is None else recording(name, value)


def recording_copy(trace: Trace, function: types.FunctionType) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return a copy of `function` that records into `trace`, and its globals."""
    variables = dict(function.__globals__)
    for name, value in function.__globals__.items():
        swapped = _swapped(trace, value) if name in _named(function.__code__) else value
        if swapped is not value:
            variables[name] = swapped
    cells = []
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:
            cells.append(cell)
            continue
        swapped = _swapped(trace, value)
        cells.append(cell if swapped is value else types.CellType(swapped))
    copy = types.FunctionType(function.__code__, variables, function.__name__, function.__defaults__, tuple(cells))
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy, variables


def _named(code: types.CodeType) -> set[str]:
    names = _all_names.get(code)
    if names is None:
        names = set(code.co_names).union(*(_named(c) for c in code.co_consts if isinstance(c, types.CodeType)))
        _all_names[code] = names
    return names


_all_names: dict[types.CodeType, set[str]] = {}


def lazy_arguments(trace: Trace, value: Any) -> Any:
    """Return an argument with lazy arrays for arrays and traced floats for floats, in lists, tuples and dicts too."""
    kind = type(value)
    if kind is dpnp.ndarray:
        return trace.argument(value)
    if kind is float:
        scalar = TracedFloat(value, len(trace.traced))
        trace.traced.append(scalar)
        return scalar
    if kind in (list, tuple):
        return kind([lazy_arguments(trace, part) for part in value])
    if kind is dict:
        return {key: lazy_arguments(trace, part) for key, part in value.items()}
    if kind is usm_ndarray:
        trace.argument(value)
    elif kind is LazyArray:
        return value
    return value
