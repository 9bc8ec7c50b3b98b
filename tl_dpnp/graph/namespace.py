"""Recording versions of dpnp's functions and of the operators and methods of its arrays.

`Namespace` stands for the module dpnp, or one of its submodules, inside a recorded function.  Nothing in dpnp itself is
changed.
"""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from tl_dpnp.errors import TLTypeError
from tl_dpnp.graph.assignments import assign_item
from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.operations import RECORDERS
from tl_dpnp.graph.purity import dpnp_name
from tl_dpnp.graph.trace import Trace, active_trace, this_thread
from tl_dpnp.runtime.array_package import reverses_floor_division, settles_in_place, takes_over_numpy, xp
from tl_dpnp.runtime.package_name import NAME

__all__ = [
    "Namespace", "NAMESPACE", "RECORDED_OPERATORS", "REFLECTED_OPERATORS", "dispatch", "recorded_version", "recording",
]

#: Functions whose result has a shape that depends on values, or that are run for what they do besides.
_BY_VALUE = frozenset(
    "nonzero argwhere flatnonzero unique extract compress trim_zeros repeat save savez savetxt array_equal allclose "
    "array_equiv histogram bincount digitize".split()
)
#: Functions that ask an array for something else than elements.
_ASKING: dict[str, Callable[..., Any]] = {
    "shape": lambda a: a.shape,
    "ndim": lambda a: a.ndim,
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "result_type": lambda *xs: xp.result_type(*[x.dtype if type(x) is LazyArray else x for x in xs]),
    "isscalar": lambda element: False,
    **dict.fromkeys(("get_usm_ndarray", "get_usm_ndarray_or_scalar"), lambda a: a.get_array()),
}
_QUIET = frozenset("zeros ones empty full arange linspace eye identity array asarray".split())


