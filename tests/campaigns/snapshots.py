"""The state of a module and of what its functions returned, as data that is equal if a program cannot tell it apart.

Objects are numbered as they are met, so identity and aliasing are a part of it; arrays have the numbers of those that
they share memory with.
"""

from __future__ import annotations

import collections
import ctypes
import enum
import functools
import types
from collections.abc import Sequence
from typing import Any

import dpnp
import numpy as np

from tests.graph.support import memory_of

__all__ = ["Snapshot", "difference", "is_among"]

_HIDDEN = ("fused", "random_array")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype, range)
#: Those that most values are of, which stand for themselves.
_CONSTANT = (bool, int, str, type(None))
#: Relative to the largest element; arrays of f64 may hold what was computed in f32.
_TOLERANCE = 1e-4


class Snapshot:
    """Collects the state of everything that can be reached; `same` unwraps fused functions."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module = module
        self.numbers: dict[int, int] = {}
        self.held: list[Any] = []
        self.arrays: list[tuple[int, tuple[int, int]]] = []

    def of(self, value: Any) -> Any:
        """Return the state of a value."""
        kind = type(value)
        if kind in _CONSTANT:
            return value
        if kind.__name__ == "FusedFunction":
            value, kind = value.function, types.FunctionType
        if isinstance(value, _PLAIN):
            return kind.__name__, _number(value) if isinstance(value, float | complex | np.inexact) else repr(value)
        if isinstance(value, enum.Enum):
            return kind.__name__, value.name
        if isinstance(value, types.ModuleType | types.BuiltinFunctionType | np.ufunc):
            return kind.__name__, value.__name__
        if isinstance(value, tuple) and not isinstance(value, dpnp.ndarray):
            return kind.__name__, [self.of(part) for part in value]
        if id(value) in self.numbers:
            return "seen", self.numbers[id(value)]
        self.numbers[id(value)] = len(self.numbers)
        self.held.append(value)
        return kind.__name__, self.numbers[id(value)], self._inside(value, kind)

    def _inside(self, value: Any, kind: type) -> Any:
        if isinstance(value, dpnp.ndarray):
            return self._array(value, kind)
        if isinstance(value, list | collections.deque):
            return [self.of(part) for part in value]
        if isinstance(value, dict):
            return [(self.of(key), self.of(part)) for key, part in value.items()]
        if isinstance(value, set | frozenset):
            return sorted(repr(self.of(part)) for part in value)
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.MethodType:
            return self.of(value.__func__), self.of(value.__self__)
        if kind is functools.partial:
            return [self.of(part) for part in (value.func, value.args, value.keywords)]
        if isinstance(value, type):
            if value.__module__ != self.module.__name__:
                return value.__qualname__
            members = {name: part for name, part in vars(value).items() if not name.startswith("__")}
            return [(name, self.of(part)) for name, part in members.items()]
        if isinstance(value, staticmethod | classmethod):
            return self.of(value.__func__)
        if isinstance(value, property):
            return self.of(value.fget)
        if kind.__module__.partition(".")[0] in ("dpnp", "dpctl"):
            return str(value)
        slots = [name for base in kind.__mro__ for name in vars(base).get("__slots__", ()) if hasattr(value, name)]
        state = {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}
        return [(name, self.of(part)) for name, part in state.items()]

    def _array(self, value: Any, kind: type) -> Any:
        if kind is not dpnp.ndarray:
            return "no plain array"
        memory = memory_of(value) if value.size else (0, 0)
        sharing = [number for number, (low, high) in self.arrays if memory[0] < high and low < memory[1]]
        self.arrays.append((self.numbers[id(value)], memory))
        return value.shape, str(value.dtype), value.usm_type, sharing, _elements(value)

    def _function(self, function: Any) -> Any:
        named = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        cells = {name: cell.cell_contents for name, cell in named
                 if not name.startswith("__tl_dpnp") and name not in ("__class__",)}
        own = function.__module__ == self.module.__name__
        parts = [self.of(function.__defaults__), self.of(function.__kwdefaults__)] if own else []
        return function.__name__, [(name, self.of(part)) for name, part in sorted(cells.items())] if own else [], parts

    def globals(self) -> Any:
        """Return the state of the module's variables."""
        return [(name, self.of(value)) for name, value in vars(self.module).items()
                if not name.startswith("__") and name not in _HIDDEN]


