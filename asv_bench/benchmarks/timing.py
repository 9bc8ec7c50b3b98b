"""Timing in turns: everything that is compared is timed in the same rounds, so that noise meets all alike."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Contestant", "Quartiles", "geometric_mean", "interleave", "medians", "quartiles"]

#: How long a contestant is called before it is timed, in seconds and in calls: tl_dpnp takes a way of its own for short
#: calls after 24 of them.
_WARM_UP, _LEAST_CALLS = 0.03, 3


@dataclass(frozen=True)
class Contestant:
    """Something to time: a call does the work of the benchmark `passes` times, or a part of it."""

    call: Callable[[], object]
    passes: float = 1

    def time(self, calls: int, clock: Callable[[], float]) -> float:
        """Return the seconds of so many calls; the first of several is made twice and counts once, to warm up."""
        call = self.call
        if calls > 1:
            call()
        start = clock()
        for _ in range(calls):
            call()
        return clock() - start


@dataclass(frozen=True)
class Quartiles:
    """The median of a number of values, and the quartiles around it as its spread."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} [{self.low:.2f}, {self.high:.2f}]"


def quartiles(values: Sequence[float]) -> Quartiles:
    """Return the quartiles of one value or more."""
    if len(values) == 1:
        return Quartiles(values[0], values[0], values[0])
    return Quartiles(*statistics.quantiles(values, n=4, method="inclusive"))


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers; raises `ValueError` where there are none."""
    logarithms = [math.log(value) for value in values]
    if not logarithms:
        raise ValueError("the geometric mean of no numbers")
    return math.exp(statistics.fmean(logarithms))


def interleave(
    contestants: Mapping[str, Contestant],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
    block: float = 1e-3,
    least: int = 5,
    pause: float = 0.0,
    before: Callable[[], object] = lambda: None,
) -> dict[str, list[float]]:
    """Return the seconds for one pass of each contestant in each round, by `clock`.

    In a round each contestant runs for at least `block` seconds, back to back.  The order is another one in each round,
    drawn at random but the same in each run: what one leaves behind (lines to write back, threads to wake up) slows the
    next one down, and so meets all alike.  There are at least `least` rounds, and more until `seconds` of wall-clock
    time have passed.  Before the first one, each is called for a moment, so that none compiles or loads anything later.
    Threads of OpenBLAS and OpenMP spin for a while when they have nothing to do; `pause` seconds before each turn keep
    that from the next contestant.
    """
    calls = {name: max(1, math.ceil(block / _warmed_up(contestant))) for name, contestant in contestants.items()}
    times: dict[str, list[float]] = {name: [] for name in contestants}
    order, draw = list(contestants.items()), random.Random(0)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < least or time.perf_counter() < end:
        draw.shuffle(order)
        for name, contestant in order:
            _be_busy(pause)
            before()
            times[name].append(contestant.time(calls[name], clock) / (calls[name] * contestant.passes))
        rounds += 1
    return times


def _warmed_up(contestant: Contestant) -> float:
    """Call a contestant for a moment, and return the seconds of its shortest call.

    Calls that are disturbed, or load something, count as the shortest one: one of them can be longer than the moment.
    """
    shortest, count = math.inf, 0
    while count < _LEAST_CALLS or count * shortest < _WARM_UP:
        start = time.perf_counter()
        contestant.call()
        shortest = min(shortest, max(time.perf_counter() - start, 1e-9))
        count += 1
    return shortest


def _be_busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def medians(functions: Sequence[Callable[[], object]], seconds: float = 3.0) -> list[float]:
    """Return the median time of each function in seconds.  They take turns for about `seconds` in all."""
    times = interleave({str(position): Contestant(function) for position, function in enumerate(functions)}, seconds,
                       block=0.0)
    return [statistics.median(measured) for measured in times.values()]