def dispatch(name: str, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Record a call of dpnp, or call dpnp itself where there is no trace or the call cannot be recorded."""
    trace = active_trace()
    if trace is None:
        trace = _trace_of(arguments)
        if trace is None:
            return function(*arguments, **keywords)
    known = None if keywords else trace.repeat(name, arguments)
    return _dispatch(trace, name, function, arguments, keywords) if known is None else known


def _dispatch(
    trace: Trace, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Record a call of dpnp that is no repeated one, or leave it to dpnp."""
    _take_in(trace, arguments, keywords)
    if name in _ASKING and type(next(iter((*arguments, *keywords.values())), None)) is LazyArray:
        return _ASKING[name](*arguments, **keywords)
    try:
        return _record(trace, name, _recorder(name, function), f"{NAME}.{name} is not fused", arguments, keywords)
    except NotFused as problem:
        if name not in _QUIET:
            by_value = name in _BY_VALUE or (name == "where" and len(arguments) == 1)
            trace.note(name, problem.reason, problem.hint, again=by_value)
    return leave(trace, name, function, arguments, keywords)


def _take_in(trace: Trace, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Have the containers among the arguments observed: what is in them is read here, and not by code with hooks."""
    if trace.observed and trace.interceptor is not None:
        trace.interceptor.take_in(arguments)
        trace.interceptor.take_in(keywords)


@functools.cache
def _recorder(name: str, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return what records calls of a dpnp function, None if nothing does; it takes no arguments that dpnp refuses."""
    recorder = RECORDERS.get(name)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # it has none
        return recorder
    if recorder is None:
        return None

    def checked(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        signature.bind(*arguments, **keywords)
        return recorder(trace, *arguments, **keywords)

    return checked


def _record(
    trace: Trace, name: str, recorder: Callable[..., Any] | None, unknown: str, arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """Record an operation; raises `NotFused`, with the reason `unknown` where there is no recorder.

    What a recorder cannot take, such as an array for an axis, is dpnp's to refuse, or to take after all.
    """
    if recorder is None:
        raise NotFused(unknown)
    try:
        return trace.record(name, recorder, arguments, keywords)
    except (TypeError, ValueError, LookupError, ArithmeticError) as problem:
        raise NotFused(f"the arguments do not fit ({type(problem).__name__})") from None


def leave(
    trace: Trace, name: str, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """Call dpnp itself and take its result into the trace."""
    try:
        result = trace.call(function, name, arguments, keywords)
    except TypeError as error:
        if takes_over_numpy and any(isinstance(value, np.ndarray) for value in (*arguments, *keywords.values())):
            raise TLTypeError(f"{error}: convert it by {NAME}.asarray(array)") from error
        raise
    if not _only_arrays(result):
        trace.note(name, "what it returns is no array, and may depend on values", again=True)
    out = keywords.get("out")
    return out if isinstance(out, xp.ndarray) else result


def _only_arrays(result: Any) -> bool:
    if isinstance(result, list | tuple):
        return all(map(_only_arrays, result))
    return result is None or isinstance(result, xp.ndarray)


def _trace_of(values: Any) -> Any:
    for value in values:
        if type(value) is LazyArray:
            return value._trace
        if isinstance(value, list | tuple):
            found = _trace_of(value)
            if found is not None:
                return found
    return None


@functools.cache
def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the recording version of a dpnp function."""

    def recorded(*arguments: Any, **keywords: Any) -> Any:
        if keywords or (trace := this_thread.trace) is None:
            return dispatch(name, function, arguments, keywords)
        known = trace.repeat(name, arguments)
        return _dispatch(trace, name, function, arguments, keywords) if known is None else known

    recorded.__name__ = recorded.__qualname__ = name.rpartition(".")[2]
    recorded.__doc__ = getattr(function, "__doc__", None)
    recorded.__wrapped__ = function  # type: ignore[attr-defined]
    for attribute in dir(function) if not isinstance(function, types.FunctionType) else ():  # such as dpnp.add.outer
        if not attribute.startswith("_"):
            value = getattr(function, attribute)
            setattr(recorded, attribute, recording(f"{name}.{attribute}", value) if callable(value) else value)
    return recorded


def recorded_version(function: Any) -> Callable[..., Any] | None:
    """Return the recording version of one of dpnp's functions, None for anything else."""
    version = _versions.get(id(function))
    if version is None:
        name = dpnp_name(function)
        version = None if name is None else _versions.setdefault(id(function), recording(name, function))
    return version


_versions: dict[int, Callable[..., Any]] = {}


class Namespace(types.ModuleType):
    """dpnp, or one of its submodules, with recording functions; everything else is passed through."""

    def __init__(self, module: types.ModuleType, prefix: str = "") -> None:
        super().__init__(module.__name__, module.__doc__)
        self._module = module
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        if isinstance(value, types.ModuleType):
            value = Namespace(value, f"{self._prefix}{name}.")
        elif callable(value) and not isinstance(value, type):
            value = recording(self._prefix + name, value)
        self.__dict__[name] = value
        return value

    def __dir__(self) -> list[str]:
        return dir(self._module)


NAMESPACE = Namespace(xp)


# --- operators and methods of lazy arrays ----------------------------------------------------------------------------

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "matmul": "matmul", "pow": "power",
    "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}
_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
                "ge": "greater_equal"}
#: The functions that operators of arrays are, by the names of the hook: those with an array on the left, and those of a
#: number and an array.
RECORDED_OPERATORS = {{"and": "and_", "or": "or_"}.get(symbol, symbol): name
                      for symbol, name in {**_OPERATORS, **_COMPARISONS}.items()}
REFLECTED_OPERATORS = {symbol: name for symbol, name in RECORDED_OPERATORS.items()
                       if symbol not in ("floordiv", *_COMPARISONS)}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "invert"}


def _binary(name: str, reflected: bool, in_place: bool) -> Callable[..., Any]:
    function = getattr(xp, name)

    def method(self: LazyArray, other: Any) -> Any:
        arguments = (other, self) if reflected else (self, other)
        result = dispatch(name, function, arguments, {"out": self} if in_place else {})
        return self if in_place else result

    return method


for _symbol, _name in _OPERATORS.items():
    setattr(LazyArray, f"__{_symbol}__", _binary(_name, False, False))
    is_in_order = _symbol == "floordiv" and reverses_floor_division
    setattr(LazyArray, f"__r{_symbol}__", _binary(_name, not is_in_order, False))
    if hasattr(xp.ndarray, f"__i{_symbol}__"):
        setattr(LazyArray, f"__i{_symbol}__", _binary(_name, False, True))
for _symbol, _name in _COMPARISONS.items():
    setattr(LazyArray, f"__{_symbol}__", _binary(_name, False, False))
for _symbol, _name in _UNARY.items():
    setattr(LazyArray, f"__{_symbol}__", recording(_name, getattr(xp, _name)))


def _method(name: str) -> Callable[..., Any]:
    """Return a method that is recorded as the function of its name, or else done by dpnp's own method."""
    plain = getattr(xp.ndarray, name)

    def method(self: LazyArray, *arguments: Any, **keywords: Any) -> Any:
        trace = self._trace
        _take_in(trace, arguments, keywords)
        try:
            unknown = f"the method {name} is not fused"
            return _record(trace, name, RECORDERS.get(name), unknown, (self, *_folded(name, arguments, keywords)),
                           keywords)
        except NotFused as problem:
            by_value = name in _BY_VALUE or _has_mask(arguments)
            trace.note(_SPOKEN.get(name, name), problem.reason, problem.hint, again=by_value)
        return leave(trace, name, plain, (self, *arguments), keywords)

    method.__name__ = name
    return method


#: What breaks are called in a report, where the name of the method says less.
_SPOKEN = {"__getitem__": "indexing"}


def _has_mask(arguments: tuple[Any, ...]) -> bool:
    """Return whether there is an array of truth values among the arguments: it may select any number of elements."""
    return any(
        isinstance(part, xp.ndarray) and part.dtype.kind == "b"
        for argument in arguments for part in (argument if isinstance(argument, tuple) else (argument,))
    )


def _folded(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a method as those of the function.

    Sizes and axes may come one by one, and copies by the method are in C order.
    """
    if name == "copy" and not arguments and not keywords:
        return ("C",)
    if name == "transpose":
        given = arguments[0] if len(arguments) == 1 else arguments
        return (None,) if given is None or given == () else (given if isinstance(given, tuple | list) else (given,),)
    if name == "reshape" and len(arguments) > 1:
        return (arguments,)
    return arguments


for _name in dir(xp.ndarray):
    if callable(getattr(xp.ndarray, _name)) and not _name.startswith("_") and _name not in vars(LazyArray):
        setattr(LazyArray, _name, _method(_name))


def _conjugate(self: LazyArray) -> Any:
    """Return the array itself where it has no imaginary parts, as dpnp's method does and its function does not."""
    return self if self.dtype.kind != "c" else _left_conjugate(self)


_left_conjugate = LazyArray.conj
LazyArray.conj = LazyArray.conjugate = _conjugate
LazyArray.__copy__ = LazyArray.copy
LazyArray.__getitem__ = _method("__getitem__")


def _setitem(self: LazyArray, key: Any, value: Any) -> None:
    trace = self._trace
    _take_in(trace, (key, value), {})
    try:
        assign_item(trace, self, key, value)
    except NotFused as problem:
        trace.note("assignment", problem.reason, problem.hint or f"use {NAME}.where")
        leave(trace, "setitem", operator.setitem, (self, key, value), {})


LazyArray.__setitem__ = _setitem


def _ufunc_of_numpy(self: LazyArray, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
    """Do what the package does for a ufunc of NumPy with its arrays: that is its own function of the name."""
    own = getattr(NAMESPACE, ufunc.__name__, None)
    if method != "__call__" or own is None:
        return self._array_obj.__array_ufunc__(ufunc, method, *inputs, **keywords)
    if isinstance(keywords.get("out"), tuple) and len(keywords["out"]) == 1:
        (keywords["out"],) = keywords["out"]
    return own(*inputs, **keywords)


def _function_of_numpy(self: LazyArray, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
    """Do what the package does for a function of NumPy with its arrays."""
    own: Any = NAMESPACE
    for name in (*function.__module__.split(".")[1:], function.__name__):
        own = getattr(own, name, None)
    if own is None:
        return self._array_obj.__array_function__(function, types, arguments, keywords)
    return own(*arguments, **keywords)


if takes_over_numpy:
    LazyArray.__array_ufunc__ = _ufunc_of_numpy  # type: ignore[assignment]
    LazyArray.__array_function__ = _function_of_numpy


def _part(name: str) -> property:
    """Return the attribute ``real`` or ``imag``: of complex numbers a view that is recorded, of others dpnp's own."""
    plain = getattr(xp.ndarray, name)

    def read(self: LazyArray) -> Any:
        if self.dtype.kind != "c" and settles_in_place:
            return plain.__get__(self)
        if self.dtype.kind != "c":
            return self if name == "real" else leave(self._trace, name, operator.attrgetter(name), (self,), {})
        trace = self._trace
        try:
            return _record(trace, f"ndarray.{name}", RECORDERS[f"ndarray.{name}"], "", (self,), {})
        except NotFused as problem:
            trace.note(f"{name} of an array", problem.reason, problem.hint)
        return leave(trace, f"ndarray.{name}", operator.attrgetter(name), (self,), {})

    def write(self: LazyArray, value: Any) -> None:
        if self.dtype.kind != "c" and settles_in_place:
            plain.__set__(self, value)
            return
        if self.dtype.kind != "c":
            leave(self._trace, name, lambda array, value: setattr(array, name, value), (self, value), {})
            return
        trace, target = self._trace, read(self)
        try:
            assign_item(trace, target, Ellipsis, value)
        except NotFused as problem:
            trace.note(f"assignment to {name}", problem.reason, problem.hint)
            leave(trace, "copyto", xp.copyto, (target, value), {})

    return property(read, write)


LazyArray.real, LazyArray.imag = _part("real"), _part("imag")
