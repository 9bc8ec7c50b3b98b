"""Malformed text: each is an error with a place, or a program that prints and parses to itself, and soon."""

from __future__ import annotations

import functools
import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import Verdict
from tests.diagnostics.mutations import mutate
from tests.diagnostics.test_corpus import FIXED, MALFORMED, read
from tests.diagnostics.test_fuzz import EXAMPLES, outcome
from tests.strategies.programs import random_program
from tests.strategies.writer import ALL_TYPES, Features
from tl_dpnp.language import print_module

__all__ = ["CAMPAIGN", "run"]

#: Random programs that the others take tokens from.
RANDOM = 60
#: A text may take so many times as long as a right program of its length, and these seconds more.
TIMES, SECONDS = 20, 0.5


def written(rng: random.Random, features: Features) -> str:
    """Return a random program in a random dialect."""
    dialect = rng.choice(("0.3", "0.4"))
    features = replace(features, newer=dialect == "0.4")
    return print_module(random_program(rng.getrandbits(32), features).module, dialect)


@functools.cache
def sources() -> dict[str, list[str]]:
    """Return the programs to damage, by kind; those of the last are random and drawn anew for each case."""
    return {
        "examples": EXAMPLES, "corrected": [read(name) for name in FIXED], "malformed": [*map(read, MALFORMED)],
        "random": [written(random.Random(number), Features()) for number in range(RANDOM)],
    }


@functools.cache
def everything() -> list[str]:
    """Return all programs."""
    return [text for texts in sources().values() for text in texts]


@functools.cache
def pace() -> float:
    """Return the seconds that one character of a right program takes to parse and print: the best of some tries."""
    texts = sources()["random"][:5]
    outcome(texts[0])

    def tried() -> float:
        start = time.process_time()
        for text in texts:
            outcome(text)
        return time.process_time() - start

    return min(tried() for _ in range(3)) / sum(map(len, texts))


def make(kind: str, seed: int) -> str:
    """Return the damaged text of a seed."""
    rng = random.Random(seed)
    if kind == "random":
        source = written(rng, Features(types=ALL_TYPES))
    else:
        source = rng.choice(sources()[kind])
    return mutate(source, everything(), rng)


def check(kind: str, case: str) -> Verdict:
    """Parse the text; what is slow is tried again, since the machine may have been."""
    allowed = TIMES * pace() * len(case) + SECONDS
    for _ in range(2):
        start = time.process_time()
        label = outcome(case)
        seconds = time.process_time() - start
        if seconds <= allowed:
            return Verdict(labels=(label,))
    return Verdict(f"slow: {seconds:.2f} s for {len(case)} characters, where {allowed:.2f} s are allowed")


def simpler(kind: str, case: str) -> Iterator[str]:
    """Yield the text without some of its lines, then of its tokens, then of its characters, most of them first."""
    for pieces in (case.splitlines(keepends=True), re.findall(r"\w+|\s+|.", case, re.DOTALL), list(case)):
        size = len(pieces) // 2
        while size:
            for start in range(0, len(pieces), size):
                yield "".join(pieces[:start] + pieces[start + size :])
            size //= 2


def text(kind: str, case: str) -> str:
    """Return the text as Python writes it, since it may contain anything."""
    return repr(case)


CAMPAIGN = Campaign("text", ("examples", "corrected", "malformed", "random"), make, check, simpler, text, limit=30.0)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None
) -> Outcome:
    """Run the campaign."""
    return run_campaign(CAMPAIGN, seed, minutes, count, kind=kind, workers=workers)
