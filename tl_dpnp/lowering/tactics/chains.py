"""Threads of a team compute products one after another in registers: which tiles they have, and teams a block.

They are those with the fewest cycles by an estimate.  Each product has tiles of its own; where fewer threads have one,
the others wait.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.kernels.register_product import RegisterProduct
from tl_dpnp.lowering.tactics.registers import (
    Problem,
    counts_of_teams,
    instructions_of_thread,
    loads_of_thread,
    registers_of,
)
from tl_dpnp.lowering.tactics.turns import Turn
from tl_dpnp.records import dataclass
from tl_dpnp.target.multiprocessor import LANES, Multiprocessor

__all__ = ["Chain", "ChainPlan", "plans_of"]

#: Threads of a team and of a block at most, and its teams (CUDA C++ Programming Guide, "Technical Specifications per
#: Compute Capability").
_THREADS, _BLOCK, _TEAMS = 256, 512, 64
#: Tiles of a product whose accesses to shared memory are counted, and threads and teams for which they are.
_LOOKED_AT, _TRIED = 3, 32


@dataclass(frozen=True)
class Chain:
    """The products of a function in order, and how often each is computed, with the waits of threads between them."""

    problems: tuple[Problem, ...]
    times: tuple[int, ...]
    waits: int

    @functools.cached_property
    def different(self) -> list[Problem]:
        """Those of the products that differ."""
        return list(dict.fromkeys(self.problems))

    @functools.cached_property
    def places(self) -> list[int]:
        """For each product its place among those that differ."""
        return [self.different.index(problem) for problem in self.problems]


@dataclass(frozen=True)
class ChainPlan:
    """The products of a team of so many threads, the teams of a block, and the cycles for a work-group."""

    products: tuple[RegisterProduct, ...]
    threads: int
    teams: int
    cycles: float


class _Choice(NamedTuple):
    """Tiles of a product, what they take a warp, and how often it accesses shared memory, or at least does."""

    instructions: float
    accesses: float
    product: RegisterProduct

    def time(self, unit: Multiprocessor) -> float:
        """The cycles of a multiprocessor that a warp takes."""
        issuing = self.instructions / unit.instructions
        return max(issuing, self.accesses) + unit.exposed * min(issuing, self.accesses)


def plans_of(
    chain: Chain, unit: Multiprocessor, memory: Callable[[int], int], most_memory: int, waits: bool,
    least: float = math.inf,
) -> Iterator[ChainPlan]:
    """Yield tiles and teams, each with fewer cycles than those before, and than `least`.

    `memory` gives the local memory of a block with so many teams.  In a ring that `waits` copies and products of a
    block take turns.
    """
    unit = replace(unit, exposed=unit.exposed_of_products, waited=unit.waited_of_products)
    memory = functools.cache(memory)
    candidates: list[tuple[float, int, int, int, list[list[_Choice]]]] = []
    for threads, choices in _choices(chain, unit):
        first = [each[0] for each in choices]
        for teams in counts_of_teams(max(1, min(_BLOCK // threads, _TEAMS)), threads):
            if memory(teams) <= most_memory:
                cycles = _cycles(chain, first, threads, teams, unit, memory(teams), waits)
                candidates.append((cycles, len(candidates), threads, teams, choices))
    for bound, _, threads, teams, choices in sorted(candidates, key=lambda each: each[:2])[:_TRIED]:
        if bound >= least:
            break
        chosen = [_chosen(problem, some, teams, unit) for problem, some in zip(chain.different, choices, strict=True)]
        cycles = _cycles(chain, chosen, threads, teams, unit, memory(teams), waits)
        if cycles < least:
            least = cycles
            products = [chosen[place].product for place in chain.places]
            yield ChainPlan(tuple(replace(each, in_line=True, is_partial=each.threads != threads) for each in products),
                            threads, teams, cycles)


def _choices(chain: Chain, unit: Multiprocessor) -> Iterator[tuple[int, list[list[_Choice]]]]:
    """Yield threads of a team, and for each different product some tiles for no more than those, the fastest first."""
    every = [sorted((_choice(problem, product, unit) for product in problem.products()),
                    key=lambda each: each.time(unit)) for problem in chain.different]
    for threads in sorted({each.product.threads for choices in every for each in choices}):
        if threads <= _THREADS:
            fitting = [list(itertools.islice((each for each in choices if each.product.threads <= threads), _LOOKED_AT))
                       for choices in every]
            if all(fitting):
                yield threads, fitting


def _choice(problem: Problem, product: RegisterProduct, unit: Multiprocessor) -> _Choice:
    """Return the tiles of a product as they are without bank conflicts."""
    height, width = product.tile
    stores = height * width / (product.rows if problem.strides[2][0] == 1 else 1)
    loads = loads_of_thread(problem, product) + (1 + problem.is_read) * stores
    return _Choice(instructions_of_thread(problem, product, unit), loads, product)


def _chosen(problem: Problem, choices: Sequence[_Choice], teams: int, unit: Multiprocessor) -> _Choice:
    """Return the fastest tiles of a product by the accesses to shared memory, as they are counted."""
    counted = [each._replace(accesses=problem.accesses(each.product, teams, unit)) for each in choices]
    return min(counted, key=lambda each: each.time(unit))


def _cycles(
    chain: Chain, chosen: Sequence[_Choice], threads: int, teams: int, unit: Multiprocessor, memory: int, waits: bool
) -> float:
    """Return the cycles for a work-group."""
    done = [(chosen[place], times) for place, times in zip(chain.places, chain.times, strict=True)]
    turn = Turn(
        unit=unit, teams=teams, warps=-(-threads * teams // LANES),
        registers=max(registers_of(each.product) for each in chosen), memory=memory,
        moved=chain.problems[0].moved,
        instructions=unit.turn_instructions + sum(
            times * (each.instructions + unit.product_instructions) for each, times in done),
        between=unit.turn + chain.waits * unit.product, waits=waits)
    return turn.cycles(sum(times * each.accesses for each, times in done)) if turn.blocks > 0 else math.inf
