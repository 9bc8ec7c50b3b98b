"""Numbers that may change from call to call: they are arguments of kernels, and so is what is computed from them.

A `TracedFloat` is a float to everything that looks at it.  Arithmetic with other numbers is written down and done again
at each call; any other use fixes its value: the plan then holds for calls with that value only.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ScalarTape", "TracedFloat"]

#: A number of a call, or a function of numbers: (whether it is a position, the position or the number) for each.
Entry = tuple[Callable[..., float], tuple[tuple[bool, Any], ...]] | None


@dataclass
class ScalarTape:
    """The numbers of one trace: `values` by position, where they come from, and which of them are `fixed`."""

    values: list[float] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    fixed: set[int] = field(default_factory=set)
    _changing: list[tuple[int, Entry]] | None = None
    _left: list[weakref.ref[TracedFloat]] = field(default_factory=list)

    def left(self) -> list[TracedFloat]:
        """Return the numbers that somebody still holds."""
        return [number for reference in self._left if (number := reference()) is not None]

    def given(self, value: float) -> TracedFloat:
        """Return a number that each call gives, in the order in which this is called."""
        return self._add(value, None)

    def fixed_number(self, value: float) -> TracedFloat:
        """Return a number that is the same at each call."""
        return self._add(value, (float, ((False, value),)))

    def derived(self, function: Callable[..., float], operands: Sequence[Any]) -> float:
        """Return ``function(*operands)``, to be done again at each call where an operand may change."""
        value = function(*map(_plain, operands))
        if type(value) is not float:
            for operand in operands:
                self.fix(operand)
            return value
        parts = tuple((True, o.position) if type(o) is TracedFloat else (False, o) for o in operands)
        return self._add(value, (function, parts))

    def fix(self, value: Any) -> Any:
        """Return a number as a plain one, whose value the plan depends on from now on."""
        if type(value) is not TracedFloat:
            return value
        if value.tape is self:
            self.fixed.add(value.position)
        return float.__float__(value)

    def _add(self, value: float, entry: Entry) -> TracedFloat:
        result = TracedFloat(value)
        result.tape, result.position = self, len(self.values)
        self._left.append(weakref.ref(result))
        self.values.append(float(value))
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
            if type(value) is not float:
                raise ArithmeticError("a number has become another kind of number")
        return values


class TracedFloat(float):
    """A float that may be another one at the next call."""

    tape: ScalarTape
    position: int

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (_plain(self),)

    def __copy__(self) -> float:
        return self

    def __deepcopy__(self, memo: Any) -> float:
        return self


def _plain(value: Any) -> Any:
    return float.__float__(value) if type(value) is TracedFloat else value


def _arithmetic(name: str, reflected: bool) -> Callable[..., Any]:
    function = getattr(operator, name)

    def method(self: TracedFloat, *others: Any) -> Any:
        if any(type(other) not in (int, float, bool, TracedFloat) for other in others):
            if any(hasattr(other, "__array_ufunc__") or hasattr(other, "sycl_queue") for other in others):
                return NotImplemented  # an array's operator records the number
            return getattr(float, f"__{'r' if reflected else ''}{name}__")(self.tape.fix(self), *others)
        return self.tape.derived(function, (*others, self) if reflected else (self, *others))

    return method


def _fixing(name: str) -> Callable[..., Any]:
    plain = getattr(float, name)

    def method(self: TracedFloat, *others: Any) -> Any:
        for other in others:
            if type(other) is TracedFloat:
                other.tape.fix(other)
        return plain(self.tape.fix(self), *map(_plain, others))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(TracedFloat, f"__{_name}__", _arithmetic(_name, False))
    setattr(TracedFloat, f"__r{_name}__", _arithmetic(_name, True))
for _name in ("neg", "pos", "abs"):
    setattr(TracedFloat, f"__{_name}__", _arithmetic(_name, False))
for _name in ("eq ne lt le gt ge bool int hash repr format round trunc floor ceil divmod rdivmod").split():
    setattr(TracedFloat, f"__{_name}__", _fixing(f"__{_name}__"))
for _name in ("is_integer", "hex", "as_integer_ratio", "conjugate", "__str__"):
    setattr(TracedFloat, _name, _fixing(_name))
