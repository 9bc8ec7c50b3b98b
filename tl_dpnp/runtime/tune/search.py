"""The search of tuning: which of several candidates is fastest, decided by interleaved timing within a budget.

Candidates are timed in rounds, A B C … A B C …, together with the default, so that whatever else the machine does
meets all of them, and compared by the median of their ratios to the default of the same round.  After every few
rounds the slower half drops out (successive halving).  In the end the best and the default meet in rounds of their
own; the default stays unless it clearly loses these, since the best of many noisy timings looks better than it is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from typing import Generic, TypeVar

from tl_dpnp.errors import TLError
from tl_dpnp.records import dataclass

__all__ = ["Search", "Step", "Trial"]

T = TypeVar("T", bound=Hashable)

#: By how much the median of the final ratios must be below 1, and the part of the rounds that must be won.
_MARGIN = 0.02
_ROUNDS_WON = 0.75
#: Rounds of the final at least and at most.
_LEAST_FINAL, _MOST_FINAL = 7, 61
#: Rounds before half of the candidates drop out, and how often that is repeated, at most.
_ROUNDS_OF_A_HEAT, _MOST_HEATS = 5, 6
#: The part of the budget that is kept for the final, and that of a step in which candidates are compiled.
_FINAL, _COMPILATION = 0.25, 0.7
#: Seconds that compiling a candidate is thought to take before one was compiled.
_ASSUMED_COMPILATION = 0.3
#: Candidates that are compiled at most: drivers keep memory for each program for as long as the process lives.
_MOST_CANDIDATES = 48


@dataclass
class Trial:
    """What is known of one candidate: seconds per call, and their ratios to the default in the same rounds.

    `final` are the ratios of the final rounds.  `error` says why the candidate could not be compiled.
    """

    seconds: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    error: str | None = None

    @property
    def median(self) -> float:
        """The median of the seconds per call; infinite where there are none."""
        return statistics.median(self.seconds) if self.seconds else float("inf")

    @property
    def ratio(self) -> float:
        """The median of the ratios, of the final rounds where there are any; infinite where there are none."""
        ratios = self.final or self.ratios
        return statistics.median(ratios) if ratios else float("inf")


@dataclass(frozen=True)
class Step(Generic[T]):
    """One choice of a search; `neighbours` returns what to compare the best so far with, most promising first."""

    name: str
    neighbours: Callable[[T], Sequence[T]]


class Search(Generic[T]):
    """Finds the fastest candidate.

    `build` makes a candidate ready or raises `TLError`, `sample` times it and returns seconds per call, `clock` returns
    seconds; `watch` is called before each compilation and each round with what is going on.
    """

    def __init__(
        self,
        default: T,
        build: Callable[[T], None],
        sample: Callable[[T], float],
        clock: Callable[[], float],
        budget: float,
        watch: Callable[[str], None],
    ) -> None:
        self.default = default
        self.trials: dict[T, Trial] = {default: Trial()}
        self.interrupted = False
        self._build, self._sample, self._clock, self._watch = build, sample, clock, watch
        self._end = clock() + budget
        self._start_of_final = self._end - _FINAL * budget
        self._compiling = _ASSUMED_COMPILATION
        self._sampling = 0.0
        self._rounds = 0

    def run(self, steps: Sequence[Step[T]]) -> T:
        """Take the steps and return the best candidate, which is the default if none clearly beats that.

        An interrupt (Ctrl-C) ends the search, and the best so far is judged by what is known.
        """
        best = self.default
        try:
            self._build(best)
            self._timed(best)  # warms up: pages, caches, the clock of the processor
            for number, step in enumerate(steps):
                time_left = self._start_of_final - self._clock()
                if time_left > 0:
                    # The shares fall evenly: early steps have more to choose from, and more work to speed up.
                    best = self._take(step, best, 2 * time_left / (len(steps) - number + 1))
            if best != self.default:
                while len(self.trials[best].final) < _MOST_FINAL and self._round("final", [best], self._end, True):
                    pass
        except KeyboardInterrupt:
            self.interrupted = True
            best = min(self.trials, key=lambda candidate: self.trials[candidate].ratio)
        return best if best != self.default and _wins(self.trials[best]) else self.default

    def _take(self, step: Step[T], best: T, share: float) -> T:
        """Compare the candidates of a step with the best so far for `share` seconds; return the new best."""
        start = self._clock()
        alive = self._compile(step, best, share)
        # A last compilation may have taken longer than was thought.
        end = min(self._start_of_final, max(start + share, self._clock() + (1 - _COMPILATION) * share))
        if best != self.default:
            alive.append(best)
        before = {candidate: len(self.trials[candidate].ratios) for candidate in alive}

        def ratio(candidate: T) -> float:
            """Return how the candidate did in this step."""
            ratios = self.trials[candidate].ratios[before[candidate]:]
            return statistics.median(ratios) if ratios else float("inf")

        heats = 0
        while alive and heats < _MOST_HEATS:
            rounds = sum(self._round(step.name, alive, end) for _ in range(_ROUNDS_OF_A_HEAT))
            if rounds:
                alive = sorted(alive, key=ratio)[: max(1, (len(alive) + 1) // 2)]
            if rounds < _ROUNDS_OF_A_HEAT:
                break
            heats += 1
        return alive[0] if alive and ratio(alive[0]) < 1 else self.default

    def _compile(self, step: Step[T], best: T, share: float) -> list[T]:
        """Build as many new candidates as there is time for, in their order, and return them."""
        ready: list[T] = []
        candidates = [candidate for candidate in step.neighbours(best) if candidate not in self.trials]
        begin = self._clock()
        for number, candidate in enumerate(candidates):
            start = self._clock()
            heat = _ROUNDS_OF_A_HEAT * (len(ready) + 3) * self._sampling
            compiled = start - begin + self._compiling
            if compiled > _COMPILATION * share or compiled + heat > share or len(self.trials) > _MOST_CANDIDATES:
                break
            self._watch(f"{step.name}: compiling {number + 1} of {len(candidates)}")
            trial = self.trials[candidate] = Trial()
            try:
                self._build(candidate)
            except TLError as error:
                trial.error = error.message
            else:
                ready.append(candidate)
            self._compiling = max(self._clock() - start, self._compiling / 2)
        return ready

    def _round(self, name: str, candidates: Sequence[T], end: float, final: bool = False) -> bool:
        """Time the default and the candidates once each, in an order that turns; return whether there was time."""
        order = [self.default, *candidates]
        if self._clock() + len(order) * self._sampling > end:
            return False
        self._watch(f"{name}: {len(candidates)} left" if not final else "best against default")
        self._rounds += 1
        if self._rounds % 2:
            order.reverse()
        seconds = {candidate: self._timed(candidate) for candidate in order}
        for candidate, value in seconds.items():
            trial = self.trials[candidate]
            trial.seconds.append(value)
            if candidate != self.default:
                (trial.final if final else trial.ratios).append(value / seconds[self.default])
        return True

    def _timed(self, candidate: T) -> float:
        start = self._clock()
        seconds = self._sample(candidate)
        # A sample takes longer than what it times: data are restored.
        self._sampling = max(self._clock() - start, self._sampling * 0.75)
        return seconds


def _wins(trial: Trial) -> bool:
    """Return whether a candidate is clearly faster than the default."""
    ratios = trial.final or trial.ratios
    won = sum(ratio < 1 for ratio in ratios)
    return len(ratios) >= _LEAST_FINAL and trial.ratio <= 1 - _MARGIN and won >= _ROUNDS_WON * len(ratios)
