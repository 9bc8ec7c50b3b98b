"""What loops carry from one iteration to the next, for all iterations at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tl_dpnp.language import ops
from tl_dpnp.lowering.raising import numbers
from tl_dpnp.lowering.raising.numbers import Number, Unraised, along, length_of
from tl_dpnp.lowering.raising.tiles import Carried, Tile, TileSum, is_sum
from tl_dpnp.scalars import ScalarType

__all__ = ["Loop"]


class Loop:
    """What a loop carries: values of each iteration, of sums what is added to it by all of them."""

    def __init__(self, operation: ops.For, axis: int, count: Number, length: int, initial: Sequence[Any]) -> None:
        self.operation, self.axis, self.count, self.length, self.initial = operation, axis, count, length, initial
        self.carried = [*self._first()]
        self._steps: list[Number] = [None] * len(initial)

    def _first(self) -> Iterator[Any]:
        """Yield what is carried as far as it is known at first."""
        for value, first in zip(self.operation.carried, self.initial, strict=True):
            if isinstance(value.type, ScalarType):
                yield first
            else:
                yield TileSum(base=Carried(value.name)) if is_sum(value) else Carried(value.name)

    def learn(self, yielded: Sequence[Any]) -> bool:
        """Take note of what the loop yields; return whether it has to be run again with that.

        Places of tiles may depend on scalars, which therefore come first.
        """
        if self.length == 0:
            return False
        places = [*enumerate(zip(yielded, self.initial, self.carried, strict=True))]
        steps = [self._step(number, initial, carried, value) for number, (value, initial, carried) in places
                 if not isinstance(carried, TileSum | Tile | Carried) and carried is not None]
        if any(steps):
            return True
        is_new = False
        for number, (value, initial, carried) in places:
            if isinstance(carried, Carried) and value is carried:
                self.carried[number], is_new = initial, True
            elif isinstance(carried, Carried) and isinstance(value, Tile) and isinstance(initial, Tile):
                self.carried[number], is_new = self._tile(initial, value, is_last=False), True
        return is_new

    def _step(self, number: int, initial: Number, carried: Number, value: Number) -> bool:
        """Take note of what is added to a scalar in each iteration; return whether that is new."""
        if value is None or carried is None or initial is None or self.count is None or value.dtype == np.bool_:
            self.carried[number] = None
            return True
        known = self._steps[number]
        if known is not None:
            if np.any(value != carried + known):
                raise Unraised("a loop carries a number that does not grow by the same in each iteration")
            return False
        step = value - carried
        if length_of(step, self.axis) > 1:
            raise Unraised("a loop carries a number that does not grow by the same in each iteration")
        self._steps[number] = step
        iteration = along(self.axis, self.length)
        self.carried[number] = (initial + step * iteration).astype(value.dtype)
        return True

    def output(self, number: int, value: Any) -> Any:
        """Return what a carried value is behind the loop, of which the last iteration yields `value`."""
        initial, carried = self.initial[number], self.carried[number]
        if self.length == 0:
            return initial
        if isinstance(carried, TileSum):
            own = isinstance(value, TileSum) and value.base is carried.base and value.alpha is None is value.beta
            if not own or not isinstance(initial, TileSum) or initial.alpha is not None or initial.is_rounded or (
                value.is_rounded or any(self.axis not in term.loops for term in value.terms)
            ):
                raise Unraised("a loop does more with sums than to add products")
            return replace(initial, terms=(*initial.terms, *value.terms))
        if isinstance(value, Tile) and isinstance(initial, Tile):
            return self._tile(initial, value, is_last=True)
        if isinstance(carried, Carried):
            return carried  # of a loop further out
        step = self._steps[number]
        if step is None or self.count is None:
            return None
        return (initial + step * self.count).astype(initial.dtype)

    def _tile(self, first: Tile, later: Tile, *, is_last: bool) -> Tile:
        """Return the tile that each iteration is given, or that is left behind the loop."""
        facts = [(tile.fact, tile.access.type, id(tile.view.slice)) for tile in (first, later)]
        if facts[0] != facts[1]:
            raise Unraised("a loop carries parts of several matrices by turns")
        places: list[Number] = []
        for one, other in zip(first.indices, later.indices, strict=True):
            if one is None or other is None or self.count is None:
                places.append(None)
                continue
            if one.shape == other.shape and np.array_equal(one, other):
                places.append(one)
                continue
            all_ = numbers.sequence(self.axis, self.length, one, other)
            place = -(self.axis + 1)
            if not is_last:
                places.append(np.take(all_, np.arange(self.length), axis=place))
            elif self.count.size == 1:
                places.append(np.take(all_, [self.length], axis=place))
            else:
                raise Unraised("a tile is carried out of a loop that some sub-groups leave sooner")
        return replace(first, indices=(places[0], places[1]))
