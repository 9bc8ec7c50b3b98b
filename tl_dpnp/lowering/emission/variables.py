"""What a loop variable is while the body of its loop is emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from operator import add
from typing import NamedTuple, TypeAlias

from llvmlite import ir

from tl_dpnp.kernels.llvm import index, power_of_two
from tl_dpnp.lowering.nest import Derived, Index, Loop
from tl_dpnp.records import dataclass

__all__ = ["ANY_WIDTH", "Lanes", "Narrowest", "PerLane", "Variable", "Variables", "cuts_of", "distinct", "pieces",
           "pieces_of", "side_by_side", "with_last_filled"]


@dataclass(frozen=True)
class Lanes:
    """A variable of an explicit vector: its value in each lane, known at compile time."""

    values: tuple[int, ...]


def side_by_side(outer: Sequence[int], inner: Sequence[int]) -> tuple[Lanes, Lanes]:
    """Return the lanes of a vector that has all iterations of an inner loop for each of an outer one.

    Where there is no power of two of them, the last one is repeated.
    """
    first, second = ([*values, *[values[-1]] * (power_of_two(len(values)) - len(values))] for values in (outer, inner))
    return Lanes(tuple(value for value in first for _ in second)), Lanes((*second,) * len(first))


@dataclass(frozen=True)
class PerLane:
    """A variable that differs from lane to lane of the sub-group."""

    value: ir.Value


#: Known at compile time, the same for all lanes, one value for each lane of a vector, or one for each work-item.
Variable: TypeAlias = int | ir.Value | Lanes | PerLane


def distinct(variable: Variable) -> list[int]:
    """Return the values that the lanes of a vector have, each once."""
    assert isinstance(variable, Lanes)
    return [*dict.fromkeys(variable.values)]


def pieces_of(loop: Loop, width: int) -> list[tuple[int, ...]]:
    """Cut the iterations of a loop of known range into pieces of so many, of which the last one may have fewer."""
    iterations = loop.static_range
    assert iterations is not None
    return [tuple(iterations[first : first + width]) for first in range(0, len(iterations), width)]


class Narrowest(NamedTuple):
    """The least `lanes` of a vector, and whether a lane alone is a scalar: a complex number is a vector of two."""

    lanes: int = 1
    has_scalars: bool = True

    def covering(self, rest: int) -> int:
        """Return the lanes of what computes so many iterations."""
        return 1 if rest == 1 and self.has_scalars else max(power_of_two(rest), self.lanes)


#: Where vectors may be as narrow as they come.
ANY_WIDTH = Narrowest()


def pieces(
    count: int, width: int, reach: int | None = None, narrowest: Narrowest = ANY_WIDTH
) -> list[tuple[int, int]]:
    """Cut `count` iterations into vectors: full ones of `width` lanes, then smaller ones for the rest.

    The result lists first iteration and width of each.  With `reach`, the last vector may reach back over its
    predecessors and over that many iterations in front of the first one; they are then computed twice.  Where that is
    a vector at all, it is none that is narrower than the `narrowest`.
    """
    full = count // width * width
    result = [(start, width) for start in range(0, full, width)]
    rest = count - full
    if rest and reach is not None:
        covering = narrowest.covering(rest)
        if covering <= count + reach:
            return [*result, (count - covering, covering)]
    start = full
    while start < count:
        while width > count - start:
            width //= 2
        result.append((start, width))
        start += width
    return result


def with_last_filled(
    cuts: list[tuple[int, int]], width: int, narrowest: Narrowest = ANY_WIDTH
) -> list[tuple[int, int]]:
    """Make one vector of several at the end that are smaller than `width`, or of one that is too narrow.

    It goes on beyond the last iteration.
    """
    smaller = [cut for cut in cuts if cut[1] < width]
    rest = sum(lanes for _, lanes in smaller)
    if len(smaller) < 2 and (not rest or narrowest.covering(rest) <= rest):
        return cuts
    return [*cuts[: -len(smaller)], (smaller[0][0], narrowest.covering(rest))]


def cuts_of(
    count: int, width: int, reach: int | None, masked: bool, narrowest: Narrowest
) -> list[tuple[int, int]]:
    """Cut iterations as `pieces` does; those left over become one vector where lanes may be `masked`."""
    cuts = pieces(count, width, reach, narrowest)
    return with_last_filled(cuts, width, narrowest) if masked else cuts


@dataclass
class Variables:
    """The loop variables around the current place."""

    builder: ir.IRBuilder
    values: dict[str, Variable] = field(default_factory=dict)
    #: What variables that are known at run time only are multiples of, where that is more than 1.
    multiples: dict[str, int] = field(default_factory=dict)

    def total(self, names: Index) -> Variable:
        """Return the sum of variables; those of a vector add to known ones only."""
        known, running = self.known(names), self.running(names)
        if not isinstance(known, int):
            return Lanes(tuple(known))
        if not running:
            return known
        values = [part.value if isinstance(part, PerLane) else part for part in running]
        total: ir.Value = values[0]
        for value in values[1:]:
            total = self.builder.add(total, value)
        total = self.builder.add(total, index(known)) if known else total
        return PerLane(total) if any(isinstance(part, PerLane) for part in running) else total

    def derived(self, derived: Derived) -> Variable:
        """Return the value of a variable that a loop computes."""
        given = self.total(derived.index)
        if isinstance(given, int):
            return derived.of(given)
        if isinstance(given, Lanes):
            return Lanes(tuple(map(derived.of, given.values)))
        value = given.value if isinstance(given, PerLane) else given
        if derived.divisor != 1:
            value = self.builder.udiv(value, index(derived.divisor))
        if derived.modulus is not None:
            value = self.builder.urem(value, index(derived.modulus))
        if derived.scale != 1:
            value = self.builder.mul(value, index(derived.scale))
        if derived.start:
            value = self.builder.add(value, index(derived.start))
        return PerLane(value) if isinstance(given, PerLane) else value

    def width(self, names: Index) -> int:
        """Return the number of lanes of an index; 1 where no variable of it belongs to a vector."""
        for name in names:
            value = self.values[name]
            if isinstance(value, Lanes):
                return len(value.values)
        return 1

    def known(self, names: Index) -> int | list[int]:
        """Return the part of an index that is known at compile time: one number for all lanes, or one for each."""
        known: int = 0
        vector: Sequence[int] | None = None
        for name in names:
            value = self.values[name]
            if isinstance(value, int):
                known += value
            elif isinstance(value, Lanes):
                vector = value.values if vector is None else [*map(add, vector, value.values)]
        return known if vector is None else [known + lane for lane in vector]

    def is_running(self, name: str) -> bool:
        """Whether a variable is known at run time only."""
        return not isinstance(self.values[name], (int, Lanes))

    def running(self, names: Index) -> list[ir.Value | PerLane]:
        """Return the parts of an index that are known at run time only."""
        return [value for name in names if not isinstance(value := self.values[name], (int, Lanes))]

    def key(self, names: Index) -> object:
        """Identify the value of an index among those that occur while the same loops run."""
        known = self.known(names)
        return known if isinstance(known, int) else tuple(known), self.running_key(names)

    def running_key(self, names: Index) -> tuple[int, ...]:
        """Identify the part of an index that is known at run time only."""
        return tuple(id(v.value if isinstance(v, PerLane) else v) for v in self.running(names))
