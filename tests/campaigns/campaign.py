"""A campaign of independent cases: tried in worker processes, counted by kind, the failing ones made small."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.campaigns.outcome import Outcome, case_seeds
from tests.campaigns.worker import Verdict, Worker

__all__ = ["Campaign", "run_campaign"]

#: Failures that are made small, and the seconds that each may take; after so many the campaign ends.
SHRUNK, SHRINKING, MOST_FAILURES = 3, 120.0, 50
#: Seconds between lines that say how far a campaign is.
REPORTING = 60.0


@dataclass(frozen=True)
class Campaign:
    """What to try: `module` has this in ``CAMPAIGN``, for the workers.

    `make` builds the case of a kind and a seed; it must be picklable.  `check` runs one in a worker and returns a
    `Verdict`.  `smaller` yields simpler cases than a failing one, the simplest first, `text` shows one to a reader.
    A case that has not ended after `limit` seconds hangs.  `kinds` take turns.  `options` are what the command that
    repeats a case needs besides.
    """

    name: str
    kinds: tuple[str, ...]
    make: Callable[[str, int], Any]
    check: Callable[[str, Any], Verdict]
    smaller: Callable[[str, Any], Iterable[Any]]
    text: Callable[[str, Any], str]
    limit: float = 120.0
    module: str = ""
    options: str = ""

    @property
    def source(self) -> str:
        """The module that a worker imports."""
        return self.module or f"tests.campaigns.{self.name}"


@dataclass
class _Failure:
    kind: str
    seed: int
    what: str
    reduced: str = ""

    @property
    def sort(self) -> str:
        return _sort(Verdict(self.what))

    def text(self, campaign: Campaign) -> str:
        parts = [f"repeat with: {_command(campaign, self.kind, self.seed)}", self.what.rstrip()]
        return "\n".join([*parts, self.reduced] if self.reduced else parts)


def _sort(verdict: Verdict) -> str:
    """Return how a case failed, in one word: a smaller one must fail in the same way."""
    return verdict.failure.partition(":")[0]


def _command(campaign: Campaign, kind: str, seed: int) -> str:
    return f"python -m tests.campaigns {campaign.name} --kind {kind} --seed {seed} --count 1{campaign.options}"


def run_campaign(
    campaign: Campaign, seed: int, minutes: float, count: int | None = None, *, kind: str | None = None,
    workers: int | None = None, pythons: dict[str, str] | None = None, without: dict[str, str] | None = None,
) -> Outcome:
    """Try cases until `minutes` are over or `count` are done, then make the first failing ones small.

    `pythons` has the interpreter of kinds that need one of their own; `without` the kinds that cannot be tried here,
    and why: a note says so.
    """
    if kind is not None and kind not in campaign.kinds:
        raise SystemExit(f"{campaign.name} has no kind {kind!r}; it has {', '.join(campaign.kinds)}")
    chosen = [kind] if kind else list(campaign.kinds)
    kinds = [name for name in chosen if name not in (without or {})]
    notes = [f"{name} skipped: {without[name]}" for name in chosen if without and name in without]
    if not kinds:
        return Outcome(0, (), tuple(notes))
    hunt = _Hunt(campaign, pythons or {}, seed, kinds, count, time.monotonic() + 60 * minutes)
    hunt.run(workers or os.cpu_count() or 1)
    if not hunt.interrupted:
        hunt.shrink()
    return Outcome(
        sum(hunt.tried.values()), tuple(failure.text(campaign) for failure in hunt.failures),
        (*notes, *hunt.notes()),
    )


class _Hunt:
    """One run of a campaign: threads that each keep a worker process busy."""

    def __init__(self, campaign: Campaign, pythons: dict[str, str], seed: int, kinds: list[str], count: int | None,
                 end: float) -> None:
        self.campaign, self.pythons, self.end = campaign, pythons, end
        self.cases: Iterator[tuple[str, int]] = itertools.islice(
            zip(itertools.cycle(kinds), case_seeds(seed), strict=False), count)
        self.tried: Counter[str] = Counter()
        self.labels: Counter[tuple[str, str]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.failures: list[_Failure] = []
        self.interrupted = False
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._errors: list[BaseException] = []

    def run(self, workers: int) -> None:
        """Try cases with so many workers until there are no more or the time is over; Ctrl-C ends it early."""
        threads = [threading.Thread(target=self._loop, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        reported = time.monotonic()
        try:
            while any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(0.1)
                if time.monotonic() - reported > REPORTING:
                    reported = time.monotonic()
                    print(f"{self.campaign.name}: {sum(self.tried.values())} tried, {len(self.failures)} failed",
                          flush=True)
        except KeyboardInterrupt:
            self.interrupted = True
            for worker in self._workers:
                worker.kill()
            for thread in threads:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def _loop(self) -> None:
        own: dict[str | None, Worker] = {}
        try:
            while not self.interrupted and time.monotonic() < self.end and len(self.failures) < MOST_FAILURES:
                with self._lock:
                    case = next(self.cases, None)
                if case is None:
                    break
                self._try(own, *case)
        except BaseException as error:  # shown by the main thread
            self._errors.append(error)
        finally:
            for worker in own.values():
                worker.stop()

    def _worker(self, own: dict[str | None, Worker], kind: str) -> Worker:
        python = self.pythons.get(kind)
        if python not in own:
            own[python] = Worker(self.campaign.source, self.campaign.limit, python)
            self._workers.append(own[python])
        return own[python]

    def _try(self, own: dict[str | None, Worker], kind: str, seed: int) -> None:
        verdict = self._worker(own, kind).verdict(kind, seed)
        if self.interrupted:
            return
        with self._lock:
            self.tried[kind] += 1
            self.seconds[kind] += verdict.seconds
            self.labels.update((kind, label) for label in verdict.labels)
            if verdict.failure:
                self.failures.append(_Failure(kind, seed, verdict.failure))
                print(f"{self.campaign.name}: failed: {_command(self.campaign, kind, seed)}", flush=True)

    def shrink(self) -> None:
        """Make the first failing cases small, in a worker process of their own."""
        for failure in self.failures[:SHRUNK]:
            limit = min(self.campaign.limit, SHRINKING / 4) if failure.sort == "hung" else self.campaign.limit
            worker = Worker(self.campaign.source, limit, self.pythons.get(failure.kind))
            try:
                failure.reduced = self._shrunk(failure, worker)
            finally:
                worker.stop()

    def _shrunk(self, failure: _Failure, worker: Worker) -> str:
        campaign, kind = self.campaign, failure.kind

        def fails(case: Any) -> bool:
            return time.monotonic() < end and _sort(worker.verdict(kind, case)) == failure.sort

        case, end, steps = campaign.make(kind, failure.seed), time.monotonic() + SHRINKING, 0
        if not fails(case):
            return f"alone, this case does not fail like that:\n{campaign.text(kind, case)}"
        while (found := next(filter(fails, self._candidates(kind, case, end)), None)) is not None:
            case, steps = found, steps + 1
        return f"reduced in {steps} steps to:\n{campaign.text(kind, case)}"

    def _candidates(self, kind: str, case: Any, end: float) -> Iterator[Any]:
        return itertools.takewhile(lambda _: time.monotonic() < end, self.campaign.smaller(kind, case))

    def notes(self) -> Iterator[str]:
        """Say how many cases of each kind there were, what they came to, and how long one took."""
        for kind, tried in self.tried.items():
            labels = ", ".join(f"{number} {label}" for (of, label), number in sorted(self.labels.items()) if of == kind)
            each = f"{self.seconds[kind] / tried:.4f} s of a core each"
            yield f"{kind}: {tried} tried{', ' + labels if labels else ''}; {each}"
        restarts = sum(worker.restarts for worker in self._workers)
        if restarts:
            yield f"worker processes were replaced {restarts} times"
