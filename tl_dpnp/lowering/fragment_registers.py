"""How many registers the matrices of a region take at most at one time."""

from __future__ import annotations

from collections.abc import Callable

from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType

__all__ = ["most_registers"]


def most_registers(
    region: ops.Region, size: Callable[[ops.Value], int], takes_room: Callable[[ops.Operation], bool] = lambda _: False
) -> int:
    """Return the largest sum of the sizes of matrices that live together.

    A matrix lives from where it is made to its last use, one that is used in a loop that it was made outside of until
    the end of that.  What an instruction makes may take the place of what it uses for the last time, but for one that
    `takes_room`.
    """
    lives = _Lives(takes_room)
    lives.visit(region, [])
    changes = [0] * (lives.position + 2)
    for name, first in lives.first.items():
        taken = size(lives.values[name])
        changes[first] += taken
        changes[max(lives.last[name], first + 1)] -= taken
    total = most = 0
    for change in changes:
        total += change
        most = max(most, total)
    return most


class _Lives:
    """Where matrices begin and end to live, by the numbers of instructions in the order of the source."""

    def __init__(self, takes_room: Callable[[ops.Operation], bool]) -> None:
        self.takes_room = takes_room
        self.position = 0
        self.values: dict[str, ops.Value] = {}
        self.first: dict[str, int] = {}
        self.last: dict[str, int] = {}

    def visit(self, region: ops.Region, loops: list[tuple[int, list[str]]]) -> None:
        """Walk a region; `loops` are those around it: where they begin, and the matrices from outside used in them."""
        for operation in region:
            self.position += 1
            for operand in operation.operands:
                self.use(operand, loops)
            if operation.regions:
                inside: list[str] = []
                own = [*loops, (self.position, inside)] if isinstance(operation, ops.For) else loops
                for value in operation.loop_variables:
                    self.define(value)
                for inner in operation.regions:
                    self.visit(inner, own)
                self.position += 1
                for name in inside:
                    self.last[name] = self.position
            for value in operation.results:
                self.define(value, int(self.takes_room(operation)))

    def define(self, value: ops.Value, before: int = 0) -> None:
        """Note where a value is made, if it is a matrix: here, or so many instructions before."""
        if isinstance(value.type, CooperativeMatrixType):
            self.values[value.name] = value
            self.first[value.name] = self.last[value.name] = self.position - before

    def use(self, operand: ops.Operand, loops: list[tuple[int, list[str]]]) -> None:
        """Note the use of an operand, if it is a matrix of the region."""
        if isinstance(operand, ops.Value) and operand.name in self.first:
            self.last[operand.name] = self.position
            for start, inside in loops:
                if self.first[operand.name] < start:
                    inside.append(operand.name)
