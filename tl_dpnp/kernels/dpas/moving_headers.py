"""Headers of messages of blocks that an iteration moves on in place: two of them by an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.dpas.block_messages import BlockMessages

__all__ = ["Header", "MovingHeaders", "Step", "pairs_of", "step_registers"]

#: The field of a header that differs, and by how many elements.
Step = tuple[int, int]


class Header(NamedTuple):
    """A header of a message: a value, or one of two in it."""

    value: ir.Value
    number: int = 0


class MovingHeaders(NamedTuple):
    """Headers that move on by steps: pairs of them are in a value, whose step is one for both, or another value."""

    headers: tuple[Header, ...]
    moves: tuple[tuple[ir.Value, ir.Value | Step], ...]

    @classmethod
    def of(cls, messages: BlockMessages, headers: Sequence[ir.Value], steps: Sequence[Step]) -> MovingHeaders:
        """Return headers that move by some steps; not where messages are emulated.

        Those that move alike are paired first: their step takes a register, that of others two.
        """
        found: dict[int, Header] = {}
        moves: list[tuple[ir.Value, ir.Value | Step]] = []
        values: dict[tuple[Step, ...], ir.Value] = {}
        for pair in pairs_of(steps):
            if len(pair) == 1:
                moves.append((messages.movable(headers[pair[0]]), steps[pair[0]]))
            else:
                both = tuple(dict.fromkeys(steps[place] for place in pair))
                if both not in values:
                    # Compilers know what is in a step, and would make it anew in each iteration.
                    each = [messages.step(*step) for step in both]
                    values[both] = messages.movable(each[0]) if len(each) == 1 else messages.together(each)
                moves.append((messages.together([headers[place] for place in pair]), values[both]))
            found |= {place: Header(moves[-1][0], number) for number, place in enumerate(pair)}
        return cls(tuple(found[place] for place in range(len(headers))), tuple(moves))

    def move(self, messages: BlockMessages) -> None:
        """Go on by the steps."""
        for value, step in self.moves:
            if isinstance(step, tuple):
                messages.move(value, *step)
            else:
                messages.move_together(value, step)


def step_registers(steps: Sequence[Step]) -> int:
    """Return the registers that steps take beside headers that move by them."""
    return sum(map(len, {tuple(dict.fromkeys(steps[place] for place in pair)) for pair in pairs_of(steps) if pair[1:]}))


def pairs_of(steps: Sequence[Step]) -> list[tuple[int, ...]]:
    """Return the places of headers by two, and that of a last one: first of those whose steps are the same."""
    alike: dict[Step, list[int]] = {}
    for place, step in enumerate(steps):
        alike.setdefault(step, []).append(place)
    pairs = [pair for places in alike.values() for pair in zip(places[::2], places[1::2], strict=False)]
    single = [places[-1] for places in alike.values() if len(places) % 2]
    return [*pairs, *(tuple(single[number : number + 2]) for number in range(0, len(single), 2))]
