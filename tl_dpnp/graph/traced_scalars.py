"""Numbers that may change from call to call: they are arguments of kernels, and so is what is computed from them.

A `TracedFloat` is a float to everything that looks at it, a `TracedInteger` an int.  Arithmetic with other numbers is
written down and done again at each call; any other use fixes its value: the plan then holds for calls with that value
only.  C code takes the value of an int, or of one that meets a float, without a word, so the hooks of traced code
(`tl_dpnp.graph.observation`) do such arithmetic here, and fix integers before anything else gets them.

What dpnp does with an integer depends on the types that have its value, so those of one `bucket` share a plan.
"""

from __future__ import annotations

import operator
import weakref
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TRACED", "ScalarTape", "TracedFloat", "TracedInteger", "bucket", "plain"]

#: A number of a call, or a function of numbers: (whether it is a position, the position or the number) for each.
Entry = tuple[Callable[..., float], tuple[tuple[bool, Any], ...]] | None
#: Where the ranges of integer types begin and end, and those of integers that are exact in f64.
_LIMITS = sorted({-(1 << 53), 0, (1 << 53) + 1, *(
    limit for bits in (8, 16, 32, 64) for limit in (-(1 << (bits - 1)), 1 << (bits - 1), 1 << bits))})
#: The integers that kernels are given: those that are exact in f64.
_SMALLEST, _LARGEST = -(1 << 53), 1 << 53


def bucket(value: int) -> int:
    """Return a number that integers share which all types either have or lack."""
    return bisect_right(_LIMITS, value)


@dataclass
class ScalarTape:
    """The numbers of one trace: `values` by position, and where they come from.

    A plan depends on the values of those that are `fixed`, and on the buckets of `integers`, which kernels are given.
    """

    values: list[float] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    integers: set[int] = field(default_factory=set)
    _changing: list[tuple[int, Entry]] | None = None
    _floats: list[weakref.ref[Any]] = field(default_factory=list)
    _integers: list[Any] = field(default_factory=list)

    def left(self) -> list[Any]:
        """Return the numbers that somebody may still hold: integers have no weak references, so the tape holds them."""
        return [*(number for reference in self._floats if (number := reference()) is not None), *self._integers]

    @property
    def has_integers(self) -> bool:
        """Whether there are integers that may be others at the next call."""
        return bool(self._integers)

    def let_go(self) -> None:
        """Forget the numbers themselves; their values stay."""
        self._floats.clear()
        self._integers.clear()

    def given(self, value: float) -> Any:
        """Return a number that each call gives, in the order in which this is called."""
        return self._add(value, None)

    def fixed_number(self, value: float) -> Any:
        """Return a number that is the same at each call."""
        return self._add(value, (type(value), ((False, value),)))

    def derived(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Return ``function(*operands)``, to be done again at each call where an operand may change."""
        value = function(*map(plain, operands))
        if type(value) is not float and type(value) is not int:
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
        if type(value) is TracedInteger:
            if not _SMALLEST <= value.tape.values[value.position] <= _LARGEST:
                return None
            self.integers.add(value.position)
        position: int = value.position
        return position

    def _add(self, value: float, entry: Entry) -> Any:
        result: Any
        if type(value) is float:
            result = TracedFloat(value)
            self._floats.append(weakref.ref(result))
        else:
            result = TracedInteger(value)
            self._integers.append(result)
        result.tape, result.position = self, len(self.values)
        self.values.append(plain(result))
        self.entries.append(entry)
        return result

    def replay(self, given: Sequence[float]) -> list[float]:
        """Return the values of another call from the numbers that it gives; raises ArithmeticError, ValueError."""
        if self._changing is None:
            self._changing = [(place, entry) for place, entry in enumerate(self.entries)
                              if entry is None or any(is_position for is_position, _ in entry[1])]
        numbers = iter(given)
        values = self.values.copy()
        for place, entry in self._changing:
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


TRACED = frozenset((TracedFloat, TracedInteger))
_NUMBERS = (int, float, bool, TracedFloat, TracedInteger)


def plain(value: Any) -> Any:
    """Return a number without what is known of where it comes from."""
    return (float.__float__(value) if type(value) is TracedFloat
            else int.__int__(value) if type(value) is TracedInteger else value)


def _arithmetic(kind: Any, name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: Any, *others: Any) -> Any:
        if any(type(other) not in _NUMBERS for other in others):
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


def _equip(kind: Any, traced: Any, arithmetic: str, unary: str, fixing: str, methods: str) -> None:
    """Give a traced kind of number what its kind of number has."""
    for name in arithmetic.split():
        setattr(traced, f"__{name.strip('_')}__", _arithmetic(kind, name, False))
        setattr(traced, f"__r{name.strip('_')}__", _arithmetic(kind, name, True))
    for name in unary.split():
        setattr(traced, f"__{name}__", _arithmetic(kind, name, False))
    for name in (*(f"__{name}__" for name in fixing.split()), *methods.split()):
        setattr(traced, name, _fixing(kind, name))
    traced.__reduce__ = lambda self: (kind, (plain(self),))
    traced.__copy__ = lambda self: self
    traced.__deepcopy__ = lambda self, memo: self


_COMMON = "eq ne lt le gt ge bool hash repr format round trunc floor ceil divmod rdivmod str"
_equip(float, TracedFloat, "add sub mul truediv floordiv mod pow", "neg pos abs", f"{_COMMON} int",
       "is_integer hex as_integer_ratio conjugate")
_equip(int, TracedInteger, "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor", "neg pos abs invert",
       f"{_COMMON} int float index", "bit_length bit_count as_integer_ratio conjugate to_bytes")