def _elements(array: Any) -> Any:
    """Return the elements, taken from where they are: the device is a CPU, and dpnp's own copy takes 0.2 ms."""
    usm = array.get_array()
    if not array.size or not array.sycl_device.is_cpu:
        return array.asnumpy()
    array.sycl_queue.wait()
    strides = tuple(stride * array.itemsize for stride in usm.strides)
    low, high = memory_of(array)
    place = memoryview((ctypes.c_char * (high - low)).from_address(low))
    return np.ndarray(array.shape, array.dtype, place, usm._pointer - low, strides).copy("K")


def _number(value: Any) -> Any:
    return np.complex128(value) if isinstance(value, complex | np.complexfloating) else np.float64(value)


def difference(plain: Any, fused: Any) -> str:
    """Return the first difference of two states in words, where it is before them; nothing if there is none."""
    kind = type(plain)
    if kind is not type(fused):
        return _unequal(plain, fused)
    if kind is list or kind is tuple:
        first = plain[0] if kind is tuple and plain and isinstance(plain[0], str) else None
        if len(plain) != len(fused) or (first in ("raised", "returned") and fused[0] != first):
            return _unequal(plain, fused)
        for number, (one, other) in enumerate(zip(plain, fused, strict=True)):
            if one is not other and (found := difference(one, other)):
                return f"/{first or number}{found}"
        return ""
    if kind is np.ndarray:
        return _of_arrays(plain, fused)
    if issubclass(kind, np.inexact):
        same = _close(np.asarray(plain), np.asarray(fused)) and _same_signs(plain, fused)
    else:
        same = plain == fused
    return "" if same else _unequal(plain, fused)


def is_among(fused: Any, plain: Any, others: Sequence[Any]) -> bool:
    """Return whether numbers of a state lie between those of states that rounding makes, or as far beyond; all else in
    it must be equal."""
    kind = type(plain)
    if difference(plain, fused) == "":
        return True
    if any(type(state) is not kind for state in (fused, *others)):
        return False
    if kind is list or kind is tuple:
        return {len(plain)} == {len(state) for state in (fused, *others)} and all(
            is_among(*parts, rest) for *parts, rest in zip(fused, plain, zip(*others, strict=True), strict=True))
    if kind is np.ndarray or issubclass(kind, np.inexact):
        states = [np.asarray(state) for state in (fused, plain, *others)]
        return len({(state.shape, state.dtype) for state in states}) == 1 and all(
            _is_between(*(part(state) for state in states)) for part in (np.real, np.imag))
    return False


def _is_between(fused: Any, *states: Any) -> bool:
    """Return whether real numbers lie between others, those of floats also as far beyond as these are apart."""
    low, high = np.minimum.reduce(states), np.maximum.reduce(states)
    if fused.dtype.kind not in "f":
        return bool(np.all((low <= fused) & (fused <= high)))
    with np.errstate(invalid="ignore"):
        beyond = high - low
        near = np.isclose(fused, states[0], rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
        return bool(np.all(near | ((low - beyond <= fused) & (fused <= high + beyond))))


def _unequal(plain: Any, fused: Any) -> str:
    return f": {_short(fused)} for {_short(plain)}"


def _same_signs(plain: Any, fused: Any) -> bool:
    """Return whether signs agree that a program can tell apart.

    The sign of a NaN means nothing, and it is that of whatever operand the processor took it from.  One part of a
    complex number may be the rounding of what cancelled, as large as the other part lets it be; nor does its sign then.
    """
    if isinstance(plain, np.complexfloating):
        pairs = [(a, b) for a, b in ((plain.real, fused.real), (plain.imag, fused.imag)) if a == 0 == b or np.isinf(a)]
        return all(np.isnan(a) or np.signbit(a) == np.signbit(b) for a, b in pairs)
    return bool(np.isnan(plain)) or bool(np.signbit(plain) == np.signbit(fused))


def _short(value: Any) -> str:
    if isinstance(value, tuple) and value[:1] == ("raised",):
        return f"raised {value[2:]}"
    return f"{value!r:.400}"


def _of_arrays(plain: Any, fused: Any) -> str:
    if plain.shape != fused.shape or plain.dtype != fused.dtype:
        return f": {fused.dtype} {fused.shape} for {plain.dtype} {plain.shape}"
    if plain.dtype.kind in "fc":
        same = plain.tobytes() == fused.tobytes() or _close(plain, fused)
    else:
        same = np.array_equal(plain, fused)
    return "" if same else f": values {fused.ravel()[:8]} for {plain.ravel()[:8]}"


def _close(plain: Any, fused: Any) -> bool:
    scale = 1 + float(np.max(np.abs(plain[np.isfinite(plain)]), initial=0))
    return bool(np.allclose(fused, plain, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True))
