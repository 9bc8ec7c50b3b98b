"""Numbers that may change from call to call: they are arguments of kernels, and so is what is computed from them.

A `TracedFloat` is a float to everything that looks at it, a `TracedInteger` an int, a `TracedComplex` a complex number,
and each type of NumPy's numbers has such a class as well.  Arithmetic with other numbers is written down and done again
at each call; any other use fixes its value: the plan then holds for calls with that value only.  C code takes the value
of an int, of complex and NumPy's numbers, or of one that meets a float, without a word, so the hooks of traced code
(`tl_dpnp.graph.observation`) do such arithmetic here, and fix all but floats before anything else gets them.

Kernels are given the parts of a complex number, which are numbers of their own: the two behind it.

What dpnp does with an integer depends on the types that have its value, so those of one `bucket` share a plan.
"""

from __future__ import annotations

import operator
import weakref
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tl_dpnp.records import dataclass

__all__ = [
    "GIVEN", "NUMPY_KINDS", "OF_COMPLEX", "OPERANDS", "REPLAY_ERRORS", "SILENT", "TRACED", "TRACED_COMPLEX",
    "TRACED_FLOATS", "TRACED_INTEGERS", "TRACED_KINDS", "ScalarTape", "TracedComplex", "TracedFloat", "TracedInteger",
    "bucket", "plain",
]

#: A number of a call, or a function of numbers: (whether it is a position, the position or the number) for each.
Entry = tuple[Callable[..., float], tuple[tuple[bool, Any], ...]] | None
#: Where the ranges of integer types begin and end, and those of integers that are exact in f64.
_LIMITS = sorted({-(1 << 53), 0, (1 << 53) + 1, *(
    limit for bits in (8, 16, 32, 64) for limit in (-(1 << (bits - 1)), 1 << (bits - 1), 1 << bits))})
#: The integers that kernels are given: those that are exact in f64.
_SMALLEST, _LARGEST = -(1 << 53), 1 << 53


def bucket(value: float) -> int:
    """Return a number that integers, of Python or NumPy, share which all types either have or lack."""
    return bisect_right(_LIMITS, int(value))


@dataclass
class ScalarTape:
    """The numbers of one trace: `values` by position, and where they come from, in traces that may leave a plan.

    A plan depends on the values of those that are `fixed`, and on the buckets of `integers`, which kernels are given.
    It `has_traced` numbers if somebody may still hold some, and `has_silent` ones if C code takes the value of some
    without a word.
    """

    values: list[float] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    integers: set[int] = field(default_factory=set)
    has_traced: bool = False
    has_silent: bool = False
    _changing: list[tuple[int, Entry]] | None = None
    _warns: bool = False
    _others: list[weakref.ref[Any]] = field(default_factory=list)
    _integers: list[Any] = field(default_factory=list)

    def left(self) -> list[Any]:
        """Return the numbers that somebody may still hold: integers have no weak references, so the tape holds them."""
        if not self.has_traced:
            return []
        return [*(number for reference in self._others if (number := reference()) is not None), *self._integers]

    def let_go(self) -> None:
        """Forget the numbers themselves; their values stay."""
        self._others.clear()
        self._integers.clear()
        self.has_traced = False

    def given(self, value: float) -> Any:
        """Return a number that each call gives, in the order in which this is called."""
        return self._add(value, None)

    def fixed_number(self, value: float) -> Any:
        """Return a number that is the same at each call."""
        return self._add(value, (type(value), ((False, value),)))

    def derived(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Return ``function(*operands)``, to be done again at each call where an operand may change."""
        value = function(*map(plain, operands))
        if type(value) not in TRACED_KINDS:
            for operand in operands:
                self.fix(operand)
            return value
        parts = tuple((True, o.position) if type(o) in TRACED else (False, o) for o in operands)
        return self._add(value, (function, parts))

    def fix(self, value: Any) -> Any:
        """Return a number as a plain one, whose value the plan depends on from now on."""
        if type(value) not in TRACED:
            return value
        if value.tape is self:
            self.fixed.add(value.position)
        return plain(value)

    def fix_all(self, value: Any, kinds: Collection[type]) -> Any:
        """Return a value with plain numbers for those of some kinds, also in lists, tuples, dicts and slices."""
        kind = type(value)
        if kind in kinds:
            return self.fix(value)
        if kind is tuple or kind is list:
            return kind([self.fix_all(part, kinds) for part in value])
        if kind is dict:
            return {key: self.fix_all(part, kinds) for key, part in value.items()}
        if kind is slice:
            return slice(*[self.fix_all(part, kinds) for part in (value.start, value.stop, value.step)])
        return value

    def operand(self, value: Any) -> int | None:
        """Return the position of a number that becomes an operand of dpnp; None for an integer that is too large."""
        if type(value) in TRACED_INTEGERS:
            if not _SMALLEST <= int(plain(value)) <= _LARGEST:
                return None
            self.integers.add(value.position)
        position: int = value.position
        return position

    def _add(self, value: float, entry: Entry) -> Any:
        kind = TRACED_KINDS[type(value)]
        result = kind(value)
        if kind is TracedInteger:
            self._integers.append(result)
        else:
            self._others.append(weakref.ref(result))
        self.has_traced = True
        self.has_silent = self.has_silent or kind is not TracedFloat
        result.tape, result.position = self, len(self.values)
        self.values.append(value)
        self.entries.append(entry)
        if kind in TRACED_COMPLEX:
            for part in OF_COMPLEX.values():
                self.values.append(part(value))
                self.entries.append((part, ((True, result.position),)))
        return result

    def replay(self, given: Sequence[float]) -> list[float]:
        """Return the values of another call from the numbers that it gives.

        Raises what arithmetic raises, `REPLAY_ERRORS`, and that also where NumPy's would warn.
        """
        if self._changing is None:
            self._changing = [(place, entry) for place, entry in enumerate(self.entries)
                              if entry is None or any(is_position for is_position, _ in entry[1])]
            self._warns = any(entry is not None and type(self.values[place]) in NUMPY_KINDS
                              for place, entry in self._changing)
        if not self._warns:
            return self._replayed(self._changing, given)
        with np.errstate(over="raise", divide="raise", invalid="raise"):
            return self._replayed(self._changing, given)

    @property
    def has_derived(self) -> bool:
        """Whether a number is computed from those that a call gives."""
        return any(entry is not None and any(is_position for is_position, _ in entry[1]) for entry in self.entries)

    def _replayed(self, changing: Sequence[tuple[int, Entry]], given: Sequence[float]) -> list[float]:
        numbers = iter(given)
        values = self.values.copy()
        for place, entry in changing:
            value = values[place] = next(numbers) if entry is None else entry[0](
                *[values[operand] if is_position else operand for is_position, operand in entry[1]]
            )
            if type(value) is not type(self.values[place]):
                raise ArithmeticError("a number has become another kind of number")
        return values


class TracedFloat(float):
    """A float that may be another one at the next call."""

    tape: ScalarTape
    position: int


class TracedInteger(int):
    """An int that may be another one at the next call."""

    tape: ScalarTape
    position: int


class TracedComplex(complex):
    """A complex number that may be another one at the next call."""

    tape: ScalarTape
    position: int


#: Floats of Python and NumPy.
FLOATS = frozenset((float, np.float16, np.float32, np.float64))
COMPLEX: frozenset[type] = frozenset((complex, np.complex64, np.complex128))
#: What kernels are given also where it is a constant: all values share a kernel.
GIVEN = FLOATS | COMPLEX
_NUMPY_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
#: NumPy's types of numbers that may change from call to call.
NUMPY_KINDS: frozenset[type] = FLOATS.union(COMPLEX, _NUMPY_INTEGERS) - {float, complex}
#: The types of numbers that may change from call to call, each with the class that stands for it.
TRACED_KINDS: dict[type, Any] = {
    float: TracedFloat, int: TracedInteger, complex: TracedComplex,
    **{kind: type(f"Traced{kind.__name__.title()}", (kind,), {}) for kind in NUMPY_KINDS},
}
for _kind, _traced in TRACED_KINDS.items():  # errors of functions in C name the type
    _traced.__name__ = f"numpy.{_kind.__name__}" if _kind in NUMPY_KINDS else _kind.__name__
TRACED: frozenset[Any] = frozenset(TRACED_KINDS.values())
TRACED_FLOATS: frozenset[Any] = frozenset(TRACED_KINDS[kind] for kind in FLOATS)
TRACED_COMPLEX: frozenset[Any] = frozenset(TRACED_KINDS[kind] for kind in COMPLEX)
TRACED_INTEGERS = TRACED - TRACED_FLOATS - TRACED_COMPLEX
#: Those whose value C code takes without a word.
SILENT = TRACED - {TracedFloat}
#: What a replay raises where the function itself would raise an error or warn.
REPLAY_ERRORS = (ArithmeticError, ValueError, Warning)
#: Numbers whose arithmetic is that of Python and NumPy.
OPERANDS = frozenset((bool, np.bool_, *TRACED_KINDS, *TRACED))


#: What is written down of the attributes of complex numbers.
OF_COMPLEX: dict[str, Callable[[Any], Any]] = {name: operator.attrgetter(name) for name in ("real", "imag")}


def plain(value: Any) -> Any:
    """Return a number without what is known of where it comes from."""
    return value.tape.values[value.position] if type(value) in TRACED else value


def _arithmetic(kind: Any, name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: Any, *others: Any) -> Any:
        if any(type(other) not in OPERANDS for other in others):
            if any(hasattr(other, "__array_ufunc__") or hasattr(other, "sycl_queue") for other in others):
                return NotImplemented  # an array's operator records the number
            return getattr(kind, f"__{'r' if reflected else ''}{name.strip('_')}__")(self.tape.fix(self), *others)
        return self.tape.derived(function, (*others, self) if reflected else (self, *others))

    return method


def _fixing(kind: Any, name: str) -> Callable[..., Any]:
    original = getattr(kind, name)

    def method(self: Any, *others: Any) -> Any:
        for other in others:
            if type(other) in TRACED:
                other.tape.fix(other)
        return original(self.tape.fix(self), *map(plain, others))

    return method


def _equip(kind: Any, arithmetic: str, unary: str, fixing: str, methods: str = "") -> None:
    """Give the class that stands for a type of numbers what the type has; `fixing` may be more than that."""
    traced = TRACED_KINDS[kind]
    for name in arithmetic.split():
        setattr(traced, f"__{name.strip('_')}__", _arithmetic(kind, name, False))
        setattr(traced, f"__r{name.strip('_')}__", _arithmetic(kind, name, True))
    for name in unary.split():
        setattr(traced, f"__{name}__", _arithmetic(kind, name, False))
    for name in (*(f"__{name}__" for name in fixing.split()), *methods.split()):
        if hasattr(kind, name):
            setattr(traced, name, _fixing(kind, name))
    traced.__reduce__ = lambda self: (kind, (plain(self),))
    traced.__copy__ = lambda self: self
    traced.__deepcopy__ = lambda self, memo: self


_COMPLEX = "add sub mul truediv pow"
_FLOATS = f"{_COMPLEX} floordiv mod"
_INTEGERS = f"{_FLOATS} lshift rshift and_ or_ xor"
_COMMON = "eq ne lt le gt ge bool hash repr format round divmod rdivmod str"
_equip(float, _FLOATS, "neg pos abs", f"{_COMMON} trunc floor ceil int", "is_integer hex as_integer_ratio conjugate")
_equip(int, _INTEGERS, "neg pos abs invert", f"{_COMMON} trunc floor ceil int float index",
       "bit_length bit_count as_integer_ratio conjugate to_bytes")
_equip(complex, _COMPLEX, "neg pos abs", f"{_COMMON} complex", "conjugate")
for _kind in NUMPY_KINDS:
    _whole = issubclass(_kind, np.integer)
    _operators = _INTEGERS if _whole else _FLOATS if _kind in FLOATS else _COMPLEX
    _equip(_kind, _operators, "neg pos abs invert" if _whole else "neg pos abs",
           f"{_COMMON} int float complex array{' index' if _whole else ''}", "item tolist conjugate")
